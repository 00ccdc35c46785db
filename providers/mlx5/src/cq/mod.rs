//! Completion queues: the device writes entries into this process's memory, and reads from a
//! doorbell record how many were taken.
#![expect(
    clippy::cast_possible_truncation,
    reason = "the device counts in 24 bits, and sizes are 64 or 128"
)]

mod arm;
mod entries;
mod frame;
mod place;
pub(crate) mod poll;
mod stamp;
mod taken;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use uverbs_core::contract::{self, CompletionSlot, CqInit, Link, RawCompletion, Success, Usual};
use uverbs_core::hw::{PagePool, QueueMemory, Record, Register, barrier};
#[cfg(feature = "rings")]
use uverbs_core::rings::QueueKind;
use uverbs_core::sys::{Attr, ForkToken, Uhw, cells};
use uverbs_core::types::{CqCreateFlags, WorkCompletion};
use uverbs_core::{Error, ErrorKind, Object, Op, PollError, Result, cmd};
use uverbs_uapi::mlx5_abi::{
    MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, mlx5_ib_create_cq, mlx5_ib_create_cq_resp,
    mlx5_ib_resize_cq,
};
use uverbs_uapi::mlx5_user_ioctl_cmds::MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX;
use zerocopy::IntoBytes;

use crate::context::Context;
use crate::cqe::ring::CqRing;
use crate::cqe::{CqShared, opcode};
pub use entries::{Entries, EntrySize};
pub use frame::FrameFields;
use poll::{At, Consumer, Destination, Fill, Formed, Left, Next, Own, Returned};
use stamp::Stamps;
pub use taken::Taken;

/// The largest number of entries that the device's counter allows.
const MAX_ENTRIES: u32 = 1 << 24;
/// Words of the doorbell record.
const CONSUMER: usize = 0;
const ARM: usize = 1;
/// Bits of the consumer counter that the device has.
const COUNTER: u64 = 0xff_ffff;

/// An mlx5 completion queue.
#[derive(Debug)]
pub struct CompletionQueue {
    consumer: Consumer,
    shared: Arc<CqShared>,
    record: Arc<Record>,
    arm: Register,
    number: u32,
    /// The number of events that the user took, which arm commands contain.
    events: Option<Arc<AtomicU32>>,
    /// Where its memory is allocated, if not in `pool`.
    memory: Option<Arc<dyn QueueMemory>>,
    pool: PagePool,
    max_entries: u32,
    /// Belongs to no process while it is unknown which ring the device writes to.
    fork: ForkToken,
    object: Arc<Object>,
    stamps: Stamps,
}

/// log₂ of the ring's size for `entries`: one more, so that a full queue differs from an empty one.
fn log_of(op: Op, entries: u32, max: u32) -> Result<u32> {
    if entries == 0 {
        return Err(Error::invalid(op, "entries").fact("requested", entries));
    }
    if entries > max || entries >= MAX_ENTRIES {
        return Err(Error::new(op, ErrorKind::LimitExceeded)
            .fact("requested", entries)
            .fact("max_cqe", max.min(MAX_ENTRIES - 1)));
    }
    Ok(entries
        .saturating_add(1)
        .next_power_of_two()
        .trailing_zeros())
}

fn overrun(ignored: bool) -> CqCreateFlags {
    if ignored {
        CqCreateFlags::IGNORE_OVERRUN
    } else {
        CqCreateFlags::empty()
    }
}

