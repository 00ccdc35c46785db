//! A set of operations that only grows, shared between threads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Op;

/// One bit per [`Op`], except those of the connection manager, which are not requested of a
/// device's file.
#[derive(Debug, Default)]
pub(super) struct OpBits([AtomicU64; 2]);

impl OpBits {
    pub(super) fn contains(&self, op: Op) -> bool {
        self.place(op)
            .is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    pub(super) fn insert(&self, op: Op) {
        if let Some((word, bit)) = self.place(op) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(super) fn insert_all(&self) {
        for word in &self.0 {
            word.store(u64::MAX, Ordering::Relaxed);
        }
    }

    fn place(&self, op: Op) -> Option<(&AtomicU64, u64)> {
        let number = op as usize;
        Some((self.0.get(number / 64)?, 1 << (number % 64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_own_bit() {
        let of_devices = Op::ALL
            .iter()
            .take_while(|op| **op != Op::OpenConnectionManager);
        for &op in of_devices {
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
