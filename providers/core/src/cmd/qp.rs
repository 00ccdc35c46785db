//! Queue pairs (`UVERBS_OBJECT_QP`): create, open, destroy. [`modify`] and [`query`] are in a file
//! of their own.

use std::os::fd::BorrowedFd;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CREATE_QP_CAP, UVERBS_ATTR_CREATE_QP_EVENT_FD, UVERBS_ATTR_CREATE_QP_FLAGS,
    UVERBS_ATTR_CREATE_QP_HANDLE, UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE,
    UVERBS_ATTR_CREATE_QP_PD_HANDLE, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE,
    UVERBS_ATTR_CREATE_QP_RESP_CAP, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM,
    UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, UVERBS_ATTR_CREATE_QP_SOURCE_QPN,
    UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, UVERBS_ATTR_CREATE_QP_TYPE,
    UVERBS_ATTR_CREATE_QP_USER_HANDLE, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE,
    UVERBS_ATTR_DESTROY_QP_HANDLE, UVERBS_ATTR_DESTROY_QP_RESP, UVERBS_METHOD_QP_CREATE,
    UVERBS_METHOD_QP_DESTROY, UVERBS_OBJECT_QP,
};
use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_qp_cap;
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_CREATE_QP, IB_USER_VERBS_CMD_DESTROY_QP, IB_USER_VERBS_CMD_OPEN_QP,
    IB_USER_VERBS_EX_CMD_CREATE_QP, IB_UVERBS_CREATE_QP_MASK_IND_TABLE, ib_uverbs_create_qp,
    ib_uverbs_create_qp_resp, ib_uverbs_ex_create_qp, ib_uverbs_ex_create_qp_resp,
    ib_uverbs_open_qp,
};

use super::legacy::{Legacy, NO_HANDLE, explain_create, handle_slot, new_handle};
pub use super::post::{doorbell, post_recv, post_send};
pub use super::qp_state::{check, modify, query};
use crate::error::{Errno, Error, Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::{Attr, Uhw, cells};
use crate::types::{QpCaps, QpCreateFlags, QpType, SigMode};

/// What a queue pair belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Parent {
    /// A protection domain: every type but the receiving side of XRC.
    Pd(u32),
    /// An XRC domain: [`QpType::XrcTarget`].
    Xrcd(u32),
}

/// A queue pair to create.
#[derive(Clone, Copy, Debug)]
pub struct Create<'a> {
    /// Its transport.
    pub qp_type: QpType,
    /// What it belongs to.
    pub parent: Parent,
    /// The completion queue of its sends. Required, except for an XRC target and a receive-only
    /// queue pair with an indirection table.
    pub send_cq: Option<u32>,
    /// The completion queue of its receives. Required, except for XRC and with an indirection
    /// table.
    pub recv_cq: Option<u32>,
    /// The shared receive queue that it takes receives from.
    pub srq: Option<u32>,
    /// The indirection table that distributes its receives over work queues.
    pub ind_table: Option<u32>,
    /// The user data that its events carry.
    pub user_handle: u64,
    /// Its sizes.
    pub caps: QpCaps,
    /// Options. The flags for [`signal`](Self::signal) and [`source_qpn`](Self::source_qpn) are
    /// taken from those fields instead.
    pub flags: QpCreateFlags,
    /// Which sends generate a completion.
    pub signal: SigMode,
    /// The number that its packets carry instead of its own; needs `CAP_NET_RAW`.
    pub source_qpn: Option<u32>,
    /// The asynchronous event file it reports to. `None`: the first of the context, if there is
    /// one.
    pub event_fd: Option<BorrowedFd<'a>>,
}

impl Create<'_> {
    /// A request without queues and options, and with [`SigMode::Requested`].
    pub const fn new(qp_type: QpType, parent: Parent, user_handle: u64, caps: QpCaps) -> Self {
        Self {
            qp_type,
            parent,
            send_cq: None,
            recv_cq: None,
            srq: None,
            ind_table: None,
            user_handle,
            caps,
            flags: QpCreateFlags::empty(),
            signal: SigMode::Requested,
            source_qpn: None,
            event_fd: None,
        }
    }

    /// The options without a field of their own.
    fn plain_flags(&self) -> QpCreateFlags {
        self.flags
            .difference(QpCreateFlags::SQ_SIG_ALL.union(QpCreateFlags::SOURCE_QPN))
    }
}

