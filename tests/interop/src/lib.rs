//! Two programs on the two hosts of one guest: one of this project, one of Debian's rdma-core.

use std::time::Duration;

use testbed::{Command, Error, Guest, Kernel, Machine, Output, Topology, WindowSize};

/// How long a server may take until it listens, and a run until it ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// What both kinds of server print once clients may come.
const READY: &str = "local address";

/// Index of the IPv4 address among the GIDs of a device.
const GID_INDEX: &str = "1";

/// One of rdma-core's ping-pong programs, and how ours is asked for the same.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// rdma-core's name for it.
    pub theirs: &'static str,
    /// Our arguments.
    pub ours: &'static [&'static str],
    /// Arguments that both take.
    pub both: &'static [&'static str],
}

/// The guest that the variable `UVERBS_TEST_KERNEL` names (6.12 unless set), with both kinds of programs in it.
///
/// # Errors
/// A kernel, a tool or a package that cannot be had, by name; a guest that does not boot.
pub fn boot() -> Result<Guest, Error> {
    let kernel = std::env::var("UVERBS_TEST_KERNEL");
    let kernel = Kernel::named(kernel.as_deref().unwrap_or("6.12"))?;
    let args = [
        "build",
        "--release",
        "--package",
        "uverbs",
        "--bin",
        "uverbs",
        "--features",
        "cli",
    ];
    Machine::new(kernel)
        .topology(Topology::TwoHosts)
        .with_debian_tools()
        .with_binary(testbed::cargo::build_program("uverbs", &args)?, "uverbs")
        .boot()
}

/// Which program is the server, on host `a`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Server {
    /// Ours.
    Ours,
    /// rdma-core's.
    Theirs,
}

/// Runs one against the other, with `extra` arguments on both sides, and returns what the server and the client printed.
///
/// # Errors
/// A side that does not start, does not end in time, or ends with a failure.
pub fn play(
    guest: &Guest,
    program: Program,
    server: Server,
    extra: &[&str],
) -> Result<(Output, Output), Error> {
    let ours = |device: &str| {
        Command::new("uverbs")
            .args(["pingpong", "-d", device, "-g", GID_INDEX])
            .args(program.ours.iter().copied())
            .args(program.both.iter().copied())
            .args(extra.iter().copied())
            .timeout(PATIENCE)
    };
    let theirs = |device: &str| {
        Command::new(program.theirs)
            .args(["-d", device, "-g", GID_INDEX])
            .args(program.both.iter().copied())
            .args(extra.iter().copied())
            .timeout(PATIENCE)
    };
    let (first, second) = match server {
        Server::Ours => (ours("rxe_a"), theirs("rxe_b")),
        Server::Theirs => (theirs("rxe_a"), ours("rxe_b")),
    };
    // A terminal makes rdma-core's programs print line by line.
    let terminal = WindowSize {
        rows: 24,
        columns: 200,
    };
    let listening = guest.spawn(first.namespace("a").with_terminal(terminal))?;
    listening.wait_for_text(READY, PATIENCE)?;
    let client = guest.run(second.arg("10.1.0.1").namespace("b"))?;
    let server = listening.wait()?;
    Ok((server.check()?, client.check()?))
}
