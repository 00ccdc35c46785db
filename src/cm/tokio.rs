//! Waiting by tasks of tokio.
//!
//! # Safety
//!
//! tokio must be given descriptors that stay open and unchanged for as long as they are registered,
//! and nobody may write to a connection manager's. What is registered owns the channel, whose
//! descriptor is never replaced, and nobody else gets its number.
#![allow(unsafe_code, reason = "promises tokio that descriptors stay open")]

use std::future::poll_fn;
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;
use uverbs_core::cm::Event;
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::EventChannel;
use super::channel::Channel;
use super::connection::{Connection, ConnectionEvent, Link};
use super::connector::{Connector, Resolved};
use super::datagram::{DatagramPeer, ResolvedService};
use super::error::{CmError, ConnectError};
use super::group::{Group, GroupBuilder, GroupEvent};
use super::handle::Handle;
use super::handshake::Attached;
use super::listener::{Listener, Request};
use super::service::{DatagramListener, DatagramRequest};
use super::wait::Waits;
use crate::asynchronous::{registration, runtime};
use crate::waiters::wake_all;

/// An event channel for tasks: the same steps as in [`cm`](crate::cm), with the same values. Any
/// number of tasks may wait; a task of its own reads the events, and each wakes only those that
/// wait for it.
///
/// Waiting is cancellation-safe: a future that is dropped has taken no event; if it made a
/// connection, the connection is given up, the peer is told by another thread, and the queue pair
/// is destroyed there.
///
/// ```no_run
/// # async fn f(pd: &uverbs::ProtectionDomain, cq: &uverbs::CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
/// use uverbs::asynchronous::AsyncEventChannel;
/// use uverbs::cm;
///
/// let channel = AsyncEventChannel::open()?;
/// let resolved = channel.resolve(cm::connect("192.0.2.7:7471".parse()?)).await?;
/// let prepared = resolved.queue_pair(pd, cq, cq).build()?;
/// let connection = channel.connect(resolved.attach(prepared)?).await?;
/// println!("{:?}", channel.event(connection.link()).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncEventChannel {
    channel: EventChannel,
    reader: AbortHandle,
    registered: Arc<Registered>,
}

/// The channel, and the number of its descriptor.
#[derive(Debug)]
struct Source {
    channel: Arc<Channel>,
    fd: RawFd,
}

impl AsRawFd for Source {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

/// A channel that is registered with a runtime.
#[derive(Debug)]
struct Registered {
    channel: Arc<Channel>,
    /// Until either side ends it. No foreign code runs while the lock is held.
    fd: Mutex<Option<AsyncFd<Source>>>,
    /// Whether the reader has ended: nobody is woken any more.
    is_over: AtomicBool,
}

impl Registered {
    fn fd(&self) -> MutexGuard<'_, Option<AsyncFd<Source>>> {
        self.fd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody reads any more, and the channel can be registered again.
    fn end(&self) {
        // In a child the lock may be held forever, by a thread that exists only in the parent,
        // and what the runtime waits for is also the parent's.
        if self.channel.file().check_process(Op::CmGetEvent).is_ok() {
            let fd = self.fd().take();
            drop(fd);
            self.is_over.store(true, Ordering::Release);
            self.channel.wake_everybody();
        }
    }

    /// Reads until there is nothing; ready when it is over.
    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let place = self.fd();
            let Some(fd) = &*place else {
                return Poll::Ready(());
            };
            let Ok(mut readable) = ready!(fd.poll_read_ready(cx)) else {
                return Poll::Ready(());
            };
            let mut wake = match fd.get_ref().channel.read_silently() {
                Ok(Some(wake)) => wake,
                Ok(None) => {
                    readable.clear_ready();
                    continue;
                }
                // Whoever waits asks for the reason.
                Err(_) => return Poll::Ready(()),
            };
            drop(place);
            wake_all(&mut wake);
        }
    }
}

/// The task that reads. It ends with the runtime, with the [`AsyncEventChannel`], or by an error.
struct Reader(Arc<Registered>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.end();
    }
}

async fn read_all(reader: Reader) {
    poll_fn(|cx| reader.0.poll_read(cx)).await;
}

