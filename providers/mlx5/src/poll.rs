//! Polling: from entries of the ring to completions of requests.

use std::sync::Arc;

use uverbs_driver::hw::barrier;
use uverbs_driver::types::{WcOpcode, WorkCompletion};
use uverbs_driver::{PollError, Result};

use crate::cq_ring::{CqRing, Look};
use crate::cqe::{Entry, Tail, format, opcode};
use crate::table::{Owner, Trackers};
use crate::tracker::{QueuePairTracker, Receives, Sent};

/// What the next entry is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// A send request was carried out, most likely.
    Request(Look),
    /// Something else.
    Other,
    /// Not there yet.
    None,
}

/// The side of a completion queue that takes completions.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) ring: Arc<CqRing>,
    /// The next entry to look at.
    pub(crate) position: u64,
    owners: Owners,
}

impl Consumer {
    /// Takes completions out of `ring`. `by_device`: they carry no numbers but the device's.
    pub(crate) fn new(ring: &Arc<CqRing>, trackers: &Arc<Trackers>, by_device: bool) -> Self {
        Self {
            ring: Arc::clone(ring),
            position: 0,
            owners: Owners {
                trackers: Arc::clone(trackers),
                known: Vec::new(),
                epoch: if by_device { NO_EPOCH } else { 0 },
                by_device,
            },
        }
    }

    /// What the next entry is.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(crate) fn look(&self) -> Next {
        let tail = self.ring.look(self.position);
        if tail.is_plain_request() {
            Next::Request(tail)
        } else if tail.is_there() {
            Next::Other
        } else {
            Next::None
        }
    }

    /// Takes the entry that [`look`](Self::look) has found: a send request of a known queue pair was carried out. `None`
    /// where it is something else after all; nothing has happened then.
    #[expect(
        clippy::inline_always,
        reason = "a completion is built where its user wants it"
    )]
    #[inline(always)]
    pub(crate) fn take_sent(&mut self, tail: Look) -> Option<WorkCompletion> {
        barrier::from_device();
        let entry = Entry::read(&self.ring.units, tail.first, tail.tail);
        let pair = self.owners.known_pair(&entry)?;
        if !pair.sent_in_this_life(self.position) {
            return None;
        }
        let sent = pair.send.completed(tail.tail.counter())?;
        self.position += 1;
        Some(entry.sent(sent.wr_id, sent.opcode, pair.number()))
    }

    /// The next completion of a queue that is still there.
    ///
    /// # Errors
    /// [`PollError::Corrupt`] for an entry that no request can have; it counts as taken.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        while let Some(tail) = self.ring.tail(self.position) {
            barrier::from_device();
            let position = self.position;
            self.position += 1;
            match self.completion(position, tail) {
                Ok(None) => {}
                done => return done,
            }
        }
        Ok(None)
    }

    /// The completion that the entry stands for; `None` for one about a queue that is gone.
    #[inline]
    fn completion(
        &mut self,
        position: u64,
        tail: Tail,
    ) -> Result<Option<WorkCompletion>, PollError> {
        let first = self.ring.first(position);
        let entry = Entry::read(&self.ring.units, first, tail);
        if tail.format() != format::PLAIN {
            return Err(PollError::Corrupt);
        }
        let Some(owner) = self.owners.find(&entry) else {
            return Ok(None);
        };
        if let Owner::Gone(queue) = owner {
            if is_receive(tail) {
                let _ = queue.completed(tail.counter());
            }
            return Ok(None);
        }
        let ring = &self.ring.units;
        match tail.opcode() {
            opcode::REQUEST => match sent(owner, position, tail) {
                Request::Of((pair, sent)) => {
                    Ok(Some(entry.sent(sent.wr_id, sent.opcode, pair.number())))
                }
                other => other.none(),
            },
            opcode::RECEIVE_WRITE_IMM
            | opcode::RECEIVE
            | opcode::RECEIVE_IMM
            | opcode::RECEIVE_INVALIDATE => match received(owner, position, tail) {
                Request::Of(wr_id) => Ok(Some(entry.received(ring, wr_id, number(owner, tail)))),
                other => other.none(),
            },
            opcode::REQUEST_ERROR => match sent(owner, position, tail) {
                Request::Of((pair, sent)) => {
                    let number = pair.number();
                    Ok(Some(entry.failed(ring, sent.wr_id, sent.opcode, number)))
                }
                other => other.none(),
            },
            opcode::RECEIVE_ERROR => match received(owner, position, tail) {
                Request::Of(wr_id) => {
                    let number = number(owner, tail);
                    Ok(Some(entry.failed(ring, wr_id, WcOpcode::Recv, number)))
                }
                other => other.none(),
            },
            // About a key, not about a request; nothing here makes keys with signatures.
            opcode::SIGNATURE_ERROR => Ok(None),
            _ => Err(PollError::Corrupt),
        }
    }
}

