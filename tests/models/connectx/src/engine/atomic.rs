//! Atomic operations on 8 bytes, plain and masked.

use crate::engine::wqe::{Malformed, opcode};
use crate::layout::be64;

/// The opcode modifier of an extended atomic on 8 bytes: its bit, and log₂ of the bytes less 2.
const EIGHT_BYTES: u8 = 8 | 1;

/// The effect on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomic {
    /// Where the bits of `compare_mask` equal those of `compare`, the bits of `swap_mask` are
    /// replaced by those of `swap`.
    CompareSwap {
        compare: u64,
        compare_mask: u64,
        swap: u64,
        swap_mask: u64,
    },
    /// An addition whose carries stop at the bits of `boundary`.
    FetchAdd { add: u64, boundary: u64 },
}

/// Whether an opcode is that of an atomic operation.
pub(crate) fn is_atomic(code: u8) -> bool {
    matches!(code, opcode::COMPARE_SWAP | opcode::FETCH_ADD) || is_masked(code)
}

/// Whether an opcode is that of a masked atomic operation, which not every device supports.
pub(crate) fn is_masked(code: u8) -> bool {
    matches!(code, opcode::MASKED_COMPARE_SWAP | opcode::MASKED_FETCH_ADD)
}

/// Number of bytes that an opcode's operands take.
pub(crate) fn operands(code: u8) -> usize {
    if code == opcode::MASKED_COMPARE_SWAP {
        32
    } else {
        16
    }
}

impl Atomic {
    /// Decodes the [`operands`] of `code` with its modifier.
    pub(crate) fn parse(code: u8, modifier: u8, operands: &[u8]) -> Result<Self, Malformed> {
        if is_masked(code) && modifier != EIGHT_BYTES {
            return Err(Malformed("size of an atomic"));
        }
        let (first, second) = (be64(operands, 0), be64(operands, 8));
        Ok(match code {
            opcode::COMPARE_SWAP => Self::CompareSwap {
                compare: second,
                compare_mask: u64::MAX,
                swap: first,
                swap_mask: u64::MAX,
            },
            opcode::MASKED_COMPARE_SWAP => Self::CompareSwap {
                compare: second,
                compare_mask: be64(operands, 24),
                swap: first,
                swap_mask: be64(operands, 16),
            },
            opcode::MASKED_FETCH_ADD => Self::FetchAdd {
                add: first,
                boundary: second,
            },
            _ => Self::FetchAdd {
                add: first,
                boundary: 0,
            },
        })
    }

    /// The value of the word afterwards.
    pub(crate) fn apply(self, old: u64) -> u64 {
        match self {
            Self::CompareSwap {
                compare,
                compare_mask,
                swap,
                swap_mask,
            } => {
                if (old ^ compare) & compare_mask == 0 {
                    old & !swap_mask | swap & swap_mask
                } else {
                    old
                }
            }
            Self::FetchAdd { add, boundary } => {
                // With the highest bit of each field cleared no carry leaves the field; that bit is
                // added without carry.
                let below = (old & !boundary).wrapping_add(add & !boundary);
                below ^ (old ^ add) & boundary
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bit by bit, following the definition.
    fn sum(old: u64, add: u64, boundary: u64) -> u64 {
        let mut carry = 0;
        (0..64).fold(0, |sum, bit| {
            let total = (old >> bit & 1) + (add >> bit & 1) + carry;
            carry = if boundary >> bit & 1 == 1 {
                0
            } else {
                total >> 1
            };
            sum | (total & 1) << bit
        })
    }

    proptest! {
        #[test]
        fn a_masked_sum_is_that_of_its_fields(old: u64, add: u64, boundary: u64) {
            prop_assert_eq!(Atomic::FetchAdd { add, boundary }.apply(old), sum(old, add, boundary));
            prop_assert_eq!(Atomic::FetchAdd { add, boundary: 0 }.apply(old), old.wrapping_add(add));
        }
    }

    #[test]
    fn only_masked_bits_are_compared_and_swapped() {
        let swap = |compare| Atomic::CompareSwap {
            compare,
            compare_mask: 0xff00,
            swap: 0xabcd,
            swap_mask: 0x00f0,
        };
        assert_eq!(swap(0x12ee).apply(0x1234), 0x12c4);
        assert_eq!(swap(0x13ee).apply(0x1234), 0x1234);
    }

    #[test]
    fn masked_operands_have_their_size() {
        let operands = [0; 32];
        assert!(Atomic::parse(opcode::MASKED_FETCH_ADD, EIGHT_BYTES, &operands).is_ok());
        for modifier in [0, 8, 10] {
            let parsed = Atomic::parse(opcode::MASKED_COMPARE_SWAP, modifier, &operands);
            assert_eq!(parsed, Err(Malformed("size of an atomic")));
        }
    }
}
