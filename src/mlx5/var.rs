//! Doorbell pages of emulated virtio devices.

use uverbs_core::Result;
use uverbs_mlx5::{Var, VarKind};

use super::Adapter;

impl Adapter {
    /// `mlx5dv_alloc_var`—takes a page of doorbells that guests of an emulated device ring. One
    /// system call, since Linux 5.6.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | EOPNOTSUPP, EPROTONOSUPPORT | the device emulates none, or the kernel is older |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | ENOSPC, ENOMEM | no page is left; memory |
    #[doc(alias = "mlx5dv_alloc_var")]
    pub fn alloc_var(&self, kind: VarKind) -> Result<Var> {
        Var::alloc(&self.context().inner.file, kind)
    }
}
