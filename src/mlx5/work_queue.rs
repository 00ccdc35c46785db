//! Work queues, indirection tables of them, and queue pairs that spread frames over such a table by
//! a hash of their headers (RSS).

use std::sync::Arc;

use uverbs_core::types::RecvRequest;
use uverbs_core::{Error, Object, Op, Result};
use uverbs_mlx5::flow::FlowInit;
use uverbs_mlx5::rss::work_queue::{self, Flags, State, WorkQueueInit};
use uverbs_mlx5::rss::{Hash, SpreadingQueuePair};
use uverbs_mlx5::steering::{FlowMatcher, MatchRule};

use super::{Adapter, FlowId};
use crate::error::PostFailed;
use crate::event::EventSource;
use crate::event_table::EventKey;
use crate::qp::Children;
use crate::{CompletionQueue, ProtectionDomain};

/// `ibv_wq`—a receive work queue: the receive side of a raw packet queue pair by itself.
#[doc(alias = "ibv_wq")]
#[derive(Debug)]
pub struct WorkQueue {
    queue: work_queue::WorkQueue,
    #[expect(dead_code, reason = "kept for its drop: later events are stale")]
    event_key: EventKey,
    pd: ProtectionDomain,
}

/// `ibv_wq_init_attr`—a work queue to be created ([`Adapter::work_queue`]).
#[doc(alias = "ibv_wq_init_attr")]
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is created before `build`"]
pub struct WorkQueueBuilder<'a> {
    adapter: &'a Adapter,
    pd: &'a ProtectionDomain,
    cq: &'a CompletionQueue,
    max_wr: u32,
    max_sge: u32,
    flags: Flags,
    user_data: u64,
}

/// `ibv_rwq_ind_table`—a table of work queues, which maps a frame's hash to one of them.
#[doc(alias = "ibv_rwq_ind_table")]
#[derive(Debug)]
pub struct IndirectionTable {
    table: work_queue::IndirectionTable,
    adapter: Adapter,
}

/// A raw packet queue pair that only receives: [rules](Self::create_flow) steer frames to it, and
/// their hash selects a work queue of its table.
///
/// It has no states.
#[derive(Debug)]
pub struct RssQueuePair {
    /// Declared before the queue, and so dropped first.
    children: Children,
    queue: SpreadingQueuePair,
    #[expect(dead_code, reason = "kept for its drop: later events are stale")]
    event_key: EventKey,
}

/// A queue pair over an indirection table, to be created ([`IndirectionTable::queue_pair`]).
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is created before `build`"]
pub struct RssQueuePairBuilder<'a> {
    table: &'a IndirectionTable,
    pd: &'a ProtectionDomain,
    hash: &'a Hash,
    user_data: u64,
}

fn foreign(op: Op, what: &'static str) -> Error {
    Error::invalid(op, what).hint("it belongs to another context")
}

impl Adapter {
    /// `ibv_create_wq`—returns a builder for a work queue in RESET whose receives complete in `cq`.
    #[doc(alias = "ibv_create_wq")]
    pub fn work_queue<'a>(
        &'a self,
        pd: &'a ProtectionDomain,
        cq: &'a CompletionQueue,
    ) -> WorkQueueBuilder<'a> {
        WorkQueueBuilder {
            adapter: self,
            pd,
            cq,
            max_wr: 16,
            max_sge: 1,
            flags: Flags::empty(),
            user_data: 0,
        }
    }

    /// `ibv_create_rwq_ind_table`—creates a table of work queues, whose number is a power of two; a
    /// queue may appear in it more than once. One system call.
    ///
    /// The queues live at least as long as the table.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput): another number of queues, or a queue of
    /// another context; EINVAL: more than the device has room for.
    #[doc(alias = "ibv_create_rwq_ind_table")]
    pub fn create_indirection_table(&self, queues: &[&WorkQueue]) -> Result<IndirectionTable> {
        let op = Op::CreateIndirectionTable;
        if queues.iter().any(|queue| !queue.pd.is_of(self.context())) {
            return Err(foreign(op, "queues"));
        }
        let queues: Vec<_> = queues.iter().map(|queue| &queue.queue).collect();
        Ok(IndirectionTable {
            table: work_queue::IndirectionTable::create(self.provider(op)?, &queues)?,
            adapter: self.clone(),
        })
    }

    /// The provider's part of a protection domain of this context.
    pub(crate) fn domain<'a>(
        &self,
        op: Op,
        pd: &'a ProtectionDomain,
    ) -> Result<&'a uverbs_mlx5::ProtectionDomain> {
        let domain = pd.of_mlx5();
        domain
            .filter(|_| pd.is_of(self.context()))
            .ok_or_else(|| foreign(op, "pd"))
    }
}

