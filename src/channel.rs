//! Completion channels: waiting until a completion queue has something.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uverbs_core::sys::Bell;
use uverbs_core::{ErrorKind, Op, Result, contract};

use crate::Context;
use crate::completion::CqId;
use crate::event::EventSource;

/// `ibv_comp_channel`—where the events of completion queues arrive.
///
/// One channel can serve any number of queues. Cheap to clone; clones share the events. Its
/// descriptor ([`AsFd`]) becomes readable when there is an event, for `poll`, `epoll` and the like.
///
/// The way to sleep without missing a completion: ask for an event
/// ([`request_notification`](crate::CompletionQueue::request_notification)), poll until the queue
/// is empty, then wait.
///
/// ```no_run
/// # fn f(context: &uverbs::Context) -> Result<(), Box<dyn std::error::Error>> {
/// use uverbs::Notify;
///
/// let channel = context.create_completion_channel()?;
/// let mut cq = context.completion_queue(64).channel(&channel).build()?;
/// cq.request_notification(Notify::Any)?;
/// while cq.poll()?.is_some() {}
/// let event = channel.event(None)?.expect("no time limit");
/// assert_eq!(event.queue(), cq.id());
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ibv_comp_channel")]
#[derive(Clone, Debug)]
pub struct CompletionChannel {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    fd: OwnedFd,
    context: Context,
}

/// A completion queue has a completion for which an event was requested.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CompletionEvent {
    queue: u64,
    user_data: Option<u64>,
}

impl CompletionChannel {
    pub(crate) fn create(context: &Context) -> Result<Self> {
        let fd = contract::completion_channel(&context.inner.file)?;
        contract::set_nonblocking(Op::CreateCompletionChannel, fd.as_fd())?;
        Ok(Self {
            inner: Arc::new(Inner {
                fd,
                context: context.clone(),
            }),
        })
    }

    /// `ibv_get_cq_event`—waits for the next event, for at most `timeout` (`None`: indefinitely).
    ///
    /// Returns `None` when the time is up. There is nothing to acknowledge.
    ///
    /// # Errors
    /// [`DeviceRemoved`](ErrorKind::DeviceRemoved) once the device is gone.
    #[doc(alias = "ibv_get_cq_event")]
    #[doc(alias = "ibv_ack_cq_events")]
    pub fn event(&self, timeout: Option<Duration>) -> Result<Option<CompletionEvent>> {
        let since = Instant::now();
        let mut is_over = false;
        loop {
            match self.try_event() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result.map(Some),
            }
            let file = &self.inner.context.inner.file;
            // Another thread may have been faster; then the wait starts again.
            let left = timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
            let op = Op::GetCompletionEvent;
            if is_over || !file.wait_readable_or(op, self.as_fd(), None, left)? {
                return Ok(None);
            }
            // A descriptor that only looks readable must not extend the wait.
            is_over = left == Some(Duration::ZERO);
        }
    }

    /// Waits until there is an event, which it leaves there; false once `bell` was rung or the time
    /// is up. One system call.
    pub(crate) fn wait_or(&self, bell: Option<&Bell>, timeout: Option<Duration>) -> Result<bool> {
        let file = &self.inner.context.inner.file;
        file.wait_readable_or(Op::GetCompletionEvent, self.as_fd(), bell, timeout)
    }

    /// Takes the next event if there is one. One system call; never waits.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) when there is none; else as [`event`](Self::event).
    pub fn try_event(&self) -> Result<CompletionEvent> {
        let inner = &self.inner.context.inner;
        let queue = contract::read_completion_event(&inner.file, self.as_fd())?;
        let user_data = match inner.event_table.take_event(queue) {
            Some(EventSource::CompletionQueue { user_data }) => Some(user_data),
            _ => None,
        };
        Ok(CompletionEvent { queue, user_data })
    }

    /// True if both are the same channel.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn is_of(&self, context: &Context) -> bool {
        Arc::ptr_eq(&self.inner.context.inner, &context.inner)
    }
}

impl CompletionEvent {
    /// The completion queue that has the completion.
    pub fn queue(&self) -> CqId {
        CqId::from_raw(self.queue)
    }

    /// The `user_data` that the queue was created with; `None` if its handle is gone.
    #[doc(alias = "cq_context")]
    pub fn user_data(&self) -> Option<u64> {
        self.user_data
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.fd.as_fd()
    }
}
