//! The data path of one vendor's queues, for programs that know the vendor: what the handles of any
//! vendor check per request is checked here once.

use std::fmt::Debug;

use super::{Cq, Qp};
use crate::error::{PollError, PostError, Result};
use crate::types::{
    Posting, RecvRequest, SendRequest, Template, WcFlags, WcOpcode, WcStatus, WorkCompletion,
};

/// A vendor, as a type.
pub trait Vendor: Copy + Debug + Send + Sync + 'static {
    /// Its queue pairs.
    type Qp: TypedQp;
    /// Its completion queues.
    type Cq: TypedCq;
}

/// A queue pair with typed ends.
pub trait TypedQp: Qp {
    /// A template in the form that the device reads.
    type Prepared: Copy + Debug + Send + Sync;
    /// Its sending end.
    type Sender<'q>: Sender<Prepared = Self::Prepared>
    where
        Self: 'q;
    /// Its receiving end.
    type Receiver<'q>: Receiver
    where
        Self: 'q;

    /// Its sending end. No system call.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported): the queue pair sends nothing, or only what
    /// typed ends do not know.
    fn sender(&mut self) -> Result<Self::Sender<'_>>;

    /// Its receiving end. No system call.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported): the queue pair has no receive queue of its
    /// own.
    fn receiver(&mut self) -> Result<Self::Receiver<'_>>;
}

/// The sending end of a queue pair. Requests have no effect before a batch is submitted; a batch
/// that is dropped or forgotten leaves none.
pub trait Sender: Debug {
    /// Requests that are submitted together.
    type Batch<'s>: SendBatch<Prepared = Self::Prepared>
    where
        Self: 's;
    /// See [`TypedQp::Prepared`].
    type Prepared;

    /// Begins a batch.
    fn batch(&mut self) -> Self::Batch<'_>;

    /// Prepares a template. It may be used with any queue of the vendor.
    fn prepare(&self, template: &Template) -> Self::Prepared;

    /// A batch of one request.
    ///
    /// # Errors
    /// Those of [`SendBatch::push`] and [`SendBatch::submit`].
    ///
    /// # Safety
    /// As [`SendBatch::push`].
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    unsafe fn post(&mut self, request: &SendRequest<'_>) -> Result<(), PostError>;

    /// A batch of one posting.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    ///
    /// # Safety
    /// As [`SendBatch::push`], for the request that the template and the posting describe.
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    unsafe fn post_prepared(
        &mut self,
        prepared: &Self::Prepared,
        posting: &Posting,
    ) -> Result<(), PostError>;
}

/// Send requests that are submitted together.
pub trait SendBatch: Debug {
    /// See [`TypedQp::Prepared`].
    type Prepared;

    /// Puts a request into the ring, where the device does not see it yet.
    ///
    /// # Errors
    /// As [`Qp::put_send`]; the batch goes on without the request.
    ///
    /// # Safety
    /// As [`Qp::put_send`], from [`submit`](Self::submit) on.
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    unsafe fn push(&mut self, request: &SendRequest<'_>) -> Result<(), PostError>;

    /// The same for a posting of a template.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    ///
    /// # Safety
    /// As [`push`](Self::push), for the request that the template and the posting describe.
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    unsafe fn push_prepared(
        &mut self,
        prepared: &Self::Prepared,
        posting: &Posting,
    ) -> Result<(), PostError>;

    /// Submits the batch.
    ///
    /// # Errors
    /// As [`Qp::submit_send`].
    fn submit(self) -> Result<(), PostError>;
}

/// The receiving end of a queue pair.
pub trait Receiver: Debug {
    /// Requests that are submitted together.
    type Batch<'s>: RecvBatch
    where
        Self: 's;

    /// Begins a batch.
    fn batch(&mut self) -> Self::Batch<'_>;

