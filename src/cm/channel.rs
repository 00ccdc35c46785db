//! The event channel: a file, the ids on it, and waiting for their events.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use uverbs_core::cm::{self, CmFile, Event};
use uverbs_core::discover::DeviceInfo;
use uverbs_core::{ErrorKind, Op, Result};

use super::attend::Attendant;
use super::known::Known;
use super::reaper::Reaper;
use super::table::{Remains, Table, Takes};
use crate::discover;
use crate::kernel::Kernel;
use crate::recorder::Sink;
use crate::waiters::wake_all;

/// `rdma_event_channel`—an opened connection manager, where the events of any number of ids arrive.
///
/// [`Listener::bind`](super::Listener::bind) and [`connect`](super::connect) open one of their own;
/// programs with many connections share one. Cheap to clone; the file is closed when no clone, and
/// nothing made from one, is left. Any number of threads and tasks may wait on one channel.
///
/// The kernel takes commands only from the process that opened the channel, while it has the
/// credentials that it had then: open it after `setuid`, and again after `fork`.
#[doc(alias = "rdma_event_channel")]
#[derive(Clone, Debug)]
pub struct EventChannel {
    pub(super) shared: Arc<Channel>,
}

/// How an event channel is opened.
///
/// ```no_run
/// use uverbs::cm;
///
/// let channel = cm::ChannelOptions::new().open()?;
/// # Ok::<(), uverbs::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ChannelOptions {
    recorder: Option<Arc<dyn Sink>>,
    discover: discover::Options,
}

#[derive(Debug)]
pub(crate) struct Channel {
    /// Declared before the reaper: it has the file, too, and is the last to close it.
    file: Arc<CmFile>,
    reaper: Reaper,
    state: Mutex<State>,
    /// Somebody who waited for the file is done, or there are new events.
    changed: Condvar,
    /// Whether tasks take events as well. They wake no thread that waits for the file.
    has_tasks: AtomicBool,
    /// The thread that waits for the file, if there is one for that alone.
    attendant: Attendant,
    known: Arc<Known>,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    /// Whether a thread waits for the file: it takes the events of all.
    is_attended: bool,
    /// How many threads wait for `changed`; to wake nobody would cost a system call.
    sleepers: usize,
}

/// How long a thread waits for the file, at most, when tasks may take its event meanwhile.
const SLICE: Duration = Duration::from_millis(10);

/// As good as forever: the wait is repeated.
const DAY: Duration = Duration::from_secs(86_400);

impl EventChannel {
    /// `rdma_create_event_channel`—opens the connection manager. About six system calls; none
    /// waits.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`NotFound`](ErrorKind::NotFound) | no `/dev/infiniband/rdma_cm`: the module `rdma_ucm` is not loaded, or the container does not have the device |
    /// | [`PermissionDenied`](ErrorKind::PermissionDenied) | the node's mode, or a device cgroup |
    /// | [`Unsupported`](ErrorKind::Unsupported) | another version of the interface |
    /// | [`OutOfResources`](ErrorKind::OutOfResources) | EMFILE, ENFILE, ENOMEM |
    #[doc(alias = "rdma_create_event_channel")]
    pub fn open() -> Result<Self> {
        ChannelOptions::new().open()
    }

    /// True if both are the same channel.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// How many ids the kernel refused to destroy. They end with the channel.
    pub fn leaked(&self) -> u64 {
        self.shared.reaper.failed()
    }

    /// How many dropped ids the channel's thread has not destroyed yet, each with the queue pair of
    /// its connection. No system call.
    pub fn destroying(&self) -> u64 {
        self.shared.reaper.left()
    }
}

impl ChannelOptions {
    /// The defaults: the running kernel's connection manager, nothing recorded.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports every command of the channel to `sink`.
    #[must_use]
    pub fn record(mut self, sink: Arc<dyn Sink>) -> Self {
        self.recorder = Some(sink);
        self
    }

    /// Where to look for the connection manager.
    #[must_use]
    pub fn discover(mut self, options: discover::Options) -> Self {
        self.discover = options;
        self
    }

    /// Opens the running kernel's connection manager.
    ///
    /// # Errors
    /// As [`EventChannel::open`].
    pub fn open(self) -> Result<EventChannel> {
        let opened = cm::open_nonblocking(&self.discover, self.recorder)?;
        Ok(EventChannel::on(opened.file, opened.first))
    }

