//! `cargo xtask bench --hot`: what the hot functions of a user's crate execute, compared with a
//! committed table: not the text of the assembly, but what a regression would change.
//!
//! Callgrind counts how often each instruction is executed, and its decoder tells what it is, so
//! that only the executed path counts: code for rare cases may grow.

mod executed;
mod golden;

use anyhow::{Context as _, bail};
use std::fs;
use std::process::{Command, ExitCode};
use testbed::{cargo, host};

use super::user::{HANDLES, build, functions};
use executed::Program;
use golden::{Golden, TABLE};

pub(crate) fn run(write: bool) -> anyhow::Result<ExitCode> {
    // As `bench --user` builds it, in the same folder.
    let program = Program::open(&build("raw", "default", "false")?)?;
    let found = Golden::new(compiler()?, program.count()?);
    for handle in HANDLES {
        for function in functions() {
            let name = format!("{handle}::{function}");
            if !found.has(&name) {
                bail!("{name} was not run");
            }
        }
    }
    let file = cargo::workspace().join(TABLE);
    if write {
        fs::write(&file, found.to_string()).with_context(|| TABLE.to_owned())?;
        host::say(format_args!("wrote {TABLE}"));
        return Ok(ExitCode::SUCCESS);
    }
    let text = fs::read_to_string(&file).with_context(|| TABLE.to_owned())?;
    let differences = Golden::read(&text)?.differences(&found);
    for difference in &differences {
        println!("{difference}");
    }
    if differences.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("If they are meant: cargo xtask bench --hot --write");
    Ok(ExitCode::FAILURE)
}

/// The compiler's version, which the table depends on.
fn compiler() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("--version").output()?;
    if !output.status.success() {
        bail!("rustc: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
