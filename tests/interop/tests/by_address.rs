//! Programs of librdmacm on the other end of a connection by address, on the one device of a guest.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use interop::by_address::{PATIENCE, boot, finish, in_terminal, machine, started};
use serde_json::Value;
use testbed::{Command, Guest, Output};

/// What those programs exchange: 16 bytes each way.
const MESSAGE: &str = "0123456789abcdef";

/// Our example of datagrams by address.
const DATAGRAMS: &str = "datagrams_by_address";

/// The other end of `ucmatose`.
const PEER: &str = "ucmatose-peer";

/// The tool, which has that message on its standard input, and tells how much it received.
fn ours(what: &str) -> Command {
    let line = format!(
        "(printf {MESSAGE}; sleep 2) | uverbs cm {what} 10.1.0.1:7471 >/tmp/out; wc -c </tmp/out"
    );
    Command::shell(line).timeout(PATIENCE)
}

#[test]
fn rdma_client_and_rdma_server() {
    let guest = boot().unwrap();
    let listening = guest.spawn(ours("listen --bare")).unwrap();
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
    let ours_ended = guest.run(ours("connect --bare")).unwrap();
    let theirs = theirs.wait().unwrap();
    let said = format!("{}{}", theirs.stdout_text(), ours_ended.stderr_text());
    assert!(
        theirs.stdout_text().contains("rdma_server: end 0"),
        "{said}"
    );
    assert_eq!(ours_ended.stdout_text().trim(), "16", "{said}");
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

#[test]
fn rping_as_client_and_as_server() {
    let guest = boot().unwrap();
    for size in ["64", "65535"] {
        let ours = ("uverbs", &["pingpong", "--rping"][..]);
        let ours = started(&guest, ours, "listening at").unwrap();
        let arguments = ["-c", "-a", "10.1.0.1", "-C", "50", "-S", size, "-V"];
        let theirs = guest.run(in_terminal("rping", &arguments)).unwrap();
        let ours = ours.wait().unwrap().check().unwrap();
        let said = format!("{}{}", theirs.stdout_text(), ours.stdout_text());
        theirs
            .check()
            .unwrap_or_else(|error| panic!("{error}: {said}"));
        assert!(said.contains("50 iters in"), "{said}");
        assert!(!said.contains("mismatch"), "{said}");

        let theirs = ["-s", "-a", "10.1.0.1", "-S", size, "-d", "-v"];
        let theirs = started(&guest, ("rping", &theirs), "rdma_listen").unwrap();
        let arguments = [
            "pingpong", "--rping", "-n", "50", "-s", size, "-c", "10.1.0.1",
        ];
        let ours = guest.run(in_terminal("uverbs", &arguments)).unwrap();
        let theirs = theirs.wait().unwrap().check().unwrap();
        let ours = ours.check().unwrap();
        let said = ours.stdout_text();
        assert!(said.contains("50 messages validated"), "{said}");
        assert!(
            theirs
                .stdout_text()
                .contains("server ping data: rdma-ping-49: "),
            "{}",
            theirs.stdout_text()
        );
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

fn boot_for_datagrams() -> Guest {
    let build = [
        "build",
        "--release",
        "--package",
        "uverbs",
        "--example",
        DATAGRAMS,
    ];
    let example = testbed::cargo::build_program(DATAGRAMS, &build).unwrap();
    let machine = machine().unwrap();
    machine.with_binary(example, DATAGRAMS).boot().unwrap()
}

/// Runs the first until it says `ready`, then the second to its end. Returns what both said.
fn both(guest: &Guest, first: (&str, &[&str]), ready: &str, second: (&str, &[&str])) -> String {
    let waiting = started(guest, first, ready).unwrap();
    let ended = guest.run(in_terminal(second.0, second.1)).unwrap();
    let waiting = waiting.wait().unwrap();
    let said = format!("{}{}", waiting.stdout_text(), ended.stdout_text());
    for side in [waiting, ended] {
        side.check()
            .unwrap_or_else(|error| panic!("{error}: {said}"));
    }
    said
}

#[test]
fn udaddy_as_client_and_as_server() {
    let guest = boot_for_datagrams();
    let (serve, ask) = (["serve", "10.1.0.1"], ["ask", "10.1.0.1"]);
    let theirs = ("udaddy", &["-s", "10.1.0.1"][..]);
    let said = both(&guest, (DATAGRAMS, &serve), "serving at", theirs);
    assert!(
        said.contains("10 messages heard, 10 answers sent"),
        "{said}"
    );
    assert!(said.contains("data transfers complete"), "{said}");
    assert!(said.contains("test complete"), "{said}");

    let said = both(
        &guest,
        ("udaddy", &[]),
        "starting server",
        (DATAGRAMS, &ask),
    );
    assert!(
        said.contains("10 messages sent, 10 answers heard"),
        "{said}"
    );
    assert!(said.contains("data transfers complete"), "{said}");

    let said = both(&guest, (DATAGRAMS, &serve), "serving at", (DATAGRAMS, &ask));
    assert!(said.contains("10 answers sent"), "{said}");
    assert!(said.contains("10 answers heard"), "{said}");
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// `mckey` as a sender. It asks for no completions, and destroys its queue pair right after it has
/// posted its messages; on newer kernels a thread of the kernel carries out what is posted to rxe,
/// so that often none was sent by then (the counter `sent_pkts` stays as it was). Each of them is
/// one `write(2)`: `strace` has it go on a little later from each.
fn mckey_that_waits(group: &str) -> Vec<&str> {
    let strace = "-f -o /dev/null -e trace=write -e inject=write:delay_exit=50000 mckey -s -b";
    let mut arguments: Vec<_> = strace.split(' ').collect();
    arguments.extend(["10.1.0.1", "-m", group]);
    arguments
}

#[test]
fn mckey_as_sender_and_as_receiver() {
    let guest = boot_for_datagrams();
    for group in ["239.1.2.3", "239.1.2.4", "239.1.2.5"] {
        let (hear, tell) = (["hear", group, "10.1.0.1"], ["tell", group, "10.1.0.1"]);
        let theirs = mckey_that_waits(group);
        let said = both(
            &guest,
            (DATAGRAMS, &hear),
            "listening to",
            ("strace", &theirs),
        );
        assert!(said.contains("10 messages heard"), "{said}");
        assert!(said.contains("data transfers complete"), "{said}");

        let theirs = ("mckey", &["-b", "10.1.0.1", "-m", group][..]);
        let said = both(
            &guest,
            theirs,
            "receiving data transfers",
            (DATAGRAMS, &tell),
        );
        assert!(said.contains("10 messages sent"), "{said}");
        assert!(said.contains("data transfers complete"), "{said}");
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

#[test]
fn ucmatose_as_client_and_as_server() {
    let peer = testbed::cargo::program_of("interop", PEER).unwrap();
    let machine = machine().unwrap().with_binary(peer, PEER);
    let guest = machine.boot().unwrap();
    let at = "10.1.0.1:7471";
    let (serve, ask) = (["serve", at], ["ask", at]);
    let theirs = ("ucmatose", &["-s", "10.1.0.1"][..]);
    let said = both(&guest, (PEER, &serve), "serving at", theirs);
    assert!(
        said.contains("10 messages sent, 10 answers heard"),
        "{said}"
    );
    assert!(said.contains("data transfers complete"), "{said}");

    let said = both(&guest, ("ucmatose", &[]), "starting server", (PEER, &ask));
    assert!(
        said.contains("10 messages heard, 10 answers sent"),
        "{said}"
    );
    assert!(said.contains("data transfers complete"), "{said}");
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

#[test]
fn the_tool_with_itself() {
    let guest = boot().unwrap();
    for game in [
        &["--cm", "-c", "-n", "200"][..],
        &["--cm", "-e", "-n", "200"],
        &["--rping", "-n", "50"],
    ] {
        let arguments = [&["pingpong"], game].concat();
        let server = started(&guest, ("uverbs", &arguments), "listening at").unwrap();
        let arguments = [&arguments[..], &["10.1.0.1"]].concat();
        let client = guest.run(in_terminal("uverbs", &arguments)).unwrap();
        for side in [server.wait().unwrap(), client] {
            let said = side.check().unwrap().stdout_text();
            assert!(said.contains("0 iters in"), "{game:?}: {said}");
        }
    }

    // Streams: both directions at once, of different length, into a reader that is slow.
    let listening = "head -c 3000000 /dev/zero | tr '\\0' a \
        | uverbs cm listen 0.0.0.0:7471 | (sleep 1; cat >/tmp/heard); \
        wc -c </tmp/heard; tr -d b </tmp/heard | wc -c";
    let connecting = "head -c 20000 /dev/zero | tr '\\0' b \
        | uverbs cm connect 10.1.0.1:7471 >/tmp/said; \
        wc -c </tmp/said; tr -d a </tmp/said | wc -c";
    let server = Command::shell(listening).timeout(PATIENCE);
    let server = guest.spawn(server).unwrap();
    // It says that it listens on standard error.
    std::thread::sleep(Duration::from_secs(3));
    let client = Command::shell(connecting).timeout(PATIENCE);
    let client = guest.run(client).unwrap();
    let server = server.wait().unwrap();
    let said = format!("{}{}", client.stderr_text(), server.stderr_text());
    let counts = |output: &Output| {
        let text = output.stdout_text();
        let words = text.split_whitespace();
        words
            .map(|word| word.parse().unwrap())
            .collect::<Vec<u32>>()
    };
    assert_eq!(counts(&client), [3_000_000, 0], "{said}");
    assert_eq!(counts(&server), [20_000, 0], "{said}");
    assert!(!said.contains("error:"), "{said}");
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

#[test]
fn measuring_with_the_tool() {
    let guest = boot().unwrap();
    for test in [
        &["send", "-n", "500", "-s", "4K"][..],
        &["write", "-n", "500", "-s", "4K", "-q", "4"],
        // 400 MiB in all: emulated machines take 30 a second, and less beside others.
        &["read", "-n", "25", "-a", "-e"],
        &["send", "--latency", "-n", "200"],
        &["write", "--latency", "-n", "200"],
    ] {
        let serving = ("uverbs", &["bench", "serve", "--once"][..]);
        let server = started(&guest, serving, "listening on").unwrap();
        let options = &["--cm", "--json", "10.1.0.1"];
        let arguments = [&["bench"], test, options].concat();
        let client = Command::new("uverbs").args(arguments.iter().copied());
        let client = guest.run(client.timeout(PATIENCE)).unwrap();
        let said = client.check().unwrap().stdout_text();
        server.wait().unwrap().check().unwrap();
        let report: Value = serde_json::from_str(&said).unwrap();
        let rows = report["results"].as_array().unwrap();
        assert!(!rows.is_empty(), "{test:?}: {said}");
        for row in rows {
            assert_eq!(row["messages"], row["arrived"], "{test:?}: {said}");
        }
        assert_eq!(report["mtu"], 1024, "{test:?}: {said}");
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}
