//! Batches: requests are put into the ring one by one and submitted once.

use std::fmt;
use std::marker::PhantomData;

use crate::typed::vendor::Vendor;
use uverbs_any::{AnyQp, AnySrq};
use uverbs_core::contract::{Qp as _, Srq as _};
use uverbs_core::types::{Operation, Payload, QpType, RESERVED_WR_IDS, RecvRequest, SendRequest};
use uverbs_core::{Op, PostError, Result};

use crate::QueuePair;
use crate::transport::{Receives, Sends, Transport};
use crate::typed::of_another_vendor;

/// Some requests of a list were not posted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PostFailed {
    /// How many were posted: the ones before the refused request.
    pub posted: usize,
    /// Why the next one was refused.
    pub error: PostError,
}

/// Send requests that are submitted together. Dropping the batch takes them back.
#[derive(Debug)]
#[must_use = "nothing is sent before `submit`"]
pub struct SendBatch<'qp, T: Transport = QpType> {
    pub(crate) queue: &'qp mut AnyQp,
    transport: PhantomData<T>,
}

/// Receive requests that are submitted together. Dropping the batch takes them back.
#[derive(Debug)]
#[must_use = "nothing is posted before `submit`"]
pub struct RecvBatch<'q> {
    queue: ReceiveSide<'q>,
}

/// Where a receive request goes.
#[derive(Debug)]
pub(crate) enum ReceiveSide<'q> {
    Own(&'q mut AnyQp),
    Shared(&'q mut AnySrq),
}

impl<T: Transport> QueuePair<T> {
    /// The vendor's queue pair.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported): a device of another vendor.
    #[inline]
    pub(crate) fn of_vendor<V: Vendor>(&mut self, op: Op) -> Result<&mut V::Qp> {
        V::qp(&mut self.queue).ok_or_else(|| of_another_vendor(op, self.pd.context().name()))
    }

    /// Starts a batch of send requests that are submitted with one doorbell.
    ///
    /// ```no_run
    /// # fn f(qp: &mut uverbs::QueuePair, region: &uverbs::MemoryRegion) -> Result<(), uverbs::PostError> {
    /// use uverbs::SendRequest;
    ///
    /// let sges = [region.sge(0, 64).expect("inside the region")];
    /// let mut batch = qp.send_batch();
    /// for wr_id in 0..8 {
    ///     // SAFETY: the region outlives the completions, and nothing writes to it until then.
    ///     unsafe { batch.push(&SendRequest::send(&sges).wr_id(wr_id).signaled()) }?;
    /// }
    /// batch.submit()
    /// # }
    /// ```
    #[doc(alias = "ibv_wr_start")]
    #[inline]
    pub fn send_batch(&mut self) -> SendBatch<'_, T>
    where
        T: Sends,
    {
        // A batch that was forgotten instead of dropped must not be submitted with this one.
        self.queue.abort_send();
        SendBatch {
            queue: &mut self.queue,
            transport: PhantomData,
        }
    }

    /// `ibv_post_send`—posts send requests, all of them with one doorbell. One system call on rxe.
    ///
    /// # Errors
    /// The first request that was refused, and why; those before it are posted.
    ///
    /// # Safety
    /// As [`SendBatch::push`], for each request.
    #[doc(alias = "ibv_post_send")]
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub unsafe fn post_send(&mut self, requests: &[SendRequest<'_>]) -> Result<(), PostFailed>
    where
        T: Sends,
    {
        // SAFETY: the caller's promise, for each request.
        unsafe { self.queue.post_send(requests) }
            .map_err(|(posted, error)| PostFailed { posted, error })
    }

    /// Starts a batch of receive requests that are submitted together.
    #[inline]
    pub fn recv_batch(&mut self) -> RecvBatch<'_>
    where
        T: Receives,
    {
        RecvBatch::new(ReceiveSide::Own(&mut self.queue))
    }

    /// `ibv_post_recv`—posts receive requests, all of them submitted at once. No system call on
    /// rxe.
    ///
    /// # Errors
    /// The first request that was refused, and why; those before it are posted.
    /// [`UnsupportedOperation`](PostError::UnsupportedOperation) for a queue pair with a shared
    /// receive queue.
    ///
    /// # Safety
    /// As [`RecvBatch::push`], for each request.
    #[doc(alias = "ibv_post_recv")]
    #[expect(unsafe_code, reason = "names memory that a device will write to")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub unsafe fn post_recv(&mut self, requests: &[RecvRequest<'_>]) -> Result<(), PostFailed>
    where
        T: Receives,
    {
        // SAFETY: the caller's promise, for each request.
        unsafe { self.queue.post_recv(requests) }
            .map_err(|(posted, error)| PostFailed { posted, error })
    }
}

impl<T: Transport> SendBatch<'_, T> {
    /// Puts a request into the ring, where the device does not see it yet.
    ///
    /// # Errors
    /// Why it was refused. The batch goes on without it.
    ///
    /// # Safety
    /// From [`submit`](Self::submit) until the completion of the request has been polled (its own,
    /// or that of a later signaled request of this queue), or until the queue pair has been
    /// destroyed or reset with `Ok`:
    /// 1. the memory of every scatter/gather entry of a [`Payload::Gather`] stays allocated and
    ///    registered with its key in the queue pair's protection domain;
    /// 2. this process does not write to it; and if the operation writes to it (read, compare and
    ///    swap, fetch and add), does not read it either;
    /// 3. a bound or invalidated key stops or starts no access that other promises rely on.
    ///
    /// And, permanently:
    ///
    /// 4. its `wr_id` is below [`RESERVED_WR_IDS`]: a completion with a greater one may return the
    ///    memory of an [`owned`](crate::owned) queue, wherever it was polled.
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub unsafe fn push(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        // SAFETY: the caller promises what the provider requires.
        unsafe { self.queue.put_send(request) }
    }

    /// Puts a request that uses no registered memory into the ring: an inline send or write, an
    /// atomic write, a flush. Safe, because the bytes are copied immediately.
    ///
    /// # Errors
    /// [`PostError::InvalidRequest`] for a request with scatter/gather entries or with keys;
    /// [`PostError::ReservedId`] for a `wr_id` of [`RESERVED_WR_IDS`] or above; else as
    /// [`push`](Self::push).
    #[inline]
    pub fn push_inline(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        if request.wr_id >= RESERVED_WR_IDS {
            return Err(PostError::ReservedId);
        }
        self.push_without_memory(request)
    }

    /// The same, for any `wr_id`.
    #[expect(unsafe_code, reason = "posts what needs no promise")]
    #[inline]
    pub(crate) fn push_without_memory(
        &mut self,
        request: &SendRequest<'_>,
    ) -> Result<(), PostError> {
        if !names_no_memory(request) {
            return Err(PostError::InvalidRequest);
        }
        // SAFETY: the request names no memory of this process and changes no key.
        unsafe { self.queue.put_send(request) }
    }

    /// Hands the batch to the device with one doorbell. One system call on rxe, none for an empty
    /// batch.
    ///
    /// # Errors
    /// [`PostError::Forked`] in a child process, with the ring unchanged; [`PostError::Doorbell`]
    /// when the kernel refused. It is then unknown whether the batch is carried out, and the
    /// promises about its memory hold until the queue pair is destroyed or reset.
    #[doc(alias = "ibv_wr_complete")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn submit(self) -> Result<(), PostError> {
        // What was submitted is no longer there for the drop to take back.
        self.queue.submit_send()
    }
}

/// Whether a request names no memory of this process, and changes no key.
#[inline]
pub(crate) fn names_no_memory(request: &SendRequest<'_>) -> bool {
    let has_sges = matches!(request.payload, Payload::Gather(sges) if !sges.is_empty());
    let changes_keys = matches!(
        request.operation,
        Operation::BindWindow(_) | Operation::LocalInvalidate(_)
    );
    !has_sges && !changes_keys
}

impl<T: Transport> Drop for SendBatch<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.queue.abort_send();
    }
}

