//! `cargo xtask cross`: tests that need no machine of their own, as programs of other
//! architectures, run by QEMU.

use crate::by_package::{Verdicts, chosen};
use crate::cargo::{THINNED, TIMED};
use clap::{Args, ValueEnum};
use std::process::{Command, ExitCode};
use testbed::host::{self, Tool};

/// The packages that are run: the stack, and the tests that run it on the fake kernel, on rings and
/// against hostile kernels.
const PACKAGES: [&str; 9] = [
    "uverbs-uapi",
    "uverbs-core",
    "uverbs-rxe",
    "uverbs-mlx5",
    "uverbs-any",
    "uverbs-fake",
    "uverbs",
    "fake-tests",
    "hostile-tests",
];

/// The core of them.
const SHARE: [&str; 4] = ["uverbs-core", "uverbs-rxe", "uverbs-mlx5", "hostile-tests"];

/// These tests read `/proc/self/maps` while they run. QEMU generates it from two tables that other
/// threads modify meanwhile, so that they run one at a time. With every case that takes hours.
const HOSTILE: &str = "hostile-tests";

/// Number of cases per property, unless its test sets another.
const CASES: &str = "32";

/// Tests that need features programs run by QEMU lack, by part of their names, and the missing
/// feature.
const LACKING: [(&str, &str); 3] = [
    (
        "threads_that_wait_for_nothing_sleep",
        "counts of how often a thread slept that leave out the emulator's own locks",
    ),
    (
        "discover::tests::forks::madvise_leaves_pages_out_of_children",
        "flags in /proc/self/smaps, which QEMU makes up without them",
    ),
    ("sys::map::tests::", "the same"),
];

/// The same for s390x: its processor accesses registers with special instructions, so nothing that
/// needs registers is opened there.
const WITHOUT_REGISTERS: [&str; 39] = [
    "a_completion_queue_is_resized_with_completions_in_it",
    "a_datagram_says_where_it_came_from",
    "a_message_that_is_too_long_for_its_receive_fails_on_both_sides",
    "a_resize_that_the_kernel_refuses_changes_nothing",
    "adapter::tests::a_reused_device_number_names_the_new_queue_pair",
    "adapter::tests::completion_queues_learn_of_pages_with_large_numbers",
    "adapter::tests::compressed_completions_are_polled_one_by_one",
    "adapter::tests::contexts_are_opened_without_firmware_commands_too",
    "adapter::tests::initiators_take_requests_of_their_streams_alone",
    "adapter::tests::some_tape_completes_a_request",
    "adapter::tests::the_kernel_chooses_doorbells",
    "after_a_resize_of_unknown_outcome_polling_is_refused",
    "batches_arrive_and_complete_in_their_order",
    "completions_are_the_same_however_they_are_taken",
    "context::clock::tests::a_page_that_is_always_being_written_is_busy",
    "context::clock::tests::pages_are_mapped_once_and_read_in_place",
    "context::tests::threads::",
    "cq::tests::creation::",
    "cq::tests::polling::",
    "cq::tests::resizing::",
    "devx::uar::tests::",
    "doorbell::pool::tests::queue_pairs_take_turns_and_the_second_writes_the_doorbell",
    "doorbell::supply::tests::",
    "every_operation_arrives_and_completes",
    "hw::mmio::tests::",
    "impossible_numbers_of_doorbells_are_refused",
    "memory::dm::tests::",
    "numbers_from_mlx5_cause_no_large_allocations",
    "panics_after_a_call_of_mlx5_frees_nothing_that_it_has",
    "qp::tests::",
    "queue_pairs_work_on_a_driver_without_methods",
    "raw::tests::",
    "records_and_registers_are_stored_to_by_all",
    "rings::tests::hooks::send_requests_are_reported_when_they_are_submitted",
    "sq::tests::",
    "unreported::",
    "values::",
    "var::tests::a_page_is_taken_mapped_and_given_back",
    "what_the_peer_refuses_fails_and_flushes_the_rest",
];

/// Run the tests that need no machine of their own as programs of other architectures, by QEMU:
/// with the opposite byte order, and with other instructions.
///
/// QEMU, the target of the toolchain and a linker are installed if they are missing. An x86
/// processor keeps memory accesses in an order that others may change, and so does QEMU on it: for
/// the effects of reordering use `cargo xtask loom` and `cargo xtask miri`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The architectures; all by default.
    #[arg(long, value_enum)]
    machine: Vec<Foreign>,
    /// Only these packages.
    #[arg(long, value_name = "NAME", value_parser = PACKAGES)]
    package: Vec<String>,
    /// Run fewer of many similar cases.
    #[arg(long)]
    thinned: bool,
    /// Run every case of the hostile tests, of which otherwise fewer are run: it takes hours.
    #[arg(long, conflicts_with = "thinned")]
    whole: bool,
    /// Run only tests whose names contain one of these texts.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

