//! How send requests get into the table and the ring.
//!
//! # Safety
//!
//! See the queue pair's module: what a request names is in the table before the request is in the
//! ring, and leaves it as described there.
#![allow(unsafe_code, reason = "posts memory that this queue owns")]

use std::slice;

use uverbs_any::AnyQp;
use uverbs_core::contract::{Qp as _, UsualSend as _};
use uverbs_core::types::{Destination, Operation, Payload, SendFlags, SendRequest};
use uverbs_core::{PostError, Result};

use super::Owner;
use super::tables::Sending;
use crate::AddressHandle;
use crate::owned::Buffer;
use crate::owned::sges::Sges;
use crate::owned::work::{Memory, Parts, Refused, Work, leave};

/// How a request gets into the ring. It puts this request and no other, and names no other memory.
pub(crate) trait Put {
    fn put(self, qp: &mut AnyQp, request: &SendRequest<'_>) -> Result<(), PostError>;
}

/// What only one vendor's requests name.
impl<F: FnOnce(&mut AnyQp, &SendRequest<'_>) -> Result<(), PostError>> Put for F {
    #[inline]
    fn put(self, qp: &mut AnyQp, request: &SendRequest<'_>) -> Result<(), PostError> {
        self(qp, request)
    }
}

/// By itself, with a doorbell.
struct Alone;

impl Put for Alone {
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn put(self, qp: &mut AnyQp, request: &SendRequest<'_>) -> Result<(), PostError> {
        // SAFETY: the memory of the scatter/gather entries is buffers that the table now owns, or
        // exposed memory that lends no references and that the table keeps registered. It leaves
        // the table only as the module documentation says.
        unsafe { qp.post_send(&[*request]) }.map_err(|(_, error)| error)
    }
}

/// The same in fewer steps, where that suffices.
struct UsualOrAlone;

impl Put for UsualOrAlone {
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn put(self, qp: &mut AnyQp, request: &SendRequest<'_>) -> Result<(), PostError> {
        if qp.has_usual_sends()
            && let Some(usual) = qp.usual_send()
            // SAFETY: the memory of the scatter/gather entry is a buffer that the table now owns.
            // It leaves the table only as the module documentation says.
            && unsafe { usual.post(*request) }
        {
            return Ok(());
        }
        Alone.put(qp, request)
    }
}

/// Behind others, without a doorbell.
pub(super) struct Behind;

impl Put for Behind {
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn put(self, qp: &mut AnyQp, request: &SendRequest<'_>) -> Result<(), PostError> {
        // SAFETY: as above: the table owns the memory, from before the request is submitted.
        unsafe { qp.put_send(request) }
    }
}

/// What a message carries that is posted without being made as a [`Work`] first.
#[derive(Debug)]
pub(crate) enum Carried<'b> {
    Nothing,
    /// Bytes that are copied into the queue.
    Bytes(&'b [u8]),
    /// The first bytes of a buffer.
    Buffer(Buffer, usize),
}

impl Carried<'_> {
    /// Its buffer.
    pub(crate) fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Buffer(buffer, _) => Some(buffer),
            Self::Nothing | Self::Bytes(_) => None,
        }
    }
}

