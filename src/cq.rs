//! Completion queues.

use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use crate::typed::vendor::Vendor;
use uverbs_any::AnyCq;
use uverbs_core::contract::{self, Cq as _, CqInit, Extra, Link};
use uverbs_core::hw::QueueMemory;
use uverbs_core::types::{CqModerationCaps, Timestamps, WorkCompletion};
use uverbs_core::{Error, ErrorKind, EventCounts, Object, Op, PollError, Result};

use crate::event::EventSource;
use crate::event_table::EventKey;
use crate::typed::of_another_vendor;
use crate::{CompletionChannel, Context, unpolled};

/// `ibv_cq`—where finished work requests are reported.
///
/// One queue can serve any number of queue pairs and shared receive queues, and is polled by one
/// poller: polling takes `&mut self`, no lock and no system call. The kernel's queue lives until
/// the last queue pair that uses it is gone.
#[doc(alias = "ibv_cq")]
#[derive(Debug)]
pub struct CompletionQueue {
    pub(crate) ring: AnyCq,
    event_key: EventKey,
    context: Context,
    channel: Option<CompletionChannel>,
}

/// Identifies a completion queue. No other queue of the process has, had, or will have the same id.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CqId(u64);

/// Which completions send an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notify {
    /// The next one.
    Any,
    /// The next one that failed, or that its sender marked as solicited.
    SolicitedOnly,
}

/// A completion queue to be created ([`Context::completion_queue`]).
#[derive(Clone, Debug)]
#[must_use = "nothing is created before `build`"]
pub struct CompletionQueueBuilder<'a> {
    of: &'a Context,
    entries: u32,
    channel: Option<&'a CompletionChannel>,
    vector: u32,
    user_data: u64,
    timestamps: Timestamps,
    pub(crate) memory: Option<Arc<dyn QueueMemory>>,
    /// The vendor-specific part, if any.
    pub(crate) extra: Option<Arc<dyn Extra>>,
}

/// A completion that was taken out of its queue, which cannot be polled again while the completion
/// lives.
///
/// Its fields are those of [`WorkCompletion`]. It cannot be copied or forged, so an
/// [`owned`](crate::owned) queue that takes it returns the memory of its request only once.
#[derive(Debug)]
pub struct Completion<'cq> {
    wc: WorkCompletion,
    queue: CqId,
    bound: PhantomData<&'cq mut CompletionQueue>,
}

impl<'a> CompletionQueueBuilder<'a> {
    pub(crate) fn new(of: &'a Context, entries: u32) -> Self {
        Self {
            of,
            entries,
            channel: None,
            vector: 0,
            user_data: 0,
            timestamps: Timestamps::None,
            memory: None,
            extra: None,
        }
    }

    /// Where its events go. Default: nowhere, it can only be polled.
    pub fn channel(mut self, channel: &'a CompletionChannel) -> Self {
        self.channel = Some(channel);
        self
    }

    /// Which interrupt vector signals it, below [`Context::completion_vectors`]. Default: 0.
    pub fn vector(mut self, vector: u32) -> Self {
        self.vector = vector;
        self
    }

    /// A number of the user's choice that its events carry. Default: 0.
    #[doc(alias = "cq_context")]
    pub fn user_data(mut self, user_data: u64) -> Self {
        self.user_data = user_data;
        self
    }

    /// Which timestamps its completions carry, for [`CompletionQueue::poll_stamped`]. Default:
    /// none.
    #[doc(alias = "IBV_WC_EX_WITH_COMPLETION_TIMESTAMP")]
    #[doc(alias = "IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK")]
    pub fn timestamps(mut self, timestamps: Timestamps) -> Self {
        self.timestamps = timestamps;
        self
    }

    /// Creates it. Three system calls on rxe: the command, and two for its mapping.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | no entries, a vector that the device does not have, a channel of another context |
    /// | [`LimitExceeded`](crate::ErrorKind::LimitExceeded) | more entries than the device's `max_cqe` |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | ENOMEM, EAGAIN from the rdma cgroup |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | timestamps on a device without a clock, such as rxe; the time of day where the kernel does not derive it from the clock's counts; what only another vendor's devices have |
    pub fn build(&self) -> Result<CompletionQueue> {
        let op = Op::CreateCompletionQueue;
        let inner = &self.of.inner;
        if let Some(channel) = self.channel
            && !channel.is_of(self.of)
        {
            return Err(
                Error::invalid(op, "channel").hint("the channel belongs to another context")
            );
        }
        let vectors = self.of.completion_vectors();
        if self.vector >= vectors.max(1) {
            return Err(Error::invalid(op, "vector")
                .fact("requested", self.vector)
                .fact("vectors", vectors));
        }
        let events = self.channel.map(|_| Arc::default());
        let event_key = inner.event_table.reserve_counted(op, events.as_ref())?;
        event_key.announce(EventSource::CompletionQueue {
            user_data: self.user_data,
        });
        let init = CqInit {
            entries: self.entries,
            user_handle: event_key.number(),
            comp_channel: self.channel.map(AsFd::as_fd),
            vector: self.vector,
            events: events.as_ref(),
            timestamps: self.timestamps,
            ignores_overrun: false,
            unpolled: Some(unpolled::observer()),
            memory: self.memory.as_ref(),
            extra: self.extra.as_deref(),
        };
        let ring = inner.provider.create_cq(&init)?;
        Ok(CompletionQueue {
            ring,
            event_key,
            context: self.of.clone(),
            channel: self.channel.cloned(),
        })
    }
}

