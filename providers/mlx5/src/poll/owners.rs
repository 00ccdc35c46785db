//! Whose completion an entry is, and what it says.

use std::sync::Arc;

use uverbs_driver::hw::barrier;
use uverbs_driver::types::{WcOpcode, WorkCompletion};
use uverbs_driver::{PollError, Result};

use super::Next;
use crate::cq_ring::{CqRing, Look, Place};
use crate::cqe::{Entry, Tail, format, opcode};
use crate::table::{Owner, Trackers};
use crate::tracker::{QueuePairTracker, Receives, Sent};

/// An epoch that never is: nothing in the cache is good.
const NO_EPOCH: u64 = u64::MAX;

/// Which queue a completion is about: a cache of the device's table.
#[derive(Debug)]
pub(super) struct Owners {
    trackers: Arc<Trackers>,
    /// By user index; `None` for what is not known yet.
    pub(super) known: Vec<Option<Owner>>,
    epoch: u64,
    /// Completions carry the device's numbers alone.
    by_device: bool,
}

/// How old a cache is, as its user keeps it at hand.
#[derive(Clone, Copy)]
pub(super) struct Age<'t> {
    trackers: &'t Trackers,
    epoch: u64,
}

impl Age<'_> {
    /// Whether what the cache says is still so.
    #[inline]
    pub(super) fn is_good(self) -> bool {
        self.trackers.epoch() == self.epoch
    }
}

impl Owners {
    /// Knows nothing yet. `by_device`: completions carry no numbers but the device's.
    pub(super) fn new(trackers: &Arc<Trackers>, by_device: bool) -> Self {
        Self {
            trackers: Arc::clone(trackers),
            known: Vec::new(),
            epoch: if by_device { NO_EPOCH } else { 0 },
            by_device,
        }
    }

    /// How old the cache is.
    #[inline]
    pub(super) fn age(&self) -> Age<'_> {
        Age {
            trackers: &self.trackers,
            epoch: self.epoch,
        }
    }

    /// The entry at `place`, if it is about a known queue pair that a request of was carried out or a message came for.
    #[expect(
        clippy::inline_always,
        reason = "a completion is built where its user wants it"
    )]
    #[inline(always)]
    pub(super) fn usual(&self, ring: &CqRing, place: Place) -> Next {
        let look = ring.look(place);
        if !look.is_usual() {
            return if look.is_there() {
                Next::Other
            } else {
                Next::None
            };
        }
        barrier::from_device();
        let entry = Entry::new(look.block, look.tail);
        let Some(pair) = self.known_pair(entry.user_index) else {
            return Next::Other;
        };
        if look.tail.opcode() == opcode::REQUEST {
            if pair.sent_in_this_life(place.position)
                && let Some(sent) = pair.send.completed(look.tail.counter())
            {
                return Next::Usual(entry.sent(sent.wr_id, sent.opcode, pair.number()));
            }
        } else if let Receives::Own(queue) = &pair.recv
            && pair.received_in_this_life(place.position)
            && let Some(wr_id) = queue.completed()
        {
            return Next::Usual(entry.received(opcode::RECEIVE, wr_id, pair.number()));
        }
        Next::Other
    }

    /// The completion that an entry stands for; `None` for one about a queue that is gone.
    #[inline]
    pub(super) fn completion(
        &mut self,
        position: u64,
        look: Look<'_>,
    ) -> Result<Option<WorkCompletion>, PollError> {
        let tail = look.tail;
        let entry = Entry::new(look.block, tail);
        if tail.format() != format::PLAIN {
            return Err(PollError::Corrupt);
        }
        let Some(owner) = self.find(&entry) else {
            return Ok(None);
        };
        if let Owner::Gone(queue) = owner {
            if is_receive(tail) {
                let _ = queue.completed(tail.counter());
            }
            return Ok(None);
        }
        match tail.opcode() {
            opcode::REQUEST => match sent(owner, position, tail) {
                Request::Of((pair, sent)) => {
                    Ok(Some(entry.sent(sent.wr_id, sent.opcode, pair.number())))
                }
                other => other.none(),
            },
            kind @ (opcode::RECEIVE_WRITE_IMM
            | opcode::RECEIVE
            | opcode::RECEIVE_IMM
            | opcode::RECEIVE_INVALIDATE) => match received(owner, position, tail) {
                Request::Of(wr_id) => Ok(Some(entry.received(kind, wr_id, number(owner, tail)))),
                other => other.none(),
            },
            opcode::REQUEST_ERROR => match sent(owner, position, tail) {
                Request::Of((pair, sent)) => {
                    let number = pair.number();
                    Ok(Some(entry.failed(sent.wr_id, sent.opcode, number)))
                }
                other => other.none(),
            },
            opcode::RECEIVE_ERROR => match received(owner, position, tail) {
                Request::Of(wr_id) => {
                    let number = number(owner, tail);
                    Ok(Some(entry.failed(wr_id, WcOpcode::Recv, number)))
                }
                other => other.none(),
            },
            // About a key, not about a request; nothing here makes keys with signatures.
            opcode::SIGNATURE_ERROR => Ok(None),
            _ => Err(PollError::Corrupt),
        }
    }

    /// The queue pair with this number, if it is in the cache and the cache is good.
    #[inline]
    pub(super) fn known_pair(&self, number: u32) -> Option<&QueuePairTracker> {
        if !self.age().is_good() {
            return None;
        }
        match self.known.get(number as usize) {
            Some(Some(Owner::QueuePair(pair))) => Some(pair),
            _ => None,
        }
    }

    #[inline]
    fn find(&mut self, entry: &Entry<'_>) -> Option<&Owner> {
        if self.epoch != self.trackers.epoch() {
            self.forget();
        }
        let index = if self.by_device {
            0
        } else {
            entry.user_index as usize
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
    fn learn(&mut self, index: usize, entry: &Entry<'_>) -> Option<()> {
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