/// The bytes of an inline request.
type Inline<'a> = Option<&'a [&'a [u8]]>;

impl Owner {
    /// Posts a message with an immediate value: a request of one kind, which so takes fewer steps
    /// than any other. Returns its buffer if it is refused, except after a doorbell that failed:
    /// then the kernel may have seen it.
    #[inline]
    pub(super) fn post_message(
        &mut self,
        imm: u32,
        carried: Carried<'_>,
        user_data: u64,
        signaled: bool,
    ) -> Result<(), (PostError, Option<Buffer>)> {
        self.settle();
        self.put_message(imm, carried, (user_data, signaled), UsualOrAlone)?;
        Ok(())
    }

    /// Puts a message into the table, and into the ring by `put`; otherwise as
    /// [`post_message`](Self::post_message). Returns its id.
    #[inline]
    pub(super) fn put_message(
        &mut self,
        imm: u32,
        carried: Carried<'_>,
        (user_data, signaled): (u64, bool),
        put: impl Put,
    ) -> Result<u64, (PostError, Option<Buffer>)> {
        let (sge, bytes);
        let (payload, memory) = match carried {
            Carried::Nothing => (Payload::Gather(&[]), Memory::None),
            Carried::Bytes(all) => {
                bytes = all;
                (Payload::Inline(slice::from_ref(&bytes)), Memory::None)
            }
            Carried::Buffer(buffer, len) => {
                if !buffer.can_move(self.domain, len) {
                    return Err((PostError::InvalidRequest, Some(buffer)));
                }
                sge = buffer.sge_of(len);
                let payload = Payload::Gather(slice::from_ref(&sge));
                (payload, Memory::Buffer(buffer, len))
            }
        };
        let wr_id = match self.tables.sending.insert(user_data, memory, signaled) {
            Ok(wr_id) => wr_id,
            Err(memory) => return Err((PostError::QueueFull, memory.into_buffer())),
        };
        let flags = if signaled {
            SendFlags::SIGNALED
        } else {
            SendFlags::empty()
        };
        let request = SendRequest {
            wr_id,
            flags,
            operation: Operation::SendImm(imm),
            payload,
            destination: None,
        };
        match put.put(&mut self.qp.queue, &request) {
            Ok(()) => Ok(wr_id),
            Err(error) => Err(self.message_refused(wr_id, error)),
        }
    }

    #[cold]
    #[inline(never)]
    fn message_refused(&mut self, wr_id: u64, error: PostError) -> (PostError, Option<Buffer>) {
        if matches!(error, PostError::Doorbell(_)) {
            return (error, None);
        }
        let refused = self.tables.sending.refused(wr_id);
        (
            error,
            refused.and_then(|(sent, _)| sent.memory.into_buffer()),
        )
    }

    /// Posts one request.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn post(&mut self, parts: Parts, inline: Inline<'_>) -> Result<(), Box<Refused>> {
        let (operation, flags, signaled) = (parts.operation, parts.flags, parts.signaled);
        // Made where it is needed: there are cold functions that need it in memory.
        let again = || Again {
            operation,
            flags,
            signaled,
            peer: None,
        };
        let Self {
            qp, tables, domain, ..
        } = self;
        let other = 'usual: {
            let sge;
            let payload = match (&parts.memory, inline) {
                (Memory::Buffer(buffer, len), None) => {
                    if !buffer.can_move(*domain, *len) {
                        break 'usual parts.apart();
                    }
                    sge = buffer.sge_of(*len);
                    Payload::Gather(slice::from_ref(&sge))
                }
                (Memory::None, Some(bytes)) => Payload::Inline(bytes),
                _ => break 'usual parts.apart(),
            };
            if parts.destination.is_some() || again().changes_keys() {
                break 'usual parts.apart();
            }
            let Some(usual) = qp.queue.usual_send() else {
                break 'usual parts.apart();
            };
            let Parts {
                memory,
                user_data,
                destination,
                ..
            } = parts;
            leave(destination);
            let wr_id = match tables.sending.insert(user_data, memory, signaled) {
                Ok(wr_id) => wr_id,
                Err(memory) => break 'usual again().parts(user_data, memory, None),
            };
            let request = again().request(wr_id, payload, None);
            // SAFETY: the memory of the scatter/gather entry is a buffer that the table now owns.
            // It leaves the table only as the module documentation says.
            if unsafe { usual.post(request) } {
                return Ok(());
            }
            return self.post_instead(again(), wr_id, inline);
        };
        self.post_any(other, inline)
    }

    /// Posts a request that is in the table, and has no short way.
    #[cold]
    #[inline(never)]
    fn post_instead(
        &mut self,
        again: Again,
        wr_id: u64,
        inline: Inline<'_>,
    ) -> Result<(), Box<Refused>> {
        let Some((sent, address)) = self.tables.sending.refused(wr_id) else {
            return refuse(PostError::InvalidRequest, None);
        };
        self.post_any(again.parts(sent.user_data, sent.memory, address), inline)
    }

    /// Posts any request.
    #[inline(never)]
    fn post_any(&mut self, parts: Parts, inline: Inline<'_>) -> Result<(), Box<Refused>> {
        self.settle();
        self.put_any(Again::of(&parts), parts, inline, Alone)?;
        Ok(())
    }

    /// Posts one request by `put`, which puts it into the ring only.
    pub(super) fn post_by(
        &mut self,
        parts: Parts,
        inline: Inline<'_>,
        put: impl Put,
    ) -> Result<(), Box<Refused>> {
        self.settle();
        // A request that an unwind left in the ring must not be submitted with this one.
        self.qp.queue.abort_send();
        let again = Again {
            peer: parts
                .destination
                .as_ref()
                .map(|(_, qp_num, qkey)| (*qp_num, *qkey)),
            ..Again::of(&parts)
        };
        let wr_id = self.put_by(parts, inline, put)?;
        self.qp.queue.submit_send().or_else(|error| {
            if !matches!(error, PostError::Doorbell(_)) {
                self.qp.queue.abort_send();
            }
            again.refused(&mut self.tables.sending, wr_id, error)
        })
    }

    /// Puts a request into the table, and into the ring by `put`. Returns its id.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn put_by(
        &mut self,
        parts: Parts,
        inline: Inline<'_>,
        put: impl Put,
    ) -> Result<u64, Box<Refused>> {
        let again = Again::of(&parts);
        let ordinary = match &parts.memory {
            Memory::Buffer(..) => inline.is_none(),
            Memory::None => true,
            _ => false,
        };
        if !ordinary || parts.destination.is_some() || again.changes_keys() {
            return self.put_any(again, parts.apart(), inline, put);
        }
        let Parts {
            memory,
            user_data,
            destination,
            ..
        } = parts;
        leave(destination);
        let (sending, signaled) = (&mut self.tables.sending, again.signaled);
        let sge;
        let payload = match (&memory, inline) {
            (Memory::Buffer(buffer, len), _) => {
                if !buffer.can_move(self.domain, *len) {
                    return again.refuse(PostError::InvalidRequest, user_data, memory);
                }
                sge = buffer.sge_of(*len);
                Payload::Gather(slice::from_ref(&sge))
            }
            (_, Some(bytes)) => Payload::Inline(bytes),
            (_, None) => Payload::Gather(&[]),
        };
        let wr_id = match sending.insert(user_data, memory, signaled) {
            Ok(wr_id) => wr_id,
            Err(memory) => return again.refuse(PostError::QueueFull, user_data, memory),
        };
        match put.put(&mut self.qp.queue, &again.request(wr_id, payload, None)) {
            Ok(()) => Ok(wr_id),
            Err(error) => again.refused(sending, wr_id, error),
        }
    }

    /// The same for any request: a separate function, so that ordinary ones need not pass it.
    #[inline(never)]
    fn put_any(
        &mut self,
        again: Again,
        parts: Parts,
        inline: Inline<'_>,
        put: impl Put,
    ) -> Result<u64, Box<Refused>> {
        if again.changes_keys() {
            return refuse(PostError::UnsupportedOperation, Some(parts));
        }
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
        let (address, peer) = match parts.destination {
            Some((address, qp_num, qkey)) => (Some(address), Some((qp_num, qkey))),
            None => (None, None),
        };
        let again = Again { peer, ..again };
        let sending = &mut self.tables.sending;
        let wr_id = match sending.insert(parts.user_data, parts.memory, again.signaled) {
            Ok(wr_id) => wr_id,
            Err(memory) => {
                let parts = again.parts(parts.user_data, memory, address);
                return refuse(PostError::QueueFull, Some(parts));
            }
        };
        if let Some(address) = address {
            sending.keep(wr_id, address);
        }
        let destination = peer.and_then(|(qp_num, qkey)| {
            let address = sending.address(wr_id)?;
            Some(address.to(qp_num, qkey))
        });
        let request = again.request(wr_id, payload, destination);
        match put.put(&mut self.qp.queue, &request) {
            Ok(()) => Ok(wr_id),
            Err(error) => again.refused(sending, wr_id, error),
        }
    }
}

