//! What is said after the guest came up.

use crate::Bytes;
use serde::{Deserialize, Serialize};

/// What the host asks of the guest.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Request {
    /// Start a command.
    Launch(Launch),
    /// Give a command bytes to read from its standard input.
    Input {
        /// The command.
        id: u32,
        /// What it reads.
        data: Bytes,
    },
    /// Close the standard input of a command.
    CloseInput {
        /// The command.
        id: u32,
    },
    /// Send a signal to the process of a command.
    Signal {
        /// The command.
        id: u32,
        /// The signal's number.
        signal: i32,
    },
    /// Tell the terminal of a command its new size.
    Resize {
        /// The command.
        id: u32,
        /// Rows and columns.
        size: WindowSize,
    },
    /// Power the machine off.
    PowerOff,
}

/// A command to start.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Launch {
    /// The host's number for it; never used twice in one boot.
    pub id: u32,
    /// Program, looked up in `PATH` unless it holds a `/`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables added to the guest's small environment.
    pub env: Vec<(String, String)>,
    /// Working directory; `/root` unless given.
    pub cwd: Option<String>,
    /// Network namespace (`a` or `b`); the initial one unless given.
    pub namespace: Option<String>,
    /// User and group to become, with no further groups; root unless given.
    pub user: Option<u32>,
    /// Resource limits to set.
    pub limits: Vec<Limit>,
    /// Milliseconds after which the command and all it started are killed.
    pub timeout_ms: Option<u64>,
    /// What its standard input is.
    pub terminal: Terminal,
}

/// What the standard streams of a command are.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub enum Terminal {
    /// Input empty; output and errors apart.
    #[default]
    None,
    /// Input from the host; output and errors apart.
    Pipe,
    /// A terminal of the given size for all three.
    Pty(WindowSize),
}

/// Size of a terminal.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WindowSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// One resource limit, soft and hard.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Limit {
    /// The name of the limit in `limits.conf(5)`: `memlock`, `nofile`, `nproc`, `as`, `core`,
    /// `stack`, `fsize`, `data`.
    pub name: String,
    /// Its value in bytes or pieces.
    pub value: u64,
}

/// What the guest says.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Event {
    /// All of the configuration is done; commands may come.
    Ready {
        /// `uname -r`.
        release: String,
        /// Microseconds since the kernel started.
        uptime_us: u64,
        /// Whether the two hosts are two network namespaces.
        separate_namespaces: bool,
    },
    /// The configuration could not be done; the machine is of no use.
    Failed {
        /// Why.
        why: String,
    },
    /// A command wrote something.
    Output {
        /// The command.
        id: u32,
        /// To which stream.
        stream: Stream,
        /// What.
        data: Bytes,
    },
    /// A command ended; nothing of it follows.
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
    /// It left with this exit code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// It could not be started.
    NotStarted(String),
    /// It ran longer than allowed and was killed.
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
