//! Completion queues (`UVERBS_OBJECT_CQ`).

use std::os::fd::{AsRawFd, BorrowedFd};

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CREATE_CQ_BUFFER_FD, UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH,
    UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET, UVERBS_ATTR_CREATE_CQ_BUFFER_VA,
    UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR,
    UVERBS_ATTR_CREATE_CQ_CQE, UVERBS_ATTR_CREATE_CQ_EVENT_FD, UVERBS_ATTR_CREATE_CQ_FLAGS,
    UVERBS_ATTR_CREATE_CQ_HANDLE, UVERBS_ATTR_CREATE_CQ_RESP_CQE,
    UVERBS_ATTR_CREATE_CQ_USER_HANDLE, UVERBS_ATTR_DESTROY_CQ_HANDLE, UVERBS_ATTR_DESTROY_CQ_RESP,
    UVERBS_METHOD_CQ_CREATE, UVERBS_METHOD_CQ_DESTROY, UVERBS_OBJECT_CQ,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_CREATE_CQ, IB_USER_VERBS_CMD_DESTROY_CQ, IB_USER_VERBS_CMD_POLL_CQ,
    IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, IB_USER_VERBS_CMD_RESIZE_CQ, IB_USER_VERBS_EX_CMD_CREATE_CQ,
    IB_USER_VERBS_EX_CMD_MODIFY_CQ, ib_uverbs_cq_moderation, ib_uverbs_create_cq,
    ib_uverbs_create_cq_resp, ib_uverbs_ex_create_cq, ib_uverbs_ex_create_cq_resp,
    ib_uverbs_ex_modify_cq, ib_uverbs_poll_cq, ib_uverbs_poll_cq_resp, ib_uverbs_req_notify_cq,
    ib_uverbs_resize_cq, ib_uverbs_resize_cq_resp, ib_uverbs_wc,
};
use zerocopy::{FromBytes, IntoBytes};

use super::legacy::{Legacy, NO_HANDLE, explain_create, handle_slot, new_handle};
use crate::error::{Errno, Error, Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::{Attr, Uhw, cells, slice_cells};
use crate::types::CqCreateFlags;

/// A completion queue to create.
#[derive(Clone, Copy, Debug)]
pub struct Create<'a> {
    /// Entries, at least 1. The driver may allocate more.
    pub entries: u32,
    /// The completion vector, below the context's `num_comp_vectors`.
    pub vector: u32,
    /// The user data that its events carry.
    pub user_handle: u64,
    /// The completion channel it reports to.
    pub comp_channel: Option<BorrowedFd<'a>>,
    /// Options.
    pub flags: CqCreateFlags,
    /// The asynchronous event file it reports to. `None`: the first of the context, if there is
    /// one.
    pub event_fd: Option<BorrowedFd<'a>>,
    /// The memory for its entries, for drivers that take a buffer from the user (6.17).
    pub buffer: Option<Buffer<'a>>,
}

/// Memory for the entries.
#[derive(Clone, Copy, Debug)]
pub enum Buffer<'a> {
    /// Memory of this process.
    Address {
        /// Where it starts.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// A dma-buf.
    Fd {
        /// Its descriptor.
        fd: BorrowedFd<'a>,
        /// Where the entries start in it, in bytes.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

impl Create<'_> {
    /// Vector 0, no channel, no options.
    pub const fn new(entries: u32, user_handle: u64) -> Self {
        Self {
            entries,
            vector: 0,
            user_handle,
            comp_channel: None,
            flags: CqCreateFlags::empty(),
            event_fd: None,
            buffer: None,
        }
    }
}

/// A completion queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Created {
    /// Its handle.
    pub handle: u32,
    /// Its entries.
    pub entries: u32,
}

/// `ibv_create_cq`, `ibv_create_cq_ex`—creates a completion queue.
///
/// One system call; `CQ/CREATE` since 5.9 (earlier only if the kernel was configured for it), else
/// `CREATE_CQ`, the extended one if there are flags. A buffer, or driver attributes, need the
/// former.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): an option without a name. EINVAL: no entries,
/// more than the device supports, or no such vector. EOPNOTSUPP: an option the driver lacks. EBADF,
/// EINVAL: not a completion channel of this context. ENOMEM, EAGAIN (rdma cgroup).
#[doc(alias = "ibv_create_cq")]
#[doc(alias = "ibv_create_cq_ex")]
pub fn create(file: &UverbsFile, request: &Create<'_>, uhw: &Uhw<'_>) -> Result<Created> {
    let op = Op::CreateCompletionQueue;
    let by_ioctl = || create_by_ioctl(file, request, uhw);
    let result = if request.buffer.is_some() || uhw.needs_ioctl() {
        file.ioctl_only(op, by_ioctl)
    } else {
        file.dispatch(op, by_ioctl, || create_by_legacy(file, request, uhw))
    };
    result.map_err(|error| {
        let error = explain_create(error)
            .fact("entries", request.entries)
            .fact("vector", request.vector);
        if request.flags.is_empty() {
            error
        } else {
            error.fact("flags", request.flags.to_string())
        }
    })
}

