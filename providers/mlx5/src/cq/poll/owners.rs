//! Finds the request that an entry completes, and decodes its completion.

use std::sync::{Arc, Weak};

use uverbs_core::types::{WcOpcode, WorkCompletion};
use uverbs_core::{PollError, Result};

use super::{Destination, Found};
use crate::cqe::CqShared;
use crate::cqe::ring::{CqRing, Look, Place};
use crate::cqe::{self, Checksums, Entry, Tail, format, opcode};
use crate::sync::barrier;
use crate::tracker::table::{Owner, Trackers};
use crate::tracker::{QueuePairTracker, Receives, Request, Sent, SrqTracker};

/// The queue that a completion belongs to: a cache of the device's table.
#[derive(Debug)]
pub(super) struct Owners {
    trackers: Arc<Trackers>,
    /// The completion queue.
    cq: Weak<CqShared>,
    /// By user index; `None` for indices that are not cached.
    pub(super) known: Vec<Option<Owner>>,
    /// What was found for an entry that carries only the device's numbers, which say nothing about
    /// the next one.
    found: Option<Owner>,
    /// The queue pair that was found last, and its user index as entries carry it.
    last: (u32, Arc<QueuePairTracker>),
    epoch: u64,
    /// Completions carry only the device's numbers.
    by_device: bool,
}

impl Owners {
    /// An empty cache. `by_device`: completions carry only the device's numbers.
    pub(super) fn new(cq: &Arc<CqShared>, trackers: &Arc<Trackers>, by_device: bool) -> Self {
        Self {
            trackers: Arc::clone(trackers),
            cq: Arc::downgrade(cq),
            known: Vec::new(),
            found: None,
            last: (cqe::NO_INDEX, Arc::clone(&trackers.nobody)),
            epoch: 0,
            by_device,
        }
    }

