//! Programs that use sockets of librdmacm, over this project's `librdmacm` and over Debian's.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use compat_tests::Library::{self, Debian, Ours};
use compat_tests::by_address::{ADDRESS, Ready, Side, boot, finish, play};
use testbed::{Command, Ending, Error, Guest, WindowSize};

/// Which library the server and the client are run over.
const PAIRS: [[Library; 2]; 3] = [[Ours, Ours], [Ours, Debian], [Debian, Ours]];

/// How often a client over Debian's library that waits for events is run at most: `rpoll` there
/// reports the end of the stream together with its last bytes, if they come together, and the
/// program takes that for an error. Over Debian's on both sides most runs fail so.
const TRIES: usize = 8;

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
        let once = || play(guest, server, ready, client, libraries);
        let hears_of_the_end_early = |played: &Result<_, Error>| {
            let waits = libraries[1] == Debian && args.starts_with(&["-T", "a"]);
            let failed = |error: &Error| error.to_string().contains("exit code 16");
            waits && played.as_ref().is_err_and(failed)
        };
        let mut outputs = once();
        for _ in 1..TRIES {
            if !hears_of_the_end_early(&outputs) {
                break;
            }
            outputs = once();
        }
        let outputs = outputs.unwrap_or_else(|error| panic!("{server:?}, {libraries:?}: {error}"));
        for output in outputs {
            let said = output.stdout_text();
            assert!(said.contains(end), "{server:?}, {libraries:?}: {said}");
        }
    }
}

/// How long a server may take to listen, and a copy to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// A terminal makes C programs print line by line.
const WINDOW: WindowSize = WindowSize {
    rows: 24,
    columns: 200,
};
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
    for libraries in PAIRS {
        let args = [&["-T", "b", "-T", "v"], &OFTEN[..]].concat();
        let address = "fd00:1::1";
        let sides = ["-b", "-s"].map(|where_| [&[where_, address], &args[..]].concat());
        let [server, client] = sides.each_ref().map(|args| Side {
            program: "rstream",
            args,
        });
        let outputs = play(&guest, server, LISTENS, client, libraries).unwrap();
        assert!(outputs[1].stdout_text().contains("custom"));
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

/// Files, by a server that takes one after the other.
#[test]
fn files() {
    let guest = boot().unwrap();
    let make = "head -c 3000001 /dev/urandom > /tmp/from";
    guest.run(Command::shell(make)).unwrap().check().unwrap();
    for [server, client] in PAIRS {
        let listens = Side {
            program: "rcopy",
            args: &[],
        };
        let server = guest.spawn(listens.over(server)).unwrap();
        server.wait_for_text("waiting", PATIENCE).unwrap();
        for _ in 0..2 {
            let to = format!("{ADDRESS}:/tmp/to");
            let sends = client.run("rcopy", &["/tmp/from", &to]).timeout(PATIENCE);
            guest.run(sends).unwrap().check().unwrap();
            let compare = Command::shell("cmp /tmp/from /tmp/to && rm /tmp/to");
            guest.run(compare).unwrap().check().unwrap();
        }
        server.kill().unwrap();
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// Peers with another protocol are refused, and a peer that dies is noticed.
#[test]
fn bad_peers() {
    let guest = boot().unwrap();
    let endless = ["-T", "b", "-S", "1000", "-C", "1000000", "-I", "1000"];
    for client in [Ours, Debian] {
        let side = Side {
            program: "rstream",
            args: &endless,
        };
        let server = guest.spawn(side.over(Ours)).unwrap();
        server.wait_for_text("usec/xfer", PATIENCE).unwrap();
        let stranger = client.run("ucmatose", &["-s", ADDRESS]).timeout(PATIENCE);
        let refused = guest.run(stranger).unwrap().stdout_text();
        assert!(refused.contains("RDMA_CM_EVENT_REJECTED"), "{refused}");
        assert!(!server.has_ended());
        let with_address = [&["-s", ADDRESS], &endless[..]].concat();
        let side = Side {
            program: "rstream",
            args: &with_address,
        };
        let client = guest.spawn(side.over(client)).unwrap();
        client.wait_for_text("usec/xfer", PATIENCE).unwrap();
        std::thread::sleep(Duration::from_secs(3));
        assert!(!server.has_ended());
        client.kill().unwrap();
        let ended = server.wait().unwrap();
        assert!(
            matches!(ended.ending, Ending::Code(code) if code != 0),
            "{ended:?}"
        );
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// A program of the system's sockets, which a library of Debian's turns into these.
#[test]
fn preloaded() {
    const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so";
    let guest = boot().unwrap();
    let args = ["-T", "s", "-T", "b", "-S", "1000", "-C", "100", "-I", "3"];
    for libraries in PAIRS {
        let [server, client] = libraries.map(|library| {
            let command = library.run("rstream", &args).with_terminal(WINDOW);
            command.env("LD_PRELOAD", LIBRARY).timeout(PATIENCE)
        });
        let server = guest.spawn(server).unwrap();
        server.wait_for_text("usec/xfer", PATIENCE).unwrap();
        // Not a socket of the system: those are listed with this port.
        let listed = guest.run(Command::shell("grep -c ':1D2F .* 0A ' /proc/net/tcp"));
        assert_eq!(listed.unwrap().stdout_text().trim(), "0");
        let client = guest.run(client.args(["-s", ADDRESS])).unwrap();
        let said = client.check().unwrap().stdout_text();
        assert!(said.contains("custom"), "{said}");
        server.wait().unwrap().check().unwrap();
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}
