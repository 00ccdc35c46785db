//! Programs of librdmacm on the other end of a connection by address, on the one device of a guest.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use testbed::{Command, Guest, Kernel, Machine, complaints};

const PATIENCE: Duration = Duration::from_secs(60);
/// What those programs exchange: 16 bytes each way.
const MESSAGE: &str = "0123456789abcdef";

fn boot() -> Guest {
    let kernel = std::env::var("UVERBS_TEST_KERNEL");
    let kernel = Kernel::named(kernel.as_deref().unwrap_or("6.12")).unwrap();
    Machine::new(kernel)
        .with_debian_tools()
        .with_debian_packages(&["rdmacm-utils"])
        .with_binary(testbed::cargo::tool().unwrap(), "uverbs")
        .boot()
        .unwrap()
}

/// The tool, which has that message on its standard input, and tells how much it received.
fn ours(what: &str) -> Command {
    let line = format!(
        "(printf {MESSAGE}; sleep 2) | uverbs cm {what} 10.1.0.1:7471 >/tmp/out; wc -c </tmp/out"
    );
    Command::shell(line).timeout(PATIENCE)
}

#[test]
fn rdma_client_and_rdma_server() {
    let guest = boot();
    let listening = guest.spawn(ours("listen")).unwrap();
    // It says so on standard error.
    std::thread::sleep(Duration::from_secs(3));
    let theirs = Command::new("rdma_client").args(["-s", "10.1.0.1", "-p", "7471"]);
    let theirs = guest.run(theirs.timeout(PATIENCE)).unwrap();
    let ours_ended = listening.wait().unwrap();
    let said = format!("{}{}", theirs.stdout_text(), ours_ended.stderr_text());
    assert!(
        theirs.stdout_text().contains("rdma_client: end 0"),
        "{said}"
    );
    assert_eq!(ours_ended.stdout_text().trim(), "16", "{said}");

    let theirs = Command::new("rdma_server").args(["-p", "7471"]);
    let theirs = guest.spawn(theirs.timeout(PATIENCE)).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let ours_ended = guest.run(ours("connect")).unwrap();
    let theirs = theirs.wait().unwrap();
    let said = format!("{}{}", theirs.stdout_text(), ours_ended.stderr_text());
    assert!(
        theirs.stdout_text().contains("rdma_server: end 0"),
        "{said}"
    );
    assert_eq!(ours_ended.stdout_text().trim(), "16", "{said}");

    let log = guest.kernel_log();
    let complaints: Vec<_> = complaints::among(&log)
        .iter()
        .map(|line| line.text.clone())
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    guest.power_off().unwrap();
}
