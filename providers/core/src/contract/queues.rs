//! Queues: what they are created with, and what each provider's own must do.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use super::extra;
use super::{Extra, Link, QpBase};
use crate::error::{Error, ErrorKind, Op, PollError, PostError, Result};
use crate::object::Object;
use crate::types::{
    Ece, QpAttr, QpAttrMask, QpCaps, QpCreateFlags, QpInfo, QpType, RecvRequest, SendRequest,
    SigMode, SrqAttr, SrqModify, SrqType, Timestamps, WorkCompletion,
};

/// What a completion queue is created with.
#[derive(Clone, Copy, Debug)]
pub struct CqInit<'a> {
    /// Entries at least.
    pub entries: u32,
    /// The cookie that its events carry.
    pub cookie: u64,
    /// Where its completion events go.
    pub channel: Option<std::os::fd::BorrowedFd<'a>>,
    /// Which of the device's interrupt vectors signals it.
    pub vector: u32,
    /// Counts the completion events that were taken, for devices that want to know.
    pub events: Option<&'a Arc<AtomicU32>>,
    /// What its completions are stamped with.
    pub timestamps: Timestamps,
    /// Told of the completions that were in it when it was destroyed.
    pub unpolled: Option<&'static dyn Unpolled>,
    /// What its vendor adds.
    pub extra: Option<&'a dyn Extra>,
}

impl<'a> CqInit<'a> {
    /// What was added, for a provider whose own is `T`.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for another vendor's.
    pub fn extra<T: Any>(&self) -> Result<Option<&'a T>> {
        extra::own(Op::CreateCompletionQueue, self.extra)
    }

    /// Refuses what was added, for a provider that has nothing of its own.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported).
    pub fn no_extra(&self) -> Result<()> {
        extra::none(Op::CreateCompletionQueue, self.extra)
    }
}

/// Hears of requests whose completions nobody will poll.
pub trait Unpolled: Debug + Send + Sync {
    /// The request that the user numbered `wr_id` completed, and its completion went with its
    /// queue.
    fn completed(&self, wr_id: u64);
}

/// What a shared receive queue is created with.
#[derive(Clone, Copy, Debug)]
pub struct SrqInit {
    /// What kind it is.
    pub kind: SrqType,
    /// Its sizes, and the limit it is armed with (0: not armed).
    pub attr: SrqAttr,
    /// The cookie that its events carry.
    pub cookie: u64,
}

/// What a queue pair is created with.
#[derive(Clone, Copy, Debug)]
pub struct QpInit<'a> {
    /// Its transport.
    pub kind: QpType,
    /// Where send completions go.
    pub send_cq: Link<'a>,
    /// Where receive completions go.
    pub recv_cq: Link<'a>,
    /// Where it receives from, instead of a queue of its own.
    pub srq: Option<Link<'a>>,
    /// Its sizes.
    pub caps: QpCaps,
    /// Which send requests report success.
    pub signal: SigMode,
    /// Other creation flags.
    pub flags: QpCreateFlags,
    /// The cookie that its events carry.
    pub cookie: u64,
    /// What its vendor adds.
    pub extra: Option<&'a dyn Extra>,
}

impl SrqInit {
    /// Whether it can be asked for, whatever the device: its kind has a name.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput).
    pub fn check(&self) -> Result<()> {
        self.kind
            .asked(Op::CreateSharedReceiveQueue, "kind")
            .map(|_| ())
    }
}

impl<'a> QpInit<'a> {
    /// What was added, for a provider whose own is `T`.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for another vendor's.
    pub fn extra<T: Any>(&self) -> Result<Option<&'a T>> {
        extra::own(Op::CreateQueuePair, self.extra).map_err(|error| self.with_kind(error))
    }

    /// Refuses what was added, for a provider that has nothing of its own.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported).
    pub fn no_extra(&self) -> Result<()> {
        extra::none(Op::CreateQueuePair, self.extra).map_err(|error| self.with_kind(error))
    }

    fn with_kind(&self, error: Error) -> Error {
        error.fact("type", self.kind.to_string())
    }

    /// Whether it can be asked for, whatever the device: its kind and its flags have names.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput).
    pub fn check(&self) -> Result<()> {
        let op = Op::CreateQueuePair;
        self.kind.asked(op, "kind")?;
        self.flags.asked(op, "flags").map(|_| ())
    }
}

