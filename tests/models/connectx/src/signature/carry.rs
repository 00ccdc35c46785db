//! Carries data from one side of a key to the other.

use super::{Bsf, Side};

/// A signature that was not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Bits of the completion that reports it.
    pub(crate) syndrome: u16,
    /// On which side: 0 is the wire, 1 memory.
    pub(crate) side: u8,
    /// What came with the block, and what its data demands.
    pub(crate) came: u64,
    pub(crate) computed: u64,
    /// Where its block begins, in bytes of its side.
    pub(crate) offset: u64,
}

/// Which part of a T10-DIF is wrong; a CRC is all guard.
mod wrong {
    pub(super) const REFERENCE: u16 = 1 << 11;
    pub(super) const APPLICATION: u16 = 1 << 12;
    pub(super) const GUARD: u16 = 1 << 13;
}

const WIRE: u8 = 0;
const MEMORY: u8 = 1;

/// A part of the stream of a key: whole blocks from its `first` on, and what is left of another
/// one, which has no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    bsf: Bsf,
    first: u64,
    blocks: u64,
    rest: u64,
}

/// Bytes of a block on a side, with a signature if there is one.
fn stride(side: Option<&Side>, block: usize) -> u64 {
    side.map_or(block, Side::stride) as u64
}

impl Transfer {
    /// What `length` bytes of the wire from `address` on are; `None` if they do not begin with a
    /// block, or end within a signature.
    pub(crate) fn new(bsf: Bsf, address: u64, length: u64) -> Option<Self> {
        let block = block(&bsf)?;
        let stride = stride(bsf.wire.as_ref(), block);
        let rest = length % stride;
        (address.is_multiple_of(stride) && rest <= block as u64).then_some(Self {
            bsf,
            first: address / stride,
            blocks: length / stride,
            rest,
        })
    }

    /// Where it begins in memory, and how many bytes it is there.
    pub(crate) fn in_memory(&self) -> (u64, u64) {
        let block = block(&self.bsf).unwrap_or(1);
        let stride = stride(self.bsf.memory.as_ref(), block);
        (self.first * stride, self.blocks * stride + self.rest)
    }

    /// What memory's bytes are on the wire, and the first signature that is wrong.
    pub(crate) fn to_wire(self, bytes: &[u8]) -> (Vec<u8>, Option<Fault>) {
        let Bsf { wire, memory, .. } = self.bsf;
        self.carry(bytes, (memory, MEMORY), wire)
    }

    /// What bytes of the wire are in memory, and the first signature that is wrong.
    pub(crate) fn to_memory(self, bytes: &[u8]) -> (Vec<u8>, Option<Fault>) {
        let Bsf { wire, memory, .. } = self.bsf;
        self.carry(bytes, (wire, WIRE), memory)
    }

    fn carry(
        &self,
        mut bytes: &[u8],
        (from, name): (Option<Side>, u8),
        to: Option<Side>,
    ) -> (Vec<u8>, Option<Fault>) {
        let size = block(&self.bsf).unwrap_or(1);
        let each = stride(from.as_ref(), size);
        let mut out = Vec::new();
        let mut fault = None;
        for number in self.first..self.first + self.blocks {
            let Some((whole, behind)) = bytes.split_at_checked(each as usize) else {
                break;
            };
            bytes = behind;
            let (data, field) = whole.split_at(size);
            let mut came = [0; 8];
            came[..field.len()].copy_from_slice(field);
            if let Some(side) = &from
                && fault.is_none()
            {
                fault = self.check(side, number, data, came).map(|fault| Fault {
                    side: name,
                    offset: number * each,
                    ..fault
                });
            }
            out.extend_from_slice(data);
            if let Some(side) = &to {
                let mut signature = side.code.of(number, data);
                for (at, byte) in signature.iter_mut().enumerate() {
                    if self.bsf.copy >> (7 - at) & 1 != 0 {
                        *byte = came[at];
                    }
                }
                out.extend_from_slice(&signature[..side.code.length()]);
            }
        }
        out.extend_from_slice(bytes);
        (out, fault)
    }

    fn check(&self, side: &Side, number: u64, data: &[u8], came: [u8; 8]) -> Option<Fault> {
        let computed = side.code.of(number, data);
        let mask = u64::from_be_bytes(side.code.compared(self.bsf.check));
        let escapes = side.code.escapes(came);
        let [came, computed] = [came, computed].map(u64::from_be_bytes);
        let wrong = (came ^ computed) & mask;
        if wrong == 0 || escapes {
            return None;
        }
        let syndrome = match wrong {
            _ if !side.code.is_dif() || wrong >> 48 != 0 => wrong::GUARD,
            _ if wrong >> 32 != 0 => wrong::APPLICATION,
            _ => wrong::REFERENCE,
        };
        Some(Fault {
            syndrome,
            side: 0,
            came,
            computed,
            offset: 0,
        })
    }
}

/// Bytes of data in a block; both sides have the same.
fn block(bsf: &Bsf) -> Option<usize> {
    let side = bsf.memory.or(bsf.wire)?;
    Some(side.block)
}
