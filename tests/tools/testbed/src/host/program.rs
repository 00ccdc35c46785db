//! Programs of the host.

use crate::Error;
use std::process::{Command, Output, Stdio};

/// How many characters of a failed program's output are kept.
const KEPT: usize = 3000;

/// Runs a program to its end and returns its standard output.
///
/// # Errors
/// The program cannot be started, or exits with a code other than 0.
pub fn capture(command: &mut Command) -> Result<String, Error> {
    capture_bytes(command).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// As [`capture`], for output that is not text.
///
/// # Errors
/// As [`capture`].
pub fn capture_bytes(command: &mut Command) -> Result<Vec<u8>, Error> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| not_started(command, &cause))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Error::Program {
        program: line(command),
        status: output.status.to_string(),
        output: tail(&output),
    })
}

/// Runs a program to its end; its output goes where ours goes.
///
/// # Errors
/// The program cannot be started, or exits with a code other than 0.
pub fn run(command: &mut Command) -> Result<(), Error> {
    let status = command
        .status()
        .map_err(|cause| not_started(command, &cause))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Program {
        program: line(command),
        status: status.to_string(),
        output: "(shown above)".into(),
    })
}

fn not_started(command: &Command, cause: &std::io::Error) -> Error {
    Error::Program {
        program: line(command),
        status: "not started".into(),
        output: cause.to_string(),
    }
}

/// The command line as one would type it.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

fn tail(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let skipped = text.chars().count().saturating_sub(KEPT);
    text.chars().skip(skipped).collect()
}
