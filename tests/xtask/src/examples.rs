//! The examples of the documentation, run on the rxe driver of a stock kernel.

use anyhow::{Context as _, bail};
use std::time::Duration;
use testbed::{Command, Guest, Kernel, Machine, complaints, host};

/// Each example, and a text that it prints once it has done what it is for.
const EXAMPLES: [(&str, &str); 13] = [
    ("hello", "hello\n"),
    ("devices", "1 devices"),
    ("ping_pong_rc", "1000 round trips"),
    ("one_sided", "the counter is 42"),
    ("srq_limit", "6 messages, 24 requests posted"),
    ("datagrams", "b heard \"everybody\" in group 239.1.2.3"),
    ("events", "8 messages and the limit event"),
    ("async_tokio", "no event within 20 ms"),
    ("raw_batch", "request 7 received 6 bytes inline"),
    ("queue_pair_by_hand", "error to reset"),
    ("record", "0 refused"),
    (
        "memory_window",
        "after it was taken back: remote access error",
    ),
    ("drop_privileges", "by write(2): alloc_pd: EACCES"),
];

/// Examples for mlx5 devices, which the machines of these tests do not have.
const MLX5: [&str; 3] = ["scheduling", "pacing", "devx"];

/// How long an example may run. Emulated processors are slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// Builds the examples and runs each of them on each of these kernels.
pub(crate) fn run(kernels: &[&str], filters: &[String]) -> anyhow::Result<()> {
    let wanted: Vec<_> = EXAMPLES
        .iter()
        .filter(|(name, _)| {
            filters.is_empty() || filters.iter().any(|filter| name.contains(filter))
        })
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let built = testbed::cargo::build(&[
        "build",
        "--package",
        "uverbs",
        "--examples",
        "--features",
        "tokio",
    ])?;
    if let Some(unknown) = built.iter().find(|built| {
        !EXAMPLES.iter().any(|(name, _)| *name == built.name)
            && !MLX5.contains(&built.name.as_str())
    }) {
        bail!("nobody says what the example {} prints", unknown.name);
    }
    let mut failed = Vec::new();
    for kernel in kernels {
        let mut machine = Machine::new(Kernel::named(kernel)?);
        for (name, _) in &wanted {
            let program = built
                .iter()
                .find(|built| built.name == *name)
                .with_context(|| format!("there is no example {name}"))?;
            machine = machine.with_binary(&program.path, name);
        }
        let guest = machine.boot()?;
        println!("\n     Running examples (kernel {kernel})");
        for (name, text) in &wanted {
            if let Err(error) = one(&guest, name, text) {
                println!("example {name} ... FAILED\n{error:#}");
                failed.push(format!("{name} on {kernel}"));
            } else {
                println!("example {name} ... ok");
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

fn one(guest: &Guest, name: &str, text: &str) -> anyhow::Result<()> {
    let output = guest.run(Command::new(name).timeout(PATIENCE))?.check()?;
    let said = output.stdout_text();
    if !said.contains(text) {
        bail!("it did not say {text:?}, but:\n{said}");
    }
    let wrong = complaints::among(&output.kernel);
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("the kernel complained: {wrong:?}")
}
