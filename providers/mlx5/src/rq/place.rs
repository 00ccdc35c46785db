//! Where a receive ring is.

use super::{ReceiveRing, UNIT_SHIFT};
use crate::wqe::Place;

impl ReceiveRing {
    /// Its memory.
    pub(crate) fn place(&self) -> Place {
        Place {
            buffer: self.ring.address(),
            record: self.record.address(),
            count: self.mask.wrapping_add(1),
            stride: self.form.units << UNIT_SHIFT,
        }
    }
}
