//! Writes the records: what tests report that they requested of a kernel, collected.

use super::SEEN;
use super::seen::file;
use anyhow::{Context as _, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use testbed::{cargo, host};

/// The environment variable that makes tests report it, and the prefix of these lines: as in
/// `tests/tools/coverage`.
pub(crate) const REPORT: (&str, &str) = ("UVERBS_TEST_SEEN", "1");
pub(crate) const MARK: &str = "seen: ";

/// What tests requested on one kind of device and one kernel.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    release: Option<String>,
    /// From encoding, answer and command to the command's attributes.
    commands: BTreeMap<String, BTreeSet<String>>,
}

impl Requests {
    /// Takes a report from a line of a test's output; `false` if it contains none.
    pub(crate) fn hear(&mut self, line: &str) -> bool {
        let Some((_, said)) = line.split_once(MARK) else {
            return false;
        };
        self.add(said.trim_end());
        true
    }

    fn add(&mut self, said: &str) {
        if let Some(release) = said.strip_prefix("# ") {
            self.release = Some(release.to_owned());
            return;
        }
        // A method has two names, a command has one.
        let words: Vec<_> = said.split(' ').collect();
        let names = if said.starts_with("ioctl ") { 4 } else { 3 };
        let (command, attributes) = words.split_at(names.min(words.len()));
        let known = self.commands.entry(command.join(" ")).or_default();
        known.extend(attributes.iter().map(|&name| name.to_owned()));
    }

    /// Writes it to the record of this device and kernel; with `add`, existing entries are kept.
    pub(crate) fn write(mut self, device: &str, kernel: &str, add: bool) -> anyhow::Result<()> {
        let path = cargo::workspace().join(SEEN).join(file(device, kernel));
        if self.commands.is_empty() {
            bail!("no test reported what it requested of {device} {kernel}");
        }
        if add && path.exists() {
            let release = self.release.take();
            let old = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            old.lines().for_each(|line| self.add(line));
            self.release = release.or(self.release);
        }
        if kernel.is_empty() {
            let unit = "no kernel: unit tests of single commands, with answers by script";
            let played = if device == "unit" {
                unit
            } else {
                "the fake kernel"
            };
            self.release = Some(played.to_owned());
        }
        fs::write(&path, self.text()).with_context(|| format!("writing {}", path.display()))?;
        println!("wrote {}", path.display());
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(release) = &self.release {
            let _ = writeln!(text, "# {release}");
        }
        for (command, attributes) in &self.commands {
            text.push_str(command);
            for attribute in attributes {
                let _ = write!(text, " {attribute}");
            }
            text.push('\n');
        }
        text
    }
}

/// What tests requested on one kind of device, kernel by kernel.
#[derive(Debug, Default)]
pub(crate) struct RequestsByKernel(BTreeMap<String, Requests>);

impl RequestsByKernel {
    /// Takes what was reported on a kernel.
    pub(crate) fn hear(&mut self, kernel: &str, lines: &BTreeSet<String>) {
        if lines.is_empty() {
            return;
        }
        let requests = self.0.entry(kernel.to_owned()).or_default();
        for line in lines {
            requests.hear(line);
        }
    }

    /// The same, of what was requested of the connection manager.
    pub(crate) fn hear_cm(&mut self, kernel: &str, lines: &BTreeSet<String>) {
        let is_cm = |line: &&String| line.contains("RDMA_USER_CM");
        if lines.iter().any(|line| is_cm(&line)) {
            let wanted = lines
                .iter()
                .filter(|line| line.contains("# ") || is_cm(line));
            self.hear(kernel, &wanted.cloned().collect());
        }
    }

    /// Writes all of it; see [`Requests::write`].
    pub(crate) fn write(self, device: &str, add: bool) -> anyhow::Result<()> {
        let mut by_kernel = self.0.into_iter();
        by_kernel.try_for_each(|(kernel, requests)| requests.write(device, &kernel, add))
    }
}

/// Runs cargo with tests that need no machine; their reports are removed from the output.
pub(crate) fn cargo_requests(args: &[&str]) -> anyhow::Result<Requests> {
    host::say(format_args!("runs cargo {}", args.join(" ")));
    let mut command = cargo::command();
    command
        .args(args)
        .env(REPORT.0, REPORT.1)
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cargo does not start")?;
    let mut requests = Requests::default();
    let output = child.stdout.take().context("cargo has no output")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if !requests.hear(&line) {
            println!("{line}");
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("the tests failed ({status}); nothing is written");
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_requests_are_merged() {
        let mut requests = Requests::default();
        for line in [
            "test a ... seen: # Linux 6.1",
            "seen: ioctl ok O M B",
            "seen: write error C",
            "seen: ioctl ok O M A B",
        ] {
            assert!(requests.hear(line), "{line}");
        }
        assert!(!requests.hear("test b ... ok"));
        assert_eq!(
            requests.text(),
            "# Linux 6.1\nioctl ok O M A B\nwrite error C\n"
        );
    }
}
