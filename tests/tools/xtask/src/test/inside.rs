//! Tests that run inside machines.

use super::{Options, Way, kernels, old_rxe, require};
use crate::coverage::record::{MARK, REPORT, RequestsByKernel};
use crate::coverage::seen::OF_PORTS;
use crate::lines::measure::{COUNTING, FILE, VARIABLE};
use anyhow::bail;
use std::time::Duration;
use testbed::cargo::Built;
use testbed::connectx::GUEST_SOCKET;
use testbed::suite::{Failure, Suite};
use testbed::{Function, Kernel, Machine, Processor, Topology};

/// Tests of what every device does, and of what devices of one driver do.
const ANY: &str = "verbs-tests";
const RXE: &str = "rxe-tests";
const MLX5: &str = "mlx5-tests";

/// All packages whose tests run inside machines.
pub(super) const PACKAGES: [&str; 3] = [ANY, RXE, MLX5];

/// The packages whose tests run on a device of each driver.
pub(crate) const OF_RXE: [&str; 2] = [ANY, RXE];
pub(crate) const OF_MLX5: [&str; 2] = [ANY, MLX5];

/// The rxe test binary that needs two hosts.
const OF_TWO_HOSTS: &str = "two_hosts";

/// Prefix of the rxe test binaries that choose the path to the kernel themselves where it matters:
/// unless a path is specified, one run of them on each kernel is enough.
const OWN_WAY: &str = "robust_";

/// Name prefixes of tests for only one kind of port, or for one driver. rxe has the Ethernet kind.
const IB_ALONE: &str = "ib_";
const ROCE_ALONE: &str = "roce_";
const RXE_ALONE: &str = "rxe_";
const MLX5_ALONE: &str = "mlx5_";

/// Of tests that begin with an IP address. On InfiniBand they need a machine with a subnet
/// administrator.
const BY_ADDRESS: &str = "by_address_";

/// The program that counts the kernel's objects.
const INVENTORY: &str = "count-objects";

/// The program that prints files, and the folder of the guest where tests count their lines.
const PRINTER: &str = "print-files";
const COUNTS: &str = "/root/counts";

/// Environment variables of the tests: the path to the kernel that they are to use, an mlx5
/// context's doorbells, the device, another one that it reaches, the control socket of the software
/// ConnectX, and the address of the device's interface.
const PATH_VARIABLE: &str = "UVERBS_TEST_PATH";
const DOORBELLS_VARIABLE: &str = "UVERBS_TEST_DOORBELLS";
const DEVICE_VARIABLE: &str = "UVERBS_TEST_DEVICE";
const PEER_VARIABLE: &str = "UVERBS_TEST_PEER";
const CONNECTX_VARIABLE: &str = "UVERBS_TEST_CONNECTX";
const ADDRESS_VARIABLE: &str = "UVERBS_TEST_ADDRESS";

/// The addresses of the first function's interface, by RoCE and by IP over InfiniBand.
const ROCE_ADDRESS: &str = "10.2.0.1";
const IB_ADDRESS: &str = "10.3.0.1";

/// How many times faster than configured the model's retry timers run.
const TIME_DIVISOR: u32 = 8;

/// The rxe test runs if neither kernel nor path is specified: every kernel, and every path on one
/// of them; and those that `.ci/run` selects.
const RXE_MATRIX: [(&str, Way); 6] = [
    ("6.1", Way::Auto),
    ("6.12", Way::Auto),
    ("newest", Way::Auto),
    ("6.12", Way::Ioctl),
    ("6.12", Way::InvokeWrite),
    ("6.12", Way::Write),
];
const RXE_SELECTED: [(&str, Way); 1] = [("6.12", Way::Write)];

/// The same for the mlx5 tests; the code of the paths to the kernel is the same for both drivers.
/// Of what is selected, each kernel is in one table.
const MLX5_MATRIX: [(&str, Way, Function); 4] = [
    ("6.1", Way::Auto, Function::Ib),
    ("6.12", Way::Auto, Function::Ib),
    ("newest", Way::Auto, Function::Ib),
    ("newest", Way::InvokeWrite, Function::Roce),
];
const MLX5_SELECTED: [(&str, Way, Function); 2] = [
    ("6.1", Way::Auto, Function::Ib),
    ("newest", Way::InvokeWrite, Function::Roce),
];

