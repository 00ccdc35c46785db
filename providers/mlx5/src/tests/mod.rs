//! What the tests of several files share.

use uverbs_driver::hw::UnitRing;

pub(crate) mod scripted;

/// What is in a ring.
pub(crate) fn bytes_of(ring: &UnitRing) -> Vec<u8> {
    let words = (0..=ring.mask()).flat_map(|unit| ring.get(unit));
    words.flat_map(u64::to_ne_bytes).collect()
}