fn create_by_ioctl(file: &UverbsFile, request: &Create<'_>, uhw: &Uhw<'_>) -> Result<Created> {
    let op = Op::CreateCompletionQueue;
    let (address, dmabuf, length) = match &request.buffer {
        None => (None, None, None),
        Some(Buffer::Address { address, length }) => (Some(address), None, Some(length)),
        Some(Buffer::Fd { fd, offset, length }) => (None, Some((*fd, offset)), Some(length)),
    };
    let flags = request.flags.checked(op, "flags")?;
    let handle = handle_slot();
    let mut entries = 0_u32;
    file.ioctl(
        op,
        UVERBS_OBJECT_CQ,
        UVERBS_METHOD_CQ_CREATE,
        &[
            Attr::new_object(UVERBS_ATTR_CREATE_CQ_HANDLE, &handle),
            Attr::input(UVERBS_ATTR_CREATE_CQ_CQE, &request.entries),
            Attr::input(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, &request.user_handle),
            Attr::maybe(
                request.comp_channel,
                UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL,
                Attr::fd,
            ),
            Attr::input(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, &request.vector),
            Attr::constant(UVERBS_ATTR_CREATE_CQ_FLAGS, flags),
            Attr::output(UVERBS_ATTR_CREATE_CQ_RESP_CQE, cells(&mut entries)),
            Attr::maybe(request.event_fd, UVERBS_ATTR_CREATE_CQ_EVENT_FD, Attr::fd),
            Attr::maybe(address, UVERBS_ATTR_CREATE_CQ_BUFFER_VA, Attr::input),
            Attr::maybe(length, UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH, Attr::input),
            Attr::maybe(
                dmabuf.map(|(fd, _)| fd),
                UVERBS_ATTR_CREATE_CQ_BUFFER_FD,
                Attr::fd,
            ),
            Attr::maybe(
                dmabuf.map(|(_, offset)| offset),
                UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET,
                Attr::input,
            ),
        ],
        uhw,
    )?;
    Ok(Created {
        handle: new_handle(op, handle.get())?,
        entries,
    })
}

fn create_by_legacy(file: &UverbsFile, request: &Create<'_>, uhw: &Uhw<'_>) -> Result<Created> {
    let op = Op::CreateCompletionQueue;
    let comp_channel = request.comp_channel.map_or(-1, |fd| fd.as_raw_fd());
    let unanswered = ib_uverbs_create_cq_resp {
        cq_handle: NO_HANDLE,
        cqe: 0,
    };
    let reply = if request.flags.is_empty() {
        let command = ib_uverbs_create_cq {
            user_handle: request.user_handle,
            cqe: request.entries,
            comp_vector: request.vector,
            comp_channel,
            ..ib_uverbs_create_cq::default()
        };
        Legacy::plain(op, IB_USER_VERBS_CMD_CREATE_CQ).call(file, &command, unanswered, uhw)?
    } else {
        let command = ib_uverbs_ex_create_cq {
            user_handle: request.user_handle,
            cqe: request.entries,
            comp_vector: request.vector,
            comp_channel,
            flags: request.flags.checked(op, "flags")?,
            ..ib_uverbs_ex_create_cq::default()
        };
        let unanswered = ib_uverbs_ex_create_cq_resp {
            base: unanswered,
            ..ib_uverbs_ex_create_cq_resp::default()
        };
        Legacy::extended(op, IB_USER_VERBS_EX_CMD_CREATE_CQ)
            .call(file, &command, unanswered, uhw)?
            .base
    };
    Ok(Created {
        handle: new_handle(op, reply.cq_handle)?,
        entries: reply.cqe,
    })
}

/// `ibv_resize_cq`—changes the number of entries and returns the new one. Completions in the queue
/// are kept.
///
/// One system call, the legacy command.
///
/// # Errors
/// EINVAL: no entries, fewer than there are completions, or more than the device supports.
/// EOPNOTSUPP: the driver cannot resize.
#[doc(alias = "ibv_resize_cq")]
pub fn resize(file: &UverbsFile, cq: u32, entries: u32, uhw: &Uhw<'_>) -> Result<u32> {
    let command = ib_uverbs_resize_cq {
        response: 0,
        cq_handle: cq,
        cqe: entries,
    };
    let reply = Legacy::plain(Op::ResizeCompletionQueue, IB_USER_VERBS_CMD_RESIZE_CQ)
        .call(file, &command, ib_uverbs_resize_cq_resp::default(), uhw)
        .map_err(|error| error.fact("entries", entries))?;
    Ok(reply.cqe)
}

