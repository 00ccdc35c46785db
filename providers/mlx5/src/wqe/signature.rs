//! Signatures behind blocks of data, as a request describes them to a key.
//!
//! Layout: rdma-core's `providers/mlx5/wqe.h` (`mlx5_bsf`, `mlx5_wqe_set_psv_seg`).

use uverbs_core::PostError;

use super::{Unit, words};

/// `mlx5dv_block_size`—bytes of data in a block.
#[doc(alias = "mlx5dv_block_size")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum BlockSize {
    /// 512 bytes.
    Bytes512,
    /// 520 bytes.
    Bytes520,
    /// 4,048 bytes; not every device has it.
    Bytes4048,
    /// 4,096 bytes.
    Bytes4096,
    /// 4,160 bytes.
    Bytes4160,
}

impl BlockSize {
    /// How many they are.
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::Bytes512 => 512,
            Self::Bytes520 => 520,
            Self::Bytes4048 => 4048,
            Self::Bytes4096 => 4096,
            Self::Bytes4160 => 4160,
        }
    }

    /// The device's number of it.
    pub(crate) const fn selector(self) -> u32 {
        match self {
            Self::Bytes512 => 1,
            Self::Bytes520 => 2,
            Self::Bytes4048 => 6,
            Self::Bytes4096 => 3,
            Self::Bytes4160 => 4,
        }
    }
}

/// `mlx5dv_sig_crc_type`—a CRC over a block.
#[doc(alias = "mlx5dv_sig_crc_type")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Crc {
    /// 32 bits, as in Fibre Channel.
    Crc32,
    /// 32 bits, Castagnoli's; not every device has it.
    Crc32c,
    /// 64 bits, of XP10; not every device has it.
    Crc64Xp10,
}

impl Crc {
    /// Bits that it has less than 64.
    pub(crate) const fn unused_bits(self) -> u32 {
        match self {
            Self::Crc32 | Self::Crc32c => 32,
            Self::Crc64Xp10 => 0,
        }
    }
}

/// `mlx5dv_sig_t10dif_bg_type`—what guards the block of a T10-DIF.
#[doc(alias = "mlx5dv_sig_t10dif_bg_type")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Guard {
    /// Its CRC of 16 bits.
    Crc,
    /// The checksum of IP.
    Checksum,
}

/// Which blocks with a T10-DIF are not checked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Escape {
    /// None.
    #[default]
    Never,
    /// `MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE`—those whose application tag is 0xffff.
    Application,
    /// `MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE`—those whose reference tag is 0xffffffff, too.
    Both,
}

/// `mlx5dv_sig_t10dif`—8 bytes behind a block: guard, application tag, reference tag.
#[doc(alias = "mlx5dv_sig_t10dif")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct T10Dif {
    /// What guards the block.
    pub guard: Guard,
    /// The computation of the guard begins with 0xffff, not with 0.
    pub starts_with_ones: bool,
    /// The application tag of each block.
    pub application: u16,
    /// The reference tag of the first block.
    pub reference: u32,
    /// `MLX5DV_SIG_T10DIF_FLAG_REF_REMAP`—that of each block is one more than the last one's.
    pub increments: bool,
    /// Blocks that are not checked.
    pub escape: Escape,
}

/// `mlx5dv_sig_type`—what is behind each block.
#[doc(alias = "mlx5dv_sig_type")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Signature {
    /// A CRC.
    Crc {
        /// Which one.
        kind: Crc,
        /// Its computation begins with all ones, not with 0.
        starts_with_ones: bool,
    },
    /// A T10-DIF.
    T10Dif(T10Dif),
}

impl Signature {
    /// The selector of its format, which that of a T10-DIF leaves to the inline section.
    const fn format(&self) -> u32 {
        const REPEAT: u32 = 2;
        const SEED_0: u32 = 1;
        match self {
            Self::Crc {
                kind,
                starts_with_ones,
            } => {
                let base = match kind {
                    Crc::Crc32 => 0x20,
                    Crc::Crc32c => 0x40,
                    Crc::Crc64Xp10 => 0x50,
                };
                base | REPEAT | if *starts_with_ones { 0 } else { SEED_0 }
            }
            Self::T10Dif(_) => 0,
        }
    }

    /// What its PSV holds before the first block.
    pub(crate) const fn begins_with(&self) -> u64 {
        match self {
            Self::Crc {
                kind,
                starts_with_ones: true,
            } => match kind {
                Crc::Crc64Xp10 => u64::MAX,
                Crc::Crc32 | Crc::Crc32c => 0xffff_ffff << 32,
            },
            Self::Crc { .. } => 0,
            Self::T10Dif(dif) => {
                let guard = if dif.starts_with_ones { 0xffff } else { 0 };
                guard << 48 | (dif.application as u64) << 32 | dif.reference as u64
            }
        }
    }

