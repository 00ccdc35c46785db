//! `cargo xtask selftest`: the command-line tool's self-test on every device that machines have,
//! and on misbehaving ones.

pub(crate) mod company;
mod document;
pub(crate) mod faults;
mod misbehaviours;
pub(crate) mod once;
pub(crate) mod rough;

use crate::programs;
use clap::Args;
use document::Document;
use once::Run;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use testbed::cargo::workspace;
use testbed::{Connectx, Function, Guest, Kernel, Machine, host};

/// The page of results.
const PAGE: &str = "docs/guide/selftest-output.md";

/// Run `uverbs selftest` in machines: on rxe, on both kinds of functions of the software ConnectX,
/// and on functions that misbehave.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Kernel: 6.1, 6.12 or newest.
    #[arg(long, default_value = "6.12")]
    kernel: String,
    /// Write the output to docs/guide/selftest-output.md.
    #[arg(long, conflicts_with = "faults")]
    write: bool,
    /// Write the JSON files of the runs to this folder, for cargo xtask report.
    #[arg(long, value_name = "FOLDER", conflicts_with = "faults")]
    json: Option<PathBuf>,
    /// Only the checks that need a second host, or somebody who takes ports down and removes
    /// devices.
    #[arg(long, conflicts_with_all = ["write", "json"])]
    company: bool,
    /// Only the faults, all of them, without complete runs.
    #[arg(long, conflicts_with_all = ["company", "write", "json", "faults"])]
    all_faults: bool,
    /// Only these faults, by parts of their names, without complete runs.
    #[arg(value_name = "FAULT")]
    faults: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let tool = programs::uverbs()?;
    let guest = connectx(options, &tool)?;
    if options.company {
        company::run(&guest)?;
        guest.power_off()?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.all_faults || !options.faults.is_empty() {
        faults::some(&guest, &options.faults)?;
        guest.power_off()?;
        return Ok(ExitCode::SUCCESS);
    }
    let runs = ["mlx5_0", "mlx5_1"].map(|device| run_in(&guest, device));
    let [ib, roce] = runs;
    let runs = [ib?, roce?];
    let caught = faults::run(&guest, &runs)?;
    let company = company::run(&guest)?;
    guest.power_off()?;
    let guest = Machine::new(Kernel::named(&options.kernel)?)
        .with_binary(&tool, "uverbs")
        .boot()?;
    let rxe = run_in(&guest, "rxe0")?;
    guest.power_off()?;
    let [ib, roce] = &runs;
    if let Some(folder) = &options.json {
        std::fs::create_dir_all(folder)?;
        for (name, run) in [("rxe", &rxe), ("ib", ib), ("roce", roce)] {
            let text = serde_json::to_string_pretty(&run.report)?;
            std::fs::write(folder.join(format!("{name}.json")), text + "\n")?;
        }
    }
    if options.write {
        let document = Document {
            kernel: &options.kernel,
            rxe: &rxe,
            ib,
            roce,
            caught: &caught,
            company: &company,
        };
        std::fs::write(workspace().join(PAGE), document.to_string())?;
        host::say(format_args!("wrote {PAGE}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn connectx(options: &Options, tool: &Path) -> anyhow::Result<Guest> {
    let connectx = Connectx::new(&[Function::Ib, Function::Roce]).shaper();
    let machine = Machine::new(Kernel::named(&options.kernel)?).connectx(connectx);
    let machine = machine.with_binary(tool, "uverbs");
    Ok(machine
        .with_binary(rough::writer()?, rough::WRITER)
        .boot()?)
}

fn run_in(guest: &Guest, device: &str) -> anyhow::Result<Run> {
    let run = once::run(guest, device)?;
    println!("uverbs selftest on {device} ... ok{}", run.counts());
    Ok(run)
}
