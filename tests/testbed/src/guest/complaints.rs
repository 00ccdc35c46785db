//! Lines of the kernel log that a test must not cause.

use guest_init::LogLine;

/// What the kernel writes when something is wrong with itself.
const SERIOUS: [&str; 14] = [
    "BUG:",
    "BUG ",
    "Call Trace:",
    "KASAN",
    "Kernel panic",
    "Oops",
    "RIP: 0010:",
    "UBSAN",
    "WARNING:",
    "blocked for more than",
    "general protection fault",
    "possible recursive locking",
    "soft lockup",
    "unregister_netdevice: waiting",
];

/// Who else must stay silent below "notice": a complaint of rxe or of the verbs layer is about what we sent them.
const OURS: [&str; 4] = ["rdma_rxe", "rxe_", "infiniband", "ib_uverbs"];

/// Lines that are all right, each with the reason.
const ALLOWED: [(&str, &str); 6] = [
    ("rdma_rxe: loaded", "says that the module is there"),
    ("rdma_rxe: unloaded", "says that the module is gone"),
    (": added rxe", "says that a device is there"),
    (
        ": rxe_newlink",
        "devices are made by the testbed, not by the test",
    ),
    (
        "rxe_reg_user_mr: returned err = -12",
        "how much memory may be locked is known to the kernel alone",
    ),
    (
        "rxe_reg_user_mr: returned err = -14",
        "whether memory is mapped is known to the kernel alone",
    ),
];

/// The lines among these that the kernel should not have had a reason to write.
pub fn among(lines: &[LogLine]) -> Vec<&LogLine> {
    lines.iter().filter(|line| is_complaint(line)).collect()
}

fn is_complaint(line: &LogLine) -> bool {
    let text = line.text.as_str();
    if ALLOWED.iter().any(|(allowed, _)| text.contains(allowed)) {
        return false;
    }
    // Levels up to 4 are warnings and worse.
    SERIOUS.iter().any(|serious| text.contains(serious))
        || (line.level <= 4 && OURS.iter().any(|ours| text.contains(ours)))
}

#[cfg(test)]
mod tests {
    use super::is_complaint;
    use guest_init::LogLine;

    fn line(level: u8, text: &str) -> LogLine {
        LogLine {
            level,
            time_us: 0,
            text: text.into(),
        }
    }

    #[test]
    fn serious_lines_complain_at_any_level() {
        assert!(is_complaint(&line(
            6,
            "WARNING: CPU: 1 PID: 77 at drivers/infiniband/sw/rxe/rxe_pool.c:123"
        )));
        assert!(is_complaint(&line(
            1,
            "BUG: kernel NULL pointer dereference, address: 0"
        )));
        assert!(!is_complaint(&line(6, "eth0: link becomes ready")));
    }

    #[test]
    fn rxe_complains_by_warnings_alone() {
        assert!(is_complaint(&line(
            4,
            "rdma_rxe: cqe(32) < current # elements in queue (40)"
        )));
        assert!(!is_complaint(&line(6, "rdma_rxe: loaded")));
        assert!(!is_complaint(&line(6, "infiniband rxe0: set active")));
    }
}
