//! What is left in a completion queue that goes: its entries, of which nobody will take a
//! completion.

use std::sync::Arc;

use super::owners::Owners;
use crate::cqe::CqShared;
use crate::cqe::format;
use crate::sync::barrier;
use crate::tracker::table::Trackers;

/// Passes over what is left when this is dropped, which the kernel object does when the completion
/// queue is gone for sure, and with it every queue that it reported on. What those used up of
/// shared receive queues goes back to them.
#[derive(Debug)]
pub(crate) struct Left {
    cq: Arc<CqShared>,
    trackers: Arc<Trackers>,
    by_device: bool,
}

impl Left {
    /// Of `cq`. `by_device`: its entries carry no numbers but the device's.
    pub(crate) fn new(cq: &Arc<CqShared>, trackers: &Arc<Trackers>, by_device: bool) -> Self {
        Self {
            cq: Arc::clone(cq),
            trackers: Arc::clone(trackers),
            by_device,
        }
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let mut owners = Owners::new(&self.cq, &self.trackers, self.by_device);
        let ring = Arc::clone(&self.cq.lock());
        let first = self.cq.taken();
        for position in first..first.saturating_add(ring.entries().into()) {
            // Where the next one is behind one that stands for others, and makes no sense, nobody
            // knows.
            if ring
                .settle(position)
                .is_none_or(|tail| tail.format() == format::COMPRESSED)
            {
                break;
            }
            barrier::from_device();
            owners.leave(position, ring.look(ring.place(position)));
        }
        // Nothing waits in it any more.
        self.cq.take(u64::MAX);
    }
}
