//! Ids: the kernel's end of a connection, a listener or a datagram service.

use std::os::fd::AsRawFd as _;

use uverbs_uapi::rdma_user_cm::{
    RDMA_USER_CM_CMD_CREATE_ID, RDMA_USER_CM_CMD_DESTROY_ID, RDMA_USER_CM_CMD_MIGRATE_ID,
    rdma_ucm_create_id, rdma_ucm_create_id_resp, rdma_ucm_destroy_id, rdma_ucm_destroy_id_resp,
    rdma_ucm_migrate_id, rdma_ucm_migrate_resp,
};

use super::issue::{Cm, UNWRITTEN, written};
use crate::error::{Errno, Error, Op, Result};
use crate::file::CmFile;
use crate::types::QpType;
use crate::types::macros::open_enum;

open_enum! {
    /// `rdma_port_space`—what an id is for, and which ports it uses. The ports are not those of TCP
    /// and UDP sockets.
    #[doc(alias = "rdma_port_space")]
    pub enum PortSpace: u16 {
        /// Datagrams over IPoIB, in its multicast group.
        Ipoib = 0x0002, "RDMA_PS_IPOIB", "ipoib";
        /// Reliable connections.
        Tcp = 0x0106, "RDMA_PS_TCP", "tcp";
        /// Datagrams.
        Udp = 0x0111, "RDMA_PS_UDP", "udp";
        /// Any type of queue pair, with `AF_IB` addresses.
        Ib = 0x013f, "RDMA_PS_IB", "ib";
    }
}

/// `rdma_create_id`—creates an id, whose events will carry `uid`.
///
/// The id belongs to the network namespace of the calling thread. `qp_type` counts only for
/// [`PortSpace::Ib`]; the others imply RC or UD. One system call, which does not wait.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): `uid` is 0, with which no event would be
/// delivered; a port space or type without a name. ENOMEM.
#[doc(alias = "rdma_create_id")]
pub fn create_id(file: &CmFile, uid: u64, space: PortSpace, qp_type: QpType) -> Result<u32> {
    let op = Op::CmCreateId;
    check_uid(op, uid)?;
    let qp_type = qp_type.checked(op, "qp_type")?;
    let request = rdma_ucm_create_id {
        uid,
        ps: space.checked(op, "port_space")?,
        qp_type: u8::try_from(qp_type).map_err(|_| Error::invalid(op, "qp_type"))?,
        ..rdma_ucm_create_id::default()
    };
    let reply = rdma_ucm_create_id_resp { id: UNWRITTEN };
    let reply = Cm::new(op, RDMA_USER_CM_CMD_CREATE_ID).call(file, &request, reply)?;
    written(op, reply.id, "no id")
}

/// The kernel discards the events of an id with this number.
pub(super) fn check_uid(op: Op, uid: u64) -> Result<()> {
    if uid == 0 {
        return Err(Error::invalid(op, "uid").hint("the kernel discards the events of uid 0"));
    }
    Ok(())
}

/// `rdma_destroy_id`—destroys an id; returns how many of its events were read, which nobody needs
/// to know.
///
/// Unread events of the id vanish; unread requests of a listener are rejected. The peer of a
/// connection that is being made is told (it is rejected), that of an established one as well
/// (disconnected). The kernel does not wait for the peer, but for its own references to the id: one
/// system call, which usually takes microseconds and may take a minute.
///
/// # Errors
/// ENOENT: there is no such id. EINVAL: it belongs to another file. EFAULT and
/// [`BadReply`](crate::ErrorKind::BadReply): the id is destroyed nevertheless.
#[doc(alias = "rdma_destroy_id")]
pub fn destroy_id(file: &CmFile, id: u32) -> Result<u32> {
    let op = Op::CmDestroyId;
    let request = rdma_ucm_destroy_id {
        id,
        ..rdma_ucm_destroy_id::default()
    };
    let reply = rdma_ucm_destroy_id_resp {
        events_reported: UNWRITTEN,
    };
    let reply = Cm::new(op, RDMA_USER_CM_CMD_DESTROY_ID)
        .call(file, &request, reply)
        .map_err(|error| error.fact("id", id))?;
    written(op, reply.events_reported, "no count of events")
}

/// `rdma_migrate_id`—moves an id and its unread events from `old` to `new`; returns how many of its
/// events were read.
///
/// New ids in unread requests of a listener stay with `old`: do not move listeners. One system
/// call, on `new`, which does not wait.
///
/// # Errors
/// EINVAL: `id` does not belong to `old`, or the two are not of the same kernel. ENOENT: there is
/// no such id.
#[doc(alias = "rdma_migrate_id")]
pub fn migrate_id(new: &CmFile, old: &CmFile, id: u32) -> Result<u32> {
    let op = Op::CmMigrateId;
    let fd = old.fd().as_raw_fd();
    let request = rdma_ucm_migrate_id {
        response: 0,
        id,
        fd: u32::try_from(fd).map_err(|_| Error::os(op, Errno::BADF))?,
    };
    let reply = rdma_ucm_migrate_resp {
        events_reported: UNWRITTEN,
    };
    let reply = Cm::new(op, RDMA_USER_CM_CMD_MIGRATE_ID)
        .call(new, &request, reply)
        .map_err(|error| error.fact("id", id))?;
    written(op, reply.events_reported, "no count of events")
}
