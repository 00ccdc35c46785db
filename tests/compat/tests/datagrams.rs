//! Debian's `udpong`, which sends datagrams through sockets of librdmacm, over this project's
//! library and over Debian's.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use compat_tests::Library::{self, Debian, Ours};
use compat_tests::by_address::{ADDRESS, Side, boot, boot_with, finish};
use testbed::connectx::{Connectx, Function};
use testbed::{Command, Ending, Guest, Output};

/// Which library the server and the client are run over.
const PAIRS: [[Library; 2]; 4] = [
    [Debian, Debian],
    [Ours, Ours],
    [Ours, Debian],
    [Debian, Ours],
];
/// How long an interface may take to be ready, and a client to its end.
const PATIENCE: Duration = Duration::from_secs(30);

/// An address for IP over InfiniBand of either family.
const INFINIBAND: &str = "set -e
ip addr add 10.2.0.1/24 dev ib0
ip addr add fd00:2::1/64 dev ib0 nodad
ip link set ib0 up
for i in $(seq 100); do
ip -br link show ib0 | grep -q ' UP ' && exit 0
sleep 0.1; done; exit 1";

/// Runs a server, which never ends, and a client to its end. On a busy host `rpoll` of Debian's
/// library may give the processor away for ever: such a client is run again.
fn pong(guest: &Guest, address: &str, args: &[&str], libraries: [Library; 2]) {
    let tries = if libraries[1] == Debian { 3 } else { 1 };
    let has_hung = || pong_once(guest, address, args, libraries).is_none();
    let hung = (0..tries).take_while(|_| has_hung()).count();
    assert!(hung < tries, "{args:?}, {libraries:?}: has not ended");
}

/// `None` if the client has not ended.
fn pong_once(guest: &Guest, address: &str, args: &[&str], libraries: [Library; 2]) -> Option<()> {
    let [at, to] = ["-b", "-s"].map(|option| [&[option, address], args].concat());
    let [server, client] = [(&at, libraries[0]), (&to, libraries[1])].map(|(args, library)| {
        let side = Side {
            program: "udpong",
            args,
        };
        side.over(library)
    });
    let server = guest.spawn(server.timeout(2 * PATIENCE)).unwrap();
    let bound = "until grep -q ':1C06 ' /proc/net/udp /proc/net/udp6; do sleep 0.1; done";
    let bound = Command::shell(bound).timeout(PATIENCE);
    let bound = guest.run(bound).unwrap().check();
    let client = bound.and_then(|_| guest.run(client.timeout(PATIENCE)));
    let ended = server.has_ended();
    server.kill().unwrap();
    let heard = server.wait().unwrap();
    let said = heard.stdout_text();
    let (how, warned) = (heard.ending_text(), heard.stderr_text());
    assert!(!ended, "{at:?}, {libraries:?}: {how}: {said}; {warned}");
    if matches!(
        &client,
        Ok(Output {
            ending: Ending::TimedOut,
            ..
        })
    ) {
        return None;
    }
    let client = client.and_then(Output::check);
    let client = client.unwrap_or_else(|error| panic!("{to:?}, {libraries:?}: {error}; {said}"));
    let told = client.stdout_text();
    assert!(told.contains("custom"), "{to:?}, {libraries:?}: {told}");
    assert!(said.contains("client login from"), "{libraries:?}: {said}");
    Some(())
}

const WAYS: [&[&str]; 4] = [
    &["-T", "b", "-S", "1000", "-C", "100"],
    &["-T", "n", "-S", "1000", "-C", "100"],
    &["-T", "a", "-S", "16", "-C", "100"],
    &["-T", "b", "-T", "e", "-S", "500", "-C", "100"],
];

/// Debian's library makes its address handles without a global route, which is refused there: its
/// own sockets fail.
#[test]
fn on_ethernet() {
    let guest = boot().unwrap();
    for args in WAYS {
        pong(&guest, ADDRESS, args, [Ours, Ours]);
    }
    pong(&guest, "fd00:1::1", WAYS[0], [Ours, Ours]);
    let side = Side {
        program: "udpong",
        args: &["-s", ADDRESS, "-T", "b", "-S", "16", "-C", "1"],
    };
    let theirs = guest.run(side.over(Debian)).unwrap();
    let said = theirs.stdout_text();
    assert!(said.contains("rconnect: No such file"), "{said}");
    assert!(theirs.check().is_err());
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// The same on devices whose kernel driver does not fill in what is missing.
#[test]
fn on_ethernet_of_connectx() {
    let functions = Connectx::new(&[Function::Roce; 2]);
    let guest = boot_with(|machine| machine.connectx(functions)).unwrap();
    for args in WAYS {
        pong(&guest, "10.2.0.1", args, [Ours, Ours]);
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

#[test]
fn on_infiniband() {
    let functions = Connectx::new(&[Function::Ib; 2]).subnet_administrator();
    let guest = boot_with(|machine| machine.connectx(functions)).unwrap();
    let address = Command::shell(INFINIBAND).timeout(PATIENCE);
    guest.run(address).unwrap().check().unwrap();
    for libraries in PAIRS {
        for args in WAYS {
            pong(&guest, "10.2.0.1", args, libraries);
        }
        // As much as `udpong` sends by itself; more than waits for the program at a time.
        let large = ["-T", "b", "-S", "1536", "-C", "500"];
        pong(&guest, "10.2.0.1", &large, libraries);
        pong(&guest, "fd00:2::1", WAYS[0], libraries);
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}
