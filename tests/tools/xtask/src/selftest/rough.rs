//! Does what `uverbs selftest --rough` asks the operator to do: to the software ConnectX, and to
//! its driver through the guest's own files.

use super::once;
use anyhow::{Context as _, bail, ensure};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Child, Command, Guest, Output};

pub(super) const PORT: &str = "trouble/port down and up";
pub(super) const DEVICE: &str = "trouble/device gone and back";

/// The checks that need this.
pub(super) const CHECKS: [&str; 2] = [PORT, DEVICE];

/// How long the program may take to ask for something.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a port is down: its driver ignores less.
const DOWN: Duration = Duration::from_millis(500);
/// How long firmware is stopped: its driver checks every two or three seconds.
const STOPPED: Duration = Duration::from_secs(6);

/// What the program prints when it waits.
const PORT_DOWN: &str = "please take the port down";
const PORT_UP: &str = "please bring the port up";
const RESET: &str = "please reset the device";

/// The program that writes to files where there is no shell.
pub(crate) const WRITER: &str = "guest-hello";
const RESCAN: &str = "/sys/bus/pci/rescan";

/// How a device disappears and returns.
#[derive(Clone, Copy, Debug)]
enum Away {
    /// The kernel is told to remove it, and then to rescan the bus.
    TakenOut,
    /// Its firmware stops and starts again; the driver notices by itself.
    Restarted,
}

/// Builds the program that [`play`] needs in the machine.
pub(crate) fn writer() -> anyhow::Result<PathBuf> {
    let args = ["build", "--package", "guest-init", "--bin", WRITER];
    Ok(testbed::cargo::build_program(WRITER, &args)?)
}

/// Runs all of it on a device, where nothing may fail; returns the lines of the checks.
pub(super) fn run(guest: &Guest, device: &str, function: u8) -> anyhow::Result<Vec<String>> {
    let outputs = [
        port(guest, device, function)?,
        away(guest, device, function, Away::TakenOut)?,
        away(guest, device, function, Away::Restarted)?,
    ];
    outputs.iter().map(ended_well).collect()
}

/// Runs one of the checks and does what it asks for.
pub(super) fn play(
    guest: &Guest,
    check: &str,
    device: &str,
    function: u8,
) -> anyhow::Result<Output> {
    match check {
        PORT => port(guest, device, function),
        DEVICE => away(guest, device, function, Away::TakenOut),
        other => bail!("{other} has no request to its user"),
    }
}

/// Takes the port of a function down and up again.
fn port(guest: &Guest, device: &str, function: u8) -> anyhow::Result<Output> {
    let child = start(guest, device, PORT)?;
    child.wait_for_text(PORT_DOWN, PATIENCE)?;
    once::ask(guest, &format!("link {function} down"))?;
    // After it has found something wrong it asks for nothing more.
    let asked = child.wait_for_text(PORT_UP, PATIENCE);
    sleep(DOWN);
    once::ask(guest, &format!("link {function} up"))?;
    if !child.has_ended() {
        asked?;
    }
    Ok(child.wait()?)
}

/// Makes a function disappear and return.
fn away(guest: &Guest, device: &str, function: u8, how: Away) -> anyhow::Result<Output> {
    let child = start(guest, device, DEVICE)?;
    child.wait_for_text(RESET, PATIENCE)?;
    match how {
        Away::TakenOut => {
            write(
                guest,
                &format!("/sys/class/infiniband/{device}/device/remove"),
            )?;
            write(guest, RESCAN)?;
        }
        Away::Restarted => {
            once::ask(guest, &format!("remove {function}"))?;
            sleep(STOPPED);
            once::ask(guest, &format!("insert {function}"))?;
        }
    }
    Ok(child.wait()?)
}

fn start(guest: &Guest, device: &str, check: &str) -> anyhow::Result<Child> {
    let only = ["--rough", "--only", check].map(str::to_owned);
    once::spawn(guest, device, &only)
}

/// Writes a 1 to a file of the guest.
fn write(guest: &Guest, file: &str) -> anyhow::Result<()> {
    let output = guest.run(Command::new(WRITER).args(["write", file, "1"]))?;
    output.check()?;
    Ok(())
}

/// The line of the only check, which must be ok.
fn ended_well(output: &Output) -> anyhow::Result<String> {
    let text = output.stdout_text();
    ensure!(
        output.success() && text.contains("1 ok, 0 FAIL, 0 skip"),
        "{}:\n{text}{}",
        output.ending_text(),
        output.stderr_text()
    );
    let line = text.lines().find(|line| line.starts_with("ok   trouble/"));
    Ok(line.context("no line of the check")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_those_of_the_program() {
        let source = include_str!("../../../../../src/cli/src/commands/selftest/trouble.rs");
        for prompt in [PORT_DOWN, PORT_UP, RESET] {
            let words = prompt.strip_prefix("please ").unwrap_or(prompt);
            assert!(source.contains(&format!("request(\"{words}")), "{words}");
        }
    }
}