/// A completion queue.
pub trait Cq: Debug + Send {
    /// The kernel object.
    fn object(&self) -> &Arc<Object>;

    /// It, for queues that are created with it.
    fn link(&self) -> Link<'_> {
        Link::plain(self.object())
    }

    /// How many entries it holds.
    fn entries(&self) -> u32;

    /// Takes the oldest completion, if there is one. Its slot is given back by
    /// [`release`](Self::release).
    ///
    /// # Errors
    /// [`PollError::Corrupt`] for entries the device cannot have meant.
    fn next(&mut self) -> Result<Option<WorkCompletion>, PollError>;

    /// Gives the slots of taken completions back to the device.
    fn release(&mut self);

    /// Takes one completion, and gives its slot back at once.
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

    /// Takes one completion with what it is stamped with, where the queue was created for that.
    /// Stamps of devices without a clock are `None`, and so are those of completions that failed.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    fn poll_stamped(&mut self) -> Result<Option<(WorkCompletion, Option<u64>)>, PollError> {
        Ok(self.poll()?.map(|done| (done, None)))
    }

    /// Fills `out` from the front, and gives the slots back together. Returns how many there were.
    ///
    /// # Errors
    /// As [`next`](Self::next), for the first; what was taken before another is delivered.
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

    /// `ibv_req_notify_cq`: the next completion (or the next solicited one) sends one event.
    ///
    /// # Errors
    /// Those of the command, where it is one.
    fn arm(&mut self, solicited_only: bool) -> Result<()>;

    /// `ibv_resize_cq`: makes room for `entries` at least. Completions in the queue stay.
    ///
    /// # Errors
    /// Limits of the device, those of the command, those of mapping the new queue.
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

    /// The kernel object, to destroy it in its place. Nothing but a drop of the queue comes after
    /// that.
    fn object_mut(&mut self) -> &mut Arc<Object>;

    /// It, for queue pairs that are created with it.
    fn link(&self) -> Link<'_> {
        Link::plain(self.object())
    }

    /// How many requests it holds, and pieces per request.
    fn size(&self) -> SrqAttr;

    /// The device's number for it (`ibv_get_srq_num`).
    fn number(&self) -> u32;

    /// `ibv_modify_srq`: resizes or arms it. Either everything in `change` is done or nothing.
    ///
    /// # Errors
    /// Limits of the device, those of the command, those of mapping the new queue.
    fn modify(&mut self, change: &SrqModify) -> Result<()>;

    /// `ibv_query_srq`.
    ///
    /// # Errors
    /// Those of the command.
    fn query(&self) -> Result<SrqAttr>;

    /// Puts one request into the queue, invisible to the device until [`ring`](Self::ring).
    ///
    /// # Errors
    /// The queue is full, or the request does not fit it; nothing was put then.
    ///
    /// # Safety
    /// From [`ring`](Self::ring) until the request's completion was polled, or the queue's destroy
    /// was confirmed, the memory of every piece stays registered, allocated, and untouched by this
    /// process.
    #[allow(unsafe_code, reason = "names memory that a device will write to")]
    unsafe fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError>;

    /// Hands the device everything that was put.
    ///
    /// # Errors
    /// [`PostError::Forked`], [`PostError::Poisoned`]; the requests were taken back then.
    fn ring(&mut self) -> Result<(), PostError>;

    /// Takes back everything that was put and not rung.
    fn abort(&mut self);

    /// Takes the numbers of requests that are over and have no completion: they were used up by
    /// queue pairs that were destroyed or reset before their completions were polled. Each is told
    /// once. Whoever never asks loses nothing: their places are free; no more of them are kept than
    /// the queue has requests.
    fn take_unreported(&mut self, each: &mut dyn FnMut(u64)) {
        let _ = each;
    }
}

/// A queue pair.
pub trait Qp: Debug + Send {
    /// What it has in common with all others.
    fn base(&self) -> &QpBase;

    /// The kernel object, to destroy it in its place. Nothing but a drop of the queue pair comes
    /// after that.
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

