//! `cargo xtask pyverbs`: rdma-core's own test suite under the stock mlx5 drivers on the software
//! ConnectX.

mod device;
mod recording;
mod report;
mod table;

use crate::compat;
use anyhow::{Context as _, bail};
use clap::Args;
use device::Device;
use report::Report;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use table::{Row, Table};
use testbed::cargo::workspace;
use testbed::connectx::NO_REPORTS;
use testbed::{Command, Connectx, Function, Guest, Kernel, Machine, Packages, complaints, host};

/// The Debian suite whose rdma-core is used, on every kernel.
const SUITE: &str = "trixie";
/// Where that suite has the tests, and where they are in the guest.
const TESTS: &str = "usr/share/doc/rdma-core/tests";
const GUEST_TESTS: &str = "/opt/pyverbs/tests";
/// Packages that the tests require.
const PACKAGES: [&str; 4] = ["python3-pyverbs", "python3-scapy", "ethtool", "kmod"];
/// Where this project's libraries are in the guest.
const OURS: &str = "/opt/compat";
const MEMORY_MIB: u32 = 2048;
/// Number of 2 MiB pages that some tests require.
const HUGE_PAGES: u32 = 32;

/// Run rdma-core's own test suite, as shipped by Debian, in machines with software ConnectX
/// functions.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Kernel: 5.10, 6.1, 6.12 or newest.
    #[arg(long, default_value = "6.12")]
    kernel: Vec<String>,
    /// Kind of the machine's two devices: ib, roce or eth-raw (functions of the software ConnectX),
    /// or rxe.
    ///
    /// Default: ib and roce; rxe, ib and roce for a recording.
    #[arg(long)]
    function: Vec<Device>,
    /// Only these modules, such as test_qp.
    #[arg(long)]
    module: Vec<String>,
    /// Time limit of each module, in seconds: a module that exceeds it counts as hung.
    #[arg(long, value_name = "SECONDS", default_value_t = 150)]
    timeout: u64,
    /// How many tests must pass on each kernel, if no module is selected.
    ///
    /// Default: on 6.12 as many as over Debian's library, less those of `dr`, for each kind of
    /// device; on other kernels 110 for each kind of function.
    #[arg(long, value_name = "TESTS")]
    least: Option<u32>,
    /// Have the model write every command, work request, completion and event to this file.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Record every call on RDMA descriptors: all of them in target/pyverbs, the distinct ones in
    /// tests/recordings/goldens.
    #[arg(long)]
    record: bool,
    /// Run the suite over this project's libibverbs.so.1 instead of Debian's.
    #[arg(long, conflicts_with = "record")]
    ours: bool,
    /// Print the output of the modules.
    #[arg(long)]
    show: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let folder = Packages::new(SUITE, &PACKAGES[..1]).alone().folder()?;
    let tests = folder.join(TESTS);
    let modules = modules(&tests, &options.module)?;
    let mut right = true;
    for kernel in &options.kernel {
        let devices = devices(options);
        let usual = || devices.iter().map(|device| device.least(kernel)).sum();
        let least = options.least.unwrap_or_else(usual);
        let mut table = Table::new(kernel, &devices);
        for device in devices {
            let mut chosen = modules.clone();
            let recorded = device.recorded();
            if options.record && options.module.is_empty() && !recorded.is_empty() {
                chosen.retain(|module| recorded.contains(&module.as_str()));
            }
            on_device(options, kernel, device, &tests, &chosen, &mut table)?;
            if options.record {
                recording::reduce(device, kernel, SUITE)?;
            }
        }
        print!("{table}");
        let ok = table.ok();
        if options.module.is_empty() && !options.record && ok < least {
            println!("{ok} tests passed; it must be at least {least}");
            right = false;
        }
        right &= table.is_right();
    }
    Ok(if right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The modules that CI runs on rxe over this project's library, and how many of their tests pass at
/// least: as many as over Debian's, or more. `test_cq` has a test that gives rxe one second, which
/// it does not meet on a busy host.
const SHARE: [(&str, u32); 14] = [
    ("test_addr", 3),
    ("test_atomic", 7),
    ("test_cq_events", 2),
    ("test_cqex", 4),
    ("test_device", 14),
    ("test_fork", 1),
    ("test_mr", 12),
    ("test_parent_domain", 1),
    ("test_pd", 4),
    ("test_qp", 21),
    ("test_qpex", 20),
    ("test_rdmacm", 10),
    ("test_relaxed_ordering", 2),
    ("test_srq", 3),
];

/// Runs these modules, and those that do not pass once more.
pub(crate) fn check() -> anyhow::Result<()> {
    let kernel = "6.12";
    let options = Options {
        kernel: vec![kernel.to_owned()],
        function: vec![Device::Rxe],
        module: Vec::new(),
        timeout: 150,
        least: None,
        trace: None,
        record: false,
        ours: true,
        show: false,
    };
    let tests = Packages::new(SUITE, &PACKAGES[..1]).alone().folder()?;
    let tests = tests.join(TESTS);
    let mut left = SHARE.to_vec();
    for _ in 0..2 {
        let names: Vec<_> = left.iter().map(|(name, _)| (*name).to_owned()).collect();
        let chosen = modules(&tests, &names)?;
        let mut table = Table::new(kernel, &options.function);
        on_device(&options, kernel, Device::Rxe, &tests, &chosen, &mut table)?;
        left.retain(|(name, least)| !table.has_passed(name, *least));
        if left.is_empty() {
            return Ok(());
        }
        print!("{table}");
    }
    bail!("rdma-core's suite: {left:?}: so many tests must pass, and none fail")
}

fn devices(options: &Options) -> Vec<Device> {
    if !options.function.is_empty() {
        return options.function.clone();
    }
    let connectx = [Function::Ib, Function::Roce].map(Device::Connectx);
    let rxe = options.record.then_some(Device::Rxe);
    rxe.into_iter().chain(connectx).collect()
}

/// The names of the suite's modules, or of the requested ones.
fn modules(tests: &Path, chosen: &[String]) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(tests).with_context(|| tests.display().to_string())?;
    let mut all: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let name = name.strip_suffix(".gz").unwrap_or(&name);
            let name = name.strip_suffix(".py")?;
            name.starts_with("test_").then(|| name.to_owned())
        })
        .collect();
    all.sort();
    if let Some(unknown) = chosen.iter().find(|name| !all.contains(name)) {
        bail!("the test-suite has no module {unknown}");
    }
    if !chosen.is_empty() {
        all.retain(|name| chosen.contains(name));
    }
    Ok(all)
}

