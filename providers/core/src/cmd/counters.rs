//! Counters of flow rules (`UVERBS_OBJECT_COUNTERS`).
//!
//! No provider uses these commands yet.

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CREATE_COUNTERS_HANDLE, UVERBS_ATTR_DESTROY_COUNTERS_HANDLE,
    UVERBS_ATTR_READ_COUNTERS_BUFF, UVERBS_ATTR_READ_COUNTERS_FLAGS,
    UVERBS_ATTR_READ_COUNTERS_HANDLE, UVERBS_METHOD_COUNTERS_CREATE,
    UVERBS_METHOD_COUNTERS_DESTROY, UVERBS_METHOD_COUNTERS_READ, UVERBS_OBJECT_COUNTERS,
};
use uverbs_uapi::ib_user_ioctl_verbs::IB_UVERBS_READ_COUNTERS_PREFER_CACHED;

use super::legacy::{explain_create, handle_slot, new_handle};
use crate::error::{Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::{Attr, Uhw, slice_cells};

/// `ibv_create_counters`—creates a set of counters and returns its handle. A flow rule that refers
/// to it is counted.
///
/// One system call, since 4.18.
///
/// # Errors
/// EOPNOTSUPP: the driver has none. ENOMEM.
#[doc(alias = "ibv_create_counters")]
pub fn create(file: &UverbsFile, uhw: &Uhw<'_>) -> Result<u32> {
    let op = Op::CreateCounters;
    let handle = handle_slot();
    file.ioctl_only(op, || {
        let attrs = [Attr::new_object(
            UVERBS_ATTR_CREATE_COUNTERS_HANDLE,
            &handle,
        )];
        file.ioctl(
            op,
            UVERBS_OBJECT_COUNTERS,
            UVERBS_METHOD_COUNTERS_CREATE,
            &attrs,
            uhw,
        )
    })
    .map_err(explain_create)?;
    new_handle(op, handle.get())
}

/// `ibv_read_counters`—reads the counters into `values`; if `prefer_cached`, the values that the
/// kernel read last.
///
/// One system call. `values` has at most 8191 elements.
///
/// # Errors
/// EINVAL: no rule refers to the set, or the length of `values` is not the number of counters.
#[doc(alias = "ibv_read_counters")]
pub fn read(
    file: &UverbsFile,
    counters: u32,
    values: &mut [u64],
    prefer_cached: bool,
    uhw: &Uhw<'_>,
) -> Result<()> {
    let op = Op::ReadCounters;
    let flags = if prefer_cached {
        IB_UVERBS_READ_COUNTERS_PREFER_CACHED
    } else {
        0
    };
    let requested = values.len();
    file.ioctl_only(op, || {
        let attrs = [
            Attr::object(UVERBS_ATTR_READ_COUNTERS_HANDLE, counters),
            Attr::output(UVERBS_ATTR_READ_COUNTERS_BUFF, slice_cells(values)),
            Attr::constant(UVERBS_ATTR_READ_COUNTERS_FLAGS, flags),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_COUNTERS,
            UVERBS_METHOD_COUNTERS_READ,
            &attrs,
            uhw,
        )
    })
    .map_err(|error| error.fact("counters", requested))
}

/// Sets of counters, which `ibv_destroy_counters` destroys.
///
/// One system call.
///
/// # Errors
/// EBUSY: a rule refers to it.
#[doc(alias = "ibv_destroy_counters")]
pub static KIND: kind::Kind = kind::Kind {
    name: "Counters",
    op: Op::DestroyCounters,
    object: UVERBS_OBJECT_COUNTERS,
    method: UVERBS_METHOD_COUNTERS_DESTROY,
    attr: UVERBS_ATTR_DESTROY_COUNTERS_HANDLE,
    counts: kind::Counts::None,
    legacy: kind::Legacy::None,
};
