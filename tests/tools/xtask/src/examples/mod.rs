//! The examples of the documentation, run on the rxe driver of a stock kernel; those for mlx5 on
//! the software ConnectX.

pub(crate) mod mlx5;

use crate::programs;
use crate::selftest::once as selftest;
use crate::test::old_rxe;
use anyhow::{Context as _, bail};
use std::time::Duration;
use testbed::cargo::Built;
use testbed::{Command, Guest, Kernel, Machine, complaints, host};

/// Each example, and a text that it prints once it has succeeded.
const EXAMPLES: [(&str, &str); 21] = [
    ("hello", "hello\n"),
    ("devices", "1 devices"),
    ("exchange", "the peer has gone"),
    ("echo", "echo: hello"),
    ("stream", "stream: hello"),
    ("http", "http: /one: 0 bytes\n/two: 0 bytes\n"),
    ("grpc", "grpc: well: true"),
    ("ping_pong_rc", "1000 round trips"),
    ("one_sided", "the counter is 42"),
    ("srq_limit", "6 messages, 24 requests posted"),
    ("datagrams", "b heard \"everybody\" in group 239.1.2.3"),
    ("datagrams_by_address", "10 messages sent, 10 answers heard"),
    ("events", "8 messages and the limit event"),
    ("async_tokio", "no event within 20 ms"),
    (
        "key_value",
        "4 clients were killed, 4 finished, nothing leaked",
    ),
    ("many_tasks", "100 connections each time, 0 leaked"),
    ("raw_batch", "request 7 received 6 bytes inline"),
    ("queue_pair_by_hand", "error to reset"),
    ("record", "0 refused"),
    (
        "memory_window",
        "after it was taken back: remote access error",
    ),
    ("drop_privileges", "by write(2): alloc_pd: EACCES"),
];

/// Time limit of an example. Emulated processors are slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// Builds the examples and runs each of them on each of these kernels.
pub(crate) fn run(kernels: &[&str], filters: &[String]) -> anyhow::Result<()> {
    let wanted: Vec<_> = EXAMPLES
        .iter()
        .filter(|(name, _)| {
            filters.is_empty() || filters.iter().any(|filter| name.contains(filter))
        })
        .collect();
    let tool = is_wanted(filters).then(programs::uverbs).transpose()?;
    if wanted.is_empty() && tool.is_none() {
        return Ok(());
    }
    let built = if wanted.is_empty() {
        Vec::new()
    } else {
        build()?
    };
    let mut failed = Vec::new();
    for kernel in kernels {
        let mut machine = Machine::new(Kernel::named(kernel)?);
        let fit = || {
            let all = wanted.iter();
            all.filter(|(name, _)| old_rxe::has(kernel, name))
        };
        for (name, _) in fit() {
            machine = with_example(machine, &built, name)?;
        }
        // With that kernel, rxe stops without a completion when requests fail.
        let tool = tool.as_ref().filter(|_| old_rxe::has(kernel, "selftest"));
        if let Some(tool) = tool {
            machine = machine.with_binary(tool, "uverbs");
        }
        let guest = machine.boot()?;
        println!("\n     Running examples (kernel {kernel})");
        for (name, text) in fit() {
            if let Err(error) = one(&guest, name, text) {
                println!("example {name} ... FAILED\n{error:#}");
                failed.push(format!("{name} on {kernel}"));
            } else {
                println!("example {name} ... ok");
            }
        }
        if tool.is_some() {
            let whole = selftest::run(&guest, "rxe0");
            match whole {
                Ok(run) => println!("uverbs selftest ... ok{}", run.counts()),
                Err(error) => {
                    println!("uverbs selftest ... FAILED\n{error:#}");
                    failed.push(format!("uverbs selftest on {kernel}"));
                }
            }
        }
        guest.power_off()?;
    }
    if !failed.is_empty() {
        bail!("examples: {}", failed.join(", "));
    }
    host::say(format_args!(
        "ran {} examples on {} kernels",
        wanted.len(),
        kernels.len()
    ));
    Ok(())
}

/// Whether the filters select the self-test.
fn is_wanted(filters: &[String]) -> bool {
    let named = |filter: &String| selftest::NAME.contains(filter.as_str());
    filters.is_empty() || filters.iter().any(named)
}

/// Builds all examples; each of them must have an entry with its expected output.
fn build() -> anyhow::Result<Vec<Built>> {
    let mut built = testbed::cargo::build(&[
        "build",
        "--package",
        "uverbs",
        "--examples",
        "--features",
        "tokio",
    ])?;
    // What needs more crates than the library's examples have is a package of its own.
    let services = ["build", "--package", "services", "--bins"];
    built.extend(testbed::cargo::build(&services)?);
    if let Some(unknown) = built.iter().find(|built| {
        !EXAMPLES.iter().any(|(name, _)| *name == built.name) && !mlx5::knows(&built.name)
    }) {
        bail!(
            "the expected output of example {} is not listed",
            unknown.name
        );
    }
    Ok(built)
}

fn with_example(machine: Machine, built: &[Built], name: &str) -> anyhow::Result<Machine> {
    let program = built
        .iter()
        .find(|built| built.name == name)
        .with_context(|| format!("there is no example {name}"))?;
    Ok(machine.with_binary(&program.path, name))
}

fn one(guest: &Guest, name: &str, text: &str) -> anyhow::Result<()> {
    let said = said_by(guest, Command::new(name))?;
    if said.contains(text) {
        return Ok(());
    }
    bail!("it did not say {text:?}, but:\n{said}")
}

/// The output of a program that must succeed without a complaint of the kernel.
fn said_by(guest: &Guest, command: Command) -> anyhow::Result<String> {
    let output = guest.run(command.timeout(PATIENCE))?.check()?;
    let wrong = complaints::among(&output.kernel);
    if wrong.is_empty() {
        return Ok(output.stdout_text());
    }
    bail!("the kernel complained: {wrong:?}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::{EXAMPLES, mlx5};

    #[test]
    fn every_example_is_run_somewhere() {
        let folder = testbed::cargo::workspace().join("docs/examples");
        let files = std::fs::read_dir(folder).unwrap();
        let mut seen = 0;
        for file in files {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            seen += 1;
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let is_run = EXAMPLES.iter().any(|(known, _)| *known == name) || mlx5::knows(&name);
            assert!(is_run, "{name} is an example that is run nowhere");
        }
        assert!(seen > 20, "only {seen} examples were found");
    }
}