impl CompletionQueue {
    /// Takes the oldest completion, if there is one. No system call.
    ///
    /// ```no_run
    /// # fn f(cq: &mut uverbs::CompletionQueue) -> Result<(), uverbs::PollError> {
    /// while let Some(completion) = cq.poll()? {
    ///     println!("{} {}", completion.wr_id, completion.status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`PollError::Corrupt`] for a ring that holds something impossible, and for every later poll.
    #[doc(alias = "ibv_start_poll")]
    #[doc(alias = "ibv_next_poll")]
    #[doc(alias = "ibv_end_poll")]
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub fn poll(&mut self) -> Result<Option<Completion<'_>>, PollError> {
        let Some(wc) = self.ring.poll()? else {
            return Ok(None);
        };
        Ok(Some(Completion {
            wc,
            queue: self.id(),
            bound: PhantomData,
        }))
    }

    /// `ibv_wc_read_completion_ts`, `ibv_wc_read_completion_wallclock_ns`—takes the oldest
    /// completion, if there is one, with its timestamp. No system call.
    ///
    /// The timestamp is what [`timestamps`](CompletionQueueBuilder::timestamps) asked for: counts
    /// of the device's clock, which [`mlx5::ClockInfo`](crate::mlx5::ClockInfo) turns into time, or
    /// nanoseconds since 1970. `None` if nothing was asked for, and for completions that failed. A
    /// completion queue that is only polled by the other functions pays nothing for it.
    ///
    /// ```no_run
    /// # fn f(context: &uverbs::Context) -> Result<(), Box<dyn std::error::Error>> {
    /// use uverbs::completion::Timestamps;
    ///
    /// let mut cq = context.completion_queue(64).timestamps(Timestamps::WallClock).build()?;
    /// if let Some((completion, Some(nanoseconds))) = cq.poll_stamped()? {
    ///     println!("{} at {nanoseconds} ns", completion.wr_id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    #[doc(alias = "ibv_wc_read_completion_ts")]
    #[doc(alias = "ibv_wc_read_completion_wallclock_ns")]
    pub fn poll_stamped(&mut self) -> Result<Option<(Completion<'_>, Option<u64>)>, PollError> {
        let Some((wc, stamp)) = self.ring.poll_stamped()? else {
            return Ok(None);
        };
        let completion = Completion {
            wc,
            queue: self.id(),
            bound: PhantomData,
        };
        Ok(Some((completion, stamp)))
    }

    /// `ibv_poll_cq`—takes as many completions as there are, up to the room in `out`, oldest first.
    ///
    /// Returns how many were taken. No system call; the slots are returned to the device once for
    /// all of them.
    ///
    /// # Errors
    /// As [`poll`](Self::poll), if there was no completion before the impossible one.
    #[doc(alias = "ibv_poll_cq")]
    #[inline]
    pub fn poll_into(&mut self, out: &mut [WorkCompletion]) -> Result<usize, PollError> {
        self.ring.poll_into(out)
    }

    /// `ibv_req_notify_cq`—asks for one event when the next completion arrives.
    ///
    /// One system call on rxe. A completion that is already in the queue sends none, so poll once
    /// more after asking.
    ///
    /// # Errors
    /// The kernel's errno; EINVAL for a queue without a channel.
    #[doc(alias = "ibv_req_notify_cq")]
    pub fn request_notification(&mut self, notify: Notify) -> Result<()> {
        if self.channel.is_none() {
            return Err(
                Error::invalid(Op::RequestNotification, "queue").hint("create it with a channel")
            );
        }
        self.ring.arm(notify == Notify::SolicitedOnly)
    }

    /// `ibv_resize_cq`—makes room for at least `entries` completions. Those in the queue stay, in
    /// their order.
    ///
    /// Four system calls on rxe.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | no entries, or fewer than are in the queue (EINVAL) |
    /// | [`LimitExceeded`](crate::ErrorKind::LimitExceeded) | more than the device's `max_cqe` |
    ///
    /// A failure to map the new ring leaves a queue that returns [`PollError::Poisoned`].
    #[doc(alias = "ibv_resize_cq")]
    pub fn resize(&mut self, entries: u32) -> Result<()> {
        self.ring.resize(entries)
    }

    /// `ibv_modify_cq`—has the device hold back the events of this queue until `count` completions
    /// have arrived, or `period` has passed since the first of them. One system call.
    ///
    /// Fewer interrupts for somewhat later events; polling is not affected. `period` is rounded up
    /// to whole microseconds. A count of 0 or 1 and a period of zero send every event at once, the
    /// default. Limits: [`DeviceAttr::cq_moderation`](crate::attr::DeviceAttr::cq_moderation).
    ///
    /// ```no_run
    /// # fn f(cq: &mut uverbs::CompletionQueue) -> uverbs::Result<()> {
    /// use std::time::Duration;
    ///
    /// cq.moderate(16, Duration::from_micros(8))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// | kind (errno) | cause |
    /// |---|---|
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) (EOPNOTSUPP) | a device without moderation, such as rxe; a kernel before 4.16 |
    /// | [`LimitExceeded`](crate::ErrorKind::LimitExceeded) | a larger count or period than the device supports; no command is issued |
    #[doc(alias = "ibv_modify_cq")]
    pub fn moderate(&mut self, count: u16, period: Duration) -> Result<()> {
        let caps = self.context.device_attr().cq_moderation;
        let period_us = moderation(caps, count, period)?;
        contract::moderate_cq(self.ring.object(), count, period_us)
    }

    /// How many completions it can hold; the device may have granted more than was requested.
    pub fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// Its id, which no other queue has.
    #[inline]
    pub fn id(&self) -> CqId {
        CqId(self.event_key.number())
    }

    /// The channel its events go to.
    pub fn channel(&self) -> Option<&CompletionChannel> {
        self.channel.as_ref()
    }

    /// `ibv_destroy_cq`—destroys it and returns how many of its events were delivered. One system
    /// call.
    ///
    /// Dropping it does the same. Events that were never read block neither.
    ///
    /// # Errors
    /// [`Busy`](crate::ErrorKind::Busy) while queue pairs use it; it lives on with them.
    #[doc(alias = "ibv_destroy_cq")]
    pub fn destroy(self) -> Result<EventCounts> {
        let object = Arc::clone(self.ring.object());
        {
            // Its ring holds the object, too.
            let _ring = self.ring;
        }
        Object::destroy_shared(object)
    }

    pub(crate) fn object(&self) -> &Arc<Object> {
        self.ring.object()
    }

    /// The vendor's queue.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): a device of another vendor.
    #[inline]
    pub(crate) fn of_vendor<V: Vendor>(&mut self) -> Result<&mut V::Cq> {
        V::cq(&mut self.ring)
            .ok_or_else(|| of_another_vendor(Op::PollCompletionQueue, self.context.name()))
    }

    /// How other queues refer to it when they are created.
    pub(crate) fn link(&self) -> Link<'_> {
        self.ring.link()
    }

    pub(crate) fn is_of(&self, context: &Context) -> bool {
        Arc::ptr_eq(&self.context.inner, &context.inner)
    }
}

