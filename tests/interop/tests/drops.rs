//! How long a program waits for dropping its connections, in a machine whose clock counts
//! instructions: whatever else the host does, it is the same.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interop::by_address::machine;
use testbed::Command;

const COUNT: u32 = 1000;
/// Of all of them, and of each, in microseconds.
const PROMISED: [u32; 2] = [50_000, 1_000];

#[test]
fn dropped_connections_end_elsewhere() {
    let guest = machine()
        .unwrap()
        .with_binary(
            testbed::cargo::program_of("interop", "drop-times").unwrap(),
            "drop-times",
        )
        .counted()
        .boot()
        .unwrap();
    let command = Command::new("drop-times").args(["10.1.0.1", &COUNT.to_string()]);
    let said = guest.run(command).unwrap().check().unwrap().stdout_text();
    let times: Vec<u32> = said
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    println!(
        "FIGURE: {COUNT} connections dropped, microseconds of all and of the longest: {times:?}"
    );
    let [all, longest] = times[..] else {
        panic!("{said}")
    };
    assert!(
        all <= PROMISED[0] && longest <= PROMISED[1],
        "{times:?}, at most {PROMISED:?}"
    );
    guest.power_off().unwrap();
}
