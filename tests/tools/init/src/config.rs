//! The configuration that a guest sets up when it boots.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Where the configuration is in the guest.
pub const CONFIG_PATH: &str = "/etc/testbed.json";

/// Name of the virtio port that carries the frames.
pub const PORT_NAME: &str = "testbed.control";

/// Where the guest finds virtio ports by their names.
pub const PORT_FOLDER: &str = "/dev/virtio-ports";

/// The argument that makes process 1 print that it runs, and end the machine.
pub const PROBE: &str = "probe";

/// What it prints then.
pub const PROBED: &str = "testbed: process 1 runs";

/// What process 1 does before it reports that it is ready.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Config {
    /// Kernel modules, in the order in which they are loaded.
    pub modules: Vec<ModuleFile>,
    /// Network devices and rxe devices to set up.
    pub topology: Topology,
    /// Devices provided by the machine's PCI functions, in their order.
    #[serde(default)]
    pub devices: Vec<Device>,
}

/// A verbs device provided by a PCI function, and what process 1 waits for before it reports that
/// it is ready.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Device {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// The kind of its port.
    pub port: Port,
}

/// The kind of a device's port.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Port {
    /// Nothing to wait for.
    Raw,
    /// It becomes active without further setup. If there are addresses, they are those of its
    /// interface with IP over InfiniBand, which is brought up.
    Infiniband(Vec<(IpAddr, u8)>),
    /// It has a network interface, which gets these addresses (with prefix lengths) and is brought
    /// up.
    Roce(Vec<(IpAddr, u8)>),
}

/// A kernel module to load.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ModuleFile {
    /// Path of its file in the guest.
    pub path: String,
    /// Its parameters, as `insmod` takes them.
    pub parameters: String,
    /// Whether the guest is unusable without it.
    pub required: bool,
}

/// The network of a guest.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Topology {
    /// Only the loopback interface.
    Bare,
    /// One host: `v0` (10.1.0.1/24, fd00:1::1/64) and its other end `v1` (no address), `rxe0` on
    /// `v0`.
    #[default]
    OneHost,
    /// Two hosts: namespace `a` with `v0` (10.1.0.1/24, fd00:1::1/64) and `rxe_a`; namespace `b`
    /// with `v1` (10.1.0.2/24, fd00:1::2/64) and `rxe_b`.
    ///
    /// Both see both devices: no kernel up to 7.2 can give an rxe device to a network namespace.
    /// With kernels whose rxe sends and receives only in the initial namespace (before 7.1), both
    /// interfaces stay in that one; packets between the two devices still cross the wire between
    /// `v0` and `v1`, by routing rules bound to the device.
    TwoHosts,
}