    /// `ibv_query_ece`: what the device offered when it was created, or agreed to since.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the device has no such options.
    fn ece(&self) -> Result<Ece> {
        Err(Error::new(Op::QueryEce, ErrorKind::Unsupported))
    }

    /// Whether [`set_ece`](Self::set_ece) would take these.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) as above; options of another vendor.
    fn check_ece(&self, ece: &Ece) -> Result<()> {
        let _ = ece;
        Err(Error::new(Op::SetEce, ErrorKind::Unsupported))
    }

    /// `ibv_set_ece`: what the next [`modify`](Self::modify) asks the device to agree to.
    ///
    /// # Errors
    /// As [`check_ece`](Self::check_ece).
    fn set_ece(&mut self, ece: &Ece) -> Result<()> {
        self.check_ece(ece)
    }

    /// Puts one send request into the queue, invisible to the device until
    /// [`ring_send`](Self::ring_send).
    ///
    /// # Errors
    /// The queue is full, or the request does not fit it; nothing was put then.
    ///
    /// # Safety
    /// From [`ring_send`](Self::ring_send) until the request's completion was polled (its own, or
    /// that of a later signaled request of this queue), or the queue pair's destroy or reset was
    /// confirmed, the memory of every piece stays registered and allocated; this process does not
    /// write to it, and does not touch it at all if the operation writes to it (reads, atomics).
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    unsafe fn put_send(&mut self, request: &SendRequest<'_>) -> Result<(), PostError>;

    /// Hands the device every send request that was put, with one doorbell.
    ///
    /// # Errors
    /// [`PostError::Doorbell`], [`PostError::Forked`], [`PostError::Poisoned`]; the requests were
    /// taken back then.
    fn ring_send(&mut self) -> Result<(), PostError>;

    /// Takes back every send request that was put and not rung.
    fn abort_send(&mut self);

    /// Puts the requests and rings once: how many were posted, and why the next one was not.
    ///
    /// # Errors
    /// Those of [`put_send`](Self::put_send), those before the refused one are posted; those of
    /// [`ring_send`](Self::ring_send).
    ///
    /// # Safety
    /// As [`put_send`](Self::put_send), for each request.
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn post_send(&mut self, requests: &[SendRequest<'_>]) -> Result<(), (usize, PostError)> {
        // A batch that was forgotten instead of dropped must not be rung with this one.
        self.abort_send();
        for (posted, request) in requests.iter().enumerate() {
            // A copy: of a request that stays where it is, nothing is known to the compiler any
            // more. SAFETY: the caller's promise, for each request.
            if let Err(error) = unsafe { self.put_send(&{ *request }) } {
                self.ring_send().map_err(|error| (0, error))?;
                return Err((posted, error));
            }
        }
        self.ring_send().map_err(|error| (0, error))
    }

    /// Puts one receive request into the queue, as [`Srq::put`].
    ///
    /// # Errors
    /// As [`Srq::put`]; [`PostError::UnsupportedOperation`] for a queue pair that receives from a
    /// shared queue.
    ///
    /// # Safety
    /// As [`Srq::put`].
    #[allow(unsafe_code, reason = "names memory that a device will write to")]
    unsafe fn put_recv(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError>;

    /// Hands the device every receive request that was put.
    ///
    /// # Errors
    /// As [`Srq::ring`].
    fn ring_recv(&mut self) -> Result<(), PostError>;

    /// Takes back every receive request that was put and not rung.
    fn abort_recv(&mut self);

    /// As [`post_send`](Self::post_send), of receive requests.
    ///
    /// # Errors
    /// Those of [`put_recv`](Self::put_recv), those before the refused one are posted; those of
    /// [`ring_recv`](Self::ring_recv).
    ///
    /// # Safety
    /// As [`put_recv`](Self::put_recv), for each request.
    #[allow(unsafe_code, reason = "names memory that a device will write to")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn post_recv(&mut self, requests: &[RecvRequest<'_>]) -> Result<(), (usize, PostError)> {
        self.abort_recv();
        for (posted, request) in requests.iter().enumerate() {
            // SAFETY: the caller's promise, for each request.
            if let Err(error) = unsafe { self.put_recv(&{ *request }) } {
                self.ring_recv().map_err(|error| (0, error))?;
                return Err((posted, error));
            }
        }
        self.ring_recv().map_err(|error| (0, error))
    }
}
