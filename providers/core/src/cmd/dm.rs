//! Device memory (`UVERBS_OBJECT_DM`).

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_ALLOC_DM_ALIGNMENT, UVERBS_ATTR_ALLOC_DM_HANDLE, UVERBS_ATTR_ALLOC_DM_LENGTH,
    UVERBS_ATTR_FREE_DM_HANDLE, UVERBS_METHOD_DM_ALLOC, UVERBS_METHOD_DM_FREE, UVERBS_OBJECT_DM,
};

use super::legacy::{explain_create, handle_slot, new_handle};
use crate::error::{Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::{Attr, Uhw};

/// `ibv_alloc_dm`—allocates `length` bytes of device memory, aligned to 2 to the power of
/// `log2_alignment`, and returns its handle.
///
/// One system call, since 4.17. How this process can access it is returned through attributes of
/// `uhw`.
///
/// # Errors
/// EOPNOTSUPP: the driver has none. EINVAL: invalid length or alignment. ENOMEM, ENOSPC: not enough
/// left.
#[doc(alias = "ibv_alloc_dm")]
pub fn alloc(file: &UverbsFile, length: u64, log2_alignment: u32, uhw: &Uhw<'_>) -> Result<u32> {
    let op = Op::AllocDeviceMemory;
    let handle = handle_slot();
    file.ioctl_only(op, || {
        let attrs = [
            Attr::new_object(UVERBS_ATTR_ALLOC_DM_HANDLE, &handle),
            Attr::input(UVERBS_ATTR_ALLOC_DM_LENGTH, &length),
            Attr::input(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, &log2_alignment),
        ];
        file.ioctl(op, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, &attrs, uhw)
    })
    .map_err(|error| {
        explain_create(error)
            .fact("bytes", length)
            .fact("log2_alignment", log2_alignment)
    })?;
    new_handle(op, handle.get())
}

/// Device memory, which `ibv_free_dm` frees.
///
/// One system call.
///
/// # Errors
/// EBUSY: a region is registered on it.
#[doc(alias = "ibv_free_dm")]
pub static KIND: kind::Kind = kind::Kind {
    name: "DeviceMemory",
    op: Op::FreeDeviceMemory,
    object: UVERBS_OBJECT_DM,
    method: UVERBS_METHOD_DM_FREE,
    attr: UVERBS_ATTR_FREE_DM_HANDLE,
    counts: kind::Counts::None,
    legacy: kind::Legacy::None,
};
