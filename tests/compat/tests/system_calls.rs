//! System calls of Debian's programs over this library, from their start, at most a third of those
//! over Debian's.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use compat_tests::Library::{Debian, Ours};
use compat_tests::{Devices, Library, boot};
use testbed::{Command, Guest};

/// Where strace writes its output.
const CALLS: &str = "/tmp/calls";
/// The length of what a server of `ibv_rc_pingpong` writes to its client when its queue pair is
/// ready to send.
const READY: &str = ", 52) = 52";
/// Waits until that server listens.
const LISTENS: &str =
    "until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do usleep 10000; done";
const PATIENCE: Duration = Duration::from_secs(60);

/// A program under `strace`, which writes to [`CALLS`].
fn traced(library: Library, program: &str, args: &[&str]) -> Command {
    let strace = ["-f", "-qq", "-o", CALLS, program];
    library.run("strace", &[&strace, args].concat())
}

/// The calls that `strace` wrote.
fn calls(guest: &Guest) -> Vec<String> {
    let text = guest.run(Command::new("cat").arg(CALLS)).unwrap();
    let text = text.check().unwrap().stdout_text();
    // Each line begins with the number of the process; lines of signals are no calls.
    let calls = text.lines().filter_map(|line| line.split_once(' '));
    calls
        .map(|(_, call)| call.trim_start().to_owned())
        .filter(|call| !call.starts_with(['-', '+']))
        .collect()
}

/// Of `ibv_devices`, from its start to its end.
fn of_the_list(guest: &Guest, library: Library) -> usize {
    let output = guest.run(traced(library, "ibv_devices", &[])).unwrap();
    output.check().unwrap();
    calls(guest).len()
}

/// Of a server of `ibv_rc_pingpong`, from its start until its queue pair is ready to send.
fn until_ready(guest: &Guest, library: Library, devices: Devices) -> usize {
    let [one, other] = devices.names();
    let gid: &[&str] = match devices {
        Devices::Rxe => &["-g", "1"],
        Devices::Connectx => &[],
    };
    let args = |device| [&["-d", device, "-n", "1"], gid].concat();
    let name = "ibv_rc_pingpong";
    let server = traced(library, name, &args(one));
    let server = guest.spawn(devices.on_host("a", server)).unwrap();
    let listens = Command::shell(LISTENS).timeout(PATIENCE);
    guest
        .run(devices.on_host("a", listens))
        .unwrap()
        .check()
        .unwrap();
    let client = library.run(name, &args(other)).arg(devices.server());
    let client = guest.run(devices.on_host("b", client)).unwrap();
    client.check().unwrap();
    server.wait().unwrap().check().unwrap();
    let calls = calls(guest);
    let answer = |call: &String| call.starts_with("write(") && call.contains(READY);
    let ready = calls.iter().position(answer);
    ready.unwrap_or_else(|| panic!("no answer was written: {calls:#?}"))
}

fn compare(devices: Devices) {
    let guest = boot(devices).unwrap();
    let counts = [
        (
            "ibv_devices",
            [Ours, Debian].map(|library| of_the_list(&guest, library)),
        ),
        (
            "ibv_rc_pingpong until it is ready to send",
            [Ours, Debian].map(|library| until_ready(&guest, library, devices)),
        ),
    ];
    for (what, [ours, theirs]) in counts {
        println!("{what}: {ours} system calls, over Debian's library {theirs}");
    }
    guest.power_off().unwrap();
    for (what, [ours, theirs]) in counts {
        assert!(ours * 3 <= theirs, "{what}: {ours}, over Debian's {theirs}");
    }
}

#[test]
fn on_rxe() {
    compare(Devices::Rxe);
}

#[test]
fn on_connectx() {
    compare(Devices::Connectx);
}
