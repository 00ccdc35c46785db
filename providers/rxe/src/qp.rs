//! Queue pairs.

use std::convert::Infallible;
use std::sync::Arc;

use uverbs_core::contract::{self, ContextBase, QpBase, QpInit};
#[cfg(feature = "rings")]
use uverbs_core::rings::QueueKind;
use uverbs_core::sys::{Uhw, cells};
use uverbs_core::types::{
    DeviceAttr, QpAttr, QpAttrMask, QpCaps, QpCreateFlags, QpInfo, QpState, QpType, RecvRequest,
    SendRequest,
};
use uverbs_core::{Error, ErrorKind, Object, Op, PostError, Result, cmd};
use uverbs_uapi::rdma_user_rxe::rxe_create_qp_resp;

use crate::limits;
use crate::queue;
use crate::rq::ReceiveRing;
use crate::sq::SendRing;

/// An rxe queue pair.
#[derive(Debug)]
pub struct QueuePair {
    // Dropped before `base`, which holds the object, so that the rings are unmapped while it still
    // exists.
    send: SendRing,
    /// `None` with a shared receive queue.
    recv: Option<ReceiveRing>,
    /// While `reset_unconfirmed` is set, the state is RESET.
    base: QpBase,
}

impl QueuePair {
    pub(crate) fn create(
        context: &ContextBase,
        pd: &Arc<Object>,
        init: &QpInit<'_>,
    ) -> Result<Self> {
        let op = Op::CreateQueuePair;
        let ContextBase { file, device, .. } = context;
        init.check()?;
        init.no_extra()?;
        if !matches!(init.kind, QpType::Rc | QpType::Uc | QpType::Ud) {
            return Err(Error::new(op, ErrorKind::Unsupported).fact("type", init.kind.to_string()));
        }
        // Signaling has a field of its own; rxe has no other flag.
        let refused = init.flags.difference(QpCreateFlags::SQ_SIG_ALL);
        if !refused.is_empty() {
            return Err(Error::new(op, ErrorKind::Unsupported).fact("flags", refused.to_string()));
        }
        check_caps(device, init)?;
        let mut reply = rxe_create_qp_resp::default();
        let create = cmd::qp::Create {
            send_cq: Some(init.send_cq.object.handle()),
            recv_cq: Some(init.recv_cq.object.handle()),
            srq: init.srq.map(|srq| srq.object.handle()),
            flags: init.flags,
            signal: init.signal,
            ..cmd::qp::Create::new(
                init.kind,
                cmd::qp::Parent::Pd(pd.handle()),
                init.user_handle,
                init.caps,
            )
        };
        let created = cmd::qp::create(file, &create, &Uhw::new(&[], cells(&mut reply)))?;
        let queues = [Some(init.send_cq), Some(init.recv_cq), init.srq];
        let queues = queues.into_iter().flatten().map(|queue| queue.object);
        let object = Object::new(
            file,
            &cmd::qp::KIND,
            created.handle,
            std::iter::once(pd).chain(queues).cloned(),
        );
        let caps = created.caps;
        let fork = file.fork_token();
        let sends = (reply.sq_mi, SendRing::slot_size(&caps));
        let (sends, receives) = if init.srq.is_some() {
            (queue::map(file, op, sends.0, sends.1)?, None)
        } else {
            let receives = (reply.rq_mi, ReceiveRing::slot_size(caps.max_recv_sge));
            let (sends, receives) = queue::map_both(file, op, sends, receives)?;
            (sends, Some(receives))
        };
        let no_index = || Error::bad_reply(op, "producer index");
        let send =
            SendRing::new(sends, init.kind, &caps, device.caps, fork).ok_or_else(no_index)?;
        let recv = receives
            .map(|ring| ReceiveRing::new(ring, caps.max_recv_sge, fork).ok_or_else(no_index))
            .transpose()?;
        #[cfg(feature = "rings")]
        let (send, recv) = {
            let watched = |queue| file.watched(queue, created.qp_num);
            (
                send.watched(watched(QueueKind::Send)),
                recv.map(|recv| recv.watched(watched(QueueKind::Receive))),
            )
        };
        // Tables are sized by these, so they are capped by the rings, whatever the kernel reports.
        let caps = QpCaps {
            max_send_wr: caps.max_send_wr.min(send.capacity()),
            max_recv_wr: caps
                .max_recv_wr
                .min(recv.as_ref().map_or(0, ReceiveRing::capacity)),
            ..caps
        };
        Ok(Self {
            send,
            recv,
            base: QpBase::new(object, created.qp_num, init.kind, caps, device),
        })
    }

    /// Resets the queue pair. Until the reset is known to have finished, nothing can be posted, and
    /// only another reset leaves this condition.
    fn reset(&mut self, attr: &QpAttr) -> Result<()> {
        let was_unconfirmed = std::mem::replace(&mut self.base.reset_unconfirmed, true);
        let before = std::mem::replace(&mut self.base.state, QpState::Reset);
        let discards = was_unconfirmed || !self.send.is_idle();
        if let Err(error) = self.modify_kernel_object(attr) {
            if !error.outcome_is_unknown() {
                (self.base.reset_unconfirmed, self.base.state) = (was_unconfirmed, before);
            }
            return Err(error);
        }
        if discards {
            // rxe (since 6.3, rxe_sender) records where its send queue starts before it discards
            // the queue's contents, and would send the discarded slots, zeroed, in the queue pair's
            // next incarnation. A second reset records it again, now that the queue is empty.
            self.modify_kernel_object(&QpAttr::to(QpState::Reset))?;
        }
        self.base.reset_unconfirmed = false;
        Ok(())
    }

