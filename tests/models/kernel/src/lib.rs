//! A fake kernel for tests: the uverbs core and an rxe device, in this process.
//!
//! [`FakeKernel`] carries out [`Call`]s as Linux would: it checks attributes against the core's
//! tables, keeps track of objects and their uses, returns descriptors that can be polled, shares
//! queues with the process, and transfers data between queue pairs when a doorbell rings. So the
//! whole stack runs on it without a device and without privileges, even under Miri.
//!
//! It can also misbehave on purpose: [`FakeKernel::inject`] makes calls fail or return wrong
//! results, the queues can be overwritten through [`FakeKernel::ring`], events can be injected, and
//! the device can be removed.
//!
//! [`FakeKernel::with_device`] answers queries as the kernel of another device did
//! ([`DeviceProfile`]). Only rxe devices have queues.
//!
//! Its device reads and writes registered memory as a real one does. So [`Kernel::call`] is as
//! unsafe as for a real kernel, and so are functions that make it lie about the destruction of an
//! object, or that put requests and completions into queues.
//!
//! ```
//! use std::sync::Arc;
//! use uverbs_fake::{FakeKernel, Profile};
//! use uverbs_core::{CommandPath, UverbsFile};
//! use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fake = FakeKernel::new(Profile::v6_1());
//! let (kernel, fd) = (Arc::new(fake.clone()), fake.open()?);
//! // SAFETY: (1) the descriptor is of the fake's device; (2, 3) no command is issued.
//! let file = unsafe { UverbsFile::new(kernel, fd, RDMA_DRIVER_RXE, CommandPath::Auto) };
//! # drop(file);
//! # Ok(())
//! # }
//! ```
//!
//! | file | what |
//! |---|---|
//! | `profile`, `feature` | the kernel version it imitates, and which version introduced what |
//! | `device_profile`, `device_text` | another device that it imitates, and parsing its description |
//! | `schema`, `args`, `ioctl`, `legacy` | commands: generic checks, then dispatch |
//! | `device`, `pd`, `mr`, `mw`, `ah`, `cq`, `srq`, `qp`, `modify` | one kernel object each |
//! | `files`, `event` | descriptors and events |
//! | `cm` | the connection manager: both ends of connections by address |
//! | `ring`, `engine` | shared queues, and the device that processes them |
//! | `fault`, `seen`, `operation` | injected faults, and a log of calls |

mod ah;
mod args;
mod cm;
mod cq;
mod device;
mod device_profile;
mod device_text;
mod engine;
mod event;
mod fault;
mod feature;
mod files;
mod info;
mod ioctl;
mod legacy;
mod modify;
mod mr;
mod mw;
mod operation;
mod pd;
mod profile;
mod qp;
mod ring;
mod schema;
mod seen;
mod srq;
mod state;

use std::cell::Cell;
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub use device_profile::DeviceProfile;
pub use device_text::ProfileError;
pub use fault::{Effect, Rewrite, When};
pub use feature::Feature;
pub use profile::Profile;
pub use ring::RingView;
pub use seen::{CallKind, Seen};
pub use state::AfterRemoval;

use self::fault::ActiveFaults;
use self::files::{Event, FileId, Role, is_nonblocking};
use self::state::{Kind, State};
use uverbs_core::error::{Errno, Error, Op, Result};
use uverbs_core::sys::{Call, CharDevice, CmCommand, Kernel, Protection, Reply};
use uverbs_core::types::DriverId;
use uverbs_uapi::rdma_user_cm::RDMA_USER_CM_CMD_GET_EVENT;

/// A kernel with one rxe device. Clones are the same kernel.
#[derive(Clone)]
pub struct FakeKernel {
    shared: Arc<SharedState>,
}

struct SharedState {
    state: Mutex<State>,
    changed: Condvar,
    /// Number of threads that wait for events. Changed only under the lock.
    waiting: AtomicU32,
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
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock_without_reaping();
        state.reap();
        state
    }

    /// Locks the state without reaping files that the process has closed.
    fn lock_without_reaping(&self) -> MutexGuard<'_, State> {
        // A panic in one test thread must not hide the failures of others.
        let locked = self.shared.state.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes threads that wait for events. The caller holds the lock.
    fn wake(&self) {
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

    /// Waits for an event and copies it out, as `read(2)` does.
    fn read(
        &self,
        fd: BorrowedFd<'_>,
        buffer: &[Cell<u8>],
        faults: &ActiveFaults,
    ) -> Result<usize, Errno> {
        let mut state = self.lock();
        let id = state.files.of_fd(fd)?.id;
        loop {
            let file = state.files.get_mut(id).ok_or(Errno::BADF)?;
            if matches!(file.role, Role::Device | Role::ConnectionManager) {
                return Err(Errno::INVAL);
            }
            if let Some(event) = file.queue.front()
                && event.bytes.len() > buffer.len()
            {
                return Err(Errno::INVAL);
            }
            if let Some(event) = file.pop(fd) {
                return Ok(deliver_event(&mut state, event, buffer, faults));
            }
            if file.is_closed() {
                return Err(Errno::IO);
            }
            if is_nonblocking(fd) {
                return Err(Errno::AGAIN);
            }
            state = self.wait(state);
        }
    }

    /// Waits until something changes.
    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let woken = self.shared.changed.wait(state);
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        woken.unwrap_or_else(PoisonError::into_inner)
    }
}

