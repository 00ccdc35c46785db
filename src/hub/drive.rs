//! Taking completions, and drivers.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

use uverbs_core::{Error, ErrorKind, Op, Result};

use super::bells::Bell;
use super::error::ConnectionError;
use super::shared::{Event, Poller, Shared, lock_srq};
use super::spin::Wait;
use super::state::Completing;
use crate::Notify;

/// How many completions a turn takes: after that, others get the completion queue's lock, and
/// waiters learn of theirs.
const TURN: usize = 64;

/// Takes the completions of a [`Hub`](super::Hub) and wakes whatever waits for them, until the hub
/// is closed or dropped. While nothing happens, it sleeps.
#[derive(Debug)]
#[must_use = "it does nothing before it runs"]
pub struct Driver {
    shared: Arc<Shared>,
}

/// How an executor waits for a completion channel ([`Driver::run_async`]).
pub trait Events {
    /// Waits until the channel has an event, takes it, and returns true; false after `limit`
    /// (`None`: there is none).
    ///
    /// It is dropped when the hub has something else to do, and must not have taken an event then.
    ///
    /// # Errors
    /// Those of [`CompletionChannel::try_event`](crate::CompletionChannel::try_event).
    fn event(&self, limit: Option<Duration>) -> impl Future<Output = Result<bool>> + Send;
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
    /// the next, in three system calls on rxe: it reads the event that ended the last sleep, asks
    /// for another, and waits. Several drivers of one hub are no faster.
    ///
    /// # Errors
    /// What ended it, usually that the device was removed. All connections are closed then.
    pub fn run(self) -> Result<()> {
        let hub = &self.shared;
        let running = Running::new(hub);
        let listed = hub.bells.list(running.check(Bell::thread())?);
        while !hub.is_closed() {
            let taken = running.check(hub.attempt(Wait::Eager, Duration::MAX, || false))?;
            if taken == 0 {
                running.check(hub.sleep(&listed.bell, Duration::MAX))?;
            }
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
        let hub = &self.shared;
        let running = Running::new(hub);
        let listed = hub.bells.list(Bell::task());
        while !hub.is_closed() {
            let since = Instant::now();
            let mut taken = running.check(hub.turn())?;
            if taken == 0 {
                let spin = hub.spin.time(Wait::Eager);
                while taken == 0 && since.elapsed() < spin && !hub.is_closed() {
                    yield_once().await;
                    taken = running.check(hub.turn())?;
                }
                if !spin.is_zero() {
                    hub.spin.found(taken > 0);
                }
            }
            if taken == 0 {
                taken = running.check(hub.arm())?;
            }
            if taken > 0 {
                // Those who were woken run before the next turn.
                yield_once().await;
                continue;
            }
            let mut event = pin!(events.event(hub.nap()));
            let ended = std::future::poll_fn(|cx| {
                if listed.bell.poll_rung(cx).is_ready() {
                    return Poll::Ready(Ok(false));
                }
                event.as_mut().poll(cx)
            });
            if running.check(ended.await)? {
                hub.heard_event();
                hub.spin.learn(since.elapsed());
            }
        }
        Ok(())
    }
}

/// Counts a driver. When it ends before the hub does, completions are no longer taken, so everybody
/// must be told.
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
        if last && !self.shared.is_closed() {
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
        self.look_after(&mut poller);
        // Most often nobody is to be woken: then nothing is allocated.
        if !poller.wake.is_empty() {
            let mut wake = std::mem::take(&mut poller.wake);
            drop(poller);
            self.bells.wake(&mut wake);
        }
        taken
    }

    /// Takes all completions there are: until the queue is empty, at most as many as it can hold.
    pub(super) fn take_all_completions(&self, poller: &mut Poller) -> Result<()> {
        let limit = poller.cq.entries() as usize + 1;
        self.take_completions(poller, limit).map(|_| ())
    }