    /// The completion of a successful request by the entry `position`, if it is one of a known
    /// queue pair.
    #[expect(
        clippy::inline_always,
        reason = "a completion is built where its user wants it"
    )]
    #[inline(always)]
    pub(super) fn sent<D: Destination>(
        &self,
        position: u64,
        look: Look<'_>,
        to: &mut D,
    ) -> Option<D::Done> {
        barrier::from_device();
        let entry = Entry::new(look.block, look.tail);
        let pair = self.known_pair(&entry)?;
        let sent = pair.sent_in_order(position, look.tail.counter())?;
        Some(to.sent(&entry, sent, pair.number()))
    }

    /// The same for a received message.
    #[expect(
        clippy::inline_always,
        reason = "a completion is built where its user wants it"
    )]
    #[inline(always)]
    pub(super) fn received<D: Destination>(
        &self,
        position: u64,
        look: Look<'_>,
        to: &mut D,
    ) -> Option<D::Done> {
        barrier::from_device();
        let entry = Entry::new(look.block, look.tail);
        let pair = self.known_pair(&entry)?;
        let wr_id = match pair.receives() {
            Some(mut run) => {
                let wr_id = run.completed();
                run.end(position).then_some(wr_id)?
            }
            None => pair.received_shared(position, look.tail.counter())?,
        };
        Some(to.received(&entry, wr_id, pair.identity()))
    }

    /// The same for a message by a request of the queue pair's own queue.
    #[expect(
        clippy::inline_always,
        reason = "a completion is built where its user wants it"
    )]
    #[inline(always)]
    pub(super) fn received_of_own<D: Destination>(
        &self,
        position: u64,
        look: Look<'_>,
        to: &mut D,
    ) -> Option<D::Done> {
        barrier::from_device();
        let entry = Entry::new(look.block, look.tail);
        let pair = self.known_pair(&entry)?;
        let mut run = pair.receives()?;
        let wr_id = run.completed();
        run.end(position).then_some(())?;
        Some(to.received(&entry, wr_id, pair.identity()))
    }

    /// The completion for an entry; `None` if its queue no longer exists.
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
        // It names a key, where others name their queue.
        if tail.opcode() == opcode::SIGNATURE_ERROR {
            self.trackers.keys.report(entry);
            return Ok(None);
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
                    let mut done: WorkCompletion = Found::sent(&entry, sent, pair.number());
                    done.opcode = sent.kind.any_opcode();
                    Ok(Some(done))
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
                    Ok(Some(entry.failed(
                        sent.wr_id,
                        sent.kind.any_opcode(),
                        number,
                    )))
                }
                other => none(&other),
            },
            opcode::RECEIVE_ERROR => {
                // Of any incarnation of its queue pair: the shared queue outlives it.
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
            _ => Err(PollError::Corrupt),
        }
    }

    /// The same for an entry that contains a message.
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

    /// The queue pair of an entry, if the cache contains it. It may have ended: then no entry
    /// belongs to it.
    #[inline]
    pub(super) fn known_pair(&self, entry: &Entry<'_>) -> Option<&QueuePairTracker> {
        if entry.raw_index() == self.last.0 {
            return Some(&self.last.1);
        }
        match self.known.get(entry.user_index() as usize) {
            Some(Some(Owner::QueuePair(pair))) => Some(pair),
            _ => None,
        }
    }

    /// Skips an entry whose completion is not taken by anyone.
    #[cold]
    pub(super) fn leave(&mut self, position: u64, look: Look<'_>) {
        let entry = Entry::new(look.block, look.tail);
        if look.is(opcode::SIGNATURE_ERROR) {
            return self.trackers.keys.report(entry);
        }
        let queue = match self.find(position, &entry) {
            // A shared queue that reported here is gone, too.
            None | Some(Owner::Srq(_)) => return,
            Some(owner) => shared(owner),
        };
        if let Some(queue) = queue {
            let _ = pass_over(queue, &entry);
        }
    }

    #[inline]
    fn find(&mut self, position: u64, entry: &Entry<'_>) -> Option<&Owner> {
        if self.by_device {
            self.found = self.trackers.find_device(&self.cq, position, entry);
            return self.found.as_ref();
        }
        let epoch = self.trackers.epoch();
        if self.epoch != epoch {
            self.forget(epoch);
        }
        let index = entry.user_index();
        if !matches!(self.known.get(index as usize), Some(Some(_))) {
            self.learn(index, entry)?;
        }
        self.known.get(index as usize)?.as_ref()
    }

    #[cold]
    fn forget(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.known.clear();
        self.last.0 = cqe::NO_INDEX;
    }

    #[cold]
    fn learn(&mut self, index: u32, entry: &Entry<'_>) -> Option<()> {
        let owner = self.trackers.find(index)?;
        let index = index as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        if let Owner::QueuePair(pair) = &owner {
            self.last = (entry.raw_index(), Arc::clone(pair));
        }
        *self.known.get_mut(index)? = Some(owner);
        Some(())
    }
}

/// The result of polling for an entry without a request.
#[cold]
fn none<T>(request: &Request<T>) -> Result<Option<WorkCompletion>, PollError> {
    match request {
        Request::Unknown => Err(PollError::Corrupt),
        Request::Former | Request::Of(_) => Ok(None),
    }
}

/// The send request that an entry completes, and its queue pair.
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

/// The receive request that an entry completes.
#[expect(clippy::inline_always, reason = "a part of polling")]
#[inline(always)]
fn received(owner: &Owner, position: u64, tail: Tail) -> Request<u64> {
    match owner {
        Owner::QueuePair(pair) => pair.received(position, tail.counter()),
        Owner::Srq(queue) | Owner::Gone(queue) => Request::of(queue.completed(tail.counter())),
    }
}

/// The shared queue that an owner receives from, or that it is.
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

/// Whether an entry, a receive error, means that `queue` has to post the request again.
#[cold]
fn reposts(queue: &SrqTracker, entry: &Entry<'_>) -> bool {
    queue.reposts() && entry.is_page_fault()
}

/// Skips an entry of a queue pair that is gone. The request of `queue` that it used up goes back to
/// it; `None` if that is impossible.
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

/// The result of polling for a skipped entry; `None`: an impossible entry.
#[cold]
fn passed(over: Option<()>) -> Result<Option<WorkCompletion>, PollError> {
    over.map(|()| None).ok_or(PollError::Corrupt)
}

/// Shared receive queues are not used with Ethernet, as in libmlx5.
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