impl Options {
    /// The rings, the state shared by threads, and the stack on hostile kernels, on the
    /// architecture with weak memory ordering.
    pub(crate) fn share() -> Self {
        Self {
            machine: vec![Foreign::Aarch64],
            package: SHARE.map(str::to_owned).to_vec(),
            thinned: true,
            whole: false,
            filters: Vec::new(),
        }
    }
}

/// Another architecture.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Foreign {
    /// 64-bit, little-endian, weak memory ordering.
    Aarch64,
    /// 64-bit, big-endian; programs cannot access a device's registers by loads and stores.
    S390x,
    /// 64-bit, big-endian, with registers.
    Powerpc64,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let machines = match options.machine.as_slice() {
        [] => Foreign::value_variants(),
        chosen => chosen,
    };
    host::ensure(&[Tool::QemuUser])?;
    let mut verdicts = Verdicts::default();
    for &machine in machines {
        host::ensure(machine.tools())?;
        for (test, why) in machine.lacking() {
            println!("left out as {}: {test} ({why})", machine.name());
        }
        for package in chosen(&PACKAGES, &options.package) {
            let name = format!("{} {package}", machine.name());
            host::say(format_args!("runs {package} as {}", machine.name()));
            verdicts.run(name, &mut emulated(machine, package, options));
        }
    }
    verdicts.end("tests failed on other machines")
}

fn emulated(machine: Foreign, package: &str, options: &Options) -> Command {
    let target = machine.target();
    let mut command = testbed::cargo::command();
    command
        .args(["test", "--no-fail-fast", "--lib", "--bins", "--tests"])
        .args(["--all-features", "--target", target, "--package", package])
        .arg("--")
        .args(&options.filters)
        .args(machine.lacking().flat_map(|(test, _)| ["--skip", test]));
    if package == HOSTILE {
        command.args(["--test-threads", "1"]);
    }
    let name = target.replace('-', "_").to_uppercase();
    command
        .env(format!("CARGO_TARGET_{name}_LINKER"), machine.linker())
        .env(format!("CARGO_TARGET_{name}_RUNNER"), machine.runner());
    if options.thinned || package == HOSTILE && !options.whole {
        command.env(THINNED, "1").env("PROPTEST_CASES", CASES);
    }
    command
}

impl Foreign {
    /// QEMU's name for it.
    fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64",
            Self::S390x => "s390x",
            Self::Powerpc64 => "ppc64",
        }
    }

    /// Tests that it cannot run, by part of their names, and why.
    fn lacking(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let registers = if self == Self::S390x {
            &WITHOUT_REGISTERS[..]
        } else {
            &[]
        };
        let why = "a device's registers, which programs of s390x do not reach";
        let timed = "times that do not include translating the program";
        LACKING
            .into_iter()
            .chain(TIMED.map(|test| (test, timed)))
            .chain(registers.iter().map(move |test| (*test, why)))
    }

    /// Where Rust supports musl for an architecture, the toolchain links by itself, and the
    /// programs need nothing else.
    fn target(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64-unknown-linux-musl",
            Self::S390x => "s390x-unknown-linux-gnu",
            Self::Powerpc64 => "powerpc64-unknown-linux-gnu",
        }
    }

    fn linker(self) -> &'static str {
        match self {
            Self::Aarch64 => "rust-lld",
            Self::S390x => "s390x-linux-gnu-gcc",
            Self::Powerpc64 => "powerpc64-linux-gnu-gcc",
        }
    }

    /// The command that runs its programs. Programs linked with glibc find their loader and
    /// libraries where Debian's cross packages install them.
    fn runner(self) -> &'static str {
        match self {
            Self::Aarch64 => "qemu-aarch64",
            Self::S390x => "qemu-s390x -L /usr/s390x-linux-gnu",
            Self::Powerpc64 => "qemu-ppc64 -L /usr/powerpc64-linux-gnu",
        }
    }

    fn tools(self) -> &'static [Tool] {
        match self {
            Self::Aarch64 => &[Tool::RustTarget("aarch64-unknown-linux-musl")],
            Self::S390x => &[
                Tool::RustTarget("s390x-unknown-linux-gnu"),
                Tool::S390xLinker,
            ],
            Self::Powerpc64 => &[
                Tool::RustTarget("powerpc64-unknown-linux-gnu"),
                Tool::Powerpc64Linker,
            ],
        }
    }
}
