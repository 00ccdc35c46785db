//! Requests of a shared receive queue that met a page fault.

use std::sync::{Arc, Weak};

use super::reposts::Reposts;
use super::{RESTS, SrqTracker, bit};
use crate::sync::atomic::Ordering;

impl SrqTracker {
    /// The same where such requests are posted again, for as long as these `reposts` exist. The
    /// last `spare` requests are at rest.
    pub(crate) fn reposting(mut self, spare: u32, reposts: &Arc<Reposts>) -> Self {
        for request in self.requests.iter().rev().take(spare as usize) {
            request.place.store(RESTS, Ordering::Relaxed);
        }
        self.reposts = Some(Arc::downgrade(reposts));
        self
    }

    /// Whether such requests are posted again.
    pub(crate) fn reposts(&self) -> bool {
        self.reposts.is_some()
    }

    /// The request at `index` met a page fault. `None` if it is not under way. If the queue is
    /// gone, nothing remains to be done.
    #[cold]
    pub(crate) fn faulted(&self, index: u16) -> Option<()> {
        let place = self.under_way(index)?;
        match self.reposts.as_ref().and_then(Weak::upgrade) {
            Some(reposts) => reposts.fault(self, index, place),
            None => Some(()),
        }
    }

    /// Takes back the request at `index`, which faulted at this position of the list, and puts it
    /// to rest; returns the number that it was posted with. `None` if it was completed meanwhile
    /// nevertheless: of two, its bit in `free` shows which came second.
    ///
    /// For the thread that has the turn of the list.
    pub(crate) fn take_back(&self, index: u32, place: u64) -> Option<u64> {
        let request = self.requests.get(index as usize)?;
        if request.place.load(Ordering::Relaxed) != place {
            return None;
        }
        let wr_id = request.wr_id.load(Ordering::Relaxed);
        let (word, bit) = bit(index as usize);
        // Not cleared here: a poller that has found it under way finds this.
        let before = self.free.get(word)?.fetch_or(bit, Ordering::AcqRel);
        if before & bit != 0 {
            return None;
        }
        request.place.store(RESTS, Ordering::Relaxed);
        Some(wr_id)
    }

    /// Links the request at `index`, which was at rest, at this position of the list. For the
    /// thread that has the turn of the list.
    pub(crate) fn link(&self, index: u32, place: u64) {
        let (word, bit) = bit(index as usize);
        if let (Some(request), Some(free)) =
            (self.requests.get(index as usize), self.free.get(word))
        {
            request.place.store(place, Ordering::Relaxed);
            free.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}
