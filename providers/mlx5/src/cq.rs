//! Completion queues: the device writes entries into this process's memory, and reads in a doorbell record how far
//! they were taken.
#![expect(
    clippy::cast_possible_truncation,
    reason = "the device counts in 24 bits, and sizes are 64 or 128"
)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uverbs_driver::contract::{self, CqInit};
use uverbs_driver::hw::{Record, Register, barrier};
use uverbs_driver::object::ObjectKind;
use uverbs_driver::sys::{ForkToken, Uhw, cells};
use uverbs_driver::types::{WcOpcode, WorkCompletion};
use uverbs_driver::{Error, ErrorKind, Object, Op, PollError, Result, cmd};
use uverbs_uapi::mlx5_abi::{
    MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, mlx5_ib_create_cq, mlx5_ib_create_cq_resp,
    mlx5_ib_resize_cq,
};
use zerocopy::IntoBytes;

use crate::Context;
use crate::cq_ring::CqRing;
use crate::cqe::{Entry, Tail, format, opcode};
use crate::table::{Owner, Trackers};
use crate::tracker::{QueuePairTracker, Receives, Sent};

/// Most entries the device's counter leaves room for.
const MAX_ENTRIES: u32 = 1 << 24;
/// Bytes of an entry.
const ENTRY: u32 = 64;
/// Words of the doorbell record.
const CONSUMER: usize = 0;
const ARM: usize = 1;
/// The arm command for solicited completions only.
const SOLICITED: u32 = 1 << 24;
const COUNTER: u64 = 0xff_ffff;

/// What a completion queue shares with the queue pairs that report to it.
#[derive(Debug)]
pub(crate) struct CqShared {
    ring: Mutex<Arc<CqRing>>,
    /// Entries given back, as the device knows.
    consumer: AtomicU64,
}

impl CqShared {
    fn lock(&self) -> MutexGuard<'_, Arc<CqRing>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The position behind the last entry that the device has written.
    ///
    /// Entries of a queue pair that was destroyed or reset are before it, since it writes no more.
    pub(crate) fn produced(&self) -> u64 {
        let ring = self.lock();
        let mut position = self.consumer.load(Ordering::Acquire);
        loop {
            let end = position.saturating_add(ring.entries().into());
            while position < end && ring.tail(position).is_some() {
                position += 1;
            }
            // What was given back meanwhile may have been written over, and ended the walk too soon.
            let consumer = self.consumer.load(Ordering::Acquire);
            if consumer <= position {
                return position;
            }
            position = consumer;
        }
    }
}