    /// The bytes of a signature that are copied where both sides have one of this kind, by
    /// libmlx5's rule; `None` if they have different ones.
    fn copied(&self, wire: &Self) -> Option<u8> {
        match (self, wire) {
            (Self::Crc { kind, .. }, Self::Crc { kind: other, .. }) => {
                (kind == other).then_some(match kind {
                    Crc::Crc64Xp10 => 0xff,
                    Crc::Crc32 | Crc::Crc32c => mask::CRC32,
                })
            }
            (Self::T10Dif(dif), Self::T10Dif(other)) => {
                let parts = [
                    (
                        (dif.guard, dif.starts_with_ones) == (other.guard, other.starts_with_ones),
                        mask::GUARD,
                    ),
                    (dif.application == other.application, mask::APPLICATION),
                    (dif.reference == other.reference, mask::REFERENCE),
                ];
                let copied = parts.into_iter().filter(|(same, _)| *same);
                Some(copied.fold(0, |copied, (_, part)| copied | part))
            }
            _ => None,
        }
    }
}

/// `mlx5dv_sig_mask`—bytes of a signature; the highest bit is its first byte.
mod mask {
    pub(super) const GUARD: u8 = 0xc0;
    pub(super) const APPLICATION: u8 = 0x30;
    pub(super) const REFERENCE: u8 = 0x0f;
    pub(super) const CRC32: u8 = 0xf0;
}

/// `mlx5dv_sig_block_domain`—blocks of data, each with a signature behind it.
#[doc(alias = "mlx5dv_sig_block_domain")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SignedBlocks {
    /// Bytes of data in a block.
    pub size: BlockSize,
    /// What is behind it.
    pub signature: Signature,
}

/// `mlx5dv_sig_block_attr`—what a key does with signatures: data that passes through it is checked
/// against those of the side that it comes from, and gets those of the side that it goes to.
#[doc(alias = "mlx5dv_sig_block_attr")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Signatures {
    /// Those in memory.
    pub memory: Option<SignedBlocks>,
    /// Those on the wire.
    pub wire: Option<SignedBlocks>,
    /// Which bytes of a signature are checked; the highest bit is the first byte.
    pub check: u8,
    /// Which bytes are taken from the signature that came instead of being computed, if both sides
    /// have the same kind and size of blocks; `None`: those that are the same on both sides.
    pub copy: Option<u8>,
}

/// Units of a byte stream format.
pub(crate) const BSF_UNITS: usize = 4;

/// Sizes of byte stream formats: with inline sections; beside one for encryption.
pub(super) const WITH_INLINE: u32 = 2;
pub(super) const BESIDE_ENCRYPTION: u32 = 3;

impl Signatures {
    /// Its byte stream format, with the numbers of the PSVs of memory and of the wire.
    ///
    /// # Errors
    /// [`PostError::InvalidRequest`]: no side has signatures; bytes to be copied between sides that
    /// are not the same.
    pub(crate) fn bsf(
        &self,
        psvs: [u32; 2],
        beside_encryption: bool,
    ) -> Result<[Unit; BSF_UNITS], PostError> {
        const SAME_STRUCTURE: u32 = 1 << 28;
        if self.memory.is_none() && self.wire.is_none() {
            return Err(PostError::InvalidRequest);
        }
        let [[mut head, _], ..] = no_signatures(beside_encryption).map(|unit| unit.map(high));
        let mut formats = [0; 2];
        let mut sections = [[0; 2]; 2];
        head |= u32::from(self.check) << 16;
        if let Some(blocks) = &self.memory {
            head |= blocks.size.selector();
            formats[1] = blocks.signature.format() << 24 | psvs[0] & 0xff_ffff;
            sections[1] = section(&blocks.signature);
        }
        if let Some(blocks) = &self.wire {
            let same = self.memory.filter(|memory| memory.size == blocks.size);
            let same = same.and_then(|memory| memory.signature.copied(&blocks.signature));
            head |= match (same, self.copy) {
                (None, Some(_)) => return Err(PostError::InvalidRequest),
                (None, None) => blocks.size.selector() << 8,
                (Some(usual), copy) => SAME_STRUCTURE | u32::from(copy.unwrap_or(usual)) << 8,
            };
            formats[0] = blocks.signature.format() << 24 | psvs[1] & 0xff_ffff;
            sections[0] = section(&blocks.signature);
        }
        let basic = [words(head, u32::MAX), words(formats[0], formats[1])];
        Ok([basic, [0; 2], sections[0], sections[1]])
    }

