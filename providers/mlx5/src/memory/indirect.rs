//! Memory keys that map pieces of regions as requests say (`drivers/infiniband/hw/mlx5/devx.c`;
//! Programmer's Reference Manual, `CREATE_MKEY` and "Memory Key Context").

use std::sync::Arc;

use uverbs_core::types::{LocalKey, RemoteKey};
use uverbs_core::{DestroyError, Error, ErrorKind, Op, Result};

use crate::context::{Context, ProtectionDomain};
use crate::devx::{Devx, DevxObject};
use crate::prm::{Field, Mailbox, bit, field, opcode, word};
use crate::wqe::layout::BLOCK;

/// Bytes of the command, without a translation.
const LENGTH: usize = 0x110;

/// A field of the key's context.
const fn context(field: Field) -> Field {
    field.at(0x10)
}

const FREE: Field = context(bit(0x00, 30));
const CHANGEABLE: Field = context(bit(0x00, 15));
const LOCAL_READ: Field = context(bit(0x00, 10));
const MODE: Field = context(field(0x00, 9, 8));
const QPN: Field = context(field(0x04, 31, 8));
const REMOTE_INVALIDATE: Field = context(bit(0x0c, 24));
const PD: Field = context(field(0x0c, 23, 0));
const OCTOWORDS: Field = context(word(0x34));

/// `MLX5_MKC_ACCESS_MODE_KLMS`: a list of keys.
const KEYS: u32 = 2;
/// It belongs to no queue pair.
const NO_QPN: u32 = 0xff_ffff;

/// What an indirect key is created for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct KeyOptions {
    /// `MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE`—peers may invalidate it.
    pub remote_invalidate: bool,
    /// `MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG`—requests may change the variant, the lowest 8 bits
    /// of the key.
    pub changes_variant: bool,
}

/// `mlx5dv_mkey`—a memory key that maps pieces of regions. It maps nothing before a request says
/// what ([`QueuePair::put_key_change`](crate::QueuePair::put_key_change)).
#[doc(alias = "mlx5dv_mkey")]
#[derive(Debug)]
pub struct IndirectKey {
    object: DevxObject,
    max_entries: u16,
    options: KeyOptions,
}

impl IndirectKey {
    /// `mlx5dv_create_mkey`—creates a key with room for at least this many entries.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): `changes_variant`, and the device or the kernel
    /// (before 6.2) does not announce it; no firmware commands in this context. Otherwise the errno
    /// for the firmware's status.
    #[doc(alias = "mlx5dv_create_mkey")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn create(
        context: &Context,
        pd: &ProtectionDomain,
        max_entries: u16,
        options: KeyOptions,
    ) -> Result<Self> {
        let op = Op::DevxCreate;
        if options.changes_variant && !context.config().changes_variants {
            let error = Error::new(op, ErrorKind::Unsupported);
            return Err(error.fact("changes_variant", true));
        }
        let max_entries = max_entries
            .checked_next_multiple_of(BLOCK)
            .ok_or_else(|| Error::invalid(op, "max_entries").fact("entries", max_entries))?;
        let mut command = Mailbox::command(opcode::CREATE_MKEY, 0, LENGTH);
        command.set(MODE, KEYS);
        command.set(FREE, 1);
        command.set(CHANGEABLE, 1);
        command.set(PD, pd.number());
        command.set(OCTOWORDS, max_entries.into());
        command.set(LOCAL_READ, 1);
        command.set(QPN, NO_QPN);
        command.set(REMOTE_INVALIDATE, options.remote_invalidate.into());
        let devx = Devx::new(context.file());
        let object = devx.create_harmless(&command, 16, [Arc::clone(pd.object())])?;
        Ok(Self {
            object,
            max_entries,
            options,
        })
    }

    /// For scatter/gather entries. The lowest 8 bits are the variant, 0.
    pub fn local_key(&self) -> LocalKey {
        LocalKey::from_raw(self.object.id() << 8)
    }

    /// For peers, and for requests that change the key: the same number.
    pub fn remote_key(&self) -> RemoteKey {
        RemoteKey::from_raw(self.object.id() << 8)
    }

    /// Entries of a list for which it has room; interleaved, one less.
    pub fn max_entries(&self) -> u16 {
        self.max_entries
    }

    /// What it was created for.
    pub fn options(&self) -> KeyOptions {
        self.options
    }

    /// `mlx5dv_destroy_mkey`—destroys it, whatever it maps. Dropping it does the same.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// The errno for the firmware's status. The key is returned, unless it is unknown whether it is
    /// gone.
    #[doc(alias = "mlx5dv_destroy_mkey")]
    pub fn destroy(self) -> Result<(), DestroyError<Self>> {
        let Self {
            object,
            max_entries,
            options,
        } = self;
        let again = |object| Self {
            object,
            max_entries,
            options,
        };
        object.destroy().map_err(|refused| refused.map(again))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uverbs_core::Errno;
    use uverbs_uapi::mlx5_user_ioctl_cmds::{
        MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT,
    };

    use super::*;
    use crate::tests::scripted::Scripted;

    fn created(options: KeyOptions) -> (IndirectKey, Vec<u32>) {
        let (kernel, context) = Scripted::context(0);
        let pd = kernel.pd(&context);
        let mut answer = [0; 16];
        answer[8..12].copy_from_slice(&0x12_3456_u32.to_be_bytes());
        kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, &answer);
        let key = IndirectKey::create(&context, &pd, 5, options).unwrap();
        let sent = kernel.take_inputs(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
        let sent = sent.into_iter().find(|bytes| !bytes.is_empty()).unwrap();
        assert_eq!(sent.len(), LENGTH);
        let words = sent.chunks(4).map(|word| word.try_into().unwrap());
        (key, words.map(u32::from_be_bytes).collect())
    }

    #[test]
    fn a_key_is_free_and_changeable() {
        let (key, command) = created(KeyOptions::default());
        assert_eq!(key.local_key().raw(), 0x1234_5600);
        assert_eq!(key.remote_key().raw(), 0x1234_5600);
        assert_eq!(key.max_entries(), 8);
        let mut expected = vec![0; LENGTH / 4];
        expected[0] = 0x0200_0000;
        expected[4] = 0x4000_8600;
        expected[5] = 0xffff_ff00;
        // The number of the domain is that of the scripted kernel.
        expected[7] = command[7] & 0xff_ffff;
        expected[17] = 8;
        assert_eq!(command, expected);
        key.destroy().unwrap();
    }

    #[test]
    fn peers_may_invalidate_it_on_request() {
        let (key, command) = created(KeyOptions {
            remote_invalidate: true,
            ..KeyOptions::default()
        });
        assert_eq!(command[7] >> 24, 1);
        assert!(key.options().remote_invalidate);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let (kernel, context) = Scripted::context(0);
        let pd = kernel.pd(&context);
        kernel.take_calls();
        let options = KeyOptions {
            changes_variant: true,
            ..KeyOptions::default()
        };
        let error = IndirectKey::create(&context, &pd, 4, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let none = KeyOptions::default();
        let error = IndirectKey::create(&context, &pd, u16::MAX, none).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert_eq!(kernel.take_calls(), [""; 0]);
        kernel.refuse("", Errno::INVAL);
        let error = IndirectKey::create(&context, &pd, 4, none).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::INVAL), "{error}");
    }
}
