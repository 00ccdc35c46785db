//! What to do while a completion queue is empty: spin, then yield; or sleep until an event, at once
//! or after spinning.

use std::time::{Duration, Instant};

use uverbs::{CompletionChannel, CompletionQueue, Notify};

use crate::failure::Result;

/// Empty polls before yielding to other threads, or sleeping.
const SPINS: u32 = 512;

/// The same when the next completion is being timed: longer than a message takes, but shorter than
/// the scheduler's tick, in case all processors are busy waiting.
const LONG_SPINS: u32 = 1 << 16;

/// Waits for completions, and tracks for how long.
pub(crate) struct Idle {
    spins: u32,
    patience: u32,
    /// Whether it spins before it sleeps, too.
    spins_first: bool,
    armed: bool,
    since: Option<Instant>,
    /// How often it slept and was woken.
    pub(crate) events: u64,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Self::with_patience(SPINS)
    }

    /// Sleeps only where spinning does not help.
    pub(crate) fn adaptive() -> Self {
        Self {
            spins_first: true,
            ..Self::new()
        }
    }

    /// Keeps the processor for as long as a message should take: yielding costs a system call in
    /// the middle of the measurement, and the time to return from it.
    pub(crate) fn spinning() -> Self {
        Self::with_patience(LONG_SPINS)
    }

    fn with_patience(patience: u32) -> Self {
        Self {
            spins: 0,
            patience,
            spins_first: false,
            armed: false,
            since: None,
            events: 0,
        }
    }

    /// There was a completion.
    #[inline]
    pub(crate) fn busy(&mut self) {
        self.spins = 0;
        self.since = None;
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
        if let Some(channel) = channel
            && !(self.spins_first && self.spins < self.patience)
        {
            self.sleep(cq, channel, nap)?;
        } else {
            self.spins = self.spins.saturating_add(1);
            // No pause instruction: it would delay the next poll, and so add to the latency.
            if self.spins < self.patience {
                return Ok(None);
            }
            // On few processors the network stack may be waiting to run.
            std::thread::yield_now();
            if !self.spins.is_multiple_of(16) {
                return Ok(None);
            }
        }
        Ok(Some(self.since.get_or_insert_with(Instant::now).elapsed()))
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