pub(crate) fn rxe(options: &Options, unsteady: &mut Vec<String>) -> anyhow::Result<()> {
    let processor = options.machine.processor();
    let packages: &[&str] = if options.is_quick() { &[ANY] } else { &OF_RXE };
    let (binaries, programs) = build_for(processor, packages, options.counts.is_some())?;
    let mut failed = Vec::new();
    let mut askings = RequestsByKernel::default();
    for (kernel, way) in combinations(options) {
        let machine = with_programs(
            Machine::new(Kernel::named(kernel)?.on(processor)),
            &programs,
        );
        let once = options.path.is_empty() && way != Way::Auto;
        let (two_hosts, one_host): (Vec<_>, Vec<_>) = binaries
            .iter()
            .filter(|binary| !once || !binary.name.starts_with(OWN_WAY))
            .partition(|binary| binary.name == OF_TWO_HOSTS);
        for (topology, binaries) in [
            (Topology::OneHost, one_host),
            (Topology::TwoHosts, two_hosts),
        ] {
            let Some(suite) = suite_of(binaries) else {
                continue;
            };
            let what = format!("kernel {kernel}, path {}, {topology:?}", way.name());
            println!("\n     Running the rxe tests ({what})");
            let suite = old_rxe::leave_out(with_options(suite, options, way), kernel);
            let summary = suite
                .leave_out(IB_ALONE)
                .leave_out(MLX5_ALONE)
                .run(&machine.clone().topology(topology))?;
            askings.hear(kernel, &summary.kept);
            unsteady.extend(names(&summary.unsteady, &what));
            if !summary.is_ok() {
                failed.push(format!("{what}: {} tests", summary.failures.len()));
            }
        }
    }
    report(&failed)?;
    askings.write("rxe", options.is_part())
}

pub(crate) fn mlx5(options: &Options, unsteady: &mut Vec<String>) -> anyhow::Result<()> {
    let packages: &[&str] = if options.is_quick() {
        &[MLX5]
    } else {
        &OF_MLX5
    };
    let (binaries, mut programs) = build(packages, options.counts.is_some())?;
    let mut by_port = OF_PORTS.map(|port| (port, RequestsByKernel::default()));
    if !programs.iter().any(|program| program.name == INVENTORY) {
        // Of a package whose tests are left out.
        let inventory = ["build", "--package", ANY, "--bin", INVENTORY];
        programs.extend(testbed::cargo::build(&inventory)?);
    }
    let mut failed = Vec::new();
    let mut askings = RequestsByKernel::default();
    for (kernel, way, function) in mlx5_combinations(options) {
        let what = format!(
            "kernel {kernel}, path {}, two {} functions",
            way.name(),
            function.name()
        );
        println!("\n     Running the mlx5 tests ({what})");
        let connectx = testbed::Connectx::new(&[function; 2])
            .blueflame()
            .copies()
            .signatures()
            .time_divisor(TIME_DIVISOR);
        // With on-demand paging the kernel registers memory by work requests, otherwise by
        // commands.
        let connectx = if function == Function::Ib {
            connectx.on_demand_paging()
        } else {
            connectx
        };
        let connectx = if options.strict {
            connectx.strict()
        } else {
            connectx
        };
        let Some(suite) = suite_of(&binaries) else {
            bail!("there are no mlx5 tests")
        };
        let suite = mlx5_suite(with_options(suite, options, way), options);
        let parts = match function {
            Function::Ib => vec![
                (suite.clone().leave_out(BY_ADDRESS), connectx.clone()),
                (
                    suite.only(BY_ADDRESS).env(ADDRESS_VARIABLE, IB_ADDRESS),
                    connectx.ip_over_infiniband(),
                ),
            ],
            _ => vec![(suite.env(ADDRESS_VARIABLE, ROCE_ADDRESS), connectx)],
        };
        let other_kind = if function == Function::Ib {
            ROCE_ALONE
        } else {
            IB_ALONE
        };
        for (suite, connectx) in parts {
            let machine = Machine::new(Kernel::named(kernel)?).connectx(connectx);
            let suite = suite.leave_out(other_kind);
            let summary = suite.run(&with_programs(machine, &programs))?;
            askings.hear(kernel, &summary.kept);
            for (port, askings) in &mut by_port {
                if *port == function.name() {
                    askings.hear_cm(kernel, &summary.kept);
                }
            }
            unsteady.extend(names(&summary.unsteady, &what));
            if !summary.is_ok() {
                failed.push(format!("{what}: {} tests", summary.failures.len()));
            }
        }
    }
    report(&failed)?;
    for (port, askings) in by_port {
        askings.write(port, options.is_part())?;
    }
    askings.write("mlx5", options.is_part())
}

