//! Programs that connect by address between two hosts: two functions of a software ConnectX, each
//! in a network namespace of its own with its interface.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use compat_tests::Library::{self, Debian, Ours};
use compat_tests::by_address::{Ready, Side, boot_with, finish, play};
use testbed::connectx::Wire;

const PAIRS: [[Library; 2]; 3] = [[Ours, Ours], [Ours, Debian], [Debian, Ours]];

/// A server, what it prints once a client may come, and its client, which is on the other host.
/// `THERE` is the server's address.
type Game = (&'static str, &'static str, &'static str);

const GAMES: [Game; 7] = [
    (
        "rping -s -a THERE -S 4096 -d -v",
        "rdma_listen",
        "rping -c -a THERE -C 20 -S 4096 -V",
    ),
    ("ucmatose -c 3", "starting server", "ucmatose -s THERE -c 3"),
    ("udaddy -c 3", "starting server", "udaddy -s THERE -c 3"),
    ("rdma_server", "start", "rdma_client -s THERE"),
    ("rdma_xserver -c x", "start", "rdma_xclient -c x -s THERE"),
    (
        "ib_write_bw -R -F -n 100",
        "Waiting for client",
        "ib_write_bw -R -F -n 100 THERE",
    ),
    (
        "ib_send_lat -R -F -n 100",
        "Waiting for client",
        "ib_send_lat -R -F -n 100 THERE",
    ),
];

/// Those that only InfiniBand has: without IP, for which kernels find listeners in the initial
/// namespace alone.
const WITHOUT_IP: [Game; 1] = [(
    "ucmatose -f gid -b fe80::2:c903:c0:0 -c 3",
    "starting server",
    "ucmatose -f gid -b fe80::2:c903:c0:100 -s fe80::2:c903:c0:0 -c 3",
)];

fn between(wire: Wire, games: &[Game]) {
    let guest = boot_with(|machine| machine.connectx(wire.functions())).unwrap();
    wire.part(&guest).unwrap();
    let [there, _] = wire.addresses();
    for (server, ready, client) in games {
        let [server, client] = [server, client].map(|words| words.replace("THERE", there));
        let server: Vec<_> = server.split(' ').collect();
        let client: Vec<_> = "netns exec b".split(' ').chain(client.split(' ')).collect();
        let listens = Side {
            program: server[0],
            args: &server[1..],
        };
        let connects = Side {
            program: "ip",
            args: &client,
        };
        for libraries in PAIRS {
            let done = play(&guest, listens, Ready::Says(ready), connects, libraries);
            done.unwrap_or_else(|error| panic!("{client:?}, {libraries:?}: {error}"));
        }
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

#[test]
fn programs_of_two_hosts_connect_by_address() {
    between(Wire::Ethernet, &GAMES);
}

#[test]
fn programs_of_two_hosts_on_infiniband_connect_by_address() {
    between(Wire::InfiniBand, &[&GAMES[..], &WITHOUT_IP].concat());
}
