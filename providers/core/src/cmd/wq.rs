//! Receive work queues (`UVERBS_OBJECT_WQ`).

use std::os::fd::BorrowedFd;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, UVERBS_ATTR_CREATE_WQ_EVENT_FD, UVERBS_ATTR_CREATE_WQ_FLAGS,
    UVERBS_ATTR_CREATE_WQ_HANDLE, UVERBS_ATTR_CREATE_WQ_MAX_SGE, UVERBS_ATTR_CREATE_WQ_MAX_WR,
    UVERBS_ATTR_CREATE_WQ_PD_HANDLE, UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE,
    UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM,
    UVERBS_ATTR_CREATE_WQ_TYPE, UVERBS_ATTR_CREATE_WQ_USER_HANDLE, UVERBS_ATTR_DESTROY_WQ_HANDLE,
    UVERBS_ATTR_DESTROY_WQ_RESP, UVERBS_METHOD_WQ_CREATE, UVERBS_METHOD_WQ_DESTROY,
    UVERBS_OBJECT_WQ,
};
use uverbs_uapi::ib_user_ioctl_verbs::IB_UVERBS_WQT_RQ;
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_EX_CMD_CREATE_WQ, IB_USER_VERBS_EX_CMD_DESTROY_WQ,
    IB_USER_VERBS_EX_CMD_MODIFY_WQ, ib_uverbs_ex_create_wq, ib_uverbs_ex_create_wq_resp,
    ib_uverbs_ex_modify_wq,
};

use super::legacy::{Legacy, NO_HANDLE, explain_create, handle_slot, new_handle};
use crate::error::{Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::{Attr, Uhw, cells};
use crate::types::macros::request_flags;

request_flags! {
    /// `ibv_wq_flags`—options of a work queue (`enum ib_uverbs_wq_flags`).
    #[doc(alias = "ibv_wq_flags")]
    pub struct Flags: u32 {
        /// The VLAN tag is stripped.
        CVLAN_STRIPPING = 1, "IBV_WQ_FLAGS_CVLAN_STRIPPING";
        /// Frames keep their checksum.
        SCATTER_FCS = 1 << 1, "IBV_WQ_FLAGS_SCATTER_FCS";
        /// Packets wait while no receive is posted.
        DELAY_DROP = 1 << 2, "IBV_WQ_FLAGS_DELAY_DROP";
        /// Writes are padded to a cache line.
        PCI_WRITE_END_PADDING = 1 << 3, "IBV_WQ_FLAGS_PCI_WRITE_END_PADDING";
    }
}

/// `ibv_wq_state`—what a work queue may do (`enum ib_wq_state`).
#[doc(alias = "ibv_wq_state")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Does nothing; the state of a new work queue.
    Reset,
    /// Receives.
    Ready,
    /// All requests are flushed.
    Error,
}

impl State {
    const fn raw(self) -> u32 {
        match self {
            Self::Reset => 0,
            Self::Ready => 1,
            Self::Error => 2,
        }
    }
}

/// A work queue to create.
#[derive(Clone, Copy, Debug)]
pub struct Create<'a> {
    /// The protection domain.
    pub pd: u32,
    /// The completion queue.
    pub cq: u32,
    /// Outstanding receives.
    pub max_wr: u32,
    /// Scatter/gather entries of a receive.
    pub max_sge: u32,
    /// Options.
    pub flags: Flags,
    /// The user data that its events carry.
    pub user_handle: u64,
    /// The asynchronous event file it reports to. `None`: the first of the context, if there is
    /// one.
    pub event_fd: Option<BorrowedFd<'a>>,
}

/// A work queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Created {
    /// Its handle.
    pub handle: u32,
    /// Its number.
    pub wq_num: u32,
    /// Outstanding receives.
    pub max_wr: u32,
    /// Scatter/gather entries of a receive.
    pub max_sge: u32,
}

