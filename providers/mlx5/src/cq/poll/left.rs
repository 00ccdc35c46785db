//! The entries left in a destroyed completion queue, whose completions are never taken.

use std::sync::Arc;

use super::owners::Owners;
use crate::cqe::CqShared;
use crate::cqe::format;
use crate::sync::barrier;
use crate::tracker::table::Trackers;

/// Skips the remaining entries on drop. The kernel object drops it when the completion queue is
/// certainly gone, and with it every queue that reported to it. Requests of shared receive queues
/// that these entries used up go back to their queues.
#[derive(Debug)]
pub(crate) struct Left<K> {
    cq: Arc<CqShared>,
    trackers: Arc<Trackers>,
    by_device: bool,
    /// What the device may use until then.
    #[expect(dead_code, reason = "kept for its drop")]
    kept: K,
}

impl<K> Left<K> {
    /// The entries left in `cq`. `by_device`: its entries carry only the device's numbers.
    pub(crate) fn new(
        cq: &Arc<CqShared>,
        trackers: &Arc<Trackers>,
        by_device: bool,
        kept: K,
    ) -> Self {
        Self {
            cq: Arc::clone(cq),
            trackers: Arc::clone(trackers),
            by_device,
            kept,
        }
    }
}

impl<K> Drop for Left<K> {
    fn drop(&mut self) {
        let mut owners = Owners::new(&self.cq, &self.trackers, self.by_device);
        let ring = Arc::clone(&self.cq.lock());
        let first = self.cq.taken();
        for position in first..first.saturating_add(ring.entries().into()) {
            // After a malformed compressed entry, the position of the next entry is unknown.
            if ring
                .settle(position)
                .is_none_or(|tail| tail.format() == format::COMPRESSED)
            {
                break;
            }
            barrier::from_device();
            owners.leave(position, ring.look(ring.place(position)));
        }
        // No entry of the queue is waiting any more.
        self.cq.take(u64::MAX);
    }
}
