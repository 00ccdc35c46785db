//! The checks that need another party: a second host, or somebody who disturbs the device.

use super::{once, rough};
use anyhow::ensure;
use std::time::Duration;
use testbed::{Child, Command, Guest};

/// How long a program may take to print something.
const PATIENCE: Duration = Duration::from_secs(60);

/// The checks with the other host.
const SERVICES: [&str; 4] = ["RC", "UC", "UD", "RC memory"];

/// What the program prints when it waits.
const SERVES: &str = "waiting for a client";

/// Runs all of them on a machine with an ib and a roce function of the software ConnectX; returns
/// the lines of the checks.
pub(crate) fn run(guest: &Guest) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for device in ["mlx5_0", "mlx5_1"] {
        let text = with_peer(guest, device)?;
        lines.extend(
            text.lines()
                .filter(|line| line.contains(" peer/"))
                .map(str::to_owned),
        );
    }
    with_peer_wrong(guest, "mlx5_0", 0)?;
    lines.extend(rough::run(guest, "mlx5_0", 0)?);
    for line in &lines {
        println!("{line}");
    }
    Ok(lines)
}

/// Exchanges messages between two processes on a device, one of them the server; returns every line
/// of the checks.
pub(crate) fn with_peer(guest: &Guest, device: &str) -> anyhow::Result<String> {
    let server = serve(guest, device)?;
    let output = call(guest, device)?;
    let text = output.stdout_text();
    ensure!(output.success(), "{}:\n{text}", output.ending_text());
    let output_there = server.wait()?;
    let said = output_there.stdout_text();
    ensure!(
        output_there.success(),
        "{}:\n{said}",
        output_there.ending_text()
    );
    for service in SERVICES {
        ensure!(text.contains(&format!("ok   peer/{service} ")), "{text}");
        ensure!(said.contains(&format!("ok   {service} ")), "{said}");
    }
    Ok(text)
}

/// The same between processes whose device corrupts what it carries: both must report it.
pub(crate) fn with_peer_wrong(guest: &Guest, device: &str, function: u8) -> anyhow::Result<()> {
    let server = serve(guest, device)?;
    once::ask(guest, &format!("misbehave {function} data"))?;
    let output = call(guest, device);
    once::ask(guest, &format!("misbehave {function}"))?;
    let (output, said) = (output?, server.wait()?.stdout_text());
    let text = output.stdout_text();
    ensure!(
        output.code() == Some(1),
        "{}:\n{text}",
        output.ending_text()
    );
    for service in SERVICES {
        ensure!(text.contains(&format!("FAIL peer/{service} ")), "{text}");
    }
    ensure!(said.contains("FAIL "), "{said}");
    Ok(())
}

fn serve(guest: &Guest, device: &str) -> anyhow::Result<Child> {
    let command = Command::new("uverbs").args([once::NAME, "--device", device, "--serve"]);
    let server = guest.spawn(command.timeout(2 * PATIENCE))?;
    server.wait_for_text(SERVES, PATIENCE)?;
    Ok(server)
}

fn call(guest: &Guest, device: &str) -> anyhow::Result<testbed::Output> {
    let args = ["--peer", "127.0.0.1", "--only", "peer"].map(str::to_owned);
    once::start(guest, device, &args)
}
