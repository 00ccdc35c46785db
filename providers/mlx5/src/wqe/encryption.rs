//! Encryption of what passes through a key, as a request describes it.
//!
//! Layout: rdma-core's `providers/mlx5/wqe.h` (`mlx5_crypto_bsf`).

use uverbs_core::PostError;

use super::signature::{BESIDE_ENCRYPTION, BSF_UNITS, BlockSize, Signatures, WITH_INLINE};
use super::{Unit, words};

/// `mlx5dv_signature_crypto_order`—what is done first to data that leaves memory, where a key has
/// signatures, too.
#[doc(alias = "mlx5dv_signature_crypto_order")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum EncryptionOrder {
    /// Encryption or decryption: signatures are those of the data as it is on the wire.
    #[default]
    SignatureAfter,
    /// Signatures: they are those of the data as it is in memory.
    SignatureBefore,
}

/// What a key encrypts and how, by the numbers of the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Encrypting {
    /// Data is encrypted on the wire and not in memory; otherwise the other way round.
    pub(crate) on_wire: bool,
    pub(crate) order: EncryptionOrder,
    /// Bytes that are encrypted as one.
    pub(crate) unit: BlockSize,
    /// Of the first unit, as a number whose lowest byte is first.
    pub(crate) tweak: [u8; 16],
    /// The number of the key of data, and what it is tagged with.
    pub(crate) data_key: u32,
    pub(crate) tag: [u8; 8],
}

impl Encrypting {
    /// The device's number of the order; `None` for those that it cannot combine with signatures
    /// on both sides.
    fn order(&self, signatures: Option<&Signatures>) -> Option<u32> {
        const WIRE_BEHIND_SIGNATURE: u32 = 0;
        const MEMORY_BEHIND_SIGNATURE: u32 = 1;
        const RAW_WIRE: u32 = 2;
        const RAW_MEMORY: u32 = 3;
        let order = match (self.on_wire, self.order) {
            (true, EncryptionOrder::SignatureAfter) => RAW_WIRE,
            (true, EncryptionOrder::SignatureBefore) => WIRE_BEHIND_SIGNATURE,
            (false, EncryptionOrder::SignatureAfter) => MEMORY_BEHIND_SIGNATURE,
            (false, EncryptionOrder::SignatureBefore) => RAW_MEMORY,
        };
        let both = signatures.is_some_and(|both| both.memory.is_some() && both.wire.is_some());
        (!both || order < RAW_WIRE).then_some(order)
    }

    /// Its byte stream format. `big_tweak`: the device counts with the highest byte first, as those
    /// do that encrypt several units. `signs`: one of signatures is before it.
    ///
    /// # Errors
    /// [`PostError::InvalidRequest`]: an order that the device cannot combine with signatures on
    /// both sides.
    pub(crate) fn bsf(
        &self,
        big_tweak: bool,
        signs: bool,
        signatures: Option<&Signatures>,
    ) -> Result<[Unit; BSF_UNITS], PostError> {
        const ENCRYPTION: u32 = 1 << 24;
        let order = self.order(signatures).ok_or(PostError::InvalidRequest)?;
        let size = if signs {
            BESIDE_ENCRYPTION
        } else {
            WITH_INLINE
        };
        let mut tweak = self.tweak;
        if big_tweak {
            tweak.reverse();
        }
        let (halves, _) = tweak.as_chunks::<8>();
        let [first, second] = [0, 1].map(|at| halves.get(at).copied().unwrap_or_default());
        Ok([
            [
                words(size << 30 | ENCRYPTION | order << 16, u32::MAX),
                words(self.unit.selector() << 24, 0),
            ],
            [first, second].map(u64::from_ne_bytes),
            [
                words(self.data_key & 0xff_ffff, 0),
                u64::from_ne_bytes(self.tag),
            ],
            [0; 2],
        ])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::wqe::signature::{Crc, Signature, SignedBlocks};

    const TWEAK: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    const ENCRYPTING: Encrypting = Encrypting {
        on_wire: true,
        order: EncryptionOrder::SignatureAfter,
        unit: BlockSize::Bytes520,
        tweak: TWEAK,
        data_key: 0xff12_3456,
        tag: *b"keytag12",
    };

    fn words_of(encrypting: &Encrypting, big_tweak: bool) -> [u64; 8] {
        let units = encrypting.bsf(big_tweak, false, None).unwrap();
        let words: Vec<u64> = units.into_iter().flatten().map(u64::from_be).collect();
        words.try_into().unwrap()
    }

    #[test]
    fn a_tweak_is_turned_round_for_several_units() {
        let mut expected = [0; 8];
        expected[0] = 0x8102_0000_ffff_ffff;
        expected[1] = 0x0200_0000_0000_0000;
        expected[2] = 0x0102_0304_0506_0708;
        expected[3] = 0x090a_0b0c_0d0e_0f10;
        expected[4] = 0x0012_3456_0000_0000;
        expected[5] = u64::from_be_bytes(*b"keytag12");
        assert_eq!(words_of(&ENCRYPTING, false), expected);
        expected[2] = 0x100f_0e0d_0c0b_0a09;
        expected[3] = 0x0807_0605_0403_0201;
        assert_eq!(words_of(&ENCRYPTING, true), expected);
    }

    #[test]
    fn some_orders_go_with_signatures_of_one_side_alone() {
        let blocks = SignedBlocks {
            size: BlockSize::Bytes512,
            signature: Signature::Crc {
                kind: Crc::Crc32,
                starts_with_ones: true,
            },
        };
        let both = Signatures {
            memory: Some(blocks),
            wire: Some(blocks),
            check: 0,
            copy: None,
        };
        let one = Signatures { wire: None, ..both };
        for (on_wire, order, number, with_both) in [
            (true, EncryptionOrder::SignatureAfter, 2, false),
            (true, EncryptionOrder::SignatureBefore, 0, true),
            (false, EncryptionOrder::SignatureAfter, 1, true),
            (false, EncryptionOrder::SignatureBefore, 3, false),
        ] {
            let encrypting = Encrypting {
                on_wire,
                order,
                ..ENCRYPTING
            };
            let head = |signatures: &Signatures| {
                let bsf = encrypting.bsf(true, true, Some(signatures));
                bsf.map(|units| u64::from_be(units[0][0]) >> 32)
            };
            assert_eq!(head(&one), Ok(0xc100_0000 | number << 16));
            assert_eq!(head(&both).is_ok(), with_both, "{on_wire} {order:?}");
        }
    }
}
