//! Encryption: what a memory key does to what passes through it, by AES-XTS.
//!
//! Layouts as in rdma-core's `providers/mlx5/wqe.h` and `mlx5_ifc.h`. What no public document says
//! is decided here: addresses begin at a unit and lengths are whole units.

use aes::cipher::KeyInit;
use aes::{Aes128, Aes256};
use xts_mode::Xts128;

use crate::layout::{Field, field, part, word};
use crate::signature::block;

const SIZE: Field = field(0x00, 31, 30);
const KIND: Field = field(0x00, 27, 24);
const ORDER: Field = field(0x00, 23, 16);
const STANDARD: Field = field(0x00, 7, 0);
const RAW_SIZE: Field = word(0x04);
const UNIT: Field = field(0x08, 31, 24);
const TWEAK: usize = 0x10;
const DATA_KEY: Field = field(0x20, 23, 0);
const TAG: usize = 0x28;

/// A byte stream format beside none of signatures, and its kind.
const ALONE: u32 = 2;
const ENCRYPTION: u32 = 1;

/// What a key does to what passes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encryption {
    /// Data is encrypted on the wire and not in memory; otherwise the other way round.
    on_wire: bool,
    unit: usize,
    tweak: u128,
    pub(crate) data_key: u32,
    pub(crate) tag: [u8; 8],
}

impl Encryption {
    /// Whether a byte stream format is one of encryption.
    pub(crate) fn is(bytes: &[u8]) -> bool {
        KIND.get(bytes) == ENCRYPTION
    }

    /// Decodes one.
    ///
    /// # Errors
    /// What is not carried out here: beside signatures, and other standards.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        if SIZE.get(bytes) != ALONE || STANDARD.get(bytes) != 0 {
            return Err("kind of encryption");
        }
        if RAW_SIZE.get(bytes) != u32::MAX {
            return Err("size of a byte stream");
        }
        let on_wire = match ORDER.get(bytes) {
            0 | 2 => true,
            1 | 3 => false,
            _ => return Err("order of encryption"),
        };
        let mut tweak = [0; 16];
        tweak.copy_from_slice(&part(bytes, TWEAK, 16));
        let mut tag = [0; 8];
        tag.copy_from_slice(&part(bytes, TAG, 8));
        Ok(Self {
            on_wire,
            unit: block(UNIT.get(bytes)).ok_or("unit of encryption")?,
            tweak: u128::from_be_bytes(tweak),
            data_key: DATA_KEY.get(bytes),
            tag,
        })
    }

    /// What `length` bytes from `offset` on are encrypted with; `None` if they are not whole units.
    pub(crate) fn at(&self, key: &DataKey, offset: u64, length: u64) -> Option<Ciphering> {
        let unit = self.unit as u64;
        let whole = offset.is_multiple_of(unit) && length.is_multiple_of(unit);
        whole.then(|| Ciphering {
            on_wire: self.on_wire,
            unit: self.unit,
            tweak: self.tweak.wrapping_add(u128::from(offset / unit)),
            key: key.key.clone(),
        })
    }
}

/// A key of data.
#[derive(Clone, Debug)]
pub(crate) struct DataKey {
    pub(crate) pd: u32,
    /// Both halves: 32 bytes or 64.
    pub(crate) key: Vec<u8>,
    pub(crate) tag: Option<[u8; 8]>,
    /// As it was created.
    pub(crate) object: Vec<u8>,
}

/// Whole units of the stream of a key.
#[derive(Clone, Debug)]
pub(crate) struct Ciphering {
    on_wire: bool,
    unit: usize,
    tweak: u128,
    key: Vec<u8>,
}

impl Ciphering {
    /// What memory's bytes are on the wire.
    pub(crate) fn to_wire(&self, bytes: &[u8]) -> Vec<u8> {
        self.convert(bytes, self.on_wire)
    }

    /// What bytes of the wire are in memory.
    pub(crate) fn to_memory(&self, bytes: &[u8]) -> Vec<u8> {
        self.convert(bytes, !self.on_wire)
    }

