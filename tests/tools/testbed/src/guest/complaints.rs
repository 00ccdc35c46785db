//! Lines of the kernel log that a test must not cause.

use super::Output;
use guest_init::LogLine;

/// Texts that the kernel logs if something is wrong with the kernel itself.
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

/// Other sources that must log nothing more severe than "notice": a complaint of a verbs driver or
/// of the verbs layer is about what we sent them, or about the software ConnectX.
const OURS: [&str; 5] = ["rdma_rxe", "rxe_", "mlx5", "infiniband", "ib_uverbs"];

/// Lines that are permitted, each with the reason.
const ALLOWED: [(&str, &str); 11] = [
    ("rdma_rxe: loaded", "reports that the module is loaded"),
    ("rdma_rxe: unloaded", "reports that the module is unloaded"),
    (": added rxe", "reports a new device"),
    (
        ": rxe_newlink",
        "devices are made by the testbed, not by the test",
    ),
    (
        "rxe_reg_user_mr: returned err = -12",
        "only the kernel knows how much memory may be locked",
    ),
    (
        "rxe_reg_user_mr: returned err = -14",
        "only the kernel knows whether memory is mapped",
    ),
    (
        "callbacks suppressed",
        "counts lines of an earlier storm, often of another test's, whose first lines were seen",
    ),
    (
        "PTM is not supported by PCIe",
        "the software ConnectX has no precision time measurement",
    ),
    (
        "mlx5e_tc_post_act_init",
        "the software ConnectX has no offloaded traffic control, whose absence 6.1 logs",
    ),
    (
        "log_max_qp value in current profile",
        "the software ConnectX has fewer queue pairs than 5.10 begins with",
    ),
    (
        "from rxe_umem_get",
        "5.10: only the kernel knows how much memory may be locked, and whether it is mapped",
    ),
];

/// Those of these lines that the kernel should not have had a reason to log.
pub fn among(lines: &[LogLine]) -> Vec<&LogLine> {
    lines.iter().filter(|line| is_complaint(line)).collect()
}

/// The prefix by which a test announces on standard output, one per line, complaints that it
/// provokes from the kernel.
const EXCUSE: &str = "the kernel may say: ";

/// The same for what a test caused, without the complaints that it announced.
pub fn without_excuse(output: &Output) -> Vec<&LogLine> {
    let text = output.stdout_text();
    // The harness begins a line with the name of the test, and the first announcement follows on
    // it.
    let excuses: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once(EXCUSE))
        .map(|(_, words)| words)
        .collect();
    let mut wrong = among(&output.kernel);
    wrong.retain(|line| !excuses.iter().any(|words| line.text.contains(words)));
    wrong
}

fn is_complaint(line: &LogLine) -> bool {
    let text = line.text.as_str();
    if ALLOWED.iter().any(|(allowed, _)| text.contains(allowed)) {
        return false;
    }
    // Levels up to 4 are warnings or more severe.
    SERIOUS.iter().any(|serious| text.contains(serious))
        || (line.level <= 4 && OURS.iter().any(|ours| text.contains(ours)))
}

#[cfg(test)]
mod tests {
    use super::{is_complaint, without_excuse};
    use crate::Output;
    use guest_init::{Ending, LogLine};
    use std::time::Duration;

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
        assert!(!is_complaint(&line(
            4,
            "rxe_cq_post: 18 callbacks suppressed"
        )));
        assert!(!is_complaint(&line(6, "infiniband rxe0: set active")));
    }

    #[test]
    fn the_drivers_of_the_connectx_are_heard() {
        let timeout = "mlx5_core 0000:01:00.0: wait_func:1151:(pid 77): CREATE_QP(0x500) timeout";
        assert!(is_complaint(&line(3, timeout)));
        let ptm = "mlx5_core 0000:01:00.0: mlx5_pcie_set_ptm:1: PTM is not supported by PCIe";
        assert!(!is_complaint(&line(4, ptm)));
    }

    #[test]
    fn what_was_announced_is_no_complaint() {
        let output = Output {
            command: String::new(),
            ending: Ending::Code(0),
            stdout:
                b"test a::b ... the kernel may say: error status\nthe kernel may say: too big\nok\n"
                    .to_vec(),
            stderr: Vec::new(),
            elapsed: Duration::ZERO,
            kernel: vec![
                line(3, "rxe0: qp#17 rxe_complete: error status = 10"),
                line(4, "rdma_rxe: cqe(9) too big"),
                line(4, "rdma_rxe: something else"),
            ],
        };
        let wrong = without_excuse(&output);
        assert_eq!(wrong, [&output.kernel[2]]);
    }
}
