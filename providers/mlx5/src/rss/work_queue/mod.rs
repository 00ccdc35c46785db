//! Work queues: receive queues over which a receive-side scaling table distributes packets.

mod striding;

use std::sync::Arc;

use uverbs_core::contract::Link;
use uverbs_core::hw::{Part, QueueBuffer, UnitRing};
#[cfg(feature = "rings")]
use uverbs_core::rings::QueueKind;
use uverbs_core::sys::{Uhw, cells};
use uverbs_core::types::{DeviceCaps, RecvRequest};
use uverbs_core::{Error, ErrorKind, Object, Op, PostError, Result, cmd};
use uverbs_uapi::mlx5_abi::{
    mlx5_ib_create_rwq_ind_tbl_resp, mlx5_ib_create_wq, mlx5_ib_create_wq_resp, mlx5_ib_modify_wq,
};
use zerocopy::IntoBytes;

use crate::context::{Context, ProtectionDomain};
use crate::cqe::CqShared;
use crate::rq::{self, ReceiveRing};
use crate::tracker::registration::{Registered, Reports};
use crate::tracker::table::Owner;
use crate::tracker::{QueuePairTracker, Receives, RecvTracker};
use crate::wqe::{Place, UNIT, sizes};

pub use striding::Striding;
pub use uverbs_core::cmd::wq::{Flags, Modify, State};

/// `ibv_wq_init_attr`—the parameters of a work queue.
#[doc(alias = "ibv_wq_init_attr")]
#[derive(Clone, Copy, Debug)]
pub struct WorkQueueInit<'a> {
    /// The completion queue of its receives.
    pub cq: Link<'a>,
    /// The minimum number of outstanding receives.
    pub max_wr: u32,
    /// Scatter/gather entries of a receive.
    pub max_sge: u32,
    /// Options.
    pub flags: Flags,
    /// The user's number, which its events carry.
    pub user_handle: u64,
    /// Requests that hold several packets. They are written, and their completions read, where
    /// [`place`](WorkQueue::place) says.
    pub striding: Option<Striding>,
}

/// `ibv_wq`—a receive work queue.
#[doc(alias = "ibv_wq")]
#[derive(Debug)]
pub struct WorkQueue {
    ring: ReceiveRing,
    object: Arc<Object>,
    number: u32,
    sizes: sizes::Receive,
    tracker: Arc<QueuePairTracker>,
    cq: Arc<CqShared>,
    /// Its requests have another form than those of `ring`.
    strides: bool,
    /// The device may have started over while the ring here has not: only a reset makes them agree
    /// again.
    reset_unconfirmed: bool,
}