fn deliver_event(
    state: &mut State,
    event: Event,
    buffer: &[Cell<u8>],
    faults: &ActiveFaults,
) -> usize {
    let mut bytes = event.bytes;
    faults.alter(0, &mut bytes);
    let len = faults.read_len(bytes.len());
    for (cell, byte) in buffer.iter().zip(&bytes).take(len) {
        cell.set(*byte);
    }
    if let Some(owner) = event.owner {
        event::count(state, owner);
    }
    len
}

/// `mmap(2)`: each announced queue can be mapped once, through the file to which it was announced.
fn map(
    state: &mut State,
    file: FileId,
    offset: u64,
    len: usize,
    faults: &ActiveFaults,
) -> Result<Reply, Errno> {
    if state.removed.is_some() {
        return Err(Errno::IO);
    }
    state.context(file)?;
    let at = state
        .pending
        .iter()
        .position(|pending| pending.file == file && pending.offset == offset)
        .filter(|_| len != 0)
        .ok_or(Errno::INVAL)?;
    if len
        > state
            .pending
            .get(at)
            .map_or(0, |pending| pending.size as usize)
    {
        return Err(Errno::INVAL);
    }
    let pending = state.pending.swap_remove(at);
    for (offset, word) in faults.pokes() {
        pending.memory.store(offset, word);
    }
    Ok(Reply::Mapped(pending.memory.map(faults.map_len(len))))
}

#[expect(unsafe_code, reason = "promises fresh descriptors")]
// SAFETY: every descriptor that it returns was just created, and its ownership is passed on.
unsafe impl Kernel for FakeKernel {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        let (faults, number) = {
            let mut state = self.lock();
            let number = state.calls;
            state.calls += 1;
            state.seen.push(Seen {
                call: CallKind::of(&call),
                answer: Ok(()),
            });
            (state.script.matching(number, &call), number)
        };
        let answer = self.answer(fd, call, &faults);
        if let (Err(errno), Ok(number)) = (&answer, usize::try_from(number))
            && let Some(seen) = self.lock_without_reaping().seen.get_mut(number)
        {
            seen.answer = Err(*errno);
        }
        answer
    }

    fn check_device(
        &self,
        fd: BorrowedFd<'_>,
        _: Option<CharDevice>,
        driver: Option<DriverId>,
    ) -> Result<()> {
        let op = Op::OpenDevice;
        let state = self.lock();
        let file = state.files.of_fd(fd).map(|file| file.role);
        if file != Ok(Role::Device) {
            return Err(Error::invalid(op, "the file").fact("expected", "a device of this kernel"));
        }
        match driver {
            Some(driver) if driver != state.driver() => {
                Err(Error::os(op, Errno::INVAL).fact("driver", driver.to_string()))
            }
            _ => Ok(()),
        }
    }
}

impl FakeKernel {
    fn answer(
        &self,
        fd: BorrowedFd<'_>,
        call: Call<'_>,
        faults: &ActiveFaults,
    ) -> Result<Reply, Errno> {
        if let Some(errno) = faults.error() {
            return Err(errno);
        }
        if faults.pretends() {
            return Ok(match call {
                Call::Read(buffer) => Reply::Read(faults.read_len(buffer.len())),
                _ => Reply::Done,
            });
        }
        if let Call::Read(buffer) = call {
            return self.read(fd, buffer, faults).map(Reply::Read);
        }
        if let Call::Cm(command) = call {
            return self.manage(fd, command, faults).map(|()| Reply::Done);
        }
        let mut state = self.lock_without_reaping();
        let file = state.files.of_fd(fd)?;
        // The connection manager understands no other call, whatever its bytes.
        if file.role == Role::ConnectionManager {
            return Err(Errno::INVAL);
        }
        // Event files have no ioctl, write or mmap.
        let id = match file.role.context() {
            None => file.id,
            Some(_) => return Err(Errno::INVAL),
        };
        let answer = match call {
            Call::Ioctl(command) => {
                ioctl::run(&mut state, id, command, faults).map(|()| Reply::Done)
            }
            Call::Write(command) => {
                legacy::write(&mut state, id, command, faults).map(|()| Reply::Done)
            }
            Call::Map {
                protection: Protection::Write,
                ..
            } => Err(Errno::PERM),
            Call::Map { offset, len, .. } => map(&mut state, id, offset, len, faults),
            Call::Read(_) | Call::Cm(_) => Err(Errno::INVAL),
        };
        engine::progress(&mut state);
        self.wake();
        answer
    }
}

impl FakeKernel {
    /// A command of the connection manager.
    fn manage(
        &self,
        fd: BorrowedFd<'_>,
        command: &CmCommand<'_>,
        faults: &ActiveFaults,
    ) -> Result<(), Errno> {
        let mut state = self.lock();
        let file = state.files.of_fd(fd)?;
        if file.role != Role::ConnectionManager {
            return Err(Errno::INVAL);
        }
        let id = file.id;
        if command.command != RDMA_USER_CM_CMD_GET_EVENT {
            let answer = cm::run(&mut state, id, command, faults);
            self.wake();
            return answer;
        }
        cm::check(&state, command)?;
        loop {
            let file = state.files.get_mut(id).ok_or(Errno::BADF)?;
            if let Some(event) = file.pop(fd) {
                cm::deliver(&mut state, &event, command, faults);
                return Ok(());
            }
            if is_nonblocking(fd) {
                return Err(Errno::AGAIN);
            }
            state = self.wait(state);
        }
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
