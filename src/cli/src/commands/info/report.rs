//! What is known about a device, in the shape of its JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use uverbs::attr::PortAttr;
use uverbs::discover::{netlink, sysfs::Sysfs};
use uverbs::gid::{GidEntry, GidType};
use uverbs::{Context, ErrorKind};

use super::mlx5::Mlx5Report;
use crate::failure::Result;

#[derive(Debug, Serialize)]
pub(super) struct DeviceReport {
    pub(super) name: String,
    pub(super) node: Option<String>,
    pub(super) driver: Option<String>,
    pub(super) abi_version: Option<u32>,
    /// What is on the wire: `roce`, `infiniband`, `iwarp`.
    pub(super) protocol: Option<String>,
    /// `ibv_transport_type`, which is InfiniBand for `RoCE`, too.
    pub(super) transport: Option<String>,
    pub(super) node_type: Option<String>,
    pub(super) firmware: String,
    pub(super) node_guid: String,
    pub(super) sys_image_guid: String,
    pub(super) node_description: Option<String>,
    pub(super) board_id: Option<String>,
    pub(super) vendor_id: u32,
    pub(super) vendor_part_id: u32,
    pub(super) hardware_version: u32,
    pub(super) completion_vectors: u32,
    /// `IBV_DEVICE_*` without the prefix.
    pub(super) capabilities: Vec<String>,
    pub(super) capability_bits: u64,
    pub(super) atomics: String,
    /// Sizes and counts, under their C names.
    pub(super) limits: Vec<Limit>,
    pub(super) on_demand_paging: Odp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mlx5: Option<Mlx5Report>,
    /// Objects of all processes that exist now.
    pub(super) in_use: BTreeMap<String, u64>,
    pub(super) counters: BTreeMap<String, u64>,
    pub(super) ports: Vec<PortReport>,
}

/// A number that the device guarantees.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct Limit {
    pub(super) name: &'static str,
    pub(super) value: u64,
    pub(super) unit: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(super) struct Odp {
    pub(super) general: String,
    pub(super) rc: String,
    pub(super) uc: String,
    pub(super) ud: String,
    pub(super) xrc: String,
}

#[derive(Debug, Serialize)]
pub(super) struct PortReport {
    pub(super) number: u8,
    pub(super) state: String,
    pub(super) physical_state: String,
    pub(super) link_layer: String,
    pub(super) netdev: Option<String>,
    pub(super) max_mtu: Option<u32>,
    pub(super) active_mtu: Option<u32>,
    pub(super) width: String,
    pub(super) lane_speed: String,
    pub(super) gbps: Option<f64>,
    pub(super) lid: u16,
    pub(super) lmc: u8,
    pub(super) sm_lid: u16,
    pub(super) sm_sl: u8,
    pub(super) max_message_bytes: u32,
    pub(super) virtual_lanes: String,
    pub(super) subnet_timeout: u8,
    pub(super) init_type_reply: u8,
    pub(super) bad_pkeys: u32,
    pub(super) qkey_violations: u32,
    pub(super) capabilities: Vec<String>,
    pub(super) capabilities2: Vec<String>,
    pub(super) global_route_required: bool,
    pub(super) gid_table_size: u32,
    pub(super) pkey_table_size: u16,
    pub(super) gids: Vec<Address>,
    pub(super) pkeys: Vec<Pkey>,
    pub(super) counters: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Address {
    pub(super) index: u32,
    pub(super) gid: String,
    pub(super) ip: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) netdev: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Pkey {
    pub(super) index: u16,
    pub(super) pkey: u16,
}

impl DeviceReport {
    /// Queries what is shown. What only netlink or sysfs knows is left out if they do not answer.
    /// Without `verbose`, partition keys, objects in use and counters are not queried: each takes
    /// three system calls or more.
    pub(super) fn of(
        context: &Context,
        only: Option<u8>,
        mut netlink: Option<&mut netlink::Client>,
        verbose: bool,
    ) -> Result<Self> {
        let info = context.info();
        let attr = context.device_attr();
        let sysfs = Sysfs::new();
        let gids = context.gid_table()?;
        let ports = match only {
            Some(port) => vec![port],
            None => (1..=attr.phys_port_cnt).collect(),
        };
        let ports = ports
            .into_iter()
            .map(|port| PortReport::of(context, port, &gids, netlink.as_deref_mut(), verbose))
            .collect::<Result<Vec<_>>>()?;
        let in_use = match (netlink, info.index) {
            (Some(client), Some(index)) if verbose => client.summary(index).ok(),
            _ => None,
        };
        Ok(Self {
            name: info.name.clone(),
            node: info.path.as_ref().map(|path| path.display().to_string()),
            driver: info.driver_id().map(|driver| driver.to_string()),
            abi_version: info.abi_version,
            protocol: protocol(context, &ports),
            transport: info
                .node_type
                .and_then(uverbs::attr::NodeType::transport)
                .map(|transport| transport.to_string()),
            node_type: info.node_type.map(|kind| kind.to_string()),
            firmware: context.firmware_version(),
            node_guid: attr.node_guid.to_string(),
            sys_image_guid: attr.sys_image_guid.to_string(),
            node_description: sysfs.node_desc(&info.name).ok().flatten(),
            board_id: sysfs.board_id(&info.name).ok().flatten(),
            vendor_id: attr.vendor_id,
            vendor_part_id: attr.vendor_part_id,
            hardware_version: attr.hw_ver,
            completion_vectors: context.completion_vectors(),
            capabilities: identifiers(attr.caps),
            capability_bits: attr.caps.bits(),
            atomics: attr.atomic_cap.to_string(),
            limits: super::limits::of(attr),
            on_demand_paging: Odp {
                general: attr.odp.general.to_string(),
                rc: attr.odp.rc.to_string(),
                uc: attr.odp.uc.to_string(),
                ud: attr.odp.ud.to_string(),
                xrc: attr.odp.xrc.to_string(),
            },
            mlx5: Mlx5Report::of(context),
            in_use: in_use
                .map(|summary| summary.counts.into_iter().collect())
                .unwrap_or_default(),
            counters: if verbose {
                counters(sysfs.device_counters(&info.name))
            } else {
                BTreeMap::new()
            },
            ports,
        })
    }
}

impl PortReport {
    fn of(
        context: &Context,
        number: u8,
        gids: &[GidEntry],
        netlink: Option<&mut netlink::Client>,
        verbose: bool,
    ) -> Result<Self> {
        let info = context.info();
        let attr = context.query_port(number)?;
        let port = match (netlink, info.index) {
            (Some(client), Some(index)) => client.port(index, number.into()).ok(),
            _ => None,
        };
        let (netdev, netdev_index) =
            port.map_or((None, None), |port| (port.netdev, port.netdev_index));
        let mut interfaces = Interfaces::of_port(netdev_index, netdev.as_deref());
        let gids = gids
            .iter()
            .filter(|entry| entry.port == u32::from(number))
            .map(|entry| Address {
                index: entry.index,
                gid: entry.gid.to_string(),
                ip: entry.gid.to_ip().to_string(),
                kind: entry.gid_type.to_string(),
                netdev: interfaces.name_of(context, entry),
            })
            .collect();
        let mut port = Self {
            number,
            netdev,
            gids,
            ..Self::of_attr(&attr)
        };
        if verbose {
            let sysfs = Sysfs::new();
            port.pkeys = pkeys(context, number, &attr)?;
            port.counters = counters(sysfs.counters(&info.name, number.into()));
            let others = counters(sysfs.hw_counters(&info.name, number.into()));
            port.counters.extend(others);
        }
        Ok(port)
    }