/// An mlx5 completion queue.
#[derive(Debug)]
pub struct CompletionQueue {
    ring: Arc<CqRing>,
    /// The next entry to look at.
    position: u64,
    /// Up to where entries were given back.
    released: u64,
    owners: Owners,
    shared: Arc<CqShared>,
    record: Arc<Record>,
    arm: Register,
    number: u32,
    /// Events that the user took, which count arms.
    events: Option<Arc<AtomicU32>>,
    max_entries: u32,
    fork: ForkToken,
    object: Arc<Object>,
}

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
    #[inline]
    fn find(&mut self, entry: &Entry) -> Option<&Owner> {
        if self.epoch != self.trackers.epoch() || self.by_device {
            self.forget();
        }
        let index = entry.user_index() as usize;
        if !matches!(self.known.get(index), Some(Some(_))) {
            self.learn(index, entry)?;
        }
        self.known.get(index)?.as_ref()
    }

    #[cold]
    fn forget(&mut self) {
        self.epoch = self.trackers.epoch();
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

/// log₂ of the ring for `entries`: one more, so that a full queue is told from an empty one.
fn log_of(op: Op, entries: u32, max: u32) -> Result<u32> {
    if entries == 0 {
        return Err(Error::invalid(op, "entries").fact("asked", entries));
    }
    if entries > max || entries >= MAX_ENTRIES {
        return Err(Error::new(op, ErrorKind::LimitExceeded)
            .fact("asked", entries)
            .fact("max_cqe", max.min(MAX_ENTRIES - 1)));
    }
    Ok(entries
        .saturating_add(1)
        .next_power_of_two()
        .trailing_zeros())
}

impl CompletionQueue {
    pub(crate) fn create(context: &Context, init: &CqInit<'_>) -> Result<Self> {
        let op = Op::CreateCompletionQueue;
        let max_entries = context.device().max_cqe;
        let log = log_of(op, init.entries, max_entries)?;
        let channel = context.channel();
        // A child has no mapping of the records.
        channel.check_process(op)?;
        let os = |errno| Error::os(op, errno);
        let ring = Arc::new(CqRing::new(log, ENTRY, 0).map_err(os)?);
        let record = Arc::new(context.records().take().map_err(os)?);
        let (arm, page) = context.uars().for_completion_queues()?;
        let words = mlx5_ib_create_cq {
            buf_addr: ring.units.address(),
            db_addr: record.address(),
            cqe_size: ring.entry_size(),
            flags: page.map_or(0, |_| MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX as u16),
            uar_page_index: page.map_or(0, |page| page as u16),
            ..mlx5_ib_create_cq::default()
        };
        let mut reply = mlx5_ib_create_cq_resp::default();
        let create = cmd::cq::Create {
            vector: init.vector,
            channel: init.channel,
            ..cmd::cq::Create::new(ring.entries() - 1, init.cookie)
        };
        let uhw = Uhw::new(words.as_bytes(), cells(&mut reply));
        let created = cmd::cq::create(channel, &create, &uhw)?;
        let object = Object::new(channel, ObjectKind::CompletionQueue, created.handle, [])
            .with_memory((Arc::clone(&ring), Arc::clone(&record), arm.clone()));
        let shared = CqShared {
            ring: Mutex::new(Arc::clone(&ring)),
            consumer: AtomicU64::new(0),
        };
        Ok(Self {
            ring,
            position: 0,
            released: 0,
            owners: Owners {
                trackers: Arc::clone(context.trackers()),
                known: Vec::new(),
                epoch: 0,
                by_device: context.config().cqe_version == 0,
            },
            shared: Arc::new(shared),
            record,
            arm,
            number: reply.cqn,
            events: init.events.cloned(),
            max_entries,
            fork: channel.fork_token(),
            object: Arc::new(object),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<CqShared> {
        &self.shared
    }

    /// `mlx5dv_cq`—the device's number for it, as firmware commands need it.
    #[doc(alias = "mlx5dv_cq")]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// `ibv_modify_cq`—holds completion events back until there are `count` completions, or `period` microseconds
    /// went by. 0 for both: no longer.
    ///
    /// One system call.
    ///
    /// # Errors
    /// Those of the command; EOPNOTSUPP where the device cannot.
    #[doc(alias = "ibv_modify_cq")]
    pub fn moderate(&self, count: u16, period: u16) -> Result<()> {
        cmd::cq::modify(self.object.channel(), self.object.handle(), count, period)
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

impl contract::Cq for CompletionQueue {
    fn object(&self) -> &Arc<Object> {
        &self.object
    }

    fn entries(&self) -> u32 {
        self.ring.entries() - 1
    }

    #[inline]
    fn next(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        // A child has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(PollError::Forked);
        }
        let start = self.position;
        while let Some(tail) = self.ring.tail(self.position) {
            barrier::from_device();
            let position = self.position;
            self.position += 1;
            match self.completion(position, tail) {
                Ok(None) => {}
                done => return done,
            }
        }
        if self.position != start {
            self.release();
        }
        Ok(None)
    }

    #[inline]
    fn release(&mut self) {
        if self.released != self.position && self.fork.is_current() {
            self.give_back();
        }
    }

    /// No system call.
    fn arm(&mut self, solicited_only: bool) -> Result<()> {
        self.object
            .channel()
            .check_process(Op::RequestNotification)?;
        let events = self
            .events
            .as_ref()
            .map_or(0, |events| events.load(Ordering::Acquire));
        let command = if solicited_only { SOLICITED } else { 0 };
        let count = self.ring.count(self.position);
        let word = (events & 3) << 28 | command | (count & COUNTER) as u32;
        barrier::to_device();
        self.record.store(ARM, word);
        barrier::before_registers();
        self.arm
            .store((u64::from(word) << 32 | u64::from(self.number)).to_be());
        barrier::flush_registers();
        Ok(())
    }

    /// Two system calls: a new ring is mapped, and the device writes into it from some entry on.
    fn resize(&mut self, entries: u32) -> Result<()> {
        let op = Op::ResizeCompletionQueue;
        let log = log_of(op, entries, self.max_entries)?;
        self.object.channel().check_process(op)?;
        let old = Arc::clone(&self.ring);
        if old.entries() == 1 << log {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let mut current = shared.lock();
        let mut waiting = 0;
        while waiting < old.entries() && old.tail(self.position + u64::from(waiting)).is_some() {
            waiting += 1;
        }
        if entries < waiting {
            return Err(Error::invalid(op, "entries")
                .fact("asked", entries)
                .fact("waiting", waiting));
        }
        let ring = CqRing::new(log, old.entry_size(), old.count(1))
            .map_err(|errno| Error::os(op, errno))?;
        let ring = Arc::new(ring);
        let words = mlx5_ib_resize_cq {
            buf_addr: ring.units.address(),
            cqe_size: old.entry_size() as u16,
            ..mlx5_ib_resize_cq::default()
        };
        // The device may use both rings until the command has ended, one way or the other.
        self.object.keep(Arc::clone(&ring));
        let uhw = Uhw::new(words.as_bytes(), &[]);
        cmd::cq::resize(
            self.object.channel(),
            self.object.handle(),
            ring.entries() - 1,
            &uhw,
        )?;
        self.move_to(&ring, &old)?;
        *current = Arc::clone(&ring);
        self.ring = ring;
        drop(current);
        self.give_back();
        Ok(())
    }
}

impl CompletionQueue {
    /// Tells the device how far entries were taken.
    #[inline]
    fn give_back(&mut self) {
        self.released = self.position;
        self.shared.consumer.store(self.position, Ordering::Release);
        let count = self.ring.count(self.position);
        self.record.store(CONSUMER, (count & COUNTER) as u32);
    }

    /// Takes over what the old ring holds, up to the entry that says where the new one goes on.
    fn move_to(&self, ring: &CqRing, old: &CqRing) -> Result<()> {
        let op = Op::ResizeCompletionQueue;
        let mut position = self.position;
        loop {
            let Some(tail) = old.tail(position) else {
                return Err(Error::bad_reply(op, "no mark of the resize"));
            };
            barrier::from_device();
            if tail.opcode() == opcode::RESIZE {
                break;
            }
            ring.take(old, position);
            position += 1;
        }
        Ok(())
    }
}
