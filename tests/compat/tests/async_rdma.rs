//! The crate `async-rdma` over the crate that stands for `rdma-sys`: its own examples and tests run
//! as static programs. The only C in them is its allocator.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use compat_tests::crates::WITH_ALLOCATOR;
use compat_tests::{kernel, musl};
use testbed::cargo::Built;
use testbed::{Command, Function, Guest, Machine};

/// Libraries that its build script asks for.
const ASKED_FOR: [&str; 2] = ["ibverbs", "rdmacm"];
/// What it builds of C, and with what.
const C: [&str; 2] = ["cc", "tikv-jemalloc-sys"];
const EXAMPLES: [&str; 3] = ["client", "devices", "server"];
const TESTS: [&str; 6] = [
    "imm",
    "atomic",
    "cancel_safety",
    "device",
    "loop",
    "mr_slice",
];
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn its_only_c_is_its_allocator() {
    let packages = WITH_ALLOCATOR.packages().unwrap();
    let of_c = packages.iter().filter(|package| {
        let name = package.name.as_str();
        let binds = name.ends_with("-sys") && name != "linux-raw-sys";
        let ours = !package.is_from_registry;
        ["bindgen", "cc", "cmake", "pkg-config"].contains(&name) || binds && !ours
    });
    let of_c: BTreeSet<_> = of_c.map(|package| package.name.as_str()).collect();
    assert_eq!(of_c, BTreeSet::from(C));
    let patched = packages.iter().any(|package| package.name == "rdma-sys");
    assert!(patched, "{packages:#?}");
}

fn programs() -> Vec<Built> {
    let configuration = musl::cargo_configuration(&ASKED_FOR).unwrap();
    let configuration = configuration.display().to_string();
    let more = ["--config", &configuration];
    WITH_ALLOCATOR
        .build_programs(&EXAMPLES, &TESTS, &more)
        .unwrap()
}

/// The server waits for the clients, and neither says when it is ready.
fn exchange(guest: &Guest) {
    let server = guest
        .spawn(Command::new("server").timeout(PATIENCE))
        .unwrap();
    let mut client = None;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(500));
        let output = guest.run(Command::new("client").timeout(PATIENCE)).unwrap();
        let refused = output.stderr_text().contains("Connection refused");
        client = Some(output);
        if !refused {
            break;
        }
    }
    let client = client.expect("it ran");
    let server = server.wait().unwrap();
    assert!(
        client.success() && server.success(),
        "{client:?} {server:?}"
    );
    assert_eq!(client.stdout_text().matches("client done").count(), 2);
    assert_eq!(server.stdout_text().matches("server done").count(), 2);
}

fn run_all(mut machine: Machine, device: &str, tests: &[&str]) {
    let programs = programs();
    assert_eq!(programs.len(), EXAMPLES.len() + TESTS.len() + 1);
    for program in &programs {
        machine = machine.with_binary(&program.path, &program.name);
    }
    let guest = machine.boot().unwrap();
    let devices = guest.run(Command::new("devices")).unwrap();
    let devices = devices.check().unwrap().stdout_text();
    assert!(devices.contains(device), "{devices}");
    for test in tests {
        let command = Command::new(*test).arg("--test-threads=1");
        let output = guest.run(command.timeout(PATIENCE)).unwrap();
        let said = output.check().unwrap().stdout_text();
        assert!(said.contains("test result: ok."), "{test}: {said}");
    }
    // The examples use immediate data, too.
    if tests.contains(&TESTS[0]) {
        exchange(&guest);
    }
    guest.power_off().unwrap();
}

#[test]
fn async_rdma_runs_on_rxe() {
    run_all(Machine::new(kernel().unwrap()), "rxe0", &TESTS);
}

/// Unless it is told otherwise, the crate finds immediate data only by the flags that Soft RoCE
/// sets.
#[test]
fn async_rdma_runs_on_connectx() {
    let machine = Machine::new(kernel().unwrap()).connectx(&[Function::Roce]);
    run_all(machine, "mlx5_0", &TESTS[1..]);
}
