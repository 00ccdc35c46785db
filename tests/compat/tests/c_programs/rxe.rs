//! On rxe.

use std::time::Duration;

use compat_tests::Library::{self, Debian, Ours};
use compat_tests::by_address::Side;
use testbed::{Command, Guest};

use super::{check_all, said};

/// How long a program may take to listen.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn programs_on_rxe() {
    check_all(
        None,
        &[
            ("cancelled", a_thread_that_waits_can_be_cancelled),
            ("threads", ids_are_destroyed_while_others_read_their_events),
            ("refused", wrong_arguments_are_refused),
            ("sockets", sockets),
            ("liar", peers_that_lie),
            ("datagrams", datagrams),
            ("removed", a_device_is_removed),
        ],
    );
}

#[test]
fn frames_to_another_host() {
    check_all(
        None,
        &[("neighbours", frames_to_an_address_go_to_the_same_neighbour)],
    );
}

fn check(guest: &Guest, libraries: &[Library], name: &str, expected: &str) {
    for said in said(guest, libraries, name) {
        assert_eq!(said.trim(), expected);
    }
}

/// Waiting for completions, asynchronous events, events of a channel, and requests; then what
/// waited is destroyed.
fn a_thread_that_waits_can_be_cancelled(guest: &Guest) {
    check(guest, &[Ours, Debian], "cancelled", "1 1 1 1 0");
}

fn ids_are_destroyed_while_others_read_their_events(guest: &Guest) {
    check(guest, &[Ours, Debian], "threads", "0 failures, many events");
}

/// Debian's library does not look for NULL.
fn wrong_arguments_are_refused(guest: &Guest) {
    check(guest, &[Ours], "refused", "55 refused, 0 not");
}

/// What sockets do that `rstream` does not ask of them.
fn sockets(guest: &Guest) {
    let expected = [
        "parts",
        "both ways",
        "events",
        "options",
        "refused",
        "forked",
        "ends",
        "early",
        "done",
    ];
    check(guest, &[Ours], "sockets", &expected.join("\r\n"));
}

/// Nothing that a socket's peer says has it read or write outside of its memory, or wait for ever.
fn peers_that_lie(guest: &Guest) {
    let expected = ["too much", "nothing", "vanished", "nowhere", "odd", "done"];
    check(guest, &[Ours], "liar", &expected.join("\r\n"));
}

/// What sockets for datagrams do that `udpong` does not ask of them, and what peers tell them that
/// is not so.
fn datagrams(guest: &Guest) {
    let expected = [
        "opened",
        "there and back",
        "parts",
        "events",
        "sets",
        "arguments",
        "liars by UDP",
        "liars by queue pair",
        "done",
    ];
    check(guest, &[Ours], "datagrams", &expected.join("\r\n"));
}

/// Listeners hear of it, and can be destroyed; nothing can be bound to the address any more. Then
/// it comes back, for the other library.
fn a_device_is_removed(guest: &Guest) {
    for library in [Ours, Debian] {
        let side = Side {
            program: "removed",
            args: &[],
        };
        let shell = |text| guest.run(Command::shell(text)).unwrap().check().unwrap();
        let listening = guest.spawn(side.over(library)).unwrap();
        listening.wait_for_text("listening", PATIENCE).unwrap();
        shell("rdma link del rxe0");
        let output = listening.wait().unwrap();
        let said = output.stdout_text();
        output.check().unwrap();
        let expected = "RDMA_CM_EVENT_DEVICE_REMOVAL 0, 0, No such device";
        assert!(said.contains(expected), "{library:?}: {said}");
        shell("rdma link add rxe0 type rxe netdev v0");
    }
}

/// Gives the other end of the cable to a host of its own.
const OTHER_HOST: &str = "set -e; ip netns add there; ip link set v1 netns there; \
                          ip -n there addr add 10.1.0.2/24 dev v1; ip -n there link set v1 up";

/// A neighbour that has to be asked, this host, a group, nobody, and no route.
fn frames_to_an_address_go_to_the_same_neighbour(guest: &Guest) {
    let shell = |text| guest.run(Command::shell(text)).unwrap().check().unwrap();
    shell(OTHER_HOST);
    let args = [
        "rxe0",
        "10.1.0.2",
        "10.1.0.1",
        "239.1.2.3",
        "10.1.0.77",
        "192.0.2.1",
    ];
    let said = [Ours, Debian].map(|library| {
        shell("ip neigh flush all");
        let output = guest.run(library.run("neighbours", &args)).unwrap();
        println!("{library:?}:\n{}", output.stdout_text());
        output.check().unwrap().stdout_text()
    });
    let answers: Vec<_> = said[0].lines().map(|line| line.contains(": 0 ")).collect();
    assert_eq!(answers, [true, true, true, false, false], "{}", said[0]);
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}
