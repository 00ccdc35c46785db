//! Queues: the parameters of their creation, and the traits that providers implement.

use std::any::Any;
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use super::{CompletionSlot, Extra, Link, QpBase, RawCompletion, Success, Usual};
use super::{extra, posting};
use crate::error::{Error, ErrorKind, Op, PollError, PostError, Result};
use crate::hw::QueueMemory;
use crate::object::Object;
use crate::types::{
    Ece, QpAttr, QpAttrMask, QpCaps, QpCreateFlags, QpInfo, QpType, RecvRequest, SendRequest,
    SigMode, SrqAttr, SrqModify, SrqType, Timestamps, WorkCompletion,
};

/// The parameters of a new completion queue.
#[derive(Clone, Copy, Debug)]
pub struct CqInit<'a> {
    /// The least number of entries.
    pub entries: u32,
    /// The user data that its events carry.
    pub user_handle: u64,
    /// The completion channel for its events.
    pub comp_channel: Option<std::os::fd::BorrowedFd<'a>>,
    /// The completion vector, which selects one of the device's interrupts.
    pub vector: u32,
    /// A count of the completion events that were read, for devices that need it.
    pub events: Option<&'a Arc<AtomicU32>>,
    /// The timestamps of its completions.
    pub timestamps: Timestamps,
    /// The device does not check whether the queue overruns; whoever posts takes care of that.
    pub ignores_overrun: bool,
    /// Receives the completions that are still in the queue when it is destroyed.
    pub unpolled: Option<&'static dyn Unpolled>,
    /// Where its memory is allocated, for devices whose rings this process allocates.
    pub memory: Option<&'a Arc<dyn QueueMemory>>,
    /// The vendor-specific part.
    pub extra: Option<&'a dyn Extra>,
}

impl<'a> CqInit<'a> {
    /// The vendor-specific part, for a provider that expects a `T`.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) if it is another vendor's.
    pub fn extra<T: Any>(&self) -> Result<Option<&'a T>> {
        extra::downcast(Op::CreateCompletionQueue, self.extra)
    }

    /// Refuses any vendor-specific part, for a provider that has none.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported).
    pub fn no_extra(&self) -> Result<()> {
        extra::refuse_any(Op::CreateCompletionQueue, self.extra)
    }

    /// Refuses an allocator, for a provider whose rings the kernel allocates.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported).
    pub fn no_memory(&self) -> Result<()> {
        match self.memory {
            None => Ok(()),
            Some(_) => Err(
                Error::new(Op::CreateCompletionQueue, ErrorKind::Unsupported)
                    .hint("the kernel allocates the queues of this device"),
            ),
        }
    }
}

/// Receives the completions that can no longer be polled.
pub trait Unpolled: Debug + Send + Sync {
    /// The request `wr_id` completed, and its completion was lost with its queue.
    fn completed(&self, wr_id: u64);
}

/// The parameters of a new shared receive queue.
#[derive(Clone, Copy, Debug)]
pub struct SrqInit {
    /// Its kind.
    pub kind: SrqType,
    /// Its sizes, and the limit that arms it (0: not armed).
    pub attr: SrqAttr,
    /// The user data that its events carry.
    pub user_handle: u64,
}

/// The parameters of a new queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpInit<'a> {
    /// Its transport.
    pub kind: QpType,
    /// The completion queue of its send queue.
    pub send_cq: Link<'a>,
    /// The completion queue of its receive queue.
    pub recv_cq: Link<'a>,
    /// The shared receive queue that it uses instead of its own receive queue.
    pub srq: Option<Link<'a>>,
    /// Its sizes.
    pub caps: QpCaps,
    /// Which send requests generate a completion on success.
    pub signal: SigMode,
    /// Further creation flags.
    pub flags: QpCreateFlags,
    /// The user data that its events carry.
    pub user_handle: u64,
    /// The vendor-specific part.
    pub extra: Option<&'a dyn Extra>,
}

impl SrqInit {
    /// Checks what does not depend on the device: its kind has a name.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput).
    pub fn check(&self) -> Result<()> {
        self.kind
            .checked(Op::CreateSharedReceiveQueue, "kind")
            .map(|_| ())
    }
}

