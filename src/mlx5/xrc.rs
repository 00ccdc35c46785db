//! Extended reliable connections (XRC): senders name the shared receive queue that each message
//! goes to.

use std::sync::Arc;

use uverbs_any::AnySrq;
use uverbs_core::contract::{Qp as _, SrqInit};
use uverbs_core::types::{QpAttr, QpAttrMask, QpInfo, QpState, SendRequest, SrqType};
use uverbs_core::{Error, ErrorKind, Object, Op, PostError, Result};

use uverbs_mlx5::{QpExtra, SharedXrcDomain};

use super::Adapter;
use crate::event::EventSource;
use crate::event_table::EventKey;
use crate::srq::Maker;
use crate::transport::{self, NamesReceiver, Transport};
use crate::{
    CompletionQueue, Context, ProtectionDomain, QueuePairBuilder, SendBatch, SharedReceiveQueue,
    SharedReceiveQueueBuilder,
};

/// `ibv_xrcd`—an XRC domain: what the receiving ends of connections share with the shared receive
/// queues that they deliver to.
///
/// One connection per peer process reaches all shared receive queues of the domain; with plain
/// connections, each pair of queues needs its own.
///
/// ```no_run
/// use uverbs::SendRequest;
/// use uverbs::transport::XrcInitiator;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let context = uverbs::Context::open("mlx5_0")?;
/// let (pd, cq) = (context.alloc_pd()?, context.create_cq(64)?);
/// let domain = context.mlx5()?.open_xrc_domain()?;
/// let srq = domain.create_srq(&pd, &cq, 64, 1)?;
/// let target = domain.target(&pd, &cq).build()?;
/// let initiator = pd.queue_pair(XrcInitiator, &cq, &cq).max_inline_data(64).build()?;
///
/// // The two ends are connected as any others.
/// let (to, from) = (target.endpoint(), initiator.endpoint());
/// let (_target, mut initiator) = (target.handshake(from)?, initiator.handshake(to)?);
/// let mut batch = initiator.send_batch();
/// let bytes: [&[u8]; 1] = [b"hello"];
/// // SAFETY: inline data is copied; no memory is named.
/// unsafe { batch.push_xrc(&SendRequest::send_inline(&bytes), srq.number()) }?;
/// batch.submit()?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ibv_xrcd")]
#[derive(Debug)]
pub struct XrcDomain {
    pub(crate) domain: uverbs_mlx5::XrcDomain,
    context: Context,
}

impl Adapter {
    /// `ibv_open_xrcd`—opens an XRC domain that is private to this process. One system call.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | EOPNOTSUPP, ENOSYS: the device has no XRC |
    /// | [`OutOfResources`](ErrorKind::OutOfResources) | ENOMEM, EAGAIN from the rdma cgroup |
    #[doc(alias = "ibv_open_xrcd")]
    pub fn open_xrc_domain(&self) -> Result<XrcDomain> {
        self.xrc_domain(None)
    }

    /// `ibv_open_xrcd`—opens the XRC domain that a file identifies. One system call.
    ///
    /// # Errors
    /// As [`open_xrc_domain`](Self::open_xrc_domain); EAGAIN: no process has opened it, and
    /// `create` is not set; EINVAL: a process has opened it, and `exclusive` is set.
    #[doc(alias = "ibv_open_xrcd")]
    pub fn open_shared_xrc_domain(&self, shared: &SharedXrcDomain<'_>) -> Result<XrcDomain> {
        self.xrc_domain(Some(shared))
    }

    fn xrc_domain(&self, shared: Option<&SharedXrcDomain<'_>>) -> Result<XrcDomain> {
        let context = self.provider(Op::OpenXrcDomain)?;
        Ok(XrcDomain {
            domain: uverbs_mlx5::XrcDomain::open(context, shared)?,
            context: self.context().clone(),
        })
    }
}

