//! Completion counters (`UVERBS_OBJECT_COMP_CNTR`) count completions without a completion queue
//! entry for each.
//!
//! Since Linux 7.3; before, the commands fail with EPROTONOSUPPORT. No provider uses them yet.

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE, UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE,
    UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE,
    UVERBS_ATTR_MODIFY_COMP_CNTR_OP, UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE,
    UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE, UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE,
    UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS,
    UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE,
    UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS, UVERBS_ATTR_READ_COMP_CNTR_ENTRY,
    UVERBS_ATTR_READ_COMP_CNTR_HANDLE, UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE,
    UVERBS_METHOD_COMP_CNTR_CREATE, UVERBS_METHOD_COMP_CNTR_DESTROY,
    UVERBS_METHOD_COMP_CNTR_MODIFY, UVERBS_METHOD_COMP_CNTR_READ,
    UVERBS_METHOD_QP_ATTACH_COMP_CNTR, UVERBS_METHOD_QUERY_COMP_CNTR_CAPS, UVERBS_OBJECT_COMP_CNTR,
    UVERBS_OBJECT_DEVICE, UVERBS_OBJECT_QP,
};

use super::legacy::{explain_create, handle_slot, new_handle};
use crate::error::{Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::{Attr, Uhw, cells};
use crate::types::macros::open_flags;

open_flags! {
    /// Operations whose completions are counted (`enum ib_uverbs_qp_attach_comp_cntr_op`).
    pub struct Operations: u32 {
        /// Sends.
        SEND = 1, "IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND";
        /// Receives.
        RECV = 1 << 1, "IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV";
        /// RDMA reads.
        RDMA_READ = 1 << 2, "IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ";
        /// RDMA reads by the peer.
        REMOTE_RDMA_READ = 1 << 3, "IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ";
        /// RDMA writes.
        RDMA_WRITE = 1 << 4, "IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE";
        /// RDMA writes by the peer.
        REMOTE_RDMA_WRITE = 1 << 5, "IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE";
    }
}

/// One of a counter's two values (`enum ib_uverbs_comp_cntr_entry`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Entry {
    /// Completions.
    Completions,
    /// Completions with an error.
    Errors,
}

impl Entry {
    const fn raw(self) -> u32 {
        match self {
            Self::Completions => 0,
            Self::Errors => 1,
        }
    }
}

/// What a modify does (`enum ib_uverbs_comp_cntr_modify_op`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// Sets the value.
    Set,
    /// Adds to it.
    Increment,
}

impl Change {
    const fn raw(self) -> u32 {
        match self {
            Self::Set => 0,
            Self::Increment => 1,
        }
    }
}

/// The device's completion counter limits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Caps {
    /// Counters.
    pub max_counters: u32,
    /// The highest value of a counter.
    pub max_value: u64,
    /// The operations that can be counted.
    pub operations: Operations,
}

/// `ibv_query_comp_cntr_caps`—queries the device's completion counter limits.
///
/// One system call.
///
/// # Errors
/// EPROTONOSUPPORT, EOPNOTSUPP: the kernel or the driver has no completion counters.
#[doc(alias = "ibv_query_comp_cntr_caps")]
pub fn query_caps(file: &UverbsFile) -> Result<Caps> {
    let op = Op::QueryCompletionCounterCaps;
    let mut max_counters = 0_u32;
    let mut max_value = 0_u64;
    let mut operations = 0_u32;
    file.ioctl_only(op, || {
        let attrs = [
            Attr::output(
                UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS,
                cells(&mut max_counters),
            ),
            Attr::output(
                UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE,
                cells(&mut max_value),
            ),
            Attr::output(
                UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS,
                cells(&mut operations),
            ),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_DEVICE,
            UVERBS_METHOD_QUERY_COMP_CNTR_CAPS,
            &attrs,
            &Uhw::NONE,
        )
    })?;
    Ok(Caps {
        max_counters,
        max_value,
        operations: Operations::from_bits_retain(operations),
    })
}

