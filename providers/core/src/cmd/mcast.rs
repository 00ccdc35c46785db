//! Multicast groups of a queue pair.

use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_ATTACH_MCAST, IB_USER_VERBS_CMD_DETACH_MCAST, ib_uverbs_attach_mcast,
    ib_uverbs_detach_mcast,
};

use super::legacy::Legacy;
use crate::error::{Error, Op, Result};
use crate::file::UverbsFile;
use crate::sys::Uhw;
use crate::types::Gid;

/// `ibv_attach_mcast`—lets a UD queue pair receive messages to a multicast group. Attaching twice
/// has the same effect as attaching once.
///
/// `mlid` is the group's LID on InfiniBand, 0 on Ethernet. One system call, the legacy command.
/// Does not join the group in the subnet; that is the task of the connection manager.
///
/// # Errors
/// EINVAL: not a multicast GID or LID, or not a datagram queue pair. ENOMEM: the device has no room
/// for the group.
#[doc(alias = "ibv_attach_mcast")]
pub fn attach(file: &UverbsFile, qp: u32, gid: &Gid, mlid: u16) -> Result<()> {
    let command = ib_uverbs_attach_mcast {
        gid: gid.to_bytes(),
        qp_handle: qp,
        mlid,
        ..ib_uverbs_attach_mcast::default()
    };
    Legacy::plain(Op::AttachMulticast, IB_USER_VERBS_CMD_ATTACH_MCAST)
        .call_without_reply(file, &command, &Uhw::NONE)
        .map_err(|error| group(error, gid, mlid))
}

/// `ibv_detach_mcast`—undoes [`attach`]. The queue pair cannot be destroyed before.
///
/// One system call, the legacy command.
///
/// # Errors
/// EINVAL: it is not attached to the group.
#[doc(alias = "ibv_detach_mcast")]
pub fn detach(file: &UverbsFile, qp: u32, gid: &Gid, mlid: u16) -> Result<()> {
    let command = ib_uverbs_detach_mcast {
        gid: gid.to_bytes(),
        qp_handle: qp,
        mlid,
        ..ib_uverbs_detach_mcast::default()
    };
    Legacy::plain(Op::DetachMulticast, IB_USER_VERBS_CMD_DETACH_MCAST)
        .call_without_reply(file, &command, &Uhw::NONE)
        .map_err(|error| group(error, gid, mlid))
}

fn group(error: Error, gid: &Gid, mlid: u16) -> Error {
    error.fact("group", gid.to_string()).fact("mlid", mlid)
}
