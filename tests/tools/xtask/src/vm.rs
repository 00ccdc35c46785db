//! `cargo xtask vm`: a machine for interactive use.

use crate::terminal::{self, Raw};
use anyhow::{Context as _, bail};
use clap::Args;
use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use testbed::connectx::NO_REPORTS;
use testbed::{
    Command, Connectx, Ending, Function, Guest, Kernel, Machine, Topology, complaints, host,
};

/// Boot a machine with rxe devices, or with software ConnectX functions, and run a command or a
/// shell in it.
#[derive(Args, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct Options {
    /// Kernel: 5.10, 6.1, 6.12 or newest.
    #[arg(long, default_value = "6.12")]
    kernel: String,
    /// Two hosts, a and b, with rxe_a and rxe_b, instead of one with rxe0.
    #[arg(long)]
    two_hosts: bool,
    /// No network and no rxe device.
    #[arg(long, conflicts_with = "two_hosts")]
    bare: bool,
    /// Software ConnectX functions instead of rxe devices, such as ib,ib or roce,roce: mlx5_0,
    /// mlx5_1, …
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', conflicts_with_all = ["two_hosts", "bare"])]
    connectx: Vec<Function>,
    /// Have the model write every command, work request, completion and event to this file.
    #[arg(long, value_name = "FILE", requires = "connectx")]
    trace: Option<PathBuf>,
    /// Let rate limits, bandwidth caps and shares take effect in the model.
    #[arg(long, requires = "connectx")]
    shaper: bool,
    /// Let the model accept work requests that are copied with the doorbell.
    #[arg(long, requires = "connectx")]
    blueflame: bool,
    /// Let pages of registered memory be absent in the model until they are needed (on-demand
    /// paging).
    #[arg(long, requires = "connectx")]
    odp: bool,
    /// Give the model's InfiniBand functions a subnet manager with an administrator, and the guest
    /// IP over InfiniBand (ib0, ib1, …).
    #[arg(long, requires = "connectx")]
    subnet_administrator: bool,
    /// End the model at the first thing that a correct driver would not do.
    #[arg(long, requires = "connectx")]
    strict: bool,
    /// Install Debian's programs: ibv_*, perftest, ip, rdma, strace, busybox.
    #[arg(long)]
    debian: bool,
    /// Take Debian's programs from this suite (bookworm, trixie, sid).
    #[arg(long, value_name = "SUITE", requires = "debian")]
    suite: Option<String>,
    /// Install another Debian package.
    #[arg(long, value_name = "PACKAGE", requires = "debian")]
    package: Vec<String>,
    /// Copy a static program of this machine into the guest, which finds it by its file name.
    #[arg(long, value_name = "FILE")]
    binary: Vec<PathBuf>,
    /// Host to run the command on: a or b.
    #[arg(long, short, value_name = "HOST", requires = "two_hosts")]
    namespace: Option<String>,
    /// User id to run the command as.
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
    /// Resource limit of the command, such as memlock=65536.
    #[arg(long, value_name = "NAME=VALUE")]
    limit: Vec<String>,
    /// Kill the command after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Memory in MiB.
    #[arg(long, default_value_t = 2048)]
    memory: u32,
    /// Show the kernel log at the end.
    #[arg(long)]
    log: bool,
    /// The command and its arguments; a shell by default (with Debian's programs).
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Exit code if the command did not end by itself.
const NOT_ENDED: u8 = 124;

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let guest = machine(options)?.boot()?;
    host::say(format_args!(
        "booted {} in {:.1} s",
        guest.release(),
        guest.boot_time().as_secs_f64()
    ));
    let guest = Arc::new(guest);
    let code = converse(&guest, options)?;
    let right = options.connectx.is_empty() || is_silent(&guest);
    if options.log {
        for line in guest.kernel_log() {
            eprintln!(
                "[{:>10.6}] {}",
                Duration::from_micros(line.time_us).as_secs_f64(),
                line.text
            );
        }
    }
    if let Some(guest) = Arc::into_inner(guest) {
        guest.power_off()?;
    }
    Ok(if right { code } else { ExitCode::FAILURE })
}

