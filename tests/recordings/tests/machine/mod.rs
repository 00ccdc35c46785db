//! The machines in which both kinds of programs run.

mod agree;
mod cm;

pub(crate) use cm::connection_manager;

use std::path::{Path, PathBuf};
use std::process::Command as Compiler;
use std::time::Duration;

use testbed::connectx::{Connectx, Function};
use testbed::{Command, Guest, Kernel, Machine, Packages, cargo};
use uverbs_uapi::ib_user_ioctl_verbs::{RDMA_DRIVER_MLX5, RDMA_DRIVER_RXE};

/// The Debian suite whose programs are installed in guests.
const SUITE: &str = "bookworm";
const PATIENCE: Duration = Duration::from_secs(120);
/// The kernel whose answers are in the goldens.
const GOLDEN_KERNEL: &str = "6.12";

/// Scenarios for every device.
const EVERYWHERE: [&str; 11] = [
    "queries",
    "regions",
    "windows",
    "completion-queues",
    "rc",
    "uc",
    "ud",
    "shared-queues",
    "addresses",
    "multicast",
    "events",
];

/// What rdma-core's test suite additionally requests, run only with this library.
const OF_TEST_SUITE: &str = "test-suite";

/// Additional scenarios for mlx5 devices.
const MLX5: [&str; 8] = [
    "firmware",
    "pages",
    "scheduling",
    "pacing-entries",
    "extended",
    "device-memory",
    "dynamic",
    "establishment",
];
/// Those where the kind of the port matters.
const MLX5_ROCE: [&str; 9] = [
    "queries",
    "rc",
    "ud",
    "addresses",
    "multicast",
    "pacing",
    "raw-packets",
    "raw-scheduling",
    "work-queues",
];

/// A device that scenarios run on.
pub(crate) struct Stage {
    /// The folder of its goldens.
    pub(crate) kind: &'static str,
    pub(crate) device: &'static str,
    pub(crate) scenarios: Vec<&'static str>,
}

/// Scenarios of one driver.
pub(crate) struct Play {
    /// Its name, before `-differences.txt`.
    pub(crate) driver: &'static str,
    number: u32,
    pub(crate) stages: Vec<Stage>,
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compiles with Debian's headers and libraries and the system's compiler.
fn oracle(folder: &Path) -> PathBuf {
    let sources = ["scenario.c", "mlx5.c", "objects.c"];
    compiled(
        &folder.join("scenario-theirs"),
        &sources,
        &["libibverbs-dev", "libc6-dev"],
        &["-libverbs", "-lmlx5"],
    )
}

fn compiled(program: &Path, sources: &[&str], packages: &[&str], libraries: &[&str]) -> PathBuf {
    let root = Packages::new(SUITE, packages)
        .folder()
        .expect("Debian's packages");
    let sources = sources
        .iter()
        .map(|name| package().join("oracle").join(name));
    let output = Compiler::new("cc")
        .arg(format!("--sysroot={}", root.display()))
        .args(["-O1", "-Wall", "-Werror", "-o"])
        .arg(program)
        .args(sources)
        .args(libraries)
        .output()
        .expect("a C compiler `cc`: apt install gcc");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cc: {said}");
    program.to_owned()
}

fn program(name: &str) -> PathBuf {
    let args = [
        "build",
        "--release",
        "--package",
        "recordings",
        "--bin",
        name,
    ];
    cargo::build_program(name, &args).expect("a program")
}

fn boot(machine: Machine, name: &str) -> Guest {
    let folder = std::env::temp_dir().join(format!("recordings-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let guest = machine
        .with_debian_tools()
        .with_binary(program("record-calls"), "record-calls")
        .with_binary(program("scenario"), "scenario")
        .with_binary(oracle(&folder), "scenario-theirs")
        .boot()
        .expect("the machine boots");
    let _ = std::fs::remove_dir_all(&folder);
    guest
}

/// Runs a command under the recorder; returns one line per call.
fn record(guest: &Guest, command: &str) -> String {
    let shell = format!("record-calls /calls {command} && cat /calls && rm /calls");
    let output = guest
        .run(Command::shell(&shell).timeout(PATIENCE))
        .expect("the guest runs commands")
        .check()
        .unwrap_or_else(|error| panic!("{command}: {error}"));
    let said = output.stdout_text();
    // Programs print, too.
    let calls: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("{\"pid\""))
        .collect();
    calls.join("\n")
}

fn kernel() -> String {
    let kernel = std::env::var("UVERBS_TEST_KERNEL").ok();
    let kernel = kernel.filter(|name| name != "all");
    kernel.unwrap_or_else(|| GOLDEN_KERNEL.to_owned())
}

/// Soft RoCE.
pub(crate) fn rxe() {
    let play = Play {
        driver: "rxe",
        number: RDMA_DRIVER_RXE,
        stages: vec![Stage {
            kind: "rxe",
            device: "rxe0",
            scenarios: EVERYWHERE.to_vec(),
        }],
    };
    let kernel = kernel();
    let machine = Machine::new(Kernel::named(&kernel).expect("a kernel"));
    play.on(&boot(machine, "rxe"), &kernel);
}

/// Two functions of the software ConnectX under the stock drivers.
pub(crate) fn mlx5() {
    let play = Play {
        driver: "mlx5",
        number: RDMA_DRIVER_MLX5,
        stages: vec![
            Stage {
                kind: "mlx5-ib",
                device: "mlx5_0",
                scenarios: [&EVERYWHERE[..], &MLX5].concat(),
            },
            Stage {
                kind: "mlx5-roce",
                device: "mlx5_1",
                scenarios: MLX5_ROCE.to_vec(),
            },
        ],
    };
    let kernel = kernel();
    let machine = Machine::new(Kernel::named(&kernel).expect("a kernel"))
        .connectx(Connectx::new(&[Function::Ib, Function::Roce]));
    play.on(&boot(machine, "mlx5"), &kernel);
}