#[cold]
#[inline(never)]
fn refuse<T>(error: PostError, parts: Option<Parts>) -> Result<T, Box<Refused>> {
    let work = parts.map(Work::from_parts);
    Err(Box::new(Refused { error, work }))
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
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn of(parts: &Parts) -> Self {
        Self {
            operation: parts.operation,
            flags: parts.flags,
            signaled: parts.signaled,
            peer: None,
        }
    }

    /// Whether it changes who may access memory.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn changes_keys(&self) -> bool {
        matches!(
            self.operation,
            Operation::BindWindow(_) | Operation::LocalInvalidate(_)
        )
    }

    /// The request for the ring, with the id that it has in the table.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn request<'a>(
        &self,
        wr_id: u64,
        payload: Payload<'a>,
        destination: Option<Destination<'a>>,
    ) -> SendRequest<'a> {
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

    fn parts(self, user_data: u64, memory: Memory, address: Option<AddressHandle>) -> Parts {
        Parts {
            operation: self.operation,
            flags: self.flags,
            signaled: self.signaled,
            user_data,
            memory,
            destination: address
                .zip(self.peer)
                .map(|(address, (qp_num, qkey))| (address, qp_num, qkey)),
        }
    }

    /// Gives back a request without a destination that did not get into the table.
    #[cold]
    #[inline(never)]
    fn refuse<T>(
        self,
        error: PostError,
        user_data: u64,
        memory: Memory,
    ) -> Result<T, Box<Refused>> {
        refuse(error, Some(self.parts(user_data, memory, None)))
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
        let parts = sending
            .refused(wr_id)
            .map(|(sent, address)| self.parts(sent.user_data, sent.memory, address));
        refuse(error, parts)
    }
}
