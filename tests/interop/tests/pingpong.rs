//! Both directions, polling and with events, with each of rdma-core's ping-pong programs.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use interop::{Devices, Program, Server, boot, objections, play};
use testbed::Guest;

const RC: Program = Program {
    theirs: "ibv_rc_pingpong",
    ours: &["-t", "rc"],
    both: &["-n", "200"],
};
const UC: Program = Program {
    theirs: "ibv_uc_pingpong",
    ours: &["-t", "uc"],
    both: &["-n", "200"],
};
const UD: Program = Program {
    theirs: "ibv_ud_pingpong",
    ours: &["-t", "ud"],
    both: &["-n", "200", "-s", "1024"],
};
const SRQ: Program = Program {
    theirs: "ibv_srq_pingpong",
    ours: &["--srq"],
    both: &["-n", "200", "-q", "8"],
};

/// Ours as server and as client, in each of `modes`; both sides print how many bytes were
/// exchanged.
fn both_ways(devices: Devices, programs: &[Program], modes: &[&[&str]]) {
    let guest = boot(devices).unwrap();
    for &program in programs {
        in_modes(&guest, devices, program, modes);
    }
    let objections = objections(&guest, devices).unwrap();
    assert!(objections.is_empty(), "{objections:?}");
    guest.power_off().unwrap();
}

fn in_modes(guest: &Guest, devices: Devices, program: Program, modes: &[&[&str]]) {
    for mode in modes {
        for server in [Server::Theirs, Server::Ours] {
            let (listening, calling) =
                play(guest, devices, program, server, mode).unwrap_or_else(|error| {
                    panic!("{} {mode:?}, server {server:?}: {error}", program.theirs)
                });
            for side in [listening.stdout_text(), calling.stdout_text()] {
                assert!(
                    side.contains("bytes in"),
                    "{} {mode:?}: {side}",
                    program.theirs
                );
            }
        }
    }
}

#[test]
fn reliable_connections() {
    both_ways(
        Devices::Rxe,
        &[RC],
        &[&[], &["-e"], &["-s", "65536"], &["-s", "1"]],
    );
}

#[test]
fn unreliable_connections() {
    both_ways(Devices::Rxe, &[UC], &[&[], &["-e"]]);
}

#[test]
fn datagrams() {
    both_ways(Devices::Rxe, &[UD], &[&[], &["-e"]]);
}

#[test]
fn shared_receive_queues() {
    both_ways(Devices::Rxe, &[SRQ], &[&[], &["-e"]]);
}

#[test]
fn between_connectx_functions_on_infiniband() {
    both_ways(Devices::ConnectxIb, &[RC, UC, UD, SRQ], &[&[], &["-e"]]);
}

#[test]
fn between_connectx_functions_on_ethernet() {
    both_ways(Devices::ConnectxRoce, &[RC, UC, UD, SRQ], &[&[], &["-e"]]);
}
