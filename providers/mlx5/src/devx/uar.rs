//! Pages of registers for queues created by DEVX commands.

use std::sync::Arc;

use uverbs_core::hw::Register;
use uverbs_core::{Error, Op, Result};
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
