//! Doorbell pages of emulated virtio devices.

use uverbs_core::Result;
use uverbs_mlx5::{Var, VarKind};

use super::Adapter;

impl Adapter {
    /// `mlx5dv_alloc_var`—allocates a doorbell page that guests of an emulated device write to. One
    /// system call, since Linux 5.6.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | EOPNOTSUPP, EPROTONOSUPPORT | the device emulates none, or an older kernel |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | ENOSPC, ENOMEM | no page is left; memory |
    #[doc(alias = "mlx5dv_alloc_var")]
    pub fn alloc_var(&self, kind: VarKind) -> Result<Var> {
        Var::alloc(&self.context().inner.file, kind)
    }
}