    fn of_attr(attr: &PortAttr) -> Self {
        Self {
            number: 0,
            state: attr.state.to_string(),
            physical_state: attr.phys_state.to_string(),
            link_layer: attr.link_layer.to_string(),
            netdev: None,
            max_mtu: attr.max_mtu.bytes(),
            active_mtu: attr.active_mtu.bytes(),
            width: attr.active_width.to_string(),
            lane_speed: attr.active_speed.to_string(),
            gbps: attr.link_gbps(),
            lid: attr.lid,
            lmc: attr.lmc,
            sm_lid: attr.sm_lid,
            sm_sl: attr.sm_sl,
            max_message_bytes: attr.max_msg_sz,
            virtual_lanes: attr.max_vl_num.to_string(),
            subnet_timeout: attr.subnet_timeout,
            init_type_reply: attr.init_type_reply,
            bad_pkeys: attr.bad_pkey_cntr,
            qkey_violations: attr.qkey_viol_cntr,
            capabilities: identifiers(attr.caps),
            capabilities2: identifiers(attr.caps2),
            global_route_required: attr.needs_grh(),
            gid_table_size: attr.gid_tbl_len,
            pkey_table_size: attr.pkey_tbl_len,
            gids: Vec::new(),
            pkeys: Vec::new(),
            counters: BTreeMap::new(),
        }
    }
}

/// The names of network interfaces that GIDs belong to, each asked for once.
struct Interfaces(BTreeMap<u32, Option<String>>);

impl Interfaces {
    /// Knows the port's own.
    fn of_port(index: Option<u32>, name: Option<&str>) -> Self {
        let own = index.zip(name.map(|name| Some(name.to_owned())));
        Self(own.into_iter().collect())
    }

    fn name_of(&mut self, context: &Context, entry: &GidEntry) -> Option<String> {
        let query = || context.netdev_name(entry).ok().flatten();
        match entry.netdev {
            Some(index) => self.0.entry(index.into()).or_insert_with(query).clone(),
            None if entry.gid_type == GidType::Ib => None,
            None => query(),
        }
    }
}

/// The partition keys in use. Without sysfs they are not available.
fn pkeys(context: &Context, port: u8, attr: &PortAttr) -> Result<Vec<Pkey>> {
    let mut keys = Vec::new();
    for index in 0..attr.pkey_tbl_len {
        match context.pkey(port, index) {
            Ok(0) => {}
            Ok(pkey) => keys.push(Pkey { index, pkey }),
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(keys)
}

/// What is on the wire: as netlink says, else by the link layer below InfiniBand's transport.
fn protocol(context: &Context, ports: &[PortReport]) -> Option<String> {
    let info = context.info();
    if info.protocol.is_some() {
        return info.protocol.clone();
    }
    let transport = info.node_type?.transport()?.to_string();
    let ethernet = ports.iter().any(|port| port.link_layer == "ethernet");
    Some(if transport == "infiniband" && ethernet {
        "roce".to_owned()
    } else {
        transport
    })
}

/// The names of a set of flags as identifiers: those of the C constants, without their prefix.
fn identifiers(flags: impl std::fmt::Display) -> Vec<String> {
    let text = flags.to_string();
    if text == "none" {
        return Vec::new();
    }
    text.split(", ").map(identifier).collect()
}

fn identifier(name: &str) -> String {
    name.replace([' ', '-', '/'], "_").to_uppercase()
}

fn counters(read: uverbs::Result<Vec<netlink::Counter>>) -> BTreeMap<String, u64> {
    read.unwrap_or_default()
        .into_iter()
        .map(|counter| (counter.name, counter.value))
        .collect()
}
