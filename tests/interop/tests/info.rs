//! How many system calls `uverbs info` makes compared with `ibv_devinfo`, and whether other devices
//! and GIDs add to them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use testbed::{Command, Guest, Kernel, Machine};

/// For a device with many GIDs among many devices.
const PROMISED: usize = 150;

/// By how much other devices and GIDs may add to them: memory for longer texts.
const SLACK: usize = 10;

const DEVICES: usize = 21;
const GIDS: usize = 120;

/// Adds devices, and addresses, for each of which the first device has a GID.
const MORE: &str = "set -e
for n in $(seq 2 21); do
    ip link add d$n type dummy; ip link set d$n up; rdma link add more$n type rxe netdev d$n
done
for n in $(seq 1 120); do ip address add 10.9.0.$n/24 dev v0; done";

const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn info_of_a_device_takes_as_few_system_calls_among_many_devices_and_gids() {
    let guest = Machine::new(Kernel::named("6.12").unwrap())
        .with_debian_tools()
        .with_binary(testbed::cargo::tool().unwrap(), "uverbs")
        .boot()
        .unwrap();
    let alone = calls(&guest, "uverbs info rxe0");
    shell(&guest, MORE);
    assert_eq!(count(&guest, "ls /sys/class/infiniband | wc -l"), DEVICES);
    let shown = count(&guest, "uverbs info rxe0 | grep -c '^ *[0-9].*:'");
    assert!(shown >= GIDS, "{shown} GIDs");
    let [ours, theirs, all_ours, all_theirs] = [
        "uverbs info rxe0",
        "ibv_devinfo -d rxe0",
        "uverbs info",
        "ibv_devinfo",
    ]
    .map(|program| calls(&guest, program));
    println!("FIGURE: {ours} system calls for one device of {DEVICES}, ibv_devinfo {theirs}");
    println!("FIGURE: {all_ours} system calls for all of them, ibv_devinfo {all_theirs}");
    assert!(ours <= PROMISED, "{ours}, at most {PROMISED} promised");
    assert!(ours <= alone + SLACK, "{ours}, {alone} of one device alone");
    assert!(ours < theirs, "{ours}, ibv_devinfo {theirs}");
    assert!(
        all_ours < all_theirs,
        "{all_ours}, ibv_devinfo {all_theirs}"
    );
}

/// How many system calls a program makes from its start to its end.
fn calls(guest: &Guest, program: &str) -> usize {
    let file = "/tmp/calls";
    let traced = format!("strace -f -qq -o {file} {program} >/dev/null && grep -c '(' {file}");
    count(guest, &traced)
}

/// The number that a command prints.
fn count(guest: &Guest, line: &str) -> usize {
    shell(guest, line).trim().parse().unwrap()
}

fn shell(guest: &Guest, line: &str) -> String {
    let command = Command::shell(line).timeout(PATIENCE);
    let output = guest.run(command).unwrap();
    output.check().unwrap().stdout_text()
}