/// An epoch that never is: nothing in the cache is good.
const NO_EPOCH: u64 = u64::MAX;

/// Which queue a completion is about: a cache of the device's table.
#[derive(Debug)]
struct Owners {
    trackers: Arc<Trackers>,
    /// By user index; `None` for what is not known yet.
    known: Vec<Option<Owner>>,
    epoch: u64,
    /// Completions carry the device's numbers alone.
    by_device: bool,
}

impl Owners {
    /// The queue pair that the entry is about, if it is in the cache and the cache is good.
    #[inline]
    fn known_pair(&self, entry: &Entry) -> Option<&QueuePairTracker> {
        if self.epoch != self.trackers.epoch() {
            return None;
        }
        match self.known.get(entry.user_index() as usize) {
            Some(Some(Owner::QueuePair(pair))) => Some(pair),
            _ => None,
        }
    }

    #[inline]
    fn find(&mut self, entry: &Entry) -> Option<&Owner> {
        if self.epoch != self.trackers.epoch() {
            self.forget();
        }
        let index = if self.by_device {
            0
        } else {
            entry.user_index() as usize
        };
        if !matches!(self.known.get(index), Some(Some(_))) {
            self.learn(index, entry)?;
        }
        self.known.get(index)?.as_ref()
    }

    #[cold]
    fn forget(&mut self) {
        if !self.by_device {
            self.epoch = self.trackers.epoch();
        }
        self.known.clear();
    }

    #[cold]
    fn learn(&mut self, index: usize, entry: &Entry) -> Option<()> {
        let owner = if self.by_device {
            self.trackers.find_device_number(entry.tail.qpn())?
        } else {
            self.trackers.find(u32::try_from(index).ok()?)?
        };
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        *self.known.get_mut(index)? = Some(owner);
        Some(())
    }
}

/// What an entry stands for.
enum Request<T> {
    /// This one.
    Of(T),
    /// One of an earlier life of its queue.
    Former,
    /// None that there can be.
    Unknown,
}

impl<T> Request<T> {
    fn of(found: Option<T>) -> Self {
        found.map_or(Self::Unknown, Self::Of)
    }

    /// What polling makes of an entry without a request.
    #[cold]
    fn none(self) -> Result<Option<WorkCompletion>, PollError> {
        match self {
            Self::Unknown => Err(PollError::Corrupt),
            Self::Former | Self::Of(_) => Ok(None),
        }
    }
}

/// The send request that an entry is about, and its queue pair.
#[inline]
fn sent(owner: &Owner, position: u64, tail: Tail) -> Request<(&QueuePairTracker, Sent)> {
    let Owner::QueuePair(pair) = owner else {
        return Request::Unknown;
    };
    if !pair.sent_in_this_life(position) {
        return Request::Former;
    }
    let found = pair.send.completed(tail.counter());
    Request::of(found.map(|sent| (&**pair, sent)))
}

/// The receive request that an entry is about.
#[inline]
fn received(owner: &Owner, position: u64, tail: Tail) -> Request<u64> {
    match owner {
        Owner::QueuePair(pair) => {
            let current = pair.received_in_this_life(position);
            match &pair.recv {
                // Its request goes back to the shared queue even if nobody waits for it.
                Receives::Shared(queue) => match queue.completed(tail.counter()) {
                    _ if !current => Request::Former,
                    found => Request::of(found),
                },
                Receives::Own(_) if !current => Request::Former,
                Receives::Own(queue) => Request::of(queue.completed()),
                Receives::None => Request::Unknown,
            }
        }
        Owner::Srq(queue) | Owner::Gone(queue) => Request::of(queue.completed(tail.counter())),
    }
}

/// Whether an entry is about a receive request.
fn is_receive(tail: Tail) -> bool {
    matches!(
        tail.opcode(),
        opcode::RECEIVE_WRITE_IMM
            | opcode::RECEIVE
            | opcode::RECEIVE_IMM
            | opcode::RECEIVE_INVALIDATE
            | opcode::RECEIVE_ERROR
    )
}

#[inline]
fn number(owner: &Owner, tail: Tail) -> u32 {
    match owner {
        Owner::QueuePair(pair) => pair.number(),
        Owner::Srq(_) | Owner::Gone(_) => tail.qpn(),
    }
}

#[cfg(test)]
#[path = "poll_tests.rs"]
mod tests;
