//! The number by which completions of an XRC queue are found. Those of a basic queue name the queue
//! pair.

use std::sync::Arc;

use uverbs_core::{Op, Result};

use super::Xrc;
use crate::context::Context;
use crate::cqe::CqShared;
use crate::tracker::SrqTracker;
use crate::tracker::registration::{Registered, Reports};
use crate::tracker::table::{DeviceNumber, NO_NUMBER, Owner};

/// The number of a queue that is about to be created.
pub(super) struct Numbered(Option<OfXrc>);

struct OfXrc {
    owner: Owner,
    reports: Reports,
    /// `None` if completions carry the device's own number.
    registered: Option<Registered>,
}

impl Numbered {
    pub(super) fn new(
        op: Op,
        context: &Context,
        xrc: Option<Xrc<'_>>,
        tracker: &Arc<SrqTracker>,
    ) -> Result<Self> {
        let Some(xrc) = xrc else {
            return Ok(Self(None));
        };
        let owner = Owner::Srq(Arc::clone(tracker));
        let reports = Reports::receives(Some(CqShared::of(op, xrc.cq)?));
        let by_device = context.config().cqe_version == 0;
        let registered = (!by_device)
            .then(|| Registered::new(op, context.trackers(), owner.clone()))
            .transpose()?;
        Ok(Self(Some(OfXrc {
            owner,
            reports,
            registered,
        })))
    }

    /// The user index passed to the device.
    pub(super) fn user_index(&self) -> u32 {
        self.0.as_ref().map_or(0, |xrc| {
            let registered = xrc.registered.as_ref();
            registered.map_or(NO_NUMBER, Registered::user_index)
        })
    }

    /// After the creation, which gave it this number of the device's.
    pub(super) fn created(
        self,
        op: Op,
        context: &Context,
        number: u32,
    ) -> Result<Option<Registered>> {
        let Some(xrc) = self.0 else {
            return Ok(None);
        };
        if let Some(registered) = xrc.registered {
            return Ok(Some(registered.created(xrc.reports)));
        }
        let number = DeviceNumber::Srq(number);
        Registered::by_device(op, context.trackers(), number, xrc.owner, xrc.reports).map(Some)
    }
}
