//! Two steps at the same time, each in a process of its own.

use super::Outcome;
use anyhow::{Context as _, anyhow};
use std::env;
use std::fs::{self, File};
use std::io;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;
use testbed::cargo::workspace;
use testbed::host;

/// Steps whose tests run in machines. Without KVM such a machine keeps about one processor busy,
/// whatever it has itself.
const PAIR: [&str; 2] = ["rxe", "mlx5"];

/// The other one, if `step` is run together with it. `wanted` says whether a step is to be run.
pub(super) fn partner(step: &str, wanted: impl Fn(&str) -> bool) -> Option<&'static str> {
    let [first, second] = PAIR;
    let room = thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
    (step == first && room && wanted(second)).then_some(second)
}

/// Runs both. What the second one prints is shown when both have ended.
pub(super) fn run(first: &'static str, second: &'static str) -> anyhow::Result<[Outcome; 2]> {
    let log = workspace().join("target/ci").join(second);
    fs::create_dir_all(workspace().join("target/ci"))?;
    let file = File::create(&log).with_context(|| log.display().to_string())?;
    let quiet = start(second, file.try_clone()?.into(), file.into())?;
    let since = Instant::now();
    let waits = thread::spawn(move || wait(second, quiet, since));
    let shown = start(first, Stdio::inherit(), Stdio::inherit())?;
    let shown = wait(first, shown, since);
    host::say(format_args!("waits for {second}, which began with {first}"));
    let quiet = waits
        .join()
        .map_err(|_| anyhow!("waiting for {second} panicked"))?;
    io::copy(&mut File::open(&log)?, &mut io::stdout())?;
    Ok([shown, quiet])
}

fn start(step: &str, output: Stdio, errors: Stdio) -> anyhow::Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    let command = command.args(["ci", step]).stdin(Stdio::null());
    let child = command.stdout(output).stderr(errors).spawn();
    child.with_context(|| format!("starting {step}"))
}

fn wait(step: &'static str, mut child: Child, since: Instant) -> Outcome {
    let status = child.wait();
    Outcome {
        step,
        failed: !status.is_ok_and(|status| status.success()),
        took: since.elapsed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_of_a_pair_takes_the_other_along() {
        let all = |_: &str| true;
        assert_eq!(partner("mlx5", all), None);
        assert_eq!(partner("unit", all), None);
        assert_eq!(partner("rxe", |step| step != "mlx5"), None);
        let several = thread::available_parallelism().unwrap().get() > 1;
        assert_eq!(partner("rxe", all).is_some(), several);
    }
}
