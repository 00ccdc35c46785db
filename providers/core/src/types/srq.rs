//! Shared receive queues.

open_enum! {
    /// `ibv_srq_type`—kind of a shared receive queue (`enum ib_uverbs_srq_type`).
    #[doc(alias = "ibv_srq_type")]
    #[derive(Default)]
    pub enum SrqType: u32 {
        /// For queue pairs of one protection domain.
        #[default]
        Basic = 0, "IBV_SRQT_BASIC", "basic";
        /// Addressed by number over extended reliable connections.
        Xrc = 1, "IBV_SRQT_XRC", "xrc";
        /// With tag matching.
        TagMatching = 2, "IBV_SRQT_TM", "tag matching";
    }
}

/// `ibv_srq_attr`—size and limit of a shared receive queue.
#[doc(alias = "ibv_srq_attr")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct SrqAttr {
    /// Outstanding receives.
    pub max_wr: u32,
    /// Scatter/gather entries of a receive.
    pub max_sge: u32,
    /// Limit below which an event is raised. 0 means disarmed; it reads as 0 once the event has
    /// been raised.
    pub limit: u32,
}

request_flags! {
    /// `ibv_srq_attr_mask`—which attributes of a shared receive queue change.
    #[doc(alias = "ibv_srq_attr_mask")]
    pub struct SrqAttrMask: u32 {
        /// Its size.
        MAX_WR = 1 << 0, "IBV_SRQ_MAX_WR";
        /// Its limit.
        LIMIT = 1 << 1, "IBV_SRQ_LIMIT";
    }
}

/// `ibv_modify_srq`—changes to a shared receive queue, applied all or not at all.
#[doc(alias = "ibv_modify_srq")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct SrqModify {
    /// New size, in outstanding receives.
    pub max_wr: Option<u32>,
    /// New limit; 0 disarms.
    pub limit: Option<u32>,
}

impl SrqModify {
    /// Changes nothing yet.
    pub const fn new() -> Self {
        Self {
            max_wr: None,
            limit: None,
        }
    }

    /// Resizes to `max_wr` outstanding receives.
    #[must_use]
    pub const fn max_wr(mut self, max_wr: u32) -> Self {
        self.max_wr = Some(max_wr);
        self
    }

    /// Arms an event for when fewer than `limit` receives are left; 0 disarms.
    #[must_use]
    pub const fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// What changes, in the kernel's bits.
    #[doc(hidden)] // For commands: it says nothing that the fields do not.
    pub const fn mask(&self) -> SrqAttrMask {
        let size = if self.max_wr.is_some() {
            SrqAttrMask::MAX_WR
        } else {
            SrqAttrMask::empty()
        };
        let limit = if self.limit.is_some() {
            SrqAttrMask::LIMIT
        } else {
            SrqAttrMask::empty()
        };
        size.union(limit)
    }
}
