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

/// `ibv_dm_export_dmabuf_fd`—exports what the device file maps at `mmap_offset` bytes as a dma-buf.
/// Closing it destroys it.
///
/// One system call, in kernels after 6.19.
///
/// # Errors
/// EPROTONOSUPPORT, EOPNOTSUPP: kernel or driver do not have it. EINVAL: nothing is mapped there.
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
        .ok_or_else(|| Error::bad_reply(op, "no descriptor of the dma-buf"))
}
