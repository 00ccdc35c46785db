//! What a hub knows about one connection.

mod complete;
mod post;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use uverbs_core::types::{WcOpcode, WcStatus};

use super::bells::Bells;
use super::builder::Settings;
use super::error::ConnectionError;
use super::message::{Arrival, Arrivals, Message};
use super::pool::{Hungry, Pool};
use super::queue::Queue;
use crate::owned::{self, Buffer, Finished, Memory, Work};
use crate::transport::Rc;
use crate::waiters::Waiters;

pub(super) use self::complete::Completing;

/// `user_data` of receives, of keepalives, and of sends whose result nobody waits for; that of
/// other requests is their slot.
const RECEIVE: u64 = u64::MAX;
const PROBE: u64 = u64::MAX - 1;
const UNWATCHED: u64 = u64::MAX - 2;

/// A connection, as its handle, its futures and the driver share it.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) number: u32,
    pub(super) pool: Arc<Pool>,
    /// How many requests may be under way; one more fits, for a keepalive.
    pub(super) sends: usize,
    /// How many messages from the shared receive queue may wait to be taken.
    backlog: usize,
    /// Whether there may be a message, or it is over. Written under the lock.
    news: AtomicBool,
    state: Mutex<State>,
}

/// What the lock protects. No foreign code runs while it is held: wakers are cloned before, and
/// woken and dropped after.
#[derive(Debug)]
pub(super) struct State {
    /// `None` before the handshake and after the end.
    qp: Option<Queue>,
    /// Why nothing can be posted or received any more.
    pub(super) over: Option<ConnectionError>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    under_way: usize,
    /// How many unsignaled requests were posted after the last signaled one.
    silent: usize,
    /// Whether signaled requests were under way when it was over.
    is_cut: bool,
    /// The peer has left: it is over then, or when the last signaled request has ended.
    left_by: Option<Instant>,
    inbox: Arrivals,
    pub(super) receivers: Waiters,
    pub(super) room: Waiters,
    /// The queue pair's number, under which receives wait for buffers.
    number: u32,
    /// How many receives should be posted, and are not.
    short: u32,
    /// Whether anything completed since the last keepalive was due.
    heard: bool,
    probing: bool,
}

/// A request that its future knows by index. The slot is free again once the request has ended
/// and its future has the result, or is gone.
#[derive(Debug)]
enum Slot {
    Free,
    UnderWay(Option<Waker>),
    /// Under way; nobody wants the result.
    Abandoned,
    Ended(WcStatus, Memory),
}

/// How a request ended and its memory, or why that will not be known.
pub(super) type Outcome = Result<(WcStatus, Memory), ConnectionError>;

/// What became of an attempt to post.
#[derive(Debug)]
pub(super) enum Posting {
    /// It is under way, in this slot.
    Posted(usize),
    /// There is no room at the moment. Boxed, because it is rare and a request is large.
    Full(Box<Work>),
    /// It never will be; its memory, if it is ours.
    Refused(ConnectionError, Option<Memory>),
}

/// Gives back the memory of requests that have ended without a completion, and of a batch that was
/// not submitted.
fn put_released(queue: &mut owned::QueuePair<Rc>, pool: &Pool) {
    let all = std::iter::from_fn(|| queue.released());
    pool.put_all(all.filter_map(|released| released.memory.into_buffer()));
}

impl Conn {
    pub(super) fn new(number: u32, pool: &Arc<Pool>, settings: &Settings, receives: u32) -> Self {
        Self {
            number,
            pool: Arc::clone(pool),
            sends: settings.sends as usize,
            backlog: settings.backlog,
            news: AtomicBool::new(false),
            state: Mutex::new(State {
                qp: None,
                over: None,
                slots: Vec::new(),
                free: Vec::new(),
                under_way: 0,
                silent: 0,
                is_cut: false,
                left_by: None,
                inbox: Arrivals::new(pool),
                receivers: Waiters::default(),
                room: Waiters::default(),
                number,
                short: receives,
                heard: true,
                probing: false,
            }),
        }
    }