impl Drop for AsyncEventChannel {
    fn drop(&mut self) {
        self.registered.end();
        self.reader.abort();
    }
}

impl AsyncEventChannel {
    /// Opens a channel, and registers it with the runtime of the current task.
    ///
    /// # Errors
    /// As [`EventChannel::open`] and [`new`](Self::new).
    pub fn open() -> Result<Self> {
        Self::new(EventChannel::open()?)
    }

    /// Registers the channel with the runtime of the current task, which reads its events until
    /// this value is dropped. It can be registered only once per runtime, and again after the drop.
    /// Threads may still wait on it, too.
    ///
    /// # Errors
    /// [`InvalidState`](ErrorKind::InvalidState): there is no runtime; another error of
    /// registering.
    pub fn new(channel: EventChannel) -> Result<Self> {
        let runtime = runtime(Op::CmGetEvent)?;
        // SAFETY: only its number is used, for being registered.
        let fd = unsafe { channel.shared.file().event_fd() }.as_raw_fd();
        let source = Source {
            channel: Arc::clone(&channel.shared),
            fd,
        };
        // SAFETY: the number is that of the channel's file, which lives as long as the channel that
        // is kept with it.
        let fd = unsafe { AsyncFd::register_with_interest(source, Interest::READABLE) }
            .map_err(|error| registration(Op::CmGetEvent, &error.into()))?;
        channel.shared.has_tasks();
        let registered = Arc::new(Registered {
            channel: Arc::clone(&channel.shared),
            fd: Mutex::new(Some(fd)),
            is_over: AtomicBool::new(false),
        });
        let reader = runtime.spawn(read_all(Reader(Arc::clone(&registered))));
        Ok(Self {
            channel,
            reader: reader.abort_handle(),
            registered,
        })
    }

    /// The channel: for [`ListenerBuilder::channel`](crate::cm::ListenerBuilder::channel).
    pub fn get_ref(&self) -> &EventChannel {
        &self.channel
    }

    /// Finds device and path, on this channel, as [`Connector::resolve`].
    ///
    /// # Errors
    /// As there.
    pub async fn resolve(&self, connector: Connector) -> Result<Resolved, CmError> {
        connector.resolve_by(self.get_ref(), self).await
    }

    /// Connects a queue pair, as [`Resolved::connect`].
    ///
    /// # Errors
    /// As there.
    pub async fn connect(&self, attached: Attached<Resolved>) -> Result<Connection, ConnectError> {
        attached.connect_by(self).await
    }

    /// Waits for a request, as [`Listener::accept`].
    ///
    /// # Errors
    /// As there.
    pub async fn request(&self, listener: &Listener) -> Result<Request, CmError> {
        loop {
            if let Some(request) = listener.accept_by(self, None).await? {
                return Ok(request);
            }
        }
    }

    /// Accepts a request, as [`Request::accept`].
    ///
    /// # Errors
    /// As there.
    pub async fn accept(&self, attached: Attached<Request>) -> Result<Connection, ConnectError> {
        attached.accept_by(self).await
    }

    /// Waits for a request for a datagram service, as [`DatagramListener::accept`].
    ///
    /// # Errors
    /// As there.
    pub async fn datagram_request(
        &self,
        listener: &DatagramListener,
    ) -> Result<DatagramRequest, CmError> {
        loop {
            if let Some(request) = listener.accept_by(self, None).await? {
                return Ok(request);
            }
        }
    }

    /// Finds device and path to a datagram service, on this channel, as
    /// [`Connector::resolve_datagrams`].
    ///
    /// # Errors
    /// As there.
    pub async fn resolve_datagrams(
        &self,
        connector: Connector,
    ) -> Result<ResolvedService, CmError> {
        connector.resolve_datagrams_by(self.get_ref(), self).await
    }

    /// Asks a datagram service for its queue pair, as [`ResolvedService::ask`].
    ///
    /// # Errors
    /// As there.
    pub async fn ask(&self, service: ResolvedService) -> Result<DatagramPeer, CmError> {
        service.ask_by(self).await
    }

    /// Joins a multicast group, on this channel, as [`GroupBuilder::build`].
    ///
    /// # Errors
    /// As there.
    pub async fn join(&self, group: GroupBuilder) -> Result<Group, CmError> {
        group.join_by(self.get_ref(), self).await
    }

