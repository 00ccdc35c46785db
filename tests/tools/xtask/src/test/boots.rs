//! Tests that boot machines of their own.

use super::{Level, Options, QUICK_KERNEL, require, some_kernels};
use anyhow::{Context as _, bail};
use std::io::{self, Read as _, Write as _};
use std::process::Stdio;
use testbed::{cargo, host};

/// Packages with such tests.
pub(super) const PACKAGES: [(&str, Level); 6] = [
    ("testbed", Level::Testbed),
    ("interop", Level::Interop),
    ("compat-tests", Level::Interop),
    ("recordings", Level::Interop),
    ("connectx", Level::Connectx),
    ("bytes-tests", Level::Connectx),
];

/// The environment variable of these tests: the kernel's name.
const KERNEL_VARIABLE: &str = "UVERBS_TEST_KERNEL";

/// The ping-pongs with Debian's programs that they run.
const QUICK_INTEROP: [&str; 7] = [
    "--exact",
    "reliable_connections",
    "between_connectx_functions_on_infiniband",
    "utilities_on_rxe",
    "nothing_of_debians_libraries_is_missing",
    "structs_are_those_of_the_headers",
    "synchronous_ids",
];

/// Tests of the level [`Interop`](Level::Interop) that `.ci/run` leaves out, by part of their
/// names: what differs from others in the device or in the program on the other end.
const UNSELECTED: [&str; 31] = [
    "dropped_connections_end_elsewhere",
    "a_service_is_found_by_its_name",
    "info_of_a_device_takes_as_few_system_calls",
    "on_ethernet_of_connectx",
    "multicast",
    "between_connectx_functions_on_ethernet",
    "unreliable_connections",
    "measuring_with_the_tool",
    "udaddy_as_client_and_as_server",
    "ucmatose_as_client_and_as_server",
    "mckey_as_sender_and_as_receiver",
    "a_subnet_administrator_that_does_not_answer",
    "a_thousand_connections_at_once",
    "ten_thousand_connections_one_after_the_other",
    "cmtime_as_client_and_as_server",
    "ucx_",
    "libfabric_and_fio_on_rxe",
    "qperf_measures",
    "one_library_of_each",
    "many_at_a_time",
    "utilities_on_connectx",
    "static_programs_on_rxe",
    "perftest_on_rxe",
    "perftest_on_connectx",
    "static_programs_on_connectx",
    "files",
    "preloaded",
    "dynamic_connections_on_connectx",
    "rust_crates_run_without_c_on_connectx",
    "async_rdma_runs",
    "programs_of_two_hosts_on_infiniband_connect_by_address",
];

/// Those of the level [`Connectx`](Level::Connectx) that it leaves out: the same on other kernels.
const UNSELECTED_OF_CONNECTX: [&str; 2] = ["on_6_1", "on_the_newest"];

