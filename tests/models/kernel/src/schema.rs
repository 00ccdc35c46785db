//! The attributes of every ioctl method that a kernel with an rxe device has.
//!
//! The kernel checks a command against such a table before it looks at any value
//! (`drivers/infiniband/core/uverbs_ioctl.c`); this is the same table, so a malformed command fails
//! in the fake as it would in the kernel.
#![allow(clippy::wildcard_imports, reason = "a table of the header's own names")]

use uverbs_uapi::ib_user_ioctl_cmds::*;
use uverbs_uapi::ib_user_ioctl_verbs::{ib_uverbs_gid_entry, ib_uverbs_qp_cap};
use uverbs_uapi::ib_user_verbs::{
    ib_uverbs_destroy_cq_resp, ib_uverbs_destroy_qp_resp, ib_uverbs_destroy_srq_resp,
    ib_uverbs_query_port_resp,
};

/// What an attribute carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Input bytes, with minimum and maximum length; longer is allowed if the rest is zero.
    In(usize, usize),
    /// Input bytes of this exact length.
    InExact(usize),
    /// Output bytes of at least this length.
    Out(usize),
    /// Output bytes of this exact length.
    OutExact(usize),
    /// A 64-bit constant.
    Const,
    /// 32 or 64 bits of flags.
    Flags,
    /// An existing object.
    Object,
    /// The object that is created.
    New,
    /// A descriptor of this context.
    Fd,
    /// The descriptor that is created.
    NewFd,
}

/// One attribute of a method.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) id: u16,
    pub(super) kind: Kind,
    pub(super) mandatory: bool,
}

const fn must(id: u16, kind: Kind) -> Spec {
    Spec {
        id,
        kind,
        mandatory: true,
    }
}

const fn may(id: u16, kind: Kind) -> Spec {
    Spec {
        id,
        kind,
        mandatory: false,
    }
}

const U32: Kind = Kind::InExact(4);
const U64: Kind = Kind::InExact(8);
const OUT_U32: Kind = Kind::OutExact(4);
const OUT_U64: Kind = Kind::OutExact(8);
const CAP: usize = size_of::<ib_uverbs_qp_cap>();
const UHW_IN: Spec = may(UVERBS_ATTR_UHW_IN, Kind::In(0, usize::MAX));
const UHW_OUT: Spec = may(UVERBS_ATTR_UHW_OUT, Kind::Out(0));