impl XrcDomain {
    /// `ibv_create_srq_ex` with `IBV_SRQT_XRC`—creates a shared receive queue for `max_wr` requests
    /// of `max_sge` scatter/gather entries each; see
    /// [`shared_receive_queue`](Self::shared_receive_queue).
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "ibv_create_srq_ex")]
    #[doc(alias = "IBV_SRQT_XRC")]
    pub fn create_srq(
        &self,
        pd: &ProtectionDomain,
        cq: &CompletionQueue,
        max_wr: u32,
        max_sge: u32,
    ) -> Result<SharedReceiveQueue> {
        self.shared_receive_queue(pd, cq, max_wr)
            .max_sge(max_sge)
            .build()
    }

    /// `ibv_create_srq_ex` with `IBV_SRQT_XRC`—returns a builder for a shared receive queue that
    /// senders name by its [number](SharedReceiveQueue::number). Its receives complete in `cq`.
    /// Creating it is one system call.
    ///
    /// Building fails as for [any other](SharedReceiveQueueBuilder::build), and with
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a domain or queue of another context.
    #[doc(alias = "ibv_create_srq_ex")]
    #[doc(alias = "IBV_SRQT_XRC")]
    pub fn shared_receive_queue<'a>(
        &'a self,
        pd: &'a ProtectionDomain,
        cq: &'a CompletionQueue,
        max_wr: u32,
    ) -> SharedReceiveQueueBuilder<'a> {
        let maker = InDomain { domain: self, cq };
        SharedReceiveQueueBuilder::new(pd, max_wr).made_by(SrqType::Xrc, maker)
    }

    /// `ibv_create_qp_ex` with `IBV_QPT_XRC_RECV`—returns a builder for the receiving end of a
    /// connection, of type [`XrcTarget`](transport::XrcTarget).
    ///
    /// The device uses neither `pd` nor `cq`: what arrives is received, checked and completed by
    /// the shared receive queue that the sender names. Both live at least as long as the queue
    /// pair.
    #[doc(alias = "ibv_create_qp_ex")]
    #[doc(alias = "IBV_QPT_XRC_RECV")]
    pub fn target<'a>(
        &'a self,
        pd: &'a ProtectionDomain,
        cq: &'a CompletionQueue,
    ) -> QueuePairBuilder<'a, transport::XrcTarget> {
        let builder = QueuePairBuilder::new(pd, transport::XrcTarget, cq, cq);
        builder.with_extra(QpExtra::xrc_target(&self.domain))
    }

    /// `ibv_open_qp`—opens the receiving end with this number, which this or another process
    /// created in the domain. Two system calls.
    ///
    /// It lives until its creator and everyone who opened it have closed it.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput): EINVAL, there is none with this number in the
    /// domain.
    #[doc(alias = "ibv_open_qp")]
    pub fn open_target(&self, number: u32) -> Result<XrcTarget> {
        self.existing_target(number).build()
    }

    /// `ibv_open_qp`—returns a builder for opening the receiving end with this number, with
    /// `user_data`.
    #[doc(alias = "ibv_open_qp")]
    pub fn existing_target(&self, number: u32) -> XrcTargetBuilder<'_> {
        XrcTargetBuilder {
            domain: self,
            number,
            user_data: 0,
        }
    }

    /// `ibv_close_xrcd`—closes it. One system call. Dropping it does the same.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) while shared receive queues or queue pairs of it exist; it lives
    /// on with them.
    #[doc(alias = "ibv_close_xrcd")]
    pub fn close(self) -> Result<()> {
        let object = Arc::clone(self.domain.object());
        drop(self.domain);
        Object::destroy_shared(object).map(|_| ())
    }
}

/// Creates shared receive queues of an XRC domain.
#[derive(Debug)]
struct InDomain<'a> {
    domain: &'a XrcDomain,
    cq: &'a CompletionQueue,
}

