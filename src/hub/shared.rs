//! What a hub's handles and its driver share.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::Waker;
use std::time::Instant;

use uverbs_core::{Error, ErrorKind, Op, Result};

use super::bells::Bells;
use super::builder::Settings;
use super::connection::Prepared;
use super::error::ConnectionError;
use super::pool::{Hungry, Pool};
use super::spin::Spin;
use super::state::Conn;
use super::wait::Turns;
use crate::transport::Rc;
use crate::{CompletionChannel, CompletionQueue, PreparedQueuePair, ProtectionDomain, owned};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pd: ProtectionDomain,
    pub(super) settings: Settings,
    pub(super) pool: Arc<Pool>,
    pub(super) channel: CompletionChannel,
    poller: Mutex<Poller>,
    /// How many threads want the completion queue to build something with it.
    builders: AtomicUsize,
    /// By the number of the queue pair.
    table: RwLock<Table>,
    pub(super) srq: Option<Mutex<owned::SharedReceiveQueue>>,
    /// How many connections there is room for in the completion queue.
    used: AtomicUsize,
    /// Connections that are gone, whose completions may still be in the completion queue.
    pub(super) retired: Mutex<Vec<u32>>,
    pub(super) closed: AtomicBool,
    /// How many [`Driver`](super::Driver)s run.
    pub(super) drivers: AtomicUsize,
    /// Waiting threads, one of which stands in where no driver runs.
    pub(super) turns: Turns,
    pub(super) bells: Arc<Bells>,
    pub(super) spin: Spin,
}

/// Connections by the numbers of their queue pairs.
type Table = HashMap<u32, Arc<Conn>, BuildHasherDefault<OfNumber>>;

/// A hash of a queue pair's number, which the kernel chooses, not a peer.
#[derive(Debug, Default)]
pub(super) struct OfNumber(u64);

impl Hasher for OfNumber {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        // The golden ratio: consecutive numbers are spread over all bits.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// After how many turns the clock is read, which is a system call on some machines: at the latest
/// before the next sleep.
const BETWEEN_LOOKS: u8 = 31;

/// What is known of the event that was asked for last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// There is none: none was asked for, or it was read.
    NotAsked,
    Awaited,
    /// Completions were taken since it was asked for: it has come, or they came before.
    MayHaveCome,
    /// It can be read.
    Come,
}

/// What only one thread does at a time.
#[derive(Debug)]
pub(super) struct Poller {
    pub(super) cq: CompletionQueue,
    pub(super) event: Event,
    pub(super) ticked: Instant,
    /// In how many turns to look whether keepalives are due.
    pub(super) looked: u8,
    pub(super) wake: Vec<Waker>,
}

/// Room for one connection in the completion queue.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) shared: Arc<Shared>,
    number: u32,
}

impl Shared {
    pub(super) fn new(
        pd: &ProtectionDomain,
        settings: Settings,
        (cq, channel): (CompletionQueue, CompletionChannel),
        srq: Option<owned::SharedReceiveQueue>,
    ) -> Result<Self> {
        let bells = Arc::new(Bells::default());
        let pool = Pool::new(
            pd,
            settings.buffer_size,
            settings.buffers,
            Arc::clone(&bells),
        );
        Ok(Self {
            pd: pd.clone(),
            pool: Arc::new(pool),
            turns: Turns::new(&bells)?,
            bells,
            spin: Spin::new(settings.spin),
            settings,
            channel,
            poller: Mutex::new(Poller {
                cq,
                event: Event::NotAsked,
                ticked: Instant::now(),
                looked: 0,
                wake: Vec::new(),
            }),
            builders: AtomicUsize::new(0),
            table: RwLock::default(),
            srq: srq.map(Mutex::new),
            used: AtomicUsize::new(0),
            retired: Mutex::default(),
            closed: AtomicBool::new(false),
            drivers: AtomicUsize::new(0),
        })
    }

