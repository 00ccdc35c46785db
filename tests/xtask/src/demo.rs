//! `cargo xtask demo`: what the project does, in one go.

use crate::programs;
use clap::Args;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use testbed::{Command, Guest, Kernel, Machine, Topology, WindowSize, host};

/// Boot a stock kernel and show RDMA from one static binary: devices, ping-pong, events, bandwidth.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Kernel: 6.1, 6.12 or newest.
    #[arg(long, default_value = "6.12")]
    kernel: String,
}

/// How long a step may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// One thing that is shown.
#[derive(Debug)]
struct Step {
    title: &'static str,
    /// What runs on host `a` meanwhile, if it takes two.
    server: Option<&'static [&'static str]>,
    /// What is shown; on host `b` if there is a server.
    command: &'static [&'static str],
}

const STEPS: [Step; 5] = [
    Step {
        title: "The devices of this machine",
        server: None,
        command: &["list"],
    },
    Step {
        title: "What the first of them can do",
        server: None,
        command: &["info", "rxe_a"],
    },
    Step {
        title: "A ping-pong between two hosts, reliable connection",
        server: Some(&["pingpong", "--device", "rxe_a"]),
        command: &["pingpong", "--device", "rxe_b", "10.1.0.1"],
    },
    Step {
        title: "The same through a shared receive queue, with its limit event",
        server: Some(&["pingpong", "--srq", "--events", "--device", "rxe_a"]),
        command: &[
            "pingpong", "--srq", "--events", "--device", "rxe_b", "10.1.0.1",
        ],
    },
    Step {
        title: "Bandwidth of writes into the memory of the other host",
        server: Some(&["bench", "write", "--device", "rxe_a"]),
        command: &["bench", "write", "--device", "rxe_b", "10.1.0.1"],
    },
];

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let since = Instant::now();
    let program = programs::uverbs()?;
    let machine = Machine::new(Kernel::named(&options.kernel)?).topology(Topology::TwoHosts);
    let guest = machine.with_binary(program, "uverbs").boot()?;
    let boot = guest.boot_time().as_secs_f64();
    println!(
        "\nLinux {}, stock kernel of Debian, booted in {boot:.1} s. In it: one static program.",
        guest.release()
    );
    for step in &STEPS {
        show(&guest, step)?;
    }
    guest.power_off()?;
    host::say(format_args!(
        "is done, in {:.0} s",
        since.elapsed().as_secs_f64()
    ));
    Ok(ExitCode::SUCCESS)
}

fn show(guest: &Guest, step: &Step) -> anyhow::Result<()> {
    println!("\n== {}\n", step.title);
    let command = |args: &[&'static str]| {
        Command::new("uverbs")
            .args(args.iter().copied())
            .timeout(PATIENCE)
    };
    let line = |args: &[&str]| format!("uverbs {}", args.join(" "));
    let Some(args) = step.server else {
        println!("$ {}", line(step.command));
        guest.run(command(step.command).echo())?.check()?;
        return Ok(());
    };
    println!("a$ {}\nb$ {}", line(args), line(step.command));
    let server = guest.spawn(command(args).namespace("a").with_terminal(WindowSize {
        rows: 24,
        columns: 200,
    }))?;
    server.wait_for_text("listening", PATIENCE)?;
    let client = guest.run(command(step.command).namespace("b").echo())?;
    let server = server.wait()?;
    if !client.success() || !server.success() {
        println!("host a said:\n{}", server.stdout_text());
    }
    server.check()?;
    client.check()?;
    Ok(())
}
