//! Device memory and doorbells as dma-bufs (`UVERBS_OBJECT_DMABUF`).

use std::cell::Cell;
use std::os::fd::OwnedFd;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_ALLOC_DMABUF_HANDLE, UVERBS_ATTR_ALLOC_DMABUF_PGOFF, UVERBS_METHOD_DMABUF_ALLOC,
    UVERBS_OBJECT_DMABUF,
};

use crate::error::{Error, Op, Result};
use crate::file::UverbsFile;
use crate::sys::{Attr, Uhw};

/// `ibv_dm_export_dmabuf_fd`—exports as a dma-buf the memory that the device file maps at offset
/// `mmap_offset`. Closing the descriptor destroys the dma-buf.
///
/// One system call, in kernels after 6.19.
///
/// # Errors
/// EPROTONOSUPPORT, EOPNOTSUPP: the kernel or the driver does not have it. EINVAL: nothing can be
/// mapped at the offset.
#[doc(alias = "ibv_dm_export_dmabuf_fd")]
pub fn export(file: &UverbsFile, mmap_offset: u64, uhw: &Uhw<'_>) -> Result<OwnedFd> {
    let op = Op::ExportDmabuf;
    let fd = Cell::new(None);
    file.ioctl_only(op, || {
        let attrs = [
            Attr::new_fd(UVERBS_ATTR_ALLOC_DMABUF_HANDLE, &fd),
            Attr::input(UVERBS_ATTR_ALLOC_DMABUF_PGOFF, &mmap_offset),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_DMABUF,
            UVERBS_METHOD_DMABUF_ALLOC,
            &attrs,
            uhw,
        )
    })
    .map_err(|error| error.fact("offset", mmap_offset))?;
    fd.into_inner()
        .ok_or_else(|| Error::bad_reply(op, "no dma-buf descriptor"))
}