/// `ibv_create_comp_cntr`—creates a completion counter and returns its handle.
///
/// One system call.
///
/// # Errors
/// EPROTONOSUPPORT, EOPNOTSUPP: the kernel or the driver has none. ENOMEM.
#[doc(alias = "ibv_create_comp_cntr")]
pub fn create(file: &UverbsFile, uhw: &Uhw<'_>) -> Result<u32> {
    let op = Op::CreateCompletionCounter;
    let handle = handle_slot();
    file.ioctl_only(op, || {
        let attrs = [Attr::new_object(
            UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE,
            &handle,
        )];
        file.ioctl(
            op,
            UVERBS_OBJECT_COMP_CNTR,
            UVERBS_METHOD_COMP_CNTR_CREATE,
            &attrs,
            uhw,
        )
    })
    .map_err(explain_create)?;
    new_handle(op, handle.get())
}

/// `ibv_set_comp_cntr`, `ibv_inc_comp_cntr`—sets one of a counter's values, or adds to it.
///
/// One system call.
///
/// # Errors
/// EINVAL: above the highest value.
#[doc(alias = "ibv_set_comp_cntr")]
#[doc(alias = "ibv_set_err_comp_cntr")]
#[doc(alias = "ibv_inc_comp_cntr")]
#[doc(alias = "ibv_inc_err_comp_cntr")]
pub fn modify(
    file: &UverbsFile,
    counter: u32,
    entry: Entry,
    change: Change,
    value: u64,
) -> Result<()> {
    let op = Op::ModifyCompletionCounter;
    file.ioctl_only(op, || {
        let attrs = [
            Attr::object(UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE, counter),
            Attr::constant(UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, entry.raw()),
            Attr::constant(UVERBS_ATTR_MODIFY_COMP_CNTR_OP, change.raw()),
            Attr::input(UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, &value),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_COMP_CNTR,
            UVERBS_METHOD_COMP_CNTR_MODIFY,
            &attrs,
            &Uhw::NONE,
        )
    })
    .map_err(|error| error.fact("value", value))
}

/// `ibv_read_comp_cntr`—reads one of a counter's values.
///
/// One system call.
///
/// # Errors
/// The driver's.
#[doc(alias = "ibv_read_comp_cntr")]
#[doc(alias = "ibv_read_err_comp_cntr")]
pub fn read(file: &UverbsFile, counter: u32, entry: Entry) -> Result<u64> {
    let op = Op::ReadCompletionCounter;
    let mut value = 0_u64;
    file.ioctl_only(op, || {
        let attrs = [
            Attr::object(UVERBS_ATTR_READ_COMP_CNTR_HANDLE, counter),
            Attr::constant(UVERBS_ATTR_READ_COMP_CNTR_ENTRY, entry.raw()),
            Attr::output(UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, cells(&mut value)),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_COMP_CNTR,
            UVERBS_METHOD_COMP_CNTR_READ,
            &attrs,
            &Uhw::NONE,
        )
    })?;
    Ok(value)
}

/// `ibv_qp_attach_comp_cntr`—counts completions of these operations of queue pair `qp`.
///
/// One system call.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): an operation without a name. EOPNOTSUPP: the
/// driver cannot count one of them.
#[doc(alias = "ibv_qp_attach_comp_cntr")]
pub fn attach(file: &UverbsFile, qp: u32, counter: u32, operations: Operations) -> Result<()> {
    let op = Op::AttachCompletionCounter;
    let mask = operations.checked(op, "operations")?;
    file.ioctl_only(op, || {
        let attrs = [
            Attr::object(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE, qp),
            Attr::object(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE, counter),
            Attr::constant(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, mask),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_QP,
            UVERBS_METHOD_QP_ATTACH_COMP_CNTR,
            &attrs,
            &Uhw::NONE,
        )
    })
    .map_err(|error| error.fact("operations", operations.to_string()))
}

/// Completion counters, which `ibv_destroy_comp_cntr` destroys.
///
/// One system call.
///
/// # Errors
/// EBUSY: a queue pair is attached.
#[doc(alias = "ibv_destroy_comp_cntr")]
pub static KIND: kind::Kind = kind::Kind {
    name: "CompletionCounter",
    op: Op::DestroyCompletionCounter,
    object: UVERBS_OBJECT_COMP_CNTR,
    method: UVERBS_METHOD_COMP_CNTR_DESTROY,
    attr: UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE,
    counts: kind::Counts::None,
    legacy: kind::Legacy::None,
};
