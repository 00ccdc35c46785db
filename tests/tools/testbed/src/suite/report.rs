//! The results of a suite, worded as by `cargo test`.

use crate::{Output, complaints};
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::time::Duration;

/// The results of a suite.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Number of tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failures: Vec<Failure>,
    /// Flaky tests: they failed, and passed when they were retried.
    pub unsteady: Vec<Failure>,
    /// Number of tests that were marked `#[ignore]` and not run.
    pub ignored: usize,
    /// Number of tests that no filter matched.
    pub filtered_out: usize,
    /// From the start of the machine to the end of the last test.
    pub elapsed: Duration,
    /// The lines that were to be kept, without duplicates.
    pub kept: BTreeSet<String>,
}

/// A test that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The binary that contains it.
    pub binary: String,
    /// Its name.
    pub test: String,
    /// How it failed.
    pub why: String,
    /// The output of the test and the kernel.
    pub output: String,
}

impl Summary {
    /// Whether no test failed.
    pub fn is_ok(&self) -> bool {
        self.failures.is_empty()
    }

    pub(super) fn keep(&mut self, text: &str, output: &Output) {
        let said = output.stdout_text();
        let kept = said.lines().filter(|line| line.contains(text));
        self.kept.extend(kept.map(str::to_owned));
    }

    /// Prints the names of the failed tests and the closing line on standard output; how each of
    /// them failed was printed when it did.
    pub fn print(&self) {
        for (title, failures) in [
            ("failures", &self.failures),
            ("flaky, passed when retried", &self.unsteady),
        ] {
            if !failures.is_empty() {
                println!("\n{title}:");
            }
            for failure in failures {
                println!("    {}: {}", failure.test, failure.why);
            }
        }
        println!("\n{}\n", self.closing_line());
    }

    /// The closing line of `cargo test`.
    pub fn closing_line(&self) -> String {
        format!(
            "test result: {}. {} passed; {} failed; {} ignored; 0 measured; {} filtered out; finished in {:.2}s",
            if self.is_ok() { "ok" } else { "FAILED" },
            self.passed,
            self.failures.len(),
            self.ignored,
            self.filtered_out,
            self.elapsed.as_secs_f64()
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "---- {} ----\n{}\n{}----",
            self.test, self.why, self.output
        )
    }
}

/// Everything that a test and the kernel wrote while it ran; complaints are marked.
pub(super) fn words(output: &Output) -> String {
    let mut text = output.stdout_text();
    text.push_str(&output.stderr_text());
    if output.kernel.is_empty() {
        return text;
    }
    text.push_str("--- kernel log ---\n");
    let wrong = complaints::without_excuse(output);
    for line in &output.kernel {
        let mark = if wrong.contains(&line) { '!' } else { ' ' };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{mark} [{:.6}] {}",
            Duration::from_micros(line.time_us).as_secs_f64(),
            line.text
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Failure, Summary};
    use std::time::Duration;

    #[test]
    fn the_closing_line_is_cargo_s() {
        let mut summary = Summary {
            passed: 3,
            elapsed: Duration::from_millis(1500),
            ..Summary::default()
        };
        assert_eq!(
            summary.closing_line(),
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s"
        );
        summary.failures.push(Failure {
            binary: "b".into(),
            test: "t".into(),
            why: String::new(),
            output: String::new(),
        });
        assert!(
            summary
                .closing_line()
                .starts_with("test result: FAILED. 3 passed; 1 failed;")
        );
    }
}
