//! `cargo xtask surface`: what safe programs can reach in the published crates, and that it
//! includes no power over the kernel.
//!
//! | file | what |
//! |---|---|
//! | `document` | has the compiler describe the public items |
//! | `mentions` | which types a type names, and in which direction values of them move |
//! | `items` | the items that a program can use |
//! | `judge` | the violations among them |
//! | `listed` | the types of power, and the exceptions with their reasons |
//! | `programs` | programs that must not compile |

pub(crate) mod document;
mod items;
mod judge;
mod listed;
mod mentions;
mod programs;
#[cfg(test)]
mod tests;

use anyhow::{Context as _, bail};
use clap::Args;
use std::process::ExitCode;
use std::thread;

use self::document::Documented;
use self::items::Surface;

/// Examine every public item of the published crates and fail on a safe one that returns, or takes,
/// power over the kernel without being listed; compile programs that try to obtain it, and fail if
/// one of them compiles.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Print every item that has to do with power, with what it takes and returns.
    #[arg(long)]
    print: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    check(options.print)?;
    Ok(ExitCode::SUCCESS)
}

/// Fails if power is reachable, or if an entry of the lists no longer matches anything.
pub(crate) fn compare() -> anyhow::Result<()> {
    check(false)
}

fn check(print: bool) -> anyhow::Result<()> {
    let crates: Vec<Documented> = document::published()?;
    // Types are trees, deeper than a thread's stack allows in an unoptimised build.
    let reader = thread::Builder::new().stack_size(64 << 20);
    let surface = reader
        .spawn(move || Surface::of(&crates))?
        .join()
        .ok()
        .context("reading what the compiler wrote")??;
    let verdict = judge::judge(&surface, &listed::LISTS);
    if print {
        for line in &verdict.concerned {
            println!("{line}");
        }
    }
    println!(
        "{} safe functions and the like, and {} unsafe ones; {} of the former have to do with power over the kernel, by {} reasons",
        surface.items.len(),
        surface.unsafe_functions,
        verdict.concerned.len(),
        listed::LISTS.reasons()
    );
    if !verdict.findings.is_empty() {
        bail!(
            "{} findings:\n  {}",
            verdict.findings.len(),
            verdict.findings.join("\n  ")
        );
    }
    let programs = programs::check()?;
    println!("{programs} programs that must not compile do not, each for its own reason");
    Ok(())
}