impl WorkQueueBuilder<'_> {
    /// How many receive requests it holds, at least. Default: 16.
    pub fn max_wr(mut self, count: u32) -> Self {
        self.max_wr = count;
        self
    }

    /// The most scatter/gather entries of a receive request. Default: 1.
    pub fn max_sge(mut self, count: u32) -> Self {
        self.max_sge = count;
        self
    }

    /// Creation flags. Default: none.
    pub fn create_flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    /// A number of the user's choice that its events carry. Default: 0.
    #[doc(alias = "wq_context")]
    pub fn user_data(mut self, user_data: u64) -> Self {
        self.user_data = user_data;
        self
    }

    /// `ibv_create_wq`—creates it. One system call.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | – | a domain or queue of another context; no requests |
    /// | [`LimitExceeded`](crate::ErrorKind::LimitExceeded) | – | sizes above what the device has |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | EOPNOTSUPP, ENOSYS | a port that is not Ethernet, an option that the device does not have |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | ENOMEM | memory |
    #[doc(alias = "ibv_create_wq")]
    pub fn build(&self) -> Result<WorkQueue> {
        let op = Op::CreateWorkQueue;
        let adapter = self.adapter;
        if !self.cq.is_of(adapter.context()) {
            return Err(foreign(op, "cq"));
        }
        let domain = adapter.domain(op, self.pd)?;
        let event_key = adapter.context().inner.event_table.reserve(op)?;
        event_key.announce(EventSource::WorkQueue {
            user_data: self.user_data,
        });
        let init = WorkQueueInit {
            cq: self.cq.link(),
            max_wr: self.max_wr,
            max_sge: self.max_sge,
            flags: self.flags,
            user_handle: event_key.number(),
            striding: None,
        };
        Ok(WorkQueue {
            queue: work_queue::WorkQueue::create(adapter.provider(op)?, domain, &init)?,
            event_key,
            pd: self.pd.clone(),
        })
    }
}

impl WorkQueue {
    pub(crate) fn object(&self) -> &Object {
        self.queue.object()
    }

    /// The device's number for it, which its completions carry.
    pub fn number(&self) -> u32 {
        self.queue.number()
    }

    /// How many outstanding receives it holds, and how many scatter/gather entries each may have,
    /// as granted.
    pub fn size(&self) -> (u32, u32) {
        self.queue.size()
    }

    /// The protection domain it belongs to.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }

    /// `ibv_modify_wq`—moves it from one state to another: RESET to RDY, either of these to ERR,
    /// and ERR to RESET. One system call.
    ///
    /// # Errors
    /// EINVAL: it is in another state, or there is no such transition.
    #[doc(alias = "ibv_modify_wq")]
    pub fn modify(&mut self, from: State, to: State) -> Result<()> {
        self.queue.modify(from, to)
    }

    /// `ibv_modify_wq` with `IBV_WQ_ATTR_FLAGS`—turns those of its options on or off that are in
    /// `which`. One system call.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | EOPNOTSUPP | the device does not have the option, or it cannot change (VLAN stripping can) |
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | –, EINVAL | an option without a name; nothing to change |
    #[doc(alias = "ibv_modify_wq")]
    #[doc(alias = "IBV_WQ_ATTR_FLAGS")]
    pub fn set_options(&mut self, options: Flags, which: Flags) -> Result<()> {
        self.queue.set_options(options, which)
    }

    /// `ibv_post_wq_recv`—posts receive requests, all of them submitted at once. No system call.
    ///
    /// # Errors
    /// The first request that was refused, and why; those before it are posted.
    ///
    /// # Safety
    /// Until the completion of each request has been polled, or [`destroy`](Self::destroy) or a
    /// change to RESET has returned `Ok`:
    /// 1. the memory of every scatter/gather entry stays allocated and registered with its key in
    ///    this protection domain;
    /// 2. this process neither reads nor writes it.
    ///
    /// And, permanently:
    ///
    /// 3. its `wr_id` is below [`RESERVED_WR_IDS`](crate::request::RESERVED_WR_IDS), like that of a
    ///    [send request](crate::SendBatch::push).
    #[doc(alias = "ibv_post_wq_recv")]
    #[expect(unsafe_code, reason = "names memory that a device will write to")]
    pub unsafe fn post_recv(&mut self, requests: &[RecvRequest<'_>]) -> Result<(), PostFailed> {
        let ring = |queue: &mut work_queue::WorkQueue| {
            let done = queue.submit();
            done.map_err(|error| PostFailed { posted: 0, error })
        };
        for (posted, request) in requests.iter().enumerate() {
            // SAFETY: the caller's promise, for each request.
            if let Err(error) = unsafe { self.queue.put(request) } {
                ring(&mut self.queue)?;
                return Err(PostFailed { posted, error });
            }
        }
        ring(&mut self.queue)
    }

    /// `ibv_destroy_wq`—destroys it. One system call. Dropping it does the same.
    ///
    /// # Errors
    /// [`Busy`](crate::ErrorKind::Busy) while a table contains it; it lives on with the table.
    #[doc(alias = "ibv_destroy_wq")]
    pub fn destroy(self) -> Result<()> {
        let object = Arc::clone(self.queue.object());
        drop(self.queue);
        Object::destroy_shared(object).map(|_| ())
    }
}

impl IndirectionTable {
    pub(crate) fn object(&self) -> &Object {
        self.table.object()
    }