impl WorkQueue {
    /// `ibv_create_wq`—creates a work queue in the reset state. One system call.
    ///
    /// # Errors
    /// Limits of the device; Unsupported on devices whose completions carry no user index; those of
    /// the command.
    #[doc(alias = "ibv_create_wq")]
    pub fn create(
        context: &Context,
        pd: &ProtectionDomain,
        init: &WorkQueueInit<'_>,
    ) -> Result<Self> {
        let op = Op::CreateWorkQueue;
        context.config().require_user_index(op)?;
        if init.max_wr == 0 {
            return Err(Error::invalid(op, "max_wr").fact("min", 1_u32));
        }
        let cq = CqShared::of(op, init.cq)?;
        let limits = context.config().sizes();
        let sizes = match init.striding {
            None => sizes::Receive::new(op, &limits, init.max_wr, init.max_sge)?,
            Some(strides) => {
                let sizes = sizes::Receive::linked(op, &limits, init.max_wr, init.max_sge)?;
                strides.check(op, &context.caps().striding)?;
                sizes
            }
        };
        let os = |errno| Error::os(op, errno);
        let bytes = sizes.bytes() as usize;
        let pages = context
            .pool()
            .for_queue(pd.memory(), bytes, QueueBuffer::WorkQueue)
            .map_err(os)?;
        let ring = UnitRing::new(Part::from(pages), sizes.bytes() / UNIT)
            .ok_or_else(|| Error::new(op, ErrorKind::OutOfResources))?;
        let record = Arc::new(context.records().take().map_err(os)?);
        let receives = Receives::Own(RecvTracker::new(sizes.count));
        let tracker = QueuePairTracker::new(0, receives);
        let checks = context.device().caps.contains(DeviceCaps::RAW_IP_CSUM);
        let tracker = Arc::new(if checks {
            tracker.checksummed()
        } else {
            tracker
        });
        let owner = Owner::QueuePair(Arc::clone(&tracker));
        let registered = Registered::new(op, context.trackers(), owner)?;
        let mut driver_data = mlx5_ib_create_wq {
            buf_addr: ring.address(),
            db_addr: record.address(),
            rq_wqe_count: sizes.count,
            rq_wqe_shift: sizes.shift,
            user_index: registered.user_index(),
            ..mlx5_ib_create_wq::default()
        };
        if let Some(strides) = init.striding {
            strides.encode(&mut driver_data);
        }
        let mut reply = mlx5_ib_create_wq_resp::default();
        let create = cmd::wq::Create {
            pd: pd.object().handle(),
            cq: init.cq.object.handle(),
            max_wr: init.max_wr,
            max_sge: init.max_sge,
            flags: init.flags,
            user_handle: init.user_handle,
            event_fd: None,
        };
        let file = context.file();
        let uhw = Uhw::new(driver_data.as_bytes(), cells(&mut reply));
        let (object, created) = Object::create(
            file,
            &cmd::wq::KIND,
            [Arc::clone(pd.object()), Arc::clone(init.cq.object)],
            (ring.keep_mapped(), Arc::clone(&record)),
            || cmd::wq::create(file, &create, &uhw),
            |created| created.handle,
        )?;
        object.keep(registered.created(Reports::receives(Some(Arc::clone(&cq)))));
        tracker.set_number(created.wq_num);
        let mut queue = Self {
            ring: ReceiveRing::new(rq::Parts {
                ring,
                sizes,
                fork: file.fork_token(),
                tracker: Arc::clone(&tracker),
                record,
            }),
            object: Arc::new(object),
            number: created.wq_num,
            sizes,
            tracker,
            cq,
            strides: init.striding.is_some(),
            reset_unconfirmed: false,
        };
        #[cfg(feature = "rings")]
        queue
            .ring
            .watch(file.watched(QueueKind::Receive, queue.number));
        queue.restart();
        Ok(queue)
    }

    fn restart(&mut self) {
        let produced = self.cq.produced();
        self.tracker.restart(produced, produced);
        self.ring.reset();
    }

    /// The kernel object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The device's number of the queue.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// `mlx5dv_init_obj` with `MLX5DV_OBJ_RWQ`—where its requests are.
    #[doc(alias = "mlx5dv_init_obj")]
    pub fn place(&self) -> Place {
        self.ring.place()
    }

    /// Outstanding receives, and scatter/gather entries of each.
    pub fn size(&self) -> (u32, u32) {
        (self.sizes.count, self.sizes.max_sge)
    }

    /// `ibv_modify_wq`—changes its state. One system call.
    ///
    /// # Errors
    /// EINVAL: it is in another state, or the transition is illegal.
    /// [`InvalidState`](ErrorKind::InvalidState): the outcome of an earlier reset is unknown; only
    /// another reset is possible.
    #[doc(alias = "ibv_modify_wq")]
    pub fn modify(&mut self, from: State, to: State) -> Result<()> {
        self.change(&Modify {
            state: Some(to),
            current: Some(from),
            flags: None,
        })
    }

    /// `ibv_modify_wq` with `IBV_WQ_ATTR_FLAGS`—turns those of its options on or off that are in
    /// `which`. One system call.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) (EOPNOTSUPP): the device does not have an option, or
    /// it cannot change (of the present ones, VLAN stripping can). As [`modify`](Self::modify).
    #[doc(alias = "IBV_WQ_ATTR_FLAGS")]
    pub fn set_options(&mut self, options: Flags, which: Flags) -> Result<()> {
        self.change(&Modify {
            flags: Some((options, which)),
            ..Modify::default()
        })
    }