/// A queue pair.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Created {
    /// Its handle.
    pub handle: u32,
    /// Its number on the wire.
    pub qp_num: u32,
    /// Its sizes, at least as large as requested.
    pub caps: QpCaps,
}

/// `ibv_create_qp`, `ibv_create_qp_ex`—creates a queue pair in the reset state.
///
/// One system call; `QP/CREATE` since 5.8, else `CREATE_QP`, the extended one if there are options,
/// an indirection table or a source number.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): a type or an option without a name. EINVAL:
/// more than the device supports, an option that it lacks, or queues that do not fit the type.
/// EOPNOTSUPP: the driver does not support the type. EPERM: raw packets or a source number without
/// `CAP_NET_RAW`. ENOMEM, EAGAIN (rdma cgroup).
#[doc(alias = "ibv_create_qp")]
#[doc(alias = "ibv_create_qp_ex")]
pub fn create(file: &UverbsFile, request: &Create<'_>, uhw: &Uhw<'_>) -> Result<Created> {
    file.dispatch(
        Op::CreateQueuePair,
        || create_by_ioctl(file, request, uhw),
        || create_by_legacy(file, request, uhw),
    )
    .map_err(|error| explain(error, request))
}

fn explain(error: Error, request: &Create<'_>) -> Error {
    let caps = &request.caps;
    let error = explain_create(error)
        .fact("type", request.qp_type.to_string())
        .fact("max_send_wr", caps.max_send_wr)
        .fact("max_recv_wr", caps.max_recv_wr)
        .fact("max_send_sge", caps.max_send_sge)
        .fact("max_recv_sge", caps.max_recv_sge)
        .fact("max_inline_data", caps.max_inline_data);
    match error.errno() {
        Some(Errno::PERM) => error.hint("grant CAP_NET_RAW"),
        _ => error,
    }
}

fn create_by_ioctl(file: &UverbsFile, request: &Create<'_>, uhw: &Uhw<'_>) -> Result<Created> {
    let op = Op::CreateQueuePair;
    let (pd, xrcd) = match request.parent {
        Parent::Pd(pd) => (Some(pd), None),
        Parent::Xrcd(xrcd) => (None, Some(xrcd)),
    };
    let flags = match request.signal {
        SigMode::All => request.plain_flags() | QpCreateFlags::SQ_SIG_ALL,
        SigMode::Requested => request.plain_flags(),
    };
    let flags = flags.checked(op, "flags")?;
    let qp_type = request.qp_type.checked(op, "qp_type")?;
    let requested = encode_caps(&request.caps);
    let handle = handle_slot();
    let mut given = ib_uverbs_qp_cap::default();
    let mut qp_num = 0_u32;
    file.ioctl(
        op,
        UVERBS_OBJECT_QP,
        UVERBS_METHOD_QP_CREATE,
        &[
            Attr::new_object(UVERBS_ATTR_CREATE_QP_HANDLE, &handle),
            Attr::maybe(xrcd, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, Attr::object),
            Attr::maybe(pd, UVERBS_ATTR_CREATE_QP_PD_HANDLE, Attr::object),
            Attr::maybe(request.srq, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, Attr::object),
            Attr::maybe(
                request.send_cq,
                UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE,
                Attr::object,
            ),
            Attr::maybe(
                request.recv_cq,
                UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE,
                Attr::object,
            ),
            Attr::maybe(
                request.ind_table,
                UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE,
                Attr::object,
            ),
            Attr::input(UVERBS_ATTR_CREATE_QP_USER_HANDLE, &request.user_handle),
            Attr::input(UVERBS_ATTR_CREATE_QP_CAP, &requested),
            Attr::constant(UVERBS_ATTR_CREATE_QP_TYPE, qp_type),
            Attr::constant(UVERBS_ATTR_CREATE_QP_FLAGS, flags),
            Attr::maybe(
                request.source_qpn.as_ref(),
                UVERBS_ATTR_CREATE_QP_SOURCE_QPN,
                Attr::input,
            ),
            Attr::maybe(request.event_fd, UVERBS_ATTR_CREATE_QP_EVENT_FD, Attr::fd),
            Attr::output(UVERBS_ATTR_CREATE_QP_RESP_CAP, cells(&mut given)),
            Attr::output(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, cells(&mut qp_num)),
        ],
        uhw,
    )?;
    Ok(Created {
        handle: new_handle(op, handle.get())?,
        qp_num,
        caps: QpCaps {
            max_send_wr: given.max_send_wr,
            max_recv_wr: given.max_recv_wr,
            max_send_sge: given.max_send_sge,
            max_recv_sge: given.max_recv_sge,
            max_inline_data: given.max_inline_data,
        },
    })
}