/// Runs those of a level.
pub(super) fn run(
    level: Level,
    options: &Options,
    unsteady: &mut Vec<String>,
    filters: &[&str],
) -> anyhow::Result<()> {
    let packages = PACKAGES
        .iter()
        .filter(|(package, of)| *of == level && !(options.is_quick() && *package != "interop"));
    let mut failed = Vec::new();
    for (package, _) in packages {
        require(package)?;
        // The others choose their kernels themselves.
        let kernels = match *package {
            // What kernels differ in is below the library for C programs.
            "compat-tests" if options.kernel.is_empty() => vec![QUICK_KERNEL],
            "compat-tests" | "interop" => some_kernels(options),
            _ => vec!["all"],
        };
        let filters = if options.is_quick() && filters.is_empty() {
            &QUICK_INTEROP[..]
        } else {
            filters
        };
        let unselected: &[&str] = match level {
            Level::Interop if options.selected => &UNSELECTED,
            Level::Connectx if options.selected => &UNSELECTED_OF_CONNECTX,
            _ => &[],
        };
        let skipped = unselected.iter().flat_map(|test| ["--skip", *test]);
        let chosen: Vec<_> = skipped.chain(filters.iter().copied()).collect();
        for kernel in kernels {
            match until_they_pass(package, kernel, &chosen, options.tries) {
                Ok(names) => unsteady.extend(names),
                Err(error) => failed.push(format!("{package} ({kernel}): {error:#}")),
            }
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("{}", failed.join("; "))
    }
}

/// Runs tests of a package, and those that failed again, so often at most. Returns which passed
/// only then.
fn until_they_pass(
    package: &str,
    kernel: &str,
    chosen: &[&str],
    tries: usize,
) -> anyhow::Result<Vec<String>> {
    let mut unsteady = Vec::new();
    let mut failed = Vec::new();
    let mut runs = 0;
    loop {
        let exactly = failed.iter().map(String::as_str);
        let tests = match failed.len() {
            0 => chosen.to_vec(),
            _ => std::iter::once("--exact").chain(exactly).collect(),
        };
        let (passed, heard) = once(package, kernel, &tests)?;
        let ran = heard.passed + heard.failed;
        if passed && ran >= failed.len() {
            return Ok(unsteady);
        }
        runs += 1;
        // Without names, of a binary that ended early for example, everything is run again.
        let names = heard.names();
        let what = names.as_ref().map(|names| names.join(", "));
        let what = what.unwrap_or_else(|| package.to_owned());
        if runs >= tries {
            bail!("failed: {what}");
        }
        host::say(format_args!("runs once more: {what}"));
        if unsteady.is_empty() {
            unsteady = names.clone().unwrap_or_else(|| vec![package.to_owned()]);
        }
        failed = names.unwrap_or_default();
    }
}

/// Returns whether cargo succeeded, and what it said.
fn once(package: &str, kernel: &str, tests: &[&str]) -> anyhow::Result<(bool, Heard)> {
    let args = ["test", "--no-fail-fast", "--package", package];
    let how = ["--test", "*", "--", "--include-ignored", "--test-threads=1"];
    let args = [&args[..], &how, tests].concat();
    host::say(format_args!("runs cargo {}", args.join(" ")));
    let mut command = cargo::command();
    command.args(args).env(KERNEL_VARIABLE, kernel);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().context("cargo has no output")?;
    let mut heard = Heard::default();
    let mut part = [0; 4096];
    loop {
        let len = match output.read(&mut part) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        // Names are shown when their tests begin, which is before their lines end.
        let part = part.get(..len).unwrap_or(&part);
        io::stdout().write_all(part)?;
        io::stdout().flush()?;
        heard.hear(part);
    }
    Ok((child.wait()?.success(), heard))
}

/// What the test harness prints.
#[derive(Debug, Default)]
struct Heard {
    line: Vec<u8>,
    /// Tests that failed, as far as each has a line for itself.
    names: Vec<String>,
    /// How many binaries began and ended.
    begun: usize,
    ended: usize,
    /// How many tests passed and failed, by the last lines of their binaries.
    passed: usize,
    failed: usize,
}

impl Heard {
    fn hear(&mut self, part: &[u8]) {
        for byte in part {
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.hear_line(&String::from_utf8_lossy(&line));
            } else {
                self.line.push(*byte);
            }
        }
    }

    fn hear_line(&mut self, line: &str) {
        let of_test = line.strip_prefix("test ");
        if let Some((name, "FAILED")) = of_test.and_then(|test| test.split_once(" ... ")) {
            self.names.push(name.to_owned());
        }
        self.begun += usize::from(line.starts_with("running "));
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        self.ended += 1;
        // `ok. 2 passed; 0 failed; …`
        let words: Vec<_> = result.split([' ', ';']).collect();
        let before = |what| {
            let at = words.iter().position(|word| *word == what)?;
            words.get(at.checked_sub(1)?)?.parse().ok()
        };
        self.passed += before("passed").unwrap_or(0);
        self.failed += before("failed").unwrap_or(0);
    }

    /// The names of the tests that failed, if these are all that went wrong.
    fn names(self) -> Option<Vec<String>> {
        let is_all = self.begun == self.ended && self.failed == self.names.len();
        (is_all && self.failed > 0).then_some(self.names)
    }
}

#[cfg(test)]
mod tests {
    use super::Heard;

    fn heard(said: &str) -> Heard {
        let mut heard = Heard::default();
        for part in said.as_bytes().chunks(7) {
            heard.hear(part);
        }
        heard
    }

    const ONE: &str = "\nrunning 3 tests\ntest a ... ok\ntest b::c ... FAILED\n\nfailures:\n    b::c\n\
                       \ntest result: FAILED. 2 passed; 1 failed; 0 ignored\n";

    #[test]
    fn failed_tests_are_known_by_their_names() {
        let heard = heard(ONE);
        assert_eq!((heard.passed, heard.failed), (2, 1));
        assert_eq!(heard.names().unwrap(), ["b::c"]);
    }

    #[test]
    fn what_else_went_wrong_is_no_failure_of_these_alone() {
        let crashed = format!("{ONE}\nrunning 1 test\ntest e ... ");
        let unknown = format!(
            "{ONE}\nrunning 1 test\ntest e ... words\nFAILED\n\
                               test result: FAILED. 0 passed; 1 failed\n"
        );
        for said in [&crashed, &unknown, "error: could not compile\n"] {
            assert_eq!(heard(said).names(), None, "{said}");
        }
    }
}
