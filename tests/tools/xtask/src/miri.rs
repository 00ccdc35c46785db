//! `cargo xtask miri`: tests that make no system call, in the interpreter that detects undefined
//! behaviour.

use crate::by_package::{Selection, Verdicts};
use crate::cargo::C_CALLERS;
use crate::cargo::TIMED;
use clap::Args;
use std::process::{Command, ExitCode};
use testbed::cargo::{command_of, workspace};
use testbed::host::{self, NIGHTLY, Tool};

/// Files and the clock are real: tests read seeds, and wait. Addresses are passed to a kernel as
/// numbers, which is not a finding. Memory of objects whose destruction is refused is leaked on
/// purpose, and counted (`UverbsFile::leaked`), so memory left at the end is not a finding, either.
const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-ignore-leaks";

/// For the first pass, over everything: loads return the newest values. A single thread sees no
/// others, and the interpreter's bookkeeping for them makes it ten times as slow.
const NEWEST: &str = "-Zmiri-disable-weak-memory-emulation";

/// State shared by threads, for the second pass, in which loads may return any value that the
/// memory model permits: a package, its tests by arguments for cargo and for the tests, and seeds,
/// each of which gives another order with other values.
const SHARING: [(&str, &[&str], &str); 2] = [
    (
        "uverbs-mlx5",
        &[
            "--lib",
            "--",
            "models::",
            "table::",
            "tracker::",
            "poll::tests::a_device_that_never_stops",
        ],
        "0..8",
    ),
    (
        "fake-tests",
        &["--test", "shared_memory", "--test", "threads", "--"],
        "0..2",
    ),
];

/// Number of cases per property, unless its test sets another: the interpreter is some hundred
/// times slower.
const CASES: &str = "4";

/// Tests that need something the interpreter lacks, by part of their names, and what that is.
const LACKING: [(&str, &str); 27] = [
    ("discover::tests::sources::", "stat(2) of device nodes"),
    ("discover::tests::reports::", "stat(2) of device nodes"),
    (
        "cm::tests::f16_a_node_that_is_missing_or_another_device_is_not_opened",
        "open(2) of device nodes",
    ),
    (
        "discover::tests::forks::madvise_leaves_pages_out_of_children",
        "/proc/self/smaps reports real memory",
    ),
    (
        "sys::map::tests::children_have_neither_of_two_mappings",
        "the same",
    ),
    (
        "sys::map::tests::words_and_halves_are_loaded_where_they_are_aligned_and_inside",
        "mappings of files",
    ),
    (
        "sys::map::tests::memory_that_another_value_mapped_stays_with_children",
        "mappings of files",
    ),
    ("sys::shared_memory::tests::", "memfd_create(2)"),
    (
        "cmd::tests::files::a_descriptor_is_readable_once_something_was_written",
        "poll(2) that reports a hangup without input",
    ),
    (
        "sys::descriptor::tests::a_descriptor_is_closed_when_it_is_dropped",
        "the same",
    ),
    (
        "sys::wait::tests::a_descriptor_with_something_to_read_is_told",
        "the same",
    ),
    (
        "sys::device::tests::a_refusal_names_the_number_and_what_was_expected",
        "fstat(2) of device nodes",
    ),
    (
        "sys::device::tests::files_that_accept_any_write_are_refused",
        "fstat(2) of device nodes",
    ),
    (
        "sys::device::tests::a_user_defined_device_gets_no_queries",
        "fstat(2) of device nodes",
    ),
    ("sys::open::tests::", "fstat(2) of device nodes"),
    (
        "sys::cm::tests::a_command_that_is_taken_in_part_is_an_error",
        "pipes whose size can be set",
    ),
    (
        "sys::random::tests::the_seed_of_the_process_stays_the_same",
        "an auxiliary vector",
    ),
    ("sys::recvmmsg::tests::", "sockets of netlink"),
    (
        "rows_are_in_order_and_their_tests_exist",
        "time to read all sources",
    ),
    (
        "the_guide_has_these_tables",
        "time for the heart of the verbs on every kernel",
    ),
    ("_of::sysfs_devices", "stat(2) of device nodes"),
    (
        "a_descriptor_that_was_made_nonblocking_does_not_block",
        "fcntl(2) that changes how a file is read",
    ),
    (
        "hubs::what_arrives_although_the_peer_has_left_has_arrived",
        "time to answer within the 250 ms that a hub waits for a peer that has left",
    ),
    (
        "drops::a_drop_does_not_wait_for_the_kernel",
        "time to drop four connections within 100 ms",
    ),
    (
        "an_event_is_waited_for_no_longer_than_asked",
        "fcntl(2) that changes how a file is read",
    ),
    (
        "a_file_that_only_looks_readable_blocks_no_reader",
        "fcntl(2) that changes how a file is read",
    ),
    (
        "wire::tests::refusals_nonsense_and_silence_are_errors",
        "the end of a TCP stream, which it waits for and does not see",
    ),
];

/// Run the tests that make no system call under Miri, which detects undefined behaviour: accesses
/// out of bounds, after free or unaligned, data races, invalid values, aliasing references. Then
/// run the tests of state shared by threads again, in several orders, where loads may return any
/// value that the memory model permits.
///
/// Miri and its nightly toolchain are installed if they are missing.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    selection: Selection,
}

impl Options {
    /// What is fast enough to run along with all the other checks: the smaller provider.
    pub(crate) fn share() -> Self {
        Self {
            selection: Selection::of(&["uverbs-rxe"]),
        }
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    host::ensure(&[Tool::Miri])?;
    for (test, why) in LACKING {
        println!("left out: {test} ({why})");
    }
    let selection = &options.selection;
    let mut verdicts = Verdicts::default();
    // Events of C programs are read from descriptors, which the fake kernel cannot withdraw there.
    for package in selection.packages().filter(|name| *name != C_CALLERS) {
        host::say(format_args!("interprets the tests of {package}"));
        verdicts.run(package, &mut interpreted(package, &selection.filters));
    }
    for (package, tests, seeds) in SHARING {
        // Filtered tests are interpreted once.
        if !selection.filters.is_empty() || !selection.packages().any(|name| name == package) {
            continue;
        }
        host::say(format_args!(
            "interprets what threads share in {package}, with old values"
        ));
        verdicts.run(
            format!("{package}, old values"),
            &mut with_old_values(package, tests, seeds),
        );
    }
    verdicts.end("Miri found something")
}

fn interpreted(package: &str, filters: &[String]) -> Command {
    let mut command = miri(package);
    command
        .args(["--lib", "--tests", "--"])
        .args(filters)
        .args(LACKING.iter().flat_map(|(test, _)| ["--skip", test]))
        .args(TIMED.iter().flat_map(|test| ["--skip", *test]))
        .args(["-Zunstable-options", "--report-time"])
        .env("MIRIFLAGS", format!("{FLAGS} {NEWEST}"));
    command
}

fn with_old_values(package: &str, tests: &[&str], seeds: &str) -> Command {
    let mut command = miri(package);
    command
        .args(tests)
        .env("MIRIFLAGS", format!("{FLAGS} -Zmiri-many-seeds={seeds}"));
    command
}

fn miri(package: &str) -> Command {
    let mut command = command_of(NIGHTLY);
    command
        .args(["miri", "test", "--no-fail-fast"])
        .args(["--package", package])
        .arg("--target-dir")
        .arg(workspace().join("target/miri"))
        .env("PROPTEST_CASES", CASES);
    command
}
