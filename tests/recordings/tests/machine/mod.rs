//! The machine that both kinds of programs run in.

use std::path::{Path, PathBuf};
use std::process::Command as Compiler;
use std::time::Duration;

use recordings::compare::{Reasons, differences};
use recordings::normal::Recording;
use testbed::{Command, Guest, Kernel, Machine, Packages, cargo};
use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;

/// The Debian whose programs are laid into guests.
const SUITE: &str = "bookworm";
const PATIENCE: Duration = Duration::from_secs(120);
/// The kernel whose answers are in the goldens.
const GOLDEN_KERNEL: &str = "6.12";
/// Set to write the goldens anew.
const WRITE: &str = "UVERBS_RECORDINGS_WRITE";

const SCENARIOS: [&str; 11] = [
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

/// What the scenarios run on: the device, and the folder of its goldens.
const DEVICE: &str = "rxe0";
const KIND: &str = "rxe";

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Debian's headers and libraries, the system's compiler.
fn oracle(folder: &Path) -> PathBuf {
    let root = Packages::new(SUITE, &["libibverbs-dev", "libc6-dev"])
        .folder()
        .expect("Debian's packages");
    let program = folder.join("scenario-theirs");
    let output = Compiler::new("cc")
        .arg(format!("--sysroot={}", root.display()))
        .args(["-O1", "-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(package().join("oracle/scenario.c"))
        .arg("-libverbs")
        .output()
        .expect("a C compiler `cc`: apt install gcc");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cc: {said}");
    program
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

fn boot(kernel: &str, folder: &Path) -> Guest {
    Machine::new(Kernel::named(kernel).expect("a kernel"))
        .with_debian_tools()
        .with_binary(program("record-calls"), "record-calls")
        .with_binary(program("scenario"), "scenario")
        .with_binary(oracle(folder), "scenario-theirs")
        .boot()
        .expect("the machine boots")
}

/// Runs a command under the recorder.
fn record(guest: &Guest, command: &str) -> Recording {
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
    Recording::read(&calls.join("\n"), RDMA_DRIVER_RXE).expect("calls")
}

/// Compares every scenario, and both sides with what was recorded before.
pub(crate) fn agree() {
    let kernel = std::env::var("UVERBS_TEST_KERNEL").ok();
    let kernel = kernel.filter(|name| name != "all");
    let kernel = kernel.unwrap_or_else(|| GOLDEN_KERNEL.to_owned());
    let folder = std::env::temp_dir().join(format!("recordings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let guest = boot(&kernel, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    let list = package().join(format!("{KIND}-differences.txt"));
    let mut reasons = Reasons::read(&std::fs::read_to_string(&list).unwrap()).unwrap();
    let mut wrong = Vec::new();
    let mut calls = 0;
    for scenario in SCENARIOS {
        let theirs = record(&guest, &format!("scenario-theirs {DEVICE} {scenario}"));
        let ours = record(&guest, &format!("scenario {DEVICE} {scenario}"));
        calls += theirs
            .lives
            .values()
            .map(|life| life.steps.len())
            .sum::<usize>();
        for difference in differences(&theirs, &ours) {
            if !reasons.covers(&difference) {
                wrong.push(format!("{scenario}: {difference}"));
            }
        }
        if kernel == GOLDEN_KERNEL {
            for (side, recording) in [("rdma-core", &theirs), ("uverbs", &ours)] {
                wrong.extend(golden(scenario, side, recording));
            }
        }
    }
    if kernel == GOLDEN_KERNEL {
        wrong.extend(
            reasons
                .unused()
                .into_iter()
                .map(|line| format!("a reason that nothing needs: {line}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "{} scenarios agree: {calls} calls of rdma-core",
        SCENARIOS.len()
    );
    guest.power_off().unwrap();
}

/// The line by which a recording differs from the one that is kept.
fn golden(scenario: &str, side: &str, recording: &Recording) -> Option<String> {
    let file = package().join(format!("goldens/{KIND}/{scenario}.{side}.txt"));
    let program = if side == "uverbs" {
        "scenario"
    } else {
        "scenario-theirs"
    };
    let text = format!(
        "# Linux {GOLDEN_KERNEL}: record-calls FILE {program} {DEVICE} {scenario}\n{recording}"
    );
    if std::env::var_os(WRITE).is_some() {
        std::fs::create_dir_all(file.parent()?).unwrap();
        std::fs::write(&file, &text).unwrap();
        return None;
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let mut lines = kept.lines().zip(text.lines());
    let differs = lines.find(|(kept, now)| kept != now);
    let (kept_count, now_count) = (kept.lines().count(), text.lines().count());
    match differs {
        Some((kept, now)) => Some(format!("{scenario}.{side}: kept {kept}\n  now {now}")),
        None if kept_count != now_count => Some(format!(
            "{scenario}.{side}: kept {kept_count} lines, now {now_count}"
        )),
        None => None,
    }
}
