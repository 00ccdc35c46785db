//! The fake kernel as tests control it.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use uverbs_core::error::{Errno, Error, Op, Result};

use crate::device_profile::DeviceProfile;
use crate::fault::{Effect, When};
use crate::files::Role;
use crate::profile::Profile;
use crate::ring::RingView;
use crate::seen::Seen;
use crate::state::{AfterRemoval, Kind, State};
use crate::{engine, event};

/// A kernel with one rxe device. Clones are the same kernel.
#[derive(Clone)]
pub struct FakeKernel {
    pub(crate) shared: Arc<SharedState>,
}

pub(crate) struct SharedState {
    state: Mutex<State>,
    pub(crate) changed: Condvar,
    /// Number of threads that wait for events. Changed only under the lock.
    pub(crate) waiting: AtomicU32,
}

/// Numbers of existing objects.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Objects {
    /// Opened devices with a context.
    pub contexts: usize,
    /// Descriptors for events and completions.
    pub event_files: usize,
    /// Protection domains.
    pub pds: usize,
    /// Memory regions.
    pub mrs: usize,
    /// Memory windows.
    pub mws: usize,
    /// Completion queues.
    pub cqs: usize,
    /// Queue pairs.
    pub qps: usize,
    /// Shared receive queues.
    pub srqs: usize,
    /// Address handles.
    pub ahs: usize,
}

impl Objects {
    /// All of them together.
    pub fn total(&self) -> usize {
        let Self {
            contexts,
            event_files,
            pds,
            mrs,
            mws,
            cqs,
            qps,
            srqs,
            ahs,
        } = self;
        contexts + event_files + pds + mrs + mws + cqs + qps + srqs + ahs
    }
}

/// Names a queue: by queue pair number, shared receive queue number, or the number of the
/// completion queue counted from 1 in the order of creation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RingOf {
    /// A completion queue.
    Cq(u32),
    /// A send queue.
    Send(u32),
    /// A receive queue.
    Receive(u32),
    /// A shared receive queue.
    Srq(u32),
}

/// Names an object that reports events, by the numbers of [`RingOf`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// A completion queue.
    Cq(u32),
    /// A queue pair.
    Qp(u32),
    /// A shared receive queue.
    Srq(u32),
    /// The device (0) or a port, or any other element.
    Element(u64),
}

impl FakeKernel {
    /// A kernel as `profile` says, with no file open.
    pub fn new(profile: Profile) -> Self {
        Self {
            shared: Arc::new(SharedState {
                state: Mutex::new(State::new(profile)),
                changed: Condvar::new(),
                waiting: AtomicU32::new(0),
            }),
        }
    }

    /// The kernel of a device whose answers were recorded elsewhere: it returns them for opening
    /// the device and querying its attributes and ports. Protection domains and memory regions
    /// work. If the driver is not rxe, objects with queues do not (EOPNOTSUPP), nor do
    /// driver-specific methods.
    pub fn with_device(device: DeviceProfile) -> Self {
        let fake = Self::new(device.kernel);
        fake.lock().device = Some(Arc::new(device));
        fake
    }