    /// The connection manager of `kernel`, opened as `fd`; for tests on a fake kernel.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput): `fd` is something else.
    pub fn over(self, kernel: Arc<dyn Kernel>, fd: OwnedFd) -> Result<EventChannel> {
        let kernel = match self.recorder {
            Some(sink) => Arc::new(crate::recorder::Recorder::new(kernel, sink)),
            None => kernel,
        };
        let file = cm::over(kernel, fd)?;
        file.set_nonblocking()?;
        Ok(EventChannel::on(file, None))
    }
}

impl EventChannel {
    /// Has a thread read its events from now on.
    pub(crate) fn keep_attended(&self) {
        self.shared.keep_attended();
    }

    /// The channel that the user wants, or one of its own.
    pub(super) fn given_or_opened(given: Option<&Self>) -> Result<Self> {
        given.map_or_else(Self::open, |channel| Ok(channel.clone()))
    }

    /// A file that does not block.
    fn on(file: CmFile, found: Option<DeviceInfo>) -> Self {
        Self {
            shared: Arc::new(Channel {
                file: Arc::new(file),
                reaper: Reaper::default(),
                state: Mutex::default(),
                changed: Condvar::new(),
                has_tasks: AtomicBool::new(false),
                attendant: Attendant::default(),
                known: Arc::new(Known::new(found)),
            }),
        }
    }
}

impl Channel {
    pub(crate) fn file(&self) -> &CmFile {
        &self.file
    }

