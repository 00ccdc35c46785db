//! Test binaries of the ordinary `#[test]` harness, run in a guest test by test.
//!
//! Each test is a process of its own with a time limit of its own. A test fails if its process
//! fails, if it exceeds its time limit, if the kernel complains meanwhile, if something is left
//! behind (see [`Suite::inventory`]), or if the machine dies; in the last case the next test gets a
//! new machine. It also does if a test announces on standard output that it used up the machine.
//!
//! Emulated machines on a busy host do not run at an even speed. [`Suite::tries`] retries a test
//! that failed on a machine of its own; a test that passes only then is reported as flaky, with the
//! cause of its failure.

mod harvest;
mod leftovers;
mod report;
mod running;

pub use report::{Failure, Summary};

use crate::{Command, Ending, Error, Guest, Machine, Output, complaints, host};
use harvest::Harvest;
use leftovers::Inventory;
use running::Running;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The default time limit of a test. Emulated processors are slow.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Prefix of lines with measured values, which are printed although the test passed.
const FIGURE: &str = "FIGURE: ";

/// Test binaries and how to run them.
#[derive(Clone, Debug)]
pub struct Suite {
    binaries: Vec<(String, PathBuf)>,
    filters: Vec<String>,
    left_out: Vec<String>,
    only: Option<String>,
    inventory: Option<String>,
    env: Vec<(String, String)>,
    timeout: Duration,
    include_ignored: bool,
    keep: Option<String>,
    harvest: Option<Harvest>,
    tries: usize,
}

/// From this many failures on they are not due to chance, and none is retried.
const TOO_MANY: usize = 4;

/// The harness's result of a test that was run alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    Passed,
    Ignored,
    Failed,
}

impl Suite {
    /// A static test binary of the host, by the name under which it is reported.
    pub fn new(name: impl Into<String>, binary: impl Into<PathBuf>) -> Self {
        Self {
            binaries: vec![(name.into(), binary.into())],
            filters: Vec::new(),
            left_out: Vec::new(),
            only: None,
            inventory: None,
            env: Vec::new(),
            timeout: TIMEOUT,
            include_ignored: false,
            keep: None,
            harvest: None,
            tries: 1,
        }
    }

    /// Adds a binary to run on the same machine.
    #[must_use]
    pub fn and(mut self, name: impl Into<String>, binary: impl Into<PathBuf>) -> Self {
        self.binaries.push((name.into(), binary.into()));
        self
    }

    /// Skips tests whose own names (after those of their modules) begin like this.
    #[must_use]
    pub fn leave_out(mut self, prefix: &str) -> Self {
        self.left_out.push(prefix.to_owned());
        self
    }

    /// Runs only tests whose own names begin like this.
    #[must_use]
    pub fn only(mut self, prefix: &str) -> Self {
        self.only = Some(prefix.to_owned());
        self
    }

    /// After every test, the output of this guest program has to be what it was before, and
    /// likewise what the software ConnectX counts and reports: a test that leaves something behind
    /// has failed. The program is also run once on every new machine, with `--warm-up`, so that
    /// drivers create what they create at first use and keep.
    #[must_use]
    pub fn inventory(mut self, program: &str) -> Self {
        self.inventory = Some(program.to_owned());
        self
    }

    /// Runs only tests whose names contain one of these texts.
    #[must_use]
    pub fn filters(mut self, filters: &[String]) -> Self {
        self.filters.extend_from_slice(filters);
        self
    }

    /// Sets an environment variable for every test.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Time limit of each test (120 s by default).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Also runs tests marked `#[ignore]`.
    #[must_use]
    pub fn include_ignored(mut self, include: bool) -> Self {
        self.include_ignored = include;
        self
    }

    /// How many times a test may be run until it passes (once by default). From the second time on
    /// it gets a new machine.
    #[must_use]
    pub fn tries(mut self, tries: usize) -> Self {
        self.tries = tries;
        self
    }

    /// Keeps the lines of the tests' standard output that contain this text, in [`Summary::kept`].
    #[must_use]
    pub fn keep(mut self, text: &str) -> Self {
        self.keep = Some(text.to_owned());
        self
    }

    /// Before a machine is stopped, copies the files of a guest folder to a folder here, without
    /// replacing any of the same name. They are read by a guest program that prints a file, or the
    /// names of the files in a folder.
    #[must_use]
    pub fn bring(mut self, program: &str, guest: &str, here: impl Into<PathBuf>) -> Self {
        self.harvest = Some(Harvest::new(program, guest, here));
        self
    }