fn mlx5_suite(suite: Suite, options: &Options) -> Suite {
    let doorbells = if options.fixed_doorbells {
        "fixed"
    } else {
        "as-needed"
    };
    suite
        .env(DOORBELLS_VARIABLE, doorbells)
        .leave_out(RXE_ALONE)
        .inventory(INVENTORY)
        .env(DEVICE_VARIABLE, "mlx5_0")
        .env(PEER_VARIABLE, "mlx5_1")
        .env(CONNECTX_VARIABLE, GUEST_SOCKET)
}

/// Builds the test binaries of packages, optionally instrumented to count their lines, and the
/// programs that their tests start.
pub(crate) fn build(packages: &[&str], counting: bool) -> anyhow::Result<(Vec<Built>, Vec<Built>)> {
    build_for(Processor::Amd64, packages, counting)
}

/// The same for machines with this processor.
fn build_for(
    processor: Processor,
    packages: &[&str],
    counting: bool,
) -> anyhow::Result<(Vec<Built>, Vec<Built>)> {
    let mut args = vec!["test", "--no-run"];
    if counting {
        args.extend(COUNTING);
    }
    for package in packages {
        require(package)?;
        args.extend(["--package", package]);
    }
    let built = testbed::cargo::build_for(processor, &args)?;
    Ok(built.into_iter().partition(|built| built.is_test))
}

/// All binaries in one suite, which runs on one machine.
fn suite_of<'b>(binaries: impl IntoIterator<Item = &'b Built>) -> Option<Suite> {
    let mut binaries = binaries.into_iter();
    let first = binaries.next()?;
    let suite = Suite::new(&first.name, &first.path);
    Some(binaries.fold(suite, |suite, binary| suite.and(&binary.name, &binary.path)))
}

fn with_programs(machine: Machine, programs: &[Built]) -> Machine {
    programs.iter().fold(machine, |machine, program| {
        machine.with_binary(&program.path, &program.name)
    })
}

fn with_options(suite: Suite, options: &Options, way: Way) -> Suite {
    let suite = if options.seen {
        suite.env(REPORT.0, REPORT.1).keep(MARK)
    } else {
        suite
    };
    let suite = match &options.counts {
        Some(folder) => suite
            .env(VARIABLE, format!("{COUNTS}/{FILE}"))
            .bring(PRINTER, COUNTS, folder),
        None => suite,
    };
    suite
        .filters(&options.filters)
        .env(PATH_VARIABLE, way.name())
        .timeout(Duration::from_secs(options.timeout))
        .tries(options.tries)
        .include_ignored(options.include_ignored)
}

fn names<'f>(failures: &'f [Failure], what: &'f str) -> impl Iterator<Item = String> + 'f {
    failures
        .iter()
        .map(move |failure| format!("{} ({what})", failure.test))
}

fn report(failed: &[String]) -> anyhow::Result<()> {
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("{}", failed.join("; "))
    }
}

/// The kernels and paths to run the rxe tests with.
fn combinations(options: &Options) -> Vec<(&str, Way)> {
    if !options.all && !options.is_quick() && options.kernel.is_empty() && options.path.is_empty() {
        return if options.selected {
            RXE_SELECTED.to_vec()
        } else {
            RXE_MATRIX.to_vec()
        };
    }
    let ways = match options.path.as_slice() {
        [] if options.all => &Way::ALL[..],
        [] => &[Way::Auto],
        chosen => chosen,
    };
    kernels(options)
        .into_iter()
        .flat_map(|kernel| ways.iter().map(move |way| (kernel, *way)))
        .collect()
}

/// The same for the mlx5 tests, with the kind of functions.
fn mlx5_combinations(options: &Options) -> Vec<(&str, Way, Function)> {
    let nothing =
        !options.all && !options.is_quick() && options.kernel.is_empty() && options.path.is_empty();
    if nothing && options.function.is_empty() {
        return if options.selected {
            MLX5_SELECTED.to_vec()
        } else {
            MLX5_MATRIX.to_vec()
        };
    }
    let functions = match options.function.as_slice() {
        [] if options.all => &[Function::Ib, Function::Roce][..],
        [] => &[Function::Ib],
        chosen => chosen,
    };
    let named = if nothing {
        kernels(options)
            .into_iter()
            .map(|kernel| (kernel, Way::Auto))
            .collect()
    } else {
        combinations(options)
    };
    named
        .into_iter()
        .flat_map(|(kernel, way)| functions.iter().map(move |kind| (kernel, way, *kind)))
        .collect()
}
