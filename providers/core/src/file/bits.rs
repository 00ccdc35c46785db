//! A set of operations that only grows, shared between threads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Op;

/// One bit per [`Op`].
#[derive(Debug, Default)]
pub(super) struct OpBits([AtomicU64; 2]);

impl OpBits {
    pub(super) fn contains(&self, op: Op) -> bool {
        let (word, bit) = self.place(op);
        word.load(Ordering::Relaxed) & bit != 0
    }

    pub(super) fn insert(&self, op: Op) {
        let (word, bit) = self.place(op);
        word.fetch_or(bit, Ordering::Relaxed);
    }

    pub(super) fn insert_all(&self) {
        for word in &self.0 {
            word.store(u64::MAX, Ordering::Relaxed);
        }
    }

    fn place(&self, op: Op) -> (&AtomicU64, u64) {
        let number = op as usize;
        (&self.0[(number / 64) % 2], 1 << (number % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_own_bit() {
        for &op in Op::ALL {
            let bits = OpBits::default();
            bits.insert(op);
            let set: Vec<_> = Op::ALL
                .iter()
                .filter(|other| bits.contains(**other))
                .collect();
            assert_eq!(set, [&op]);
        }
    }
}
