//! Queue pairs: built, prepared, connected.

mod builder;
mod children;
mod connect;
mod endpoint;
mod gid;
mod managed;
mod post;
mod prepared;

use std::any::Any;
use std::marker::PhantomData;

use uverbs_any::AnyQp;
use uverbs_core::contract::{self, Qp as _};
use uverbs_core::types::{Ece, Gid, QpAttr, QpAttrMask, QpCaps, QpInfo, QpState, QpType, diagnose};
use uverbs_core::{Errno, EventCounts, Result};

pub use builder::QueuePairBuilder;
pub(crate) use children::Children;
pub use endpoint::{ParseEndpointError, QueuePairEndpoint};
pub use gid::{GidChoice, GidReason};
pub use post::{PostFailed, RecvBatch, SendBatch};
pub(crate) use post::{ReceiveSide, names_no_memory, post_recv_batch};
pub(crate) use prepared::After;
pub use prepared::{HandshakeError, PreparedQueuePair};

use builder::Settings;
use gid::Kept;

use crate::ProtectionDomain;
use crate::completion::CqId;
use crate::destroy::{DestroyError, Failing};
use crate::event_table::EventKey;
use crate::transport::{Datagrams, Plain, Transport};

/// `ibv_qp`—a queue pair: a send queue and a receive queue.
///
/// Posting takes `&mut self`: no lock, and on devices with mapped doorbells no system call.
/// [`owned::QueuePair`](crate::owned::QueuePair) wraps it for posting without `unsafe`.
#[doc(alias = "ibv_qp")]
#[derive(Debug)]
pub struct QueuePair<T: Transport = QpType> {
    /// Declared before the queue, and so dropped first: the kernel keeps the queue pair as long as
    /// there are any.
    pub(crate) children: Children,
    pub(crate) queue: AnyQp,
    event_key: EventKey,
    pd: ProtectionDomain,
    send_cq: CqId,
    recv_cq: CqId,
    endpoint: QueuePairEndpoint,
    /// How the endpoint's GID was chosen, if it was chosen here.
    gid: Option<Kept>,
    /// What it is connected with, now or again.
    settings: Settings,
    transport: PhantomData<T>,
}

impl<T: Transport> QueuePair<T> {
    /// Its number on the wire, 24 bits.
    #[inline]
    pub fn qp_num(&self) -> u32 {
        self.queue.base().number
    }

    /// Its transport.
    pub fn kind(&self) -> QpType {
        self.queue.base().kind
    }

    /// Its sizes as granted: at least those requested.
    pub fn caps(&self) -> QpCaps {
        self.queue.base().caps
    }

    /// The state it was put into, or last seen in by [`query`](Self::query).
    ///
    /// The device moves it to an error state on its own when a request fails.
    pub fn state(&self) -> QpState {
        self.queue.base().state
    }

    /// What a peer needs to know to connect to it.
    pub fn endpoint(&self) -> QueuePairEndpoint {
        self.endpoint
    }

    /// Where its send completions go.
    pub fn send_cq(&self) -> CqId {
        self.send_cq
    }

    /// Where its receive completions go.
    pub fn recv_cq(&self) -> CqId {
        self.recv_cq
    }