/// The one attribute that [`modify`] sets (`IB_CQ_MODERATE`).
const CQ_MODERATE: u32 = 1;

/// `ibv_modify_cq`—delays completion events until there are `count` completions or `period_us`
/// microseconds have passed.
///
/// One system call, the extended command since 4.16.
///
/// # Errors
/// EOPNOTSUPP: the driver cannot.
#[doc(alias = "ibv_modify_cq")]
pub fn modify(file: &UverbsFile, cq: u32, count: u16, period_us: u16) -> Result<()> {
    let command = ib_uverbs_ex_modify_cq {
        cq_handle: cq,
        attr_mask: CQ_MODERATE,
        attr: ib_uverbs_cq_moderation {
            cq_count: count,
            cq_period: period_us,
        },
        reserved: 0,
    };
    Legacy::extended(Op::ModifyCompletionQueue, IB_USER_VERBS_EX_CMD_MODIFY_CQ)
        .call_without_reply(file, &command, &Uhw::NONE)
        .map_err(|error| error.fact("count", count).fact("period_us", period_us))
}

/// `ibv_req_notify_cq`—arms the queue: its next completion, or its next solicited one, raises an
/// event on its completion channel.
///
/// One system call, two the first time after `setuid`; allocates nothing unless it fails. For
/// drivers whose device has no doorbell for it.
///
/// # Errors
/// EINVAL, ENOENT: there is no such queue. EACCES: a forked child.
#[doc(alias = "ibv_req_notify_cq")]
pub fn request_notify(file: &UverbsFile, cq: u32, solicited_only: bool) -> Result<(), Errno> {
    let command = ib_uverbs_req_notify_cq {
        cq_handle: cq,
        solicited_only: solicited_only.into(),
    };
    Legacy::plain(Op::RequestNotification, IB_USER_VERBS_CMD_REQ_NOTIFY_CQ).issue_fast(
        file,
        &command,
        &[],
    )
}

/// The most completions that one [`poll`] returns: an attribute has at most 65535 bytes.
pub const MAX_POLLED: usize =
    (u16::MAX as usize - size_of::<ib_uverbs_poll_cq_resp>()) / size_of::<ib_uverbs_wc>();

/// `ibv_poll_cq`—takes completions from a queue in the kernel, at most `max` and at most
/// [`MAX_POLLED`].
///
/// One system call. Only for drivers whose queues exist only in the kernel, which rxe's and mlx5's
/// do not.
///
/// # Errors
/// EOPNOTSUPP: the driver's queues are polled in user space.
#[doc(alias = "ibv_poll_cq")]
pub fn poll(file: &UverbsFile, cq: u32, max: usize) -> Result<Vec<ib_uverbs_wc>> {
    let op = Op::PollCompletionQueue;
    let max = max.min(MAX_POLLED);
    let command = ib_uverbs_poll_cq {
        response: 0,
        cq_handle: cq,
        ne: u32::try_from(max).unwrap_or(u32::MAX),
    };
    let mut reply =
        vec![0_u8; size_of::<ib_uverbs_poll_cq_resp>() + max * size_of::<ib_uverbs_wc>()];
    Legacy::plain(op, IB_USER_VERBS_CMD_POLL_CQ).send(
        file,
        command.as_bytes(),
        slice_cells(&mut reply),
        &Uhw::NONE,
    )?;
    let unusable = || Error::bad_reply(op, "more completions than there was room for");
    let (header, entries) =
        ib_uverbs_poll_cq_resp::read_from_prefix(&reply).map_err(|_| unusable())?;
    let count = header.count as usize;
    if count > max {
        return Err(unusable().fact("completions", count));
    }
    let completions = entries.chunks_exact(size_of::<ib_uverbs_wc>()).take(count);
    completions
        .map(|bytes| ib_uverbs_wc::read_from_bytes(bytes).map_err(|_| unusable()))
        .collect()
}

/// Completion queues, which `ibv_destroy_cq` destroys; it returns how many events they had sent.
///
/// One system call; `CQ/DESTROY` since 5.9, else `DESTROY_CQ`.
///
/// # Errors
/// EBUSY: queue pairs, work queues or shared receive queues still report to it.
#[doc(alias = "ibv_destroy_cq")]
pub static KIND: kind::Kind = kind::Kind {
    name: "CompletionQueue",
    op: Op::DestroyCompletionQueue,
    object: UVERBS_OBJECT_CQ,
    method: UVERBS_METHOD_CQ_DESTROY,
    attr: UVERBS_ATTR_DESTROY_CQ_HANDLE,
    counts: kind::Counts::Both(UVERBS_ATTR_DESTROY_CQ_RESP),
    legacy: kind::Legacy::Plain(IB_USER_VERBS_CMD_DESTROY_CQ),
};