    /// Runs the tests on a machine of this kind, printing each result on standard output as it
    /// comes, and the closing lines at the end.
    ///
    /// # Errors
    /// The machine does not boot, or the binary does not list its tests. A failed test is not an
    /// error.
    pub fn run(&self, machine: &Machine) -> Result<Summary, Error> {
        let machine = self
            .binaries
            .iter()
            .fold(machine.clone(), |machine, (name, path)| {
                machine.with_binary(path, name)
            });
        let since = Instant::now();
        let mut running = None;
        let mut summary = Summary::default();
        for (binary, _) in &self.binaries {
            let ready = self.running_or_booted(running.take(), &machine)?;
            let tests = self.list(&ready.guest, binary)?;
            running = Some(ready);
            let wanted: Vec<_> = tests.iter().filter(|test| self.is_wanted(test)).collect();
            summary.filtered_out += tests.len() - wanted.len();
            println!("\nrunning {} tests of {binary}", wanted.len());
            for test in wanted {
                let ready = self.running_or_booted(running.take(), &machine)?;
                let (alive, failure) = self.run_one(ready, binary, test, &mut summary);
                running = alive;
                summary.failures.extend(failure);
            }
        }
        if let Some(running) = running {
            self.part_with(running.guest)?;
        }
        for _ in 1..self.tries {
            if summary.failures.len() < TOO_MANY {
                self.try_again(&machine, &mut summary)?;
            }
        }
        summary.elapsed = since.elapsed();
        summary.print();
        Ok(summary)
    }

    /// Runs the failed tests again, each on a machine of its own.
    fn try_again(&self, machine: &Machine, summary: &mut Summary) -> Result<(), Error> {
        for failure in std::mem::take(&mut summary.failures) {
            println!("\nonce more, on a new machine:");
            let new = self.boot(machine)?;
            let (alive, again) = self.run_one(new, &failure.binary, &failure.test, summary);
            if let Some(running) = alive {
                self.part_with(running.guest)?;
            }
            match again {
                Some(again) => summary.failures.push(again),
                None => summary.unsteady.push(failure),
            }
        }
        Ok(())
    }

    fn running_or_booted(
        &self,
        running: Option<Running>,
        machine: &Machine,
    ) -> Result<Running, Error> {
        running.map_or_else(|| self.boot(machine), Ok)
    }

    /// Boots it, again if that fails: drivers try out some of what their device can within a time
    /// limit (write combining, for one), which a busy host may not meet.
    fn boot(&self, machine: &Machine) -> Result<Running, Error> {
        for _ in 1..self.tries {
            match self.boot_once(machine) {
                Ok(guest) => return Ok(guest),
                Err(error) => host::say(format_args!("boots a machine once more: {error}")),
            }
        }
        self.boot_once(machine)
    }

    fn boot_once(&self, machine: &Machine) -> Result<Running, Error> {
        let guest = machine.boot()?;
        let names: Vec<_> = self
            .binaries
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        host::say(format_args!(
            "runs {} on {}, booted in {:.1} s",
            names.join(", "),
            guest.release(),
            guest.boot_time().as_secs_f64()
        ));
        if let Some(program) = &self.inventory {
            guest.run(Command::new(program).arg("--warm-up"))?.check()?;
        }
        let log = guest.kernel_log();
        if let Some(line) = complaints::among(&log).first() {
            return Err(Error::packages(
                "the kernel complained while it booted",
                &line.text,
            ));
        }
        let program = self.inventory.as_deref();
        let inventory = program
            .map(|program| Inventory::take(&guest, program))
            .transpose()?;
        Ok(Running { guest, inventory })
    }

    fn part_with(&self, guest: Guest) -> Result<(), Error> {
        self.harvest_from(&guest);
        guest.power_off()
    }

    /// Files that cannot be copied are not a failure of the tests.
    fn harvest_from(&self, guest: &Guest) {
        if let Some(harvest) = &self.harvest
            && let Err(error) = harvest.bring(guest)
        {
            host::say(format_args!("could not copy files back: {error}"));
        }
    }

    fn list(&self, guest: &Guest, binary: &str) -> Result<Vec<String>, Error> {
        let listing = guest
            .run(self.command(binary).args(["--list", "--format", "terse"]))?
            .check()?;
        let text = listing.stdout_text();
        Ok(text
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect())
    }

    fn is_wanted(&self, test: &str) -> bool {
        let own = test.rsplit("::").next().unwrap_or(test);
        let selected = self.filters.is_empty()
            || self
                .filters
                .iter()
                .any(|filter| test.contains(filter.as_str()));
        selected
            && self
                .only
                .as_ref()
                .is_none_or(|prefix| own.starts_with(prefix))
            && !self.left_out.iter().any(|prefix| own.starts_with(prefix))
    }

