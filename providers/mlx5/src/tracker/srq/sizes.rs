//! The sizes of a shared receive queue.

use uverbs_core::types::SrqAttr;
use uverbs_core::{Error, Op, Result};

use crate::wqe::UNIT;

/// The maximum number of requests: links have 16 bits.
const MAX_COUNT: u32 = 1 << 16;

/// The minimum number of bytes of a request.
const MIN_STRIDE: u32 = 32;

/// The sizes of a shared receive queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Sizes {
    /// The number of requests, a power of two.
    pub(crate) count: u32,
    /// The number of requests at rest, the last ones: all or none of the second half. Of the
    /// others, all but one can be outstanding.
    pub(crate) spare: u32,
    /// log₂ of the units of each request.
    pub(crate) shift: u32,
    /// The maximum number of scatter/gather entries of a request.
    pub(crate) max_sge: u32,
}

impl Sizes {
    /// If receives may meet page faults (`rests`), as many requests again are at rest, if the
    /// device has room.
    ///
    /// # Errors
    /// Sizes above the limits: at most `max_wr` requests (a power of two, of which one is not
    /// used), at most `max_desc` bytes each.
    pub(crate) fn new(
        op: Op,
        max_wr: u32,
        max_desc: u32,
        attr: &SrqAttr,
        rests: bool,
    ) -> Result<Self> {
        let most = max_wr.min(MAX_COUNT).saturating_sub(1);
        if attr.max_wr == 0 {
            return Err(Error::invalid(op, "max_wr").fact("min", 1_u32));
        }
        if attr.max_wr > most {
            return Err(Error::limit(op, "max_wr", attr.max_wr.into(), most.into()));
        }
        let max_sge = (max_desc / UNIT).saturating_sub(1);
        if attr.max_sge > max_sge {
            let requested = attr.max_sge.into();
            return Err(Error::limit(op, "max_sge", requested, max_sge.into()));
        }
        let stride = (UNIT + UNIT * attr.max_sge)
            .max(MIN_STRIDE)
            .next_power_of_two();
        let listed = (attr.max_wr + 1).next_power_of_two();
        let spare = if rests && 2 * listed <= max_wr.min(MAX_COUNT) {
            listed
        } else {
            0
        };
        Ok(Self {
            count: listed + spare,
            spare,
            shift: (stride / UNIT).ilog2(),
            max_sge: stride / UNIT - 1,
        })
    }

    /// The number of requests that can be outstanding.
    pub(crate) const fn max_wr(&self) -> u32 {
        self.listed() - 1
    }

    /// The number of requests in the list, under way or used up.
    pub(crate) const fn listed(&self) -> u32 {
        self.count - self.spare
    }

    /// The number of units of the ring.
    pub(crate) const fn units(&self) -> u32 {
        self.count << self.shift
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn sizes(max_wr: u32, max_sge: u32) -> Result<(u32, u32, u32)> {
        let attr = SrqAttr {
            max_wr,
            max_sge,
            limit: 0,
        };
        let sizes = Sizes::new(Op::CreateSharedReceiveQueue, 32768, 512, &attr, false)?;
        Ok((sizes.max_wr(), sizes.units(), sizes.max_sge))
    }

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!(sizes(1, 1).unwrap(), (1, 4, 1));
        assert_eq!(sizes(100, 1).unwrap(), (127, 256, 1));
        assert_eq!(sizes(127, 2).unwrap(), (127, 512, 3));
        assert_eq!(sizes(128, 0).unwrap(), (255, 512, 1));
        assert_eq!(sizes(32767, 31).unwrap(), (32767, 1 << 20, 31));
    }

    #[test]
    fn spare_slots_do_not_count_as_capacity() {
        let sizes = |max_wr, most| {
            let attr = SrqAttr {
                max_wr,
                max_sge: 1,
                limit: 0,
            };
            let sizes = Sizes::new(Op::CreateSharedReceiveQueue, most, 512, &attr, true).unwrap();
            (sizes.max_wr(), sizes.count, sizes.spare)
        };
        assert_eq!(sizes(1, 32768), (1, 4, 2));
        assert_eq!(sizes(100, 32768), (127, 256, 128));
        assert_eq!(sizes(16383, 32768), (16383, 32768, 16384));
        assert_eq!(sizes(16384, 32768), (32767, 32768, 0), "no room");
        assert_eq!(sizes(65535, 1 << 20), (65535, 65536, 0), "links are short");
    }

    #[test]
    fn limits_that_are_exceeded_are_named() {
        for (wr, sge, what) in [(0, 1, "max_wr"), (32768, 1, "max_wr"), (1, 32, "max_sge")] {
            assert!(sizes(wr, sge).unwrap_err().to_string().contains(what));
        }
    }
}