impl<'a> QpInit<'a> {
    /// The vendor-specific part, for a provider that expects a `T`.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) if it is another vendor's.
    pub fn extra<T: Any>(&self) -> Result<Option<&'a T>> {
        extra::downcast(Op::CreateQueuePair, self.extra).map_err(|error| self.with_kind(error))
    }

    /// Refuses any vendor-specific part, for a provider that has none.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported).
    pub fn no_extra(&self) -> Result<()> {
        extra::refuse_any(Op::CreateQueuePair, self.extra).map_err(|error| self.with_kind(error))
    }

    fn with_kind(&self, error: Error) -> Error {
        error.fact("type", self.kind.to_string())
    }

    /// Checks what does not depend on the device: its kind and its flags have names.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput).
    pub fn check(&self) -> Result<()> {
        let op = Op::CreateQueuePair;
        self.kind.checked(op, "kind")?;
        self.flags.checked(op, "flags").map(|_| ())
    }
}

/// A completion queue.
pub trait Cq: Debug + Send {
    /// The kernel object.
    fn object(&self) -> &Arc<Object>;

    /// A reference to it, for creating queues with it.
    fn link(&self) -> Link<'_> {
        Link::plain(self.object())
    }

    /// How many entries it holds.
    fn entries(&self) -> u32;

    /// Takes the oldest completion, if there is one. [`release`](Self::release) returns its slot.
    ///
    /// # Errors
    /// [`PollError::Corrupt`] for invalid entries.
    fn next(&mut self) -> Result<Option<WorkCompletion>, PollError>;

    /// Returns the slots of taken completions to the device.
    fn release(&mut self);

    /// Takes one completion, and returns its slot at once.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn poll(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        let done = self.next()?;
        if done.is_some() {
            self.release();
        }
        Ok(done)
    }

    /// Takes one completion with its timestamp, if the queue was created with timestamps. The
    /// timestamp is `None` on devices without a clock, and for failed requests.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    fn poll_stamped(&mut self) -> Result<Option<(WorkCompletion, Option<u64>)>, PollError> {
        Ok(self.poll()?.map(|done| (done, None)))
    }

    /// Fills `out` from the front, and returns all slots to the device together. Returns the number
    /// of completions.
    ///
    /// # Errors
    /// As [`next`](Self::next), if the first completion fails; completions taken before an error
    /// are delivered.
    #[inline]
    fn poll_into(&mut self, out: &mut [WorkCompletion]) -> Result<usize, PollError> {
        let mut count = 0;
        for slot in out.iter_mut() {
            match self.next() {
                Ok(Some(done)) => *slot = done,
                Err(error) if count == 0 => return Err(error),
                Ok(None) | Err(_) => break,
            }
            count += 1;
        }
        if count > 0 {
            self.release();
        }
        Ok(count)
    }

    /// Takes the next completion to `slot`, and returns its ring slot at once, if it is one that is
    /// found without a call of another function: code that does nothing else needs no stack.
    #[inline]
    fn poll_usual<S: CompletionSlot>(&mut self, slot: &mut S) -> Usual {
        let _ = slot;
        Usual::Other
    }

    /// Reads a completion that this queue gave in its own form; the request's number is not in it.
    #[inline]
    fn read(&self, raw: &RawCompletion) -> Success {
        let _ = raw;
        Success::default()
    }

    /// The same as [`poll_into`](Self::poll_into), in another form.
    ///
    /// # Errors
    /// As [`poll_into`](Self::poll_into).
    #[inline]
    fn poll_slots<S: CompletionSlot>(&mut self, out: &mut [S]) -> Result<usize, PollError> {
        let mut count = 0;
        for slot in out.iter_mut() {
            match self.next() {
                Ok(Some(done)) => slot.any(&done),
                Err(error) if count == 0 => return Err(error),
                Ok(None) | Err(_) => break,
            }
            count += 1;
        }
        if count > 0 {
            self.release();
        }
        Ok(count)
    }

    /// Drops the completions of a queue pair that was reset, if the queue still has them: they are
    /// of requests that no longer exist.
    fn forget(&mut self, qp_num: u32) {
        let _ = qp_num;
    }

    /// `ibv_req_notify_cq`: the next completion (or the next solicited one) raises one event.
    ///
    /// # Errors
    /// Those of the command, if it takes one.
    fn arm(&mut self, solicited_only: bool) -> Result<()>;

    /// `ibv_resize_cq`: makes room for at least `entries`. Completions in the queue are kept.
    ///
    /// # Errors
    /// Limits of the device; those of the command and of mapping the new queue.
    fn resize(&mut self, entries: u32) -> Result<()> {
        let _ = entries;
        Err(Error::new(
            Op::ResizeCompletionQueue,
            ErrorKind::Unsupported,
        ))
    }
}