    /// What the PSVs of memory and of the wire are set to, as far as those sides have signatures.
    pub(crate) fn begin_with(&self) -> [Option<u64>; 2] {
        [self.memory, self.wire].map(|side| side.map(|blocks| blocks.signature.begins_with()))
    }
}

/// The upper half of a word in memory order.
const fn high(word: u64) -> u32 {
    (u64::from_be(word) >> 32) as u32
}

/// The byte stream format of no signatures.
pub(crate) const fn no_signatures(beside_encryption: bool) -> [Unit; BSF_UNITS] {
    let size = if beside_encryption {
        BESIDE_ENCRYPTION
    } else {
        WITH_INLINE
    };
    let mut units = [[0; 2]; BSF_UNITS];
    units[0][0] = words(size << 30, u32::MAX);
    units
}

/// The inline section: the parameters of a T10-DIF.
fn section(signature: &Signature) -> Unit {
    const VALID_AND_REFRESHED: u32 = 3 << 30;
    const CRC: u32 = 1 << 24;
    const CHECKSUM: u32 = 2 << 24;
    const REPEAT: u32 = 1 << 23;
    const SEED: u32 = 1 << 19;
    const INCREMENT: u32 = 1 << 22;
    const ESCAPE_APPLICATION: u32 = 1 << 16;
    const ESCAPE_BOTH: u32 = 1 << 17;
    /// All bits of the application tag are checked.
    const WHOLE_TAG: u32 = 0xffff;
    let Signature::T10Dif(dif) = signature else {
        return [0; 2];
    };
    let guard = match dif.guard {
        Guard::Crc => CRC,
        Guard::Checksum => CHECKSUM,
    };
    let seed = if dif.starts_with_ones { SEED } else { 0 };
    let increment = if dif.increments { INCREMENT } else { 0 };
    let escape = match dif.escape {
        Escape::Never => 0,
        Escape::Application => ESCAPE_APPLICATION,
        Escape::Both => ESCAPE_BOTH,
    };
    [
        words(
            VALID_AND_REFRESHED | u32::from(dif.application),
            dif.reference,
        ),
        words(guard | REPEAT | seed, increment | escape | WHOLE_TAG),
    ]
}

/// The segment that sets a PSV.
pub(crate) const fn psv(number: u32, value: u64) -> Unit {
    [words(number, 0), value.to_be()]
}

/// What a change of a key says of signatures and encryption beside its layout and rights.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signing {
    /// The number of errors that were reported of the key and the next one, if it has to be told.
    pub(crate) errors: Option<u32>,
    /// The byte stream formats of signatures and of encryption, if those change.
    pub(crate) formats: [Option<[Unit; BSF_UNITS]>; 2],
    /// It has none from now on.
    pub(crate) stops: bool,
    /// PSVs that are set behind it.
    pub(crate) psvs: [Option<(u32, u64)>; 2],
}

impl Signing {
    /// Units of byte stream formats.
    pub(crate) fn units(&self) -> usize {
        self.formats.iter().flatten().map(|bsf| bsf.len()).sum()
    }