    /// The completion queue, for a turn. Lets threads that build with it go first: a poller that
    /// never sleeps would otherwise take the lock again before they notice that it is free.
    pub(super) fn poller(&self) -> MutexGuard<'_, Poller> {
        for _ in 0..100 {
            if self.builders.load(Ordering::Relaxed) == 0 {
                break;
            }
            std::thread::yield_now();
        }
        self.poller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poller_to_build_with(&self) -> MutexGuard<'_, Poller> {
        self.builders.fetch_add(1, Ordering::Relaxed);
        let poller = self.poller.lock().unwrap_or_else(PoisonError::into_inner);
        self.builders.fetch_sub(1, Ordering::Relaxed);
        poller
    }

    pub(super) fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn retired(&self) -> MutexGuard<'_, Vec<u32>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_open(&self, op: Op) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(op, ErrorKind::InvalidState).hint("the hub was closed"));
        }
        Ok(())
    }

    /// Creates a queue pair that reports to the hub's completion queue.
    pub(super) fn prepare(self: &Arc<Self>) -> Result<Prepared> {
        self.check_open(Op::CreateQueuePair)?;
        let mut poller = self.poller_to_build_with();
        let prepared = self.prepare_with(&mut poller);
        // Completions may have been taken, also where it failed.
        let mut wake = std::mem::take(&mut poller.wake);
        drop(poller);
        self.bells.wake(&mut wake);
        prepared
    }

    fn prepare_with(self: &Arc<Self>, poller: &mut Poller) -> Result<Prepared> {
        let max = self.settings.connections;
        if self.used.load(Ordering::Relaxed) >= max {
            // The room may be taken by nothing but completions of connections that are gone.
            self.take_all_completions(poller)?;
        }
        if self.used.load(Ordering::Relaxed) >= max {
            let max = max as u64;
            return Err(Error::limit(
                Op::CreateQueuePair,
                "connections",
                max + 1,
                max,
            ));
        }
        let queue = self.build(&poller.cq)?;
        let number = queue.qp_num();
        self.used.fetch_add(1, Ordering::Relaxed);
        let place = Place {
            shared: Arc::clone(self),
            number,
        };
        // The number may have been another connection's. It has no completions of its own yet.
        if self.retired().contains(&number) {
            self.take_all_completions(poller)?;
        }
        Ok(Prepared { queue, place })
    }

    fn build(&self, cq: &CompletionQueue) -> Result<PreparedQueuePair<Rc>> {
        let plain = self.pd.queue_pair(Rc, cq, cq);
        let atomics = self.pd.context().device_attr().atomic_cap;
        let builder = self.settings.customize(plain, atomics);
        match self.srq.as_ref().map(lock_srq) {
            Some(srq) => builder.srq(srq.queue()).build(),
            None => builder.build(),
        }
    }

    /// Lets completions of this number find their connection.
    pub(super) fn announce(&self, number: u32) -> Result<Arc<Conn>> {
        let receives = if self.srq.is_some() {
            0
        } else {
            self.settings.receives
        };
        let conn = Arc::new(Conn::new(number, &self.pool, &self.settings, receives));
        let mut table = self.table_mut();
        // Under the lock that closing takes afterwards, so that none is left out.
        self.check_open(Op::Handshake)?;
        table.insert(number, Arc::clone(&conn));
        Ok(conn)
    }

    /// Ends a connection.
    pub(super) fn remove(&self, conn: &Arc<Conn>, why: ConnectionError) {
        {
            let mut table = self.table_mut();
            if table
                .get(&conn.number)
                .is_some_and(|there| Arc::ptr_eq(there, conn))
            {
                table.remove(&conn.number);
            }
        }
        conn.end(why, &self.bells);
        self.reclaim();
    }

    /// Ends all connections, and everything that waits.
    pub(super) fn close(&self, why: ConnectionError) {
        self.closed.store(true, Ordering::Release);
        let all = std::mem::take(&mut *self.table_mut());
        for conn in all.into_values() {
            conn.end(why, &self.bells);
        }
        self.bells.ring();
    }

    /// The completion queue was seen empty: nothing in it is of connections that retired before.
    pub(super) fn forget(&self, retired: usize) {
        self.retired().drain(..retired);
        self.used.fetch_sub(retired, Ordering::Relaxed);
    }

    pub(super) fn connections(&self) -> usize {
        self.table().len()
    }

    /// Keepalives, and receives for which there was no buffer.
    pub(super) fn look_after(&self, poller: &mut Poller) {
        if self.pool.is_hungry() {
            self.feed();
        }
        let Some(every) = self.settings.keepalive else {
            return;
        };
        if poller.looked > 0 {
            poller.looked -= 1;
            return;
        }
        poller.looked = BETWEEN_LOOKS;
        if poller.ticked.elapsed() < every {
            return;
        }
        poller.ticked = Instant::now();
        let all: Vec<_> = self.table().values().cloned().collect();
        for conn in &all {
            conn.probe(&mut poller.wake);
        }
    }

    /// Posts receives for those who wait for buffers, in the order in which they came.
    fn feed(&self) {
        let mut limit = self.connections() + 1;
        while limit > 0
            && let Some(next) = self.pool.next_hungry()
        {
            limit -= 1;
            match next {
                Hungry::Connection(number) => {
                    let conn = self.table().get(&number).cloned();
                    if let Some(buffer) = conn.and_then(|conn| conn.refill()) {
                        self.pool.put_silently(buffer);
                    }
                }
                Hungry::Shared => {
                    if let Some(srq) = &self.srq {
                        self.fill(&mut lock_srq(srq));
                    }
                }
            }
        }
    }

    /// A connection has ended: receives of the shared queue whose completions were lost with it.
    fn reclaim(&self) {
        let Some(srq) = &self.srq else { return };
        {
            let mut srq = lock_srq(srq);
            while let Some(finished) = srq.unpolled() {
                self.pool.put_memory_silently(finished.into_memory());
            }
            self.fill(&mut srq);
        }
        self.pool.tell();
    }

    /// Posts the receives that the shared receive queue lacks, as far as there are buffers.
    pub(super) fn fill(&self, srq: &mut owned::SharedReceiveQueue) {
        while srq.receives_posted() < self.settings.receives as usize {
            let Some(buffer) = self.pool.take_for(Hungry::Shared) else {
                return;
            };
            if let Err(refused) = srq.recv(buffer, 0) {
                return self.pool.put_silently(refused.buffer);
            }
        }
    }
}

pub(super) fn lock_srq(
    srq: &Mutex<owned::SharedReceiveQueue>,
) -> MutexGuard<'_, owned::SharedReceiveQueue> {
    srq.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.retired().push(self.number);
    }
}
