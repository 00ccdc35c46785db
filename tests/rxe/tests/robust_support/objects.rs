//! Kernel objects of the device under test, as netlink counts them.

use std::time::{Duration, Instant};

use uverbs::discover::netlink::{Client, Summary};

/// Objects of every kind on the device under test, regardless of their owners.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Objects(Vec<(String, u64)>);

impl Objects {
    /// Counts them now.
    pub(crate) fn now() -> Self {
        Self(summary().counts)
    }

    /// The number of objects of a kind, by the kernel's name for it.
    pub(crate) fn of(&self, kind: &str) -> u64 {
        let found = self.0.iter().find(|(name, _)| name == kind);
        found.map_or_else(
            || panic!("the kernel does not count {kind}: {self:?}"),
            |(_, count)| *count,
        )
    }

    /// Waits until the counts are the same again, where no time is guaranteed.
    pub(crate) fn return_in_time(&self) {
        self.return_within(verbs_tests::DEADLINE);
    }

    /// Waits until the counts are the same again, and returns how long it took.
    pub(crate) fn return_within(&self, limit: Duration) -> Duration {
        let since = Instant::now();
        loop {
            let now = Self::now();
            if now == *self {
                return since.elapsed();
            }
            assert!(
                since.elapsed() < limit,
                "objects were left behind: {now:?}, before: {self:?}"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Checks that the counts are the same at once.
    pub(crate) fn same_now(&self) {
        assert_eq!(Self::now(), *self, "objects were left behind");
    }
}

/// The index of the device under test.
pub(crate) fn device_index() -> u32 {
    summary().index
}

fn summary() -> Summary {
    let name = verbs_tests::device_name();
    let all = Client::connect()
        .and_then(|mut client| client.summaries())
        .expect("RDMA netlink answers");
    all.into_iter()
        .find(|summary| summary.name == name)
        .unwrap_or_else(|| panic!("there is no device {name}"))
}
