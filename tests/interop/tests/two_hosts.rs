//! Connections by address between two hosts: two functions of a software ConnectX on Ethernet, each
//! in a network namespace of its own with its interface.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use interop::by_address::{PATIENCE, finish, in_terminal, machine};
use testbed::connectx::Function;
use testbed::{Child, Command, Guest};

/// Our example of datagrams by address.
const DATAGRAMS: &str = "datagrams_by_address";

/// Makes the second function, and its interface, another host's.
const APART: &str = "set -e
eth=$(ls /sys/class/infiniband/mlx5_1/device/net)
rdma system set netns exclusive
ip netns add b
rdma dev set mlx5_1 netns b
ip link set $eth netns b
ip -n b addr add 10.2.0.2/24 dev $eth
ip -n b link set lo up
ip -n b link set $eth up";

/// Whether the port of the second function is ready, with a GID of its address.
const READY: &str = "for i in $(seq 100); do
ip netns exec b sh -c 'grep -q 0a02:0002 /sys/class/infiniband/mlx5_1/ports/1/gids/*' && exit 0
sleep 0.1; done; exit 1";

/// A host, and its address.
#[derive(Clone, Copy)]
enum Host {
    A,
    B,
}

impl Host {
    const fn address(self) -> &'static str {
        match self {
            Self::A => "10.2.0.1",
            Self::B => "10.2.0.2",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// A program on this host, whose output comes line by line.
    fn command(self, program: &str, arguments: &[&str]) -> Command {
        match self {
            Self::A => in_terminal(program, arguments),
            Self::B => {
                let arguments = [&["netns", "exec", "b", program], arguments].concat();
                in_terminal("ip", &arguments)
            }
        }
    }
}

/// A program with its arguments, of which `HERE` is its host's address, and `THERE` the other's.
type Program<'a> = (&'a str, &'a str);

const HERE: &str = "HERE";
const THERE: &str = "THERE";

fn on(host: Host, (program, arguments): Program<'_>) -> Command {
    let arguments = arguments.split_whitespace().map(|word| match word {
        HERE => host.address(),
        THERE => host.other().address(),
        other => other,
    });
    host.command(program, &arguments.collect::<Vec<_>>())
}

fn boot() -> Guest {
    let build = [
        "build",
        "--release",
        "--package",
        "uverbs",
        "--example",
        DATAGRAMS,
    ];
    let example = testbed::cargo::build_program(DATAGRAMS, &build).unwrap();
    let machine = machine().unwrap().connectx(&[Function::Roce; 2]);
    let machine = machine
        .with_binary(testbed::cargo::tool().unwrap(), "uverbs")
        .with_binary(example, DATAGRAMS);
    let guest = machine.boot().unwrap();
    for step in [APART, READY] {
        let made = guest.run(Command::shell(step).timeout(PATIENCE)).unwrap();
        made.check().unwrap();
    }
    guest
}

/// Starts a server on a host and waits until it says `ready`, and runs a client on the other.
/// Returns what both said.
fn both(guest: &Guest, at: Host, server: Program<'_>, ready: &str, client: Program<'_>) -> String {
    let waiting: Child = guest.spawn(on(at, server)).unwrap();
    waiting.wait_for_text(ready, PATIENCE).unwrap();
    let ended = guest.run(on(at.other(), client)).unwrap();
    let waiting = waiting.wait().unwrap();
    let said = format!("{}{}", waiting.stdout_text(), ended.stdout_text());
    for side in [waiting, ended] {
        side.check()
            .unwrap_or_else(|error| panic!("{server:?} and {client:?}: {error}: {said}"));
    }
    said
}

#[test]
fn programs_of_two_hosts_find_each_other_by_address() {
    let guest = boot();
    for at in [Host::A, Host::B] {
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
