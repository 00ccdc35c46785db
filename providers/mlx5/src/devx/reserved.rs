//! Numbers of queue pairs that the device gives to nobody.

use std::ops::Range;

use uverbs_core::{DestroyError, Error, ErrorKind, Op, Result};

use super::{Devx, DevxObject};
use crate::prm::{Field, Mailbox, field, opcode};

/// The second group of general capabilities, and a field of it: log₂ of the numbers of an object.
const MORE_GENERAL: u16 = 0x20;
const LOG_NUMBERS: Field = field(0x10, 12, 8).at(0x10);

const OBJECT_TYPE: Field = field(0x04, 15, 0);
const LOG_RANGE: Field = field(0x0c, 28, 24);
const LENGTH: usize = 0x20;

/// Consecutive numbers of queue pairs that no queue pair gets as long as this lives: for protocols
/// that make the number of a connection known before its queue pair exists.
#[derive(Debug)]
pub struct ReservedNumbers {
    object: DevxObject,
    count: u32,
}

impl Devx {
    /// `mlx5dv_reserved_qpn_alloc`—reserves as many numbers of queue pairs as the device gives at
    /// once.
    ///
    /// Three system calls; they wait for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the device does not reserve numbers. Otherwise the
    /// errno for the firmware's status.
    #[doc(alias = "mlx5dv_reserved_qpn_alloc")]
    pub fn reserve_numbers(&self) -> Result<ReservedNumbers> {
        let kind = opcode::RESERVED_NUMBERS;
        let caps = self.general_caps()?;
        if caps.general_objects >> kind & 1 == 0 {
            return Err(Error::new(Op::DevxCreate, ErrorKind::Unsupported)
                .fact("device_lacks", "reserved numbers of queue pairs"));
        }
        let log = self.capabilities(MORE_GENERAL)?.get(LOG_NUMBERS);
        let mut create = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, LENGTH);
        create.set(OBJECT_TYPE, kind.into());
        create.set(LOG_RANGE, log);
        let object = self.create_harmless(&create, 16, [])?;
        Ok(ReservedNumbers {
            object,
            count: 1_u32.checked_shl(log).unwrap_or(1),
        })
    }
}

impl ReservedNumbers {
    /// The numbers.
    pub fn numbers(&self) -> Range<u32> {
        let first = self.object.id();
        first..first.saturating_add(self.count)
    }

    /// `mlx5dv_reserved_qpn_dealloc`—gives all of them back. Dropping it does the same.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// The errno for the firmware's status. It is returned, unless it is unknown whether it is
    /// gone.
    #[doc(alias = "mlx5dv_reserved_qpn_dealloc")]
    pub fn destroy(self) -> Result<(), DestroyError<Self>> {
        let Self { object, count } = self;
        let again = |object| Self { object, count };
        object.destroy().map_err(|refused| refused.map(again))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uverbs_uapi::mlx5_user_ioctl_cmds::{
        MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT,
        MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
    };

    use super::*;
    use crate::prm::CAP_REPLY_LEN;
    use crate::tests::scripted::Scripted;

    /// The script answers both queries of capabilities alike.
    fn answer(kernel: &Scripted, change: impl FnOnce(&mut Mailbox)) {
        let mut caps = Mailbox::new(CAP_REPLY_LEN);
        change(&mut caps);
        kernel.answer(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, caps.as_bytes());
    }

    #[test]
    fn numbers_are_those_that_the_firmware_gives() {
        let (kernel, file) = Scripted::new();
        // Bit 0x2c of 64 at 0x80, and 8 numbers an object.
        answer(&kernel, |caps| {
            caps.set(field(0x90, 31, 0), 1 << (0x2c - 32));
            caps.set(LOG_NUMBERS, 3);
        });
        let mut created = [0; 16];
        created[8..12].copy_from_slice(&0x4400_u32.to_be_bytes());
        kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, &created);
        let reserved = Devx::new(&file).reserve_numbers().unwrap();
        assert_eq!(reserved.numbers(), 0x4400..0x4408);
        let sent = kernel.take_inputs(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
        let sent = sent.into_iter().find(|bytes| !bytes.is_empty()).unwrap();
        let mut expected = [0; LENGTH];
        expected[..2].copy_from_slice(&[0x0a, 0]);
        expected[7] = 0x2c;
        expected[12] = 3;
        assert_eq!(sent, expected);
        reserved.destroy().unwrap();
    }

    #[test]
    fn a_device_that_reserves_none_is_not_asked_to() {
        let (kernel, file) = Scripted::new();
        answer(&kernel, |_| {});
        let error = Devx::new(&file).reserve_numbers().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("reserved numbers"), "{error}");
    }
}
