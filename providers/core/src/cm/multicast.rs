//! Multicast groups.

use uverbs_uapi::rdma_user_cm::{
    RDMA_MC_JOIN_FLAG_FULLMEMBER, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
    RDMA_USER_CM_CMD_JOIN_IP_MCAST, RDMA_USER_CM_CMD_JOIN_MCAST, RDMA_USER_CM_CMD_LEAVE_MCAST,
    rdma_ucm_create_id_resp, rdma_ucm_destroy_id, rdma_ucm_destroy_id_resp, rdma_ucm_join_ip_mcast,
    rdma_ucm_join_mcast,
};

use super::CmAddress;
use super::id::check_uid;
use super::issue::{Cm, UNWRITTEN, written};
use crate::error::{Error, Op, Result};
use crate::file::CmFile;

/// How to be a member of a group.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum MulticastJoin {
    /// Receives what is sent to the group, and may send.
    #[default]
    Full,
    /// Sends only.
    SendOnly,
}

/// `rdma_join_multicast_ex`—joins a group; returns the number of the join, which is not an id.
///
/// The event [`MulticastJoin`](super::EventKind::MulticastJoin) follows, with `uid` and the number
/// of the join; its [datagram parameters](super::Event::datagram) have the way to the group. One
/// system call, which does not wait.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): `uid` is 0. EINVAL: the id is not for
/// datagrams, or has no address. ENOTSUPP: an IPv6 group on RoCE v2. ENOENT: there is no such id.
#[doc(alias = "rdma_join_multicast")]
#[doc(alias = "rdma_join_multicast_ex")]
pub fn join_multicast(
    file: &CmFile,
    id: u32,
    uid: u64,
    group: CmAddress,
    join: MulticastJoin,
) -> Result<u32> {
    let op = Op::CmJoinMulticast;
    check_uid(op, uid)?;
    let flags = match join {
        MulticastJoin::Full => RDMA_MC_JOIN_FLAG_FULLMEMBER,
        MulticastJoin::SendOnly => RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
    };
    let (addr, addr_size) = group.to_storage();
    let request = rdma_ucm_join_mcast {
        response: 0,
        uid,
        id,
        addr_size,
        join_flags: u16::try_from(flags).map_err(|_| Error::invalid(op, "join"))?,
        addr,
    };
    let reply = rdma_ucm_create_id_resp { id: UNWRITTEN };
    let reply = Cm::new(op, RDMA_USER_CM_CMD_JOIN_MCAST)
        .call(file, &request, reply)
        .map_err(|error| explain(error, id, group))?;
    written(op, reply.id, "no number of the join")
}

/// [`join_multicast`] as a full member by the older command, which takes IP addresses only. Kernels
/// have both.
///
/// # Errors
/// As [`join_multicast`]; [`Unsupported`](crate::ErrorKind::Unsupported) for another family, before
/// the system call.
pub fn join_multicast_ip(file: &CmFile, id: u32, uid: u64, group: CmAddress) -> Result<u32> {
    let op = Op::CmJoinMulticast;
    check_uid(op, uid)?;
    let request = rdma_ucm_join_ip_mcast {
        response: 0,
        uid,
        addr: group.to_in6(op)?,
        id,
    };
    let reply = rdma_ucm_create_id_resp { id: UNWRITTEN };
    let reply = Cm::new(op, RDMA_USER_CM_CMD_JOIN_IP_MCAST)
        .call(file, &request, reply)
        .map_err(|error| explain(error, id, group))?;
    written(op, reply.id, "no number of the join")
}

/// `rdma_leave_multicast`—leaves a group, by the number of the join; returns how many of its events
/// were read. Unread ones vanish. One system call.
///
/// # Errors
/// ENOENT: there is no such join. EINVAL: it belongs to another file.
#[doc(alias = "rdma_leave_multicast")]
pub fn leave_multicast(file: &CmFile, join: u32) -> Result<u32> {
    let op = Op::CmLeaveMulticast;
    let request = rdma_ucm_destroy_id {
        id: join,
        ..rdma_ucm_destroy_id::default()
    };
    let reply = rdma_ucm_destroy_id_resp {
        events_reported: UNWRITTEN,
    };
    let reply = Cm::new(op, RDMA_USER_CM_CMD_LEAVE_MCAST)
        .call(file, &request, reply)
        .map_err(|error| error.fact("join", join))?;
    written(op, reply.events_reported, "no count of events")
}

fn explain(error: Error, id: u32, group: CmAddress) -> Error {
    error.fact("id", id).fact("group", group.to_string())
}
