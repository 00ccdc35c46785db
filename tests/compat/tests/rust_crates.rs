//! Crates that bind libibverbs, over the crates that stand for their `-sys` crates: no C is built,
//! and their own examples and tests run as static programs.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use compat_tests::crates::PURE;
use compat_tests::kernel;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};
use testbed::cargo::Built;
use testbed::{Command, Function, Guest, Machine};

/// What builds, finds or binds C.
const C_BUILDERS: [&str; 5] = ["bindgen", "cc", "cmake", "pkg-config", "vcpkg"];
/// The kernel's numbers, written in Rust.
const RUST_IN_SYS: &str = "linux-raw-sys";
const EXAMPLES: [&str; 6] = [
    "cmtime",
    "loopback",
    "show_gids",
    "ibv_devinfo",
    "rc_pingpong",
    "rc_pingpong_split",
];
const TESTS: [&str; 5] = [
    "test_atomic",
    "test_cq",
    "test_mr_and_cq",
    "test_post_send",
    "test_qp",
];
/// The ones inside the crates that need a device or the connection manager.
const UNIT_TESTS: [&str; 1] = ["sideway"];
const PATIENCE: Duration = Duration::from_secs(90);
/// How often something is tried that depends on time.
const TRIES: usize = 100;

#[test]
fn no_c_is_built_for_rust_crates() {
    let packages = PURE.packages().unwrap();
    assert!(packages.len() > 50, "{packages:#?}");
    for package in &packages {
        let name = package.name.as_str();
        assert_eq!(package.links, None, "{name} links C");
        assert!(!C_BUILDERS.contains(&name), "{name} is needed");
        let patched = PURE.patched.contains(&name);
        assert!(
            !name.ends_with("-sys") || patched || name == RUST_IN_SYS,
            "{name} binds something"
        );
        assert!(
            !patched || !package.is_from_registry,
            "{name} is not patched"
        );
        assert!(
            !PURE.crates.contains(&name) || package.is_from_registry,
            "{name} is not that of crates.io"
        );
    }
    for name in PURE.crates.iter().chain(PURE.patched) {
        let found = packages.iter().any(|package| package.name == *name);
        assert!(found, "{name} is not needed");
    }
}

/// Whether nothing has to be loaded before a program can run.
fn is_static(program: &Path) -> bool {
    let data = fs::read(program).unwrap();
    let header = FileHeader64::<Endianness>::parse(&*data).unwrap();
    let endian = header.endian().unwrap();
    let mut segments = header.program_headers(endian, &*data).unwrap().iter();
    assert_eq!(header.e_machine(endian), elf::EM_X86_64);
    !segments.any(|segment| segment.p_type(endian) == PT_INTERP)
}

/// Their examples and tests, built once.
fn programs() -> &'static [Built] {
    static BUILT: OnceLock<Vec<Built>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = PURE.build_programs(&EXAMPLES, &TESTS, &[]).unwrap();
        assert_eq!(
            built.len(),
            PURE.crates.len() + EXAMPLES.len() + TESTS.len()
        );
        for program in &built {
            assert!(is_static(&program.path), "{}", program.path.display());
        }
        built
    })
}

fn run(guest: &Guest, program: &str, args: &[&str]) -> String {
    let command = Command::new(program).args(args.iter().copied());
    let output = guest.run(command.timeout(PATIENCE)).unwrap();
    output.check().unwrap().stdout_text()
}

/// Some tests give the device 10 ms and then expect a completion: on a busy host it may take
/// longer, and they are run again.
fn run_test(guest: &Guest, test: &str) -> String {
    let run = || {
        let command = Command::new(test).arg("--test-threads=1");
        guest.run(command.timeout(PATIENCE)).unwrap()
    };
    let mut output = run();
    for _ in 0..TRIES {
        if output.success() || !output.stdout_text().contains("CompletionQueueEmpty") {
            break;
        }
        output = run();
    }
    let said = output.check().unwrap().stdout_text();
    assert!(said.contains("test result: ok."), "{test}: {said}");
    said
}

/// Both sides on one device.
fn ping_pong(guest: &Guest, program: &str) {
    let both = |args: &[&'static str]| {
        let args = [&["-g", "1", "-n", "200"], args].concat();
        Command::new(program).args(args).timeout(PATIENCE)
    };
    let server = guest.spawn(both(&[])).unwrap();
    let connect = || guest.run(both(&["127.0.0.1"])).unwrap();
    // The server says nothing before a client comes; a client that comes too early is refused.
    let mut client = connect();
    for _ in 0..TRIES {
        if !client.stderr_text().contains("Connection refused") {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        client = connect();
    }
    for output in [client, server.wait().unwrap()] {
        let said = output.check().unwrap().stdout_text();
        assert!(said.contains("200 iters in"), "{program}: {said}");
    }
}

/// A hundred connections by address, which the program times.
fn by_address(guest: &Guest, address: &'static str) {
    let both = |args: &[&'static str]| {
        let args = [&["-b", address], args].concat();
        Command::new("cmtime").args(args)
    };
    let server = guest.spawn(both(&[]).timeout(PATIENCE * 4)).unwrap();
    // The server does not say when it listens, and a client that is rejected waits for ever.
    let mut client = None;
    for _ in 0..3 {
        std::thread::sleep(Duration::from_secs(1));
        let output = guest.run(both(&["-s", address]).timeout(PATIENCE)).unwrap();
        let done = output.success();
        client = Some(output);
        if done {
            break;
        }
    }
    let said = client.unwrap().check().unwrap().stdout_text();
    assert!(said.contains("Disconnect"), "{said}");
    server.wait().unwrap().check().unwrap();
}

/// Runs all of them in a guest that has nothing which they could load.
fn run_all(mut machine: Machine, device: &str, address: &'static str) {
    for program in programs() {
        machine = machine.with_binary(&program.path, &program.name);
    }
    let guest = machine.boot().unwrap();
    let said = run(&guest, "loopback", &[]);
    let mut ended: Vec<_> = said.lines().collect();
    ended.sort_unstable();
    assert_eq!(ended, ["received", "sent"]);

    let gids = run(&guest, "show_gids", &[]);
    assert!(gids.contains("RoCEv2") && gids.contains(device), "{gids}");
    let described = run(&guest, "ibv_devinfo", &[]);
    assert!(described.contains("Active (4)"), "{described}");
    for program in ["rc_pingpong", "rc_pingpong_split"] {
        ping_pong(&guest, program);
    }
    by_address(&guest, address);
    for test in TESTS.iter().chain(&UNIT_TESTS) {
        let said = run_test(&guest, test);
        assert!(!said.contains(" 0 passed"), "{test}: {said}");
    }
    guest.power_off().unwrap();
}

#[test]
fn rust_crates_run_without_c_on_rxe() {
    run_all(Machine::new(kernel().unwrap()), "rxe0", "10.1.0.1");
}

#[test]
fn rust_crates_run_without_c_on_connectx() {
    let machine = Machine::new(kernel().unwrap()).connectx(&[Function::Roce]);
    run_all(machine, "mlx5_0", "10.2.0.1");
}
