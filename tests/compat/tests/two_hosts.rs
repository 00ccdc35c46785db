//! Programs that connect by address between two hosts: two functions of a software ConnectX on
//! Ethernet, each in a network namespace of its own with its interface.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use compat_tests::Library::{self, Debian, Ours};
use compat_tests::by_address::{Ready, Side, boot_with, finish, play};
use testbed::Command;
use testbed::connectx::Function;

/// Makes the second function, and its interface, another host's, and waits until its port is ready,
/// with a GID of its address.
const APART: &str = "set -e
eth=$(ls /sys/class/infiniband/mlx5_1/device/net)
rdma system set netns exclusive
ip netns add b
rdma dev set mlx5_1 netns b
ip link set $eth netns b
ip -n b addr add 10.2.0.2/24 dev $eth
ip -n b link set lo up
ip -n b link set $eth up
for i in $(seq 100); do
ip netns exec b sh -c 'grep -q 0a02:0002 /sys/class/infiniband/mlx5_1/ports/1/gids/*' && exit 0
sleep 0.1; done; exit 1";

const PAIRS: [[Library; 2]; 3] = [[Ours, Ours], [Ours, Debian], [Debian, Ours]];

/// A server, what it prints once a client may come, and its client, which is on the other host.
const GAMES: [(&str, &str, &str); 5] = [
    (
        "rping -s -a 10.2.0.1 -S 4096 -d -v",
        "rdma_listen",
        "rping -c -a 10.2.0.1 -C 20 -S 4096 -V",
    ),
    (
        "ucmatose -c 3",
        "starting server",
        "ucmatose -s 10.2.0.1 -c 3",
    ),
    ("udaddy -c 3", "starting server", "udaddy -s 10.2.0.1 -c 3"),
    ("rdma_server", "start", "rdma_client -s 10.2.0.1"),
    (
        "ib_write_bw -R -F -n 100",
        "Waiting for client",
        "ib_write_bw -R -F -n 100 10.2.0.1",
    ),
];

#[test]
fn programs_of_two_hosts_connect_by_address() {
    let guest = boot_with(|machine| machine.connectx(&[Function::Roce; 2])).unwrap();
    let apart = Command::shell(APART).timeout(Duration::from_secs(60));
    guest.run(apart).unwrap().check().unwrap();
    for (server, ready, client) in GAMES {
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
