//! Posting memory that the queue owns.
//!
//! # Safety
//!
//! See the queue pair's module: what a request names is in the table before the request is in the
//! ring, and leaves it as described there.
#![allow(unsafe_code, reason = "posts memory that this queue owns")]

use uverbs_core::types::{
    Destination, Operation, Payload, RecvRequest, SendFlags, SendRequest, Sge,
};
use uverbs_core::{PostError, Result};

use super::QueuePair;
use super::tables::{Receive, Sending, Sent};
use crate::owned::Buffer;
use crate::owned::sges::Sges;
use crate::owned::slab::Slab;
use crate::owned::work::{Memory, MemoryRefused, ReceiveRefused, Refused, Work};

impl QueuePair {
    /// Posts a send request. One system call on rxe.
    ///
    /// # Errors
    /// Why it was refused, and the request with its memory.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn post(&mut self, work: Work) -> Result<(), Box<Refused>> {
        if let Memory::List(list) = &work.memory {
            return match Sges::of(list, self.qp.pd()) {
                Ok(sges) => self.post_list(work, &sges),
                Err(error) => refuse(error, Some(work)),
            };
        }
        match work.memory.sge(self.qp.pd()) {
            Ok(sge) => self.post_payload(work, Payload::Gather(sge.as_slice())),
            Err(error) => refuse(error, Some(work)),
        }
    }

    /// Kept out of the way of requests with one entry.
    #[inline(never)]
    fn post_list(&mut self, work: Work, sges: &Sges) -> Result<(), Box<Refused>> {
        self.post_payload(work, Payload::Gather(sges.as_slice()))
    }

    /// Posts a send or write request, with or without an immediate value, whose data is copied into
    /// the queue: `bytes` can be used again at once, and the request has no memory. One system call
    /// on rxe.
    ///
    /// ```no_run
    /// # fn f(qp: &mut uverbs::owned::QueuePair, peer: uverbs::Remote) -> Result<(), Box<dyn std::error::Error>> {
    /// use uverbs::owned::Work;
    ///
    /// qp.post_inline(Work::write_imm(peer, 7).user_data(1), &[b"head", b"body"])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InlineTooLong`](PostError::InlineTooLong) for more than the queue pair was created for;
    /// [`InvalidRequest`](PostError::InvalidRequest) for a request that has memory, too;
    /// else as [`post`](Self::post).
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn post_inline(&mut self, work: Work, bytes: &[&[u8]]) -> Result<(), Box<Refused>> {
        if !matches!(work.memory, Memory::None) {
            return refuse(PostError::InvalidRequest, Some(work));
        }
        self.post_payload(work, Payload::Inline(bytes))
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn post_payload(&mut self, work: Work, payload: Payload<'_>) -> Result<(), Box<Refused>> {
        self.settle();
        let sending = &mut self.tables.sending;
        let (again, wr_id) = enter(sending, work)?;
        let request = again.request(sending, wr_id, payload);
        // SAFETY: the memory of the scatter/gather entries is buffers that the table now owns, or
        // exposed memory that lends no references and that the table keeps registered. It leaves
        // the table only as the module documentation says.
        match unsafe { self.qp.post_send(&[request]) } {
            Ok(()) => Ok(()),
            Err(failed) => again.refused(sending, wr_id, failed.error),
        }
    }

    /// Sends the first `len` bytes of `buffer`.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn send(&mut self, buffer: Buffer, len: usize, user_data: u64) -> Result<(), Box<Refused>> {
        self.post(Work::send().memory((buffer, len)).user_data(user_data))
    }

    /// Sends bytes that are copied into the queue and need no buffer. Its completion is reported
    /// like that of every request, with [`Memory::None`].
    ///
    /// # Errors
    /// [`InlineTooLong`](PostError::InlineTooLong) for more than the queue pair was created for;
    /// else as [`post`](Self::post).
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn send_inline(&mut self, bytes: &[u8], user_data: u64) -> Result<(), PostError> {
        self.post_inline(Work::send().user_data(user_data), &[bytes])
            .map_err(|refused| refused.error)
    }

    /// Posts `buffer` to receive a message into. No system call on rxe.
    ///
    /// # Errors
    /// Why it was refused, and the buffer.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn recv(&mut self, buffer: Buffer, user_data: u64) -> Result<(), ReceiveRefused> {
        let qp = &mut self.qp;
        let sge = buffer.whole_in(qp.pd());
        post_receive(
            &mut self.tables.receiving,
            buffer,
            sge,
            user_data,
            |request| {
                // SAFETY: the memory of the scatter/gather entry is a buffer that the table owns
                // until its completion has been polled, or a destroy or reset has been confirmed.
                unsafe { qp.post_recv(&[*request]) }.map_err(|failed| failed.error)
            },
        )
    }

    /// Posts memory of any kind to receive a message into: a part of a buffer, exposed memory, or a
    /// list that is filled from its start. No system call on rxe.
    ///
    /// # Errors
    /// Why it was refused, and the memory.
    pub fn recv_into(
        &mut self,
        memory: impl Into<Memory>,
        user_data: u64,
    ) -> Result<(), MemoryRefused> {
        let memory = memory.into();
        let sges = match &memory {
            Memory::List(list) => Sges::of(list, self.qp.pd()),
            one => Sges::of(std::slice::from_ref(one), self.qp.pd()),
        };
        let sges = match sges {
            Ok(sges) => sges,
            Err(error) => return Err(MemoryRefused { error, memory }),
        };
        let receive = Receive { user_data, memory };
        let receiving = &mut self.tables.receiving;
        let wr_id = receiving.insert(receive).map_err(|receive| MemoryRefused {
            error: PostError::QueueFull,
            memory: receive.memory,
        })?;
        let scatter = sges.as_slice();
        // SAFETY: the memory is in the table until its completion has been polled, or a destroy or
        // reset has been confirmed; exposed memory lends no references.
        let posted = unsafe { self.qp.post_recv(&[RecvRequest { wr_id, scatter }]) };
        posted.or_else(|failed| match receiving.remove(wr_id) {
            Some(receive) => Err(MemoryRefused {
                error: failed.error,
                memory: receive.memory,
            }),
            None => Ok(()),
        })
    }

    /// Posts a receive request without memory, for a message without data (such as a write with
    /// immediate).
    ///
    /// # Errors
    /// Why it was refused.
    pub fn recv_empty(&mut self, user_data: u64) -> Result<(), PostError> {
        self.recv_into(Memory::None, user_data)
            .map_err(|refused| refused.error)
    }
}

