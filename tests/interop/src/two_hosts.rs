//! Two hosts: two functions of a software ConnectX, each in a network namespace of its own with its
//! interface.

use std::path::PathBuf;

pub use testbed::connectx::Wire;
use testbed::{Child, Command, Error, Guest};

use crate::by_address::{PATIENCE, in_terminal, machine};

/// The two hosts that a wire joins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hosts(pub Wire);

impl Hosts {
    /// A guest with both hosts, and these programs beside librdmacm's and the tool.
    ///
    /// # Errors
    /// What cannot be obtained, by name; a guest that does not boot; an interface that does not
    /// come up.
    pub fn boot(self, programs: &[(PathBuf, &str)]) -> Result<Guest, Error> {
        let mut machine = machine()?
            .connectx(self.0.functions())
            .with_binary(testbed::cargo::tool()?, "uverbs");
        for (path, name) in programs {
            machine = machine.with_binary(path, name);
        }
        let guest = machine.boot()?;
        self.0.part(&guest)?;
        Ok(guest)
    }

    fn address(self, host: Host) -> &'static str {
        let [a, b] = self.0.addresses();
        match host {
            Host::A => a,
            Host::B => b,
        }
    }

    /// A program on a host, whose output comes line by line.
    pub fn on(self, host: Host, (program, arguments): Program<'_>) -> Command {
        let arguments = self.addressed(host, arguments);
        host.command(program, &arguments.split_whitespace().collect::<Vec<_>>())
    }

    /// A line of a shell on a host.
    pub fn shell(self, host: Host, line: &str) -> Command {
        host.command("sh", &["-c", &self.addressed(host, line)])
    }

    fn addressed(self, host: Host, words: &str) -> String {
        let words = words.replace("THERE_GID", host.other().gid());
        let words = words.replace("HERE_GID", host.gid());
        let words = words.replace("THERE", self.address(host.other()));
        words.replace("HERE", self.address(host))
    }

    /// Starts a server on a host and waits until it says `ready`, and runs a client on the other.
    /// Returns what both said.
    ///
    /// # Errors
    /// A side that fails, or does not end, with what both said.
    pub fn both(
        self,
        guest: &Guest,
        at: Host,
        server: Program<'_>,
        ready: &str,
        client: Program<'_>,
    ) -> Result<String, String> {
        let failed = |error: Error| format!("{server:?} and {client:?}: {error}");
        let waiting: Child = guest.spawn(self.on(at, server)).map_err(failed)?;
        waiting.wait_for_text(ready, PATIENCE).map_err(failed)?;
        let ended = guest.run(self.on(at.other(), client)).map_err(failed)?;
        let waiting = waiting.wait().map_err(failed)?;
        let said = format!("{}{}", waiting.stdout_text(), ended.stdout_text());
        for side in [waiting, ended] {
            side.check()
                .map_err(|error| format!("{}: {said}", failed(error)))?;
        }
        Ok(said)
    }
}

/// A host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Host {
    /// With `mlx5_0`.
    A,
    /// With `mlx5_1`.
    B,
}

impl Host {
    /// Both.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// The one that it talks to.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// The identifier of its InfiniBand port.
    #[must_use]
    pub const fn gid(self) -> &'static str {
        match self {
            Self::A => "fe80::2:c903:c0:0",
            Self::B => "fe80::2:c903:c0:100",
        }
    }

    /// A program on this host, whose output comes line by line.
    fn command(self, program: &str, arguments: &[&str]) -> Command {
        match self {
            Self::A => in_terminal(program, arguments),
            Self::B => {
                let arguments = [&["netns", "exec", "b", program], arguments].concat();
                in_terminal("ip", &arguments)
            }
        }
    }
}

/// A program with its arguments, of which `HERE` is its host's address, and `THERE` the other's;
/// `HERE_GID` and `THERE_GID` are those of their InfiniBand ports.
pub type Program<'a> = (&'a str, &'a str);