impl CompletionQueue {
    /// `mlx5dv_create_cq`—creates a completion queue whose entries the device writes as `entries`
    /// says.
    pub(crate) fn create(context: &Context, init: &CqInit<'_>, entries: Entries) -> Result<Self> {
        let op = Op::CreateCompletionQueue;
        entries.check(context.caps())?;
        let max_entries = context.device().max_cqe;
        let log = log_of(op, init.entries, max_entries)?;
        let file = context.file();
        // A child process has no mapping of the records.
        file.check_process(op)?;
        let os = |errno| Error::os(op, errno);
        let ring = CqRing::new(init.memory, context.pool(), log, entries.bytes(), 0).map_err(os)?;
        let ring = Arc::new(ring.compressed(entries.compressed));
        let record = Arc::new(context.records().take().map_err(os)?);
        let stamps = Stamps::new(context, init.timestamps)?;
        let (arm, page) = context.uars().for_completion_queues()?;
        // The driver data has 16 bits for the page's number; larger numbers are passed by an
        // attribute.
        let (in_driver_data, by_attribute) = match page {
            Some(page) => match u16::try_from(page) {
                Ok(in_driver_data) => (Some(in_driver_data), None),
                Err(_) => (None, Some(page)),
            },
            None => (None, None),
        };
        let mut driver_data = mlx5_ib_create_cq {
            buf_addr: ring.units.address(),
            db_addr: record.address(),
            flags: stamps.driver_flags()
                | in_driver_data.map_or(0, |_| MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX as u16),
            uar_page_index: in_driver_data.unwrap_or(0),
            ..mlx5_ib_create_cq::default()
        };
        entries.encode(&mut driver_data);
        let mut reply = mlx5_ib_create_cq_resp::default();
        let create = cmd::cq::Create {
            vector: init.vector,
            comp_channel: init.comp_channel,
            flags: stamps.flags() | overrun(init.ignores_overrun),
            ..cmd::cq::Create::new(ring.entries() - 1, init.user_handle)
        };
        let attrs = by_attribute
            .as_ref()
            .map(|page| [Attr::input(MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX, page)]);
        let uhw = Uhw {
            attrs: attrs.as_ref().map_or(&[], |attrs| attrs.as_slice()),
            ..Uhw::new(driver_data.as_bytes(), cells(&mut reply))
        };
        let shared = CqShared::new(&ring);
        let (trackers, by_device) = (context.trackers(), context.config().cqe_version == 0);
        let kept = (ring, Arc::clone(&record), arm.clone());
        let (object, _) = Object::create(
            file,
            &cmd::cq::KIND,
            [],
            Left::new(&shared, trackers, by_device, kept),
            || cmd::cq::create(file, &create, &uhw),
            |created| created.handle,
        )?;
        let consumer = Consumer::new(&shared, trackers, by_device);
        #[cfg(feature = "rings")]
        let consumer = consumer.watched(file.watched(QueueKind::Completion, reply.cqn));
        Ok(Self {
            consumer,
            shared,
            record,
            arm,
            number: reply.cqn,
            events: init.events.cloned(),
            memory: init.memory.cloned(),
            pool: context.pool().clone(),
            max_entries,
            fork: file.fork_token(),
            object: Arc::new(object),
            stamps,
        })
    }

    /// The timestamp of the completion that was taken last, in the unit that the queue was created
    /// for. Valid only until it is [released](contract::Cq::release). `None` for a failed request:
    /// the device writes the reasons in its place.
    pub fn timestamp(&mut self) -> Option<u64> {
        let position = self.consumer.position().checked_sub(1)?;
        let stamp = self.consumer.ring().stamp(position)?;
        self.stamps.of(stamp)
    }

    /// `mlx5dv_cq`—the device's number of the queue, for firmware commands.
    #[doc(alias = "mlx5dv_cq")]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// `ibv_modify_cq`—moderates completion events: holds them back until there are `count`
    /// completions, or `period` microseconds have passed. 0 for both turns moderation off.
    ///
    /// One system call.
    ///
    /// # Errors
    /// Those of the command; EOPNOTSUPP if the device does not support it.
    #[doc(alias = "ibv_modify_cq")]
    pub fn moderate(&self, count: u16, period: u16) -> Result<()> {
        cmd::cq::modify(self.object.file(), self.object.handle(), count, period)
    }
}

impl contract::Cq for CompletionQueue {
    fn object(&self) -> &Arc<Object> {
        &self.object
    }

