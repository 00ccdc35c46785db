//! What else is written for these libraries: UCX, with its own requests and completions on mlx5,
//! qperf, libfabric and fio; and that NCCL finds the names that it looks for.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use compat_tests::Library::{self, Debian, Ours};
use compat_tests::by_address::{Ready, Side, finish, play, play_on};
use compat_tests::{Devices, machine, with_both};
use testbed::Guest;

const PAIRS: [[Library; 2]; 3] = [[Ours, Ours], [Ours, Debian], [Debian, Ours]];

/// A guest with the applications, and two software ConnectX functions.
fn boot() -> Guest {
    let machine = with_both(machine(Devices::Connectx).unwrap()).unwrap();
    let machine = machine.with_debian_packages(&["ucx-utils", "qperf"]);
    machine.memory_mib(3072).boot().unwrap()
}

/// What `ucx_info` says of transports and devices. It also measures, which differs from run to run.
fn transports(guest: &Guest, library: Library) -> Vec<String> {
    let output = guest.run(library.run("ucx_info", &["-d"])).unwrap();
    let text = output.check().unwrap().stdout_text();
    let lines = text.lines().map(str::trim);
    let named = ["Component:", "Transport:", "Device:", "capabilities:"];
    let lines = lines.filter(|line| named.iter().any(|name| line.contains(name)));
    lines.map(ToOwned::to_owned).collect()
}

#[test]
fn ucx_finds_the_same_transports() {
    let guest = boot();
    let [ours, theirs] = [Ours, Debian].map(|library| transports(&guest, library));
    assert_eq!(ours, theirs, "ours (left), Debian's (right)");
    for transport in ["rc_verbs", "ud_verbs", "rc_mlx5", "ud_mlx5", "dc_mlx5"] {
        let line = format!("Transport: {transport}");
        assert!(ours.iter().any(|found| found.ends_with(&line)), "{line}");
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// Transports of UCX and its tests. Those whose names end in `mlx5` write requests, ring doorbells
/// and read completions themselves.
const UCX: [[&str; 2]; 8] = [
    ["rc_verbs", "am_lat"],
    ["ud_verbs", "am_lat"],
    ["dc_mlx5", "am_lat"],
    ["ud_mlx5", "am_lat"],
    ["rc_mlx5", "am_lat"],
    ["rc_verbs", "put_bw"],
    ["rc_mlx5", "put_bw"],
    ["dc_mlx5", "put_bw"],
];

#[test]
fn ucx_moves_data() {
    let guest = boot();
    for [transport, test] in UCX {
        let both = ["-x", transport, "-t", test, "-n", "200", "-w", "10"];
        let (server, client) = (["-d", "mlx5_0:1"], ["127.0.0.1", "-d", "mlx5_1:1"]);
        let (server, client) = ([&server[..], &both].concat(), [&client[..], &both].concat());
        let side = |args| Side {
            program: "ucx_perftest",
            args,
        };
        for libraries in PAIRS {
            let played = play(
                &guest,
                side(&server),
                Ready::Says("Waiting for connection"),
                side(&client),
                libraries,
            );
            let [_, client] = played.unwrap_or_else(|error| {
                panic!("{transport} {test}, server and client over {libraries:?}: {error}")
            });
            let text = client.stdout_text();
            assert!(text.contains("Final:"), "{transport} {test}: {text}");
        }
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// A program on each of two hosts with rxe, a and b, of which the server is at 10.1.0.1.
fn on_two_hosts(guest: &Guest, server: Side<'_>, ready: Ready, client: Side<'_>) {
    for libraries in PAIRS {
        let played = play_on(guest, ["a", "b"], server, ready, client, libraries);
        if let Err(error) = played {
            let program = server.program;
            panic!("{program}, server and client over {libraries:?}: {error}");
        }
    }
}

#[test]
fn libfabric_and_fio_on_rxe() {
    let machine = with_both(machine(Devices::Rxe).unwrap()).unwrap();
    let machine = machine.with_debian_packages(&["libfabric-bin", "fio"]);
    let guest = machine.memory_mib(3072).boot().unwrap();
    let server = ["-p", "verbs", "-e", "msg", "-I", "20"];
    let client = [&server[..], &["10.1.0.1"]].concat();
    let side = |args| Side {
        program: "fi_pingpong",
        args,
    };
    // The port of its own protocol.
    on_two_hosts(&guest, side(&server), Ready::Listens(47592), side(&client));
    let common = [
        "--ioengine=rdma",
        "--port=4444",
        "--bs=4k",
        "--size=400k",
        "--iodepth=4",
    ];
    let receives = [&common[..], &["--name=receives", "--rw=read"]].concat();
    let sends = [
        "--name=sends",
        "--rw=write",
        "--hostname=10.1.0.1",
        "--verb=write",
    ];
    let sends = [&common[..], &sends].concat();
    let side = |args| Side {
        program: "fio",
        args,
    };
    on_two_hosts(
        &guest,
        side(&receives),
        Ready::Says("Starting"),
        side(&sends),
    );
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// Measures of qperf.
const QPERF: [&str; 5] = [
    "rc_lat",
    "rc_rdma_write_bw",
    "rc_rdma_read_lat",
    "uc_bw",
    "ud_lat",
];

#[test]
fn qperf_measures() {
    let guest = boot();
    for [ours, theirs] in [[Ours, Ours], [Ours, Debian], [Debian, Ours]] {
        let server = guest.spawn(ours.run("qperf", &[])).unwrap();
        for measure in QPERF {
            let args = ["-t", "1", "--wait_server", "20", "127.0.0.1", measure];
            let output = guest.run(theirs.run("qperf", &args)).unwrap();
            let text = output.check().unwrap().stdout_text();
            let found = text.contains(&format!("{measure}:")) && text.contains('=');
            assert!(
                found,
                "{measure}, server and client over {ours:?} and {theirs:?}: {text}"
            );
        }
        server.kill().unwrap();
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}
