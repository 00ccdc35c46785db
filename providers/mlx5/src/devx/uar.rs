//! Pages of registers for queues created by DEVX commands.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use uverbs_core::hw::Register;
use uverbs_core::sys::Uhw;
use uverbs_core::{Error, ErrorKind, Op, Result, cmd};
use uverbs_uapi::mlx5_user_ioctl_verbs::{
    MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC,
};

use super::{Devx, Parent};
use crate::doorbell::uar::{Page, allocate_at};

/// `mlx5dv_devx_uar`—a page of the device's registers, mapped. Cheap to clone.
#[doc(alias = "mlx5dv_devx_uar")]
#[derive(Clone, Debug)]
pub struct DevxUar {
    page: Page,
    offset: u64,
}

impl Devx {
    /// `mlx5dv_devx_alloc_uar`—allocates a page of registers for queues that the caller creates.
    /// With `combining` the processor may combine stores to it, which allows copying whole requests
    /// (BlueFlame).
    ///
    /// Two system calls, since 5.7.
    ///
    /// # Errors
    /// [`Unsupported`](uverbs_core::ErrorKind::Unsupported): an older kernel, or `combining` on a
    /// machine without support for it. ENOMEM, EINVAL: the device has no page left.
    #[doc(alias = "mlx5dv_devx_alloc_uar")]
    pub fn uar(&self, combining: bool) -> Result<DevxUar> {
        let kind = if combining {
            MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF
        } else {
            MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC
        };
        let (page, offset) = allocate_at(self.file(), kind)?;
        Ok(DevxUar { page, offset })
    }
}

impl DevxUar {
    /// Where the page is in this process, for programs that ring its doorbells themselves: for
    /// writing only, in whole words, and until the last clone of this is gone.
    pub fn address(&self) -> u64 {
        self.page.memory.address()
    }

    /// The offset that the kernel maps it at.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// `mlx5dv_devx_uar_export_dmabuf_fd`—the page as a dma-buf, through which other devices ring
    /// its doorbells. It keeps the page. One system call, in kernels after 6.19.
    ///
    /// # Errors
    /// [`Unsupported`](uverbs_core::ErrorKind::Unsupported) on older kernels.
    #[doc(alias = "mlx5dv_devx_uar_export_dmabuf_fd")]
    pub fn export(&self) -> Result<OwnedFd> {
        let op = Op::ExportDmabuf;
        let object = self.page.object.as_ref();
        let object = object.ok_or_else(|| Error::new(op, ErrorKind::Unsupported))?;
        let file = object.file();
        file.check_process(op)?;
        cmd::dmabuf::export(file, self.offset, &Uhw::NONE)
    }

    /// The device's number of the page, for commands that create queues.
    pub fn id(&self) -> u32 {
        self.page.id
    }

    /// This page as the parent of objects that use its doorbells; `None` for a page that belongs to
    /// the context.
    pub fn parent(&self) -> Option<Parent> {
        self.page.object.clone().map(Parent)
    }

    /// The `len` bytes at `offset`: 0x20 arms completion queues, doorbells of send queues start at
    /// 0x800.
    ///
    /// # Errors
    /// [`InvalidInput`](uverbs_core::ErrorKind::InvalidInput): outside the page, or not multiples
    /// of 8.
    pub fn register(&self, offset: usize, len: usize) -> Result<Register> {
        Register::new(Arc::clone(&self.page.memory), offset, len).ok_or_else(|| {
            Error::invalid(Op::AllocUar, "register")
                .fact("offset", offset)
                .fact("bytes", len)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uverbs_uapi::mlx5_user_ioctl_cmds::{
        MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET,
        MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
    };

    use super::*;
    use crate::tests::native;
    use crate::tests::scripted::Scripted;

    #[test]
    fn a_page_is_of_the_kind_that_was_asked_for() {
        let (kernel, file) = Scripted::new();
        let devx = Devx::new(&file);
        kernel.answer(
            MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET,
            &0x7000_u64.to_ne_bytes(),
        );
        kernel.answer(
            MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
            &4096_u32.to_ne_bytes(),
        );
        kernel.answer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &7_u32.to_ne_bytes());
        for (combining, kind) in [
            (true, MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF),
            (false, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC),
        ] {
            let page = devx.uar(combining).unwrap();
            assert_eq!((page.id(), page.offset()), (7, 0x7000));
            assert_ne!(page.address(), 0);
            let calls = kernel.take_calls();
            assert!(calls[0].contains(&format!("const={kind:#x}")), "{calls:?}");
            assert_eq!(calls[1..], ["map 0x7000 4096"]);
            assert_eq!(page.register(0x800, 8).unwrap().len(), 8);
            for (offset, len) in [(4096, 8), (4, 8), (0, 4), (usize::MAX - 7, 8)] {
                let error = page.register(offset, len).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            }
            page.export().unwrap();
            let [export]: [String; 1] = kernel.take_calls().try_into().unwrap();
            let offset = native(&0x7000_u64.to_ne_bytes());
            assert!(export.contains(&format!("in={offset}")), "{export}");
            let user = page.parent().unwrap();
            drop(page);
            assert_eq!(kernel.take_calls(), [""; 0], "it is in use");
            drop(user);
            assert_eq!(kernel.take_calls().len(), 1);
        }
    }
}
