//! A kernel to test with: the uverbs core and an rxe device, in this process.
//!
//! [`FakeKernel`] carries out [`Call`]s as Linux would: it checks attributes against the core's
//! tables, keeps objects and their uses, hands out descriptors that can be polled, shares queues
//! with the process, and moves data between queue pairs when the doorbell rings. So the whole
//! stack runs on it without a device and without privileges, under Miri too.
//!
//! It can also be wrong on purpose. [`FakeKernel::inject`] makes calls fail or lie, the queues can
//! be overwritten through [`FakeKernel::ring`], events can be made up, and the device can be taken
//! away.
//!
//! [`FakeKernel::with_device`] answers as another device's kernel did ([`DeviceProfile`]), as far
//! as a program asks what is there. Queues are rxe's alone.
//!
//! Its device reads and writes registered memory as a real one does. So it is no less dangerous to
//! call ([`Kernel::call`]), and what makes it lie about the end of an object, or puts requests and
//! completions into queues, is `unsafe`.
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
//! | `profile`, `feature` | which kernel it is, and what kernels have since when |
//! | `device_profile`, `device_text` | which device it is, if not its own, and how that is read from a file |
//! | `schema`, `args`, `ioctl`, `legacy` | commands: generic checks, then dispatch |
//! | `device`, `pd`, `mr`, `mw`, `ah`, `cq`, `srq`, `qp`, `modify` | one kernel object each |
//! | `files`, `event` | descriptors and events |
//! | `ring`, `engine` | shared queues, and the device that works them off |
//! | `fault`, `seen`, `operation` | scripted faults, and what was asked |

mod ah;
mod args;
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
pub use seen::{Asked, Seen};
pub use state::AfterRemoval;

use self::fault::Struck;
use self::files::{Event, FileId, Role, is_nonblocking};
use self::state::{Kind, State};
use uverbs_core::error::{Errno, Error, Op, Result};
use uverbs_core::sys::{Call, CharDevice, Kernel, Protection, Reply};
use uverbs_core::types::DriverId;

/// A kernel with one rxe device. Clones are the same kernel.
#[derive(Clone)]
pub struct FakeKernel {
    shared: Arc<SharedState>,
}

struct SharedState {
    state: Mutex<State>,
    changed: Condvar,
    /// How many wait for that. It changes under the lock.
    waiting: AtomicU32,
}

