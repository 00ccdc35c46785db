//! A process that is killed at any moment leaves nothing in the kernel.

use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

use crate::support::kernel_log::{KernelLog, excuse};
use crate::support::objects::Objects;
use crate::support::traced::Program;

/// How long the kernel may take to clean up.
const LIMIT: Duration = Duration::from_secs(1);

/// Killed after each of its system calls. Being killed on entry to one is the same: it is not
/// carried out then.
#[test]
fn f20_killed_at_any_system_call() {
    let before = Objects::now();
    let mut log = KernelLog::from_now();
    let program = Program::named("reach-rts");
    let mut slowest = Duration::ZERO;
    let mut stops = 0;
    loop {
        let mut traced = program.trace();
        let alive = (0..=2 * stops).all(|_| traced.step().is_some());
        if !alive {
            break;
        }
        traced.kill();
        slowest = slowest.max(before.return_within(LIMIT));
        stops += 1;
    }
    println!(
        "FIGURE: killed after {stops} system calls; the kernel was clean after {slowest:?} at the latest"
    );
    assert!(
        stops > 60,
        "only {stops} stops: the helper does not do what it should"
    );
    log.silent("a killed process");
}

/// What rxe logs about a registration during which the process was killed, since 6.4 and before,
/// and about a message whose memory or socket was destroyed first.
const INTERRUPTED: [&str; 3] = [
    "rxe_reg_user_mr: returned err = -4",
    "Unable to pin memory region err = -4",
    "do_complete: non-flush error status",
];

/// Killed while work requests are under way and objects are created and destroyed.
#[test]
fn f20_killed_during_traffic() {
    INTERRUPTED.into_iter().for_each(excuse);
    let before = Objects::now();
    let mut log = KernelLog::from_now();
    let program = Program::named("reach-rts");
    let mut slowest = Duration::ZERO;
    for round in 0..40_u64 {
        let mut command = program.command();
        let mut child = command
            .arg("traffic")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the helper starts");
        let mut ready = [0; 5];
        child
            .stdout
            .take()
            .expect("a pipe")
            .read_exact(&mut ready)
            .expect("the helper gets ready");
        // Moments that are spread evenly, and vary from run to run with the scheduler.
        std::thread::sleep(Duration::from_micros(round * 1777 % 40_000));
        child.kill().expect("the helper runs");
        let status = child.wait().expect("the helper ends");
        assert_eq!(status.code(), None, "the helper ended by itself: {status}");
        slowest = slowest.max(before.return_within(LIMIT));
    }
    println!(
        "killed 40 times during traffic; the kernel was clean after {slowest:?} at the latest"
    );
    // Interruptions by the kill are logged as such.
    let lines = log.lines();
    assert!(
        lines
            .iter()
            .all(|line| INTERRUPTED.iter().any(|words| line.contains(words))),
        "{lines:#?}"
    );
}
