//! `cargo xtask fetch`: downloads what the machines need in advance.

use clap::Args;
use std::process::ExitCode;
use testbed::{Kernel, host};

/// Download the kernels, so that machines can boot without a network later.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Kernel: 5.10, 6.1, 6.12 or newest; by default all but 5.10.
    #[arg(long)]
    kernel: Vec<String>,
    /// Discard earlier downloads and fetch what Debian has now.
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