/// Objects that exist.
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

    /// The kernel of a device that was found elsewhere: it answers as that one did to who opens the
    /// device and asks for its attributes and its ports. Domains and regions are there. If the
    /// driver is another than rxe, what has queues is not (EOPNOTSUPP), nor are the driver's own
    /// methods.
    pub fn with_device(device: DeviceProfile) -> Self {
        let fake = Self::new(device.kernel);
        fake.lock().device = Some(Arc::new(device));
        fake
    }

    /// The state after the files that the process closed were closed here too.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.as_it_is();
        state.reap();
        state
    }

    /// The state without a look at what the process closed.
    fn as_it_is(&self) -> MutexGuard<'_, State> {
        // A panic of a test thread must not hide what the others find.
        let locked = self.shared.state.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those who wait for events. The state is locked.
    fn wake(&self) {
        if self.shared.waiting.load(Ordering::Relaxed) != 0 {
            self.shared.changed.notify_all();
        }
    }

    /// Opens the device, as `open(2)` of `/dev/infiniband/uverbs0` would.
    ///
    /// # Errors
    /// EIO after the device was removed; EMFILE and the like of the pipe behind it.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        let mut state = self.lock();
        if state.removed.is_some() {
            return Err(Errno::IO);
        }
        Ok(state.files.open(Role::Device)?.1)
    }

    /// Lets `effect` strike the calls that `when` says. Several can be set; they add up.
    ///
    /// # Safety
    /// 1. What the fake says of an object's end or reset, when it is struck, lets nobody free or
    ///    reach memory that the fake still has registered: the memory stays allocated, and no
    ///    reference contradicts what the fake's device does with it.
    /// 2. Rewritten replies name no descriptor that the fake did not make for that very reply.
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

    /// Forgets all faults.
    pub fn clear_faults(&self) {
        self.lock().script.clear();
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.as_it_is().calls
    }

    /// Every call there was, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.lock().seen.clone()
    }

    /// Which kernel it is.
    pub fn profile(&self) -> Profile {
        self.lock().profile
    }

    /// Makes it another kernel from now on: a way to lose the right to `write(2)`, say.
    pub fn become_profile(&self, profile: Profile) {
        self.lock().profile = profile;
    }

    /// What exists: closing a descriptor for the last time has ended what belonged to it. As long
    /// as another process looks at the descriptor (`/proc/PID/fd`), it is not closed.
    pub fn objects(&self) -> Objects {
        let state = self.lock();
        Objects {
            contexts: state.contexts.len(),
            event_files: state
                .files
                .iter()
                .filter(|file| file.role != Role::Device)
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

    /// Numbers of the queue pairs there are.
    pub fn queue_pairs(&self) -> Vec<u32> {
        self.lock().qps.keys().copied().collect()
    }

    /// The memory of a queue, to overwrite it as a hostile kernel or process would.
    ///
    /// # Safety
    /// 1. Requests that are written into it name memory that its owner may let the fake's device
    ///    use.
    /// 2. Completions that are written into it let nobody free or reach memory that the fake's
    ///    device still uses.
    #[expect(unsafe_code, reason = "who writes a queue commands the device")]
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

    /// Takes the device away, as a hot-unplug does: waiting events can be read, then everything
    /// answers EIO.
    pub fn remove_device(&self, after: AfterRemoval) {
        event::remove_device(&mut self.lock(), after);
        self.wake();
    }

    /// Stops (or resumes) the device: requests are taken, but nothing moves or completes.
    pub fn freeze(&self, frozen: bool) {
        let mut state = self.as_it_is();
        state.frozen = frozen;
        if !frozen {
            let ids: Vec<u32> = state.qps.keys().copied().collect();
            for id in ids {
                engine::run(&mut state, id);
            }
        }
        self.wake();
    }

    /// Writes `byte` everywhere the device may still write: the memory of all receives, reads and
    /// atomics that are posted and not completed. Returns how many bytes; none once it was taken
    /// away.
    pub fn scribble(&self, byte: u8) -> u64 {
        engine::scribble(&self.as_it_is(), byte)
    }

    /// Waits for an event and copies it out, as `read(2)` does.
    fn read(
        &self,
        fd: BorrowedFd<'_>,
        buffer: &[Cell<u8>],
        struck: &Struck,
    ) -> Result<usize, Errno> {
        let mut state = self.lock();
        let id = state.files.of_fd(fd)?.id;
        loop {
            let file = state.files.get_mut(id).ok_or(Errno::BADF)?;
            if file.role == Role::Device {
                return Err(Errno::INVAL);
            }
            if let Some(event) = file.queue.front()
                && event.bytes.len() > buffer.len()
            {
                return Err(Errno::INVAL);
            }
            if let Some(event) = file.pop(fd) {
                return Ok(hand_over(&mut state, event, buffer, struck));
            }
            if file.is_closed() {
                return Err(Errno::IO);
            }
            if is_nonblocking(fd) {
                return Err(Errno::AGAIN);
            }
            self.shared.waiting.fetch_add(1, Ordering::Relaxed);
            let woken = self.shared.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn hand_over(state: &mut State, event: Event, buffer: &[Cell<u8>], struck: &Struck) -> usize {
    let mut bytes = event.bytes;
    struck.alter(0, &mut bytes);
    let len = struck.read_len(bytes.len());
    for (cell, byte) in buffer.iter().zip(&bytes).take(len) {
        cell.set(*byte);
    }
    if let Some(owner) = event.owner {
        event::count(state, owner);
    }
    len
}

/// `mmap(2)`: each announced queue can be mapped once, by the file it was announced to.
fn map(
    state: &mut State,
    file: FileId,
    offset: u64,
    len: usize,
    struck: &Struck,
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
    for (offset, word) in struck.pokes() {
        pending.memory.store(offset, word);
    }
    Ok(Reply::Mapped(pending.memory.map(struck.map_len(len))))
}

#[expect(unsafe_code, reason = "promises fresh descriptors")]
// SAFETY: every descriptor it hands out was just made and is given away with its ownership.
unsafe impl Kernel for FakeKernel {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        let (struck, number) = {
            let mut state = self.lock();
            let number = state.calls;
            state.calls += 1;
            state.seen.push(Seen {
                asked: Asked::of(&call),
                answer: Ok(()),
            });
            (state.script.strike(number, &call), number)
        };
        let answer = self.answer(fd, call, &struck);
        if let (Err(errno), Ok(number)) = (&answer, usize::try_from(number))
            && let Some(seen) = self.as_it_is().seen.get_mut(number)
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
    fn answer(&self, fd: BorrowedFd<'_>, call: Call<'_>, struck: &Struck) -> Result<Reply, Errno> {
        if let Some(errno) = struck.error() {
            return Err(errno);
        }
        if struck.pretends() {
            return Ok(match call {
                Call::Read(buffer) => Reply::Read(struck.read_len(buffer.len())),
                _ => Reply::Done,
            });
        }
        if let Call::Read(buffer) = call {
            return self.read(fd, buffer, struck).map(Reply::Read);
        }
        let mut state = self.as_it_is();
        let file = state.files.of_fd(fd)?;
        // Event files have no ioctl, write or mmap.
        let id = match file.role.context() {
            None => file.id,
            Some(_) => return Err(Errno::INVAL),
        };
        let answer = match call {
            Call::Ioctl(command) => {
                ioctl::run(&mut state, id, command, struck).map(|()| Reply::Done)
            }
            Call::Write(command) => {
                legacy::write(&mut state, id, command, struck).map(|()| Reply::Done)
            }
            Call::Map {
                protection: Protection::Write,
                ..
            } => Err(Errno::PERM),
            Call::Map { offset, len, .. } => map(&mut state, id, offset, len, struck),
            Call::Read(_) => Err(Errno::INVAL),
        };
        engine::progress(&mut state);
        self.wake();
        answer
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
