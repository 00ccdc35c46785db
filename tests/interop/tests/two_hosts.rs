//! Connections by address between two hosts: two functions of a software ConnectX on Ethernet, each
//! in a network namespace of its own with its interface.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use interop::by_address::finish;
use interop::two_hosts::{Host, Hosts, Program, Wire};
use testbed::Guest;

const HOSTS: Hosts = Hosts(Wire::Ethernet);

/// Our example of datagrams by address.
const DATAGRAMS: &str = "datagrams_by_address";

fn both(guest: &Guest, at: Host, server: Program<'_>, ready: &str, client: Program<'_>) -> String {
    let said = HOSTS.both(guest, at, server, ready, client);
    said.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn programs_of_two_hosts_find_each_other_by_address() {
    let build = [
        "build",
        "--release",
        "--package",
        "uverbs",
        "--example",
        DATAGRAMS,
    ];
    let example = testbed::cargo::build_program(DATAGRAMS, &build).unwrap();
    let guest = HOSTS.boot(&[(example, DATAGRAMS)]).unwrap();
    for at in Host::ALL {
        // Reliable connections: librdmacm's program as client, then as server.
        let theirs = ("rping", "-c -a THERE -C 20 -S 4096 -V");
        let ours = ("uverbs", "pingpong --rping");
        let said = both(&guest, at, ours, "listening at", theirs);
        assert!(said.contains("20 iters in"), "{said}");
        assert!(!said.contains("mismatch"), "{said}");

        let theirs = ("rping", "-s -a HERE -S 4096 -d -v");
        let ours = ("uverbs", "pingpong --rping -n 20 -s 4096 -c THERE");
        let said = both(&guest, at, theirs, "rdma_listen", ours);
        assert!(said.contains("20 messages validated"), "{said}");

        // Datagrams.
        let ours = (DATAGRAMS, "serve HERE");
        let theirs = ("udaddy", "-s THERE");
        let said = both(&guest, at, ours, "serving at", theirs);
        assert!(said.contains("10 messages heard"), "{said}");
        assert!(said.contains("data transfers complete"), "{said}");

        let ours = (DATAGRAMS, "ask THERE");
        let said = both(&guest, at, ("udaddy", ""), "starting server", ours);
        assert!(said.contains("10 answers heard"), "{said}");
    }
    // The tool with itself: many connections at once, and data in bulk.
    let storm = ("uverbs", "cm storm --wait 60 -n 30");
    let client = ("uverbs", "cm storm --wait 60 -n 30 THERE");
    let said = both(&guest, Host::A, storm, "listening at", client);
    assert!(said.contains("30 connections on mlx5_0"), "{said}");
    assert!(said.contains("30 connections on mlx5_1"), "{said}");
    let serve = ("uverbs", "bench serve --once");
    let measure = ("uverbs", "bench write -n 200 -s 4K --cm THERE");
    both(&guest, Host::A, serve, "listening on", measure);
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}
