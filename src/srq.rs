//! Shared receive queues.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use uverbs_any::AnySrq;
use uverbs_core::contract::{Srq as _, SrqInit};
use uverbs_core::types::{RecvRequest, SrqAttr, SrqModify, SrqType};
use uverbs_core::{EventCounts, Object, Op, Result};

use crate::destroy::{DestroyError, Failing};
use crate::event::EventSource;
use crate::event_table::EventKey;
use crate::qp::{PostFailed, RecvBatch, post_recv_batch};
use crate::{ProtectionDomain, qp};

/// `ibv_srq`—one receive queue for many queue pairs.
///
/// The kernel's queue lives until the last queue pair that receives from it is gone.
#[doc(alias = "ibv_srq")]
#[derive(Debug)]
pub struct SharedReceiveQueue {
    pub(crate) queue: AnySrq,
    #[expect(dead_code, reason = "kept for its drop: later events are stale")]
    event_key: EventKey,
    pd: ProtectionDomain,
}

/// A shared receive queue to be created ([`ProtectionDomain::shared_receive_queue`]).
#[derive(Clone, Debug)]
#[must_use = "nothing is created before `build`"]
pub struct SharedReceiveQueueBuilder<'a> {
    pd: &'a ProtectionDomain,
    attr: SrqAttr,
    user_data: u64,
    kind: SrqType,
    /// Creates one of an unusual kind.
    maker: Option<Arc<dyn Maker + 'a>>,
}

/// What creates shared receive queues of a kind that not every provider has.
pub(crate) trait Maker: Debug + Send + Sync {
    fn make(&self, pd: &ProtectionDomain, init: &SrqInit) -> Result<AnySrq>;
}

impl<'a> SharedReceiveQueueBuilder<'a> {
    pub(crate) fn new(pd: &'a ProtectionDomain, max_wr: u32) -> Self {
        Self {
            pd,
            attr: SrqAttr {
                max_wr,
                max_sge: 1,
                limit: 0,
            },
            user_data: 0,
            kind: SrqType::Basic,
            maker: None,
        }
    }

    /// Has one of that kind created, by a `maker` that knows how to.
    pub(crate) fn made_by(mut self, kind: SrqType, maker: impl Maker + 'a) -> Self {
        self.kind = kind;
        self.maker = Some(Arc::new(maker));
        self
    }

    /// The most scatter/gather entries of a request. Default: 1.
    pub fn max_sge(mut self, count: u32) -> Self {
        self.attr.max_sge = count;
        self
    }

    /// Arms it: one event once fewer than `limit` requests are left. Default: 0, not armed.
    #[doc(alias = "srq_limit")]
    pub fn limit(mut self, limit: u32) -> Self {
        self.attr.limit = limit;
        self
    }

    /// A number of the user's choice that its events carry. Default: 0.
    #[doc(alias = "srq_context")]
    pub fn user_data(mut self, user_data: u64) -> Self {
        self.user_data = user_data;
        self
    }

    /// `ibv_create_srq`—creates it. Three system calls on rxe.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | no requests, or requests without scatter/gather entries |
    /// | [`LimitExceeded`](crate::ErrorKind::LimitExceeded) | more than the device's `max_srq_wr`, `max_srq_sge`; a limit above the size |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | ENOMEM, EAGAIN from the rdma cgroup |
    #[doc(alias = "ibv_create_srq")]
    pub fn build(&self) -> Result<SharedReceiveQueue> {
        let inner = &self.pd.context().inner;
        let event_key = inner.event_table.reserve(Op::CreateSharedReceiveQueue)?;
        event_key.announce(EventSource::SharedReceiveQueue {
            user_data: self.user_data,
        });
        let init = SrqInit {
            kind: self.kind,
            attr: self.attr,
            user_handle: event_key.number(),
        };
        let queue = match &self.maker {
            Some(maker) => maker.make(self.pd, &init)?,
            None => inner.provider.create_srq(&self.pd.inner.pd, &init)?,
        };
        Ok(SharedReceiveQueue {
            queue,
            event_key,
            pd: self.pd.clone(),
        })
    }
}

