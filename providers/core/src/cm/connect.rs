//! The handshake, and the end of a connection.

use uverbs_uapi::rdma_user_cm::{
    RDMA_USER_CM_CMD_ACCEPT, RDMA_USER_CM_CMD_CONNECT, RDMA_USER_CM_CMD_DISCONNECT,
    RDMA_USER_CM_CMD_NOTIFY, RDMA_USER_CM_CMD_REJECT, rdma_ucm_accept, rdma_ucm_conn_param,
    rdma_ucm_connect, rdma_ucm_disconnect, rdma_ucm_ece, rdma_ucm_notify, rdma_ucm_reject,
};

use super::id::check_uid;
use super::issue::Cm;
use super::{ConnectionParams, PrivateData, RejectReason};
use crate::error::{Errno, Error, Op, Result};
use crate::file::CmFile;
use crate::types::{AsyncEventType, Ece};

/// `rdma_connect`—asks the peer for a connection, or for a datagram service.
///
/// The answer is an event: [`ConnectResponse`](super::EventKind::ConnectResponse),
/// [`Rejected`](super::EventKind::Rejected), or after about 74 seconds
/// [`Unreachable`](super::EventKind::Unreachable), a time that cannot be set. One system call,
/// which does not wait.
///
/// # Errors
/// EINVAL: the route is not resolved, or the private data is too long; with less it may be
/// repeated. [`DeviceRemoved`](crate::ErrorKind::DeviceRemoved). ENOENT: there is no such id.
#[doc(alias = "rdma_connect")]
#[doc(alias = "rdma_set_local_ece")]
pub fn connect(file: &CmFile, id: u32, params: &ConnectionParams, ece: Ece) -> Result<()> {
    let request = rdma_ucm_connect {
        conn_param: params.to_raw(),
        id,
        reserved: 0,
        ece: raw_ece(ece),
    };
    Cm::new(Op::CmConnect, RDMA_USER_CM_CMD_CONNECT)
        .call_without_reply(file, &request)
        .map_err(|error| explain(error, id, &params.private_data))
}

/// `rdma_accept`—accepts a request: the id of a
/// [`ConnectRequest`](super::EventKind::ConnectRequest) gets `uid`, which its further events carry.
///
/// The queue pair must already be able to send (RTS). The event
/// [`Established`](super::EventKind::Established) follows when the peer has answered; a datagram
/// service gets none. One system call, which does not wait.
///
/// # Errors
/// After any error the request has been rejected, and the id can only be destroyed. EINVAL: the
/// private data is too long, or the peer gave up. [`InvalidInput`](crate::ErrorKind::InvalidInput)
/// without an errno: `uid` is 0, and nothing was done.
#[doc(alias = "rdma_accept")]
pub fn accept(file: &CmFile, id: u32, uid: u64, params: &ConnectionParams, ece: Ece) -> Result<()> {
    let op = Op::CmAccept;
    check_uid(op, uid)?;
    let request = rdma_ucm_accept {
        uid,
        conn_param: params.to_raw(),
        id,
        reserved: 0,
        ece: raw_ece(ece),
    };
    Cm::new(op, RDMA_USER_CM_CMD_ACCEPT)
        .call_without_reply(file, &request)
        .map_err(|error| explain(error, id, &params.private_data))
}

/// `rdma_establish`—tells the peer that the active side's queue pair is ready, after a
/// [`ConnectResponse`](super::EventKind::ConnectResponse). No event follows.
///
/// One system call, which does not wait.
///
/// # Errors
/// EINVAL: there was no response, or the peer gave up; the connection has been rejected.
#[doc(alias = "rdma_establish")]
pub fn establish(file: &CmFile, id: u32) -> Result<()> {
    let request = rdma_ucm_accept {
        id,
        conn_param: rdma_ucm_conn_param::default(),
        ..rdma_ucm_accept::default()
    };
    Cm::new(Op::CmAccept, RDMA_USER_CM_CMD_ACCEPT)
        .call_without_reply(file, &request)
        .map_err(|error| error.fact("id", id))
}

/// `rdma_reject`—refuses a request, or a response; the peer gets
/// [`Rejected`](super::EventKind::Rejected) with `reason` and the private data.
///
/// One system call, which does not wait. The id still has to be destroyed.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): a reason other than
/// [`Consumer`](RejectReason::Consumer) and [`VendorOption`](RejectReason::VendorOption), the only
/// ones that programs may give. EINVAL: the private data is too long (with less it may be
/// repeated), or there is nothing to reject.
#[doc(alias = "rdma_reject")]
#[doc(alias = "rdma_reject_ece")]
pub fn reject(file: &CmFile, id: u32, reason: RejectReason, data: &PrivateData) -> Result<()> {
    let op = Op::CmReject;
    if !matches!(reason, RejectReason::Consumer | RejectReason::VendorOption) {
        return Err(Error::invalid(op, "reason").fact("reason", reason.to_string()));
    }
    let (private_data, private_data_len) = data.parts();
    let request = rdma_ucm_reject {
        id,
        private_data_len,
        reason: u8::try_from(reason.raw()).map_err(|_| Error::invalid(op, "reason"))?,
        reserved: [0; 2],
        private_data,
    };
    Cm::new(op, RDMA_USER_CM_CMD_REJECT)
        .call_without_reply(file, &request)
        .map_err(|error| explain(error, id, data))
}

/// `rdma_disconnect`—ends a connection, or answers the peer's end of it.
///
/// The peer gets [`Disconnected`](super::EventKind::Disconnected) at once. This side gets it when
/// the peer's *program* has disconnected, too, or destroyed its id. May be repeated. One system
/// call, which does not wait.
///
/// # Errors
/// EINVAL: the id never connected. [`DeviceRemoved`](crate::ErrorKind::DeviceRemoved). ENOENT:
/// there is no such id.
#[doc(alias = "rdma_disconnect")]
pub fn disconnect(file: &CmFile, id: u32) -> Result<()> {
    Cm::new(Op::CmDisconnect, RDMA_USER_CM_CMD_DISCONNECT)
        .call_without_reply(file, &rdma_ucm_disconnect { id })
        .map_err(|error| error.fact("id", id))
}

/// `rdma_notify`—reports an event of the id's queue pair:
/// [`CommunicationEstablished`](AsyncEventType::CommunicationEstablished) when data came before the
/// peer's last message of the handshake, which establishes the connection.
///
/// One system call, which does not wait. Without effect on iWARP.
///
/// # Errors
/// EINVAL: the id's state, or another event. EISCONN: it is established already. ENOENT: there is
/// no such id.
#[doc(alias = "rdma_notify")]
pub fn notify(file: &CmFile, id: u32, event: AsyncEventType) -> Result<()> {
    let op = Op::CmNotify;
    let request = rdma_ucm_notify {
        id,
        event: event.checked(op, "event")?,
    };
    Cm::new(op, RDMA_USER_CM_CMD_NOTIFY)
        .call_without_reply(file, &request)
        .map_err(|error| error.fact("id", id))
}

fn raw_ece(ece: Ece) -> rdma_ucm_ece {
    rdma_ucm_ece {
        vendor_id: ece.vendor_id,
        attr_mod: ece.options,
    }
}

fn explain(error: Error, id: u32, data: &PrivateData) -> Error {
    let error = error
        .fact("id", id)
        .fact("private_data", data.as_bytes().len());
    match error.errno() {
        Some(Errno::INVAL) => error.hint(
            "the id is not in a state for it, or there is more private data than the message takes",
        ),
        _ => error,
    }
}