    /// A batch of one request.
    ///
    /// # Errors
    /// Those of [`RecvBatch::push`] and [`RecvBatch::submit`].
    ///
    /// # Safety
    /// As [`RecvBatch::push`].
    #[allow(unsafe_code, reason = "names memory that a device will write to")]
    unsafe fn post(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError>;
}

/// Receive requests that are submitted together.
pub trait RecvBatch: Debug {
    /// Puts a request into the ring, where the device does not see it yet.
    ///
    /// # Errors
    /// As [`Qp::put_recv`]; the batch goes on without the request.
    ///
    /// # Safety
    /// As [`Qp::put_recv`], from [`submit`](Self::submit) on.
    #[allow(unsafe_code, reason = "names memory that a device will write to")]
    unsafe fn push(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError>;

    /// Submits the batch.
    ///
    /// # Errors
    /// As [`Qp::submit_recv`].
    fn submit(self) -> Result<(), PostError>;
}

/// A completion queue with a typed poller.
pub trait TypedCq: Cq {
    /// A completion as it was found, whose fields are decoded when they are asked for.
    type Entry: Entry;

    /// Takes one completion, and returns its slot at once.
    ///
    /// # Errors
    /// As [`Cq::next`].
    fn poll_entry(&mut self) -> Result<Option<Self::Entry>, PollError>;

    /// The same, with all fields, to `out`; returns whether there was one.
    ///
    /// # Errors
    /// As [`Cq::next`].
    fn poll_whole(&mut self, out: &mut WorkCompletion) -> Result<bool, PollError>;

    /// Fills `out` from the front, and returns all slots to the device together. Returns the number
    /// of completions.
    ///
    /// # Errors
    /// As [`Cq::poll_into`].
    fn poll_entries(&mut self, out: &mut [Self::Entry]) -> Result<usize, PollError>;
}

/// A completion as it was found.
pub trait Entry: Copy + Debug + Default + Send + Sync {
    /// The number of the request.
    fn wr_id(&self) -> u64;
    /// How it ended.
    fn status(&self) -> WcStatus;
    /// What it completed.
    fn opcode(&self) -> WcOpcode;
    /// Bytes that were received, or read.
    fn byte_len(&self) -> u32;
    /// The immediate value, if there is one.
    fn imm(&self) -> Option<u32>;
    /// The number of the queue pair.
    fn qp_num(&self) -> u32;
    /// Flags.
    fn flags(&self) -> WcFlags;
    /// All fields.
    fn whole(&self) -> WorkCompletion;
}

impl Entry for WorkCompletion {
    #[inline]
    fn wr_id(&self) -> u64 {
        self.wr_id
    }

    #[inline]
    fn status(&self) -> WcStatus {
        self.status
    }

    #[inline]
    fn opcode(&self) -> WcOpcode {
        self.opcode
    }

    #[inline]
    fn byte_len(&self) -> u32 {
        self.byte_len
    }

    #[inline]
    fn imm(&self) -> Option<u32> {
        self.imm
    }

    #[inline]
    fn qp_num(&self) -> u32 {
        self.qp_num
    }

    #[inline]
    fn flags(&self) -> WcFlags {
        self.flags
    }

    #[inline]
    fn whole(&self) -> WorkCompletion {
        *self
    }
}

/// The sending end of a queue pair whose requests cost so much anyway, such as a system call, that
/// its ordinary operations serve as well.
#[derive(Debug)]
pub struct PlainSender<'q, Q>(pub &'q mut Q);

/// The receiving end of such a queue pair.
#[derive(Debug)]
pub struct PlainReceiver<'q, Q>(pub &'q mut Q);

/// A batch of one.
#[derive(Debug)]
pub struct PlainSends<'q, Q: Qp>(&'q mut Q);

/// A batch of one.
#[derive(Debug)]
pub struct PlainReceives<'q, Q: Qp>(&'q mut Q);

