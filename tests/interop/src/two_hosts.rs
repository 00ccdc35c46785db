//! Two hosts: two functions of a software ConnectX, each in a network namespace of its own with its
//! interface.

use std::path::PathBuf;

use testbed::connectx::{Connectx, Function};
use testbed::{Child, Command, Error, Guest};

use crate::by_address::{PATIENCE, in_terminal, machine};

/// What joins them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wire {
    /// RoCE.
    Ethernet,
    /// InfiniBand with a subnet administrator, and IP over it.
    InfiniBand,
}

/// Makes the second function, and its interface, another host's, with its address.
const ETHERNET: &str = "set -e
eth=$(ls /sys/class/infiniband/mlx5_1/device/net)
rdma system set netns exclusive
ip netns add b
rdma dev set mlx5_1 netns b
ip link set $eth netns b
ip -n b addr add 10.2.0.2/24 dev $eth
ip -n b link set lo up
ip -n b link set $eth up
for i in $(seq 100); do
ip netns exec b sh -c 'grep -q 0a02:0002 /sys/class/infiniband/mlx5_1/ports/1/gids/*' && exit 0
sleep 0.1; done; exit 1";

/// The same, where the interface appears anew when the function has moved: on kernels since 6.17 in
/// its namespace, before in the first one. An interface is up once the subnet's administrator has
/// let it join the group of broadcasts.
const INFINIBAND: &str = "set -e
rdma system set netns exclusive
ip netns add b
rdma dev set mlx5_1 netns b
other=$(ip -n b -br link | grep -o '^ib[0-9]*' || true)
if [ -z \"$other\" ]; then other=ib1; ip link set ib1 netns b; fi
ip addr add 10.3.0.1/24 dev ib0
ip addr add fd00:3::1/64 dev ib0 nodad
ip link set ib0 up
ip -n b addr add 10.3.0.2/24 dev $other
ip -n b addr add fd00:3::2/64 dev $other nodad
ip -n b link set lo up
ip -n b link set $other up
for i in $(seq 100); do
ip -br link show ib0 | grep -q ' UP ' && ip -n b -br link show $other | grep -q ' UP ' && exit 0
sleep 0.1; done; exit 1";

impl Wire {
    fn connectx(self) -> Connectx {
        match self {
            Self::Ethernet => Connectx::new(&[Function::Roce; 2]),
            Self::InfiniBand => Connectx::new(&[Function::Ib; 2]).subnet_administrator(),
        }
    }

    /// A guest with both hosts, and these programs beside librdmacm's and the tool.
    ///
    /// # Errors
    /// What cannot be obtained, by name; a guest that does not boot; an interface that does not
    /// come up.
    pub fn boot(self, programs: &[(PathBuf, &str)]) -> Result<Guest, Error> {
        let mut machine = machine()?
            .connectx(self.connectx())
            .with_binary(testbed::cargo::tool()?, "uverbs");
        for (path, name) in programs {
            machine = machine.with_binary(path, name);
        }
        let guest = machine.boot()?;
        let apart = match self {
            Self::Ethernet => ETHERNET,
            Self::InfiniBand => INFINIBAND,
        };
        guest
            .run(Command::shell(apart).timeout(PATIENCE))?
            .check()?;
        Ok(guest)
    }

    fn address(self, host: Host) -> &'static str {
        match (self, host) {
            (Self::Ethernet, Host::A) => "10.2.0.1",
            (Self::Ethernet, Host::B) => "10.2.0.2",
            (Self::InfiniBand, Host::A) => "10.3.0.1",
            (Self::InfiniBand, Host::B) => "10.3.0.2",
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