    fn link(&self) -> Link<'_> {
        Link::new(&self.object, &self.shared)
    }

    fn entries(&self) -> u32 {
        self.consumer.ring().entries() - 1
    }

    #[inline]
    fn next(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        // A child process has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(self.refusal());
        }
        let start = self.consumer.position();
        let done = self.consumer.next();
        #[cfg(feature = "rings")]
        self.consumer.report();
        // Skipped entries are given back at once: no release follows.
        if !matches!(done, Ok(Some(_))) && self.consumer.position() != start {
            self.give_back();
        }
        done
    }

    #[inline]
    fn release(&mut self) {
        if self.fork.is_current() {
            self.give_back();
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "a completion is built where its user wants it"
    )]
    #[inline(always)]
    fn poll(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        self.poll_one(&mut Returned::new())
    }

    fn poll_stamped(&mut self) -> Result<Option<(WorkCompletion, Option<u64>)>, PollError> {
        let Some(done) = self.next()? else {
            return Ok(None);
        };
        // After the release, the device may overwrite it.
        let stamp = self.timestamp();
        self.release();
        Ok(Some((done, stamp)))
    }

    #[inline]
    fn poll_into(&mut self, out: &mut [WorkCompletion]) -> Result<usize, PollError> {
        self.poll_many::<Own, _>(out)
    }

    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn poll_usual<S: CompletionSlot>(&mut self, slot: &mut S) -> Usual {
        if !self.fork.is_current() {
            return Usual::Other;
        }
        let found = self.consumer.take_short(&mut At::<Formed, S>::new(slot));
        if found == Usual::Taken {
            self.give_back();
        }
        found
    }

    fn read(&self, raw: &RawCompletion) -> Success {
        poll::read(raw)
    }

    #[inline]
    fn poll_slots<S: CompletionSlot>(&mut self, out: &mut [S]) -> Result<usize, PollError> {
        self.poll_many::<Formed, _>(out)
    }

    /// No system call.
    fn arm(&mut self, solicited_only: bool) -> Result<()> {
        self.object.file().check_process(Op::RequestNotification)?;
        let events = self
            .events
            .as_ref()
            .map_or(0, |events| events.load(Ordering::Acquire));
        let count = self.consumer.ring().count(self.consumer.position());
        let word = arm::word(events, solicited_only, count);
        barrier::to_device();
        self.record.store(ARM, word);
        barrier::before_registers();
        self.arm
            .store((u64::from(word) << 32 | u64::from(self.number)).to_be());
        barrier::flush_registers();
        Ok(())
    }

    /// At most three system calls: the device writes into a new ring from some entry on, which is
    /// mapped if it is not small.
    fn resize(&mut self, entries: u32) -> Result<()> {
        let op = Op::ResizeCompletionQueue;
        let log = log_of(op, entries, self.max_entries)?;
        self.object.file().check_process(op)?;
        if !self.fork.is_current() {
            return Err(Error::new(op, ErrorKind::InvalidState)
                .hint("the outcome of an earlier resize is unknown; destroy the queue"));
        }
        let old = Arc::clone(self.consumer.ring());
        if old.entries() == 1 << log {
            return Ok(());
        }
        // Before the lock: an allocator is foreign code.
        let ring = CqRing::new(
            self.memory.as_ref(),
            &self.pool,
            log,
            old.entry_size(),
            old.count(1),
        )
        .map_err(|errno| Error::os(op, errno))?;
        let ring = Arc::new(ring.compressed(old.results));
        let shared = Arc::clone(&self.shared);
        let mut current = shared.lock();
        let mut waiting = 0;
        while waiting < old.entries()
            && old
                .settle(self.consumer.position() + u64::from(waiting))
                .is_some()
        {
            waiting += 1;
        }
        if entries < waiting {
            return Err(Error::invalid(op, "entries")
                .fact("requested", entries)
                .fact("waiting", waiting));
        }
        let driver_data = mlx5_ib_resize_cq {
            buf_addr: ring.units.address(),
            cqe_size: old.entry_size() as u16,
            ..mlx5_ib_resize_cq::default()
        };
        // The device may use both rings until the command has ended, successfully or not.
        self.object.keep(Arc::clone(&ring));
        let uhw = Uhw::new(driver_data.as_bytes(), &[]);
        // Until it is known which ring the device writes to, polling is refused.
        let fork = std::mem::replace(&mut self.fork, ForkToken::of_no_process());
        let resized = cmd::cq::resize(
            self.object.file(),
            self.object.handle(),
            ring.entries() - 1,
            &uhw,
        );
        if let Err(error) = resized {
            if !error.outcome_is_unknown() {
                self.fork = fork;
            }
            return Err(error);
        }
        self.move_to(&ring, &old)?;
        *current = Arc::clone(&ring);
        self.consumer.move_to(ring);
        self.fork = fork;
        drop(current);
        self.give_back();
        Ok(())
    }
}

