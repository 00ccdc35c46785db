//! Processors.

use rustix::thread::sched_getaffinity;

/// Whether this thread may run on one processor alone, by its affinity. Then whatever it waits for
/// comes no sooner for waiting awake. False if that cannot be found out; quotas of cgroups are not
/// looked at. One system call, `sched_getaffinity(2)`, which does not block.
pub fn has_one_processor() -> bool {
    sched_getaffinity(None).is_ok_and(|set| set.count() == 1)
}