    /// Both at once.
    ///
    /// # Errors
    /// As [`modify`](Self::modify) and [`set_options`](Self::set_options).
    #[doc(hidden)] // The facade has them apart.
    pub fn change(&mut self, request: &Modify) -> Result<()> {
        let op = Op::ModifyWorkQueue;
        let resets = request.state == Some(State::Reset);
        let file = self.object.file();
        file.check_process(op)?;
        if self.reset_unconfirmed && !resets {
            return Err(Error::new(op, ErrorKind::InvalidState)
                .fact("state", "unknown: a reset failed")
                .hint("reset or destroy the work queue"));
        }
        // As for a queue pair: the device and the ring start over together.
        let before = self.reset_unconfirmed;
        self.reset_unconfirmed |= resets;
        let driver_data = mlx5_ib_modify_wq::default();
        let uhw = Uhw::new(driver_data.as_bytes(), &[]);
        let changed = cmd::wq::modify(file, self.object.handle(), request, &uhw);
        if let Err(error) = changed {
            if !error.outcome_is_unknown() {
                self.reset_unconfirmed = before;
            } else if resets {
                self.ring.set_ready(false);
            }
            return Err(error);
        }
        if resets {
            self.restart();
            self.reset_unconfirmed = false;
        }
        if request.state.is_some() {
            self.ring.set_ready(!resets);
        }
        Ok(())
    }

    /// Puts one receive request into the queue, invisible to the device until
    /// [`submit`](Self::submit).
    ///
    /// # Errors
    /// As for the receive queue of a queue pair. UnsupportedOperation: of a queue with strides.
    ///
    /// # Safety
    /// As for the receive queue of a queue pair.
    #[doc(alias = "ibv_post_wq_recv")]
    #[allow(unsafe_code, reason = "names memory that a device will write to")]
    #[inline]
    pub unsafe fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        if self.strides {
            return Err(PostError::UnsupportedOperation);
        }
        self.ring.put(request)
    }

    /// Submits all requests that were put.
    ///
    /// # Errors
    /// [`PostError::Forked`]; the requests were then taken back.
    #[inline]
    pub fn submit(&mut self) -> Result<(), PostError> {
        self.ring.submit()
    }

    /// Takes back all requests that were put and not submitted.
    pub fn abort(&mut self) {
        self.ring.abort();
    }
}

/// `ibv_rwq_ind_table`—a table of work queues.
#[doc(alias = "ibv_rwq_ind_table")]
#[derive(Debug)]
pub struct IndirectionTable {
    object: Arc<Object>,
    number: u32,
}

impl IndirectionTable {
    /// `ibv_create_rwq_ind_table`—creates a table of work queues, whose number is a power of two.
    /// One system call.
    ///
    /// # Errors
    /// Another number, and those of the command.
    #[doc(alias = "ibv_create_rwq_ind_table")]
    pub fn create(context: &Context, queues: &[&WorkQueue]) -> Result<Self> {
        Self::of_objects(
            context,
            queues.iter().map(|queue| Arc::clone(&queue.object)),
        )
    }

    /// The same, of the objects of work queues, which may be behind locks.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn of_objects(
        context: &Context,
        queues: impl IntoIterator<Item = Arc<Object>>,
    ) -> Result<Self> {
        let queues: Vec<_> = queues.into_iter().collect();
        if !queues.len().is_power_of_two() {
            return Err(Error::invalid(Op::CreateIndirectionTable, "queues")
                .fact("requested", queues.len())
                .hint("a power of two"));
        }
        let handles: Vec<u32> = queues.iter().map(|queue| queue.handle()).collect();
        let mut reply = mlx5_ib_create_rwq_ind_tbl_resp::default();
        let file = context.file();
        let uhw = Uhw::new(&[], cells(&mut reply));
        let created = cmd::ind_table::create(file, &handles, &uhw)?;
        let object = Object::new(file, &cmd::ind_table::KIND, created.handle, queues);
        Ok(Self {
            object: Arc::new(object),
            number: created.number,
        })
    }

    /// The kernel object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The device's number of the table.
    pub fn number(&self) -> u32 {
        self.number
    }
}

#[cfg(test)]
mod tests;