impl SharedReceiveQueue {
    /// `ibv_modify_srq`—resizes it, arms it, or both. If anything in `change` is invalid, nothing
    /// is changed.
    ///
    /// [`max_wr`](SrqModify::max_wr) is the new size in requests. [`limit`](SrqModify::limit) arms
    /// one [`SrqLimitReached`](crate::event::AsyncEventType::SrqLimitReached) event for when fewer
    /// than that many requests are left; 0 disarms it. One system call, four for a resize on rxe.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | a size of 0, below the armed limit, or below the number of waiting requests (EINVAL) |
    /// | [`LimitExceeded`](crate::ErrorKind::LimitExceeded) | a size above the device's `max_srq_wr`; a limit above the queue's current size |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | the device cannot resize |
    #[doc(alias = "ibv_modify_srq")]
    #[doc(alias = "IBV_SRQ_MAX_WR")]
    #[doc(alias = "IBV_SRQ_LIMIT")]
    pub fn modify(&mut self, change: &SrqModify) -> Result<()> {
        self.queue.modify(change)
    }

    /// `ibv_query_srq`—its sizes and the armed limit, which is 0 once the event has been sent. One
    /// system call.
    ///
    /// # Errors
    /// The kernel's errno.
    #[doc(alias = "ibv_query_srq")]
    pub fn query(&self) -> Result<SrqAttr> {
        self.queue.query()
    }

    /// Its sizes as granted; the limit reads 0 here. No system call.
    pub fn size(&self) -> SrqAttr {
        self.queue.size()
    }

    /// `ibv_get_srq_num`—the device's number for it.
    #[doc(alias = "ibv_get_srq_num")]
    pub fn number(&self) -> u32 {
        self.queue.number()
    }

    /// The protection domain it belongs to.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }

    /// `ibv_post_srq_recv`—posts receive requests, all of them submitted at once.
    ///
    /// No system call on rxe.
    ///
    /// # Errors
    /// The first request that was refused, and why; those before it are posted.
    ///
    /// # Safety
    /// Until the completion of each request has been polled, or [`destroy`](Self::destroy) has
    /// returned `Ok`:
    /// 1. the memory of every scatter/gather entry stays allocated and registered with its key in
    ///    this protection domain;
    /// 2. this process neither reads nor writes it.
    ///
    /// And, permanently:
    ///
    /// 3. its `wr_id` is below [`RESERVED_WR_IDS`](crate::request::RESERVED_WR_IDS), like that of a
    ///    [send request](crate::SendBatch::push).
    #[doc(alias = "ibv_post_srq_recv")]
    #[expect(unsafe_code, reason = "names memory that a device will write to")]
    #[inline]
    pub unsafe fn post_recv(&mut self, requests: &[RecvRequest<'_>]) -> Result<(), PostFailed> {
        // SAFETY: the caller promises what `RecvBatch::push` asks for.
        unsafe { post_recv_batch(self.recv_batch(), requests) }
    }

    /// Starts a batch of receive requests that are submitted together.
    #[inline]
    pub fn recv_batch(&mut self) -> RecvBatch<'_> {
        RecvBatch::new(qp::ReceiveSide::Shared(&mut self.queue))
    }

    /// `ibv_destroy_srq`—destroys it and returns how many of its events were delivered. One system
    /// call.
    ///
    /// # Errors
    /// [`Busy`](crate::ErrorKind::Busy) while queue pairs use it; it lives on with them.
    #[doc(alias = "ibv_destroy_srq")]
    pub fn destroy(mut self) -> Result<EventCounts> {
        self.end(Failing::GivenUp)
    }

    /// `ibv_destroy_srq`—as [`destroy`](Self::destroy), but returns the queue if that fails, for
    /// another try.
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "ibv_destroy_srq")]
    pub fn try_destroy(mut self) -> Result<EventCounts, DestroyError<Self>> {
        self.end(Failing::Left)
            .map_err(|error| DestroyError::new(error, self))
    }

    /// Destroys it in place. After success all that is left to do is to drop it.
    pub(crate) fn end(&mut self, failing: Failing) -> Result<EventCounts> {
        failing.destroy(Object::sole(self.queue.object_mut())?)
    }

    pub(crate) fn object(&self) -> &Object {
        self.queue.object()
    }

    /// Keeps `memory` until the kernel's queue is gone.
    pub(crate) fn keep(&self, memory: impl Any + Send + Sync) {
        self.queue.object().keep(memory);
    }
}
