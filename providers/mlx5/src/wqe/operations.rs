//! The operations that each transport supports.

use bitflags::bitflags;
use uverbs_core::types::{AtomicCap, QpType};

bitflags! {
    /// Operations of a send queue.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub(crate) struct Operations: u8 {
        /// Sends that carry 32 bits.
        const SEND_IMM = 1;
        /// Sends that invalidate a key of the peer.
        const SEND_INVALIDATE = 1 << 1;
        /// Writes, with or without 32 bits.
        const WRITE = 1 << 2;
        /// Reads.
        const READ = 1 << 3;
        /// Atomic operations on 8 bytes.
        const ATOMIC = 1 << 4;
        /// Binding windows and invalidating local keys.
        const CHANGE_KEY = 1 << 5;
        /// Plain sends.
        const SEND = 1 << 6;
    }
}

impl Operations {
    /// What every connection has.
    pub(crate) const BASIC: Self = Self::SEND.union(Self::SEND_IMM).union(Self::WRITE);

    /// The operations of a transport. Driver queue pairs are DC initiators.
    pub(crate) fn of(kind: QpType, atomics: AtomicCap) -> Self {
        let unreliable =
            Self::SEND | Self::SEND_IMM | Self::SEND_INVALIDATE | Self::WRITE | Self::CHANGE_KEY;
        match kind {
            QpType::Uc => unreliable,
            QpType::Ud => Self::SEND | Self::SEND_IMM,
            QpType::Rc | QpType::XrcInitiator | QpType::Driver if atomics == AtomicCap::None => {
                unreliable | Self::READ
            }
            QpType::Rc | QpType::XrcInitiator | QpType::Driver => {
                unreliable | Self::READ | Self::ATOMIC
            }
            _ => Self::SEND,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_need_a_device_that_has_them() {
        for kind in [QpType::Rc, QpType::XrcInitiator, QpType::Driver] {
            let without = Operations::of(kind, AtomicCap::None);
            assert!(!without.contains(Operations::ATOMIC));
            let with = without | Operations::ATOMIC;
            assert_eq!(Operations::of(kind, AtomicCap::Device), with);
        }
        assert!(!Operations::of(QpType::Uc, AtomicCap::Device).contains(Operations::ATOMIC));
    }
}
