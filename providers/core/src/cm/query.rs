//! What the kernel knows about an id.

use uverbs_uapi::ib_user_sa::{ib_path_rec_data, ib_user_path_rec, ib_user_service_rec};
use uverbs_uapi::rdma_user_cm::{
    RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_CMD_QUERY_ROUTE, RDMA_USER_CM_QUERY_ADDR,
    RDMA_USER_CM_QUERY_GID, RDMA_USER_CM_QUERY_IB_SERVICE, RDMA_USER_CM_QUERY_PATH, rdma_ucm_query,
    rdma_ucm_query_addr_resp, rdma_ucm_query_ib_service_resp, rdma_ucm_query_path_resp,
    rdma_ucm_query_route_resp,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

use super::CmAddress;
use super::issue::{Cm, UNWRITTEN, written};
use crate::error::{Op, Result};
use crate::file::CmFile;
use crate::types::{FlowLabel, Gid, Guid, Mtu, Rate};

/// How many records there is room for on the first try.
const RECORDS: usize = 4;
/// The most records that are asked for: the kernel has two paths at most, and as many services as a
/// reply can carry.
const MAX_RECORDS: usize = 256;

/// The device of an id.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct BoundDevice {
    /// Its GUID, which may be zero; a device that was removed and comes back has the same.
    pub node_guid: Guid,
    /// Its port.
    pub port: u8,
    /// Its index, by which netlink knows it: no two devices of a boot have the same.
    pub index: u32,
}

/// Addresses and path of an id.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Route {
    /// The device; `None` while the id is bound to none.
    pub device: Option<BoundDevice>,
    /// The local address; `None` while there is none, or if it is not an IP address.
    pub source: Option<CmAddress>,
    /// The peer's address.
    pub destination: Option<CmAddress>,
    /// The paths, at most two. Without a path the first still has the GIDs, if there is a device.
    pub paths: [Path; 2],
    /// How many of the paths are resolved: 0 to 2.
    pub path_count: usize,
}

/// A path between two ports.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Path {
    /// The peer's GID.
    pub destination: Gid,
    /// The local GID.
    pub source: Gid,
    /// The peer's LID; 0 on Ethernet.
    pub dlid: u16,
    /// The local LID; 0 on Ethernet.
    pub slid: u16,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Largest payload of a packet.
    pub mtu: Mtu,
    /// Partition key.
    pub pkey: u16,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
    /// Rate.
    pub rate: Rate,
    /// How long a packet lives, 4.096 µs · 2^n.
    pub packet_life_time: u8,
}

/// Local and peer's address, or GID.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Addresses {
    /// The device; `None` while the id is bound to none.
    pub device: Option<BoundDevice>,
    /// Partition key.
    pub pkey: u16,
    /// The local one.
    pub source: Option<CmAddress>,
    /// The peer's.
    pub destination: Option<CmAddress>,
}

/// A path record as the subnet administrator sends it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct PathRecord {
    /// What it is for: `IB_PATH_*` of `rdma/ib_user_sa.h`.
    pub flags: u32,
    /// The record.
    pub record: [u8; 64],
}

impl PathRecord {
    pub(super) fn to_raw(self) -> ib_path_rec_data {
        ib_path_rec_data {
            flags: self.flags,
            reserved: 0,
            path_rec: transmute!(self.record),
        }
    }
}

/// A service record of the subnet administrator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Service {
    /// The service.
    pub service_id: u64,
    /// Where it is.
    pub gid: Gid,
    /// Partition key.
    pub pkey: u16,
    /// Seconds until it has to be renewed.
    pub lease_seconds: u32,
    /// Its name, padded with zeros.
    pub name: [u8; 64],
}

/// Device, addresses and paths of an id in one system call, which does not wait. Works in every
/// state, for IP addresses.
///
/// # Errors
/// ENOENT: there is no such id. EINVAL: it belongs to another file.
/// [`DeviceRemoved`](crate::ErrorKind::DeviceRemoved).
#[doc(alias = "rdma_get_local_addr")]
#[doc(alias = "rdma_get_peer_addr")]
#[doc(alias = "rdma_get_src_port")]
#[doc(alias = "rdma_get_dst_port")]
pub fn query_route(file: &CmFile, id: u32) -> Result<Route> {
    let op = Op::CmQuery;
    let request = rdma_ucm_query {
        response: 0,
        id,
        option: 0,
    };
    let reply = rdma_ucm_query_route_resp {
        num_paths: UNWRITTEN,
        ..rdma_ucm_query_route_resp::default()
    };
    let reply = Cm::new(op, RDMA_USER_CM_CMD_QUERY_ROUTE)
        .call(file, &request, reply)
        .map_err(|error| error.fact("id", id))?;
    let count = written(op, reply.num_paths, "no number of paths")?;
    Ok(Route {
        device: device(reply.node_guid, reply.port_num, reply.ibdev_index),
        source: CmAddress::from_in6(&reply.src_addr),
        destination: CmAddress::from_in6(&reply.dst_addr),
        paths: reply.ib_route.map(|path| path_of(&path)),
        path_count: usize::try_from(count).unwrap_or(usize::MAX).min(2),
    })
}

/// The addresses of an id, of any family. One system call, which does not wait.
///
/// # Errors
/// As [`query_route`].
pub fn query_addresses(file: &CmFile, id: u32) -> Result<Addresses> {
    addresses(file, id, RDMA_USER_CM_QUERY_ADDR)
}

