//! Memory that the stock kernel registers by work requests.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use testbed::connectx::NO_REPORTS;
use testbed::{Command, Connectx, Function, Guest, Kernel, Machine, complaints};

const LIMIT: Duration = Duration::from_secs(90);

fn run(guest: &Guest, line: &str) {
    guest
        .run(Command::shell(line).timeout(LIMIT))
        .expect("the guest runs commands")
        .check()
        .expect("the program succeeds");
}

fn ask(guest: &Guest, question: &str) -> String {
    let connectx = guest.connectx().expect("the machine has functions");
    connectx.ask(question).expect("the control socket answers")
}

/// Runs a two-sided program of Debian's from the second function to the first.
fn both_sides(guest: &Guest, program: &str) {
    let server = guest
        .spawn(Command::shell(format!("{program} -d mlx5_0")).timeout(LIMIT))
        .expect("the guest runs commands");
    // The client tries once; the server says nothing when it listens.
    run(
        guest,
        &format!(
            "for try in 1 2 3 4 5 6 7 8; do sleep 0.5; {program} -d mlx5_1 127.0.0.1 && exit 0; done; exit 1"
        ),
    );
    server
        .wait()
        .expect("the server ends")
        .check()
        .expect("the server succeeds");
}

fn registered(kernel: &str) {
    let trace = std::env::temp_dir().join(format!("connectx-umr-{kernel}-{}", std::process::id()));
    let connectx = Connectx::new(&[Function::Ib, Function::Ib])
        .umr()
        .trace(&trace);
    let guest = Machine::new(Kernel::named(kernel).expect("a known kernel"))
        .connectx(connectx)
        .with_debian_tools()
        .boot()
        .expect("the machine boots");
    both_sides(&guest, "ibv_rc_pingpong -c -n 100");
    both_sides(&guest, "ib_write_bw -F -n 20 -s 8388608");
    both_sides(&guest, "ib_read_bw -F -n 20 -s 1000000");
    both_sides(&guest, "ib_atomic_bw -F -n 100");
    run(&guest, "rmmod mlx5_ib && rmmod mlx5_core");
    assert_eq!(ask(&guest, "census 0"), "[]");
    assert_eq!(ask(&guest, "reports"), NO_REPORTS);
    let log = guest.kernel_log();
    let complaints = complaints::among(&log);
    assert!(complaints.is_empty(), "{complaints:#?}");
    guest.power_off().expect("the machine powers off");
    let lines = std::fs::read_to_string(&trace).expect("the trace was written");
    std::fs::remove_file(&trace).expect("the trace is there");
    // The opcode is the fourth byte.
    let requests = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|line| line["kind"] == "wqe")
        .filter(|line| {
            line["bytes"]
                .as_str()
                .is_some_and(|bytes| bytes.get(6..8) == Some("25"))
        })
        .count();
    println!("{kernel}: {requests} registration requests");
    // Each of the eight buffers is loaded and let go.
    assert!(requests >= 16, "{requests}");
}

#[test]
fn the_kernel_loads_pages_by_work_requests_on_6_1() {
    registered("6.1");
}

#[test]
fn the_kernel_loads_pages_by_work_requests_on_6_12() {
    registered("6.12");
}

#[test]
fn the_kernel_loads_pages_by_work_requests_on_the_newest() {
    registered("newest");
}
