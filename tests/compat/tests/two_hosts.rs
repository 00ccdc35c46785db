//! Programs that connect by address between two hosts: two functions of a software ConnectX, each
//! in a network namespace of its own with its interface.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use compat_tests::Library::{self, Debian, Ours};
use compat_tests::by_address::{Ready, Side, boot_with, finish, play};
use testbed::Command;
use testbed::connectx::{Connectx, Function};

/// Makes the second function, and its interface, another host's, and waits until its port is ready,
/// with a GID of its address.
const ETHERNET: &str = "set -e
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

/// The same with IP over InfiniBand. The interface appears anew when its function has moved: on
/// kernels since 6.17 in its namespace, before in the first one.
const INFINIBAND: &str = "set -e
rdma system set netns exclusive
ip netns add b
rdma dev set mlx5_1 netns b
other=$(ip -n b -br link | grep -o '^ib[0-9]*' || true)
if [ -z \"$other\" ]; then other=ib1; ip link set ib1 netns b; fi
ip addr add 10.2.0.1/24 dev ib0
ip link set ib0 up
ip -n b addr add 10.2.0.2/24 dev $other
ip -n b link set lo up
ip -n b link set $other up
for i in $(seq 100); do
ip -br link show ib0 | grep -q ' UP ' && ip -n b -br link show $other | grep -q ' UP ' && exit 0
sleep 0.1; done; exit 1";

const PAIRS: [[Library; 2]; 3] = [[Ours, Ours], [Ours, Debian], [Debian, Ours]];

/// A server, what it prints once a client may come, and its client, which is on the other host.
type Game = (&'static str, &'static str, &'static str);

const GAMES: [Game; 7] = [
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
        "rdma_xserver -c x",
        "start",
        "rdma_xclient -c x -s 10.2.0.1",
    ),
    (
        "ib_write_bw -R -F -n 100",
        "Waiting for client",
        "ib_write_bw -R -F -n 100 10.2.0.1",
    ),
    (
        "ib_send_lat -R -F -n 100",
        "Waiting for client",
        "ib_send_lat -R -F -n 100 10.2.0.1",
    ),
];

/// Those that only InfiniBand has: without IP, for which kernels find listeners in the initial
/// namespace alone.
const WITHOUT_IP: [Game; 1] = [(
    "ucmatose -f gid -b fe80::2:c903:c0:0 -c 3",
    "starting server",
    "ucmatose -f gid -b fe80::2:c903:c0:100 -s fe80::2:c903:c0:0 -c 3",
)];

fn between(functions: &Connectx, apart: &str, games: &[Game]) {
    let guest = boot_with(|machine| machine.connectx(functions.clone())).unwrap();
    let apart = Command::shell(apart).timeout(Duration::from_secs(60));
    guest.run(apart).unwrap().check().unwrap();
    for (server, ready, client) in games {
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
    between(&Connectx::new(&[Function::Roce; 2]), ETHERNET, &GAMES);
}

#[test]
fn programs_of_two_hosts_on_infiniband_connect_by_address() {
    let functions = Connectx::new(&[Function::Ib; 2]).subnet_administrator();
    between(&functions, INFINIBAND, &[&GAMES[..], &WITHOUT_IP].concat());
}
