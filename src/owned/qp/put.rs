//! How send requests get into the table and the ring.
//!
//! # Safety
//!
//! See the queue pair's module: what a request names is in the table before the request is in the
//! ring, and leaves it as described there.
#![allow(unsafe_code, reason = "posts memory that this queue owns")]

use std::slice;

use uverbs_any::AnyQp;
use uverbs_core::contract::Qp as _;
use uverbs_core::types::{Destination, Operation, Payload, SendFlags, SendRequest};
use uverbs_core::{PostError, Result};

use super::Owner;
use super::tables::{Sending, Sent};
use crate::owned::sges::Sges;
use crate::owned::work::{Memory, Parts, Refused, Work};

impl Owner {
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn post(&mut self, parts: Parts) -> Result<(), Box<Refused>> {
        if let Memory::List(list) = &parts.memory {
            return match Sges::of(list, self.qp.pd()) {
                Ok(sges) => self.post_list(parts, &sges),
                Err(error) => refuse(error, Some(parts)),
            };
        }
        match parts.memory.sge(self.qp.pd()) {
            Ok(sge) => self.post_payload(parts, Payload::Gather(sge.as_slice())),
            Err(error) => refuse(error, Some(parts)),
        }
    }

    /// Kept out of the way of requests with one entry.
    #[inline(never)]
    fn post_list(&mut self, parts: Parts, sges: &Sges) -> Result<(), Box<Refused>> {
        self.post_payload(parts, Payload::Gather(sges.as_slice()))
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn post_inline(
        &mut self,
        parts: Parts,
        bytes: &[&[u8]],
    ) -> Result<(), Box<Refused>> {
        if !matches!(parts.memory, Memory::None) {
            return refuse(PostError::InvalidRequest, Some(parts));
        }
        self.post_payload(parts, Payload::Inline(bytes))
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn post_payload(&mut self, parts: Parts, payload: Payload<'_>) -> Result<(), Box<Refused>> {
        self.settle();
        let sending = &mut self.tables.sending;
        let (again, wr_id) = enter(sending, parts)?;
        let request = again.request(sending, wr_id, payload);
        // SAFETY: the memory of the scatter/gather entries is buffers that the table now owns, or
        // exposed memory that lends no references and that the table keeps registered. It leaves
        // the table only as the module documentation says.
        match unsafe { self.qp.post_send(&[request]) } {
            Ok(()) => Ok(()),
            Err(failed) => again.refused(sending, wr_id, failed.error),
        }
    }
}

/// How a request gets into the ring where that is not by [`Qp::put_send`]: with what only one
/// vendor's requests name. It puts this request and no other, and names no other memory.
pub(crate) trait Put: FnOnce(&mut AnyQp, &SendRequest<'_>) -> Result<(), PostError> {}

impl<F: FnOnce(&mut AnyQp, &SendRequest<'_>) -> Result<(), PostError>> Put for F {}

impl Owner {
    /// Posts one request by `put`.
    pub(super) fn post_by(
        &mut self,
        parts: Parts,
        inline: Option<&[&[u8]]>,
        put: impl Put,
    ) -> Result<(), Box<Refused>> {
        self.settle();
        // A request that an unwind left in the ring must not be submitted with this one.
        self.qp.queue.abort_send();
        let (again, wr_id) = self.put_by(parts, inline, put)?;
        self.qp.queue.submit_send().or_else(|error| {
            if !matches!(error, PostError::Doorbell(_)) {
                self.qp.queue.abort_send();
            }
            again.refused(&mut self.tables.sending, wr_id, error)
        })
    }

    /// Puts a request into the table, and into the ring by `put`.
    pub(super) fn put_by(
        &mut self,
        parts: Parts,
        inline: Option<&[&[u8]]>,
        put: impl Put,
    ) -> Result<(Again, u64), Box<Refused>> {
        let sges;
        let payload = match inline {
            Some(bytes) if matches!(parts.memory, Memory::None) => Payload::Inline(bytes),
            Some(_) => return refuse(PostError::InvalidRequest, Some(parts)),
            None => {
                let memory = match &parts.memory {
                    Memory::List(list) => list.as_slice(),
                    one => slice::from_ref(one),
                };
                sges = match Sges::of(memory, self.qp.pd()) {
                    Ok(sges) => sges,
                    Err(error) => return refuse(error, Some(parts)),
                };
                Payload::Gather(sges.as_slice())
            }
        };
        let sending = &mut self.tables.sending;
        let (again, wr_id) = enter(sending, parts)?;
        let request = again.request(sending, wr_id, payload);
        match put(&mut self.qp.queue, &request) {
            Ok(()) => Ok((again, wr_id)),
            Err(error) => again.refused(sending, wr_id, error),
        }
    }
}

#[cold]
#[inline(never)]
pub(super) fn refuse<T>(error: PostError, parts: Option<Parts>) -> Result<T, Box<Refused>> {
    let work = parts.map(Work::from_parts);
    Err(Box::new(Refused { error, work }))
}

/// Puts a request into the table, before it is put into the ring. Returns what is not in the table,
/// and its id.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(super) fn enter(sending: &mut Sending, parts: Parts) -> Result<(Again, u64), Box<Refused>> {
    let operation = parts.operation;
    if matches!(
        operation,
        Operation::BindWindow(_) | Operation::LocalInvalidate(_)
    ) {
        return refuse(PostError::UnsupportedOperation, Some(parts));
    }
    let (flags, signaled) = (parts.flags, parts.signaled);
    let (address, peer) = match parts.destination {
        Some((address, qp_num, qkey)) => (Some(address), Some((qp_num, qkey))),
        None => (None, None),
    };
    let again = Again {
        operation,
        flags,
        signaled,
        peer,
    };
    match sending.insert(Sent::new(parts.user_data, parts.memory, address), signaled) {
        Ok(wr_id) => Ok((again, wr_id)),
        Err(sent) => refuse(PostError::QueueFull, Some(again.parts(sent))),
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
    fn parts(self, sent: Sent) -> Parts {
        Parts {
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
    pub(super) fn refused<T>(
        self,
        sending: &mut Sending,
        wr_id: u64,
        error: PostError,
    ) -> Result<T, Box<Refused>> {
        // After a doorbell that failed, the kernel may have seen the request: its memory stays.
        if matches!(error, PostError::Doorbell(_)) {
            return refuse(error, None);
        }
        let sent = sending.refused(wr_id);
        refuse(error, sent.map(|sent| self.parts(sent)))
    }
}