    /// Adds it to the head of the change.
    pub(crate) fn put(&self, head: &mut [Unit]) {
        const ERRORS: u64 = 1 << 9;
        const SIGNED: u64 = 1 << 12;
        /// Of the word with the protection domain.
        const COUNT_AT: u32 = 26;
        const IS_SIGNED: u64 = 1 << 30;
        let [control, _, _, context, ..] = head else {
            return;
        };
        let sets = self.units() != 0;
        if sets || self.stops {
            control[1] |= SIGNED.to_be();
        }
        if sets {
            control[0] |= (self.units() as u64).to_be();
            context[1] |= IS_SIGNED.to_be();
        }
        if let Some(count) = self.errors {
            control[1] |= ERRORS.to_be();
            context[1] |= u64::from((count & 1) << COUNT_AT).to_be();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const CRC: Signature = Signature::Crc {
        kind: Crc::Crc32c,
        starts_with_ones: true,
    };
    const DIF: T10Dif = T10Dif {
        guard: Guard::Checksum,
        starts_with_ones: true,
        application: 0xabcd,
        reference: 0x0123_4567,
        increments: true,
        escape: Escape::Both,
    };

    fn blocks(size: BlockSize, signature: Signature) -> SignedBlocks {
        SignedBlocks { size, signature }
    }

    fn words_of(signatures: &Signatures) -> [u64; 8] {
        let units = signatures.bsf([5, 6], false).unwrap();
        let words: Vec<u64> = units.into_iter().flatten().map(u64::from_be).collect();
        words.try_into().unwrap()
    }

    #[test]
    fn a_crc_of_memory() {
        let signatures = Signatures {
            memory: Some(blocks(BlockSize::Bytes4048, CRC)),
            wire: None,
            check: 0xf0,
            copy: None,
        };
        let expected = [0x80f0_0006_ffff_ffff, 0x4200_0005, 0, 0, 0, 0, 0, 0];
        assert_eq!(words_of(&signatures), expected);
        assert_eq!(signatures.begin_with(), [Some(0xffff_ffff_0000_0000), None]);
    }

    #[test]
    fn a_t10_dif_of_the_wire() {
        let signatures = Signatures {
            memory: None,
            wire: Some(blocks(BlockSize::Bytes520, Signature::T10Dif(DIF))),
            check: 0xff,
            copy: None,
        };
        let mut expected = [0; 8];
        expected[0] = 0x80ff_0200_ffff_ffff;
        expected[1] = 6 << 32;
        expected[4] = 0xc000_abcd_0123_4567;
        expected[5] = 0x0288_0000_0042_ffff;
        assert_eq!(words_of(&signatures), expected);
        assert_eq!(signatures.begin_with(), [None, Some(0xffff_abcd_0123_4567)]);
    }

    #[test]
    fn what_is_the_same_on_both_sides_is_copied() {
        let with = |memory, wire, copy| Signatures {
            memory: Some(memory),
            wire: Some(wire),
            check: 0,
            copy,
        };
        let crc = blocks(BlockSize::Bytes512, CRC);
        let head = |signatures: &Signatures| words_of(signatures)[0] >> 32;
        assert_eq!(head(&with(crc, crc, None)), 0x9000_f001);
        assert_eq!(head(&with(crc, crc, Some(0x80))), 0x9000_8001);
        let larger = blocks(BlockSize::Bytes4160, CRC);
        assert_eq!(head(&with(crc, larger, None)), 0x8000_0401);
        let refused = with(crc, larger, Some(0)).bsf([0; 2], false);
        assert_eq!(refused, Err(PostError::InvalidRequest));
        let dif = |dif| blocks(BlockSize::Bytes512, Signature::T10Dif(dif));
        for (other, copied) in [
            (DIF, 0xff),
            (
                T10Dif {
                    reference: 0,
                    ..DIF
                },
                0xf0,
            ),
            (
                T10Dif {
                    application: 0,
                    ..DIF
                },
                0xcf,
            ),
            (
                T10Dif {
                    guard: Guard::Crc,
                    ..DIF
                },
                0x3f,
            ),
            (
                T10Dif {
                    escape: Escape::Never,
                    ..DIF
                },
                0xff,
            ),
        ] {
            let signatures = with(dif(DIF), dif(other), None);
            assert_eq!(head(&signatures), 0x9000_0001 | copied << 8);
        }
        assert_eq!(head(&with(crc, dif(DIF), None)), 0x8000_0101);
    }

    #[test]
    fn each_kind_has_its_format() {
        for (kind, ones, format, begins) in [
            (Crc::Crc32, true, 0x22, 0xffff_ffff_0000_0000),
            (Crc::Crc32, false, 0x23, 0),
            (Crc::Crc32c, false, 0x43, 0),
            (Crc::Crc64Xp10, true, 0x52, u64::MAX),
            (Crc::Crc64Xp10, false, 0x53, 0),
        ] {
            let starts_with_ones = ones;
            let signature = Signature::Crc {
                kind,
                starts_with_ones,
            };
            assert_eq!(
                (signature.format(), signature.begins_with()),
                (format, begins)
            );
        }
        let escape =
            |escape| u64::from_be(section(&Signature::T10Dif(T10Dif { escape, ..DIF }))[1]);
        assert_eq!(escape(Escape::Application) & 0xff_0000, 0x41_0000);
        assert_eq!(escape(Escape::Never) & 0xff_0000, 0x40_0000);
    }

    #[test]
    fn no_side_is_no_signature() {
        let signatures = Signatures {
            memory: None,
            wire: None,
            check: 0,
            copy: None,
        };
        assert_eq!(
            signatures.bsf([0; 2], false),
            Err(PostError::InvalidRequest)
        );
    }
}