impl<'q> RecvBatch<'q> {
    #[inline]
    pub(crate) fn new(mut queue: ReceiveSide<'q>) -> Self {
        // A batch that was forgotten instead of dropped must not be submitted with this one.
        queue.abort();
        Self { queue }
    }

    /// Puts a request into the ring, where the device does not see it yet.
    ///
    /// # Errors
    /// Why it was refused. The batch goes on without it.
    ///
    /// # Safety
    /// From [`submit`](Self::submit) until the completion of the request has been polled, or until
    /// the queue (pair) has been destroyed or reset with `Ok`:
    /// 1. the memory of every scatter/gather entry stays allocated and registered with its key in
    ///    the queue's protection domain, for local writing;
    /// 2. this process neither reads nor writes it.
    ///
    /// And, permanently:
    ///
    /// 3. its `wr_id` is below [`RESERVED_WR_IDS`], like that of a [send request](SendBatch::push).
    #[expect(unsafe_code, reason = "names memory that a device will write to")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub unsafe fn push(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        match &mut self.queue {
            // SAFETY: the caller promises what the provider requires.
            ReceiveSide::Own(qp) => unsafe { qp.put_recv(request) },
            // SAFETY: as above.
            ReceiveSide::Shared(srq) => unsafe { srq.put(&{ *request }) },
        }
    }

    /// Hands the batch to the device. No system call on rxe.
    ///
    /// # Errors
    /// [`PostError::Forked`] in a child process, with the ring unchanged. Nothing of the batch is
    /// then posted.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn submit(mut self) -> Result<(), PostError> {
        match &mut self.queue {
            ReceiveSide::Own(qp) => qp.submit_recv(),
            ReceiveSide::Shared(srq) => srq.submit(),
        }
    }
}

impl Drop for RecvBatch<'_> {
    #[inline]
    fn drop(&mut self) {
        self.queue.abort();
    }
}

impl ReceiveSide<'_> {
    #[inline]
    fn abort(&mut self) {
        match self {
            Self::Own(qp) => qp.abort_recv(),
            Self::Shared(srq) => srq.abort(),
        }
    }
}

/// Posts a list.
///
/// # Safety
/// As [`RecvBatch::push`], for each request.
#[expect(unsafe_code, reason = "names memory that a device will write to")]
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(crate) unsafe fn post_recv_batch(
    mut batch: RecvBatch<'_>,
    requests: &[RecvRequest<'_>],
) -> Result<(), PostFailed> {
    for (posted, request) in requests.iter().enumerate() {
        // SAFETY: the caller's promise, for each request.
        if let Err(error) = unsafe { batch.push(request) } {
            batch
                .submit()
                .map_err(|error| PostFailed { posted: 0, error })?;
            return Err(PostFailed { posted, error });
        }
    }
    batch
        .submit()
        .map_err(|error| PostFailed { posted: 0, error })
}

impl fmt::Display for PostFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} was not posted: {}", self.posted, self.error)
    }
}

impl std::error::Error for PostFailed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
