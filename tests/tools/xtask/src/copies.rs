//! `cargo xtask copies`: how aarch64 copies requests through doorbells.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use testbed::cargo::workspace;
use testbed::host::{self, Tool, ensure};

/// The target that the code is compiled for; it is not run, and no linker is needed.
const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The function that copies blocks through a register.
const FUNCTION: &str = "copy_blocks";

/// Number of stores per block.
const STORES: usize = 8;

/// Compile the driver layer for aarch64 and check that blocks are copied through doorbells by
/// stores without any other instruction in between.
///
/// Such a processor combines only consecutive stores into one transaction.
#[derive(Args, Debug)]
pub(crate) struct Options {}

pub(crate) fn run(_: &Options) -> anyhow::Result<ExitCode> {
    ensure(&[Tool::RustTarget(TARGET)])?;
    let folder = workspace().join("target/copies");
    fs::create_dir_all(&folder)?;
    let assembly = folder.join("uverbs-core.s");
    let mut command = testbed::cargo::command();
    command
        .args(["rustc", "--release", "--package", "uverbs-core"])
        .args(["--target", TARGET, "--target-dir"])
        .arg(&folder)
        .arg("--")
        .arg(format!("--emit=asm={}", assembly.display()))
        .args(["-C", "codegen-units=1"]);
    host::run(&mut command)?;
    let text = fs::read_to_string(&assembly)?;
    let body = body(&text).with_context(|| format!("no {FUNCTION} in {}", assembly.display()))?;
    println!("{}", body.join("\n"));
    if !stores_follow_each_other(&body) {
        bail!("{FUNCTION} has no {STORES} stores of a register each that follow each other");
    }
    Ok(ExitCode::SUCCESS)
}

/// The instructions of the function, without the assembler's directives.
fn body(text: &str) -> Option<Vec<&str>> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| line.contains(FUNCTION) && line.ends_with(':'))?;
    let body =
        lines.take_while(|line| !line.starts_with(".cfi_endproc") && !line.starts_with(".size"));
    let instructions = body.filter(|line| !line.is_empty() && !line.starts_with(['.', '/']));
    Some(instructions.collect())
}

/// Whether the bytes of a block are stored from first to last, by consecutive stores.
fn stores_follow_each_other(body: &[&str]) -> bool {
    body.windows(STORES).any(|run| {
        let base = run[0]
            .split_once('[')
            .map(|(_, base)| base.trim_end_matches(']'));
        run.iter().enumerate().all(|(at, line)| {
            let place = line
                .split_once('[')
                .map(|(_, place)| place.trim_end_matches(']'));
            let expected = match at {
                0 => base.map(str::to_owned),
                _ => base.map(|base| format!("{base}, #{}", 8 * at)),
            };
            line.starts_with("str\tx") && place == expected.as_deref()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: [&str; 8] = [
        "str\tx1, [x9]",
        "str\tx2, [x9, #8]",
        "str\tx3, [x9, #16]",
        "str\tx4, [x9, #24]",
        "str\tx5, [x9, #32]",
        "str\tx6, [x9, #40]",
        "str\tx7, [x9, #48]",
        "str\tx8, [x9, #56]",
    ];

    #[test]
    fn only_stores_without_anything_in_between_will_do() {
        assert!(stores_follow_each_other(&STORED));
        let mut loaded = STORED.to_vec();
        loaded.insert(4, "ldp\tx5, x6, [x10, #32]");
        assert!(!stores_follow_each_other(&loaded));
        let pairs = ["ldp\tx1, x2, [x0]", "stp\tx1, x2, [x9]"].repeat(4);
        assert!(!stores_follow_each_other(&pairs));
    }

    #[test]
    fn the_function_is_found_among_others() {
        let text = "other:\n\tret\n.cfi_endproc\n_copy_blocks17h:\n\t.cfi_startproc\n// note\n\tret\n\t.size x\n\tnop";
        assert_eq!(body(text), Some(vec!["ret"]));
        assert_eq!(body("ret"), None);
    }
}