fn encode_caps(caps: &QpCaps) -> ib_uverbs_qp_cap {
    ib_uverbs_qp_cap {
        max_send_wr: caps.max_send_wr,
        max_recv_wr: caps.max_recv_wr,
        max_send_sge: caps.max_send_sge,
        max_recv_sge: caps.max_recv_sge,
        max_inline_data: caps.max_inline_data,
    }
}

fn create_by_legacy(file: &UverbsFile, request: &Create<'_>, uhw: &Uhw<'_>) -> Result<Created> {
    let op = Op::CreateQueuePair;
    let extended = extended_request(op, request)?;
    let unanswered = ib_uverbs_create_qp_resp {
        qp_handle: NO_HANDLE,
        ..ib_uverbs_create_qp_resp::default()
    };
    let needs_extended = extended.comp_mask != 0 || extended.create_flags != 0;
    let reply = if needs_extended {
        let unanswered = ib_uverbs_ex_create_qp_resp {
            base: unanswered,
            ..ib_uverbs_ex_create_qp_resp::default()
        };
        Legacy::extended(op, IB_USER_VERBS_EX_CMD_CREATE_QP)
            .call(file, &extended, unanswered, uhw)?
            .base
    } else {
        Legacy::plain(op, IB_USER_VERBS_CMD_CREATE_QP).call(
            file,
            &plain_request(&extended),
            unanswered,
            uhw,
        )?
    };
    created(op, &reply)
}

fn extended_request(op: Op, request: &Create<'_>) -> Result<ib_uverbs_ex_create_qp> {
    let qp_type = byte(op, request.qp_type)?;
    // An XRC target has its XRC domain in place of the protection domain.
    let (Parent::Pd(pd_handle) | Parent::Xrcd(pd_handle)) = request.parent;
    let send_cq_handle = request.send_cq.unwrap_or(0);
    let source = match request.source_qpn {
        Some(_) => QpCreateFlags::SOURCE_QPN,
        None => QpCreateFlags::empty(),
    };
    let caps = &request.caps;
    Ok(ib_uverbs_ex_create_qp {
        user_handle: request.user_handle,
        pd_handle,
        send_cq_handle,
        recv_cq_handle: request.recv_cq.unwrap_or(send_cq_handle),
        srq_handle: request.srq.unwrap_or(0),
        max_send_wr: caps.max_send_wr,
        max_recv_wr: caps.max_recv_wr,
        max_send_sge: caps.max_send_sge,
        max_recv_sge: caps.max_recv_sge,
        max_inline_data: caps.max_inline_data,
        sq_sig_all: request.signal.raw(),
        qp_type,
        is_srq: request.srq.is_some().into(),
        reserved: 0,
        comp_mask: request
            .ind_table
            .map_or(0, |_| IB_UVERBS_CREATE_QP_MASK_IND_TABLE),
        create_flags: (request.plain_flags() | source).checked(op, "flags")?,
        rwq_ind_tbl_handle: request.ind_table.unwrap_or(0),
        source_qpn: request.source_qpn.unwrap_or(0),
    })
}

