//! Software ConnectX functions for a machine: a server process of its own, a QEMU that can attach
//! them, and the devices they become.
//!
//! | function | becomes | network |
//! |---|---|---|
//! | [`Function::Ib`] | `mlx5_N`, port active, LID N + 1 | none |
//! | [`Function::Roce`] | `mlx5_N`, port active | its interface is up with 10.2.0.(N + 1)/24 and fd00:2::(N + 1)/64 |
//! | [`Function::EthRaw`] | `mlx5_N` | none |
//!
//! All interfaces are in the initial network namespace; RDMA traffic between two functions crosses
//! the model's switch.

mod qemu;
mod server;
mod wire;

pub(crate) use qemu::command as qemu;
pub use server::Server;
pub use wire::Wire;

use guest_init::{Device, Port};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

/// Name of the virtio port that is connected to the model's control socket.
pub(crate) const PORT_NAME: &str = "testbed.connectx";

/// Where programs in the guest find the model's control socket: write a line to ask, read a line
/// for the answer.
pub const GUEST_SOCKET: &str = "/dev/virtio-ports/testbed.connectx";

/// The control socket's answer to `reports` as long as no incorrect use was seen.
pub const NO_REPORTS: &str = "{}";

/// Kind of a software ConnectX function.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Function {
    /// InfiniBand port.
    Ib,
    /// Ethernet port with a network interface and RoCE.
    Roce,
    /// Ethernet port without a network interface: raw packets and DEVX only.
    EthRaw,
}

impl Function {
    /// The name on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ib => "ib",
            Self::Roce => "roce",
            Self::EthRaw => "eth-raw",
        }
    }

    fn port(self, number: u8) -> Port {
        match self {
            Self::Ib => Port::Infiniband(Vec::new()),
            Self::Roce => Port::Roce(vec![
                (Ipv4Addr::new(10, 2, 0, number).into(), 24),
                (
                    Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, number.into()).into(),
                    64,
                ),
            ]),
            Self::EthRaw => Port::Raw,
        }
    }
}

impl FromStr for Function {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Ib, Self::Roce, Self::EthRaw]
            .into_iter()
            .find(|function| function.name() == name)
            .ok_or_else(|| format!("{name:?} is none of ib, roce, eth-raw"))
    }
}

/// Functions for a machine, and how the model behaves. They are `mlx5_0`, `mlx5_1`, … in the guest.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the server"
)]
pub struct Connectx {
    functions: Vec<Function>,
    strict: bool,
    shaper: bool,
    blueflame: bool,
    umr: bool,
    odp: bool,
    signatures: bool,
    encryption: bool,
    extended_memory: bool,
    streams: bool,
    copies: bool,
    subnet_administrator: bool,
    ip_over_infiniband: bool,
    time_divisor: Option<u32>,
    adapter: Option<PathBuf>,
    trace: Option<PathBuf>,
}

impl Connectx {
    /// These functions, joined by one switch.
    pub fn new(functions: &[Function]) -> Self {
        Self {
            functions: functions.to_vec(),
            strict: false,
            shaper: false,
            blueflame: false,
            umr: false,
            odp: false,
            signatures: false,
            encryption: false,
            extended_memory: false,
            streams: false,
            copies: false,
            subnet_administrator: false,
            ip_over_infiniband: false,
            time_divisor: None,
            adapter: None,
            trace: None,
        }
    }

    /// The model, and with it the functions, ends at the first thing that a correct driver would
    /// not do.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Rate limits, bandwidth caps and shares take effect (10 Gb/s per port).
    #[must_use]
    pub fn shaper(mut self) -> Self {
        self.shaper = true;
        self
    }

    /// Doorbells may carry work requests.
    #[must_use]
    pub fn blueflame(mut self) -> Self {
        self.blueflame = true;
        self
    }

    /// The kernel registers memory by work requests instead of commands.
    #[must_use]
    pub fn umr(mut self) -> Self {
        self.umr = true;
        self
    }

    /// Pages of registered memory may be absent until they are needed; implies [`umr`](Self::umr).
    #[must_use]
    pub fn on_demand_paging(mut self) -> Self {
        self.odp = true;
        self
    }

    /// Memory keys may have signatures: integrity fields behind blocks of data.
    #[must_use]
    pub fn signatures(mut self) -> Self {
        self.signatures = true;
        self
    }

    /// What passes through memory keys may be encrypted.
    #[must_use]
    pub fn encryption(mut self) -> Self {
        self.encryption = true;
        self
    }

    /// Device memory has operations, and there is memory for steering by programs.
    #[must_use]
    pub fn extended_memory(mut self) -> Self {
        self.extended_memory = true;
        self
    }

