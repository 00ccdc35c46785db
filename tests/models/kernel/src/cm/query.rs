//! What is known about an id.

use std::net::{IpAddr, SocketAddr};

use uverbs_core::error::Errno;
use uverbs_uapi::byte_order::{__be16, __be32};
use uverbs_uapi::ib_user_sa::{
    IB_PATH_BIDIRECTIONAL, IB_PATH_GMP, IB_PATH_PRIMARY, ib_user_path_rec,
};
use uverbs_uapi::rdma_user_cm::{
    RDMA_USER_CM_QUERY_ADDR, RDMA_USER_CM_QUERY_GID, RDMA_USER_CM_QUERY_IB_SERVICE,
    RDMA_USER_CM_QUERY_PATH, rdma_ucm_query, rdma_ucm_query_addr_resp, rdma_ucm_query_path_resp,
    rdma_ucm_query_route_resp,
};
use zerocopy::IntoBytes;

use super::ports::store;
use super::{Id, Phase};
use crate::device::{GIDS, GUID};
use crate::feature::Feature;
use crate::files::FileId;
use crate::state::State;

/// `AF_IB`.
const AF_IB: u16 = 27;
/// The index of the only device.
const DEVICE_INDEX: u32 = 0;
/// 4096 bytes, as the number of the specification.
const MTU: u32 = 5;
/// Flags, a reserved word, and a record of the wire.
const PATH_RECORD: usize = 72;
/// The path of messages in both directions.
const FLAGS: u32 = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;

fn gid_of(address: Option<SocketAddr>) -> [u8; 16] {
    match address.map(|address| address.ip()) {
        Some(IpAddr::V4(_)) => GIDS[1],
        Some(IpAddr::V6(_)) => GIDS[0],
        None => [0; 16],
    }
}

fn guid() -> u64 {
    u64::from_ne_bytes(GUID)
}

/// There are none on iWARP.
fn has_path(id: &Id, is_iwarp: bool) -> bool {
    !is_iwarp && matches!(id.phase, Phase::RouteResolved | Phase::Connect)
}

pub(super) fn route(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_query,
) -> Result<Vec<u8>, Errno> {
    let is_iwarp = state.cm.is_iwarp;
    let id = state.cm.id(file, request.id)?;
    let mut reply = rdma_ucm_query_route_resp::default();
    store(id.source, reply.src_addr.as_mut_bytes());
    store(id.destination, reply.dst_addr.as_mut_bytes());
    if id.has_device {
        reply.node_guid = guid();
        reply.port_num = 1;
        reply.ibdev_index = DEVICE_INDEX;
        reply.ib_route[0] = ib_user_path_rec {
            sgid: gid_of(id.source),
            dgid: gid_of(id.destination),
            ..ib_user_path_rec::default()
        };
    }
    if has_path(id, is_iwarp) {
        reply.num_paths = 1;
        let path = &mut reply.ib_route[0];
        path.mtu = MTU;
        path.pkey = __be16::new(0xffff);
        path.hop_limit = 64;
        path.traffic_class = id.tos;
        path.flow_label = __be32::new(0);
    }
    Ok(reply.as_bytes().to_vec())
}

/// # Errors
/// ENOSYS: an unknown option; ENOSPC: no room.
pub(super) fn query(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_query,
    room: usize,
) -> Result<Vec<u8>, Errno> {
    let knows_services = state.profile.has(Feature::CmEvents);
    let is_iwarp = state.cm.is_iwarp;
    let id = state.cm.id(file, request.id)?;
    match request.option {
        RDMA_USER_CM_QUERY_ADDR | RDMA_USER_CM_QUERY_GID => {
            // Up to the index of the device.
            if room < 276 {
                return Err(Errno::NOSPC);
            }
            Ok(addresses(id, request.option == RDMA_USER_CM_QUERY_GID)
                .as_bytes()
                .to_vec())
        }
        RDMA_USER_CM_QUERY_PATH => Ok(paths(id, room, is_iwarp)),
        RDMA_USER_CM_QUERY_IB_SERVICE if knows_services => Err(Errno::NODATA),
        _ => Err(Errno::NOSYS),
    }
}

fn addresses(id: &Id, as_gids: bool) -> rdma_ucm_query_addr_resp {
    let mut reply = rdma_ucm_query_addr_resp::default();
    if id.has_device {
        reply.node_guid = guid();
        reply.port_num = 1;
        // No partition key: Ethernet addresses have none.
        reply.ibdev_index = DEVICE_INDEX;
    }
    if !as_gids {
        reply.src_size = store(id.source, reply.src_addr.as_mut_bytes());
        reply.dst_size = store(id.destination, reply.dst_addr.as_mut_bytes());
        return reply;
    }
    let space = u64::from(id.space) << 16;
    let places = [
        (id.source, reply.src_addr.as_mut_bytes()),
        (id.destination, reply.dst_addr.as_mut_bytes()),
    ];
    for (address, room) in places {
        let port = address.map_or(0, |address| u64::from(address.port()));
        let mut bytes = AF_IB.to_ne_bytes().to_vec();
        bytes.extend(0xffff_u16.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(gid_of(address));
        bytes.extend((space | port).to_be_bytes());
        bytes.extend(u64::MAX.to_be_bytes());
        bytes.extend([0; 8]);
        for (to, from) in room.iter_mut().zip(bytes) {
            *to = from;
        }
    }
    (reply.src_size, reply.dst_size) = (48, 48);
    reply
}

fn paths(id: &Id, room: usize, is_iwarp: bool) -> Vec<u8> {
    let there = u32::from(has_path(id, is_iwarp));
    let head = rdma_ucm_query_path_resp {
        num_paths: there,
        reserved: 0,
    };
    let mut reply = head.as_bytes().to_vec();
    if there != 0 && room >= reply.len() + PATH_RECORD {
        reply.extend(FLAGS.to_ne_bytes());
        reply.extend([0; 4]);
        reply.extend([0; 8]);
        reply.extend(gid_of(id.destination));
        reply.extend(gid_of(id.source));
        reply.resize(head.as_bytes().len() + PATH_RECORD, 0);
    }
    reply
}