/// The GIDs of an id, as [`CmAddress::Ib`]. One system call, which does not wait.
///
/// # Errors
/// As [`query_route`].
pub fn query_gids(file: &CmFile, id: u32) -> Result<Addresses> {
    addresses(file, id, RDMA_USER_CM_QUERY_GID)
}

fn addresses(file: &CmFile, id: u32, option: u32) -> Result<Addresses> {
    let op = Op::CmQuery;
    let request = rdma_ucm_query {
        response: 0,
        id,
        option,
    };
    let reply = rdma_ucm_query_addr_resp {
        src_size: u16::MAX,
        ..rdma_ucm_query_addr_resp::default()
    };
    let reply = Cm::new(op, RDMA_USER_CM_CMD_QUERY)
        .call(file, &request, reply)
        .map_err(|error| error.fact("id", id))?;
    if reply.src_size == u16::MAX {
        written(op, UNWRITTEN, "no addresses")?;
    }
    Ok(Addresses {
        device: device(reply.node_guid, reply.port_num, reply.ibdev_index),
        pkey: u16::from_be(reply.pkey),
        source: CmAddress::from_storage(&reply.src_addr),
        destination: CmAddress::from_storage(&reply.dst_addr),
    })
}

/// The path records of an id, as the subnet administrator sent them. One system call, which does
/// not wait; a second one if there are more than four.
///
/// # Errors
/// As [`query_route`].
pub fn query_paths(file: &CmFile, id: u32) -> Result<Vec<PathRecord>> {
    let records = records::<rdma_ucm_query_path_resp, ib_path_rec_data>(
        file,
        id,
        RDMA_USER_CM_QUERY_PATH,
        |head| head.num_paths,
    )?;
    let record = |raw: &ib_path_rec_data| PathRecord {
        flags: raw.flags,
        record: transmute!(raw.path_rec),
    };
    Ok(records.iter().map(record).collect())
}

/// The service records that [`resolve_service`](super::resolve_service) found. One system call,
/// which does not wait; a second one if there are more than four. Newer than Linux 6.12.
///
/// # Errors
/// As [`query_route`]. ENODATA: none. ENOSYS ([`Unsupported`](crate::ErrorKind::Unsupported)): an
/// older kernel.
pub fn query_services(file: &CmFile, id: u32) -> Result<Vec<Service>> {
    let records = records::<rdma_ucm_query_ib_service_resp, ib_user_service_rec>(
        file,
        id,
        RDMA_USER_CM_QUERY_IB_SERVICE,
        |head| head.num_service_recs,
    )?;
    let service = |raw: &ib_user_service_rec| Service {
        service_id: raw.id.get(),
        gid: Gid::from_bytes(raw.gid),
        pkey: raw.pkey.get(),
        lease_seconds: raw.lease.get(),
        name: raw.name,
    };
    Ok(records.iter().map(service).collect())
}

/// Queries a list of unknown length: the kernel writes as many records as there is room for, and
/// the true number.
fn records<H, R>(file: &CmFile, id: u32, option: u32, count: fn(&H) -> u32) -> Result<Vec<R>>
where
    H: FromBytes + IntoBytes + Immutable,
    R: FromBytes + IntoBytes + Immutable,
{
    let op = Op::CmQuery;
    let request = rdma_ucm_query {
        response: 0,
        id,
        option,
    };
    let mut room = RECORDS;
    loop {
        let mut reply = vec![0_u8; size_of::<H>() + room * size_of::<R>()];
        // The first field of both heads is the number.
        let (number, _) = reply.split_at_mut(4);
        number.copy_from_slice(&UNWRITTEN.to_ne_bytes());
        let place = crate::sys::slice_cells(&mut reply);
        Cm::new(op, RDMA_USER_CM_CMD_QUERY)
            .send(file, request.as_bytes(), place, &[])
            .map_err(|error| error.fact("id", id))?;
        let (head, rest) =
            H::read_from_prefix(&reply).map_err(|_| crate::Error::bad_reply(op, "too short"))?;
        let there = written(op, count(&head), "no number of records")? as usize;
        if there > room && room < MAX_RECORDS {
            room = there.min(MAX_RECORDS);
            continue;
        }
        let records = rest
            .chunks_exact(size_of::<R>())
            .take(there)
            .filter_map(|bytes| R::read_from_bytes(bytes).ok())
            .collect();
        return Ok(records);
    }
}

/// Ports are numbered from 1.
fn device(node_guid: u64, port: u8, index: u32) -> Option<BoundDevice> {
    (port != 0).then(|| BoundDevice {
        node_guid: Guid::from_bytes(node_guid.to_ne_bytes()),
        port,
        index,
    })
}

fn path_of(raw: &ib_user_path_rec) -> Path {
    Path {
        destination: Gid::from_bytes(raw.dgid),
        source: Gid::from_bytes(raw.sgid),
        dlid: raw.dlid.get(),
        slid: raw.slid.get(),
        flow_label: FlowLabel::from_raw(raw.flow_label.get()),
        mtu: Mtu::from_raw(u8::try_from(raw.mtu).unwrap_or(u8::MAX)),
        pkey: raw.pkey.get(),
        hop_limit: raw.hop_limit,
        traffic_class: raw.traffic_class,
        sl: raw.sl,
        rate: Rate::from_raw(raw.rate),
        packet_life_time: raw.packet_life_time,
    }
}
