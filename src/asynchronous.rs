//! `async` waiting with tokio (feature `tokio`).
//!
//! Waiting is cancellation-safe: an event is taken from the kernel in the same poll that returns
//! it, so a dropped future has taken none.
//!
//! # Safety
//!
//! tokio must be given descriptors that stay open and unchanged for as long as they are registered.
//! What is registered here owns its descriptor and never replaces it.
#![allow(unsafe_code, reason = "promises tokio that descriptors stay open")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use uverbs_core::{Error, ErrorKind, Op, PollError, Result};

pub use crate::cm::tokio::AsyncEventChannel;
use crate::completion::CompletionEvent;
use crate::event::AsyncEvent;
use crate::{CompletionChannel, CompletionQueue, Context, Notify, WorkCompletion};

/// A completion channel whose events can be awaited.
///
/// ```no_run
/// # async fn f(context: &uverbs::Context) -> Result<(), Box<dyn std::error::Error>> {
/// use uverbs::asynchronous::AsyncCompletionChannel;
///
/// let channel = context.create_completion_channel()?;
/// let mut cq = context.completion_queue(64).channel(&channel).build()?;
/// let channel = AsyncCompletionChannel::new(channel)?;
/// let mut completions = [uverbs::WorkCompletion::default(); 16];
/// let count = channel.completions(&mut cq, &mut completions).await?;
/// println!("{count} finished");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncCompletionChannel {
    fd: AsyncFd<Channel>,
}

/// A context whose asynchronous events can be awaited.
#[derive(Debug)]
pub struct AsyncEvents {
    fd: AsyncFd<EventSide>,
}

/// The channel as tokio registers it.
#[derive(Debug)]
struct Channel(CompletionChannel);

/// The context and the number of its event file, which lives as long as the context.
#[derive(Debug)]
struct EventSide {
    context: Context,
    fd: RawFd,
}

impl AsyncCompletionChannel {
    /// Registers the channel with the runtime of the current task.
    ///
    /// # Errors
    /// The error of registering, usually that there is no runtime with I/O enabled.
    pub fn new(channel: CompletionChannel) -> Result<Self> {
        runtime(Op::GetCompletionEvent)?;
        // SAFETY: the channel owns its descriptor through an `Arc` that lives as long as it does.
        let fd = unsafe { AsyncFd::register_with_interest(Channel(channel), Interest::READABLE) }
            .map_err(|error| registration(Op::GetCompletionEvent, &error.into()))?;
        Ok(Self { fd })
    }

    /// Waits for the next event. Cancellation-safe.
    ///
    /// # Errors
    /// As [`CompletionChannel::event`].
    pub async fn event(&self) -> Result<CompletionEvent> {
        loop {
            let mut ready = self
                .fd
                .readable()
                .await
                .map_err(|error| registration(Op::GetCompletionEvent, &error))?;
            match self.fd.get_ref().0.try_event() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready.clear_ready(),
                result => return result,
            }
        }
    }

    /// Waits until `cq` has completions and takes as many as `out` has room for. Cancellation-safe.
    ///
    /// The queue's events must go to this channel, and nothing else may read them; events of other
    /// queues on the channel are taken and dropped. For a channel that several queues share, use
    /// [`event`](Self::event) instead.
    ///
    /// # Errors
    /// Those of the command and of [`event`](Self::event);
    /// [`BadReply`](crate::ErrorKind::BadReply) for a queue that can no longer be polled.
    pub async fn completions(
        &self,
        cq: &mut CompletionQueue,
        out: &mut [WorkCompletion],
    ) -> Result<usize> {
        if !cq
            .channel()
            .is_some_and(|channel| channel.is_same(&self.fd.get_ref().0))
        {
            return Err(Error::invalid(Op::GetCompletionEvent, "queue")
                .hint("its events go to another channel"));
        }
        loop {
            match poll_some(cq, out)? {
                0 => {}
                count => return Ok(count),
            }
            cq.request_notification(Notify::Any)?;
            match poll_some(cq, out)? {
                0 => {}
                count => return Ok(count),
            }
            self.event().await?;
        }
    }

    /// The underlying channel.
    pub fn get_ref(&self) -> &CompletionChannel {
        &self.fd.get_ref().0
    }
}

fn poll_some(cq: &mut CompletionQueue, out: &mut [WorkCompletion]) -> Result<usize> {
    cq.poll_into(out).map_err(|error: PollError| {
        Error::bad_reply(Op::PollCompletionQueue, "ring").fact("reason", error.to_string())
    })
}

impl AsyncEvents {
    /// Registers the context's events with the runtime of the current task.
    ///
    /// # Errors
    /// The error of registering, usually that there is no runtime with I/O enabled.
    pub fn new(context: &Context) -> Result<Self> {
        let fd = context.event_fd()?.as_raw_fd();
        let side = EventSide {
            context: context.clone(),
            fd,
        };
        runtime(Op::GetAsyncEvent)?;
        // SAFETY: the number is that of the context's event file, which lives as long as the
        // context that is kept with it.
        let fd = unsafe { AsyncFd::register_with_interest(side, Interest::READABLE) }
            .map_err(|error| registration(Op::GetAsyncEvent, &error.into()))?;
        Ok(Self { fd })
    }

    /// Waits for the next event. Cancellation-safe.
    ///
    /// # Errors
    /// As [`Context::async_event`].
    pub async fn event(&self) -> Result<AsyncEvent> {
        loop {
            let mut ready = self
                .fd
                .readable()
                .await
                .map_err(|error| registration(Op::GetAsyncEvent, &error))?;
            match self.fd.get_ref().context.try_async_event() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready.clear_ready(),
                result => return result,
            }
        }
    }
}

/// The runtime of the current task. tokio panics without one; this library does not.
pub(crate) fn runtime(op: Op) -> Result<Handle> {
    Handle::try_current()
        .map_err(|error| Error::new(op, ErrorKind::InvalidState).fact("tokio", error.to_string()))
}

pub(crate) fn registration(op: Op, error: &io::Error) -> Error {
    Error::new(op, ErrorKind::Other).fact("tokio", error.to_string())
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl AsFd for AsyncCompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.get_ref().0.as_fd()
    }
}

impl AsRawFd for EventSide {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}