const INVOKE_WRITE: &[Spec] = &[
    must(UVERBS_ATTR_WRITE_CMD, Kind::Const),
    may(UVERBS_ATTR_CORE_IN, Kind::In(4, usize::MAX)),
    may(UVERBS_ATTR_CORE_OUT, Kind::Out(0)),
    UHW_IN,
    UHW_OUT,
];
const INFO_HANDLES: &[Spec] = &[
    must(UVERBS_ATTR_INFO_OBJECT_ID, Kind::Const),
    may(UVERBS_ATTR_INFO_TOTAL_HANDLES, OUT_U32),
    may(UVERBS_ATTR_INFO_HANDLES_LIST, Kind::Out(4)),
];
const QUERY_PORT: &[Spec] = &[
    must(UVERBS_ATTR_QUERY_PORT_PORT_NUM, Kind::Const),
    must(
        UVERBS_ATTR_QUERY_PORT_RESP,
        Kind::Out(size_of::<ib_uverbs_query_port_resp>()),
    ),
];
const GET_CONTEXT: &[Spec] = &[
    may(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, OUT_U32),
    may(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, OUT_U64),
    UHW_IN,
    UHW_OUT,
];
const GET_CONTEXT_FD_ARR: &[Spec] = &[
    may(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, OUT_U32),
    may(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, OUT_U64),
    may(UVERBS_ATTR_GET_CONTEXT_FD_ARR, Kind::In(4, usize::MAX)),
    UHW_IN,
    UHW_OUT,
];
const QUERY_CONTEXT: &[Spec] = &[
    may(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, OUT_U32),
    may(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, OUT_U64),
];
const QUERY_GID_TABLE: &[Spec] = &[
    must(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, Kind::Const),
    may(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, Kind::Flags),
    must(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, Kind::Out(0)),
    must(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, OUT_U64),
];
const QUERY_GID_ENTRY: &[Spec] = &[
    must(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, Kind::Const),
    must(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, Kind::Const),
    must(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, Kind::Flags),
    must(
        UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
        Kind::Out(size_of::<ib_uverbs_gid_entry>()),
    ),
];
const QUERY_PORT_SPEED: &[Spec] = &[
    must(UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM, Kind::Const),
    must(UVERBS_ATTR_QUERY_PORT_SPEED_RESP, OUT_U64),
];
const CREATE_CQ: &[Spec] = &[
    must(UVERBS_ATTR_CREATE_CQ_HANDLE, Kind::New),
    must(UVERBS_ATTR_CREATE_CQ_CQE, U32),
    must(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, U64),
    may(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, Kind::Fd),
    must(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, U32),
    may(UVERBS_ATTR_CREATE_CQ_FLAGS, Kind::Flags),
    must(UVERBS_ATTR_CREATE_CQ_RESP_CQE, OUT_U32),
    may(UVERBS_ATTR_CREATE_CQ_EVENT_FD, Kind::Fd),
    UHW_IN,
    UHW_OUT,
];
const DESTROY_CQ: &[Spec] = &[
    must(UVERBS_ATTR_DESTROY_CQ_HANDLE, Kind::Object),
    must(
        UVERBS_ATTR_DESTROY_CQ_RESP,
        Kind::OutExact(size_of::<ib_uverbs_destroy_cq_resp>()),
    ),
];
const CREATE_QP: &[Spec] = &[
    must(UVERBS_ATTR_CREATE_QP_HANDLE, Kind::New),
    may(UVERBS_ATTR_CREATE_QP_PD_HANDLE, Kind::Object),
    may(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, Kind::Object),
    may(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, Kind::Object),
    may(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, Kind::Object),
    may(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, Kind::Object),
    may(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, Kind::Object),
    must(UVERBS_ATTR_CREATE_QP_USER_HANDLE, U64),
    must(UVERBS_ATTR_CREATE_QP_CAP, Kind::In(CAP, CAP)),
    must(UVERBS_ATTR_CREATE_QP_TYPE, Kind::Const),
    may(UVERBS_ATTR_CREATE_QP_FLAGS, Kind::Flags),
    may(UVERBS_ATTR_CREATE_QP_SOURCE_QPN, U32),
    may(UVERBS_ATTR_CREATE_QP_EVENT_FD, Kind::Fd),
    must(UVERBS_ATTR_CREATE_QP_RESP_CAP, Kind::Out(CAP)),
    must(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, OUT_U32),
    UHW_IN,
    UHW_OUT,
];
const DESTROY_QP: &[Spec] = &[
    must(UVERBS_ATTR_DESTROY_QP_HANDLE, Kind::Object),
    must(
        UVERBS_ATTR_DESTROY_QP_RESP,
        Kind::OutExact(size_of::<ib_uverbs_destroy_qp_resp>()),
    ),
];
const CREATE_SRQ: &[Spec] = &[
    must(UVERBS_ATTR_CREATE_SRQ_HANDLE, Kind::New),
    must(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, Kind::Object),
    must(UVERBS_ATTR_CREATE_SRQ_TYPE, Kind::Const),
    must(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, U64),
    must(UVERBS_ATTR_CREATE_SRQ_MAX_WR, U32),
    must(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, U32),
    must(UVERBS_ATTR_CREATE_SRQ_LIMIT, U32),
    may(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, Kind::Object),
    may(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, Kind::Object),
    may(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, U32),
    may(UVERBS_ATTR_CREATE_SRQ_EVENT_FD, Kind::Fd),
    must(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, OUT_U32),
    must(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, OUT_U32),
    may(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, OUT_U32),
    UHW_IN,
    UHW_OUT,
];
const DESTROY_SRQ: &[Spec] = &[
    must(UVERBS_ATTR_DESTROY_SRQ_HANDLE, Kind::Object),
    must(
        UVERBS_ATTR_DESTROY_SRQ_RESP,
        Kind::OutExact(size_of::<ib_uverbs_destroy_srq_resp>()),
    ),
];
const QUERY_MR: &[Spec] = &[
    must(UVERBS_ATTR_QUERY_MR_HANDLE, Kind::Object),
    must(UVERBS_ATTR_QUERY_MR_RESP_RKEY, OUT_U32),
    must(UVERBS_ATTR_QUERY_MR_RESP_LKEY, OUT_U32),
    must(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, OUT_U64),
    may(UVERBS_ATTR_QUERY_MR_RESP_IOVA, OUT_U64),
];
const REG_MR: &[Spec] = &[
    must(UVERBS_ATTR_REG_MR_HANDLE, Kind::New),
    must(UVERBS_ATTR_REG_MR_PD_HANDLE, Kind::Object),
    may(UVERBS_ATTR_REG_MR_DMA_HANDLE, Kind::Object),
    must(UVERBS_ATTR_REG_MR_IOVA, U64),
    must(UVERBS_ATTR_REG_MR_LENGTH, U64),
    must(UVERBS_ATTR_REG_MR_ACCESS_FLAGS, Kind::Flags),
    may(UVERBS_ATTR_REG_MR_ADDR, U64),
    may(UVERBS_ATTR_REG_MR_FD_OFFSET, U64),
    may(UVERBS_ATTR_REG_MR_FD, Kind::Fd),
    must(UVERBS_ATTR_REG_MR_RESP_LKEY, OUT_U32),
    must(UVERBS_ATTR_REG_MR_RESP_RKEY, OUT_U32),
    UHW_IN,
    UHW_OUT,
];
const ASYNC_EVENT: &[Spec] = &[must(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, Kind::NewFd)];

/// A destroy method without a reply. Its only attribute has id 0, whatever its name.
const DESTROY: &[Spec] = &[must(0, Kind::Object)];

/// The attributes of a method, or `None` if neither the core nor rxe has it.
///
/// `fd_arr` says whether the kernel knows `GET_CONTEXT_FD_ARR`.
pub(super) fn schema(object: u16, method: u16, fd_arr: bool) -> Option<&'static [Spec]> {
    Some(match (object, method) {
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE) => INVOKE_WRITE,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES) => INFO_HANDLES,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT) => QUERY_PORT,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT) if fd_arr => GET_CONTEXT_FD_ARR,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT) => GET_CONTEXT,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT) => QUERY_CONTEXT,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE) => QUERY_GID_TABLE,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY) => QUERY_GID_ENTRY,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT_SPEED) => QUERY_PORT_SPEED,
        (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE) => CREATE_CQ,
        (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY) => DESTROY_CQ,
        (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE) => CREATE_QP,
        (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY) => DESTROY_QP,
        (UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE) => CREATE_SRQ,
        (UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY) => DESTROY_SRQ,
        (UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR) => QUERY_MR,
        (UVERBS_OBJECT_MR, UVERBS_METHOD_REG_MR) => REG_MR,
        (UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC) => ASYNC_EVENT,
        (UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY)
        | (UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY)
        | (UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY)
        | (UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY) => DESTROY,
        _ => return None,
    })
}
