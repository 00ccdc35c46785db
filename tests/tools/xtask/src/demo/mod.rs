//! `cargo xtask demo`: shows what the project does, in one run.

mod connections;

use crate::programs;
use clap::Args;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use testbed::{Command, Guest, Kernel, Machine, Topology, WindowSize, host};

/// Boot a stock kernel and show RDMA from static programs: devices, ping-pong, events, bandwidth.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Kernel: 5.10, 6.1, 6.12 or newest.
    #[arg(long, default_value = "6.12")]
    kernel: String,
    /// Instead run the examples with this many connections, such as 1000, whose clients are killed
    /// and whose futures are dropped, on rxe and on a software ConnectX: an hour or so without KVM.
    #[arg(long, value_name = "COUNT")]
    connections: Option<usize>,
    /// Only on this device: rxe0 or mlx5_0.
    #[arg(long, value_name = "DEVICE", requires = "connections")]
    device: Option<String>,
}

/// Time limit of a step.
const PATIENCE: Duration = Duration::from_secs(60);

/// The example that shows the limit event of a shared receive queue.
const SRQ_LIMIT: &str = "srq_limit";

/// One step of the demonstration.
#[derive(Debug)]
struct Step {
    title: &'static str,
    /// The command that runs on host `a` meanwhile, if two are needed.
    server: Option<&'static [&'static str]>,
    /// The command that is shown: on host `b` if there is a server, otherwise on host `a`.
    command: &'static [&'static str],
}

const STEPS: [Step; 5] = [
    Step {
        title: "The devices of this machine",
        server: None,
        command: &["uverbs", "list"],
    },
    Step {
        title: "What the first of them can do",
        server: None,
        command: &["uverbs", "info", "rxe_a"],
    },
    Step {
        title: "A ping-pong between two hosts over a reliable connection",
        server: Some(&["uverbs", "pingpong", "-d", "rxe_a"]),
        command: &["uverbs", "pingpong", "-d", "rxe_b", "10.1.0.1"],
    },
    Step {
        title: "A shared receive queue says that it runs low",
        server: None,
        command: &[SRQ_LIMIT, "rxe_a"],
    },
    Step {
        title: "Bandwidth of writes into the memory of the other host",
        server: Some(&["uverbs", "bench", "serve", "--once", "-d", "rxe_a"]),
        command: &[
            "uverbs", "bench", "write", "-d", "rxe_b", "-n", "500", "10.1.0.1",
        ],
    },
];

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if let Some(count) = options.connections {
        connections::run(&options.kernel, count, options.device.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let since = Instant::now();
    let machine = Machine::new(Kernel::named(&options.kernel)?)
        .topology(Topology::TwoHosts)
        .with_binary(programs::uverbs()?, "uverbs")
        .with_binary(programs::example(SRQ_LIMIT)?, SRQ_LIMIT);
    let guest = machine.boot()?;
    let (release, seconds) = (guest.release(), guest.boot_time().as_secs_f64());
    println!(
        "\nLinux {release}, a stock kernel of Debian, booted in {seconds:.1} s. \
         In it: static programs and nothing else."
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
    let Some(words) = step.server else {
        println!("a$ {}", step.command.join(" "));
        guest
            .run(command(step.command).namespace("a").echo())?
            .check()?;
        return Ok(());
    };
    println!("a$ {}\nb$ {}", words.join(" "), step.command.join(" "));
    let terminal = WindowSize {
        rows: 24,
        columns: 200,
    };
    let server = guest.spawn(command(words).namespace("a").with_terminal(terminal))?;
    server.wait_for_text(ready(words), PATIENCE)?;
    let client = guest.run(command(step.command).namespace("b").echo())?;
    let server = server.wait()?;
    // The client's output is already on the screen; the server's matters if something failed.
    server.check()?;
    client.check()?;
    Ok(())
}

/// What a server prints as soon as clients may connect.
fn ready(words: &[&str]) -> &'static str {
    if words.contains(&"bench") {
        "listening"
    } else {
        "local address"
    }
}

fn command(words: &[&'static str]) -> Command {
    let (program, args) = words.split_first().unwrap_or((&"true", &[]));
    Command::new(*program)
        .args(args.iter().copied())
        .timeout(PATIENCE)
}