    fn command(&self, binary: &str) -> Command {
        let command = Command::new(format!("/usr/local/bin/{binary}")).timeout(self.timeout);
        self.env
            .iter()
            .fold(command, |command, (name, value)| command.env(name, value))
    }

    /// Runs a test; returns the machine if it survived and is still usable.
    fn run_one(
        &self,
        mut running: Running,
        binary: &str,
        test: &str,
        summary: &mut Summary,
    ) -> (Option<Running>, Option<Failure>) {
        let mut command =
            self.command(binary)
                .args(["--exact", test, "--nocapture", "--test-threads", "1"]);
        if self.include_ignored {
            command = command.arg("--include-ignored");
        }
        let ran = running.run(command).inspect(|(output, ..)| {
            if let Some(text) = &self.keep {
                summary.keep(text, output);
            }
        });
        let (output, leftovers, used_up) = match ran {
            Ok(ran) => ran,
            Err(error) => {
                let failure = Failure {
                    binary: binary.into(),
                    test: test.into(),
                    why: error.to_string(),
                    output: String::new(),
                };
                println!("test {test} ... FAILED (the machine died)\n{failure}");
                return (None, Some(failure));
            }
        };
        let seconds = output.elapsed.as_secs_f64();
        let wrong = complaints::without_excuse(&output);
        let failure = match verdict(&output) {
            Verdict::Ignored => {
                println!("test {test} ... ignored");
                summary.ignored += 1;
                None
            }
            Verdict::Passed if wrong.is_empty() && leftovers.is_empty() => {
                println!("test {test} ... ok ({seconds:.2} s)");
                for figure in figures(&output) {
                    println!("    {figure}");
                }
                summary.passed += 1;
                None
            }
            verdict => {
                let why = match verdict {
                    Verdict::Failed => output.ending_text(),
                    _ if wrong.is_empty() => leftovers.join("\n"),
                    _ => "the kernel complained".into(),
                };
                let failure = Failure {
                    binary: binary.into(),
                    test: test.into(),
                    why,
                    output: report::words(&output),
                };
                println!("test {test} ... FAILED ({seconds:.2} s)\n{failure}");
                Some(failure)
            }
        };
        if used_up {
            self.harvest_from(&running.guest);
            return (None, failure);
        }
        (Some(running), failure)
    }
}

/// The values that a test measured.
fn figures(output: &Output) -> Vec<String> {
    let text = output.stdout_text();
    text.lines()
        .filter_map(|line| line.split_once(FIGURE))
        .map(|(_, figure)| figure.to_owned())
        .collect()
}

/// The result of a test: the exit code says whether it failed, the harness's closing line whether
/// it ran at all.
fn verdict(output: &Output) -> Verdict {
    if output.ending != Ending::Code(0) {
        return Verdict::Failed;
    }
    let text = output.stdout_text();
    let closing = text
        .lines()
        .rev()
        .find(|line| line.starts_with("test result: ok."));
    match closing {
        Some(line) if line.contains(" 1 passed;") => Verdict::Passed,
        Some(line) if line.contains(" 1 ignored;") => Verdict::Ignored,
        _ => Verdict::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::{Verdict, verdict};
    use crate::Output;
    use guest_init::Ending;
    use std::time::Duration;

    fn output(ending: Ending, stdout: &str) -> Output {
        Output {
            command: String::new(),
            ending,
            stdout: stdout.into(),
            stderr: Vec::new(),
            elapsed: Duration::ZERO,
            kernel: Vec::new(),
        }
    }

    #[test]
    fn only_a_test_that_ran_has_passed() {
        let closing = |passed, ignored| {
            format!(
                "test result: ok. {passed} passed; 0 failed; {ignored} ignored; 0 measured; 7 filtered out\n"
            )
        };
        assert_eq!(
            verdict(&output(Ending::Code(0), &closing(1, 0))),
            Verdict::Passed
        );
        assert_eq!(
            verdict(&output(Ending::Code(0), &closing(0, 1))),
            Verdict::Ignored
        );
        assert_eq!(
            verdict(&output(Ending::Code(0), &closing(0, 0))),
            Verdict::Failed
        );
        assert_eq!(
            verdict(&output(Ending::Code(0), "")),
            Verdict::Failed,
            "it left before the harness closed"
        );
        assert_eq!(
            verdict(&output(Ending::Code(101), &closing(1, 0))),
            Verdict::Failed
        );
        assert_eq!(
            verdict(&output(Ending::TimedOut, &closing(1, 0))),
            Verdict::Failed
        );
    }
}
