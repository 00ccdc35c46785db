//! The checks that need somebody else: a second host, and who takes ports down.

use super::once;
use anyhow::{Context as _, ensure};
use std::thread::sleep;
use std::time::Duration;
use testbed::{Child, Command, Guest};

/// How long a program may take to say something.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the program says when it waits.
const SERVES: &str = "waiting for a client";
const PORT_DOWN: &str = "please take the port down";
const PORT_UP: &str = "please bring the port up";

/// All of them on a machine with an ib and a roce function of the software ConnectX; the lines of the checks.
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
    lines.push(port(guest, "mlx5_0", 0)?);
    for line in &lines {
        println!("{line}");
    }
    Ok(lines)
}

/// Messages between two processes on a device, one of them the server; every line of the checks.
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
    for service in ["RC", "UC", "UD"] {
        ensure!(text.contains(&format!("ok   peer/{service} ")), "{text}");
        ensure!(said.contains(&format!("ok   {service} ")), "{said}");
    }
    Ok(text)
}

/// The same between processes whose device changes what it carries: both say so.
pub(crate) fn with_peer_wrong(guest: &Guest, device: &str, function: u8) -> anyhow::Result<()> {
    let server = serve(guest, device)?;
    ask(guest, &format!("misbehave {function} data"))?;
    let output = call(guest, device);
    ask(guest, &format!("misbehave {function}"))?;
    let (output, said) = (output?, server.wait()?.stdout_text());
    let text = output.stdout_text();
    ensure!(
        output.code() == Some(1),
        "{}:\n{text}",
        output.ending_text()
    );
    for service in ["RC", "UC", "UD"] {
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

/// The port of a function of the software ConnectX goes down and up again while the program looks.
pub(crate) fn port(guest: &Guest, device: &str, function: u8) -> anyhow::Result<String> {
    let only = ["--rough", "--only", "trouble/port down and up"].map(str::to_owned);
    let child = once::spawn(guest, device, &only)?;
    child.wait_for_text(PORT_DOWN, PATIENCE)?;
    ask(guest, &format!("link {function} down"))?;
    child.wait_for_text(PORT_UP, PATIENCE)?;
    sleep(Duration::from_millis(500));
    ask(guest, &format!("link {function} up"))?;
    ended(child)
}

fn ended(child: Child) -> anyhow::Result<String> {
    let output = child.wait()?;
    let text = output.stdout_text();
    let errors = output.stderr_text();
    ensure!(
        output.success() && text.contains("1 ok, 0 FAIL, 0 skip"),
        "{}:\n{text}{errors}",
        output.ending_text()
    );
    let line = text.lines().find(|line| line.starts_with("ok   trouble/"));
    Ok(line.context("no line of the check")?.to_owned())
}

fn ask(guest: &Guest, line: &str) -> anyhow::Result<()> {
    let answer = guest.connectx()?.ask(line)?;
    ensure!(answer == "ok", "{line}: {answer}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_those_of_the_program() {
        let source = include_str!("../../../../../src/cli/src/commands/selftest/trouble.rs");
        for prompt in [PORT_DOWN, PORT_UP] {
            let words = prompt.strip_prefix("please ").unwrap_or(prompt);
            assert!(source.contains(&format!("ask(\"{words}")), "{words}");
        }
    }
}
