//! The messages exchanged once the guest has booted.

use crate::Bytes;
use serde::{Deserialize, Serialize};

/// A request of the host.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Request {
    /// Start a command.
    Launch(Launch),
    /// Write bytes to a command's standard input.
    Input {
        /// The command.
        id: u32,
        /// The bytes.
        data: Bytes,
    },
    /// Close a command's standard input.
    CloseInput {
        /// The command.
        id: u32,
    },
    /// Send a signal to a command's process.
    Signal {
        /// The command.
        id: u32,
        /// The signal's number.
        signal: i32,
    },
    /// Set the size of a command's terminal.
    Resize {
        /// The command.
        id: u32,
        /// Rows and columns.
        size: WindowSize,
    },
    /// Power off the machine.
    PowerOff,
}

/// A command to start.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Launch {
    /// The host's number for it; never reused within one boot.
    pub id: u32,
    /// Program, looked up in `PATH` unless it contains a `/`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables added to the guest's small environment.
    pub env: Vec<(String, String)>,
    /// Working directory; `/root` if `None`.
    pub cwd: Option<String>,
    /// Network namespace (`a` or `b`); the initial one if `None`.
    pub namespace: Option<String>,
    /// User and group to run as, without supplementary groups; root if `None`.
    pub user: Option<u32>,
    /// Resource limits to set.
    pub limits: Vec<Limit>,
    /// Milliseconds after which the command and everything it started are killed.
    pub timeout_ms: Option<u64>,
    /// The kind of its standard streams.
    pub terminal: Terminal,
}

/// The standard streams of a command.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub enum Terminal {
    /// Empty input; separate output and errors.
    #[default]
    None,
    /// Input from the host; separate output and errors.
    Pipe,
    /// A terminal of the given size for all three.
    Pty(WindowSize),
}

/// Size of a terminal.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WindowSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// One resource limit, soft and hard.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Limit {
    /// The name of the limit in `limits.conf(5)`: `memlock`, `nofile`, `nproc`, `as`, `core`,
    /// `stack`, `fsize`, `data`.
    pub name: String,
    /// Its value, in bytes or as a number, depending on the limit.
    pub value: u64,
}

/// An event of the guest.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Event {
    /// The configuration is complete; the guest accepts commands.
    Ready {
        /// `uname -r`.
        release: String,
        /// Microseconds since the kernel started.
        uptime_us: u64,
        /// Whether the two hosts are two network namespaces.
        separate_namespaces: bool,
    },
    /// The configuration failed; the machine is unusable.
    Failed {
        /// Why.
        why: String,
    },
    /// A command wrote output.
    Output {
        /// The command.
        id: u32,
        /// The stream.
        stream: Stream,
        /// The bytes.
        data: Bytes,
    },
    /// A command ended; no more of its output follows.
    Ended {
        /// The command.
        id: u32,
        /// How.
        ending: Ending,
        /// Microseconds from its start to its end.
        elapsed_us: u64,
    },
    /// A line of the kernel log.
    Kernel(LogLine),
}

/// A stream that a command writes to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Stream {
    /// Standard error.
    Stderr,
    /// Standard output, or the terminal.
    Stdout,
}

/// How a command ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Ending {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// It could not be started.
    NotStarted(String),
    /// It exceeded its time limit and was killed.
    TimedOut,
}

/// A line of the kernel log.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LogLine {
    /// Severity: 0 emergency … 7 debug.
    pub level: u8,
    /// Microseconds since the kernel started.
    pub time_us: u64,
    /// The text.
    pub text: String,
}
