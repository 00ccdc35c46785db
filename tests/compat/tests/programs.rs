//! rdma-core's programs and perftest, over this library and over Debian's.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use compat_tests::Library::{Debian, Ours};
use compat_tests::{Devices, Library, boot, machine, play};
use testbed::cargo::build_program;
use testbed::{Command, Guest};

/// What ping-pong programs print once clients may connect.
const READY: &str = "local address";
/// What perftest prints then.
const WAITING: &str = "Waiting for client to connect";

const PAIRS: [[Library; 2]; 3] = [[Ours, Ours], [Ours, Debian], [Debian, Ours]];

/// Plays a program in each of `modes`, with each library on each side.
fn in_modes(guest: &Guest, devices: Devices, program: &str, modes: &[&[&str]], ready: &str) {
    for mode in modes {
        for libraries in PAIRS {
            if let Err(error) = play(guest, devices, program, mode, ready, libraries) {
                panic!("{program} {mode:?}, server and client over {libraries:?}: {error}");
            }
        }
    }
}

/// Both print the same about the devices.
fn describe(guest: &Guest, program: &str, args: &[&str]) {
    let [ours, theirs] = [Ours, Debian].map(|library| {
        let output = guest.run(library.run(program, args)).unwrap();
        output.check().unwrap().stdout_text()
    });
    assert_eq!(
        ours, theirs,
        "{program} {args:?}: ours (left), Debian's (right)"
    );
}

fn ping_pongs(devices: Devices, gid: &[&str]) {
    let guest = boot(devices).unwrap();
    describe(&guest, "ibv_devices", &[]);
    describe(&guest, "ibv_devinfo", &["-v"]);
    let with = |args: &[&'static str]| -> Vec<&str> { [gid, &["-n", "200"], args].concat() };
    let plain: &[&[&str]] = &[&with(&[]), &with(&["-e"]), &with(&["-s", "65536"])];
    in_modes(&guest, devices, "ibv_rc_pingpong", plain, READY);
    let [polling, waiting, _] = plain else {
        panic!()
    };
    in_modes(
        &guest,
        devices,
        "ibv_uc_pingpong",
        &[polling, waiting],
        READY,
    );
    let small = with(&["-s", "1024"]);
    let events = with(&["-s", "1024", "-e"]);
    in_modes(
        &guest,
        devices,
        "ibv_ud_pingpong",
        &[&small, &events],
        READY,
    );
    let shared: &[&[&str]] = &[&with(&["-q", "8"]), &with(&["-q", "8", "-e"])];
    in_modes(&guest, devices, "ibv_srq_pingpong", shared, READY);
    guest.power_off().unwrap();
}

#[test]
fn utilities_on_rxe() {
    ping_pongs(Devices::Rxe, &["-g", "1"]);
}

#[test]
fn utilities_on_connectx() {
    ping_pongs(Devices::Connectx, &[]);
}

/// Programs that are linked static: what the library refuses and what it waits for; queues by
/// address.
fn linked_static(devices: Devices, programs: &[&str]) {
    let args = ["build", "--package", "compat-tests", "--bin", "c_program"];
    let program = build_program("c_program", &args).unwrap();
    let guest = machine(devices).unwrap().with_binary(program, "c_program");
    let guest = guest.boot().unwrap();
    for program in programs {
        let output = guest.run(Command::new("c_program").arg(*program)).unwrap();
        let output = output.check().unwrap();
        assert_eq!(output.stdout_text().trim(), "ok", "{program}");
    }
    guest.power_off().unwrap();
}

#[test]
fn static_programs_on_rxe() {
    linked_static(Devices::Rxe, &["orders"]);
}

#[test]
fn static_programs_on_connectx() {
    linked_static(Devices::Connectx, &["orders", "by-address"]);
}

/// Arguments of all perftest programs. Without the first they end with an error where the clock of
/// an emulated machine does not run evenly.
const PERFTEST: [&str; 3] = ["-F", "-n", "100"];

fn perftest(devices: Devices, gid: &[&str]) {
    let guest = boot(devices).unwrap();
    let args = |more: &[&'static str]| -> Vec<&str> { [gid, &PERFTEST, more].concat() };
    for program in ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw"] {
        in_modes(&guest, devices, program, &[&args(&[])], WAITING);
    }
    for program in [
        "ib_write_lat",
        "ib_read_lat",
        "ib_send_lat",
        "ib_atomic_lat",
    ] {
        in_modes(&guest, devices, program, &[&args(&[])], WAITING);
    }
    // Old posting functions, events, inline data, datagrams.
    let modes: [&[&'static str]; 4] = [
        &["--use_old_post_send"],
        &["-e"],
        &["-I", "64", "-s", "64"],
        &["-c", "UD", "-s", "1024"],
    ];
    for mode in modes {
        in_modes(&guest, devices, "ib_send_bw", &[&args(mode)], WAITING);
    }
    guest.power_off().unwrap();
}

#[test]
fn perftest_on_rxe() {
    perftest(Devices::Rxe, &["-x", "1"]);
}

#[test]
fn perftest_on_connectx() {
    perftest(Devices::Connectx, &[]);
}

/// Connections of a kind that rxe does not have.
fn connections(kind: &str, programs: &[&str]) {
    let devices = Devices::Connectx;
    let guest = boot(devices).unwrap();
    for program in programs {
        let mode = [&PERFTEST[..], &["-c", kind]].concat();
        in_modes(&guest, devices, program, &[&mode], WAITING);
    }
    guest.power_off().unwrap();
}

#[test]
fn extended_connections_on_connectx() {
    connections("XRC", &["ib_write_bw", "ib_send_bw"]);
}

#[test]
fn dynamic_connections_on_connectx() {
    let programs = ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_send_lat"];
    connections("DC", &programs);
}