impl<Q: Qp> Sender for PlainSender<'_, Q> {
    type Batch<'s>
        = PlainSends<'s, Q>
    where
        Self: 's;
    type Prepared = Template;

    #[inline]
    fn batch(&mut self) -> PlainSends<'_, Q> {
        // A batch that was forgotten instead of dropped must not be submitted with this one.
        self.0.abort_send();
        PlainSends(self.0)
    }

    #[inline]
    fn prepare(&self, template: &Template) -> Template {
        *template
    }

    #[allow(unsafe_code, reason = "passes its obligations on")]
    #[inline]
    unsafe fn post(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        // SAFETY: the caller's promise.
        unsafe { self.0.post_send(&[*request]) }.map_err(|(_, error)| error)
    }

    #[allow(unsafe_code, reason = "passes its obligations on")]
    #[inline]
    unsafe fn post_prepared(
        &mut self,
        prepared: &Template,
        posting: &Posting,
    ) -> Result<(), PostError> {
        prepared.with(posting, |request| {
            // SAFETY: the caller's promise.
            unsafe { self.post(request) }
        })
    }
}

impl<Q: Qp> SendBatch for PlainSends<'_, Q> {
    type Prepared = Template;

    #[allow(unsafe_code, reason = "passes its obligations on")]
    #[inline]
    unsafe fn push(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        // SAFETY: the caller's promise.
        unsafe { self.0.put_send(request) }
    }

    #[allow(unsafe_code, reason = "passes its obligations on")]
    #[inline]
    unsafe fn push_prepared(
        &mut self,
        prepared: &Template,
        posting: &Posting,
    ) -> Result<(), PostError> {
        prepared.with(posting, |request| {
            // SAFETY: the caller's promise.
            unsafe { self.push(request) }
        })
    }

    #[inline]
    fn submit(self) -> Result<(), PostError> {
        self.0.submit_send()
    }
}

impl<Q: Qp> Drop for PlainSends<'_, Q> {
    fn drop(&mut self) {
        self.0.abort_send();
    }
}

impl<Q: Qp> Receiver for PlainReceiver<'_, Q> {
    type Batch<'s>
        = PlainReceives<'s, Q>
    where
        Self: 's;

    #[inline]
    fn batch(&mut self) -> PlainReceives<'_, Q> {
        self.0.abort_recv();
        PlainReceives(self.0)
    }

    #[allow(unsafe_code, reason = "passes its obligations on")]
    #[inline]
    unsafe fn post(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        // SAFETY: the caller's promise.
        unsafe { self.0.post_recv(&[*request]) }.map_err(|(_, error)| error)
    }
}

impl<Q: Qp> RecvBatch for PlainReceives<'_, Q> {
    #[allow(unsafe_code, reason = "passes its obligations on")]
    #[inline]
    unsafe fn push(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        // SAFETY: the caller's promise.
        unsafe { self.0.put_recv(request) }
    }

    #[inline]
    fn submit(self) -> Result<(), PostError> {
        self.0.submit_recv()
    }
}

impl<Q: Qp> Drop for PlainReceives<'_, Q> {
    fn drop(&mut self) {
        self.0.abort_recv();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_completion_returns_its_own_fields_as_a_typed_one() {
        let completion = WorkCompletion {
            wr_id: 7,
            status: WcStatus::from_raw(4),
            opcode: WcOpcode::Recv,
            byte_len: 8,
            imm: Some(9),
            qp_num: 10,
            flags: WcFlags::WITH_IMM,
            ..WorkCompletion::default()
        };
        assert_eq!(through_the_trait(&completion), completion);
        assert_eq!(completion.whole(), completion);
    }

    fn through_the_trait<E: Entry>(entry: &E) -> WorkCompletion {
        WorkCompletion {
            wr_id: entry.wr_id(),
            status: entry.status(),
            opcode: entry.opcode(),
            byte_len: entry.byte_len(),
            imm: entry.imm(),
            qp_num: entry.qp_num(),
            flags: entry.flags(),
            ..WorkCompletion::default()
        }
    }
}
