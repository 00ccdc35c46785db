//! Local addresses, and listening.

use uverbs_uapi::rdma_user_cm::{
    RDMA_USER_CM_CMD_BIND, RDMA_USER_CM_CMD_BIND_IP, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_bind,
    rdma_ucm_bind_ip, rdma_ucm_listen,
};

use super::CmAddress;
use super::issue::Cm;
use crate::error::{Errno, Error, Op, Result};
use crate::file::CmFile;

/// `rdma_bind_addr`—gives an id its local address.
///
/// A specific address also binds the id to the device that has it. With a wildcard address the id
/// has no device, and listens on all of them, including those that appear later. Port 0 is any free
/// port. One system call, which does not wait.
///
/// # Errors
/// EINVAL: the id has an address. ENODEV: no RDMA device has the address. EADDRNOTAVAIL: no such
/// address, or the port is in use with a wildcard. EADDRINUSE: the port is in use. EAFNOSUPPORT;
/// ENOENT: no such id.
#[doc(alias = "rdma_bind_addr")]
pub fn bind(file: &CmFile, id: u32, address: CmAddress) -> Result<()> {
    let op = Op::CmBind;
    let (storage, len) = address.to_storage();
    let request = rdma_ucm_bind {
        id,
        addr_size: len,
        reserved: 0,
        addr: storage,
    };
    Cm::new(op, RDMA_USER_CM_CMD_BIND)
        .call_without_reply(file, &request)
        .map_err(|error| explain(error, id, address))
}

/// [`bind`] by the older command, which takes IP addresses only. Kernels have both.
///
/// # Errors
/// As [`bind`]; [`Unsupported`](crate::ErrorKind::Unsupported) for another family, before the
/// system call.
pub fn bind_ip(file: &CmFile, id: u32, address: CmAddress) -> Result<()> {
    let op = Op::CmBind;
    let request = rdma_ucm_bind_ip {
        response: 0,
        addr: address.to_in6(op)?,
        id,
    };
    Cm::new(op, RDMA_USER_CM_CMD_BIND_IP)
        .call_without_reply(file, &request)
        .map_err(|error| explain(error, id, address))
}

/// `rdma_listen`—reports requests for the id's address as events.
///
/// `backlog` is how many requests may be unread; 0, or more than the system's maximum
/// (`net.rdma_ucm.max_backlog`, 1024), means that maximum. Further requests are dropped, and their
/// senders repeat them. An id without an address is bound to any IPv4 address first. One system
/// call, which does not wait.
///
/// # Errors
/// EINVAL: it listens already, or is an active side. EADDRINUSE, EADDRNOTAVAIL: the port is shared
/// (`set_reuse_address`), and another id listens. ENOENT: no such id.
#[doc(alias = "rdma_listen")]
pub fn listen(file: &CmFile, id: u32, backlog: u32) -> Result<()> {
    Cm::new(Op::CmListen, RDMA_USER_CM_CMD_LISTEN)
        .call_without_reply(file, &rdma_ucm_listen { id, backlog })
        .map_err(|error| error.fact("id", id))
}

fn explain(error: Error, id: u32, address: CmAddress) -> Error {
    let error = error.fact("id", id).fact("address", address.to_string());
    match error.errno() {
        Some(Errno::NODEV) => error
            .hint("no RDMA device has this address in its GID table: see `rdma link`, `ip addr`"),
        _ => error,
    }
}
