//! The registration of a queue's number in the table of completions, for as long as the device has
//! the queue.

use std::sync::Arc;

use uverbs_core::{Error, ErrorKind, Op, Result};

use crate::cqe::CqShared;
use crate::cqe::Entry;
use crate::tracker::table::{DeviceNumber, Mark, Marks, NO_NUMBER, Owner, Trackers};

/// The completion queues that a queue reports to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    pub(crate) sends: Option<Arc<CqShared>>,
    pub(crate) receives: Option<Arc<CqShared>>,
}

impl Reports {
    /// For a queue that only receives.
    pub(crate) fn receives(cq: Option<Arc<CqShared>>) -> Self {
        Self {
            sends: None,
            receives: cq,
        }
    }

    /// The current positions in them.
    pub(crate) fn produced(&self) -> Marks {
        self.marks(|cq| Some(cq.produced()))
    }

    fn marks(&self, position: impl Fn(&CqShared) -> Option<u64>) -> Marks {
        let mark = |cq: &Arc<CqShared>| Some(Mark::new(cq, position(cq)?));
        let sends = self.sends.as_ref().and_then(mark);
        let receives = match (&self.sends, &self.receives) {
            (Some(sent), Some(received)) if Arc::ptr_eq(sent, received) => sends.clone(),
            (_, received) => received.as_ref().and_then(mark),
        };
        [sends, receives]
    }
}

/// A registered number. It is released on drop, which the kernel object does when the queue is
/// certainly gone.
#[derive(Debug)]
pub(crate) struct Registered {
    trackers: Arc<Trackers>,
    number: u32,
    /// The number that its completions carry instead.
    device: Option<DeviceNumber>,
    reports: Reports,
}

fn exhausted(op: Op) -> Error {
    Error::new(op, ErrorKind::OutOfResources).fact("max", NO_NUMBER)
}

impl Registered {
    /// Allocates a number for a queue that is about to be created.
    pub(crate) fn new(op: Op, trackers: &Arc<Trackers>, owner: Owner) -> Result<Self> {
        Ok(Self {
            number: trackers.add(owner).ok_or_else(|| exhausted(op))?,
            trackers: Arc::clone(trackers),
            device: None,
            reports: Reports::default(),
        })
    }

    /// After the creation of the queue, which reports there.
    #[must_use]
    pub(crate) fn created(mut self, reports: Reports) -> Self {
        self.reports = reports;
        self
    }

    /// Registers a queue that was created with the device's number, and reports there.
    pub(crate) fn by_device(
        op: Op,
        trackers: &Arc<Trackers>,
        number: DeviceNumber,
        owner: Owner,
        reports: Reports,
    ) -> Result<Self> {
        // Entries written before belong to other queues that had the number.
        let since = reports.produced();
        Self::by_device_since(op, trackers, number, owner, reports, since)
    }

    /// The same for a queue that the device may already have reported on: at most since the command
    /// to create it, which was after `since`.
    pub(crate) fn by_device_since(
        op: Op,
        trackers: &Arc<Trackers>,
        number: DeviceNumber,
        owner: Owner,
        reports: Reports,
        since: Marks,
    ) -> Result<Self> {
        Ok(Self {
            number: trackers
                .add_device(number, owner, since)
                .ok_or_else(|| exhausted(op))?,
            trackers: Arc::clone(trackers),
            device: Some(number),
            reports,
        })
    }

    /// The user index passed to the device.
    pub(crate) fn user_index(&self) -> u32 {
        match self.device {
            None => self.number,
            Some(_) => NO_NUMBER,
        }
    }

    fn is_about(&self, entry: &Entry<'_>) -> bool {
        match self.device {
            None => entry.user_index() == self.number,
            Some(DeviceNumber::QueuePair(number)) => entry.tail.qpn() == number,
            Some(DeviceNumber::Srq(number)) => {
                entry.tail.is_receive() && entry.user_index() == number
            }
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let until = self
            .reports
            .marks(|cq| cq.waiting(|entry| self.is_about(entry)));
        self.trackers.remove(self.number, until);
    }
}
