//! How much of the ping-pong's memory is resident, on a device of each driver.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use testbed::{Command, Function, Guest, Kernel, Machine};

/// The drivers, and a device of each in a machine of its own.
pub(super) const DRIVERS: [&str; 2] = ["rxe", "mlx5"];
const DEVICES: [&str; 2] = ["rxe0", "mlx5_0"];
const KERNEL: &str = "6.12";

const PATIENCE: Duration = Duration::from_secs(60);

/// The most bytes resident on each driver, where the program has it.
pub(super) type Peaks = [Option<u64>; DRIVERS.len()];

/// Measures programs whose names end in the features that they were built with.
pub(super) fn measure(programs: &[PathBuf]) -> anyhow::Result<Vec<Peaks>> {
    let mut peaks = vec![Peaks::default(); programs.len()];
    for (at, device) in DEVICES.into_iter().enumerate() {
        let mut machine = Machine::new(Kernel::named(KERNEL)?).with_debian_tools();
        if at > 0 {
            machine = machine.connectx(&[Function::Ib][..]);
        }
        for (number, program) in programs.iter().enumerate() {
            machine = machine.with_binary(program, &name(number));
        }
        let guest = machine.boot()?;
        for (number, program) in programs.iter().enumerate() {
            let own = program.file_name().unwrap_or_default();
            if own.to_string_lossy().contains(DRIVERS[at]) {
                peaks[number][at] = Some(peak(&guest, &name(number), device)?);
            }
        }
        guest.power_off()?;
    }
    Ok(peaks)
}

fn name(number: usize) -> String {
    format!("ping-pong-{number}")
}

/// While it exchanges messages: what the kernel says about its most.
fn peak(guest: &Guest, program: &str, device: &str) -> anyhow::Result<u64> {
    let line = format!(
        "{program} {device} 100000000 >/dev/null & sleep 2; awk '/VmHWM/ {{ print $2 }}' /proc/$!/status; kill $!"
    );
    let output = guest.run(Command::shell(line).timeout(PATIENCE))?.check()?;
    let text = output.stdout_text();
    let kib: u64 = text
        .trim()
        .parse()
        .with_context(|| format!("{program}: {text:?}"))?;
    Ok(kib * 1024)
}