#[cold]
#[inline(never)]
pub(super) fn refuse<T>(error: PostError, work: Option<Work>) -> Result<T, Box<Refused>> {
    Err(Box::new(Refused { error, work }))
}

/// Puts `work` into the table, before it is put into the ring. Returns what is not in the table,
/// and its id.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(super) fn enter(sending: &mut Sending, work: Work) -> Result<(Again, u64), Box<Refused>> {
    let operation = work.operation;
    if matches!(
        operation,
        Operation::BindWindow(_) | Operation::LocalInvalidate(_)
    ) {
        return refuse(PostError::UnsupportedOperation, Some(work));
    }
    let (flags, signaled) = (work.flags, work.signaled);
    let (address, peer) = match work.destination {
        Some((address, qp_num, qkey)) => (Some(address), Some((qp_num, qkey))),
        None => (None, None),
    };
    let again = Again {
        operation,
        flags,
        signaled,
        peer,
    };
    match sending.insert(Sent::new(work.user_data, work.memory, address), signaled) {
        Ok(wr_id) => Ok((again, wr_id)),
        Err(sent) => refuse(PostError::QueueFull, Some(again.work(sent))),
    }
}

/// What is not in the table, to make the request once more.
#[derive(Clone, Copy)]
pub(super) struct Again {
    operation: Operation<'static>,
    flags: SendFlags,
    signaled: bool,
    peer: Option<(u32, u32)>,
}

impl Again {
    /// The request for the ring, with the id that it has in the table.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn request<'a>(
        &self,
        sending: &'a Sending,
        wr_id: u64,
        payload: Payload<'a>,
    ) -> SendRequest<'a> {
        let destination = self
            .peer
            .and_then(|(qp_num, qkey)| -> Option<Destination<'_>> {
                Some(sending.get(wr_id)?.address.as_ref()?.to(qp_num, qkey))
            });
        let signal = if self.signaled {
            SendFlags::SIGNALED
        } else {
            SendFlags::empty()
        };
        SendRequest {
            wr_id,
            flags: self.flags.difference(SendFlags::SIGNALED) | signal,
            operation: self.operation,
            payload,
            destination,
        }
    }

    #[cold]
    #[inline(never)]
    fn work(self, sent: Sent) -> Work {
        Work {
            operation: self.operation,
            flags: self.flags,
            signaled: self.signaled,
            user_data: sent.user_data,
            memory: sent.memory,
            destination: sent
                .address
                .zip(self.peer)
                .map(|(address, (qp_num, qkey))| (address, qp_num, qkey)),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn refused(
        self,
        sending: &mut Sending,
        wr_id: u64,
        error: PostError,
    ) -> Result<(), Box<Refused>> {
        // After a doorbell that failed, the kernel may have seen the request: its memory stays.
        if matches!(error, PostError::Doorbell(_)) {
            return refuse(error, None);
        }
        let sent = sending.refused(wr_id);
        refuse(error, sent.map(|sent| self.work(sent)))
    }
}

/// Puts `buffer` into `table` and posts it as `sge`; returns it if it is refused.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(in crate::owned) fn post_receive(
    table: &mut Slab<Receive>,
    buffer: Buffer,
    sge: Option<Sge>,
    user_data: u64,
    post: impl FnOnce(&RecvRequest<'_>) -> Result<(), PostError>,
) -> Result<(), ReceiveRefused> {
    let Some(sge) = sge else {
        return Err(ReceiveRefused::new(PostError::InvalidRequest, buffer));
    };
    let receive = Receive {
        user_data,
        memory: Memory::from(buffer),
    };
    let wr_id = match table.insert(receive) {
        Ok(id) => id,
        Err(receive) => return receive_refused(PostError::QueueFull, Some(receive)),
    };
    let scatter = [sge];
    let request = RecvRequest {
        wr_id,
        scatter: &scatter,
    };
    match post(&request) {
        Ok(()) => Ok(()),
        Err(error) => receive_refused(error, table.remove(wr_id)),
    }
}

#[cold]
#[inline(never)]
fn receive_refused(error: PostError, receive: Option<Receive>) -> Result<(), ReceiveRefused> {
    match receive.map(|receive| receive.memory) {
        Some(Memory::Buffer(buffer, _)) => Err(ReceiveRefused::new(error, buffer)),
        // Only buffers are put into the table here, and nothing takes them out in between.
        _ => Ok(()),
    }
}
