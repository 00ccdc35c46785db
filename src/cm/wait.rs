//! Waiting for an id's next event: by a thread, or by a task. What is done in between is the same
//! code, `async` functions that never wait for anything else.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use uverbs_core::cm::Event;
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::handle::Handle;

/// How to wait.
pub(crate) trait Waits: Sync {
    /// The next event of an id, or `None` at the deadline. A future that is dropped has taken none.
    fn event(
        &self,
        id: &Handle,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<Option<Event>>> + Send;
}

/// By blocking the thread: the future is ready when it is first polled.
#[derive(Debug)]
pub(crate) struct Blocking;

impl Waits for Blocking {
    fn event(
        &self,
        id: &Handle,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<Option<Event>>> + Send {
        std::future::ready(id.wait(deadline))
    }
}

/// The result of something `async` that waits by [`Blocking`].
pub(crate) fn now<T, E: From<Error>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(Error::new(Op::CmGetEvent, ErrorKind::InvalidState).into()),
    }
}

/// When a step that starts now is over; `None` for one that has no end.
pub(crate) fn deadline(limit: Duration) -> Option<Instant> {
    Instant::now().checked_add(limit)
}
