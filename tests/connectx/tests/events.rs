//! Asynchronous events as stock rdma-core programs get them.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::Path;
use std::time::Duration;

use testbed::{Command, Function, Kernel, Machine, complaints};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn programs_get_every_event_that_is_modelled() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest_programs/events.py");
    let guest = Machine::new(Kernel::named("6.12").expect("a known kernel"))
        .connectx(&[Function::Ib, Function::Ib])
        .with_debian_tools()
        .with_debian_packages(&["python3-pyverbs"])
        .with_file(program, "/events.py")
        .boot()
        .expect("the machine boots");
    let output = guest
        .run(Command::shell("python3 /events.py").timeout(LIMIT))
        .expect("the guest runs commands");
    let said = output.stdout_text();
    assert!(
        output.success() && said.ends_with("done\n"),
        "{}\n{said}{}",
        output.ending_text(),
        output.stderr_text()
    );
    println!("{said}");
    // What the program did on purpose is reported, and nothing else.
    let connectx = guest.connectx().expect("the machine has functions");
    let reports = connectx.ask("reports").expect("the control socket answers");
    assert_eq!(
        reports,
        "{\"completion queue overrun\": 1, \"memory key\": 1}"
    );
    let log = guest.kernel_log();
    let complaints: Vec<_> = complaints::among(&log)
        .into_iter()
        // A queue that overran is something for the log.
        .filter(|line| !line.text.contains("CQ error on CQN"))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    guest.power_off().expect("the machine powers off");
}
