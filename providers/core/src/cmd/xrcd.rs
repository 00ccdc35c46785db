//! XRC domains (`UVERBS_OBJECT_XRCD`).

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::OFlags;
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_DESTROY_XRCD_HANDLE, UVERBS_METHOD_XRCD_DESTROY, UVERBS_OBJECT_XRCD,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_CLOSE_XRCD, IB_USER_VERBS_CMD_OPEN_XRCD, ib_uverbs_open_xrcd,
    ib_uverbs_open_xrcd_resp,
};

use super::legacy::{Legacy, NO_HANDLE, explain_create, new_handle};
use crate::error::{Errno, Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::Uhw;

/// An XRC domain to open. Default: a private one of this context.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open<'a> {
    /// The file whose inode identifies the domain to other processes.
    pub file: Option<BorrowedFd<'a>>,
    /// Create the domain if the file has none.
    pub create: bool,
    /// Fail if the domain exists.
    pub exclusive: bool,
}

/// `ibv_open_xrcd`—opens an XRC domain and returns its handle.
///
/// One system call, the legacy command.
///
/// # Errors
/// EAGAIN: the file has no domain, and `create` is not set. EINVAL: it has one, and `exclusive` is
/// set. EBADF: not a file. EOPNOTSUPP: the driver has no XRC.
#[doc(alias = "ibv_open_xrcd")]
pub fn open(file: &UverbsFile, request: &Open<'_>, uhw: &Uhw<'_>) -> Result<u32> {
    let op = Op::OpenXrcDomain;
    let mut oflags = OFlags::empty();
    oflags.set(OFlags::CREATE, request.create);
    oflags.set(OFlags::EXCL, request.exclusive);
    let command = ib_uverbs_open_xrcd {
        response: 0,
        // -1 stands for no file.
        fd: request.file.map_or(-1, |fd| fd.as_raw_fd()).cast_unsigned(),
        oflags: oflags.bits(),
    };
    let unanswered = ib_uverbs_open_xrcd_resp {
        xrcd_handle: NO_HANDLE,
    };
    let reply = Legacy::plain(op, IB_USER_VERBS_CMD_OPEN_XRCD)
        .call(file, &command, unanswered, uhw)
        .map_err(|error| match (error.errno(), request.file) {
            (Some(Errno::AGAIN), Some(_)) if !request.create => {
                error.hint("no process has opened a domain of this file; set `create`")
            }
            _ => explain_create(error),
        })?;
    new_handle(op, reply.xrcd_handle)
}

/// XRC domains, which `ibv_close_xrcd` closes.
///
/// One system call; `XRCD/DESTROY` since 5.0, else `CLOSE_XRCD`.
///
/// # Errors
/// EBUSY: queues of this context still belong to it.
#[doc(alias = "ibv_close_xrcd")]
pub static KIND: kind::Kind = kind::Kind {
    name: "XrcDomain",
    op: Op::CloseXrcDomain,
    object: UVERBS_OBJECT_XRCD,
    method: UVERBS_METHOD_XRCD_DESTROY,
    attr: UVERBS_ATTR_DESTROY_XRCD_HANDLE,
    counts: kind::Counts::None,
    legacy: kind::Legacy::Plain(IB_USER_VERBS_CMD_CLOSE_XRCD),
};
