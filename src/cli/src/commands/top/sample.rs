//! What the kernel says at one time about devices, ports and queues.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use uverbs::ErrorKind;
use uverbs::QpType;
use uverbs::discover::DeviceInfo;
use uverbs::discover::netlink::{Client, Counter, Device, Owner, Port, Resource, ResourceKind};
use uverbs::discover::sysfs::Sysfs;

use crate::failure::Result;

/// All devices at one time.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct Sample {
    /// Seconds since the program began.
    pub(super) time: f64,
    pub(super) source: Source,
    pub(super) devices: Vec<DeviceSample>,
}

/// What listed the devices.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Source {
    #[default]
    Netlink,
    /// Knows no queues.
    Sysfs,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct DeviceSample {
    pub(super) name: String,
    /// Objects of all processes by kind, as the kernel counts them.
    pub(super) objects: BTreeMap<String, u64>,
    pub(super) counters: BTreeMap<String, u64>,
    pub(super) ports: Vec<PortSample>,
    pub(super) queues: Vec<Queue>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct PortSample {
    pub(super) number: u32,
    pub(super) state: Option<String>,
    pub(super) netdev: Option<String>,
    pub(super) counters: BTreeMap<String, u64>,
}

/// A queue, or a memory region.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct Queue {
    /// `qp`, `cq`, `srq` or `mr`.
    pub(super) kind: String,
    pub(super) id: u32,
    pub(super) pid: Option<u32>,
    /// The name of the process, or of the part of the kernel.
    pub(super) owner: Option<String>,
    pub(super) port: Option<u32>,
    #[serde(rename = "type")]
    pub(super) qp_type: Option<String>,
    pub(super) state: Option<String>,
    /// Packet sequence number of the next packet to send.
    pub(super) send_psn: Option<u32>,
    /// Packet sequence number of the next packet expected.
    pub(super) receive_psn: Option<u32>,
    /// Entries of a completion queue.
    pub(super) entries: Option<u32>,
    /// Bytes of a memory region.
    pub(super) bytes: Option<u64>,
    /// How many objects use it.
    pub(super) users: Option<u64>,
}

const KINDS: [ResourceKind; 4] = [
    ResourceKind::QueuePair,
    ResourceKind::CompletionQueue,
    ResourceKind::SharedReceiveQueue,
    ResourceKind::MemoryRegion,
];

/// Where samples come from: netlink, and sysfs for what netlink does not have.
pub(super) struct Sampler {
    /// None if RDMA netlink does not answer here.
    client: Option<Client>,
    sysfs: Sysfs,
    start: Instant,
}

impl Sampler {
    pub(super) fn new() -> Self {
        Self {
            client: Client::connect().ok(),
            sysfs: Sysfs::new(),
            start: Instant::now(),
        }
    }

    /// Samples all devices, or the one named. A device that goes away meanwhile is left out.
    pub(super) fn take(&mut self, only: Option<&str>) -> Result<Sample> {
        let time = self.start.elapsed().as_secs_f64();
        let wanted = |name: &str| only.is_none_or(|only| only == name);
        let Some(client) = &mut self.client else {
            return Ok(Sample {
                time,
                source: Source::Sysfs,
                devices: uverbs::devices()?
                    .iter()
                    .filter(|device| wanted(device.name()))
                    .map(|device| by_sysfs(&self.sysfs, device.info()))
                    .collect(),
            });
        };
        let mut devices = Vec::new();
        for device in client.devices()? {
            if wanted(&device.name) {
                let sample = by_netlink(client, &self.sysfs, &device);
                devices.extend(gone_is_none(sample)?);
            }
        }
        Ok(Sample {
            time,
            source: Source::Netlink,
            devices,
        })
    }
}

fn by_netlink(client: &mut Client, sysfs: &Sysfs, device: &Device) -> uverbs::Result<DeviceSample> {
    let mut ports = Vec::new();
    for port in client.ports(device.index)? {
        ports.push(port_by_netlink(client, sysfs, device, port));
    }
    let mut queues = Vec::new();
    for kind in KINDS {
        match client.resources(device.index, kind) {
            Ok(found) => queues.extend(found.iter().map(|found| Queue::of(kind, found))),
            // Older kernels do not list every kind.
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let objects = client.summary(device.index)?.counts.into_iter().collect();
    Ok(DeviceSample {
        name: device.name.clone(),
        objects,
        counters: named(sysfs.device_counters(&device.name)),
        ports,
        queues,
    })
}

fn port_by_netlink(client: &mut Client, sysfs: &Sysfs, device: &Device, port: Port) -> PortSample {
    let mut counters = named(sysfs.counters(&device.name, port.number));
    // One answer instead of a file for each; sysfs where the driver or the kernel has none.
    let own = client.statistics(device.index, port.number);
    let own = own.or_else(|_| sysfs.hw_counters(&device.name, port.number));
    counters.extend(named(own));
    PortSample {
        number: port.number,
        state: port.state.map(|state| state.to_string()),
        netdev: port.netdev,
        counters,
    }
}

fn by_sysfs(sysfs: &Sysfs, info: &DeviceInfo) -> DeviceSample {
    let port = |number| {
        let mut counters = named(sysfs.counters(&info.name, number));
        counters.extend(named(sysfs.hw_counters(&info.name, number)));
        PortSample {
            number,
            counters,
            ..PortSample::default()
        }
    };
    DeviceSample {
        name: info.name.clone(),
        counters: named(sysfs.device_counters(&info.name)),
        ports: (1..=info.ports.unwrap_or(1)).map(port).collect(),
        ..DeviceSample::default()
    }
}

impl Queue {
    fn of(kind: ResourceKind, resource: &Resource) -> Self {
        let (pid, owner) = match &resource.owner {
            Owner::Process(pid) => (Some(*pid), name_of(*pid)),
            Owner::Kernel(name) => (None, Some(format!("[{name}]"))),
            _ => (None, None),
        };
        let qp = matches!(kind, ResourceKind::QueuePair);
        Self {
            kind: kind.name().to_owned(),
            id: resource.id.unwrap_or_default(),
            pid,
            owner,
            port: resource.port,
            qp_type: resource.kind.filter(|_| qp).map(type_name),
            state: resource
                .qp_state()
                .filter(|_| qp)
                .map(|state| state.to_string()),
            send_psn: resource.sq_psn,
            receive_psn: resource.rq_psn,
            entries: resource.cqe,
            bytes: resource.length,
            users: resource.users,
        }
    }
}

/// `enum ib_qp_type`: the kernel's own queue pairs have the two types below those of the verbs.
fn type_name(raw: u8) -> String {
    match raw {
        0 => "SMI".to_owned(),
        1 => "GSI".to_owned(),
        other => QpType::from_raw(other.into()).to_string(),
    }
}

fn name_of(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

fn named(counters: uverbs::Result<Vec<Counter>>) -> BTreeMap<String, u64> {
    let counters = counters.unwrap_or_default().into_iter();
    counters
        .map(|counter| (counter.name, counter.value))
        .collect()
}

/// The kernel answers with EINVAL for a device that is gone, and for a kind it does not list.
fn is_absent(error: &uverbs::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidInput
            | ErrorKind::NotFound
            | ErrorKind::DeviceRemoved
            | ErrorKind::Unsupported
    )
}

fn gone_is_none<T>(found: uverbs::Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
