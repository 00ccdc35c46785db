//! The form of receive requests: scatter/gather entries, and an end mark where there could be more.

use uverbs_core::PostError;
use uverbs_core::hw::UnitRing;
use uverbs_core::types::Sge;

use crate::wqe::{self, Unit};

/// The longest buffer: one bit less than its length field has.
const MAX_MESSAGE: u64 = MAX_SGE_LENGTH as u64;
pub(super) const MAX_SGE_LENGTH: u32 = (1 << 31) - 1;

/// The form of a ring's requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// The number of units of a request, a power of two.
    pub(super) units: u32,
    pub(super) max_sge: u32,
}

impl Form {
    /// The first unit of a request.
    #[inline]
    pub(super) const fn unit(self, request: u32) -> u32 {
        request.wrapping_mul(self.units)
    }

    /// Writes a usual scatter/gather entry at unit `at`, followed by the end mark where there could
    /// be more.
    #[inline]
    pub(super) fn put(self, ring: &UnitRing, at: u32, sge: &Sge) {
        put_sge(ring, at, self.max_sge, sge);
    }
}

/// Whether a single scatter/gather entry is valid in a request with up to `max_sge` entries.
#[inline]
fn is_usual(sge: &Sge, max_sge: u32) -> bool {
    max_sge != 0 && (1..=MAX_SGE_LENGTH).contains(&sge.length)
}

#[inline]
fn put_sge(ring: &UnitRing, at: u32, max_sge: u32, sge: &Sge) {
    ring.put(at, wqe::data(sge));
    if max_sge != 1 {
        ring.put(at.wrapping_add(1), wqe::END);
    }
}

/// Writes the scatter/gather entries of a receive request from unit `at` on. The device uses them
/// in order up to `max_sge` or an end mark.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(crate) fn put_sges(
    ring: &UnitRing,
    at: u32,
    max_sge: u32,
    sges: &[Sge],
) -> Result<(), PostError> {
    // Most requests have one scatter/gather entry.
    if let [sge] = sges
        && is_usual(sge, max_sge)
    {
        put_sge(ring, at, max_sge, sge);
        return Ok(());
    }
    put_any_sges(ring, at, max_sge, sges)
}

#[inline(never)]
pub(super) fn put_any_sges(
    ring: &UnitRing,
    mut at: u32,
    max_sge: u32,
    sges: &[Sge],
) -> Result<(), PostError> {
    if sges.len() > max_sge as usize {
        return Err(PostError::TooManySges {
            requested: u32::try_from(sges.len()).unwrap_or(u32::MAX),
            max: max_sge,
        });
    }
    let end = at.wrapping_add(max_sge);
    let mut total = 0;
    let mut put = |unit: Unit| {
        ring.put(at, unit);
        at = at.wrapping_add(1);
    };
    for sge in sges {
        if sge.length != 0 {
            total += u64::from(sge.length);
            put(wqe::data(sge));
        }
    }
    if at != end {
        ring.put(at, wqe::END);
    }
    if total > MAX_MESSAGE {
        return Err(PostError::MessageTooLong {
            requested: total,
            max: MAX_MESSAGE,
        });
    }
    Ok(())
}