impl CqId {
    pub(crate) fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

impl Completion<'_> {
    /// A completion that was just taken from the queue `queue`, which stays borrowed.
    #[inline]
    pub(crate) fn of(wc: WorkCompletion, queue: CqId) -> Self {
        Self {
            wc,
            queue,
            bound: PhantomData,
        }
    }

    /// The queue it was taken from.
    #[inline]
    pub fn queue(&self) -> CqId {
        self.queue
    }
}

impl Deref for Completion<'_> {
    type Target = WorkCompletion;

    #[inline]
    fn deref(&self) -> &WorkCompletion {
        &self.wc
    }
}

/// Checks what is asked of a device with `caps`, and returns the period in microseconds.
fn moderation(caps: CqModerationCaps, count: u16, period: Duration) -> Result<u16> {
    let op = Op::ModifyCompletionQueue;
    if caps.max_count == 0 && caps.max_period_us == 0 {
        return Err(Error::new(op, ErrorKind::Unsupported)
            .hint("the device does not moderate completion events"));
    }
    Error::at_most(op, "count", count, caps.max_count)?;
    let micros = u64::try_from(period.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
    u16::try_from(micros)
        .ok()
        .filter(|micros| *micros <= caps.max_period_us)
        .ok_or_else(|| Error::limit(op, "period_us", micros, caps.max_period_us.into()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn moderation_stays_within_the_device() {
        let mut caps = CqModerationCaps::default();
        (caps.max_count, caps.max_period_us) = (100, 50);
        let micros = Duration::from_micros;
        assert_eq!(moderation(caps, 100, micros(50)).unwrap(), 50);
        assert_eq!(moderation(caps, 1, Duration::from_nanos(1001)).unwrap(), 2);
        for (count, period, said) in [
            (
                101,
                micros(1),
                "modify_cq: limit exceeded (count 101, max 100)",
            ),
            (
                1,
                micros(51),
                "modify_cq: limit exceeded (period_us 51, max 50)",
            ),
            (
                1,
                micros(65_537),
                "modify_cq: limit exceeded (period_us 65537, max 50)",
            ),
        ] {
            let error = moderation(caps, count, period).unwrap_err();
            assert_eq!(error.to_string(), said);
        }
        let none = CqModerationCaps::default();
        assert!(moderation(none, 1, micros(1)).unwrap_err().is_unsupported());
        assert!(moderation(caps, 1, Duration::MAX).is_err());
    }
}
