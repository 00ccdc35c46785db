//! Both ways, polling and by events, with each of rdma-core's ping-pong programs.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use interop::{Program, Server, boot, play};

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

/// Ours as server and as client, in each of `modes`; both sides say how many bytes went to and fro.
fn both_ways(program: Program, modes: &[&[&str]]) {
    let guest = boot().unwrap();
    for mode in modes {
        for server in [Server::Theirs, Server::Ours] {
            let (listening, calling) =
                play(&guest, program, server, mode).unwrap_or_else(|error| {
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
    let log = guest.kernel_log();
    let complaints = testbed::complaints::among(&log);
    assert!(complaints.is_empty(), "{complaints:?}");
    guest.power_off().unwrap();
}

#[test]
fn reliable_connections() {
    both_ways(RC, &[&[], &["-e"], &["-s", "65536"], &["-s", "1"]]);
}

#[test]
fn unreliable_connections() {
    both_ways(UC, &[&[], &["-e"]]);
}

#[test]
fn datagrams() {
    both_ways(UD, &[&[], &["-e"]]);
}

#[test]
fn shared_receive_queues() {
    both_ways(SRQ, &[&[], &["-e"]]);
}
