//! The stock drivers and Debian's own programs against the model, kernel by kernel.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod machine;

use std::time::Duration;

use machine::{Server, complaints};
use testbed::{Command, Guest};

const LIMIT: Duration = Duration::from_secs(60);

fn run(guest: &Guest, line: &str) -> String {
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

/// Runs a two-sided program of Debian's over the two functions.
fn both_sides(guest: &Guest, program: &str, devices: [&str; 2]) {
    let server = guest
        .spawn(Command::shell(format!("{program} -d {}", devices[0])).timeout(LIMIT))
        .expect("the guest runs commands");
    // The client tries once; the server says nothing when it listens.
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

fn stock_programs(kernel: &str) {
    let server = Server::start(&["ib", "ib"], &[]);
    let guest = server.boot(kernel, &[]);
    let devices = run(&guest, "ibv_devinfo -v");
    assert_eq!(devices.matches("PORT_ACTIVE").count(), 2, "{devices}");
    assert!(devices.contains("ATOMIC_HCA"), "{devices}");
    for kind in ["rc", "uc", "ud", "srq", "xsrq"] {
        for events in ["", " -e"] {
            both_sides(
                &guest,
                &format!("ibv_{kind}_pingpong -n 100{events}"),
                ["mlx5_0", "mlx5_1"],
            );
        }
    }
    both_sides(&guest, "ibv_rc_pingpong -n 100", ["mlx5_0", "mlx5_0"]);
    for test in [
        "send_bw",
        "send_lat",
        "write_bw",
        "write_lat",
        "read_bw",
        "read_lat",
        "atomic_bw",
        "atomic_lat",
    ] {
        both_sides(
            &guest,
            &format!("ib_{test} -F -n 100"),
            ["mlx5_0", "mlx5_1"],
        );
    }
    run(&guest, "rmmod mlx5_ib && rmmod mlx5_core");
    assert_eq!(server.ask("census 0"), "[]");
    assert_eq!(server.ask("census 1"), "[]");
    assert_eq!(server.ask("reports"), "{}");
    assert_eq!(complaints(&guest), Vec::<String>::new());
    guest.power_off().expect("the machine powers off");
}

#[test]
fn stock_programs_on_6_1() {
    stock_programs("6.1");
}

#[test]
fn stock_programs_on_6_12() {
    stock_programs("6.12");
}

#[test]
fn stock_programs_on_the_newest() {
    stock_programs("newest");
}
