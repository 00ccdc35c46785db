//! A command for the guest.

use guest_init::{Launch, Limit, Terminal, WindowSize};
use std::time::Duration;

/// The default time limit of a command.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A command for the guest: by default run as root in the initial network namespace, for at most 60
/// s.
#[derive(Clone, Debug)]
pub struct Command {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    cwd: Option<String>,
    namespace: Option<String>,
    user: Option<u32>,
    limits: Vec<Limit>,
    timeout: Option<Duration>,
    terminal: Terminal,
    echo: bool,
}

impl Command {
    /// A program, looked up in the guest's `PATH` unless its name contains a `/`.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            namespace: None,
            user: None,
            limits: Vec::new(),
            timeout: Some(TIMEOUT),
            terminal: Terminal::None,
            echo: false,
        }
    }

    /// A line for the guest's shell; requires Debian's programs (busybox) in the guest.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new("/bin/sh").arg("-c").arg(line)
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Its working directory (`/root` by default).
    #[must_use]
    pub fn cwd(mut self, path: impl Into<String>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// Runs it on host `a` or `b` of [`Topology::TwoHosts`](crate::Topology::TwoHosts).
    #[must_use]
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespace = Some(name.into());
        self
    }

    /// Runs it as this user, with the group of the same number and no other (1000 and 65534 have
    /// names).
    #[must_use]
    pub fn user(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    /// Sets a resource limit, soft and hard, by its name in `limits.conf(5)` (`memlock`, `nofile`,
    /// …), in bytes or as a number, depending on the limit.
    #[must_use]
    pub fn limit(mut self, name: impl Into<String>, value: u64) -> Self {
        self.limits.push(Limit {
            name: name.into(),
            value,
        });
        self
    }

    /// Time limit after which it is killed with everything it started (60 s by default).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Lets it run without a time limit.
    #[must_use]
    pub fn no_timeout(mut self) -> Self {
        self.timeout = None;
        self
    }

    /// Gives it a standard input that [`Child::write`](super::Child::write) writes to; by default
    /// it is empty.
    #[must_use]
    pub fn with_input(mut self) -> Self {
        self.terminal = Terminal::Pipe;
        self
    }

    /// Gives it a terminal.
    #[must_use]
    pub fn with_terminal(mut self, size: WindowSize) -> Self {
        self.terminal = Terminal::Pty(size);
        self
    }

    /// Copies its output to our own standard output and error as it arrives.
    #[must_use]
    pub fn echo(mut self) -> Self {
        self.echo = true;
        self
    }

    /// The command line.
    pub(super) fn line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn echoes(&self) -> bool {
        self.echo
    }

    pub(super) fn time_limit(&self) -> Option<Duration> {
        self.timeout
    }

    pub(super) fn into_launch(self, id: u32) -> Launch {
        Launch {
            id,
            program: self.program,
            args: self.args,
            env: self.env,
            cwd: self.cwd,
            namespace: self.namespace,
            user: self.user,
            limits: self.limits,
            timeout_ms: self
                .timeout
                .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            terminal: self.terminal,
        }
    }
}

impl From<&Command> for Command {
    fn from(command: &Command) -> Self {
        command.clone()
    }
}
