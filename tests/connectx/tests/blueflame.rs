//! Work requests copied through doorbell pages by stock libmlx5.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use testbed::connectx::NO_REPORTS;
use testbed::{Command, Connectx, Function, Guest, Kernel, Machine, complaints};

const LIMIT: Duration = Duration::from_secs(60);

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

/// How many whole copies the model took.
fn copies(guest: &Guest) -> u32 {
    let counts = ask(guest, "doorbells");
    let number = counts.split("copies: ").nth(1).expect("a count of copies");
    number
        .split(',')
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

/// The kernel first finds out whether copies arrive whole; then the library copies inline work requests.
///
/// On a busy host the rest of a copy can come too late when the kernel tries, and it does without copies from then on:
/// so there is more than one try.
fn copied(kernel: &str) {
    let mut counts = Vec::new();
    while counts.len() < 3 {
        let sent = sent_as_copies(kernel);
        if sent >= 800 {
            return;
        }
        counts.push(sent);
    }
    panic!("copies among 1000 messages: {counts:?}");
}

/// How many of 1000 inline messages were copies.
fn sent_as_copies(kernel: &str) -> u32 {
    let guest = Machine::new(Kernel::named(kernel).expect("a known kernel"))
        .connectx(Connectx::new(&[Function::Ib, Function::Ib]).blueflame())
        .with_debian_tools()
        .boot()
        .expect("the machine boots");
    for kind in ["rc", "uc", "ud", "srq", "xsrq"] {
        both_sides(&guest, &format!("ibv_{kind}_pingpong -n 100"));
    }
    let before = copies(&guest);
    // These messages are inline, so each is a copy; on a busy host some do not come in time.
    both_sides(&guest, "ib_send_lat -F -n 500 -s 64");
    let sent = copies(&guest) - before;
    println!("{kernel}: {}", ask(&guest, "doorbells"));
    run(&guest, "rmmod mlx5_ib && rmmod mlx5_core");
    assert_eq!(ask(&guest, "census 0"), "[]");
    assert_eq!(ask(&guest, "reports"), NO_REPORTS);
    let log = guest.kernel_log();
    let complaints = complaints::among(&log);
    assert!(complaints.is_empty(), "{complaints:#?}");
    guest.power_off().expect("the machine powers off");
    sent
}

#[test]
fn inline_messages_are_copies_on_6_1() {
    copied("6.1");
}

#[test]
fn inline_messages_are_copies_on_6_12() {
    copied("6.12");
}

#[test]
fn inline_messages_are_copies_on_the_newest() {
    copied("newest");
}
