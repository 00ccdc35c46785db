//! `cargo xtask demo --connections`: the examples with many connections, on the rxe driver and on
//! the software ConnectX.

use crate::programs;
use anyhow::{Context as _, bail};
use std::time::{Duration, Instant};
use testbed::connectx::NO_REPORTS;
use testbed::{Command, Connectx, Function, Guest, Kernel, Machine, complaints, host};

/// Processes of the key-value server's clients. Half of them are killed.
const CLIENTS: usize = 20;
/// Time limit of a program: emulated processors take a while for a thousand connections.
const PATIENCE: Duration = Duration::from_secs(3000);
const MEMORY_MIB: u32 = 4096;
/// How much more memory a program may have after its second wave than after its first, in kB.
const GROWTH: u64 = 1024;

/// The examples, with their features.
const PROGRAMS: [(&str, &[&str]); 2] = [("key_value", &[]), ("many_tasks", &["tokio"])];

pub(super) fn run(kernel: &str, count: usize, filter: Option<&str>) -> anyhow::Result<()> {
    if count < CLIENTS {
        bail!("at least {CLIENTS} connections, one of each client");
    }
    let devices = ["rxe0", "mlx5_0"];
    for device in devices
        .iter()
        .filter(|name| filter.is_none_or(|text| **name == text))
    {
        let mut machine = Machine::new(Kernel::named(kernel)?).memory_mib(MEMORY_MIB);
        if device.starts_with("mlx5") {
            machine = machine.connectx(Connectx::new(&[Function::Ib]));
        }
        for (name, features) in PROGRAMS {
            machine = machine.with_binary(programs::example_with(name, features)?, name);
        }
        let guest = machine.boot()?;
        println!(
            "\n== {count} connections on {device}, Linux {}\n",
            guest.release()
        );
        let each = (count / CLIENTS).to_string();
        let count = count.to_string();
        one(&guest, &["key_value", device, &CLIENTS.to_string(), &each])?;
        one(&guest, &["many_tasks", device, &count, "10"])?;
        if device.starts_with("mlx5") {
            let reports = guest.connectx()?.ask("reports")?;
            if reports != NO_REPORTS {
                bail!("the software ConnectX reports: {reports}");
            }
        }
        guest.power_off()?;
    }
    Ok(())
}

/// Runs one program; what it says is shown, and its memory compared.
fn one(guest: &Guest, words: &[&str]) -> anyhow::Result<()> {
    let (program, args) = words.split_first().context("a program")?;
    println!("$ {}", words.join(" "));
    let since = Instant::now();
    let command = Command::new(*program).args(args.iter().copied());
    let output = guest.run(command.timeout(PATIENCE).echo())?.check()?;
    let wrong = complaints::among(&output.kernel);
    if !wrong.is_empty() {
        bail!("the kernel complained: {wrong:?}");
    }
    let said = output.stdout_text();
    let after = figures(&said, " kB after");
    let [first, second] = after.as_slice() else {
        bail!("not two waves:\n{said}");
    };
    let buffers = figures(&said, " buffers, ");
    if *second > first + GROWTH {
        bail!("its memory grows: {first} kB after the first wave, {second} after the second");
    }
    if !buffers
        .windows(2)
        .all(|pair| pair[1] <= pair[0] + pair[0] / 4)
    {
        bail!("it registers ever more buffers: {buffers:?}");
    }
    host::say(format_args!(
        "ran {program} in {:.0} s",
        since.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// The number before `unit` of each line that has one and begins with `wave`.
fn figures(said: &str, unit: &str) -> Vec<u64> {
    said.lines()
        .filter(|line| line.starts_with("wave "))
        .filter_map(|line| line.split_once(unit)?.0.rsplit(' ').next()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn figures_are_those_of_the_waves() {
        let said = "4 clients were killed, 4 finished, nothing leaked\n\
                    wave 1: 128 buffers, 3000 kB with all, 2500 kB after\n\
                    wave 2: 64 buffers, 2600 kB after\n";
        assert_eq!(figures(said, " kB after"), [2500, 2600]);
        assert_eq!(figures(said, " buffers, "), [128, 64]);
    }
}
