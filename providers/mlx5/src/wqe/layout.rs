//! What an indirect memory key maps, and requests that change it.
//!
//! Layout: Programmer's Reference Manual, "UMR WQE" and "Repeat Block"; the operation of a repeat
//! block as in the kernel's `include/linux/mlx5/device.h` and libmlx5's `wqe.h`.

use uverbs_core::PostError;
use uverbs_core::types::{AccessFlags, LocalKey, RemoteKey, Sge};

use super::umr::{self, NO_QPN, flag, mask};
use super::{Unit, data, words};

/// Units before the translation: control of the change, and the context of the key.
pub(crate) const HEAD_UNITS: usize = 3 + 4;

/// Units of a block in which translations are loaded.
pub(crate) const BLOCK: u16 = 4;

/// The operation of a repeat block.
const REPEAT: u32 = 0x400;

/// `mlx5dv_mr_interleaved`—a piece of memory that repeats at a distance.
#[doc(alias = "mlx5dv_mr_interleaved")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Interleaved {
    /// Where the first piece begins.
    pub address: u64,
    /// Bytes of a piece, at most 65,535.
    pub bytes: u32,
    /// Bytes between the end of a piece and the beginning of the next one. A piece and what follows
    /// it are at most 65,535 bytes.
    pub skip: u32,
    /// The key of the region that all pieces are in.
    pub key: LocalKey,
}

/// What an indirect key maps: its address 0 is the first byte.
#[derive(Clone, Copy, Debug)]
pub enum KeyLayout<'a> {
    /// `mlx5dv_wr_set_mkey_layout_list`—pieces of regions, one after another.
    List(&'a [Sge]),
    /// `mlx5dv_wr_set_mkey_layout_interleaved`—one piece of each in turn, `repeats` times.
    Interleaved {
        /// How often all of them are used.
        repeats: u32,
        /// Which pieces.
        pieces: &'a [Interleaved],
    },
}

/// `mlx5dv_wr_mkey_configure`—a change of an indirect key: it is usable afterwards, with its
/// present variant. What is `None` stays as it is.
#[doc(alias = "mlx5dv_wr_mkey_configure")]
#[derive(Clone, Copy, Debug)]
pub struct KeyChange<'a> {
    /// The key.
    pub key: RemoteKey,
    /// `mlx5dv_wr_set_mkey_access_flags`—who may do what: local write, remote read, write and
    /// atomics.
    pub access: Option<AccessFlags>,
    /// What it maps.
    pub layout: Option<KeyLayout<'a>>,
}

/// The rights that a key can have.
const RIGHTS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);

impl KeyLayout<'_> {
    /// Units of the translation.
    pub(crate) fn units(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Interleaved { pieces, .. } => pieces.len() + 1,
        }
    }

    /// Bytes that it maps.
    ///
    /// # Errors
    /// [`PostError::InvalidRequest`]: more than 64 bits count; pieces that do not fit their fields.
    pub(crate) fn bytes(&self) -> Result<u64, PostError> {
        let sum = match self {
            Self::List(list) => list.iter().map(|sge| u64::from(sge.length)).sum(),
            Self::Interleaved { repeats, pieces } => {
                for piece in *pieces {
                    stride(piece)?;
                }
                let once: u64 = pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
                once.checked_mul((*repeats).into())
                    .ok_or(PostError::InvalidRequest)?
            }
        };
        Ok(sum)
    }

    /// Passes each unit of the translation to `put`.
    pub(crate) fn each(&self, mut put: impl FnMut(Unit)) {
        match self {
            Self::List(list) => list.iter().for_each(|sge| put(data(sge))),
            Self::Interleaved { repeats, pieces } => {
                let once = pieces
                    .iter()
                    .fold(0_u32, |sum, piece| sum.wrapping_add(piece.bytes));
                let count = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
                put([words(once, REPEAT), words(*repeats, count & 0xffff)]);
                for piece in *pieces {
                    let stride = stride(piece).unwrap_or(0);
                    let head = words(stride << 16 | piece.bytes, piece.key.raw());
                    put([head, piece.address.to_be()]);
                }
            }
        }
    }
}

/// From the beginning of a piece to that of the next one, in 16 bits.
fn stride(piece: &Interleaved) -> Result<u32, PostError> {
    piece
        .bytes
        .checked_add(piece.skip)
        .filter(|stride| *stride <= 0xffff)
        .ok_or(PostError::InvalidRequest)
}