/// A shared receive queue.
pub trait Srq: Debug + Send {
    /// The kernel object.
    fn object(&self) -> &Arc<Object>;

    /// The kernel object, to destroy it in place. Afterwards the queue may only be dropped.
    fn object_mut(&mut self) -> &mut Arc<Object>;

    /// A reference to it, for creating queue pairs with it.
    fn link(&self) -> Link<'_> {
        Link::plain(self.object())
    }

    /// How many requests it holds, and scatter/gather entries per request.
    fn size(&self) -> SrqAttr;

    /// The device's number for it (`ibv_get_srq_num`).
    fn number(&self) -> u32;

    /// `ibv_modify_srq`: resizes or arms it. Applies all of `change` or nothing.
    ///
    /// # Errors
    /// Limits of the device; those of the command and of mapping the new queue.
    fn modify(&mut self, change: &SrqModify) -> Result<()>;

    /// `ibv_query_srq`.
    ///
    /// # Errors
    /// Those of the command.
    fn query(&self) -> Result<SrqAttr>;

    /// Puts one request into the queue. The device does not see it until [`submit`](Self::submit).
    ///
    /// # Errors
    /// The queue is full, or the request does not fit it; the queue is unchanged then.
    ///
    /// # Safety
    /// From [`submit`](Self::submit) until the request's completion has been polled, or the queue's
    /// destroy has been confirmed, the memory of every scatter/gather entry stays registered,
    /// allocated, and untouched by this process.
    #[allow(unsafe_code, reason = "names memory that a device will write to")]
    unsafe fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError>;

    /// Submits every request that was put to the device.
    ///
    /// # Errors
    /// [`PostError::Forked`], [`PostError::Poisoned`]; the requests have been removed then.
    fn submit(&mut self) -> Result<(), PostError>;

    /// Removes every request that was put and not submitted.
    fn abort(&mut self);

    /// Calls `each` with the `wr_id` of every request that ended without a completion: queue pairs
    /// consumed them and were destroyed or reset before their completions were polled. Each is
    /// reported once. Calling this is optional: the slots are free already, and at most as many ids
    /// are kept as the queue has requests.
    fn take_unreported(&mut self, each: &mut dyn FnMut(u64)) {
        let _ = each;
    }
}

/// A short way to post one send request of the most frequent kinds.
pub trait UsualSend {
    /// Posts `request`, if it is one of these; otherwise nothing is done. Returns whether it was
    /// posted.
    ///
    /// # Safety
    /// As [`Qp::put_send`].
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    unsafe fn post(self, request: SendRequest<'_>) -> bool;
}

impl UsualSend for Infallible {
    #[allow(unsafe_code, reason = "there is none")]
    unsafe fn post(self, _: SendRequest<'_>) -> bool {
        match self {}
    }
}

/// A queue pair.
pub trait Qp: Debug + Send {
    /// Returned by [`usual_send`](Self::usual_send); [`Infallible`] for a
    /// provider that has no short way.
    type Usual<'q>: UsualSend
    where
        Self: 'q;

    /// What it has in common with all others.
    fn base(&self) -> &QpBase;

    /// The kernel object, to destroy it in place. Afterwards the queue pair may only be dropped.
    fn object_mut(&mut self) -> &mut Object;

    /// `ibv_modify_qp`.
    ///
    /// # Errors
    /// Those of the command.
    fn modify(&mut self, attr: &QpAttr) -> Result<()>;

