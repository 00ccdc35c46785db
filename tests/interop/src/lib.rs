//! Two programs on two devices of one guest: one of this project, one of Debian's rdma-core.

pub mod by_address;
pub mod side;
pub mod two_hosts;

use std::time::Duration;

use testbed::{
    Command, Error, Function, Guest, Kernel, Machine, Output, Topology, WindowSize, complaints,
};

/// How long a server may take to listen, and a run to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What both kinds of server print once clients may connect.
const READY: &str = "local address";

/// The two devices.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Devices {
    /// Soft RoCE on two hosts.
    Rxe,
    /// Two software ConnectX functions on InfiniBand.
    ConnectxIb,
    /// Two software ConnectX functions on Ethernet.
    ConnectxRoce,
}

impl Devices {
    /// Their names.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Rxe => ["rxe_a", "rxe_b"],
            Self::ConnectxIb | Self::ConnectxRoce => ["mlx5_0", "mlx5_1"],
        }
    }

    /// The arguments with which both programs select a GID: that of the IPv4 address, for RoCE v2.
    fn gid(self) -> &'static [&'static str] {
        match self {
            Self::Rxe => &["-g", "1"],
            Self::ConnectxIb => &[],
            Self::ConnectxRoce => &["-g", "3"],
        }
    }

    /// The server's address for the client.
    fn server(self) -> &'static str {
        match self {
            Self::Rxe => "10.1.0.1",
            Self::ConnectxIb => "127.0.0.1",
            Self::ConnectxRoce => "10.2.0.1",
        }
    }

    /// Runs a command on the host of the first or the second device.
    fn on_host(self, host: &str, command: Command) -> Command {
        match self {
            Self::Rxe => command.namespace(host),
            Self::ConnectxIb | Self::ConnectxRoce => command,
        }
    }
}

/// One of rdma-core's ping-pong programs, and the equivalent arguments of ours.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// rdma-core's name for it.
    pub theirs: &'static str,
    /// Our arguments.
    pub ours: &'static [&'static str],
    /// Arguments for both.
    pub both: &'static [&'static str],
}

/// The guest with the kernel that the variable `UVERBS_TEST_KERNEL` names (6.12 unless set), with
/// both programs installed.
///
/// # Errors
/// A kernel, a tool or a package that cannot be obtained, by name; a guest that does not boot.
pub fn boot(devices: Devices) -> Result<Guest, Error> {
    let kernel = std::env::var("UVERBS_TEST_KERNEL");
    let kernel = Kernel::named(kernel.as_deref().unwrap_or("6.12"))?;
    let machine = Machine::new(kernel);
    let machine = match devices {
        Devices::Rxe => machine.topology(Topology::TwoHosts),
        Devices::ConnectxIb => machine.connectx(&[Function::Ib; 2]),
        Devices::ConnectxRoce => machine.connectx(&[Function::Roce; 2]),
    };
    machine
        .with_debian_tools()
        .with_binary(testbed::cargo::tool()?, "uverbs")
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

/// Runs one against the other, with `extra` arguments on both sides, and returns what the server
/// and the client printed.
///
/// # Errors
/// A side that does not start, does not end in time, or ends with a failure.
pub fn play(
    guest: &Guest,
    devices: Devices,
    program: Program,
    server: Server,
    extra: &[&str],
) -> Result<(Output, Output), Error> {
    let ours = |device: &str| {
        Command::new("uverbs")
            .args(["pingpong", "-d", device])
            .args(devices.gid().iter().copied())
            .args(program.ours.iter().copied())
            .args(program.both.iter().copied())
            .args(extra.iter().copied())
            .timeout(PATIENCE)
    };
    let theirs = |device: &str| {
        Command::new(program.theirs)
            .args(["-d", device])
            .args(devices.gid().iter().copied())
            .args(program.both.iter().copied())
            .args(extra.iter().copied())
            .timeout(PATIENCE)
    };
    let [one, other] = devices.names();
    let (first, second) = match server {
        Server::Ours => (ours(one), theirs(other)),
        Server::Theirs => (theirs(one), ours(other)),
    };
    // A terminal makes rdma-core's programs print line by line.
    let terminal = WindowSize {
        rows: 24,
        columns: 200,
    };
    let listening = guest.spawn(devices.on_host("a", first).with_terminal(terminal))?;
    listening.wait_for_text(READY, PATIENCE)?;
    let client = guest.run(devices.on_host("b", second.arg(devices.server())))?;
    let server = listening.wait()?;
    Ok((server.check()?, client.check()?))
}

/// The complaints of the kernel and, if there is one, of the software ConnectX.
///
/// # Errors
/// The software ConnectX is gone.
pub fn objections(guest: &Guest, devices: Devices) -> Result<Vec<String>, Error> {
    let log = guest.kernel_log();
    let mut found: Vec<_> = complaints::among(&log)
        .iter()
        .map(|line| line.text.clone())
        .collect();
    if devices != Devices::Rxe {
        let reports = guest.connectx()?.ask("reports")?;
        if reports != testbed::connectx::NO_REPORTS {
            found.push(reports);
        }
    }
    Ok(found)
}
