//! A device that was found together with the connection manager.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use uverbs_core::discover::DeviceInfo;

use crate::{Context, Device};

/// What was found. It is used once, and soon: devices come, go and change their names.
#[derive(Debug)]
pub(super) struct Known(Mutex<Option<(Instant, DeviceInfo)>>);

/// How long it is taken for true.
const FRESH: Duration = Duration::from_secs(1);

impl Known {
    pub(super) fn new(found: Option<DeviceInfo>) -> Self {
        Self(Mutex::new(found.map(|info| (Instant::now(), info))))
    }

    /// Opens the device with this index, if it is known and still there.
    pub(super) fn open(&self, index: u32) -> Option<Context> {
        let info = self.take(index)?;
        Device { info }.open().ok()
    }

    fn take(&self, index: u32) -> Option<DeviceInfo> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .take_if(|(_, info)| info.index == Some(index))
            .filter(|(found, _)| found.elapsed() < FRESH)
            .map(|(_, info)| info)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use uverbs_core::discover::Source;

    use super::*;

    fn known(found: Instant) -> Known {
        let mut info = DeviceInfo::named("third".into(), Source::Netlink);
        info.index = Some(3);
        Known(Mutex::new(Some((found, info))))
    }

    #[test]
    fn a_device_is_known_by_its_index_once_and_for_a_second() {
        let fresh = known(Instant::now());
        assert!(fresh.take(0).is_none());
        assert_eq!(fresh.take(3).unwrap().index, Some(3));
        assert!(fresh.take(3).is_none());
        let stale = known(Instant::now().checked_sub(FRESH).unwrap());
        assert!(stale.take(3).is_none());
        assert!(Known::new(None).take(0).is_none());
    }
}
