//! Where a send ring is.

use super::SendRing;
use crate::wqe::{BLOCK_UNITS, Place, UNIT};

impl SendRing {
    /// Its memory; entries are blocks.
    pub(crate) fn place(&self) -> Place {
        Place {
            buffer: self.blocks.ring().address(),
            record: self.record.address(),
            count: self.blocks.ring().blocks(),
            stride: BLOCK_UNITS * UNIT,
        }
    }

    /// The address of its doorbell.
    pub(crate) fn register(&self) -> u64 {
        self.doorbell.address()
    }
}