    /// The device's number for it.
    pub fn number(&self) -> u32 {
        self.table.number()
    }

    /// `ibv_create_qp_ex` with `ibv_rx_hash_conf`—creates a queue pair that spreads frames over the
    /// table by the Toeplitz hash of `hash`. One system call.
    ///
    /// # Errors
    /// As [`RssQueuePairBuilder::build`].
    #[doc(alias = "ibv_rx_hash_conf")]
    #[doc(alias = "ibv_create_qp_ex")]
    pub fn create_queue_pair(&self, pd: &ProtectionDomain, hash: &Hash) -> Result<RssQueuePair> {
        self.queue_pair(pd, hash).build()
    }

    /// Returns a builder for a queue pair that spreads frames over the table by the Toeplitz hash
    /// of `hash`, with `user_data`.
    #[doc(alias = "ibv_rx_hash_conf")]
    pub fn queue_pair<'a>(
        &'a self,
        pd: &'a ProtectionDomain,
        hash: &'a Hash,
    ) -> RssQueuePairBuilder<'a> {
        RssQueuePairBuilder {
            table: self,
            pd,
            hash,
            user_data: 0,
        }
    }

    /// `ibv_destroy_rwq_ind_table`—destroys it. One system call. Dropping it does the same.
    ///
    /// # Errors
    /// [`Busy`](crate::ErrorKind::Busy) while a queue pair uses it; it lives on with the queue
    /// pair.
    #[doc(alias = "ibv_destroy_rwq_ind_table")]
    pub fn destroy(self) -> Result<()> {
        let object = Arc::clone(self.table.object());
        drop(self.table);
        Object::destroy_shared(object).map(|_| ())
    }
}

impl RssQueuePairBuilder<'_> {
    /// A number of the user's choice that its events carry. Default: 0.
    pub fn user_data(mut self, user_data: u64) -> Self {
        self.user_data = user_data;
        self
    }

    /// `ibv_create_qp_ex` with `ibv_rx_hash_conf`—creates it. One system call.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | – | the device does not hash by one of the fields |
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | – | fields that exclude each other (IPv4 and IPv6, TCP and UDP); a domain of another context |
    /// | [`PermissionDenied`](crate::ErrorKind::PermissionDenied) | EPERM | no `CAP_NET_RAW` |
    #[doc(alias = "ibv_create_qp_ex")]
    pub fn build(&self) -> Result<RssQueuePair> {
        let op = Op::CreateQueuePair;
        let adapter = &self.table.adapter;
        let domain = adapter.domain(op, self.pd)?;
        let provider = adapter.provider(op)?;
        let event_key = adapter.context().inner.event_table.reserve(op)?;
        let table = &self.table.table;
        let queue =
            SpreadingQueuePair::create(provider, domain, table, self.hash, event_key.number())?;
        event_key.announce(EventSource::QueuePair {
            qp_num: queue.number(),
            user_data: self.user_data,
        });
        Ok(RssQueuePair {
            children: Children::default(),
            queue,
            event_key,
        })
    }
}

impl RssQueuePair {
    /// Its number.
    pub fn qp_num(&self) -> u32 {
        self.queue.number()
    }

    /// `ibv_create_flow`—has it spread matching frames. One system call.
    ///
    /// # Errors
    /// As [`QueuePair::create_flow`](crate::QueuePair::create_flow).
    #[doc(alias = "ibv_create_flow")]
    pub fn create_flow(&mut self, init: &FlowInit<'_>) -> Result<FlowId> {
        self.children.create_flow(self.queue.object(), init)
    }

    /// `mlx5dv_create_flow`—has it spread matching frames. One system call, which waits for the
    /// firmware.
    ///
    /// # Errors
    /// As [`QueuePair::steer`](crate::QueuePair::steer).
    #[doc(alias = "mlx5dv_create_flow")]
    pub fn steer(&mut self, matcher: &FlowMatcher, rule: &MatchRule<'_>) -> Result<FlowId> {
        let made = matcher.steer(self.queue.object(), rule)?;
        Ok(self.children.adopt_flow(made))
    }

    /// `ibv_destroy_flow`—removes a rule. One system call.
    ///
    /// # Errors
    /// As [`QueuePair::destroy_flow`](crate::QueuePair::destroy_flow).
    #[doc(alias = "ibv_destroy_flow")]
    pub fn destroy_flow(&mut self, rule: FlowId) -> Result<()> {
        self.children.destroy_flow(rule)
    }

    /// `ibv_destroy_qp`—removes its rules and destroys it. One system call, and one per rule.
    /// Dropping it does the same.
    ///
    /// # Errors
    /// The kernel's errno.
    #[doc(alias = "ibv_destroy_qp")]
    pub fn destroy(self) -> Result<()> {
        drop(self.children);
        let object = Arc::clone(self.queue.object());
        drop(self.queue);
        Object::destroy_shared(object).map(|_| ())
    }
}