/// `ibv_create_wq`—creates a receive work queue.
///
/// One system call; `WQ/CREATE` since 5.8, else the extended `CREATE_WQ` (4.7).
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): an option without a name. EOPNOTSUPP: the
/// driver has none, or lacks an option. EINVAL: more than the device supports. ENOMEM.
#[doc(alias = "ibv_create_wq")]
pub fn create(file: &UverbsFile, request: &Create<'_>, uhw: &Uhw<'_>) -> Result<Created> {
    file.dispatch(
        Op::CreateWorkQueue,
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
    let op = Op::CreateWorkQueue;
    let flags = request.flags.checked(op, "flags")?;
    let handle = handle_slot();
    let mut max_wr = 0_u32;
    let mut max_sge = 0_u32;
    let mut wq_num = 0_u32;
    file.ioctl(
        op,
        UVERBS_OBJECT_WQ,
        UVERBS_METHOD_WQ_CREATE,
        &[
            Attr::new_object(UVERBS_ATTR_CREATE_WQ_HANDLE, &handle),
            Attr::object(UVERBS_ATTR_CREATE_WQ_PD_HANDLE, request.pd),
            Attr::object(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, request.cq),
            Attr::input(UVERBS_ATTR_CREATE_WQ_USER_HANDLE, &request.user_handle),
            Attr::constant(UVERBS_ATTR_CREATE_WQ_TYPE, IB_UVERBS_WQT_RQ),
            Attr::maybe(request.event_fd, UVERBS_ATTR_CREATE_WQ_EVENT_FD, Attr::fd),
            Attr::input(UVERBS_ATTR_CREATE_WQ_MAX_WR, &request.max_wr),
            Attr::input(UVERBS_ATTR_CREATE_WQ_MAX_SGE, &request.max_sge),
            Attr::constant(UVERBS_ATTR_CREATE_WQ_FLAGS, flags),
            Attr::output(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, cells(&mut max_wr)),
            Attr::output(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, cells(&mut max_sge)),
            Attr::output(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, cells(&mut wq_num)),
        ],
        uhw,
    )?;
    Ok(Created {
        handle: new_handle(op, handle.get())?,
        wq_num,
        max_wr,
        max_sge,
    })
}

fn create_by_legacy(file: &UverbsFile, request: &Create<'_>, uhw: &Uhw<'_>) -> Result<Created> {
    let op = Op::CreateWorkQueue;
    let command = ib_uverbs_ex_create_wq {
        comp_mask: 0,
        wq_type: IB_UVERBS_WQT_RQ,
        user_handle: request.user_handle,
        pd_handle: request.pd,
        cq_handle: request.cq,
        max_wr: request.max_wr,
        max_sge: request.max_sge,
        create_flags: request.flags.checked(op, "flags")?,
        reserved: 0,
    };
    let unanswered = ib_uverbs_ex_create_wq_resp {
        wq_handle: NO_HANDLE,
        ..ib_uverbs_ex_create_wq_resp::default()
    };
    let reply = Legacy::extended(op, IB_USER_VERBS_EX_CMD_CREATE_WQ)
        .call(file, &command, unanswered, uhw)?;
    Ok(Created {
        handle: new_handle(op, reply.wq_handle)?,
        wq_num: reply.wqn,
        max_wr: reply.max_wr,
        max_sge: reply.max_sge,
    })
}

/// Changes to a work queue. Default: none, which the kernel refuses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modify {
    /// The state to move to.
    pub state: Option<State>,
    /// The current state, as the caller assumes it.
    pub current: Option<State>,
    /// New values of the options, and which of them to change.
    pub flags: Option<(Flags, Flags)>,
}

/// `enum ib_wq_attr_mask`.
const WQ_STATE: u32 = 1;
const WQ_CUR_STATE: u32 = 1 << 1;
const WQ_FLAGS: u32 = 1 << 2;

/// `ibv_modify_wq`—moves a work queue to another state or changes its options.
///
/// One system call, the extended command since 4.7.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): an option without a name. EINVAL: nothing to
/// change, or an illegal transition. EOPNOTSUPP: an option that cannot change.
#[doc(alias = "ibv_modify_wq")]
pub fn modify(file: &UverbsFile, wq: u32, request: &Modify, uhw: &Uhw<'_>) -> Result<()> {
    let op = Op::ModifyWorkQueue;
    let bit = |present: bool, bit: u32| if present { bit } else { 0 };
    let (flags, flags_mask) = request.flags.unwrap_or_default();
    let command = ib_uverbs_ex_modify_wq {
        attr_mask: bit(request.state.is_some(), WQ_STATE)
            | bit(request.current.is_some(), WQ_CUR_STATE)
            | bit(request.flags.is_some(), WQ_FLAGS),
        wq_handle: wq,
        wq_state: request.state.map_or(0, State::raw),
        curr_wq_state: request.current.map_or(0, State::raw),
        flags: flags.checked(op, "flags")?,
        flags_mask: flags_mask.checked(op, "flags")?,
    };
    Legacy::extended(op, IB_USER_VERBS_EX_CMD_MODIFY_WQ)
        .call_without_reply(file, &command, uhw)
        .map_err(|error| error.fact("attributes", command.attr_mask))
}

/// Work queues, which `ibv_destroy_wq` destroys; it returns how many events they had sent.
///
/// One system call; `WQ/DESTROY` since 5.8, else the extended `DESTROY_WQ`.
///
/// # Errors
/// EBUSY: an indirection table still refers to it.
#[doc(alias = "ibv_destroy_wq")]
pub static KIND: kind::Kind = kind::Kind {
    name: "WorkQueue",
    op: Op::DestroyWorkQueue,
    object: UVERBS_OBJECT_WQ,
    method: UVERBS_METHOD_WQ_DESTROY,
    attr: UVERBS_ATTR_DESTROY_WQ_HANDLE,
    counts: kind::Counts::Asynchronous(UVERBS_ATTR_DESTROY_WQ_RESP),
    legacy: kind::Legacy::Extended(IB_USER_VERBS_EX_CMD_DESTROY_WQ),
};