    /// The protection domain it belongs to.
    #[inline]
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }

    /// `ibv_modify_qp`—changes state or attributes. One system call.
    ///
    /// # Errors
    /// EINVAL for a transition that does not exist, attributes that are missing or not allowed in
    /// it (the error's facts say which), values the device does not support; EPERM for a privileged
    /// queue key.
    #[doc(alias = "ibv_modify_qp")]
    pub fn modify(&mut self, attr: &QpAttr) -> Result<()> {
        modify(&mut self.queue, attr)
    }

    /// `ibv_query_qp`—what the kernel knows about it. One system call.
    ///
    /// # Errors
    /// The kernel's errno.
    #[doc(alias = "ibv_query_qp")]
    pub fn query(&mut self) -> Result<QpInfo> {
        self.queue.query(QpAttrMask::all())
    }

    /// `ibv_query_ece`—the options its device offers beyond the standard or, once those of the
    /// peer's device were [set](Self::set_ece), the options both agreed to. No system call.
    ///
    /// The agreed options are known after the state change that follows. A queue pair that was
    /// moved back to RESET reports the options it first offered.
    ///
    /// # Errors
    /// [`Unsupported`](uverbs_core::ErrorKind::Unsupported): the device or its firmware has no such
    /// options; rxe has none.
    #[doc(alias = "ibv_query_ece")]
    pub fn ece(&self) -> Result<Ece> {
        self.queue.ece()
    }

    /// `ibv_set_ece`—sets the options of the peer's device, for this device to agree to in the next
    /// [`modify`](Self::modify): normally the change from INIT to RTR. No system call.
    ///
    /// One state change carries them, and only if it succeeds; for a DC target it is the change to
    /// RTR. Until then, and if the peer's device has nothing in common with this one,
    /// [`ece`](Self::ece) reports no options.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`Unsupported`](uverbs_core::ErrorKind::Unsupported) | the device or its firmware has no such options; the peer's has none (`vendor_id` 0) |
    /// | [`InvalidInput`](uverbs_core::ErrorKind::InvalidInput) | options of another vendor; a field that is not defined |
    #[doc(alias = "ibv_set_ece")]
    pub fn set_ece(&mut self, ece: &Ece) -> Result<()> {
        self.queue.set_ece(ece)
    }

    /// `ibv_destroy_qp`—leaves its multicast groups, destroys it and returns how many of its events
    /// were delivered. One system call, and one per group. Dropping it does the same.
    ///
    /// Posted work is discarded; after `Ok` the device uses none of its memory.
    ///
    /// # Errors
    /// The kernel's errno. Its memory is then leaked, see
    /// [`Context::leaked`](crate::Context::leaked).
    #[doc(alias = "ibv_destroy_qp")]
    pub fn destroy(mut self) -> Result<EventCounts> {
        self.end(Failing::GivenUp)
    }

    /// `ibv_destroy_qp`—as [`destroy`](Self::destroy), but returns the queue pair if that fails,
    /// for another try.
    ///
    /// Its flow rules are then gone, and so is its membership of the groups that it could leave.
    ///
    /// # Errors
    /// The kernel's errno.
    #[doc(alias = "ibv_destroy_qp")]
    pub fn try_destroy(mut self) -> Result<EventCounts, DestroyError<Self>> {
        self.end(Failing::Left)
            .map_err(|error| DestroyError::new(error, self))
    }

    /// The same queue pair, with its transport checked at run time. No system call.
    pub fn untyped(self) -> QueuePair {
        self.with_transport()
    }

    /// The same queue pair under another type, which is its transport's or checked at run time.
    pub(crate) fn with_transport<U: Transport>(self) -> QueuePair<U> {
        QueuePair {
            children: self.children,
            queue: self.queue,
            event_key: self.event_key,
            pd: self.pd,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            endpoint: self.endpoint,
            gid: self.gid,
            settings: self.settings,
            transport: PhantomData,
        }
    }

    /// Destroys it in place. After success all that is left to do is to drop it.
    pub(crate) fn end(&mut self, failing: Failing) -> Result<EventCounts> {
        self.children = Children::default();
        failing.destroy(self.queue.object_mut())
    }

    /// Keeps `memory` until the kernel's queue pair is gone.
    pub(crate) fn keep(&self, memory: impl Any + Send + Sync) {
        self.queue.base().object.keep(memory);
    }

    /// `ibv_attach_mcast`—lets it receive what is sent to a multicast group. Only for datagram
    /// queue pairs. One system call.
    ///
    /// `lid` is the group's on InfiniBand, 0 on Ethernet. Joining the group in the network is up to
    /// the caller.
    ///
    /// # Errors
    /// EINVAL for another transport or a GID that is not multicast; ENOMEM when the device has no
    /// more groups.
    #[doc(alias = "ibv_attach_mcast")]
    pub fn attach_multicast(&mut self, group: &Gid, lid: u16) -> Result<()>
    where
        T: Datagrams,
    {
        contract::attach_multicast(&self.queue.base().object, group, lid)
    }

    /// `ibv_detach_mcast`—detaches it from a multicast group. One system call.
    ///
    /// # Errors
    /// EINVAL for a group it is not attached to.
    #[doc(alias = "ibv_detach_mcast")]
    pub fn detach_multicast(&mut self, group: &Gid, lid: u16) -> Result<()>
    where
        T: Datagrams,
    {
        contract::detach_multicast(&self.queue.base().object, group, lid)
    }
}

impl QueuePair {
    /// The same queue pair with its transport as a type: `qp.typed(Rc)`. No system call.
    ///
    /// # Errors
    /// The queue pair, if it is of another transport.
    #[expect(
        clippy::result_large_err,
        reason = "it is the queue pair, nothing is lost"
    )]
    pub fn typed<T: Plain>(self, transport: T) -> Result<QueuePair<T>, Self> {
        if self.kind() == transport.qp_type() {
            Ok(self.with_transport())
        } else {
            Err(self)
        }
    }
}

/// Modifies the queue pair; on EINVAL, adds to the error what is wrong with the transition, if that
/// is the cause.
fn modify(queue: &mut AnyQp, attr: &QpAttr) -> Result<()> {
    let from = queue.base().state;
    let error = match queue.modify(attr) {
        Err(error) if error.errno() == Some(Errno::INVAL) => error,
        result => return result,
    };
    let to = attr.state.unwrap_or(from);
    Err(match diagnose(from, to, queue.base().kind, attr.mask()) {
        Some(diagnosis) => error.fact("reason", diagnosis.to_string()),
        None => error.fact("from_state", from.to_string()),
    })
}
