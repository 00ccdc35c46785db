//! Kernel objects of the device under test, as netlink counts them.

use std::time::{Duration, Instant};

use uverbs::discover::netlink::{Client, Summary};

/// Objects of every kind on the device under test, whoever made them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Objects(Vec<(String, u64)>);

impl Objects {
    /// Counts them now.
    pub(crate) fn now() -> Self {
        Self(summary().counts)
    }

    /// How many there are of a kind, by the kernel's word for it.
    pub(crate) fn of(&self, kind: &str) -> u64 {
        let found = self.0.iter().find(|(name, _)| name == kind);
        found.map_or_else(
            || panic!("the kernel does not count {kind}: {self:?}"),
            |(_, count)| *count,
        )
    }

    /// Waits until the counts are these again, where nothing is promised of the time it takes.
    pub(crate) fn return_in_time(&self) {
        self.return_within(verbs_tests::DEADLINE);
    }

    /// Waits until the counts are these again, and says how long it took.
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

    /// The counts are these at once.
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