    /// What was found together with the connection manager.
    pub(super) fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// Events are taken by tasks, too, from now on.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_tasks(&self) {
        self.has_tasks.store(true, Ordering::Release);
    }

    /// Has a thread of its own wait for the file, from now on: events wake those that wait for
    /// them, and nobody else has to wait for the file.
    pub(crate) fn keep_attended(self: &Arc<Self>) {
        self.attendant.start(self, &self.file);
    }

    /// Waits until nobody waits for the file any more, then does so itself.
    pub(super) fn take_over(&self) {
        let mut state = self.lock();
        while state.is_attended {
            state = self.sleep(state, DAY);
        }
        state.is_attended = true;
    }

    /// Nobody waits for the file any more.
    pub(super) fn give_up(&self) {
        let mut state = self.lock();
        state.is_attended = false;
        self.wake_sleepers(state);
    }

    /// Waits until the state has changed, for at most `limit`.
    fn sleep<'s>(
        &self,
        mut state: MutexGuard<'s, State>,
        limit: Duration,
    ) -> MutexGuard<'s, State> {
        state.sleepers += 1;
        let woken = self.changed.wait_timeout(state, limit);
        let (mut state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        state.sleepers -= 1;
        state
    }

    /// Wakes the threads that [sleep](Self::sleep), if there are any: who does later sees the
    /// change.
    fn wake_sleepers(&self, state: MutexGuard<'_, State>) {
        let are_any = state.sleepers > 0;
        drop(state);
        if are_any {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a new id.
    pub(super) fn reserve(&self, op: Op, takes: Takes) -> Result<u64> {
        // In a child the lock may be held forever, by a thread that exists only in the parent.
        self.file.check_process(op)?;
        self.lock().table.reserve(op, takes)
    }

    /// The id is gone, or is about to be.
    pub(super) fn release(&self, number: u64) {
        let Remains { waiters, requests } = self.lock().table.release(number);
        // Foreign code, in a drop: it must not unwind from here.
        drop_safely(waiters);
        for id in requests {
            self.reap(id);
        }
    }

    /// Destroys an id elsewhere.
    pub(super) fn reap(&self, id: u32) {
        self.reaper.take(&self.file, id);
    }

    /// Drops something whose id may block, elsewhere.
    pub(super) fn drop_elsewhere(&self, what: Box<dyn Send>) {
        self.reaper.drop(&self.file, what);
    }

    /// Destroys an id here: one that the kernel does not wait for.
    pub(super) fn destroy(&self, id: u32) {
        self.reaper.destroy(&self.file, id);
    }

    /// Takes the next event of an id, if it has already arrived.
    pub(crate) fn take(&self, number: u64) -> Option<Event> {
        self.lock().table.take(number)
    }

    /// Has `waker` woken when the id has another event. Its place is that of `key`, until it
    /// [leaves](Self::leave).
    pub(crate) fn wake(&self, number: u64, key: &mut Option<usize>, waker: Waker) {
        let old = self.lock().table.wait(number, key, waker);
        drop(old);
    }

    /// Gives a place up.
    #[cfg(feature = "tokio")]
    pub(crate) fn leave(&self, number: u64, key: &mut Option<usize>) {
        // In a child the lock may be held forever, by a thread that exists only in the parent.
        if self.file.check_process(Op::CmGetEvent).is_ok() {
            let old = self.lock().table.leave(number, key);
            drop_safely(old);
        }
    }

    /// Has `waker` woken at this time, by the thread that [attends](Self::keep_attended) to the
    /// file. False if there is none.
    pub(crate) fn wake_at(&self, at: Instant, waker: Waker) -> bool {
        self.attendant.wake_at(at, waker)
    }

    /// Wakes all tasks, to look why they are woken.
    #[cfg(feature = "tokio")]
    pub(crate) fn wake_everybody(&self) {
        // In a child the lock may be held forever, by a thread that exists only in the parent.
        if self.file.check_process(Op::CmGetEvent).is_ok() {
            let mut waiters = self.lock().table.take_waiters();
            wake_all(&mut waiters);
        }
    }

    /// Reads one event, if there is one, and puts it where it belongs. One system call; never
    /// waits.
    pub(crate) fn read(&self) -> Result<bool> {
        let wake = self.read_silently()?;
        Ok(wake.map(|mut wake| wake_all(&mut wake)).is_some())
    }

    /// The same, where a lock is held: leaves it to the caller to [wake](wake_all) those that wait
    /// for the event.
    pub(super) fn read_silently(&self) -> Result<Option<Vec<Waker>>> {
        let event = match cm::get_event(&self.file) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            event => event?,
        };
        let mut state = self.lock();
        let sorted = state.table.sort(&event);
        self.wake_sleepers(state);
        if let Some(id) = sorted.unwanted {
            self.reap(id);
        }
        Ok(Some(sorted.wake))
    }

    /// Waits until `take` finds something, at most until `deadline` (`None`: forever). Of several
    /// waiting threads, one waits for the file, and the others wait for that one.
    pub(super) fn wait_for(
        &self,
        deadline: Option<Instant>,
        mut take: impl FnMut(&mut Table) -> Option<Event>,
    ) -> Result<Option<Event>> {
        self.file.check_process(Op::CmGetEvent)?;
        loop {
            let left = match self.attend(deadline, &mut take) {
                Attended::Found(event) => return Ok(Some(*event)),
                Attended::TimeIsUp => return Ok(None),
                Attended::Free(left) => left,
            };
            let attending = Attending { channel: self };
            let limit = if self.has_tasks.load(Ordering::Acquire) {
                Some(left.map_or(SLICE, |left| left.min(SLICE)))
            } else {
                left
            };
            let found = self.file.wait_event(limit)? && self.read()?;
            drop(attending);
            // A descriptor that only looks readable must not extend the wait.
            if !found && left == Some(Duration::ZERO) {
                return Ok(take(&mut self.lock().table));
            }
        }
    }

    /// Waits while another thread waits for the file.
    fn attend(
        &self,
        deadline: Option<Instant>,
        take: &mut impl FnMut(&mut Table) -> Option<Event>,
    ) -> Attended {
        let mut state = self.lock();
        loop {
            if let Some(event) = take(&mut state.table) {
                return Attended::Found(Box::new(event));
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if !state.is_attended {
                state.is_attended = true;
                return Attended::Free(left);
            }
            if left == Some(Duration::ZERO) {
                return Attended::TimeIsUp;
            }
            state = self.sleep(state, left.unwrap_or(DAY));
        }
    }

    /// What `take` finds without waiting; reads the file if nobody waits for it.
    pub(super) fn look(
        &self,
        mut take: impl FnMut(&mut Table) -> Option<Event>,
    ) -> Result<Option<Event>> {
        self.file.check_process(Op::CmGetEvent)?;
        loop {
            let mut state = self.lock();
            if let Some(event) = take(&mut state.table) {
                return Ok(Some(event));
            }
            if state.is_attended {
                return Ok(None);
            }
            drop(state);
            if !self.read()? {
                return Ok(None);
            }
        }
    }
}

/// What a waiting thread does next.
enum Attended {
    Found(Box<Event>),
    TimeIsUp,
    /// Wait for the file, for this long.
    Free(Option<Duration>),
}

/// The one thread that waits for the file.
struct Attending<'c> {
    channel: &'c Channel,
}

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        self.channel.give_up();
    }
}

/// Drops what may run foreign code, in a drop: it must not unwind from here.
fn drop_safely<T>(what: T) {
    let drops = std::panic::AssertUnwindSafe(move || drop(what));
    drop(std::panic::catch_unwind(drops));
}
