//! What to do while a completion queue is empty: spin, then let others run; or sleep until an
//! event.

use std::time::{Duration, Instant};

use uverbs::{CompletionChannel, CompletionQueue, Notify};

use crate::failure::Result;

/// Empty polls before others may run.
const SPINS: u32 = 512;

/// The same where the next completion is what is timed: longer than a message takes, but not until
/// the scheduler's tick, should all processors be busy waiting.
const LONG_SPINS: u32 = 1 << 16;

/// Waits for completions, and knows since when.
pub(crate) struct Idle {
    spins: u32,
    patience: u32,
    armed: bool,
    since: Option<Instant>,
    /// How often it slept and was woken.
    pub(crate) events: u64,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Self::with_patience(SPINS)
    }

    /// Keeps the processor for as long as a message should take: giving it up costs a system call
    /// in the middle of what is measured, and the way back.
    pub(crate) fn spinning() -> Self {
        Self::with_patience(LONG_SPINS)
    }

    fn with_patience(patience: u32) -> Self {
        Self {
            spins: 0,
            patience,
            armed: false,
            since: None,
            events: 0,
        }
    }

    /// There was something.
    #[inline]
    pub(crate) fn busy(&mut self) {
        self.spins = 0;
        self.since = None;
    }

    /// Waits a little, after a poll that found nothing.
    ///
    /// With a channel it sleeps, for at most `nap`. Returns how long there was nothing, where that
    /// is long enough to matter.
    #[inline]
    pub(crate) fn wait(
        &mut self,
        cq: &mut CompletionQueue,
        channel: Option<&CompletionChannel>,
        nap: Duration,
    ) -> Result<Option<Duration>> {
        if let Some(channel) = channel {
            self.sleep(cq, channel, nap)?;
        } else {
            self.spins = self.spins.saturating_add(1);
            // No pause instruction: the next look at the queue is what latency waits for.
            if self.spins < self.patience {
                return Ok(None);
            }
            // On few processors the network stack may be what waits to run.
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
