//! What a hub knows about one connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use uverbs_core::PostError;
use uverbs_core::types::{QpAttr, QpState, Remote, RemoteKey, WcOpcode, WcStatus};

use super::bells::Bells;
use super::builder::Settings;
use super::error::ConnectionError;
use super::message::{Arrival, Arrivals, Message};
use super::pool::{Hungry, Pool};
use super::queue::Queue;
use super::waiters::Waiters;
use crate::Completion;
use crate::owned::{self, Buffer, Carried, Finished, Memory, Work};
use crate::transport::Rc;

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

    /// Begins to take its completions.
    pub(super) fn completing(&self) -> Completing<'_> {
        Completing {
            conn: self,
            state: self.lock(),
            has_any: false,
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

    /// Ends a receive that came from the shared receive queue.
    pub(super) fn complete_shared(&self, finished: Finished, wake: &mut Vec<Waker>) {
        let mut state = self.lock();
        state.heard = true;
        self.news.store(true, Ordering::Release);
        if state.inbox.len() >= self.backlog && state.over.is_none() {
            state.lost(ConnectionError::Backlog, wake);
            // Whatever else arrives is not kept, even if the kernel refuses this.
            if let Some(qp) = &mut state.qp {
                let _ = qp.queue().modify(&QpAttr::to(QpState::Error));
            }
        }
        state.received(finished, true, &self.pool);
        state.receivers.take_all(wake);
    }

    /// Posts `work` if there is room.
    pub(super) fn post(&self, work: Work, state: &mut State) -> Posting {
        if let Some(over) = state.over {
            return Posting::Refused(over, Some(work.take_memory()));
        }
        if state.under_way >= self.sends {
            return Posting::Full(Box::new(work));
        }
        let Some(qp) = &mut state.qp else {
            return Posting::Refused(ConnectionError::Closed, Some(work.take_memory()));
        };
        let slot = state.free.pop().unwrap_or_else(|| {
            state.slots.push(Slot::Free);
            state.slots.len() - 1
        });
        match qp.queue().post(work.user_data(slot as u64)) {
            Ok(()) => {
                state.set(slot, Slot::UnderWay(None));
                state.under_way += 1;
                Posting::Posted(slot)
            }
            Err(refused) => {
                if refused.work.is_some() {
                    state.free.push(slot);
                } else {
                    // The device may carry it out all the same.
                    state.set(slot, Slot::Abandoned);
                    state.under_way += 1;
                }
                match (refused.error, refused.work) {
                    // Requests that the device has not finished, although their waits are over.
                    (PostError::QueueFull, Some(work)) => Posting::Full(Box::new(work)),
                    (error, work) => Posting::Refused(
                        ConnectionError::Refused(error),
                        work.map(Work::take_memory),
                    ),
                }
            }
        }
    }

    /// Posts a send whose result nobody waits for: its buffer goes back to the pool when a later
    /// request has ended. It has a completion of its own if it `is_last`, and now and then, so that
    /// the queue does not fill up. Returns its buffer if it is ours.
    pub(super) fn post_unwatched(
        &self,
        imm: u32,
        carried: Carried<'_>,
        is_last: bool,
        state: &mut State,
    ) -> Result<(), (ConnectionError, Option<Buffer>)> {
        let qp = match (state.over, &mut state.qp) {
            (None, Some(qp)) if state.under_way < self.sends => qp,
            (over, qp) => {
                let full = ConnectionError::Refused(PostError::QueueFull);
                let closed = qp.is_none().then_some(ConnectionError::Closed);
                return Err((over.or(closed).unwrap_or(full), carried.into_buffer()));
            }
        };
        let is_silent = !is_last && state.silent + 1 < self.sends.div_ceil(2);
        let posted = (qp.queue()).post_message(imm, carried, UNWATCHED, !is_silent);
        let refused = match posted {
            Ok(()) => None,
            // The device may carry it out all the same.
            Err((error @ PostError::Doorbell(_), None)) => Some(error),
            Err((error, buffer)) => return Err((ConnectionError::Refused(error), buffer)),
        };
        state.under_way += 1;
        state.silent = if is_silent { state.silent + 1 } else { 0 };
        refused.map_or(Ok(()), |error| Err((ConnectionError::Refused(error), None)))
    }

    /// The same of several, with one doorbell; there has to be room for them.
    pub(super) fn post_unwatched_batch(
        &self,
        works: Vec<Work>,
        state: &mut State,
    ) -> Result<(), ConnectionError> {
        if let Some(over) = state.over {
            return Err(over);
        }
        let Some(qp) = &mut state.qp else {
            return Err(ConnectionError::Closed);
        };
        let (most, mut silent) = (self.sends.div_ceil(2), state.silent);
        let mut batch = qp.queue().batch();
        let mut refused = None;
        for work in works {
            let is_silent = silent + 1 < most;
            silent = if is_silent { silent + 1 } else { 0 };
            let work = work.user_data(UNWATCHED);
            let work = if is_silent { work.unsignaled() } else { work };
            if let Err(error) = batch.push(work) {
                refused = Some(error);
                break;
            }
        }
        let posted = match refused {
            None => batch.submit().map_err(ConnectionError::Refused),
            Some(refused) => {
                drop(batch);
                if let Some(work) = refused.work {
                    self.pool.put_memory_silently(work.take_memory());
                }
                Err(ConnectionError::Refused(refused.error))
            }
        };
        // Of a batch that was not submitted.
        while let Some(released) = qp.queue().released() {
            self.pool.put_memory_silently(released.memory);
        }
        state.silent = silent;
        state.count();
        posted
    }

    /// Asks the peer for a sign of life if there was none since the last time.
    pub(super) fn probe(&self, wake: &mut Vec<Waker>) {
        let mut state = self.lock();
        let quiet = !std::mem::take(&mut state.heard);
        if !quiet || state.probing || state.is_awaited() || state.over.is_some() {
            return;
        }
        let qp = match &mut state.qp {
            None | Some(Queue::InHandshake(_)) => return,
            Some(qp) => qp,
        };
        // No byte is moved, so no key is checked; it is acknowledged all the same.
        let nowhere = Remote {
            address: 0,
            key: RemoteKey::from_raw(0),
        };
        match qp.queue().post(Work::write(nowhere).user_data(PROBE)) {
            Ok(()) => {
                state.probing = true;
                state.silent = 0;
            }
            Err(refused) => {
                state.lost(ConnectionError::Refused(refused.error), wake);
                self.news.store(true, Ordering::Release);
            }
        }
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

/// A connection whose completions are taken, one after another, under one lock.
pub(super) struct Completing<'c> {
    conn: &'c Conn,
    state: MutexGuard<'c, State>,
    has_any: bool,
}

impl Completing<'_> {
    /// The number of the connection's queue pair.
    pub(super) fn number(&self) -> u32 {
        self.conn.number
    }

    /// Ends a request of this connection; returns the completion if it is none of its queue pair's.
    pub(super) fn complete<'cq>(
        &mut self,
        completion: Completion<'cq>,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Completion<'cq>> {
        let (conn, state) = (self.conn, &mut *self.state);
        let Some(qp) = &mut state.qp else {
            return Err(completion);
        };
        let finished = qp.queue().complete(completion)?;
        if !self.has_any {
            self.has_any = true;
            state.heard = true;
            conn.news.store(true, Ordering::Release);
        }
        if !finished.status().is_success() {
            let why = match state.left_by {
                Some(_) => ConnectionError::PeerLeft,
                None => ConnectionError::Disconnected(finished.status()),
            };
            state.lost(why, wake);
        }
        match finished.user_data() {
            RECEIVE => state.received(finished, false, &conn.pool),
            PROBE => {
                state.probing = false;
                state.passed(&conn.pool, wake);
            }
            UNWATCHED => {
                conn.pool.put_memory_silently(finished.into_memory());
                state.passed(&conn.pool, wake);
            }
            slot => state.ended(
                slot,
                finished.status(),
                finished.into_memory(),
                &conn.pool,
                wake,
            ),
        }
        if state.left_by.is_some() && !state.is_awaited() {
            state.lost(ConnectionError::PeerLeft, wake);
        }
        Ok(())
    }

    /// Gives the lock back. Who waits for a message is to be woken.
    pub(super) fn finish(mut self, wake: &mut Vec<Waker>) {
        if self.has_any && !self.state.inbox.is_empty() {
            self.state.receivers.take_all(wake);
        }
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
        while let Some(released) = qp.queue().released() {
            pool.put_memory_silently(released.memory);
        }
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
