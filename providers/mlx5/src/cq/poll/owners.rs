//! Whose completion an entry is, and what it says.

use std::sync::{Arc, Weak};

use uverbs_core::types::{WcOpcode, WorkCompletion};
use uverbs_core::{PollError, Result};

use super::Next;
use crate::cqe::CqShared;
use crate::cqe::ring::{CqRing, Look, Place};
use crate::cqe::{Checksums, Entry, Tail, format, opcode};
use crate::sync::barrier;
use crate::tracker::table::{Owner, Trackers};
use crate::tracker::{QueuePairTracker, Receives, Request, Sent, SrqTracker};

/// An epoch that never is: nothing in the cache is good.
const NO_EPOCH: u64 = u64::MAX;

/// Which queue a completion is about: a cache of the device's table.
#[derive(Debug)]
pub(super) struct Owners {
    trackers: Arc<Trackers>,
    /// Where the completions are.
    cq: Weak<CqShared>,
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
    pub(super) fn new(cq: &Arc<CqShared>, trackers: &Arc<Trackers>, by_device: bool) -> Self {
        Self {
            trackers: Arc::clone(trackers),
            cq: Arc::downgrade(cq),
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

    /// The entry at `place`, if it is about a known queue pair that a request of was carried out or
    /// a message came for.
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
        let Some(pair) = self.known_pair(entry.user_index()) else {
            return Next::Other;
        };
        if look.tail.opcode() == opcode::REQUEST {
            return match pair.sent_in_order(place.position, look.tail.counter()) {
                Some(sent) => Next::Usual(entry.sent(sent.wr_id, sent.opcode, pair.number())),
                None => Next::Other,
            };
        }
        let wr_id = match pair.receives() {
            Some(mut run) => match run.completed() {
                Some(wr_id) if run.end(place.position) => wr_id,
                _ => return Next::Other,
            },
            None => match pair.received_shared(place.position, look.tail.counter()) {
                Some(wr_id) => wr_id,
                None => return Next::Other,
            },
        };
        let (number, checksums) = (pair.number(), pair.checksums());
        Next::Usual(entry.received(opcode::RECEIVE, wr_id, number, checksums))
    }

    /// The completion that an entry stands for; `None` for one about a queue that is gone.
    #[inline]
    pub(super) fn completion(
        &mut self,
        ring: &CqRing,
        place: Place,
        look: Look<'_>,
    ) -> Result<Option<WorkCompletion>, PollError> {
        let position = place.position;
        let tail = look.tail;
        let entry = Entry::new(look.block, tail);
        if tail.format() != format::PLAIN {
            return self.with_message(ring, place, &entry);
        }
        let Some(owner) = self.find(position, &entry) else {
            return Ok(None);
        };
        if let Owner::Gone(queue) = owner {
            return passed(pass_over(queue, &entry));
        }
        match tail.opcode() {
            opcode::REQUEST => match sent(owner, position, tail) {
                Request::Of((pair, sent)) => {
                    Ok(Some(entry.sent(sent.wr_id, sent.opcode, pair.number())))
                }
                other => none(&other),
            },
            kind @ (opcode::RECEIVE_WRITE_IMM
            | opcode::RECEIVE
            | opcode::RECEIVE_IMM
            | opcode::RECEIVE_INVALIDATE) => match received(owner, position, tail) {
                Request::Of(wr_id) => {
                    let number = number(owner, tail);
                    Ok(Some(entry.received(kind, wr_id, number, checksums(owner))))
                }
                other => none(&other),
            },
            opcode::REQUEST_ERROR => match sent(owner, position, tail) {
                Request::Of((pair, sent)) => {
                    let number = pair.number();
                    Ok(Some(entry.failed(sent.wr_id, sent.opcode, number)))
                }
                other => none(&other),
            },
            opcode::RECEIVE_ERROR => {
                // Of whichever life of its queue pair: the shared queue lives on.
                if let Some(queue) = shared(owner)
                    && reposts(queue, &entry)
                {
                    return passed(queue.faulted(tail.counter()));
                }
                match received(owner, position, tail) {
                    Request::Of(wr_id) => {
                        let number = number(owner, tail);
                        Ok(Some(entry.failed(wr_id, WcOpcode::Recv, number)))
                    }
                    other => none(&other),
                }
            }
            // About a key, not about a request; nothing here makes keys with signatures.
            opcode::SIGNATURE_ERROR => Ok(None),
            _ => Err(PollError::Corrupt),
        }
    }

    /// The same of an entry that has a message in it.
    #[cold]
    fn with_message(
        &mut self,
        ring: &CqRing,
        place: Place,
        entry: &Entry<'_>,
    ) -> Result<Option<WorkCompletion>, PollError> {
        let kind = entry.tail.opcode();
        if !matches!(
            kind,
            opcode::RECEIVE | opcode::RECEIVE_IMM | opcode::RECEIVE_INVALIDATE
        ) {
            return Err(PollError::Corrupt);
        }
        let format = entry.tail.format();
        let (bytes, most) = ring.data(place, format).ok_or(PollError::Corrupt)?;
        let count = entry.byte_count();
        let message = bytes
            .get(..count as usize)
            .filter(|_| count <= most)
            .ok_or(PollError::Corrupt)?;
        let Some(owner) = self.find(place.position, entry) else {
            return Ok(None);
        };
        let Owner::QueuePair(pair) = owner else {
            return Err(PollError::Corrupt);
        };
        match pair.received_inside(place.position, message) {
            Request::Of(wr_id) if format == format::DATA_32 => {
                Ok(Some(entry.received_over_path(kind, wr_id, pair.number())))
            }
            Request::Of(wr_id) => {
                let number = pair.number();
                Ok(Some(entry.received(
                    kind,
                    wr_id,
                    number,
                    Checksums::MEANINGLESS,
                )))
            }
            other => none(&other),
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

    /// Passes over an entry that nobody waits for.
    #[cold]
    pub(super) fn leave(&mut self, position: u64, look: Look<'_>) {
        let entry = Entry::new(look.block, look.tail);
        let queue = match self.find(position, &entry) {
            // One that reported here is gone, too.
            None | Some(Owner::Srq(_)) => return,
            Some(owner) => shared(owner),
        };
        if let Some(queue) = queue {
            let _ = pass_over(queue, &entry);
        }
    }

    #[inline]
    fn find(&mut self, position: u64, entry: &Entry<'_>) -> Option<&Owner> {
        if self.epoch != self.trackers.epoch() {
            self.forget();
        }
        let index = if self.by_device {
            0
        } else {
            entry.user_index() as usize
        };
        if !matches!(self.known.get(index), Some(Some(_))) {
            self.learn(index, position, entry)?;
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
    fn learn(&mut self, index: usize, position: u64, entry: &Entry<'_>) -> Option<()> {
        let owner = if self.by_device {
            self.trackers.find_device(&self.cq, position, entry)?
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

/// What polling makes of an entry without a request.
#[cold]
fn none<T>(request: &Request<T>) -> Result<Option<WorkCompletion>, PollError> {
    match request {
        Request::Unknown => Err(PollError::Corrupt),
        Request::Former | Request::Of(_) => Ok(None),
    }
}

/// The send request that an entry is about, and its queue pair.
#[inline]
fn sent(owner: &Owner, position: u64, tail: Tail) -> Request<(&QueuePairTracker, Sent)> {
    let Owner::QueuePair(pair) = owner else {
        return Request::Unknown;
    };
    match pair.sent(position, tail.counter()) {
        Request::Of(sent) => Request::Of((pair, sent)),
        Request::Former => Request::Former,
        Request::Unknown => Request::Unknown,
    }
}

/// The receive request that an entry is about.
#[expect(clippy::inline_always, reason = "a part of polling")]
#[inline(always)]
fn received(owner: &Owner, position: u64, tail: Tail) -> Request<u64> {
    match owner {
        Owner::QueuePair(pair) => pair.received(position, tail.counter()),
        Owner::Srq(queue) | Owner::Gone(queue) => Request::of(queue.completed(tail.counter())),
    }
}

/// The shared queue that an owner receives from, or is.
#[cold]
fn shared(owner: &Owner) -> Option<&SrqTracker> {
    match owner {
        Owner::QueuePair(pair) => match &pair.recv {
            Receives::Shared(queue) => Some(queue),
            _ => None,
        },
        Owner::Srq(queue) | Owner::Gone(queue) => Some(queue),
    }
}

/// Whether an entry, an error of a receive, says that `queue` has to post the request once more.
#[cold]
fn reposts(queue: &SrqTracker, entry: &Entry<'_>) -> bool {
    queue.reposts() && entry.is_page_fault()
}

/// Passes over an entry of a queue pair that is gone. What it used up of `queue` goes back; `None`
/// where that is impossible.
#[cold]
fn pass_over(queue: &SrqTracker, entry: &Entry<'_>) -> Option<()> {
    let tail = entry.tail;
    if !tail.is_receive() {
        Some(())
    } else if tail.opcode() == opcode::RECEIVE_ERROR && reposts(queue, entry) {
        queue.faulted(tail.counter())
    } else {
        queue.used_up(tail.counter())
    }
}

/// What polling makes of an entry that was passed over; `None`: of one that cannot be.
#[cold]
fn passed(over: Option<()>) -> Result<Option<WorkCompletion>, PollError> {
    over.map(|()| None).ok_or(PollError::Corrupt)
}

/// Shared queues are not for Ethernet, as libmlx5 has it.
#[inline]
fn checksums(owner: &Owner) -> Checksums {
    match owner {
        Owner::QueuePair(pair) => pair.checksums(),
        Owner::Srq(_) | Owner::Gone(_) => Checksums::MEANINGLESS,
    }
}

#[inline]
fn number(owner: &Owner, tail: Tail) -> u32 {
    match owner {
        Owner::QueuePair(pair) => pair.number(),
        Owner::Srq(_) | Owner::Gone(_) => tail.qpn(),
    }
}