    /// DC initiators have streams, which fail one by one.
    #[must_use]
    pub fn streams(mut self) -> Self {
        self.streams = true;
        self
    }

    /// Queue pairs copy local memory.
    #[must_use]
    pub fn copies(mut self) -> Self {
        self.copies = true;
        self
    }

    /// InfiniBand ports have a subnet manager, whose administrator answers queries.
    #[must_use]
    pub fn subnet_administrator(mut self) -> Self {
        self.subnet_administrator = true;
        self
    }

    /// The same; the first function also has IP over InfiniBand, with the address 10.3.0.1.
    #[must_use]
    pub fn ip_over_infiniband(mut self) -> Self {
        self.ip_over_infiniband = true;
        self.subnet_administrator()
    }

    /// Retry and RNR timers run this many times faster.
    #[must_use]
    pub fn time_divisor(mut self, divisor: u32) -> Self {
        self.time_divisor = Some(divisor);
        self
    }

    /// The functions claim no more than the adapter whose capabilities are in this folder
    /// (`cargo xtask report FILE --to FOLDER`).
    #[must_use]
    pub fn adapter(mut self, folder: impl Into<PathBuf>) -> Self {
        self.adapter = Some(folder.into());
        self
    }

    /// Every command, work request, completion and event is written as a JSON line to this file.
    #[must_use]
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.trace = Some(path.into());
        self
    }

    pub(crate) fn has_on_demand_paging(&self) -> bool {
        self.odp
    }

    pub(crate) fn has_subnet_administrator(&self) -> bool {
        self.subnet_administrator
    }

    /// The functions.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The devices that the guest has to wait for.
    pub(crate) fn devices(&self) -> Vec<Device> {
        let numbered = self.functions.iter().zip(0_u8..);
        let mut devices: Vec<_> = numbered
            .map(|(function, index)| Device {
                name: format!("mlx5_{index}"),
                port: function.port(index + 1),
            })
            .collect();
        if let (true, Some(first)) = (self.ip_over_infiniband, devices.first_mut()) {
            first.port = Port::Infiniband(vec![(Ipv4Addr::new(10, 3, 0, 1).into(), 24)]);
        }
        devices
    }

    /// The server's command line, without its folder.
    fn arguments(&self) -> Vec<String> {
        let mut words = Vec::new();
        for function in &self.functions {
            words.extend(["--function".into(), function.name().into()]);
        }
        for (wanted, flag) in [
            (self.strict, "--strict"),
            (self.shaper, "--shaper"),
            (self.blueflame, "--blueflame"),
            (self.umr, "--umr"),
            (self.odp, "--odp"),
            (self.signatures, "--signatures"),
            (self.encryption, "--encryption"),
            (self.extended_memory, "--extended-memory"),
            (self.streams, "--streams"),
            (self.copies, "--copies"),
            (self.subnet_administrator, "--subnet-administrator"),
        ] {
            if wanted {
                words.push(flag.into());
            }
        }
        if let Some(divisor) = self.time_divisor {
            words.extend(["--time-divisor".into(), divisor.to_string()]);
        }
        if let Some(adapter) = &self.adapter {
            words.extend(["--adapter".into(), adapter.display().to_string()]);
        }
        if let Some(trace) = &self.trace {
            words.extend(["--trace".into(), trace.display().to_string()]);
        }
        words
    }
}

impl<const N: usize> From<&[Function; N]> for Connectx {
    fn from(functions: &[Function; N]) -> Self {
        Self::new(functions)
    }
}

impl From<&[Function]> for Connectx {
    fn from(functions: &[Function]) -> Self {
        Self::new(functions)
    }
}

#[cfg(test)]
mod tests {
    use super::{Connectx, Function};
    use guest_init::Port;

    #[test]
    fn functions_have_names() {
        assert_eq!("eth-raw".parse(), Ok(Function::EthRaw));
        assert!("ethernet".parse::<Function>().is_err());
    }

    #[test]
    fn options_become_arguments_and_devices() {
        let connectx = Connectx::new(&[Function::Ib, Function::Roce])
            .shaper()
            .time_divisor(8)
            .adapter("/pages");
        assert_eq!(
            connectx.arguments().join(" "),
            "--function ib --function roce --shaper --time-divisor 8 --adapter /pages"
        );
        let devices = connectx.devices();
        assert_eq!(devices[1].name, "mlx5_1");
        let Port::Roce(addresses) = &devices[1].port else {
            unreachable!("{devices:?}")
        };
        assert_eq!(addresses[0], ("10.2.0.2".parse().unwrap(), 24));
    }
}
