//! The output of Python's unittest for one module.

/// Tests that fail on any device without a feature that they do not check for: name, their message
/// then, and why they count as skipped.
const EXCUSED: [(&str, &str, &str); 1] = [(
    "test_flow_meter ",
    "Reg C is not supported",
    "No flow meters, which the test takes for a failure",
)];

/// The test results of one module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// How many tests ran, including skipped ones; `None` if the end was not reached.
    ran: Option<u32>,
    /// How many were skipped.
    pub(super) skipped: u32,
    /// The reason of each skip that was printed.
    pub(super) reasons: Vec<String>,
    /// Names of the tests that failed, with the last line of their output.
    pub(super) failures: Vec<String>,
    /// How many failed according to the summary.
    failed: u32,
}

impl Report {
    /// Reads the verbose output of `unittest.main`.
    pub(super) fn parse(text: &str) -> Self {
        let mut report = Self::default();
        let mut failing: Option<usize> = None;
        for line in text.lines() {
            if let Some(name) = failure(line) {
                failing = Some(report.failures.len());
                report.failures.push(name);
            } else if let Some(count) = line.strip_prefix("Ran ") {
                report.ran = count.split(' ').next().and_then(|count| count.parse().ok());
                failing = None;
            } else if report.ran.is_some() && (line.starts_with("OK") || line.starts_with("FAILED"))
            {
                report.skipped = count(line, "skipped=");
                report.failed = count(line, "failures=") + count(line, "errors=");
            } else if let Some((_, reason)) = line.split_once("skipped ")
                && let Some(reason) = quoted(reason)
            {
                report.reasons.push(reason.to_owned());
            } else if let Some(index) = failing
                && !line.starts_with([' ', '-', '=', '~'])
                && line.contains(": ")
                && let Some(name) = report.failures.get_mut(index)
            {
                // The exception is the last line of the traceback.
                let short = name.split(" — ").next().unwrap_or_default();
                *name = format!("{short} — {line}");
            }
        }
        report.excuse();
        report
    }

    /// Counts as skipped the tests that should have skipped themselves.
    fn excuse(&mut self) {
        let failures = std::mem::take(&mut self.failures);
        for failure in failures {
            let excused = EXCUSED
                .iter()
                .find(|(name, text, _)| failure.starts_with(name) && failure.contains(text));
            if let Some((_, _, reason)) = excused {
                self.failed = self.failed.saturating_sub(1);
                self.skipped += 1;
                self.reasons.push((*reason).to_owned());
            } else {
                self.failures.push(failure);
            }
        }
    }

    /// Whether the module ran to its end.
    pub(super) fn is_complete(&self) -> bool {
        self.ran.is_some()
    }

    /// How many tests passed.
    pub(super) fn ok(&self) -> u32 {
        self.ran
            .unwrap_or(0)
            .saturating_sub(self.skipped + self.failed)
    }

    /// How many tests failed.
    pub(super) fn failed(&self) -> u32 {
        self.failed
    }
}

/// The test that a heading of the error section refers to.
fn failure(line: &str) -> Option<String> {
    let (kind, name) = line.split_once(": ")?;
    (["FAIL", "ERROR"].contains(&kind) && name.contains('(')).then(|| name.to_owned())
}

fn count(line: &str, word: &str) -> u32 {
    line.split_once(word).map_or(0, |(_, rest)| {
        rest.chars()
            .take_while(char::is_ascii_digit)
            .fold(0, |sum, digit| sum * 10 + digit.to_digit(10).unwrap_or(0))
    })
}

fn quoted(text: &str) -> Option<&str> {
    let text = text.trim_end();
    ['\'', '"']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use super::Report;

    const OUTPUT: &str = "\
test_a (tests.test_x.T.test_a) ... ok
test_b (tests.test_x.T.test_b)
What it is for ... skipped 'No device memory'
test_c (tests.test_x.T.test_c) ... noise
FAIL

======================================================================
FAIL: test_c (tests.test_x.T.test_c)
----------------------------------------------------------------------
Traceback (most recent call last):
  File \"x.py\", line 1, in test_c
pyverbs.PyverbsError: it broke

----------------------------------------------------------------------
Ran 3 tests in 0.5s

FAILED (failures=1, skipped=1)
";

    #[test]
    fn a_report_is_read() {
        let report = Report::parse(OUTPUT);
        assert_eq!((report.ok(), report.skipped, report.failed()), (1, 1, 1));
        assert_eq!(report.reasons, ["No device memory"]);
        assert_eq!(
            report.failures,
            ["test_c (tests.test_x.T.test_c) — pyverbs.PyverbsError: it broke"]
        );
    }

    #[test]
    fn a_test_that_should_skip_is_excused_by_what_it_says() {
        let excused = OUTPUT
            .replace("test_c", "test_flow_meter")
            .replace("it broke", "Reg C is not supported)");
        let report = Report::parse(&excused);
        assert_eq!((report.ok(), report.skipped, report.failed()), (1, 2, 0));
        let other = OUTPUT.replace("test_c", "test_flow_meter");
        assert_eq!(Report::parse(&other).failed(), 1);
    }

    #[test]
    fn a_report_without_an_end_is_incomplete() {
        assert!(!Report::parse("test_a (T) ... ").is_complete());
        let good = Report::parse("test_a (T) ... ok\n\nRan 1 test in 0.1s\n\nOK\n");
        assert_eq!((good.is_complete(), good.ok()), (true, 1));
    }
}
