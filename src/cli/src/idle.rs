//! What to do while a completion queue is empty: poll, with short naps; or sleep until an event, at
//! once or after polling.
//!
//! A thread that polls keeps a processor from rxe's own tasks, which run as the kernel's workers:
//! where every processor polls, each step of a message waits for the scheduler's tick (4 ms).
//! Yielding does not help: a thread yields to those of its own scheduling group (session or
//! control group), and workers belong to none. So a thread that has polled for longer than a
//! message takes sleeps for as short a time as it can.

use std::time::{Duration, Instant};

use uverbs::{CompletionChannel, CompletionQueue, Notify};

use crate::failure::Result;

/// Empty polls before it sleeps until an event, and between two looks at the clock.
const SPINS: u32 = 512;
const LOOK: u32 = 64;

/// How long it polls between naps: much longer than a message between two adapters, and longer than
/// one over rxe whose steps nobody delays.
const PATIENCE: Duration = Duration::from_micros(200);

/// The same where the next completion is being timed, which a nap would delay by its 50 µs.
const LONG_PATIENCE: Duration = Duration::from_millis(1);

/// A nap is as long as the kernel's timer slack, 50 µs.
const NAP: Duration = Duration::from_nanos(1);

/// Waits for completions, and tracks for how long.
pub(crate) struct Idle {
    spins: u32,
    patience: Duration,
    /// Whether it polls before it sleeps until an event, too.
    spins_first: bool,
    armed: bool,
    since: Option<Instant>,
    /// When it may nap, counted from `since`.
    next_nap: Duration,
    /// How often it slept and was woken.
    pub(crate) events: u64,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Self::with_patience(PATIENCE)
    }

    /// Sleeps until an event only where polling does not help.
    pub(crate) fn adaptive() -> Self {
        Self {
            spins_first: true,
            ..Self::new()
        }
    }

    /// Keeps the processor for longer than a message should take.
    pub(crate) fn spinning() -> Self {
        Self::with_patience(LONG_PATIENCE)
    }

    fn with_patience(patience: Duration) -> Self {
        Self {
            spins: 0,
            patience,
            spins_first: false,
            armed: false,
            since: None,
            next_nap: patience,
            events: 0,
        }
    }

    /// There was a completion.
    #[inline]
    pub(crate) fn busy(&mut self) {
        self.spins = 0;
        self.since = None;
        self.next_nap = self.patience;
    }

    /// Waits a little after a poll that found nothing.
    ///
    /// With a completion channel it sleeps, for at most `nap`. Returns how long there has been
    /// nothing, if that is long enough to matter.
    #[inline]
    pub(crate) fn wait(
        &mut self,
        cq: &mut CompletionQueue,
        channel: Option<&CompletionChannel>,
        nap: Duration,
    ) -> Result<Option<Duration>> {
        self.spins = self.spins.saturating_add(1);
        if let Some(channel) = channel
            && !(self.spins_first && self.spins < SPINS)
        {
            self.sleep(cq, channel, nap)?;
            return Ok(Some(self.silent()));
        }
        // No pause instruction: it would delay the next poll, and so add to the latency.
        if !self.spins.is_multiple_of(LOOK) {
            return Ok(None);
        }
        let silent = self.silent();
        if silent < self.next_nap {
            return Ok(None);
        }
        std::thread::sleep(NAP);
        let silent = self.silent();
        self.next_nap = silent + self.patience;
        Ok(Some(silent))
    }

    fn silent(&mut self) -> Duration {
        self.since.get_or_insert_with(Instant::now).elapsed()
    }

    fn sleep(
        &mut self,
        cq: &mut CompletionQueue,
        channel: &CompletionChannel,
        nap: Duration,
    ) -> Result<()> {
        if !self.armed {
            // The caller polls once more before it sleeps: a completion may have come just before
            // this.
            cq.request_notification(Notify::Any)?;
            self.armed = true;
        } else if channel.event(Some(nap))?.is_some() {
            self.events += 1;
            self.armed = false;
        }
        Ok(())
    }
}