impl Maker for InDomain<'_> {
    fn make(&self, pd: &ProtectionDomain, init: &SrqInit) -> Result<AnySrq> {
        let op = Op::CreateSharedReceiveQueue;
        let context = &self.domain.context;
        for (what, is_ours) in [("pd", pd.is_of(context)), ("cq", self.cq.is_of(context))] {
            if !is_ours {
                return Err(Error::invalid(op, what).hint("it belongs to another context"));
            }
        }
        let (Some(device), Some(pd)) = (context.of_mlx5(), pd.of_mlx5()) else {
            return Err(Error::new(op, ErrorKind::Unsupported));
        };
        let domain = &self.domain.domain;
        Ok(domain.create_srq(device, pd, self.cq.link(), init)?.into())
    }
}

/// The receiving end of an XRC connection, to be opened ([`XrcDomain::existing_target`]).
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is opened before `build`"]
pub struct XrcTargetBuilder<'a> {
    domain: &'a XrcDomain,
    number: u32,
    user_data: u64,
}

impl XrcTargetBuilder<'_> {
    /// A number of the user's choice that its events carry. Default: 0.
    pub fn user_data(mut self, user_data: u64) -> Self {
        self.user_data = user_data;
        self
    }

    /// `ibv_open_qp`—opens it. Two system calls.
    ///
    /// # Errors
    /// As [`XrcDomain::open_target`].
    #[doc(alias = "ibv_open_qp")]
    pub fn build(&self) -> Result<XrcTarget> {
        let op = Op::OpenQueuePair;
        let XrcDomain { domain, context } = self.domain;
        let device = context.of_mlx5();
        let device = device.ok_or_else(|| Error::new(op, ErrorKind::Unsupported))?;
        let event_key = context.inner.event_table.reserve(op)?;
        let queue = domain.open_target(device, self.number, event_key.number())?;
        event_key.announce(EventSource::QueuePair {
            qp_num: self.number,
            user_data: self.user_data,
        });
        Ok(XrcTarget { queue, event_key })
    }
}

/// The receiving end of an XRC connection, opened by its number.
#[derive(Debug)]
pub struct XrcTarget {
    queue: uverbs_mlx5::QueuePair,
    #[expect(dead_code, reason = "kept for its drop: later events are stale")]
    event_key: EventKey,
}

impl XrcTarget {
    /// Its number on the wire.
    pub fn qp_num(&self) -> u32 {
        self.queue.base().number
    }

    /// The state it was last seen in.
    pub fn state(&self) -> QpState {
        self.queue.base().state
    }

    /// `ibv_query_qp`—what the kernel knows about it. One system call.
    ///
    /// # Errors
    /// The kernel's errno.
    pub fn query(&mut self) -> Result<QpInfo> {
        self.queue.query(QpAttrMask::all())
    }

    /// `ibv_modify_qp`—changes its state or attributes, for everyone who has it open. One system
    /// call.
    ///
    /// # Errors
    /// EINVAL for a transition that does not exist, and for attributes that are missing or not
    /// allowed in it.
    pub fn modify(&mut self, attr: &QpAttr) -> Result<()> {
        self.queue.modify(attr)
    }

    /// `ibv_destroy_qp`—closes it, and destroys it if no one else has it open. One system call.
    /// Dropping it does the same.
    ///
    /// # Errors
    /// The kernel's errno.
    pub fn close(mut self) -> Result<()> {
        self.queue.object_mut().end().map(|_| ())
    }
}

impl<T: Transport> SendBatch<'_, T> {
    /// Puts a request of an [XRC initiator](transport::XrcInitiator) into the ring, for the peer's
    /// shared receive queue with the number `srq`; the number matters only for sends and for writes
    /// with an immediate value. No system call.
    ///
    /// # Errors
    /// As [`push`](Self::push); [`PostError::UnsupportedOperation`] on queue pairs of another type.
    ///
    /// # Safety
    /// As [`push`](Self::push).
    #[doc(alias = "ibv_wr_set_xrc_srqn")]
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    #[inline]
    pub unsafe fn push_xrc(&mut self, request: &SendRequest<'_>, srq: u32) -> Result<(), PostError>
    where
        T: NamesReceiver,
    {
        let qp = self.of_mlx5()?;
        // SAFETY: the caller promises what the provider requires.
        unsafe { qp.put_xrc(request, srq) }
    }
}
