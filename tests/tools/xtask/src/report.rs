//! `cargo xtask report`: what the file of `uverbs selftest --json` says, as a table, and what
//! models of the device can be made of.

use clap::Args;
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;
use testbed::host;

/// Print the report that uverbs selftest --json wrote, and write what it tells of the device to
/// files.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The report.
    file: PathBuf,
    /// Write the answers of the kernel, the device for the fake kernel and the capabilities of the
    /// firmware to this folder.
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Leave out the checks that went well.
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
