//! Taking completions, and waiting for them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use uverbs_core::{Error, Op, Result};

use super::error::ConnectionError;
use super::shared::{IDLE, Poller, Shared, lock_srq};
use super::waiters::wake_all;
use crate::Notify;

/// How many completions a turn takes: after that, others get the completion queue's lock, and those
/// who wait hear of theirs.
const TURN: usize = 64;

/// Takes the completions of a [`Hub`](super::Hub) and wakes those who wait for them, until the hub
/// is closed or dropped.
#[derive(Debug)]
#[must_use = "it does nothing before it runs"]
pub struct Driver {
    shared: Arc<Shared>,
}

/// How an executor waits for a completion channel ([`Driver::run_async`]).
pub trait Events {
    /// Waits until the channel has an event, takes it, and returns true; false after `limit`.
    ///
    /// # Errors
    /// Those of [`CompletionChannel::try_event`](crate::CompletionChannel::try_event).
    fn event(&self, limit: Duration) -> impl Future<Output = Result<bool>> + Send;
}

impl Driver {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
        }
    }

    /// Runs on this thread until the hub is closed.
    ///
    /// It polls for a [while](super::HubBuilder::spin) after each completion, and then sleeps until
    /// the next. Several drivers of one hub are no faster.
    ///
    /// # Errors
    /// What ended it, usually that the device was removed. All connections are closed then.
    pub fn run(self) -> Result<()> {
        let running = Running::new(&self.shared);
        while !self.shared.closed.load(Ordering::Acquire) {
            let step = self.shared.progress(IDLE);
            running.check(step)?;
        }
        Ok(())
    }

    /// Runs as a task, which sleeps in `events` instead of blocking a thread. They have to be those
    /// of the hub's [channel](super::Hub::channel).
    ///
    /// ```no_run
    /// # #[cfg(feature = "tokio")]
    /// # fn f(hub: &uverbs::hub::Hub) -> uverbs::Result<()> {
    /// use uverbs::asynchronous::AsyncCompletionChannel;
    ///
    /// let events = AsyncCompletionChannel::new(hub.channel().clone())?;
    /// let driver = hub.driver();
    /// tokio::spawn(async move { driver.run_async(&events).await });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_async(self, events: &impl Events) -> Result<()> {
        let running = Running::new(&self.shared);
        while !self.shared.closed.load(Ordering::Acquire) {
            let mut taken = running.check(self.shared.look())?;
            if taken == 0 {
                taken = running.check(self.shared.arm())?;
            }
            if taken > 0 {
                // Those who were woken run before the next turn.
                yield_once().await;
                continue;
            }
            let slept = running.check(events.event(self.shared.nap()).await)?;
            self.shared.heard_event(slept);
        }
        Ok(())
    }
}

/// Counts a driver. When it ends other than by the end of the hub, nothing is taken any more, so
/// everybody must hear of it.
struct Running<'s> {
    shared: &'s Shared,
}

impl<'s> Running<'s> {
    fn new(shared: &'s Shared) -> Self {
        shared.drivers.fetch_add(1, Ordering::AcqRel);
        Self { shared }
    }

    fn check<T>(&self, step: Result<T>) -> Result<T> {
        step.inspect_err(|error| self.shared.close(ConnectionError::Failed(error.kind())))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let last = self.shared.drivers.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && !self.shared.closed.load(Ordering::Acquire) {
            // Unwinding, or a task that was cancelled.
            self.shared.close(ConnectionError::Closed);
        }
    }
}

impl Shared {
    /// Takes completions, at most those of one turn; returns how many.
    pub(super) fn turn(&self) -> Result<usize> {
        let mut poller = self.poller();
        let taken = self.take_completions(&mut poller, TURN);
        self.tick(&mut poller);
        let mut wake = std::mem::take(&mut poller.wake);
        drop(poller);
        self.count_panics(wake_all(&mut wake));
        taken
    }

    /// Takes all completions there are: until the queue is empty, at most as many as it can hold.
    pub(super) fn take_all_completions(&self, poller: &mut Poller) -> Result<()> {
        let limit = poller.cq.entries() as usize + 1;
        self.take_completions(poller, limit).map(|_| ())
    }