impl KeyChange<'_> {
    /// The units before the translation.
    ///
    /// # Errors
    /// [`PostError::InvalidRequest`]: other rights, more entries than the field counts, and those
    /// of a layout.
    pub(crate) fn head(&self) -> Result<[Unit; HEAD_UNITS], PostError> {
        let mut mask = mask::FREE | mask::KEY;
        let rights = self.access.unwrap_or(AccessFlags::empty());
        if !RIGHTS.contains(rights) {
            return Err(PostError::InvalidRequest);
        }
        if self.access.is_some() {
            mask |= mask::ACCESS;
        }
        let (mut octowords, mut length) = (0, 0);
        if let Some(layout) = &self.layout {
            mask |= mask::LENGTH;
            let units = layout.units().next_multiple_of(BLOCK.into());
            octowords = u16::try_from(units).map_err(|_| PostError::InvalidRequest)?;
            length = layout.bytes()?;
        }
        let mut units = [[0; 2]; HEAD_UNITS];
        units[0] = umr::change(flag::INLINE, octowords.into(), mask);
        let variant = self.key.raw() & 0xff;
        units[3] = umr::context(0, umr::access_bits(rights), NO_QPN, variant);
        units[4] = [0, length.to_be()];
        Ok(units)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const KEY: RemoteKey = RemoteKey::from_raw(0x1200);

    fn words_of(change: &KeyChange<'_>) -> Vec<u64> {
        let mut units = change.head().unwrap().to_vec();
        if let Some(layout) = &change.layout {
            layout.each(|unit| units.push(unit));
        }
        units.into_iter().flatten().map(u64::from_be).collect()
    }

    #[test]
    fn a_list_is_what_libmlx5_writes() {
        let sge = |address, length, key| Sge {
            address,
            length,
            key: LocalKey::from_raw(key),
        };
        let list = [sge(0x7000, 8, 0x5600), sge(0x8000, 16, 0x5700)];
        let change = KeyChange {
            key: KEY,
            access: Some(AccessFlags::LOCAL_WRITE),
            layout: Some(KeyLayout::List(&list)),
        };
        let mut expected = [0; 18];
        expected[0] = 0x8000_0000_0004_0000;
        expected[1] = 0x203c_2001;
        expected[6] = 0x0000_0800_ffff_ff00;
        expected[9] = 24;
        expected[14] = 0x0000_0008_0000_5600;
        expected[15] = 0x7000;
        expected[16] = 0x0000_0010_0000_5700;
        expected[17] = 0x8000;
        assert_eq!(words_of(&change), expected);
    }

    #[test]
    fn interleaved_pieces_follow_a_repeat_block() {
        let piece = |address| Interleaved {
            address,
            bytes: 8,
            skip: 2,
            key: LocalKey::from_raw(0x5600),
        };
        let pieces = [piece(0x7000), piece(0x7040)];
        let change = KeyChange {
            key: KEY,
            access: None,
            layout: Some(KeyLayout::Interleaved {
                repeats: 3,
                pieces: &pieces,
            }),
        };
        let mut expected = [0; 20];
        expected[0] = 0x8000_0000_0004_0000;
        expected[1] = 0x2000_2001;
        expected[6] = 0xffff_ff00;
        expected[9] = 48;
        expected[14] = 0x0000_0010_0000_0400;
        expected[15] = 0x0000_0003_0000_0002;
        expected[16] = 0x000a_0008_0000_5600;
        expected[17] = 0x7000;
        expected[18] = 0x000a_0008_0000_5600;
        expected[19] = 0x7040;
        assert_eq!(words_of(&change), expected);
    }

    #[test]
    fn nothing_changes_but_what_is_there() {
        let change = KeyChange {
            key: RemoteKey::from_raw(0x12ab),
            access: None,
            layout: None,
        };
        let mut expected = [0; 14];
        expected[0] = 0x8000_0000_0000_0000;
        expected[1] = 0x2000_2000;
        expected[6] = 0xffff_ffab;
        assert_eq!(words_of(&change), expected);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let piece = |bytes, skip| Interleaved {
            address: 0,
            bytes,
            skip,
            key: LocalKey::from_raw(0),
        };
        for (bytes, skip, fits) in [
            (0xffff, 0, true),
            (1, 0xfffe, true),
            (0x1_0000, 0, false),
            (1, 0xffff, false),
            (u32::MAX, 1, false),
        ] {
            let pieces = [piece(bytes, skip)];
            let change = KeyChange {
                key: KEY,
                access: None,
                layout: Some(KeyLayout::Interleaved {
                    repeats: 1,
                    pieces: &pieces,
                }),
            };
            assert_eq!(change.head().is_ok(), fits, "{bytes} {skip}");
        }
        for at in 0..32 {
            let change = KeyChange {
                key: KEY,
                access: Some(AccessFlags::from_bits_retain(1 << at)),
                layout: None,
            };
            assert_eq!(change.head().is_ok(), at < 4, "bit {at}");
        }
    }
}