    fn convert(&self, bytes: &[u8], encrypts: bool) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let (data, tweak) = self.key.split_at(self.key.len() / 2);
        macro_rules! by {
            ($kind:ident) => {
                if let (Ok(data), Ok(tweak)) =
                    ($kind::new_from_slice(data), $kind::new_from_slice(tweak))
                {
                    let cipher = Xts128::new(data, tweak);
                    for (unit, number) in bytes.chunks_exact_mut(self.unit).zip(0_u128..) {
                        let tweak = self.tweak.wrapping_add(number).to_le_bytes();
                        if encrypts {
                            cipher.encrypt_sector(unit, tweak.into());
                        } else {
                            cipher.decrypt_sector(unit, tweak.into());
                        }
                    }
                }
            };
        }
        if data.len() == 16 {
            by!(Aes128);
        } else {
            by!(Aes256);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn key(key: Vec<u8>) -> DataKey {
        DataKey {
            pd: 1,
            key,
            tag: None,
            object: Vec::new(),
        }
    }

    fn format() -> [u8; 64] {
        let mut bytes = [0; 64];
        SIZE.set(&mut bytes, ALONE);
        KIND.set(&mut bytes, ENCRYPTION);
        ORDER.set(&mut bytes, 2);
        RAW_SIZE.set(&mut bytes, u32::MAX);
        UNIT.set(&mut bytes, 1);
        bytes
    }

    /// Vector 4 of IEEE Std 1619-2007: 512 bytes that count, data unit 0.
    #[test]
    fn units_are_those_of_the_standard() {
        let hex = |text: &str| -> Vec<u8> {
            let digits = text.as_bytes().chunks(2);
            let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
            digits.map(byte).collect()
        };
        let keys = hex("2718281828459045235360287471352631415926535897932384626433832795");
        let data: Vec<u8> = (0..512_u32).map(|at| at as u8).collect();
        let ciphering = Encryption::parse(&format()).unwrap();
        let ciphering = ciphering.at(&key(keys), 0, 512).unwrap();
        let sent = ciphering.to_wire(&data);
        assert_eq!(sent[..16], hex("27a7479befa1d476489f308cd4cfa6e2"));
        assert_eq!(ciphering.to_memory(&sent), data);
    }

    #[test]
    fn each_unit_has_its_own_tweak() {
        let keys = key((0..64).collect());
        let mut bytes = format();
        bytes[0x1f] = 5;
        let encryption = Encryption::parse(&bytes).unwrap();
        let data = [9; 1024];
        let both = encryption.at(&keys, 0, 1024).unwrap().to_wire(&data);
        assert_ne!(both[..512], both[512..]);
        let second = encryption
            .at(&keys, 512, 512)
            .unwrap()
            .to_wire(&data[..512]);
        assert_eq!(second, both[512..]);
        bytes[0x1f] = 6;
        let next = Encryption::parse(&bytes)
            .unwrap()
            .at(&keys, 0, 512)
            .unwrap();
        assert_eq!(next.to_wire(&data[..512]), second);
        // In memory instead of on the wire.
        ORDER.set(&mut bytes, 3);
        let memory = Encryption::parse(&bytes)
            .unwrap()
            .at(&keys, 0, 512)
            .unwrap();
        assert_eq!(memory.to_memory(&data[..512]), second);
        assert!(encryption.at(&keys, 256, 512).is_none());
        assert!(encryption.at(&keys, 0, 513).is_none());
    }

    #[test]
    fn what_is_not_carried_out_is_refused() {
        let refused = |change: &dyn Fn(&mut [u8; 64])| {
            let mut bytes = format();
            change(&mut bytes);
            Encryption::parse(&bytes).unwrap_err()
        };
        assert_eq!(refused(&|bytes| SIZE.set(bytes, 3)), "kind of encryption");
        assert_eq!(
            refused(&|bytes| STANDARD.set(bytes, 1)),
            "kind of encryption"
        );
        assert_eq!(
            refused(&|bytes| RAW_SIZE.set(bytes, 1)),
            "size of a byte stream"
        );
        assert_eq!(refused(&|bytes| ORDER.set(bytes, 4)), "order of encryption");
        assert_eq!(refused(&|bytes| UNIT.set(bytes, 5)), "unit of encryption");
    }
}