    /// Waits for the next event of a group, as [`Group::event`].
    ///
    /// # Errors
    /// As there.
    pub async fn group_event(&self, group: &mut Group) -> Result<GroupEvent> {
        loop {
            if let Some(event) = group.event_by(self).await? {
                return Ok(event);
            }
        }
    }

    /// Waits for the next event of a connection, as [`Link::event`].
    ///
    /// # Errors
    /// As there.
    pub async fn event(&self, link: &Link) -> Result<ConnectionEvent> {
        loop {
            if let Some(event) = link.event_by(self, None).await? {
                return Ok(event);
            }
        }
    }

    /// Ends a connection, as [`Connection::disconnect`].
    ///
    /// # Errors
    /// As there.
    pub async fn disconnect(
        &self,
        connection: &mut Connection,
        limit: Duration,
    ) -> Result<(), CmError> {
        connection.disconnect_by(self, limit).await
    }

    /// Waits for an event of `id` without a limit.
    async fn next(&self, id: &Handle) -> Result<Event> {
        let mut place = Place::of(id);
        poll_fn(|cx| {
            if let Some(event) = place.look(cx) {
                return Poll::Ready(Ok(event));
            }
            if self.registered.is_over.load(Ordering::Acquire) {
                return Poll::Ready(self.without_reader(id.number()));
            }
            Poll::Pending
        })
        .await
    }

    /// What there is to read, or why nobody reads.
    fn without_reader(&self, number: u64) -> Result<Event> {
        let channel = &self.channel.shared;
        while channel.read()? {
            if let Some(event) = channel.take(number) {
                return Ok(event);
            }
        }
        Err(Error::new(Op::CmGetEvent, ErrorKind::InvalidState)
            .hint("the runtime in which the channel was registered has ended"))
    }
}

impl Waits for AsyncEventChannel {
    async fn event(&self, id: &Handle, deadline: Option<Instant>) -> Result<Option<Event>> {
        if !Arc::ptr_eq(id.channel(), &self.get_ref().shared) {
            return Err(
                Error::invalid(Op::CmGetEvent, "channel").hint("it is on another event channel")
            );
        }
        id.channel().file().check_process(Op::CmGetEvent)?;
        limited(self.next(id), deadline).await
    }
}

/// The place of a future among those that wait for an id's events, until it is dropped.
struct Place<'i> {
    channel: &'i Channel,
    number: u64,
    key: Option<usize>,
}

impl<'i> Place<'i> {
    fn of(id: &'i Handle) -> Self {
        Self {
            channel: id.channel(),
            number: id.number(),
            key: None,
        }
    }

    /// The next event; if there is none, the task is woken by it.
    fn look(&mut self, cx: &Context<'_>) -> Option<Event> {
        // Registered before the look: what comes in between is not missed.
        self.channel
            .wake(self.number, &mut self.key, cx.waker().clone());
        self.channel.take(self.number)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.channel.leave(self.number, &mut self.key);
        }
    }
}

/// By tasks, on a channel that a thread of its own reads.
#[derive(Debug)]
pub(crate) struct Attended;

impl Waits for Attended {
    async fn event(&self, id: &Handle, deadline: Option<Instant>) -> Result<Option<Event>> {
        id.channel().file().check_process(Op::CmGetEvent)?;
        let mut place = Place::of(id);
        let next = poll_fn(|cx| {
            place
                .look(cx)
                .map_or(Poll::Pending, |event| Poll::Ready(Ok(event)))
        });
        limited(next, deadline).await
    }
}

async fn limited(
    next: impl Future<Output = Result<Event>>,
    deadline: Option<Instant>,
) -> Result<Option<Event>> {
    let Some(at) = deadline else {
        return next.await.map(Some);
    };
    // tokio panics in a runtime without timers; this library does not.
    let limited = AssertUnwindSafe(|| tokio::time::timeout_at(at.into(), next));
    let limited = catch_unwind(limited).map_err(|_| {
        Error::new(Op::CmGetEvent, ErrorKind::InvalidState)
            .hint("the runtime has no timers: enable_time")
    })?;
    match limited.await {
        Ok(event) => event.map(Some),
        Err(_) => Ok(None),
    }
}
