//! What every test in a machine needs.

use std::time::Duration;

use testbed::connectx::NO_REPORTS;
use testbed::{Command, Connectx, Guest, Kernel, Machine, complaints};

const LIMIT: Duration = Duration::from_secs(90);

/// A machine with these functions and Debian's RDMA programs.
pub(crate) fn machine(kernel: &str, connectx: impl Into<Connectx>) -> Machine {
    Machine::new(Kernel::named(kernel).expect("a known kernel"))
        .connectx(connectx)
        .with_debian_tools()
}

pub(crate) fn boot(kernel: &str, connectx: impl Into<Connectx>) -> Guest {
    machine(kernel, connectx).boot().expect("the machine boots")
}

pub(crate) fn ask(guest: &Guest, question: &str) -> String {
    let connectx = guest.connectx().expect("the machine has functions");
    connectx.ask(question).expect("the control socket answers")
}

/// The kernel logged no complaint but the expected one, and the model reported nothing but these
/// reports.
pub(crate) fn assert_only(guest: &Guest, reports: &str, expected: &str) {
    assert_eq!(ask(guest, "reports"), reports);
    let log = guest.kernel_log();
    let complaints: Vec<_> = complaints::among(&log)
        .into_iter()
        .filter(|line| expected.is_empty() || !line.text.contains(expected))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// Neither the model nor the kernel complained.
pub(crate) fn assert_silent(guest: &Guest) {
    assert_only(guest, NO_REPORTS, "");
}

/// Runs a command that must succeed; returns its output.
pub(crate) fn run(guest: &Guest, line: &str) -> String {
    let output = guest
        .run(Command::shell(line).timeout(LIMIT))
        .expect("the guest runs commands");
    assert!(
        output.success(),
        "{line}: {}\n{}{}",
        output.ending_text(),
        output.stdout_text(),
        output.stderr_text()
    );
    output.stdout_text()
}

/// Runs one of Debian's two-sided programs, the server on the first of two devices.
pub(crate) fn both_sides(guest: &Guest, program: &str, devices: [&str; 2]) {
    let server = guest
        .spawn(Command::shell(format!("{program} -d {}", devices[0])).timeout(LIMIT))
        .expect("the guest runs commands");
    // The client tries only once; the server does not say when it listens.
    let client = format!(
        "for try in 1 2 3 4 5 6 7 8; do sleep 0.5; {program} -d {} 127.0.0.1 && exit 0; done; exit 1",
        devices[1]
    );
    run(guest, &client);
    server
        .wait()
        .expect("the server ends")
        .check()
        .expect("the server succeeds");
}

/// Unloads the drivers; nothing may be left in the model.
pub(crate) fn leave(guest: &Guest) {
    run(guest, "rmmod mlx5_ib && rmmod mlx5_core");
    for function in ["census 0", "census 1"] {
        assert_eq!(ask(guest, function), "[]");
    }
}
