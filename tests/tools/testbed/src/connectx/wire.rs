//! Two hosts: two functions, of which the second has, with its interface, a network namespace of
//! its own.

use std::time::Duration;

use super::{Connectx, Function};
use crate::{Command, Error, Guest};

/// What joins them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wire {
    /// RoCE.
    Ethernet,
    /// InfiniBand with a subnet administrator, and IP over it.
    InfiniBand,
}

/// Makes the second function, and its interface, another host's, and waits until its port is ready,
/// with a GID of its address.
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
    /// The functions that a machine needs, beside Debian's tools.
    pub fn functions(self) -> Connectx {
        match self {
            Self::Ethernet => Connectx::new(&[Function::Roce; 2]),
            Self::InfiniBand => Connectx::new(&[Function::Ib; 2]).subnet_administrator(),
        }
    }

    /// The addresses of the first host, which keeps the initial namespace, and of the other, whose
    /// programs are run by `ip netns exec b`.
    pub const fn addresses(self) -> [&'static str; 2] {
        match self {
            Self::Ethernet => ["10.2.0.1", "10.2.0.2"],
            Self::InfiniBand => ["10.3.0.1", "10.3.0.2"],
        }
    }

    /// Parts the hosts, and waits until both can be reached.
    ///
    /// # Errors
    /// A command that fails; an interface that is not up after ten seconds.
    pub fn part(self, guest: &Guest) -> Result<(), Error> {
        let script = match self {
            Self::Ethernet => ETHERNET,
            Self::InfiniBand => INFINIBAND,
        };
        let script = Command::shell(script).timeout(Duration::from_secs(60));
        guest.run(script)?.check().map(drop)
    }
}
