//! Test binaries of the ordinary `#[test]` harness, run in a guest test by test.
//!
//! Each test is a process of its own with a time limit of its own. A test fails when its process fails, when its time is
//! over, when the kernel complains meanwhile, or when the machine dies; after the last the next test gets a new machine.

mod report;

pub use report::{Failure, Summary};

use crate::{Command, Ending, Error, Guest, Machine, Output, complaints, host};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a test may run unless it is said otherwise. Emulated processors are slow.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A test binary and how to run it.
#[derive(Clone, Debug)]
pub struct Suite {
    name: String,
    binary: PathBuf,
    filters: Vec<String>,
    env: Vec<(String, String)>,
    timeout: Duration,
    include_ignored: bool,
}

/// What the harness says of a test that was run alone.
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
            name: name.into(),
            binary: binary.into(),
            filters: Vec::new(),
            env: Vec::new(),
            timeout: TIMEOUT,
            include_ignored: false,
        }
    }

    /// Runs only tests whose names hold one of these texts.
    #[must_use]
    pub fn filters(mut self, filters: &[String]) -> Self {
        self.filters.extend_from_slice(filters);
        self
    }

    /// A variable of every test's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Time limit of each test (120 s).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs tests marked `#[ignore]` too.
    #[must_use]
    pub fn include_ignored(mut self, include: bool) -> Self {
        self.include_ignored = include;
        self
    }

    /// Runs the tests on a machine of this kind, telling each result on standard output as it comes, and the closing lines
    /// at the end.
    ///
    /// # Errors
    /// The machine does not come up, or the binary does not list its tests. A failed test is no error.
    pub fn run(&self, machine: &Machine) -> Result<Summary, Error> {
        let machine = machine.clone().with_binary(&self.binary, &self.name);
        let since = Instant::now();
        let mut guest = Some(self.boot(&machine)?);
        let tests = self.list(guest.as_ref())?;
        let wanted: Vec<_> = tests.iter().filter(|test| self.is_wanted(test)).collect();
        let mut summary = Summary {
            filtered_out: tests.len() - wanted.len(),
            ..Summary::default()
        };
        println!("\nrunning {} tests", wanted.len());
        for test in wanted {
            let running = match guest.take() {
                Some(guest) => guest,
                None => self.boot(&machine)?,
            };
            let (alive, failure) = self.run_one(running, test, &mut summary);
            guest = alive;
            summary.failures.extend(failure);
        }
        if let Some(guest) = guest {
            guest.power_off()?;
        }
        summary.elapsed = since.elapsed();
        summary.print();
        Ok(summary)
    }

    fn boot(&self, machine: &Machine) -> Result<Guest, Error> {
        let guest = machine.boot()?;
        host::say(format_args!(
            "runs {} on {}, booted in {:.1} s",
            self.name,
            guest.release(),
            guest.boot_time().as_secs_f64()
        ));
        Ok(guest)
    }

    fn list(&self, guest: Option<&Guest>) -> Result<Vec<String>, Error> {
        let Some(guest) = guest else {
            return Ok(Vec::new());
        };
        let listing = guest
            .run(self.command().args(["--list", "--format", "terse"]))?
            .check()?;
        let text = listing.stdout_text();
        Ok(text
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect())
    }

    fn is_wanted(&self, test: &str) -> bool {
        self.filters.is_empty()
            || self
                .filters
                .iter()
                .any(|filter| test.contains(filter.as_str()))
    }

    fn command(&self) -> Command {
        let command = Command::new(format!("/usr/local/bin/{}", self.name)).timeout(self.timeout);
        self.env
            .iter()
            .fold(command, |command, (name, value)| command.env(name, value))
    }

    /// Runs a test; gives the machine back if it lived through it.
    fn run_one(
        &self,
        guest: Guest,
        test: &str,
        summary: &mut Summary,
    ) -> (Option<Guest>, Option<Failure>) {
        let mut command =
            self.command()
                .args(["--exact", test, "--nocapture", "--test-threads", "1"]);
        if self.include_ignored {
            command = command.arg("--include-ignored");
        }
        let output = match guest.run(command) {
            Ok(output) => output,
            Err(error) => {
                println!("test {test} ... FAILED (the machine died)");
                return (
                    None,
                    Some(Failure {
                        test: test.into(),
                        why: error.to_string(),
                        output: String::new(),
                    }),
                );
            }
        };
        let seconds = output.elapsed.as_secs_f64();
        let wrong = complaints::without_excuse(&output);
        let verdict = verdict(&output);
        if verdict == Verdict::Ignored {
            println!("test {test} ... ignored");
            summary.ignored += 1;
        } else if verdict == Verdict::Passed && wrong.is_empty() {
            println!("test {test} ... ok ({seconds:.2} s)");
            summary.passed += 1;
        } else {
            println!("test {test} ... FAILED ({seconds:.2} s)");
            let why = if verdict == Verdict::Failed {
                output.ending_text()
            } else {
                "the kernel complained".into()
            };
            return (
                Some(guest),
                Some(Failure {
                    test: test.into(),
                    why,
                    output: report::words(&output),
                }),
            );
        }
        (Some(guest), None)
    }
}

/// What became of a test: the exit code says whether it failed, the harness's closing line whether it ran at all.
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