    fn take_completions(&self, poller: &mut Poller, limit: usize) -> Result<usize> {
        let retired = self.retired().len();
        let Poller {
            cq, wake, event, ..
        } = poller;
        let table = self.table();
        let mut taken = 0;
        let mut shared_taken = false;
        let mut failed = None;
        // Most often the next one is of the same connection, whose lock is kept so long.
        let mut last: Option<Completing<'_>> = None;
        while taken < limit {
            let completion = match cq.poll() {
                Ok(Some(completion)) => completion,
                Ok(None) => {
                    if retired > 0 {
                        self.forget(retired);
                    }
                    break;
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            taken += 1;
            let number = completion.qp_num;
            if last.as_ref().is_none_or(|last| last.number() != number) {
                if let Some(last) = last.take() {
                    last.finish(wake);
                }
                last = table.get(&number).map(|conn| conn.completing());
            }
            let left = match &mut last {
                Some(last) => last.complete(completion, wake),
                None => Err(completion),
            };
            let (Err(completion), Some(srq)) = (left, &self.srq) else {
                continue;
            };
            if let Some(last) = last.take() {
                last.finish(wake);
            }
            let conn = table.get(&number);
            let Ok(finished) = lock_srq(srq).complete(completion) else {
                continue;
            };
            shared_taken = true;
            match conn {
                Some(conn) => conn.complete_shared(finished, wake),
                None => self.pool.put_memory_silently(finished.into_memory()),
            }
        }
        if let Some(last) = last {
            last.finish(wake);
        }
        if let Some(error) = failed {
            return Err(Error::bad_reply(Op::PollCompletionQueue, "ring")
                .fact("because", error.to_string()));
        }
        if let (true, Some(srq)) = (shared_taken, &self.srq) {
            self.fill(&mut lock_srq(srq));
        }
        if taken > 0 && *event == Event::Awaited {
            *event = Event::MayHaveCome;
        }
        Ok(taken)
    }

    /// Takes completions: polls for as long as the settings and `wait` say, at most for `limit`,
    /// and until `stop` says so; then asks for an event. Returns how many it took; if none, it is
    /// time to [`sleep`](Self::sleep).
    pub(super) fn attempt(
        &self,
        wait: Wait,
        limit: Duration,
        stop: impl Fn() -> bool,
    ) -> Result<usize> {
        let mut taken = self.turn()?;
        if taken > 0 || limit.is_zero() {
            return Ok(taken);
        }
        let spin = self.spin.time(wait).min(limit);
        if !spin.is_zero() {
            let since = Instant::now();
            while taken == 0 && since.elapsed() < spin && !self.is_closed() && !stop() {
                std::hint::spin_loop();
                taken = self.turn()?;
            }
            self.spin.found(taken > 0);
            if taken > 0 {
                return Ok(taken);
            }
        }
        // Whatever has the message may be waiting for this processor: then it comes without asking
        // for an event, sleeping, and reading the event.
        let yields = self.spin.yields(wait);
        let mut left = yields;
        while taken == 0 && left > 0 && !self.is_closed() && !stop() {
            std::thread::yield_now();
            taken = self.turn()?;
            left -= 1;
        }
        self.spin.yielded(yields, taken > 0);
        if taken > 0 {
            return Ok(taken);
        }
        self.arm()
    }

    /// Asks for an event, and polls once more: completions that came before that send none.
    fn arm(&self) -> Result<usize> {
        {
            let mut poller = self.poller();
            self.ask(&mut poller)?;
            // It may sleep next.
            poller.looked = 0;
        }
        self.turn()
    }

    /// Asks for an event if none is under way. One that has come is read here, and not when it
    /// ended a sleep: completions do not wait for it.
    fn ask(&self, poller: &mut Poller) -> Result<()> {
        let has_come = match poller.event {
            Event::NotAsked => false,
            Event::Awaited => return Ok(()),
            Event::MayHaveCome | Event::Come => match self.channel.try_event() {
                Ok(_) => true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => false,
                Err(error) => return Err(error),
            },
        };
        if has_come || poller.event != Event::MayHaveCome {
            poller.cq.request_notification(Notify::Any)?;
        }
        poller.event = Event::Awaited;
        Ok(())
    }

    /// Takes the events that there are, and asks for another.
    pub(super) fn arm_anew(&self) -> Result<usize> {
        loop {
            match self.channel.try_event() {
                Ok(_) => self.heard_event(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.arm(),
                Err(error) => return Err(error),
            }
        }
    }

    fn heard_event(&self) {
        self.poller().event = Event::NotAsked;
    }

    /// How long to sleep at most: until keepalives are due.
    fn nap(&self) -> Option<Duration> {
        let every = self.settings.keepalive?;
        Some(every.saturating_sub(self.poller().ticked.elapsed()))
    }

    /// Sleeps until there is an event, `bell` is rung, keepalives are due or `limit` has passed.
    pub(super) fn sleep(&self, bell: &Bell, limit: Duration) -> Result<()> {
        let since = self.spin.follows_sleeps().then(Instant::now);
        let nap = self.nap().unwrap_or(Duration::MAX).min(limit);
        let limit = (nap < Duration::MAX).then_some(nap);
        if self.channel.wait_or(bell.descriptor(), limit)? {
            self.poller().event = Event::Come;
            if let Some(since) = since {
                let time = self.spin.time(Wait::Eager);
                self.spin.learn(time.saturating_add(since.elapsed()));
            }
        } else {
            bell.silence();
        }
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
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
