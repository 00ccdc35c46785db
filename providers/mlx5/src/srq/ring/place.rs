//! Where the ring is.

use super::SharedRing;
use crate::wqe::{Place, UNIT};

impl SharedRing {
    /// Its memory, and how many requests are linked.
    pub(crate) fn place(&self) -> Place {
        Place {
            buffer: self.ring.address(),
            record: self.record.address(),
            count: self.sizes.listed(),
            stride: UNIT << self.sizes.shift,
        }
    }
}