    fn take_completions(&self, poller: &mut Poller, limit: usize) -> Result<usize> {
        let retired = self.retired().len();
        let Poller { cq, wake, .. } = poller;
        let table = self.table();
        let mut taken = 0;
        let mut shared_taken = false;
        while taken < limit {
            let next = cq.poll().map_err(|error| {
                Error::bad_reply(Op::PollCompletionQueue, "ring").fact("because", error.to_string())
            })?;
            let Some(completion) = next else {
                if retired > 0 {
                    self.forget(retired);
                }
                break;
            };
            taken += 1;
            let conn = table.get(&completion.qp_num);
            let left = match conn {
                Some(conn) => conn.complete(completion, wake),
                None => Err(completion),
            };
            let (Err(completion), Some(srq)) = (left, &self.srq) else {
                continue;
            };
            let Ok(finished) = lock_srq(srq).complete(completion) else {
                continue;
            };
            shared_taken = true;
            match conn {
                Some(conn) => conn.complete_shared(finished, wake),
                None => self.pool.put_memory(finished.memory),
            }
        }
        if let (true, Some(srq)) = (shared_taken, &self.srq) {
            self.fill(&mut lock_srq(srq));
        }
        Ok(taken)
    }

    /// Polls until there is something, or for as long as the settings say.
    fn look(&self) -> Result<usize> {
        let since = Instant::now();
        loop {
            let taken = self.turn()?;
            if taken > 0 || since.elapsed() >= self.settings.spin {
                return Ok(taken);
            }
            std::hint::spin_loop();
        }
    }

    /// Asks for an event, and polls once more: what came before the question sends none.
    fn arm(&self) -> Result<usize> {
        {
            let mut poller = self.poller();
            if !poller.armed {
                poller.cq.request_notification(Notify::Any)?;
                poller.armed = true;
            }
        }
        self.turn()
    }

    fn heard_event(&self, heard: bool) {
        if heard {
            self.poller().armed = false;
        }
    }

    /// How long to sleep at most.
    fn nap(&self) -> Duration {
        IDLE.min(self.settings.keepalive.unwrap_or(IDLE))
    }

    /// Takes completions; waits for some, for at most `limit`, if there are none.
    fn progress(&self, limit: Duration) -> Result<usize> {
        let taken = self.look()?;
        if taken > 0 || limit.is_zero() {
            return Ok(taken);
        }
        match self.arm()? {
            0 => {}
            taken => return Ok(taken),
        }
        let event = self.channel.event(Some(limit.min(self.nap())))?;
        self.heard_event(event.is_some());
        self.turn()
    }

    /// Runs `future` on this thread, for at most `timeout`. Drives the hub where nobody else does.
    pub(super) fn block_on<F: Future>(&self, future: F, timeout: Duration) -> Option<F::Output> {
        let since = Instant::now();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut cx = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return Some(output);
            }
            let left = timeout.saturating_sub(since.elapsed());
            if self.drivers.load(Ordering::Acquire) > 0 {
                if left.is_zero() {
                    return None;
                }
                thread::park_timeout(left.min(IDLE));
                continue;
            }
            let stood_in = StandIn::take(self);
            if stood_in.is_some()
                && let Err(error) = self.progress(left.min(FOLLOW))
            {
                self.close(ConnectionError::Failed(error.kind()));
            }
            if left.is_zero() {
                // What the last turn took may be it.
                return match future.as_mut().poll(&mut cx) {
                    Poll::Ready(output) => Some(output),
                    Poll::Pending => None,
                };
            }
            if stood_in.is_none() {
                thread::park_timeout(left.min(FOLLOW));
            }
        }
    }
}

/// How long those sleep who wait while another waiting thread drives the hub, which may stop at any
/// time, and how long that one does.
const FOLLOW: Duration = Duration::from_millis(1);

/// The one waiting thread that drives a hub without a driver.
struct StandIn<'s>(&'s Shared);

impl<'s> StandIn<'s> {
    fn take(shared: &'s Shared) -> Option<Self> {
        let was = shared.standing_in.swap(true, Ordering::AcqRel);
        (!was).then_some(Self(shared))
    }
}

impl Drop for StandIn<'_> {
    fn drop(&mut self) {
        self.0.standing_in.store(false, Ordering::Release);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
