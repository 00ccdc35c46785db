//! Multicast groups.

use std::net::{IpAddr, SocketAddr};

use uverbs_core::error::Errno;
use uverbs_uapi::rdma_user_cm::{
    rdma_ucm_destroy_id, rdma_ucm_join_ip_mcast, rdma_ucm_join_mcast, rdma_ucm_ud_param,
};
use zerocopy::IntoBytes;

use super::event::{kind, param, push, record};
use super::ports::parse;
use super::request::way_to;
use super::{Join, Phase};
use crate::files::FileId;
use crate::state::{Owner, State};
use crate::waiting::Event;

/// `ENOTSUPP` of the kernel, which has no name outside.
const NOT_SUPPORTED: i32 = 524;
/// The queue pair number of multicast messages.
const MULTICAST_QPN: u32 = 0x00ff_ffff;
/// `RDMA_MC_JOIN_FLAG_RESERVED`.
const RESERVED: u16 = 2;

pub(super) fn join_ip(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_join_ip_mcast,
) -> Result<u32, Errno> {
    let group = parse(request.addr.as_bytes(), None)?;
    join_group(state, file, request.id, request.uid, group)
}

pub(super) fn join(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_join_mcast,
) -> Result<u32, Errno> {
    let group = parse(request.addr.as_bytes(), Some(request.addr_size))?;
    if request.join_flags >= RESERVED {
        return Err(Errno::INVAL);
    }
    join_group(state, file, request.id, request.uid, group)
}

/// # Errors
/// EINVAL: not for datagrams, no device or another state; ENOTSUPP: IPv6, on RoCE v2.
fn join_group(
    state: &mut State,
    file: FileId,
    id: u32,
    uid: u64,
    group: SocketAddr,
) -> Result<u32, Errno> {
    let found = state.cm.bound(file, id)?;
    let fits = matches!(found.phase, Phase::Bound | Phase::AddressResolved);
    if !fits || !found.datagram {
        return Err(Errno::INVAL);
    }
    let IpAddr::V4(ip) = group.ip() else {
        return Err(Errno::from_raw_os_error(NOT_SUPPORTED));
    };
    let joins = &mut state.cm.joins;
    let number = (0..u32::MAX).find(|number| !joins.contains_key(number));
    let number = number.ok_or(Errno::NOMEM)?;
    joins.insert(number, Join { id, reported: 0 });
    let group = rdma_ucm_ud_param {
        qp_num: MULTICAST_QPN,
        qkey: super::qp::QKEY,
        ah_attr: way_to(ip.to_ipv6_mapped().octets()),
        ..rdma_ucm_ud_param::default()
    };
    if uid != 0 {
        let event = record(uid, number, kind::MULTICAST_JOIN, 0, &param(&group), (0, 0));
        push(state, file, Owner::Join(number), &event);
    }
    Ok(number)
}

pub(super) fn leave(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_destroy_id,
) -> Result<u32, Errno> {
    let id = state.cm.joins.get(&request.id).ok_or(Errno::NOENT)?.id;
    if state.cm.ids.get(&id).map(|found| found.file) != Some(file) {
        return Err(Errno::INVAL);
    }
    for file in state.files.iter_mut() {
        let is_its = |event: &Event| event.owner == Some(Owner::Join(request.id));
        file.waiting.remove(is_its);
    }
    let left = state.cm.joins.remove(&request.id);
    Ok(left.map_or(0, |join| join.reported))
}