    /// Whether a look at the messages is worth the lock.
    pub(super) fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire)
    }

    /// There was no message.
    pub(super) fn found_none(&self, state: &State) {
        self.news.store(state.over.is_some(), Ordering::Release);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Every step below leaves the state whole before anything that might panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over a queue pair, connected or in a handshake, and posts its receives.
    pub(super) fn take_over(&self, qp: Queue) {
        let mut state = self.lock();
        state.qp = Some(qp);
        let refused = state.top_up(&self.pool);
        drop(state);
        self.put_back(refused);
    }

    /// Calls `act` with the queue pair of a handshake. `None` if it has none any more.
    pub(super) fn with_held<R>(
        &self,
        act: impl FnOnce(&mut owned::QueuePair<Rc>) -> R,
    ) -> Option<R> {
        Some(act(self.lock().qp.as_mut()?.queue()))
    }

    /// Gives the queue pair of a handshake that failed back.
    pub(super) fn release(&self) -> Option<owned::QueuePair<Rc>> {
        let mut state = self.lock();
        match state.qp.take() {
            Some(Queue::InHandshake(qp)) => Some(qp),
            other => {
                state.qp = other;
                None
            }
        }
    }

    /// The handshake has succeeded: `made` says what the queue pair ends with from here on.
    pub(super) fn made(&self, made: impl FnOnce(owned::QueuePair<Rc>) -> Queue) {
        let mut state = self.lock();
        state.qp = match state.qp.take() {
            Some(Queue::InHandshake(qp)) => Some(made(qp)),
            other => other,
        };
    }

    /// To be called without the lock.
    pub(super) fn put_back(&self, buffer: Option<Buffer>) {
        if let Some(buffer) = buffer {
            self.pool.put(buffer);
        }
    }

    /// The peer has left. False if it is over now: no request is under way whose end is awaited.
    pub(super) fn leave_by(&self, end: Instant) -> bool {
        let mut state = self.lock();
        let waits = state.over.is_none() && state.left_by.is_none() && state.is_awaited();
        if waits {
            state.left_by = Some(end);
        }
        waits
    }

    /// Whether the time of a connection whose peer has left is up.
    pub(super) fn is_left_since(&self, now: Instant) -> bool {
        self.lock().left_by.is_some_and(|end| end <= now)
    }

    /// Posts receives for which there was no buffer. Returns a buffer that the queue refused.
    pub(super) fn refill(&self) -> Option<Buffer> {
        self.lock().top_up(&self.pool)
    }

    /// Ends it: every wait ends with `why`, the queue pair is destroyed, its memory returned.
    pub(super) fn end(&self, why: ConnectionError, bells: &Bells) {
        let mut wake = Vec::new();
        let (qp, inbox) = {
            let mut state = self.lock();
            state.lost(why, &mut wake);
            self.news.store(true, Ordering::Release);
            // The handshake ends its own queue pair.
            let qp = (state.qp).take_if(|qp| !matches!(qp, Queue::InHandshake(_)));
            let empty = Arrivals::new(&self.pool);
            (qp, std::mem::replace(&mut state.inbox, empty))
        };
        drop(inbox);
        if let Some(qp) = qp {
            qp.end(&self.pool);
        }
        self.pool.tell();
        bells.wake(&mut wake);
    }

    /// Nothing can be sent or received any more; what arrived can still be taken.
    pub(super) fn lose(&self, why: ConnectionError, wake: &mut Vec<Waker>) {
        let mut state = self.lock();
        state.lost(why, wake);
        self.news.store(true, Ordering::Release);
    }
}

