//! The number by which the queue pair of a completion is found.

use std::sync::Arc;

use uverbs_core::types::QpType;
use uverbs_core::{Op, Result};

use crate::context::Context;
use crate::tracker::QueuePairTracker;
use crate::tracker::registration::{Registered, Reports};
use crate::tracker::table::{DeviceNumber, NO_NUMBER, Owner, Trackers};

/// The number that its completions carry, if that is known before the creation.
pub(super) struct Numbered {
    /// The entry in the table of numbers; `None` for queue pairs without one.
    pub(super) owner: Option<Owner>,
    pub(super) registered: Option<Registered>,
    /// The user index passed to the device.
    pub(super) uidx: u32,
}

impl Numbered {
    pub(super) fn new(
        op: Op,
        context: &Context,
        kind: QpType,
        tracker: &Arc<QueuePairTracker>,
    ) -> Result<Self> {
        let owner = Owner::QueuePair(Arc::clone(tracker));
        if kind == QpType::XrcTarget {
            // Its receives complete with the number of their shared queue.
            let by_device = context.config().cqe_version == 0;
            return Ok(Self {
                owner: None,
                registered: None,
                uidx: if by_device { NO_NUMBER } else { 0 },
            });
        }
        if context.config().cqe_version == 0 {
            return Ok(Self {
                owner: Some(owner),
                registered: None,
                uidx: NO_NUMBER,
            });
        }
        let registered = Registered::new(op, context.trackers(), owner.clone())?;
        Ok(Self {
            owner: Some(owner),
            uidx: registered.user_index(),
            registered: Some(registered),
        })
    }

    /// After the creation, which gave it this number of the device's.
    pub(super) fn created(
        self,
        op: Op,
        trackers: &Arc<Trackers>,
        number: u32,
        reports: Reports,
    ) -> Result<Option<Registered>> {
        match (self.registered, self.owner) {
            (Some(registered), _) => Ok(Some(registered.created(reports))),
            (None, Some(owner)) => {
                let number = DeviceNumber::QueuePair(number);
                Registered::by_device(op, trackers, number, owner, reports).map(Some)
            }
            (None, None) => Ok(None),
        }
    }
}
