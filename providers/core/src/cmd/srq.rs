//! Shared receive queues (`UVERBS_OBJECT_SRQ`).

use std::os::fd::BorrowedFd;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, UVERBS_ATTR_CREATE_SRQ_EVENT_FD,
    UVERBS_ATTR_CREATE_SRQ_HANDLE, UVERBS_ATTR_CREATE_SRQ_LIMIT,
    UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, UVERBS_ATTR_CREATE_SRQ_MAX_SGE,
    UVERBS_ATTR_CREATE_SRQ_MAX_WR, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE,
    UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR,
    UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, UVERBS_ATTR_CREATE_SRQ_TYPE,
    UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE,
    UVERBS_ATTR_DESTROY_SRQ_HANDLE, UVERBS_ATTR_DESTROY_SRQ_RESP, UVERBS_METHOD_SRQ_CREATE,
    UVERBS_METHOD_SRQ_DESTROY, UVERBS_OBJECT_SRQ,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_CREATE_SRQ, IB_USER_VERBS_CMD_CREATE_XSRQ, IB_USER_VERBS_CMD_DESTROY_SRQ,
    IB_USER_VERBS_CMD_MODIFY_SRQ, IB_USER_VERBS_CMD_QUERY_SRQ, ib_uverbs_create_srq,
    ib_uverbs_create_srq_resp, ib_uverbs_create_xsrq, ib_uverbs_modify_srq, ib_uverbs_query_srq,
    ib_uverbs_query_srq_resp,
};

use super::legacy::{Legacy, NO_HANDLE, explain_create, handle_slot, new_handle};
pub use super::post::post_srq_recv as post_recv;
use crate::error::{Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::{Attr, Uhw, cells};
use crate::types::{SrqAttr, SrqModify, SrqType};

/// The kind of a shared receive queue, with its parameters.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// For queue pairs of one protection domain.
    Basic,
    /// Addressed by its number over extended reliable connections.
    Xrc {
        /// The XRC domain.
        xrcd: u32,
        /// The completion queue of its receives.
        cq: u32,
    },
    /// With tag matching.
    TagMatching {
        /// The completion queue of its receives.
        cq: u32,
        /// Entries of the matching list.
        max_num_tags: u32,
    },
}

impl Kind {
    fn srq_type(self) -> SrqType {
        match self {
            Self::Basic => SrqType::Basic,
            Self::Xrc { .. } => SrqType::Xrc,
            Self::TagMatching { .. } => SrqType::TagMatching,
        }
    }

    fn cq(self) -> Option<u32> {
        match self {
            Self::Basic => None,
            Self::Xrc { cq, .. } | Self::TagMatching { cq, .. } => Some(cq),
        }
    }

    fn xrcd(self) -> Option<u32> {
        match self {
            Self::Xrc { xrcd, .. } => Some(xrcd),
            Self::Basic | Self::TagMatching { .. } => None,
        }
    }

    fn max_num_tags(self) -> Option<u32> {
        match self {
            Self::TagMatching { max_num_tags, .. } => Some(max_num_tags),
            Self::Basic | Self::Xrc { .. } => None,
        }
    }
}

/// A shared receive queue to create.
#[derive(Clone, Copy, Debug)]
pub struct Create<'a> {
    /// The protection domain.
    pub pd: u32,
    /// Its kind.
    pub kind: Kind,
    /// Outstanding receives. The driver may allocate more.
    pub max_wr: u32,
    /// Scatter/gather entries of a receive.
    pub max_sge: u32,
    /// Limit; drivers ignore it here and take it by [`modify`].
    pub limit: u32,
    /// The user data that its events carry.
    pub user_handle: u64,
    /// The asynchronous event file it reports to. `None`: the first of the context, if there is
    /// one.
    pub event_fd: Option<BorrowedFd<'a>>,
}

/// A shared receive queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Created {
    /// Its handle.
    pub handle: u32,
    /// Outstanding receives.
    pub max_wr: u32,
    /// Scatter/gather entries of a receive.
    pub max_sge: u32,
    /// Its number, for an XRC queue.
    pub srq_num: Option<u32>,
}

