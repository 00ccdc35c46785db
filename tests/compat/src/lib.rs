//! Debian's C programs in a guest, each over this project's libraries or over Debian's own; and
//! programs of crates that bind those libraries.

pub mod by_address;
pub mod crates;
pub mod musl;

use std::path::PathBuf;
use std::process::Command as Program;
use std::time::Duration;

use testbed::cargo::workspace;
use testbed::{
    Command, Error, Function, Guest, Kernel, Machine, Output, Topology, WindowSize, host,
};

/// Names the folder of libraries that were built before.
const BUILT: &str = "UVERBS_COMPAT_LIBRARIES";
/// Where the libraries are in the guest: all, all but the last, the last.
const FOLDER: &str = "/opt/compat";
const VERBS_FOLDER: &str = "/opt/compat-verbs";
const CM_FOLDER: &str = "/opt/compat-cm";
/// The files that `cargo xtask compat` makes.
pub const FILES: [&str; 3] = ["libibverbs.so.1", "libmlx5.so.1", "librdmacm.so.1"];
/// The Debian suite whose programs and headers are used.
pub const SUITE: &str = "trixie";
/// How long a server may take to listen, and a run to end.
const PATIENCE: Duration = Duration::from_secs(90);

/// Whose libraries a program is run over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Library {
    /// This project's.
    Ours,
    /// Debian's.
    Debian,
    /// This project's libibverbs, and Debian's librdmacm.
    OurVerbs,
    /// Debian's libibverbs, and this project's librdmacm.
    OurCm,
}

/// The two devices of a guest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Devices {
    /// Soft RoCE on two hosts.
    Rxe,
    /// Two software ConnectX functions on InfiniBand.
    Connectx,
}

/// The folder of this project's libraries: built, unless the variable `UVERBS_COMPAT_LIBRARIES`
/// names one.
///
/// # Errors
/// They cannot be built.
pub fn libraries() -> Result<PathBuf, Error> {
    if let Some(folder) = std::env::var_os(BUILT) {
        return Ok(folder.into());
    }
    let folder = workspace().join("target/compat");
    let mut build = Program::new("cargo");
    build
        .current_dir(workspace())
        .args(["xtask", "compat", "--out"])
        .arg(&folder);
    host::run(&mut build)?;
    Ok(folder)
}

/// The kernel that the variable `UVERBS_TEST_KERNEL` names, 6.12 unless set.
///
/// # Errors
/// There is none of that name.
pub fn kernel() -> Result<Kernel, Error> {
    let kernel = std::env::var("UVERBS_TEST_KERNEL");
    Kernel::named(kernel.as_deref().unwrap_or("6.12"))
}

/// A machine with that kernel and the devices.
///
/// # Errors
/// As [`kernel`].
pub fn machine(devices: Devices) -> Result<Machine, Error> {
    let machine = Machine::new(kernel()?);
    Ok(match devices {
        Devices::Rxe => machine.topology(Topology::TwoHosts),
        Devices::Connectx => machine.connectx(&[Function::Ib; 2]),
    })
}

/// A guest with Debian's programs and both libraries.
///
/// # Errors
/// A kernel, a tool or a package that cannot be obtained, by name; a guest that does not boot.
pub fn boot(devices: Devices) -> Result<Guest, Error> {
    with_both(machine(devices)?)?.boot()
}

/// Debian's programs, and this project's libraries beside Debian's.
///
/// # Errors
/// The libraries cannot be built.
pub fn with_both(machine: Machine) -> Result<Machine, Error> {
    let folder = libraries()?;
    let machine = machine.with_debian_tools().debian_suite(SUITE);
    let with = |machine: Machine, (file, inside): (&str, &str)| {
        machine.with_file(folder.join(file), &format!("{inside}/{file}"))
    };
    let [verbs, vendor, cm] = FILES;
    let apart = [
        (verbs, VERBS_FOLDER),
        (vendor, VERBS_FOLDER),
        (cm, CM_FOLDER),
    ];
    let all = FILES.map(|file| (file, FOLDER));
    Ok(all.into_iter().chain(apart).fold(machine, with))
}

impl Devices {
    /// Their names, the server's first.
    pub fn names(self) -> [&'static str; 2] {
        match self {
            Self::Rxe => ["rxe_a", "rxe_b"],
            Self::Connectx => ["mlx5_0", "mlx5_1"],
        }
    }

    /// The server's address.
    pub fn server(self) -> &'static str {
        match self {
            Self::Rxe => "10.1.0.1",
            Self::Connectx => "127.0.0.1",
        }
    }

    /// Runs a command on the host of the first (`a`) or the second device (`b`).
    pub fn on_host(self, host: &str, command: Command) -> Command {
        match self {
            Self::Rxe => command.namespace(host),
            Self::Connectx => command,
        }
    }
}

impl Library {
    /// A program that is run over it.
    pub fn run(self, program: &str, args: &[&str]) -> Command {
        let command = Command::new(program)
            .args(args.iter().copied())
            .timeout(PATIENCE);
        let folder = match self {
            Self::Ours => FOLDER,
            Self::OurVerbs => VERBS_FOLDER,
            Self::OurCm => CM_FOLDER,
            Self::Debian => return command,
        };
        command.env("LD_LIBRARY_PATH", folder)
    }
}

/// Runs a program as a server over one library and as a client over another, and returns what both
/// printed. `ready` is what the server prints once clients may connect.
///
/// # Errors
/// A side that does not start, does not end in time, or ends with a failure.
pub fn play(
    guest: &Guest,
    devices: Devices,
    program: &str,
    args: &[&str],
    ready: &str,
    libraries: [Library; 2],
) -> Result<[Output; 2], Error> {
    let [one, other] = devices.names();
    let [server, client] = libraries;
    // A terminal makes C programs print line by line.
    let terminal = WindowSize {
        rows: 24,
        columns: 200,
    };
    let on = |library: Library, device| library.run(program, &[&["-d", device], args].concat());
    let listening = devices.on_host("a", on(server, one).with_terminal(terminal));
    let listening = guest.spawn(listening)?;
    listening.wait_for_text(ready, PATIENCE)?;
    let calling = on(client, other).arg(devices.server());
    let client = guest.run(devices.on_host("b", calling))?;
    let server = listening.wait()?;
    Ok([server.check()?, client.check()?])
}
