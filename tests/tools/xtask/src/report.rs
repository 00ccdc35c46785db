//! `cargo xtask report`: the output file of `uverbs selftest --json` as a table, and as input for
//! models of the device.

use clap::Args;
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;
use testbed::host;

/// Print a report written by uverbs selftest --json, and write what it says about the device to
/// files.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The report.
    file: PathBuf,
    /// Write the kernel's answers, the device for the fake kernel and the firmware's capabilities
    /// to this folder.
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Omit the checks that succeeded.
    #[arg(long)]
    failed: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let report = Report::read(&options.file)?;
    print!("{}", report.table(options.failed));
    if let Some(folder) = &options.to {
        let names = report.write(folder)?;
        host::say(format_args!(
            "wrote {} to {}",
            names.join(", "),
            folder.display()
        ));
        if let Err(error) = report.device() {
            host::say(format_args!("made no device.txt: {error:#}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