/// A type in the encoding of the legacy commands.
fn byte(op: Op, qp_type: QpType) -> Result<u8> {
    u8::try_from(qp_type.checked(op, "qp_type")?).map_err(|_| Error::invalid(op, "qp_type"))
}

fn plain_request(words: &ib_uverbs_ex_create_qp) -> ib_uverbs_create_qp {
    ib_uverbs_create_qp {
        response: 0,
        user_handle: words.user_handle,
        pd_handle: words.pd_handle,
        send_cq_handle: words.send_cq_handle,
        recv_cq_handle: words.recv_cq_handle,
        srq_handle: words.srq_handle,
        max_send_wr: words.max_send_wr,
        max_recv_wr: words.max_recv_wr,
        max_send_sge: words.max_send_sge,
        max_recv_sge: words.max_recv_sge,
        max_inline_data: words.max_inline_data,
        sq_sig_all: words.sq_sig_all,
        qp_type: words.qp_type,
        is_srq: words.is_srq,
        reserved: 0,
    }
}

fn created(op: Op, reply: &ib_uverbs_create_qp_resp) -> Result<Created> {
    Ok(Created {
        handle: new_handle(op, reply.qp_handle)?,
        qp_num: reply.qpn,
        caps: QpCaps {
            max_send_wr: reply.max_send_wr,
            max_recv_wr: reply.max_recv_wr,
            max_send_sge: reply.max_send_sge,
            max_recv_sge: reply.max_recv_sge,
            max_inline_data: reply.max_inline_data,
        },
    })
}

/// A queue pair to open that another process created.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// The XRC domain.
    pub xrcd: u32,
    /// Its number.
    pub qp_num: u32,
    /// Its type: [`QpType::XrcTarget`].
    pub qp_type: QpType,
    /// The user data that its events carry.
    pub user_handle: u64,
}

/// An opened queue pair.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Opened {
    /// Its handle in this context.
    pub handle: u32,
    /// Its number.
    pub qp_num: u32,
}

/// `ibv_open_qp`—opens the receiving side of an XRC connection that another process of the domain
/// created.
///
/// One system call, the legacy command.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): a type without a name.
/// EINVAL: there is no such domain or queue pair.
#[doc(alias = "ibv_open_qp")]
pub fn open(file: &UverbsFile, request: &Open, uhw: &Uhw<'_>) -> Result<Opened> {
    let op = Op::OpenQueuePair;
    let qp_type = byte(op, request.qp_type)?;
    let command = ib_uverbs_open_qp {
        user_handle: request.user_handle,
        pd_handle: request.xrcd,
        qpn: request.qp_num,
        qp_type,
        ..ib_uverbs_open_qp::default()
    };
    let unanswered = ib_uverbs_create_qp_resp {
        qp_handle: NO_HANDLE,
        ..ib_uverbs_create_qp_resp::default()
    };
    let reply = Legacy::plain(op, IB_USER_VERBS_CMD_OPEN_QP)
        .call(file, &command, unanswered, uhw)
        .map_err(|error| explain_create(error).fact("qp_num", request.qp_num))?;
    Ok(Opened {
        handle: new_handle(op, reply.qp_handle)?,
        qp_num: reply.qpn,
    })
}

/// Queue pairs, which `ibv_destroy_qp` destroys; it returns how many events they had sent.
///
/// One system call; `QP/DESTROY` since 5.8, else `DESTROY_QP`. Once it has succeeded, the device no
/// longer accesses its queues and the memory of its work requests.
///
/// # Errors
/// EBUSY: still attached to a multicast group.
#[doc(alias = "ibv_destroy_qp")]
pub static KIND: kind::Kind = kind::Kind {
    name: "QueuePair",
    op: Op::DestroyQueuePair,
    object: UVERBS_OBJECT_QP,
    method: UVERBS_METHOD_QP_DESTROY,
    attr: UVERBS_ATTR_DESTROY_QP_HANDLE,
    counts: kind::Counts::Asynchronous(UVERBS_ATTR_DESTROY_QP_RESP),
    legacy: kind::Legacy::Plain(IB_USER_VERBS_CMD_DESTROY_QP),
};