impl contract::TypedCq for CompletionQueue {
    type Entry = Taken;

    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn poll_entry(&mut self) -> Result<Option<Taken>, PollError> {
        self.poll_one(&mut Returned::new())
    }

    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn poll_whole(&mut self, out: &mut WorkCompletion) -> Result<bool, PollError> {
        let done = self.poll_one(&mut At::<Own, _>::new(out))?;
        Ok(done.is_some())
    }

    #[inline]
    fn poll_entries(&mut self, out: &mut [Taken]) -> Result<usize, PollError> {
        self.poll_many::<Own, _>(out)
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // The last entry taken may not have been given back. The entries after it are for `Left`.
        self.shared.take(self.consumer.position());
    }
}

impl CompletionQueue {
    /// Why polling is refused.
    #[cold]
    #[inline(never)]
    fn refusal(&self) -> PollError {
        if self.object.file().fork_token().is_current() {
            PollError::Poisoned
        } else {
            PollError::Forked
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "a completion is built where its user wants it"
    )]
    #[inline(always)]
    fn poll_one<D: Destination>(&mut self, to: &mut D) -> Result<Option<D::Done>, PollError> {
        if !self.fork.is_current() {
            return Err(self.refusal());
        }
        match self.consumer.look() {
            Next::None => return Ok(None),
            // In each branch on its own: the caller then knows what kind of completion it is.
            Next::Sent(look) => {
                if let Some(done) = self.consumer.sent(look, to) {
                    self.consumer.took();
                    self.give_back();
                    return Ok(Some(done));
                }
            }
            Next::Received(look) => {
                if let Some(done) = self.consumer.received(look, to) {
                    self.consumer.took();
                    self.give_back();
                    return Ok(Some(done));
                }
            }
            Next::Other => {}
        }
        // Passed on as a value, so that those above need not be in memory.
        match self.poll_other() {
            Ok(Some(done)) => Ok(Some(to.other(done))),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn poll_many<F: Fill<T>, T>(&mut self, out: &mut [T]) -> Result<usize, PollError> {
        if !self.fork.is_current() {
            return Err(self.refusal());
        }
        if !self.consumer.may_have_next() {
            return Ok(0);
        }
        self.fill::<F, T>(out)
    }

    #[inline(never)]
    fn fill<F: Fill<T>, T>(&mut self, out: &mut [T]) -> Result<usize, PollError> {
        let filled = self.consumer.fill::<F, T>(out);
        // Skipped entries are given back, too.
        self.give_back();
        filled
    }

    /// Takes an entry that is not a usual one.
    #[inline(never)]
    fn poll_other(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        let done = self.consumer.next();
        // Skipped entries are given back, too.
        self.give_back();
        done
    }

    /// Tells the device how many entries were taken.
    #[inline]
    fn give_back(&self) {
        #[cfg(feature = "rings")]
        self.consumer.report();
        self.shared.take(self.consumer.position());
        let count = self.consumer.count();
        self.record.store(CONSUMER, (count & COUNTER) as u32);
    }

    /// Copies the entries of the old ring, up to the entry that marks where the new ring continues.
    fn move_to(&self, ring: &CqRing, old: &CqRing) -> Result<()> {
        let op = Op::ResizeCompletionQueue;
        let mut position = self.consumer.position();
        // The mark is an entry within the size of the ring.
        let end = position + u64::from(old.entries());
        loop {
            let Some(tail) = old.settle(position).filter(|_| position < end) else {
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