    /// `ibv_query_qp`. The state it reports becomes [`QpBase::state`].
    ///
    /// # Errors
    /// Those of the command.
    fn query(&mut self, mask: QpAttrMask) -> Result<QpInfo>;

    /// `ibv_query_ece`: the options that the device offered when the queue pair was created, or has
    /// agreed to since.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the device has no ECE options.
    fn ece(&self) -> Result<Ece> {
        Err(Error::new(Op::QueryEce, ErrorKind::Unsupported))
    }

    /// Checks whether [`set_ece`](Self::set_ece) would accept these options.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) as above; options of another vendor.
    fn check_ece(&self, ece: &Ece) -> Result<()> {
        let _ = ece;
        Err(Error::new(Op::SetEce, ErrorKind::Unsupported))
    }

    /// `ibv_set_ece`: the options that the next [`modify`](Self::modify) asks the device to agree
    /// to.
    ///
    /// # Errors
    /// As [`check_ece`](Self::check_ece).
    fn set_ece(&mut self, ece: &Ece) -> Result<()> {
        self.check_ece(ece)
    }

    /// Puts one send request into the queue. The device does not see it until
    /// [`submit_send`](Self::submit_send).
    ///
    /// # Errors
    /// The queue is full, or the request does not fit it; the queue is unchanged then.
    ///
    /// # Safety
    /// From [`submit_send`](Self::submit_send) until the request's completion has been polled (its
    /// own, or that of a later signaled request of this queue), or the queue pair's destroy or
    /// reset has been confirmed, the memory of every scatter/gather entry stays registered and
    /// allocated; this process does not write to it, and does not touch it at all if the
    /// operation writes to it (reads, atomics).
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    unsafe fn put_send(&mut self, request: &SendRequest<'_>) -> Result<(), PostError>;

    /// Submits every send request that was put to the device, with one doorbell.
    ///
    /// # Errors
    /// [`PostError::Doorbell`], [`PostError::Forked`], [`PostError::Poisoned`]; the requests have
    /// been removed then.
    fn submit_send(&mut self) -> Result<(), PostError>;

    /// Removes every send request that was put and not submitted.
    fn abort_send(&mut self);

    /// Puts the requests and submits them with one doorbell. An error says how many were posted,
    /// and why the next one was not.
    ///
    /// # Errors
    /// Those of [`put_send`](Self::put_send): requests before the refused one are posted; those of
    /// [`submit_send`](Self::submit_send).
    ///
    /// # Safety
    /// As [`put_send`](Self::put_send), for each request.
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn post_send(&mut self, requests: &[SendRequest<'_>]) -> Result<(), (usize, PostError)> {
        // SAFETY: the caller's promise.
        unsafe { posting::each_send(self, requests) }
    }

    /// Whether [`usual_send`](Self::usual_send) ever returns something.
    fn has_usual_sends(&self) -> bool;

    /// A short way to post one send request of the most frequent kinds, unless a request was put
    /// that is not submitted.
    fn usual_send(&mut self) -> Option<Self::Usual<'_>>;

    /// Puts a request, if it is one of the most frequent kinds; otherwise nothing is done. Returns
    /// whether it was put; [`submit_composed`](Self::submit_composed) or
    /// [`submit_send`](Self::submit_send) submits it. Code that does nothing else needs no stack.
    ///
    /// `request` returns the same one each time: it is called for each part where that is needed,
    /// so that not all need be kept in registers.
    ///
    /// # Safety
    /// As [`put_send`](Self::put_send), for all that `request` returns.
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    #[inline]
    unsafe fn put_composed<'r>(&mut self, request: impl Fn() -> SendRequest<'r>) -> bool {
        let _ = request;
        false
    }

    /// Submits what was put, if there is anything and nothing is in the way. Whether it was
    /// submitted.
    #[inline]
    fn submit_composed(&mut self) -> bool {
        false
    }

    /// Looks for send requests that were completed, if there seemed to be no room for another one.
    /// Whether that has changed, so that what was refused by the functions above may be accepted.
    fn find_room(&mut self) -> bool {
        false
    }

    /// Puts a receive request and submits it, if it is one with one entry and there is room;
    /// otherwise nothing is done. Returns whether it was posted.
    ///
    /// # Safety
    /// As [`put_recv`](Self::put_recv).
    #[allow(unsafe_code, reason = "names memory that a device will write to")]
    #[inline]
    unsafe fn post_usual_recv(&mut self, request: &RecvRequest<'_>) -> bool {
        let _ = request;
        false
    }

    /// Puts what `request` returns as long as that takes few steps; `next` is called after each
    /// that was put, and `request` returns the next one then. The rest is for
    /// [`put_recv`](Self::put_recv).
    ///
    /// # Safety
    /// As [`put_recv`](Self::put_recv), for all that `request` returns.
    #[allow(unsafe_code, reason = "names memory that a device will write to")]
    #[inline]
    unsafe fn put_recv_list<'r>(
        &mut self,
        request: impl Fn() -> Option<RecvRequest<'r>>,
        next: impl Fn(),
    ) {
        let _ = (request, next);
    }

