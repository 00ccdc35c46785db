//! Asynchronous events: what happens to devices, ports and queues outside any work request.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

#[doc(inline)]
pub use uverbs_core::types::{AsyncEventType, EventCounts, EventObject};
use uverbs_core::{ErrorKind, Op, Result, UverbsFile, contract};

use crate::Context;

/// `ibv_async_event`—something happened to a device, a port or a queue.
///
/// There is nothing to acknowledge: an event that is not read, or is read after its object is gone,
/// blocks nothing.
#[doc(alias = "ibv_async_event")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct AsyncEvent {
    /// What happened.
    pub event: AsyncEventType,
    /// What it happened to.
    pub source: EventSource,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum EventSource {
    /// The whole device.
    Device,
    /// A port.
    Port(u8),
    /// A completion queue.
    CompletionQueue {
        /// The `user_data` that it was created with.
        user_data: u64,
    },
    /// A queue pair.
    QueuePair {
        /// Its number.
        qp_num: u32,
        /// The `user_data` that it was created with.
        user_data: u64,
    },
    /// A shared receive queue.
    SharedReceiveQueue {
        /// The `user_data` that it was created with.
        user_data: u64,
    },
    /// A receive work queue.
    WorkQueue {
        /// The `user_data` that it was created with.
        user_data: u64,
    },
    /// A queue whose handle no longer exists.
    Gone,
    /// Something that this library does not know, as the kernel identifies it.
    Unknown(u64),
}

/// The descriptor that events are read from.
#[derive(Debug)]
pub(crate) struct EventFile {
    fd: OwnedFd,
    nonblocking: OnceLock<()>,
}

impl EventFile {
    /// The context's event file: `opened`, if opening the context has already created one. It must
    /// exist before the objects whose events it carries.
    pub(crate) fn new(file: &UverbsFile, opened: Option<OwnedFd>) -> Result<Self> {
        let fd = match opened {
            Some(fd) => fd,
            None => contract::event_file(file)?,
        };
        Ok(Self {
            fd,
            nonblocking: OnceLock::new(),
        })
    }

    /// The descriptor, switched to non-blocking reads when it is first used.
    pub(crate) fn fd(&self) -> Result<BorrowedFd<'_>> {
        if self.nonblocking.get().is_none() {
            contract::set_nonblocking(Op::GetAsyncEvent, self.fd.as_fd())?;
            let _ = self.nonblocking.set(());
        }
        Ok(self.fd.as_fd())
    }
}

impl Context {
    /// `ibv_get_async_event`—waits for the next event, for at most `timeout` (`None`:
    /// indefinitely).
    ///
    /// Returns `None` when the time is up. Two system calls when there is an event. Several threads
    /// may wait; each event goes to one.
    ///
    /// # Errors
    /// [`DeviceRemoved`](ErrorKind::DeviceRemoved) once the device is gone and its last event has
    /// been read.
    #[doc(alias = "ibv_get_async_event")]
    pub fn async_event(&self, timeout: Option<Duration>) -> Result<Option<AsyncEvent>> {
        let fd = self.inner.events.fd()?;
        let since = Instant::now();
        let mut is_over = false;
        loop {
            match self.try_async_event() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result.map(Some),
            }
            // Another thread may have been faster; then the wait starts again.
            let left = timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
            let file = &self.inner.file;
            if is_over || !file.wait_readable(Op::GetAsyncEvent, fd, left)? {
                return Ok(None);
            }
            // A descriptor that only looks readable must not extend the wait.
            is_over = left == Some(Duration::ZERO);
        }
    }

    /// Takes the next event if there is one. One system call, two after `DeviceFatal`; never waits.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) when there is none; else as
    /// [`async_event`](Self::async_event).
    pub fn try_async_event(&self) -> Result<AsyncEvent> {
        let fd = self.inner.events.fd()?;
        let raw = contract::read_async_event(&self.inner.file, fd)?;
        Ok(AsyncEvent {
            event: raw.event,
            source: self.source(raw.event, raw.element),
        })
    }

    /// The descriptor that becomes readable when there is an event.
    ///
    /// After `DeviceFatal` try once more: if the device was removed, that was the last event, and
    /// the descriptor stays silent.
    ///
    /// # Errors
    /// The errno of making the descriptor non-blocking.
    pub fn event_fd(&self) -> Result<BorrowedFd<'_>> {
        self.inner.events.fd()
    }

    fn source(&self, event: AsyncEventType, element: u64) -> EventSource {
        match event.object() {
            Some(EventObject::Device) => EventSource::Device,
            Some(EventObject::Port) => {
                u8::try_from(element).map_or(EventSource::Unknown(element), EventSource::Port)
            }
            Some(_) => self
                .inner
                .event_table
                .find(element)
                .unwrap_or(EventSource::Gone),
            None => EventSource::Unknown(element),
        }
    }
}
