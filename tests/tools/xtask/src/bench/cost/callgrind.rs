//! Callgrind in the guest, and its output.

use anyhow::{Context as _, bail};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use testbed::{Command, Guest};

const PATIENCE: Duration = Duration::from_secs(120);

/// Functions whose names begin like this are counted, with everything that they call, and nothing
/// else.
const COUNTED: &str = "counted_";

/// Instructions by function, including what the function calls.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Counts(BTreeMap<String, f64>);

/// Counts the instructions of the program's loops, with variables in its environment.
pub(super) fn run(
    guest: &Guest,
    program: &str,
    environment: &str,
    rounds: u32,
) -> anyhow::Result<Counts> {
    let file = format!("/tmp/{program}-{rounds}");
    let line = format!(
        "{environment} valgrind --quiet --tool=callgrind --toggle-collect='*{COUNTED}*' --compress-strings=no --compress-pos=no \
         --callgrind-out-file={file} {program} mlx5_0 {rounds} >&2 && cat {file}"
    );
    let output = guest.run(Command::shell(line).timeout(PATIENCE))?.check()?;
    let counts = Counts::read(&output.stdout_text());
    if counts.0.is_empty() {
        bail!("nothing of {program} was counted");
    }
    Ok(counts)
}

/// The same for a program on this machine: functions are named with their module.
pub(super) fn run_here(program: &Path, rounds: u32) -> anyhow::Result<Counts> {
    run_here_with(program, &[&rounds.to_string()])
}

/// The same for a program that is given arguments, its rounds among them.
pub(super) fn run_here_with(program: &Path, arguments: &[&str]) -> anyhow::Result<Counts> {
    let counts = Counts::read_as(&output_of(program, arguments, &[])?, counted_in_module);
    if counts.0.is_empty() {
        bail!("nothing of {} was counted", program.display());
    }
    Ok(counts)
}

/// The same for a program in C.
pub(super) fn run_c_with(
    program: &Path,
    arguments: &[OsString],
    environment: &[(&str, OsString)],
) -> anyhow::Result<Counts> {
    let counts = Counts::read(&output_in(program, arguments, &[], environment)?);
    if counts.0.is_empty() {
        bail!("nothing of {} was counted", program.display());
    }
    Ok(counts)
}

/// The same for a program in C, with variables in its environment.
pub(super) fn run_c_here(
    program: &Path,
    environment: &[(&str, &str)],
    rounds: u32,
) -> anyhow::Result<Counts> {
    let arguments = ["mlx5_0".into(), rounds.to_string().into()];
    let variables: Vec<_> = environment
        .iter()
        .map(|(name, value)| (*name, value.into()))
        .collect();
    run_c_with(program, &arguments, &variables)
}

/// What Callgrind writes about a program on this machine.
pub(super) fn output_of(
    program: &Path,
    arguments: &[&str],
    options: &[&str],
) -> anyhow::Result<String> {
    output_in(program, arguments, options, &[])
}

fn output_in(
    program: &Path,
    arguments: &[impl AsRef<OsStr>],
    options: &[&str],
    environment: &[(&str, OsString)],
) -> anyhow::Result<String> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("uverbs-counts-{}-{run}", std::process::id()));
    let output = std::process::Command::new("valgrind")
        .args([
            "--quiet",
            "--tool=callgrind",
            "--compress-strings=no",
            "--compress-pos=no",
        ])
        .args(options)
        .arg(format!("--toggle-collect=*{COUNTED}*"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .output()
        .context("no `valgrind`: apt install valgrind")?;
    if !output.status.success() {
        bail!("valgrind: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    std::fs::remove_file(&file)?;
    Ok(text)
}

impl Counts {
    /// Parses Callgrind's format: after `fn=` come lines of position and cost. The line after
    /// `calls=` is the cost of the called function, with everything that it called.
    fn read(text: &str) -> Self {
        Self::read_as(text, counted)
    }

    /// The same for functions that `named` gives a name.
    fn read_as(text: &str, named: fn(&str) -> Option<String>) -> Self {
        let mut counts = Self::default();
        let mut current = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("fn=") {
                current = named(name);
            } else if let Some(name) = &current
                && line.starts_with(|first: char| first.is_ascii_digit())
                && let Some(cost) = line.split(' ').nth(1)
                && let Ok(cost) = cost.parse::<f64>()
            {
                *counts.0.entry(String::clone(name)).or_default() += cost;
            }
        }
        counts
    }

    /// The difference from a run with fewer rounds, per iteration of a loop.
    pub(super) fn less(&self, few: &Self, turns: f64) -> anyhow::Result<Self> {
        let each = self.0.iter().map(|(name, cost)| {
            let before = few
                .0
                .get(name)
                .with_context(|| format!("{name} was not counted"))?;
            Ok((name.clone(), (cost - before) / turns))
        });
        each.collect::<anyhow::Result<_>>().map(Self)
    }

    /// What a function cost, if it was counted.
    pub(super) fn get(&self, function: &str) -> Option<f64> {
        self.0.get(function).copied()
    }

    /// The sum over several functions.
    pub(super) fn sum(&self, functions: &[&str]) -> anyhow::Result<f64> {
        let each = functions.iter().map(|&name| {
            let cost = self.0.get(name);
            cost.copied()
                .with_context(|| format!("{name} was not counted"))
        });
        each.sum()
    }
}

/// The same with the module that it is in.
pub(super) fn counted_in_module(name: &str) -> Option<String> {
    let (path, _) = name.split_at_checked(name.find(COUNTED)?)?;
    let module = path.trim_end_matches("::").rsplit("::").next()?;
    Some(format!("{module}::{}", counted(name)?))
}

/// The name of a counted function, without its path and the compiler's suffix.
fn counted(name: &str) -> Option<String> {
    let name = name.get(name.find(COUNTED)?..)?;
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    Some(name.get(..end.unwrap_or(name.len()))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Counts;

    const FILE: &str = "events: Ir\n\nob=/usr/local/bin/cost\nfl=???\nfn=main\n0 7\n\nfn=cost::counted_poll::h12\n0 100\n0 20\n\
                        cob=/lib/libmlx5.so\ncfi=???\ncfn=poll\ncalls=64 0\n0 1000\nfn=poll\n0 1000\n";

    #[test]
    fn a_function_is_counted_with_what_it_calls() {
        let counts = Counts::read(FILE);
        assert_eq!(counts.sum(&["counted_poll"]).ok(), Some(1120.0));
        assert_eq!(counts.0.len(), 1);
        assert!(counts.sum(&["counted_write"]).is_err());
    }

    #[test]
    fn a_module_tells_functions_of_one_name_apart() {
        let text = "fn=raw::any::counted_poll::h0123456789abcdef\n0 7\nfn=raw::typed::counted_poll::h0\n0 5\n";
        let counts = Counts::read_as(text, super::counted_in_module);
        assert_eq!(counts.sum(&["any::counted_poll"]).ok(), Some(7.0));
        assert_eq!(counts.sum(&["typed::counted_poll"]).ok(), Some(5.0));
    }

    #[test]
    fn what_is_done_once_cancels_out() {
        let (few, many) = (
            Counts::read(FILE),
            Counts::read(&FILE.replace(" 1000", " 1640")),
        );
        assert_eq!(
            many.less(&few, 64.0)
                .ok()
                .and_then(|each| each.sum(&["counted_poll"]).ok()),
            Some(10.0)
        );
        assert!(many.less(&Counts::default(), 64.0).is_err());
    }
}
