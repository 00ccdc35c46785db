//! `cargo xtask fetch`: what the machines need, downloaded before it is needed.

use clap::Args;
use std::process::ExitCode;
use testbed::{Kernel, host};

/// Download the kernels, so that machines boot without a network later.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Kernel: 5.10, 6.1, 6.12 or newest; all but 5.10 unless given.
    #[arg(long)]
    kernel: Vec<String>,
    /// Forget what was downloaded and take what Debian has now.
    #[arg(long)]
    refresh: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let kernels: Vec<Kernel> = if options.kernel.is_empty() {
        Kernel::usual().collect()
    } else {
        options
            .kernel
            .iter()
            .map(|name| Kernel::named(name))
            .collect::<Result<_, _>>()?
    };
    for kernel in kernels {
        if options.refresh {
            kernel.forget()?;
        }
        host::say(format_args!(
            "has Linux {} as {}",
            kernel.fetch()?,
            kernel.name()
        ));
    }
    Ok(ExitCode::SUCCESS)
}