    fn modify_kernel_object(&self, attr: &QpAttr) -> Result<()> {
        let file = self.base.object.file();
        cmd::qp::modify(file, self.base.object.handle(), attr, &Uhw::NONE)
    }

    #[inline]
    fn put_one(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        if !self.accepts_sends() {
            return Err(PostError::WrongState);
        }
        self.send.put(request)
    }

    // Not inlined: code for any device would be longer, and slower for the others.
    #[inline(never)]
    fn post_one(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        if !self.accepts_sends() {
            return Err(PostError::WrongState);
        }
        let object = &self.base.object;
        (self.send).post(request, object.file(), object.handle())
    }

    #[inline]
    fn put_receive(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        if self.base.state == QpState::Reset {
            return Err(PostError::WrongState);
        }
        self.receive_ring()?.put(request)
    }

    /// Whether the kernel accepts send requests in this state. It logs a message for every doorbell
    /// that it refuses.
    fn accepts_sends(&self) -> bool {
        matches!(
            self.base.state,
            QpState::ReadyToSend
                | QpState::SendQueueDrained
                | QpState::SendQueueError
                | QpState::Error
        )
    }

    /// Whether it has a receive queue of its own.
    pub(crate) fn has_receive_queue(&self) -> bool {
        self.recv.is_some()
    }

    fn receive_ring(&mut self) -> Result<&mut ReceiveRing, PostError> {
        self.recv.as_mut().ok_or(PostError::UnsupportedOperation)
    }
}

fn check_caps(device: &DeviceAttr, init: &QpInit<'_>) -> Result<()> {
    let op = Op::CreateQueuePair;
    let caps = &init.caps;
    Error::at_most(op, "max_send_wr", caps.max_send_wr, device.max_qp_wr)?;
    Error::at_most(op, "max_send_sge", caps.max_send_sge, device.max_sge)?;
    if init.srq.is_none() {
        Error::at_most(op, "max_recv_wr", caps.max_recv_wr, device.max_qp_wr)?;
        Error::at_most(op, "max_recv_sge", caps.max_recv_sge, device.max_sge)?;
    }
    Error::at_most(op, "max_inline_data", caps.max_inline_data, MAX_INLINE)
}

/// rxe's `RXE_MAX_INLINE_DATA`: what fits into a work queue entry with 32 scatter/gather entries.
const MAX_INLINE: u32 = 512;

impl contract::Qp for QueuePair {
    type Usual<'q> = Infallible;

    fn base(&self) -> &QpBase {
        &self.base
    }

    fn object_mut(&mut self) -> &mut Object {
        &mut self.base.object
    }

    fn modify(&mut self, attr: &QpAttr) -> Result<()> {
        // A forked child has no mapping of the ring.
        self.base.object.file().check_process(Op::ModifyQueuePair)?;
        limits::modify(
            self.base.kind,
            self.base.state,
            attr,
            self.base.max_rd_atomic,
        )?;
        if attr.state == Some(QpState::Reset) {
            return self.reset(attr);
        }
        if self.base.reset_unconfirmed {
            return Err(Error::new(Op::ModifyQueuePair, ErrorKind::InvalidState)
                .fact("state", "unknown: a reset failed")
                .hint("reset or destroy the queue pair"));
        }
        self.modify_kernel_object(attr)?;
        if let Some(state) = attr.state {
            self.base.state = state;
        }
        Ok(())
    }

    fn query(&mut self, mask: QpAttrMask) -> Result<QpInfo> {
        let info = cmd::qp::query(self.base.object.file(), self.base.object.handle(), mask)?;
        // If the queue pair is in another state, it was not reset after all.
        self.base.reset_unconfirmed &= info.state == QpState::Reset;
        self.base.state = info.state;
        Ok(info)
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn put_send(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        // Passes a copy, whose fields the compiler can keep in registers, unlike those of a request
        // in memory.
        self.put_one(&{ *request })
    }

    #[inline]
    fn submit_send(&mut self) -> Result<(), PostError> {
        self.send
            .submit(self.base.object.file(), self.base.object.handle())
    }

    fn abort_send(&mut self) {
        self.send.abort();
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn post_send(&mut self, requests: &[SendRequest<'_>]) -> Result<(), (usize, PostError)> {
        let [one] = requests else {
            // SAFETY: the caller's promise.
            return unsafe { contract::posting::each_send(self, requests) };
        };
        // A copy, as in `put_send`.
        self.post_one(&{ *one }).map_err(|error| (0, error))
    }

    /// False: a request costs a system call, beside which nothing else matters.
    #[inline]
    fn has_usual_sends(&self) -> bool {
        false
    }

    #[inline]
    fn usual_send(&mut self) -> Option<Infallible> {
        None
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn put_recv(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        // Passes a copy, whose fields the compiler can keep in registers, unlike those of a request
        // in memory.
        self.put_receive(&{ *request })
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[inline]
    unsafe fn post_usual_recv(&mut self, request: &RecvRequest<'_>) -> bool {
        let accepts = self.base.state != QpState::Reset;
        let ring = self.recv.as_mut().filter(|_| accepts);
        ring.is_some_and(|ring| ring.post_usual(request))
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[inline]
    unsafe fn post_recv(&mut self, requests: &[RecvRequest<'_>]) -> Result<(), (usize, PostError)> {
        if let [one] = requests
            // SAFETY: the caller's promise.
            && unsafe { self.post_usual_recv(one) }
        {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { contract::posting::each_recv(self, requests) }
    }

    #[inline]
    fn submit_recv(&mut self) -> Result<(), PostError> {
        self.receive_ring()?.submit()
    }

    fn abort_recv(&mut self) {
        if let Some(recv) = &mut self.recv {
            recv.abort();
        }
    }
}
