//! Helpers shared by the tests of several files.

use uverbs_core::hw::UnitRing;

pub(crate) mod lender;
pub(crate) mod scripted;

/// The bytes of a number in this machine's byte order, in the format of [`scripted`].
pub(crate) fn native(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The most steps of a script that has up to `steps` elsewhere: the interpreter takes a good part
/// of a second for each.
pub(crate) const fn shorter(steps: usize) -> usize {
    if cfg!(miri) { steps / 5 } else { steps }
}

/// The contents of a ring.
pub(crate) fn bytes_of(ring: &UnitRing) -> Vec<u8> {
    let words = (0..=ring.mask()).flat_map(|unit| ring.get(unit));
    words.flat_map(u64::to_ne_bytes).collect()
}
