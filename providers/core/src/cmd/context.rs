//! The context of an opened device (`UVERBS_METHOD_GET_CONTEXT`).

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use bitflags::bitflags;
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, UVERBS_ATTR_GET_CONTEXT_FD_ARR,
    UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
    UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, UVERBS_METHOD_GET_CONTEXT,
    UVERBS_METHOD_QUERY_CONTEXT, UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context, ib_uverbs_get_context_resp,
};

use super::legacy::{Legacy, explain_create};
use crate::error::{Errno, Error, Op, Result};
use crate::file::{CommandPath, UverbsFile};
use crate::sys::{Attr, NO_DESCRIPTOR, Uhw, adopt_fd, cells};
use crate::types::AccessFlags;

bitflags! {
    /// What the kernel's core supports for every driver (`enum ib_uverbs_core_support`).
    ///
    /// Empty if the kernel does not report it: before 5.6, and after the legacy command.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct CoreSupport: u64 {
        /// The access flags in [`AccessFlags::OPTIONAL`] are ignored if a device does not know
        /// them.
        const OPTIONAL_MR_ACCESS = 1;
        /// The driver checks its data for unknown content.
        const ROBUST_UDATA = 1 << 1;
        const _ = !0;
    }
}

impl CoreSupport {
    /// `access` as a command may carry it: without the optional flags if the kernel would refuse
    /// them.
    #[must_use]
    pub const fn final_access(self, access: AccessFlags) -> AccessFlags {
        if self.contains(Self::OPTIONAL_MR_ACCESS) {
            access
        } else {
            access.without_optional()
        }
    }
}

/// A context to get.
#[derive(Clone, Copy, Debug, Default)]
pub struct GetContext<'a> {
    /// Descriptors of `/dev/infiniband/ucap*`, which grant capabilities beyond those of the device
    /// file. Default: none.
    pub ucap_fds: &'a [BorrowedFd<'a>],
}

/// A context.
#[derive(Debug)]
pub struct Context {
    /// Number of completion vectors; a completion queue uses one below this number.
    pub num_comp_vectors: u32,
    /// What the core supports.
    pub core_support: CoreSupport,
    /// The asynchronous event file, which only the legacy command opens; otherwise
    /// [`event::alloc_async`](super::event::alloc_async) opens one.
    pub async_fd: Option<OwnedFd>,
}

/// `ibv_open_device`—gets the context of the device file, which every other command needs. Once per
/// file.
///
/// One system call; `DEVICE/GET_CONTEXT` since 5.6, else `GET_CONTEXT`. Capability descriptors need
/// the former (6.15).
///
/// # Errors
/// EINVAL: the file already has its context. EAGAIN: the rdma cgroup has no handle left. EIO: the
/// device is gone. Others are the driver's.
#[doc(alias = "ibv_open_device")]
pub fn get(file: &UverbsFile, request: &GetContext<'_>, uhw: &Uhw<'_>) -> Result<Context> {
    let op = Op::GetContext;
    if !request.ucap_fds.is_empty() {
        let fds: Vec<RawFd> = request.ucap_fds.iter().map(AsRawFd::as_raw_fd).collect();
        return file
            .ioctl_only(op, || get_by_ioctl(file, &fds, uhw))
            .map_err(explain_create);
    }
    let by_ioctl = || get_by_ioctl(file, &[], uhw);
    match file.dispatch(op, by_ioctl, || get_by_legacy(file, uhw)) {
        Err(error) if is_misread(file, &error) => get_by_ioctl(file, &[], uhw),
        result => result,
    }
    .map_err(explain_create)
}

/// Whether the error comes from the following misinterpretation: from 6.15 on, `GET_CONTEXT` looks
/// for capability descriptors in attribute 2 even if it was issued through `INVOKE_WRITE`, whose
/// attribute 2 is the command number. The kernel takes the two halves of that number for
/// descriptors and answers EBADF. Such a kernel has the method.
fn is_misread(file: &UverbsFile, error: &Error) -> bool {
    file.path() == CommandPath::InvokeWrite && error.errno() == Some(Errno::BADF)
}

fn get_by_ioctl(file: &UverbsFile, ucap_fds: &[RawFd], uhw: &Uhw<'_>) -> Result<Context> {
    let mut num_comp_vectors = 0_u32;
    let mut core_support = 0_u64;
    file.ioctl(
        Op::GetContext,
        UVERBS_OBJECT_DEVICE,
        UVERBS_METHOD_GET_CONTEXT,
        &[
            Attr::output(
                UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS,
                cells(&mut num_comp_vectors),
            ),
            Attr::output(
                UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT,
                cells(&mut core_support),
            )
            .optional(),
            Attr::maybe(
                (!ucap_fds.is_empty()).then_some(ucap_fds),
                UVERBS_ATTR_GET_CONTEXT_FD_ARR,
                Attr::input,
            ),
        ],
        uhw,
    )?;
    Ok(Context {
        num_comp_vectors,
        core_support: CoreSupport::from_bits_retain(core_support),
        async_fd: None,
    })
}

fn get_by_legacy(file: &UverbsFile, uhw: &Uhw<'_>) -> Result<Context> {
    let op = Op::GetContext;
    let unanswered = ib_uverbs_get_context_resp {
        async_fd: NO_DESCRIPTOR,
        num_comp_vectors: 0,
    };
    let reply = Legacy::plain(op, IB_USER_VERBS_CMD_GET_CONTEXT).call(
        file,
        &ib_uverbs_get_context::default(),
        unanswered,
        uhw,
    )?;
    let async_fd = adopt_fd(reply.async_fd)
        .ok_or_else(|| Error::bad_reply(op, "no asynchronous event file"))?;
    Ok(Context {
        num_comp_vectors: reply.num_comp_vectors,
        core_support: CoreSupport::empty(),
        async_fd: Some(async_fd),
    })
}

/// What can be queried about a context that another process created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ContextInfo {
    /// Number of completion vectors.
    pub num_comp_vectors: u32,
    /// What the core supports.
    pub core_support: CoreSupport,
}

/// `ibv_import_device`—queries the context that the device file already has.
///
/// One system call, since 5.9. The driver's information is returned through attributes of `uhw`.
///
/// # Errors
/// EINVAL: the file has no context. EOPNOTSUPP: the driver does not support it.
#[doc(alias = "ibv_import_device")]
pub fn query(file: &UverbsFile, uhw: &Uhw<'_>) -> Result<ContextInfo> {
    let op = Op::QueryContext;
    let mut num_comp_vectors = 0_u32;
    let mut core_support = 0_u64;
    file.ioctl_only(op, || {
        let attrs = [
            Attr::output(
                UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS,
                cells(&mut num_comp_vectors),
            ),
            Attr::output(
                UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
                cells(&mut core_support),
            )
            .optional(),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_DEVICE,
            UVERBS_METHOD_QUERY_CONTEXT,
            &attrs,
            uhw,
        )
    })?;
    Ok(ContextInfo {
        num_comp_vectors,
        core_support: CoreSupport::from_bits_retain(core_support),
    })
}