/// Whether neither the kernel nor the model complained; prints their complaints.
fn is_silent(guest: &Guest) -> bool {
    let log = guest.kernel_log();
    let complaints = complaints::among(&log);
    for line in &complaints {
        eprintln!("the kernel complains: {}", line.text);
    }
    let said = match guest
        .connectx()
        .and_then(|connectx| connectx.ask("reports"))
    {
        Ok(reports) if reports == NO_REPORTS => String::new(),
        Ok(reports) => format!("the software ConnectX reports: {reports}"),
        Err(error) => error.to_string(),
    };
    if !said.is_empty() {
        eprintln!("{said}");
    }
    complaints.is_empty() && said.is_empty()
}

fn machine(options: &Options) -> anyhow::Result<Machine> {
    let topology = match (options.bare, options.two_hosts) {
        (true, _) => Topology::Bare,
        (false, true) => Topology::TwoHosts,
        (false, false) => Topology::OneHost,
    };
    let mut machine = Machine::new(Kernel::named(&options.kernel)?)
        .topology(topology)
        .memory_mib(options.memory);
    if !options.connectx.is_empty() {
        let mut connectx = Connectx::new(&options.connectx);
        if options.strict {
            connectx = connectx.strict();
        }
        if options.shaper {
            connectx = connectx.shaper();
        }
        if options.blueflame {
            connectx = connectx.blueflame();
        }
        if options.odp {
            connectx = connectx.on_demand_paging();
        }
        if options.subnet_administrator {
            connectx = connectx.subnet_administrator();
        }
        if let Some(trace) = &options.trace {
            connectx = connectx.trace(trace);
        }
        machine = machine.connectx(connectx);
    }
    if options.debian || options.command.is_empty() {
        let packages: Vec<_> = options.package.iter().map(String::as_str).collect();
        machine = machine.with_debian_tools().with_debian_packages(&packages);
        if let Some(suite) = &options.suite {
            machine = machine.debian_suite(suite);
        }
    }
    for path in &options.binary {
        let name = path
            .file_name()
            .with_context(|| format!("{} is no file", path.display()))?;
        machine = machine.with_binary(path, &name.to_string_lossy());
    }
    Ok(machine)
}

fn converse(guest: &Guest, options: &Options) -> anyhow::Result<ExitCode> {
    let mut command = match options.command.split_first() {
        Some((program, args)) => Command::new(program).args(args),
        None => Command::new("/bin/sh").arg("-i").env("PS1", "guest# "),
    };
    command = match options.timeout {
        Some(seconds) => command.timeout(Duration::from_secs(seconds)),
        None => command.no_timeout(),
    };
    if let Some(namespace) = &options.namespace {
        command = command.namespace(namespace);
    }
    if let Some(user) = options.user {
        command = command.user(user);
    }
    for limit in &options.limit {
        let Some((name, value)) = limit.split_once('=') else {
            bail!("--limit takes NAME=VALUE, not {limit}")
        };
        command = command.limit(
            name,
            value.parse().with_context(|| format!("--limit {limit}"))?,
        );
    }
    let by_hand = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let output = if by_hand {
        let raw = Raw::new()?;
        let child = Arc::new(guest.spawn(command.with_terminal(terminal::size()).echo())?);
        pass_input(&child);
        let output = child.wait_shared();
        drop(raw);
        output?
    } else {
        let child = Arc::new(guest.spawn(command.with_input().echo())?);
        pass_input(&child);
        child.wait_shared()?
    };
    if !matches!(output.ending, Ending::Code(_)) {
        eprintln!("{}: {}", output.command, output.ending_text());
    }
    Ok(ExitCode::from(
        output
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(NOT_ENDED),
    ))
}

/// Passes typed input to the command, until it ends.
fn pass_input(child: &Arc<testbed::Child>) {
    let child = Arc::clone(child);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        loop {
            match std::io::stdin().read(&mut buffer) {
                Ok(length) if length > 0 => {
                    let Some(data) = buffer.get(..length) else {
                        return;
                    };
                    if child.write(data).is_err() {
                        return;
                    }
                }
                _ => {
                    let _ = child.close_input();
                    return;
                }
            }
        }
    });
}
