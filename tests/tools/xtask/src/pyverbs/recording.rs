//! The suite's calls: recorded in the guest, copied to the host, and reduced to what is committed.

use super::device::Device;
use anyhow::{Context as _, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command as Program;
use std::time::Duration;
use testbed::cargo::{build_host_program, build_program, workspace};
use testbed::{Command, Guest, Machine};

/// The recorder, and the program that reduces a recording to shapes.
const RECORDER: &str = "record-calls";
const REDUCER: &str = "call-shapes";
const PACKAGE: &str = "recordings";
/// Where the committed files are.
const GOLDENS: &str = "tests/recordings/goldens/test-suite";
/// The suffix of recordings.
const ENDING: &str = "calls";
/// Where the guest keeps calls, and where Python finds the code that it runs first.
const CALLS: &str = "/calls";
const FIRST: &str = "/opt/first";
/// How long it may take to copy a recording to the host.
const PATIENCE: Duration = Duration::from_secs(300);

/// Makes random numbers in the tests the same in every run.
const SEED: &str = "import random; random.seed(1)";

/// Adds the recorder to a machine.
pub(super) fn machine(machine: Machine) -> anyhow::Result<Machine> {
    let args = ["build", "--release", "-p", PACKAGE, "--bin", RECORDER];
    Ok(machine.with_binary(build_program(RECORDER, &args)?, RECORDER))
}

/// Additional setup of a booted machine.
pub(super) fn prepare(guest: &Guest) -> anyhow::Result<()> {
    let line = format!("mkdir -p {FIRST} && echo '{SEED}' > {FIRST}/sitecustomize.py");
    guest.run(Command::shell(line))?.check()?;
    Ok(())
}

/// The prefix of a command that is to be recorded.
pub(super) fn words() -> String {
    format!("env PYTHONPATH={FIRST} PYTHONHASHSEED=1 {RECORDER} {CALLS} ")
}

/// Copies the calls of a module to the host, unless it was ended prematurely.
pub(super) fn fetch(
    guest: &Guest,
    device: Device,
    module: &str,
    complete: bool,
) -> anyhow::Result<()> {
    let file = folder(device).join(format!("{module}.{ENDING}"));
    if !complete {
        let _ = fs::remove_file(&file);
        return Ok(());
    }
    let line = format!("cat {CALLS}; rm -f {CALLS}");
    let output = guest.run(Command::shell(line).timeout(PATIENCE))?.check()?;
    fs::create_dir_all(folder(device))?;
    fs::write(&file, &output.stdout).with_context(|| file.display().to_string())
}

/// The folder of recordings that are complete.
fn folder(device: Device) -> PathBuf {
    workspace().join("target/pyverbs").join(device.name())
}

/// Reduces all recordings of a device to shapes, including those of earlier runs, and writes the
/// golden.
pub(super) fn reduce(device: Device, kernel: &str, suite: &str) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder(device))?;
    let mut modules: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            Some(name.strip_suffix(ENDING)?.trim_end_matches('.').to_owned())
        })
        .collect();
    modules.sort();
    let args = ["build", "--release", "-p", PACKAGE, "--bin", REDUCER];
    let mut program = Program::new(build_host_program(REDUCER, &args)?);
    program.arg(device.driver());
    for module in &modules {
        program.arg(folder(device).join(format!("{module}.{ENDING}")));
    }
    let output = program.output()?;
    if !output.status.success() {
        bail!("{REDUCER}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let shapes = String::from_utf8(output.stdout)?;
    let (name, modules) = (device.name(), modules.join(" "));
    let text = format!(
        "# Linux {kernel}, rdma-core of Debian {suite}: cargo xtask pyverbs --record --function {name}\n# {modules}\n{shapes}"
    );
    let file = workspace()
        .join(GOLDENS)
        .join(format!("{name}.rdma-core.txt"));
    println!("{}: {} shapes", file.display(), shapes.lines().count());
    fs::write(&file, text).with_context(|| file.display().to_string())
}