/// `ibv_create_srq`, `ibv_create_srq_ex`—creates a shared receive queue.
///
/// One system call; `SRQ/CREATE` since 5.8, else `CREATE_SRQ` for a basic one and `CREATE_XSRQ` for
/// the others.
///
/// # Errors
/// EINVAL: more than the device supports, or no receives. EOPNOTSUPP: the driver does not support
/// the kind. ENOMEM, EAGAIN (rdma cgroup).
#[doc(alias = "ibv_create_srq")]
#[doc(alias = "ibv_create_srq_ex")]
pub fn create(file: &UverbsFile, request: &Create<'_>, uhw: &Uhw<'_>) -> Result<Created> {
    file.dispatch(
        Op::CreateSharedReceiveQueue,
        || create_by_ioctl(file, request, uhw),
        || create_by_legacy(file, request, uhw),
    )
    .map_err(|error| {
        explain_create(error)
            .fact("max_wr", request.max_wr)
            .fact("max_sge", request.max_sge)
    })
}

fn create_by_ioctl(file: &UverbsFile, request: &Create<'_>, uhw: &Uhw<'_>) -> Result<Created> {
    let op = Op::CreateSharedReceiveQueue;
    let max_num_tags = request.kind.max_num_tags();
    let is_xrc = request.kind.xrcd().is_some();
    let srq_type = request.kind.srq_type().checked(op, "type")?;
    let handle = handle_slot();
    let mut max_wr = 0_u32;
    let mut max_sge = 0_u32;
    let mut srq_num = 0_u32;
    file.ioctl(
        op,
        UVERBS_OBJECT_SRQ,
        UVERBS_METHOD_SRQ_CREATE,
        &[
            Attr::new_object(UVERBS_ATTR_CREATE_SRQ_HANDLE, &handle),
            Attr::object(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, request.pd),
            Attr::maybe(
                request.kind.xrcd(),
                UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE,
                Attr::object,
            ),
            Attr::maybe(
                request.kind.cq(),
                UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE,
                Attr::object,
            ),
            Attr::input(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, &request.user_handle),
            Attr::input(UVERBS_ATTR_CREATE_SRQ_MAX_WR, &request.max_wr),
            Attr::input(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, &request.max_sge),
            Attr::input(UVERBS_ATTR_CREATE_SRQ_LIMIT, &request.limit),
            Attr::maybe(
                max_num_tags.as_ref(),
                UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS,
                Attr::input,
            ),
            Attr::constant(UVERBS_ATTR_CREATE_SRQ_TYPE, srq_type),
            Attr::maybe(request.event_fd, UVERBS_ATTR_CREATE_SRQ_EVENT_FD, Attr::fd),
            Attr::output(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, cells(&mut max_wr)),
            Attr::output(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, cells(&mut max_sge)),
            // The kernel writes it only for XRC.
            Attr::maybe(
                is_xrc.then_some(cells(&mut srq_num)),
                UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM,
                Attr::output,
            ),
        ],
        uhw,
    )?;
    Ok(Created {
        handle: new_handle(op, handle.get())?,
        max_wr,
        max_sge,
        srq_num: is_xrc.then_some(srq_num),
    })
}

