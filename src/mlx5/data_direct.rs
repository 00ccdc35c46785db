//! Memory of other PCI devices, reached through the data-direct function.

use std::path::PathBuf;

use uverbs_core::types::AccessFlags;
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::Adapter;
use crate::memory::DmabufRange;
use crate::{MemoryRegion, ProtectionDomain};

impl Adapter {
    /// `mlx5dv_get_data_direct_sysfs_path`—the sysfs directory of the function that reaches other
    /// PCI devices without going through the processor. One system call, since Linux 6.12.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) (ENODEV): the device has none, or it is not bound to its
    /// driver. [`Unsupported`](ErrorKind::Unsupported) (EPROTONOSUPPORT): an older kernel.
    #[doc(alias = "mlx5dv_get_data_direct_sysfs_path")]
    pub fn data_direct_path(&self) -> Result<PathBuf> {
        self.provider(Op::DataDirectPath)?.data_direct_path()
    }
}

impl ProtectionDomain {
    /// `mlx5dv_reg_dmabuf_mr`—registers a part of a dmabuf that the device's data-direct function
    /// reaches without going through the processor. mlx5 devices only; one system call, since Linux
    /// 6.12. The `iova` must be page-aligned.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | – | not an mlx5 device |
    /// | [`Unsupported`](ErrorKind::Unsupported) | EOPNOTSUPP, EPROTONOSUPPORT | on-demand paging, an `iova` that is not page-aligned; an older kernel |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | EINVAL | the device has no such function; a range outside the dmabuf |
    #[doc(alias = "mlx5dv_reg_dmabuf_mr")]
    pub fn register_data_direct(
        &self,
        range: &DmabufRange<'_>,
        access: AccessFlags,
    ) -> Result<MemoryRegion> {
        let (Some(context), Some(pd)) = (self.context().of_mlx5(), self.of_mlx5()) else {
            return Err(Error::new(Op::RegisterDmabuf, ErrorKind::Unsupported)
                .fact("device", self.context().name().to_owned())
                .fact("needs_driver", "mlx5"));
        };
        let mr = context.register_data_direct(pd, &range.with(access))?;
        Ok(MemoryRegion::over(
            self,
            mr,
            range.iova,
            range.length,
            access,
        ))
    }
}