    /// Puts one receive request into the queue, like [`Srq::put`].
    ///
    /// # Errors
    /// As [`Srq::put`]; [`PostError::UnsupportedOperation`] for a queue pair with a shared receive
    /// queue.
    ///
    /// # Safety
    /// As [`Srq::put`].
    #[allow(unsafe_code, reason = "names memory that a device will write to")]
    unsafe fn put_recv(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError>;

    /// Submits every receive request that was put to the device.
    ///
    /// # Errors
    /// As [`Srq::submit`].
    fn submit_recv(&mut self) -> Result<(), PostError>;

    /// Removes every receive request that was put and not submitted.
    fn abort_recv(&mut self);

    /// Like [`post_send`](Self::post_send), for receive requests.
    ///
    /// # Errors
    /// Those of [`put_recv`](Self::put_recv): requests before the refused one are posted; those of
    /// [`submit_recv`](Self::submit_recv).
    ///
    /// # Safety
    /// As [`put_recv`](Self::put_recv), for each request.
    #[allow(unsafe_code, reason = "names memory that a device will write to")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn post_recv(&mut self, requests: &[RecvRequest<'_>]) -> Result<(), (usize, PostError)> {
        // SAFETY: the caller's promise.
        unsafe { posting::each_recv(self, requests) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue with these results of looking for a completion, and how many slots were returned.
    #[derive(Debug)]
    struct Queue(Vec<Result<Option<u64>, PollError>>, usize);

    impl Cq for Queue {
        fn object(&self) -> &Arc<Object> {
            panic!("it has no object")
        }

        fn entries(&self) -> u32 {
            8
        }

        fn next(&mut self) -> Result<Option<WorkCompletion>, PollError> {
            if self.0.is_empty() {
                return Ok(None);
            }
            let found = self.0.remove(0)?;
            Ok(found.map(|wr_id| WorkCompletion {
                wr_id,
                ..WorkCompletion::default()
            }))
        }

        fn release(&mut self) {
            self.1 += 1;
        }

        fn arm(&mut self, _: bool) -> Result<()> {
            panic!("it raises no events")
        }
    }

    #[test]
    fn completions_before_an_error_are_delivered() {
        let corrupt = || Err(PollError::Corrupt);
        let mut queue = Queue(vec![Ok(Some(1)), Ok(Some(2)), corrupt(), Ok(Some(3))], 0);
        let mut out = [WorkCompletion::default(); 4];
        assert_eq!(queue.poll_into(&mut out), Ok(2));
        assert_eq!((out[0].wr_id, out[1].wr_id, queue.1), (1, 2, 1));
        assert_eq!(queue.poll_into(&mut out[..0]), Ok(0));
        assert_eq!(queue.poll_into(&mut out[..1]), Ok(1));
        assert_eq!((out[0].wr_id, queue.1), (3, 2));
        assert_eq!(queue.poll_into(&mut out), Ok(0));
        queue.0 = vec![corrupt(), Ok(Some(4))];
        assert_eq!(queue.poll_into(&mut out), Err(PollError::Corrupt));
        assert_eq!(queue.1, 2, "nothing was taken");
    }
}
