//! Small messages that are delivered in completions: polling copies them to the memory that the
//! receive request names.
//!
//! The copy is made while the request is still under way, so nothing else uses its memory: the
//! thread that resets or destroys the queue pair, which releases the memory, waits until no copy is
//! in progress, and from then on nothing is copied. One lock does both. Only queue pairs that were
//! created for this take it.

use std::sync::PoisonError;

use uverbs_core::types::Sge;

use super::{QueuePairTracker, Request};
use crate::sync::{Mutex, MutexGuard};

/// The destinations of messages.
#[derive(Debug)]
pub(crate) struct ScatterTracker {
    places: Mutex<Places>,
}

/// The receive requests and their destinations.
#[derive(Debug)]
pub(crate) struct Places {
    /// The scatter/gather entries of each request, with room for the maximum, at its index.
    sges: Box<[Sge]>,
    /// The maximum number of scatter/gather entries of a request.
    max_sge: usize,
    /// The number of requests that the queue can hold, a power of two.
    count: u32,
    /// Requests submitted (free-running counter).
    posted: u32,
    /// The queue pair has been destroyed.
    ended: bool,
}

impl ScatterTracker {
    /// The tracker of a queue of `count` (a power of two) requests of up to `max_sge`
    /// scatter/gather entries.
    pub(crate) fn new(count: u32, max_sge: u32) -> Self {
        let max_sge = max_sge as usize;
        Self {
            places: Mutex::new(Places {
                sges: vec![Sge::default(); count as usize * max_sge].into(),
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

    /// Records the scatter/gather entries of the request that will be the `position`-th.
    pub(crate) fn note(&self, position: u32, sges: &[Sge]) {
        let mut places = self.lock();
        let Some(range) = places.range(position) else {
            return;
        };
        if let Some(room) = places.sges.get_mut(range) {
            room.fill(Sge::default());
            for (slot, sge) in room.iter_mut().zip(sges) {
                *slot = *sge;
            }
        }
    }

    /// Sets the number of requests submitted (free-running counter).
    pub(crate) fn posted(&self, posted: u32) {
        self.lock().posted = posted;
    }

    /// Forgets what was posted. Nothing is copied until the returned guard is dropped.
    pub(super) fn forget(&self) -> MutexGuard<'_, Places> {
        let mut places = self.lock();
        places.posted = 0;
        places
    }

    /// Marks the queue pair as destroyed: nothing is copied any more.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
    }
}

impl Places {
    /// The scatter/gather entries of the request at `position`.
    fn range(&self, position: u32) -> Option<std::ops::Range<usize>> {
        let first = (position & self.count.checked_sub(1)?) as usize * self.max_sge;
        Some(first..first + self.max_sge)
    }

    /// Copies a message to the memory of the request at `position`. Returns `None`, and copies
    /// nothing, if the request is not under way or has not enough room.
    fn put(&self, position: u32, message: &[u8]) -> Option<()> {
        let ahead = self.posted.wrapping_sub(position);
        if ahead == 0 || ahead > self.count {
            return None;
        }
        let sges = self.sges.get(self.range(position)?)?;
        let room: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
        if room < message.len() as u64 {
            return None;
        }
        let mut left = message;
        for sge in sges {
            let (bytes, rest) = left.split_at(left.len().min(sge.length as usize));
            write(sge.address, bytes);
            left = rest;
        }
        Some(())
    }
}

/// Copies bytes to the start of a scatter/gather entry of a request that is under way.
#[allow(unsafe_code, reason = "writes where a receive request said")]
fn write(address: u64, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    // SAFETY: the creator of the queue pair promised that the scatter/gather entries of its receive
    // requests are memory of this process at these addresses until the requests are completed
    // (`QpExtra::scattering`). This request is not completed: its completion has not been returned,
    // and a reset or destroy waits for the lock that the caller holds.
    unsafe { uverbs_core::hw::write_in_place(address, bytes) };
}

impl QueuePairTracker {
    /// The request of its own receive queue that the entry `index` of its receive completion queue
    /// completes. The entry contains `message`, which is copied to the memory that the request
    /// names.
    #[cold]
    pub(crate) fn received_inside(&self, index: u64, message: &[u8]) -> Request<u64> {
        let Some(scatter) = self.scatter() else {
            return Request::Unknown;
        };
        let places = scatter.lock();
        let Some(mut receives) = self.receives() else {
            return Request::Unknown;
        };
        let position = receives.position();
        let found = receives.completed();
        if places.ended || !receives.end(index) {
            return Request::Former;
        }
        Request::of(places.put(position, message).map(|()| found))
    }
}

#[cfg(test)]
mod tests {
    //! What is copied where, and when nothing is copied.

    use super::*;
    use crate::tracker::{Receives, RecvTracker};

    /// A queue pair with two receive requests of up to two scatter/gather entries.
    fn receiver() -> QueuePairTracker {
        let pair = QueuePairTracker::new(0, Receives::Own(RecvTracker::new(2)))
            .scattering(ScatterTracker::new(2, 2));
        pair.restart(0, 0);
        pair
    }

    /// Posts the `position`-th request with the given memory.
    fn post(pair: &QueuePairTracker, position: u32, sges: &mut [&mut [u8]]) {
        let sges: Vec<Sge> = sges
            .iter_mut()
            .map(|sge| Sge {
                address: sge.as_mut_ptr().expose_provenance() as u64,
                length: sge.len().try_into().unwrap(),
                ..Sge::default()
            })
            .collect();
        let Receives::Own(queue) = &pair.recv else {
            panic!("a queue of its own");
        };
        queue.posted(position & 1, 100 + u64::from(position));
        let scatter = pair.scatter().unwrap();
        scatter.note(position, &sges);
        scatter.posted(position + 1);
    }

    #[test]
    fn a_message_fills_the_sges_of_its_request_in_order() {
        let pair = receiver();
        for position in 0..5_u32 {
            let (mut first, mut second) = ([0xee; 3], [0xee; 6]);
            post(&pair, position, &mut [&mut first, &mut second]);
            let length = [0, 2, 3, 4, 9][position as usize];
            let message = &[1, 2, 3, 4, 5, 6, 7, 8, 9][..length];
            let found = pair.received_inside(position.into(), message);
            assert_eq!(found, Request::Of(100 + u64::from(position)));
            let all: Vec<u8> = first.into_iter().chain(second).collect();
            assert_eq!(all[..length], *message);
            assert!(all[length..].iter().all(|byte| *byte == 0xee));
        }
        assert_eq!(pair.received_tail(), 5);
    }

    #[test]
    fn what_is_not_under_way_or_too_long_is_copied_nowhere() {
        let pair = receiver();
        let mut memory = [0xee; 4];
        assert_eq!(
            pair.received_inside(0, &[1]),
            Request::Unknown,
            "not posted"
        );
        let pair = receiver();
        post(&pair, 0, &mut [&mut memory]);
        assert_eq!(pair.received_inside(0, &[1; 5]), Request::Unknown);
        assert_eq!(pair.received_inside(1, &[1]), Request::Unknown, "completed");
        assert_eq!(memory, [0xee; 4]);
        // A request with fewer entries in the slot of one with more.
        let pair = receiver();
        let mut other = [0xee; 4];
        post(&pair, 0, &mut [&mut memory, &mut other]);
        assert_eq!(pair.received_inside(0, &[]), Request::Of(100));
        post(&pair, 1, &mut []);
        assert_eq!(pair.received_inside(1, &[]), Request::Of(101));
        post(&pair, 2, &mut [&mut memory]);
        assert_eq!(pair.received_inside(2, &[1; 5]), Request::Unknown);
        assert_eq!((memory, other), ([0xee; 4], [0xee; 4]));
        let plain = QueuePairTracker::new(0, Receives::Own(RecvTracker::new(2)));
        assert_eq!(plain.received_inside(0, &[]), Request::Unknown);
    }

    #[test]
    fn after_a_reset_or_the_end_nothing_is_copied() {
        let mut memory = [0xee; 4];
        let pair = receiver();
        post(&pair, 0, &mut [&mut memory]);
        pair.restart(1, 1);
        assert_eq!(pair.received_inside(0, &[1]), Request::Former);
        assert_eq!(
            pair.received_inside(1, &[1]),
            Request::Unknown,
            "not posted"
        );
        post(&pair, 0, &mut [&mut memory]);
        pair.scatter().unwrap().end();
        assert_eq!(pair.received_inside(2, &[1]), Request::Former);
        assert_eq!(memory, [0xee; 4]);
    }
}