fn on_device(
    options: &Options,
    kernel: &str,
    device: Device,
    tests: &Path,
    modules: &[String],
    table: &mut Table,
) -> anyhow::Result<()> {
    let machine = machine(options, kernel, device, tests)?;
    let mut guest = None;
    for module in modules {
        let booted = match guest.take() {
            Some(booted) => booted,
            None => boot(options, &machine)?,
        };
        let row = one_module(options, &booted, device, module)?;
        host::say(format_args!("{kernel} {} {module}: {row}", device.name()));
        // A machine in which something hangs cannot be used for the next module.
        let usable = row.hang.is_none();
        table.add(device, module, row);
        if usable {
            guest = Some(booted);
        } else {
            close(booted, kernel, device, table)?;
        }
    }
    match guest {
        Some(guest) => close(guest, kernel, device, table),
        None => Ok(()),
    }
}

fn machine(
    options: &Options,
    kernel: &str,
    device: Device,
    tests: &Path,
) -> anyhow::Result<Machine> {
    let mut machine = Machine::new(Kernel::named(kernel)?);
    if let Device::Connectx(function) = device {
        let mut connectx = Connectx::new(&[function, function]).blueflame();
        if !options.record {
            connectx = connectx
                .on_demand_paging()
                .copies()
                .signatures()
                .encryption()
                .streams()
                .extended_memory();
        }
        if let Some(trace) = &options.trace {
            connectx = connectx.trace(trace);
        }
        machine = machine.connectx(connectx);
    }
    if options.record {
        machine = recording::machine(machine)?;
    }
    let mut machine = machine
        .memory_mib(MEMORY_MIB)
        .with_debian_tools()
        .with_debian_packages(&PACKAGES)
        .debian_suite(SUITE);
    if options.ours {
        for library in compat::build(&workspace().join("target/compat"))? {
            let name = library.file_name().unwrap_or_default().to_string_lossy();
            let path = format!("{OURS}/{name}");
            machine = machine.with_file(library, &path);
        }
    }
    for entry in fs::read_dir(tests).with_context(|| tests.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_file() {
            let path = format!("{GUEST_TESTS}/{}", name.to_string_lossy());
            machine = machine.with_file(entry.path(), &path);
        }
    }
    Ok(machine)
}

fn boot(options: &Options, machine: &Machine) -> anyhow::Result<Guest> {
    let guest = machine.boot()?;
    guest
        .run(Command::shell(format!(
            "gunzip {GUEST_TESTS}/*.gz && echo {HUGE_PAGES} > /proc/sys/vm/nr_hugepages"
        )))?
        .check()?;
    if options.record {
        recording::prepare(&guest)?;
    }
    Ok(guest)
}

fn one_module(
    options: &Options,
    guest: &Guest,
    device: Device,
    module: &str,
) -> anyhow::Result<Row> {
    let since = Instant::now();
    let recorder = match (options.record, options.ours) {
        (true, _) => recording::words(),
        (_, true) => format!("env LD_LIBRARY_PATH={OURS} "),
        _ => String::new(),
    };
    let line = format!(
        "exec {recorder}python3 {GUEST_TESTS}/run_tests.py --dev {} --port 1 -v {module} 2>&1",
        device.verbs_name()
    );
    let mut command = Command::shell(line).timeout(Duration::from_secs(options.timeout));
    if options.show {
        command = command.echo();
    }
    let output = guest.run(command)?;
    let report = Report::parse(&output.stdout_text());
    let complaints = complaints::among(&output.kernel);
    let ended = output.code().is_some() && report.is_complete();
    if options.record {
        recording::fetch(guest, device, module, ended)?;
    }
    // rdma-core 56's suite sometimes crashes when Python exits without having used a device.
    let late = !ended && report.is_complete() && report.ok() == 0 && report.failed() == 0;
    Ok(Row {
        hang: (!ended && !late).then(|| output.ending_text()),
        late_end: late.then(|| output.ending_text()),
        complaints: complaints
            .into_iter()
            .map(|line| line.text.clone())
            .collect(),
        report,
        elapsed: since.elapsed(),
    })
}

/// Queries the model's reports about the drivers, and ends the machine.
fn close(guest: Guest, kernel: &str, device: Device, table: &mut Table) -> anyhow::Result<()> {
    if device != Device::Rxe {
        let reports = guest.connectx().context("no model")?.ask("reports")?;
        if reports != NO_REPORTS {
            table.note(format!(
                "the model reports on {kernel} {}: {reports}",
                device.name()
            ));
        }
    }
    guest.power_off()?;
    Ok(())
}
