//! A receive ring whose small messages are delivered in completions: posted requests are also
//! recorded for polling.

use uverbs_core::PostError;
use uverbs_core::types::RecvRequest;

use super::ReceiveRing;
use crate::tracker::ScatterTracker;

/// A receive ring with recorded requests.
#[derive(Debug)]
pub(crate) struct ScatteredRing {
    pub(crate) ring: ReceiveRing,
}

impl ScatteredRing {
    /// The ring of a queue pair whose tracker records the destinations of messages.
    pub(crate) fn new(ring: ReceiveRing) -> Self {
        Self { ring }
    }

    fn scatter(&self) -> Option<&ScatterTracker> {
        self.ring.tracker.scatter()
    }

    pub(crate) fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        self.ring.put(request)?;
        if let Some(scatter) = self.scatter() {
            scatter.note(self.ring.end.wrapping_sub(1), request.scatter);
        }
        Ok(())
    }

    pub(crate) fn submit(&mut self) -> Result<(), PostError> {
        // Before the device may complete them.
        self.publish(self.ring.end);
        self.ring
            .submit()
            .inspect_err(|_| self.publish(self.ring.submitted()))
    }

    pub(crate) fn post(&mut self, requests: &[RecvRequest<'_>]) -> Result<(), (usize, PostError)> {
        self.ring.abort();
        for (posted, request) in requests.iter().enumerate() {
            if let Err(error) = self.put(request) {
                self.submit().map_err(|error| (0, error))?;
                return Err((posted, error));
            }
        }
        self.submit().map_err(|error| (0, error))
    }

    fn publish(&self, posted: u32) {
        if let Some(scatter) = self.scatter() {
            scatter.posted(posted);
        }
    }
}
