//! Signatures: what the device offers, and the sequences of values that keys with them begin with.

use std::sync::Arc;

use uverbs_core::{Object, Result};

use super::{Devx, DevxObject};
use crate::prm::{Field, Mailbox, bit, field, opcode};

/// The general group of capabilities.
const GENERAL: u16 = 0;

/// A field of a group of capabilities, in the reply.
const fn cap(field: Field) -> Field {
    field.at(0x10)
}

const SIGNATURES: Field = cap(bit(0x40, 8));
const ERROR_SIDE: Field = cap(bit(0x90, 31));
const BLOCKS_OF_4048: Field = cap(bit(0x3c, 15));
const CRC32C: Field = cap(bit(0x28, 23));
const CRC64_XP10: Field = cap(bit(0x28, 24));

/// `CREATE_PSV`.
const COUNT: Field = field(0x08, 31, 28);
const DOMAIN: Field = field(0x08, 23, 0);
const REPLY: usize = 32;

/// `mlx5dv_sig_caps`—what a device offers for signatures. If it has them at all, T10-DIF, CRC32 and
/// blocks of 512, 520, 4,096 and 4,160 bytes are among them.
#[doc(alias = "mlx5dv_sig_caps")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the device's capabilities are single bits"
)]
pub struct SignatureCaps {
    /// It has them, and tells which side was wrong.
    pub signatures: bool,
    /// Blocks of 4,048 bytes.
    pub blocks_of_4048: bool,
    /// CRC32C.
    pub crc32c: bool,
    /// CRC64-XP10.
    pub crc64_xp10: bool,
}

impl SignatureCaps {
    fn parse(reply: &Mailbox) -> Self {
        let has = |field| reply.get(field) != 0;
        if !has(SIGNATURES) || !has(ERROR_SIDE) {
            return Self::default();
        }
        Self {
            signatures: true,
            blocks_of_4048: has(BLOCKS_OF_4048),
            crc32c: has(CRC32C),
            crc64_xp10: has(CRC64_XP10),
        }
    }
}

impl Devx {
    /// What the device offers for signatures.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn signature_caps(&self) -> Result<SignatureCaps> {
        Ok(SignatureCaps::parse(&self.capabilities(GENERAL)?))
    }

    /// A protected sequence of values (PSV) of this domain.
    pub(crate) fn psv(&self, domain: u32, parent: &Arc<Object>) -> Result<DevxObject> {
        let mut command = Mailbox::command(opcode::CREATE_PSV, 0, 16);
        command.set(COUNT, 1);
        command.set(DOMAIN, domain);
        self.create_harmless(&command, REPLY, [Arc::clone(parent)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(fields: &[Field]) -> SignatureCaps {
        let mut reply = Mailbox::new(0x1010);
        for field in fields {
            reply.set(*field, 1);
        }
        SignatureCaps::parse(&reply)
    }

    #[test]
    fn a_device_without_them_has_none_of_their_parts() {
        let parts = [BLOCKS_OF_4048, CRC32C, CRC64_XP10];
        for one in [SIGNATURES, ERROR_SIDE] {
            let mut fields = parts.to_vec();
            fields.push(one);
            assert_eq!(with(&fields), SignatureCaps::default());
        }
        let caps = with(&[SIGNATURES, ERROR_SIDE, CRC32C]);
        assert!(caps.signatures && caps.crc32c && !caps.crc64_xp10 && !caps.blocks_of_4048);
        let caps = with(&[SIGNATURES, ERROR_SIDE, CRC64_XP10, BLOCKS_OF_4048]);
        assert!(!caps.crc32c && caps.crc64_xp10 && caps.blocks_of_4048);
    }
}