fn create_by_legacy(file: &UverbsFile, request: &Create<'_>, uhw: &Uhw<'_>) -> Result<Created> {
    let op = Op::CreateSharedReceiveQueue;
    let unanswered = ib_uverbs_create_srq_resp {
        srq_handle: NO_HANDLE,
        ..ib_uverbs_create_srq_resp::default()
    };
    let is_xrc = request.kind.xrcd().is_some();
    let reply = match request.kind {
        Kind::Basic => {
            let command = ib_uverbs_create_srq {
                response: 0,
                user_handle: request.user_handle,
                pd_handle: request.pd,
                max_wr: request.max_wr,
                max_sge: request.max_sge,
                srq_limit: request.limit,
            };
            Legacy::plain(op, IB_USER_VERBS_CMD_CREATE_SRQ).call(file, &command, unanswered, uhw)?
        }
        Kind::Xrc { .. } | Kind::TagMatching { .. } => {
            let command = ib_uverbs_create_xsrq {
                response: 0,
                user_handle: request.user_handle,
                srq_type: request.kind.srq_type().checked(op, "type")?,
                pd_handle: request.pd,
                max_wr: request.max_wr,
                max_sge: request.max_sge,
                srq_limit: request.limit,
                max_num_tags: request.kind.max_num_tags().unwrap_or(0),
                xrcd_handle: request.kind.xrcd().unwrap_or(0),
                cq_handle: request.kind.cq().unwrap_or(0),
            };
            Legacy::plain(op, IB_USER_VERBS_CMD_CREATE_XSRQ)
                .call(file, &command, unanswered, uhw)?
        }
    };
    Ok(Created {
        handle: new_handle(op, reply.srq_handle)?,
        max_wr: reply.max_wr,
        max_sge: reply.max_sge,
        srq_num: is_xrc.then_some(reply.srqn),
    })
}

/// `ibv_modify_srq`—resizes the queue, or arms its limit.
///
/// One system call, the legacy command.
///
/// # Errors
/// EINVAL: a size below the limit or above the device's maximum, or a limit above the size.
/// EOPNOTSUPP: the driver cannot resize.
#[doc(alias = "ibv_modify_srq")]
pub fn modify(file: &UverbsFile, srq: u32, request: &SrqModify, uhw: &Uhw<'_>) -> Result<()> {
    let op = Op::ModifySharedReceiveQueue;
    let command = ib_uverbs_modify_srq {
        srq_handle: srq,
        attr_mask: request.mask().checked(op, "attributes")?,
        max_wr: request.max_wr.unwrap_or(0),
        srq_limit: request.limit.unwrap_or(0),
    };
    Legacy::plain(op, IB_USER_VERBS_CMD_MODIFY_SRQ)
        .call_without_reply(file, &command, uhw)
        .map_err(|mut error| {
            if let Some(max_wr) = request.max_wr {
                error = error.fact("max_wr", max_wr);
            }
            if let Some(limit) = request.limit {
                error = error.fact("limit", limit);
            }
            error
        })
}

/// `ibv_query_srq`—queries the size and the limit.
///
/// One system call, the legacy command.
///
/// # Errors
/// EINVAL: there is no such queue.
#[doc(alias = "ibv_query_srq")]
pub fn query(file: &UverbsFile, srq: u32) -> Result<SrqAttr> {
    let command = ib_uverbs_query_srq {
        srq_handle: srq,
        ..ib_uverbs_query_srq::default()
    };
    let reply = Legacy::plain(Op::QuerySharedReceiveQueue, IB_USER_VERBS_CMD_QUERY_SRQ).call(
        file,
        &command,
        ib_uverbs_query_srq_resp::default(),
        &Uhw::NONE,
    )?;
    Ok(SrqAttr {
        max_wr: reply.max_wr,
        max_sge: reply.max_sge,
        limit: reply.srq_limit,
    })
}

/// Shared receive queues, which `ibv_destroy_srq` destroys; it returns how many events they had
/// sent.
///
/// One system call; `SRQ/DESTROY` since 5.8, else `DESTROY_SRQ`.
///
/// # Errors
/// EBUSY: queue pairs still use it.
#[doc(alias = "ibv_destroy_srq")]
pub static KIND: kind::Kind = kind::Kind {
    name: "SharedReceiveQueue",
    op: Op::DestroySharedReceiveQueue,
    object: UVERBS_OBJECT_SRQ,
    method: UVERBS_METHOD_SRQ_DESTROY,
    attr: UVERBS_ATTR_DESTROY_SRQ_HANDLE,
    counts: kind::Counts::Asynchronous(UVERBS_ATTR_DESTROY_SRQ_RESP),
    legacy: kind::Legacy::Plain(IB_USER_VERBS_CMD_DESTROY_SRQ),
};