    /// Locks the state, after reaping the files that the process has closed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock_without_reaping();
        state.reap();
        state
    }

    /// Locks the state without reaping files that the process has closed.
    pub(crate) fn lock_without_reaping(&self) -> MutexGuard<'_, State> {
        // A panic in one test thread must not hide the failures of others.
        let locked = self.shared.state.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes threads that wait for events. The caller holds the lock.
    pub(crate) fn wake(&self) {
        if self.shared.waiting.load(Ordering::Relaxed) != 0 {
            self.shared.changed.notify_all();
        }
    }

    /// Opens the device, as `open(2)` of `/dev/infiniband/uverbs0` would.
    ///
    /// # Errors
    /// EIO after the device was removed; EMFILE and other errnos of creating a pipe.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        let mut state = self.lock();
        if state.removed.is_some() {
            return Err(Errno::IO);
        }
        Ok(state.files.open(Role::Device)?.1)
    }

    /// Opens the connection manager, as `open(2)` of `/dev/infiniband/rdma_cm` would.
    ///
    /// The device has the addresses 10.0.0.1 and fe80::2fa:ceff:fe00:1. Ids with these addresses
    /// connect to each other.
    ///
    /// # Errors
    /// EMFILE and other errnos of creating a pipe.
    pub fn open_connection_manager(&self) -> Result<OwnedFd, Errno> {
        Ok(self.lock().files.open(Role::ConnectionManager)?.1)
    }

    /// Makes the device one of iWARP, for the connection manager: its driver moves queue pairs when
    /// they are connected. It still has rxe's queues. To be called before anything is opened.
    pub fn speak_iwarp(&self) {
        self.lock().cm.is_iwarp = true;
    }

    /// Number of ids of the connection manager, including those for unread requests.
    pub fn connection_ids(&self) -> usize {
        self.lock().cm.len()
    }

    /// Injects `effect` into the calls that `when` selects. Several faults can be active at the
    /// same time.
    ///
    /// # Safety
    /// 1. What the fake then falsely reports about an object's destruction or reset causes no code
    ///    to free or access memory that the fake still has registered: the memory stays allocated,
    ///    and no reference conflicts with the accesses of the fake's device.
    /// 2. Rewritten replies contain no descriptor that the fake did not create for that very reply.
    #[expect(unsafe_code, reason = "a kernel that lies about memory breaks it")]
    pub unsafe fn inject(&self, when: When, effect: Effect) {
        self.lock().script.add(when, effect);
    }

    /// Refuses every call of an operation with `errno` from now on, and carries none of them out.
    ///
    /// It lasts until [`clear_faults`](Self::clear_faults). Unlike what [`inject`](Self::inject)
    /// can do, this is no lie: whatever the program makes of it, it stays sound.
    ///
    /// ```
    /// use uverbs_core::{Errno, Op};
    /// use uverbs_fake::{FakeKernel, Profile};
    ///
    /// let fake = FakeKernel::new(Profile::v6_12());
    /// // As if the limit of locked memory was reached (`ulimit -l`).
    /// fake.refuse(Op::RegisterMemory, Errno::NOMEM)?;
    /// # Ok::<(), uverbs_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](uverbs_core::ErrorKind::InvalidInput) for EIO and ENOLINK, which say that
    /// the device is gone: that is [`remove_device`](Self::remove_device).
    pub fn refuse(&self, operation: Op, errno: Errno) -> Result<()> {
        if matches!(errno, Errno::IO | Errno::NOLINK) {
            let error = Error::invalid(operation, "errno")
                .fact("errno", errno.raw_os_error().unsigned_abs());
            return Err(error.hint("take the device away instead: FakeKernel::remove_device"));
        }
        let (when, effect) = (When::Operation(operation), Effect::Fail(errno));
        self.lock().script.add(when, effect);
        Ok(())
    }

    /// Removes all injected faults.
    pub fn clear_faults(&self) {
        self.lock().script.clear();
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        self.lock_without_reaping().calls
    }

    /// All calls so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.lock().seen.clone()
    }

    /// The profile of the kernel that it imitates.
    pub fn profile(&self) -> Profile {
        self.lock().profile
    }

    /// Makes it imitate another kernel from now on, for example one that refuses `write(2)`.
    pub fn become_profile(&self, profile: Profile) {
        self.lock().profile = profile;
    }

    /// The existing objects. Objects of a descriptor are gone once its last copy was closed. While
    /// another process inspects the descriptor (`/proc/PID/fd`), it is not closed.
    pub fn objects(&self) -> Objects {
        let state = self.lock();
        Objects {
            contexts: state.contexts.len(),
            event_files: state
                .files
                .iter()
                .filter(|file| file.role.context().is_some())
                .count(),
            pds: state.pds.len(),
            mrs: state.mrs.len(),
            mws: state.mws.len(),
            cqs: state.cqs.len(),
            qps: state.qps.len(),
            srqs: state.srqs.len(),
            ahs: state.ahs.len(),
        }
    }

    /// The numbers of all queue pairs.
    pub fn queue_pairs(&self) -> Vec<u32> {
        self.lock().qps.keys().copied().collect()
    }

    /// The memory of a queue, to overwrite it as a hostile kernel or process would.
    ///
    /// # Safety
    /// 1. Requests that are written to it name only memory that the caller may let the fake's
    ///    device access.
    /// 2. Completions that are written to it cause no code to free or access memory that the fake's
    ///    device still uses.
    #[expect(
        unsafe_code,
        reason = "writing to a queue makes the device access memory"
    )]
    pub unsafe fn ring(&self, which: RingOf) -> Option<RingView> {
        let state = self.lock();
        let ring = match which {
            RingOf::Cq(id) => &state.cqs.get(&id)?.ring,
            RingOf::Send(id) => &state.qps.get(&id)?.sq,
            RingOf::Receive(id) => state.qps.get(&id)?.rq.as_ref()?,
            RingOf::Srq(id) => &state.srqs.get(&id)?.ring,
        };
        Some(RingView(Arc::clone(&ring.memory)))
    }

    /// Reports an asynchronous event of type `event_type` (`IB_EVENT_*`, or any other number).
    pub fn raise(&self, source: Source, event_type: u32) {
        let mut state = self.lock();
        match source {
            Source::Cq(id) => event::raise(&mut state, Kind::Cq, id, event_type),
            Source::Qp(id) => event::raise(&mut state, Kind::Qp, id, event_type),
            Source::Srq(id) => event::raise(&mut state, Kind::Srq, id, event_type),
            Source::Element(element) => event::broadcast(&mut state, element, event_type),
        }
        self.wake();
    }

    /// Removes the device, as a hot-unplug does: pending events can be read, then every call fails
    /// with EIO.
    pub fn remove_device(&self, after: AfterRemoval) {
        event::remove_device(&mut self.lock(), after);
        self.wake();
    }

    /// Stops (or resumes) the device: requests are accepted, but no data is transferred and nothing
    /// completes.
    pub fn freeze(&self, frozen: bool) {
        let mut state = self.lock_without_reaping();
        state.frozen = frozen;
        if !frozen {
            let ids: Vec<u32> = state.qps.keys().copied().collect();
            for id in ids {
                engine::run(&mut state, id);
            }
        }
        self.wake();
    }

    /// Writes `byte` wherever the device may still write: the memory of all receives, reads and
    /// atomics that are posted and not completed. Returns the number of bytes, which is 0 once the
    /// device was removed.
    pub fn scribble(&self, byte: u8) -> u64 {
        engine::scribble(&self.lock_without_reaping(), byte)
    }
}

impl fmt::Debug for FakeKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        write!(
            f,
            "FakeKernel({:?}, {} calls)",
            state.profile.version(),
            state.calls
        )
    }
}