impl State {
    /// Whether all signaled requests have succeeded, and so all that were posted before the last
    /// of them.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_awaited() && !self.is_cut
    }

    /// Whether a request is under way that has a completion of its own.
    fn is_awaited(&self) -> bool {
        self.under_way > self.silent
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// A request has ended, and so have the unsignaled ones before it.
    fn passed(&mut self, pool: &Pool, wake: &mut Vec<Waker>) {
        let Some(qp) = &mut self.qp else { return };
        put_released(qp.queue(), pool);
        self.count();
        self.room.take_all(wake);
    }

    /// Counts the requests that the queue has.
    fn count(&mut self) {
        let Some(qp) = &mut self.qp else { return };
        let posted = qp.queue().sends_posted();
        self.under_way = posted.saturating_sub(usize::from(self.probing));
        self.silent = self.silent.min(self.under_way);
    }

    fn set(&mut self, slot: usize, to: Slot) -> Slot {
        match self.slots.get_mut(slot) {
            Some(place) => std::mem::replace(place, to),
            None => Slot::Free,
        }
    }

    /// Nothing can be posted any more; everybody is told.
    fn lost(&mut self, why: ConnectionError, wake: &mut Vec<Waker>) {
        let flushed = ConnectionError::Disconnected(WcStatus::Flushed);
        match self.over {
            None => {
                self.over = Some(why);
                self.is_cut = self.is_awaited();
            }
            // The cause may be reported after requests that it made the device discard.
            Some(over) if over == flushed && matches!(why, ConnectionError::Disconnected(_)) => {
                self.over = Some(why);
            }
            Some(_) => {}
        }
        self.receivers.take_all(wake);
        self.room.take_all(wake);
        for slot in &mut self.slots {
            if let Slot::UnderWay(waker) = slot {
                wake.extend(waker.take());
            }
        }
    }

    fn received(&mut self, finished: Finished, is_shared: bool, pool: &Pool) {
        let (status, imm) = (finished.status(), finished.imm());
        let is_write = finished.opcode() == WcOpcode::RecvRdmaWithImm;
        let len = if is_write { 0 } else { finished.len() };
        let Some(buffer) = finished.into_buffer() else {
            return;
        };
        // Nobody will take messages of a connection that was closed here, or more of one that has
        // too many.
        let closed = matches!(
            self.over,
            Some(ConnectionError::Closed | ConnectionError::Failed(_) | ConnectionError::Backlog)
        );
        if closed || !status.is_success() {
            pool.put_silently(buffer);
            return;
        }
        self.inbox.push(Arrival::new(buffer, len, imm, is_shared));
    }

    fn ended(
        &mut self,
        slot: u64,
        status: WcStatus,
        memory: Memory,
        pool: &Pool,
        wake: &mut Vec<Waker>,
    ) {
        self.under_way = self.under_way.saturating_sub(1);
        self.room.take_all(wake);
        let Ok(slot) = usize::try_from(slot) else {
            return pool.put_memory_silently(memory);
        };
        let ended = Slot::Ended(status, memory);
        match self.set(slot, ended) {
            Slot::UnderWay(waker) => wake.extend(waker),
            Slot::Abandoned | Slot::Free | Slot::Ended(..) => {
                if let Slot::Ended(_, memory) = self.set(slot, Slot::Free) {
                    pool.put_memory_silently(memory);
                }
                self.free.push(slot);
            }
        }
    }

    /// The result of the request in `slot`, which frees the slot; if there is none yet, `waker`
    /// is woken once there is. Also returns a waker, to be dropped without the lock.
    pub(super) fn result(&mut self, slot: usize, waker: Waker) -> (Option<Outcome>, Option<Waker>) {
        match self.set(slot, Slot::Free) {
            Slot::Ended(status, memory) => {
                self.free.push(slot);
                (Some(Ok((status, memory))), Some(waker))
            }
            Slot::UnderWay(old) => {
                if let Some(over) = self.over {
                    self.set(slot, Slot::Abandoned);
                    return (Some(Err(over)), old.or(Some(waker)));
                }
                self.set(slot, Slot::UnderWay(Some(waker)));
                (None, old)
            }
            Slot::Abandoned | Slot::Free => (Some(Err(ConnectionError::Closed)), Some(waker)),
        }
    }

    /// Nobody waits for the request in `slot` any more: its memory goes back to the pool when it
    /// ends. Returns memory and a waker, to be put back and dropped without the lock.
    pub(super) fn abandon(&mut self, slot: usize) -> (Option<Memory>, Option<Waker>) {
        match self.set(slot, Slot::Free) {
            Slot::UnderWay(waker) => {
                self.set(slot, Slot::Abandoned);
                (None, waker)
            }
            Slot::Abandoned => {
                self.set(slot, Slot::Abandoned);
                (None, None)
            }
            Slot::Ended(_, memory) => {
                self.free.push(slot);
                (Some(memory), None)
            }
            Slot::Free => (None, None),
        }
    }

    /// The oldest message; another receive takes its place. Also returns a buffer that the queue
    /// refused, to be put back without the lock.
    pub(super) fn take_message(&mut self, pool: &Arc<Pool>) -> Option<(Message, Option<Buffer>)> {
        let is_shared = self.inbox.first()?.is_shared();
        // None is done here, so none is told of.
        let (message, _) = self.inbox.pop();
        let message = message?;
        if is_shared {
            return Some((message, None));
        }
        self.short = self.short.saturating_add(1);
        let refused = self.top_up(pool);
        Some((message, refused))
    }

    /// All messages, into a queue that is empty; receives take their places. Returns a buffer that
    /// the queue refused, to be put back without the lock.
    pub(super) fn take_messages(
        &mut self,
        into: &mut Arrivals,
        pool: &Arc<Pool>,
    ) -> Option<Buffer> {
        std::mem::swap(&mut self.inbox, into);
        let own = into.iter().filter(|arrival| !arrival.is_shared()).count();
        let own = u32::try_from(own).unwrap_or(u32::MAX);
        self.short = self.short.saturating_add(own);
        self.top_up(pool)
    }

    /// Posts the receives that are missing, as far as there are buffers. Returns a buffer that the
    /// queue refused.
    fn top_up(&mut self, pool: &Arc<Pool>) -> Option<Buffer> {
        let qp = self.qp.as_mut()?.queue();
        if self.over.is_some() {
            return None;
        }
        while self.short > 0 {
            // Most often there are enough, which is known under one lock.
            let (posted, refused) = pool.take_each(self.short, |buffer| {
                qp.recv(buffer, RECEIVE).map_err(|refused| refused.buffer)
            });
            self.short -= posted;
            if refused.is_some() {
                return refused;
            }
            if self.short > 0 {
                let buffer = pool.take_for(Hungry::Connection(self.number))?;
                if let Err(refused) = qp.recv(buffer, RECEIVE) {
                    return Some(refused.buffer);
                }
                self.short -= 1;
            }
        }
        None
    }
}
