//! Every call whose signature the library may change: the only file to edit when it does.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use uverbs::owned::{self, Finished, Refused, Work};
use uverbs::{
    Completion, CompletionQueue, Operation, Payload, PollError, PostError, PreparedQueuePair,
    QpState, QueuePair, QueuePairBuilder, QueuePairEndpoint, SendRequest, WorkCompletion,
};

/// A queue that returns memory for completions.
pub(crate) trait Owner {
    /// Offers it a completion, which it takes or leaves in place.
    fn offer(&mut self, completion: &mut Option<Completion<'_>>) -> Option<Finished>;
}

impl Owner for owned::QueuePair {
    fn offer(&mut self, completion: &mut Option<Completion<'_>>) -> Option<Finished> {
        let ended = self.complete(completion.take()?);
        ended.map_err(|back| *completion = Some(back)).ok()
    }
}

impl Owner for owned::SharedReceiveQueue {
    fn offer(&mut self, completion: &mut Option<Completion<'_>>) -> Option<Finished> {
        let ended = self.complete(completion.take()?);
        ended.map_err(|back| *completion = Some(back)).ok()
    }
}

/// Where a completion comes from: the site, and the completion queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) site: usize,
    pub(crate) cq: u32,
}

/// The result of an offer: what the completion reports, who took it, and how often it had been
/// taken before.
pub(crate) type Offered = Option<(WorkCompletion, Option<Finished>, usize)>;

/// A completion that is held while others are polled, from any queue.
pub(crate) trait Held: Sync {
    /// Offers it to a queue, unless it was taken already.
    fn offer(&self, owner: &mut dyn Owner) -> Offered;

    /// Where it was polled.
    fn source(&self) -> Source;
}

/// A completion that the program holds.
pub(crate) struct Holding<'cq> {
    source: Source,
    completion: Mutex<Option<Completion<'cq>>>,
    taken: AtomicUsize,
}

impl<'cq> Holding<'cq> {
    pub(crate) fn new(source: Source, completion: Completion<'cq>) -> Self {
        Self {
            source,
            completion: Mutex::new(Some(completion)),
            taken: AtomicUsize::new(0),
        }
    }

    /// Whether it was taken.
    pub(crate) fn was_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed) != 0
    }
}

impl Held for Holding<'_> {
    fn offer(&self, owner: &mut dyn Owner) -> Offered {
        let mut held = self
            .completion
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let says = **held.as_ref()?;
        let finished = owner.offer(&mut held);
        let before = self
            .taken
            .fetch_add(finished.is_some().into(), Ordering::Relaxed);
        Some((says, finished, before))
    }

    fn source(&self) -> Source {
        self.source
    }
}

/// What a completion reports, and who took it.
pub(crate) type Polled = (WorkCompletion, Vec<(u32, Finished)>);

/// Polls a completion, and offers it to each owner in turn, even after one has taken it.
pub(crate) fn poll(
    cq: &mut CompletionQueue,
    owners: &mut [(u32, &mut dyn Owner)],
) -> Result<Option<Polled>, PollError> {
    let Some(completion) = cq.poll()? else {
        return Ok(None);
    };
    let says = *completion;
    let mut offered = Some(completion);
    let taken = owners
        .iter_mut()
        .filter_map(|(which, owner)| Some((*which, owner.offer(&mut offered)?)))
        .collect();
    Ok(Some((says, taken)))
}

/// Turns a queue pair into one that owns its memory, if this one can.
#[expect(clippy::unnecessary_wraps, reason = "the library may refuse one day")]
pub(crate) fn own(qp: QueuePair) -> Option<owned::QueuePair> {
    Some(owned::QueuePair::new(qp))
}

/// Turns a shared queue into one that owns its memory.
pub(crate) fn own_shared(srq: uverbs::SharedReceiveQueue) -> owned::SharedReceiveQueue {
    owned::SharedReceiveQueue::new(srq)
}

/// A request of a shared queue that will not get a completion any more.
pub(crate) fn unpolled(srq: &mut owned::SharedReceiveQueue) -> Option<Finished> {
    srq.unpolled()
}

/// A state by its number.
pub(crate) fn state(raw: u8) -> QpState {
    QpState::from_raw(raw)
}

/// Connects a queue pair to a peer, or makes it ready for datagrams.
pub(crate) fn connect(
    prepared: PreparedQueuePair,
    peer: Option<QueuePairEndpoint>,
) -> uverbs::Result<QueuePair> {
    let connected = match peer {
        Some(peer) => prepared.handshake(peer),
        None => prepared.activate(),
    };
    connected.map_err(|failed| failed.error)
}

/// Builds a queue pair.
pub(crate) fn build(builder: &QueuePairBuilder<'_>) -> uverbs::Result<PreparedQueuePair> {
    builder.build()
}

/// What becomes of a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    Submitted,
    Dropped,
    Forgotten,
}

/// Posts a request without memory on a queue pair that is not an owned one.
pub(crate) fn post_raw(
    qp: &mut QueuePair,
    wr_id: u64,
    operation: Operation<'_>,
    bytes: Option<&[u8]>,
    ending: Ending,
) -> Result<(), PostError> {
    let parts = bytes.map(|bytes| [bytes]);
    let payload = match &parts {
        Some(parts) => Payload::Inline(parts),
        None => Payload::NONE,
    };
    let request = SendRequest::new(operation, payload).wr_id(wr_id).signaled();
    let mut batch = qp.send_batch();
    let put = batch.push_inline(&request);
    match ending {
        Ending::Submitted => put.and(batch.submit()),
        Ending::Dropped => put,
        #[expect(clippy::mem_forget, reason = "a program may")]
        Ending::Forgotten => {
            std::mem::forget(batch);
            put
        }
    }
}

/// What was refused of a batch, and what became of the rest.
pub(crate) type Batched = (Vec<(u64, Box<Refused>)>, Result<(), PostError>);

/// Posts requests, with their numbers, as a batch of an owned queue pair.
pub(crate) fn batch(
    qp: &mut owned::QueuePair,
    members: Vec<(u64, Work)>,
    ending: Ending,
) -> Batched {
    let mut refused = Vec::new();
    let mut batch = qp.batch();
    for (number, work) in members {
        if let Err(error) = batch.push(work) {
            refused.push((number, error));
        }
    }
    let submitted = match ending {
        Ending::Submitted => batch.submit(),
        Ending::Dropped => {
            drop(batch);
            Ok(())
        }
        #[expect(clippy::mem_forget, reason = "a program may")]
        Ending::Forgotten => {
            std::mem::forget(batch);
            Ok(())
        }
    };
    (refused, submitted)
}
