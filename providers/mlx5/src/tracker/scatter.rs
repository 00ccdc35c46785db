//! Small messages that come in their completions: whoever polls copies them to where the receive request wanted them.
//!
//! The copy is made while the request is still under way, so its memory is nobody else's: who resets or destroys the queue pair, and
//! gives memory back for that, waits until nobody copies, and from then on nothing is copied any more. One lock does both. It is
//! taken by queue pairs that were created for this, no others.

use std::sync::PoisonError;

use uverbs_core::types::Sge;

use super::{QueuePairTracker, Request};
use crate::sync::{Mutex, MutexGuard};

/// Where messages go.
#[derive(Debug)]
pub(crate) struct ScatterTracker {
    places: Mutex<Places>,
}

/// What is known of receive requests.
#[derive(Debug)]
pub(crate) struct Places {
    /// The pieces of each, as many as a request can have, at its index.
    pieces: Box<[Sge]>,
    /// Pieces of a request at most.
    max_sge: usize,
    /// Requests that a queue has at a time, a power of two.
    count: u32,
    /// Requests handed over, counted on and on.
    posted: u32,
    /// The queue pair is gone.
    ended: bool,
}

impl ScatterTracker {
    /// For a queue of `count` (a power of two) requests of up to `max_sge` pieces.
    pub(crate) fn new(count: u32, max_sge: u32) -> Self {
        let max_sge = max_sge as usize;
        Self {
            places: Mutex::new(Places {
                pieces: vec![Sge::default(); count as usize * max_sge].into(),
                max_sge,
                count,
                posted: 0,
                ended: false,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the pieces of the request that will be the `position`-th.
    pub(crate) fn note(&self, position: u32, pieces: &[Sge]) {
        let mut places = self.lock();
        let Some(range) = places.range(position) else {
            return;
        };
        if let Some(room) = places.pieces.get_mut(range) {
            room.fill(Sge::default());
            for (slot, piece) in room.iter_mut().zip(pieces) {
                *slot = *piece;
            }
        }
    }

    /// So many requests are the device's, counted on and on.
    pub(crate) fn posted(&self, posted: u32) {
        self.lock().posted = posted;
    }

    /// Forgets what was posted. Until what this returns is dropped, nobody copies.
    pub(super) fn forget(&self) -> MutexGuard<'_, Places> {
        let mut places = self.lock();
        places.posted = 0;
        places
    }

    /// The queue pair is gone: nothing is copied any more.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
    }
}

impl Places {
    /// Where the pieces of the request at `position` are.
    fn range(&self, position: u32) -> Option<std::ops::Range<usize>> {
        let first = (position & self.count.checked_sub(1)?) as usize * self.max_sge;
        Some(first..first + self.max_sge)
    }

    /// Copies a message to where the request at `position` wants it. `None`, and nothing is copied, if that is not under way or has
    /// not so much room.
    fn put(&self, position: u32, message: &[u8]) -> Option<()> {
        let ahead = self.posted.wrapping_sub(position);
        if ahead == 0 || ahead > self.count {
            return None;
        }
        let pieces = self.pieces.get(self.range(position)?)?;
        let room: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
        if room < message.len() as u64 {
            return None;
        }
        let mut left = message;
        for piece in pieces {
            let (bytes, rest) = left.split_at(left.len().min(piece.length as usize));
            write(piece.address, bytes);
            left = rest;
        }
        Some(())
    }
}

/// Copies bytes to the start of a piece of a request that is under way.
#[allow(unsafe_code, reason = "writes where a receive request said")]
fn write(address: u64, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    // SAFETY: whoever created the queue pair promised that the pieces of its receive requests are
    // memory of this process at these addresses until the requests are completed
    // (`QpExtra::scattering`). This one is not: nobody was told, and a reset or destroy waits for
    // the lock that the caller has.
    unsafe { uverbs_core::hw::write_in_place(address, bytes) };
}

impl QueuePairTracker {
    /// The request of its own receive queue that the entry `index` of its receive completion queue is about, which has `message` in
    /// it: the message is copied to where the request wanted it.
    #[cold]
    pub(crate) fn received_inside(&self, index: u64, message: &[u8]) -> Request<u64> {
        let Some(scatter) = self.scatter() else {
            return Request::Unknown;
        };
        let places = scatter.lock();
        let Some(mut receives) = self.receives() else {
            return Request::Unknown;
        };
        let position = receives.run.tail;
        let found = receives.completed();
        if places.ended || !receives.end(index) {
            return Request::Former;
        }
        Request::of(found.filter(|_| places.put(position, message).is_some()))
    }
}

#[cfg(test)]
mod tests;
