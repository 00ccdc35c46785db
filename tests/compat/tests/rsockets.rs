//! Programs that use sockets of librdmacm, over this project's `librdmacm` and over Debian's.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use compat_tests::Library::{self, Debian, Ours};
use compat_tests::by_address::{ADDRESS, Ready, Side, boot, finish, play};
use testbed::Guest;

/// Which library the server and the client are run over.
const PAIRS: [[Library; 2]; 3] = [[Ours, Ours], [Ours, Debian], [Debian, Ours]];

/// Runs a program as a server and as a client, with each library on each side, and looks for what
/// each prints at its end.
fn with_each(guest: &Guest, program: &str, args: &[&str], ready: Ready, end: &str) {
    for libraries in PAIRS {
        let server = Side { program, args };
        let with_address = [&["-s", ADDRESS], args].concat();
        let client = Side {
            program,
            args: &with_address,
        };
        let outputs = play(guest, server, ready, client, libraries);
        let outputs = outputs.unwrap_or_else(|error| panic!("{server:?}, {libraries:?}: {error}"));
        for output in outputs {
            let said = output.stdout_text();
            assert!(said.contains(end), "{server:?}, {libraries:?}: {said}");
        }
    }
}

const LISTENS: Ready = Ready::Says("usec/xfer");

/// Blocking, without blocking, and waiting for events; with data that are verified.
#[test]
fn streams() {
    const OFTEN: [&str; 6] = ["-S", "1000", "-C", "100", "-I", "3"];
    let guest = boot().unwrap();
    for how in ["a", "b", "n"] {
        let args = [&["-T", how, "-T", "v"], &OFTEN[..]].concat();
        with_each(&guest, "rstream", &args, LISTENS, "custom");
    }
    let games: [&[&str]; 3] = [
        // More than a ring at a time; small rings; one byte, which is not inline.
        &["-T", "b", "-T", "v", "-S", "1000000", "-C", "5", "-I", "2"],
        &[
            "-T", "a", "-T", "v", "-S", "40000", "-C", "20", "-I", "2", "-B", "8192",
        ],
        &[
            "-T", "b", "-T", "v", "-S", "1", "-C", "1000", "-I", "2", "-i", "0",
        ],
    ];
    for args in games {
        with_each(&guest, "rstream", args, LISTENS, "custom");
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// Into memory that the peer has mapped.
#[test]
fn mapped_memory() {
    let guest = boot().unwrap();
    let games: [&[&str]; 3] = [
        &["-T", "b", "-T", "v", "-S", "1000", "-C", "50", "-I", "2"],
        &["-T", "a", "-T", "v", "-S", "100000", "-C", "5", "-I", "2"],
        &["-T", "n", "-T", "v", "-S", "20", "-C", "50", "-I", "2"],
    ];
    for args in games {
        with_each(&guest, "riostream", args, LISTENS, "custom");
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}
