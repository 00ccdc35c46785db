//! Memory of other PCI devices by the data-direct function, which accesses it without passing the
//! processor's root complex (`drivers/infiniband/hw/mlx5/data_direct.c`).

use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use uverbs_core::contract::{Context as _, DmabufInit, Mr};
use uverbs_core::sys::{Attr, Uhw};
use uverbs_core::{Errno, Error, Op, Result, UverbsFile};
use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_OBJECT_DEVICE;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_GET_DATA_DIRECT_SYSFS_PATH, MLX5_IB_ATTR_REG_DMABUF_MR_ACCESS_FLAGS,
    MLX5_IB_METHOD_GET_DATA_DIRECT_SYSFS_PATH,
};
use uverbs_uapi::mlx5_user_ioctl_verbs::MLX5_IB_UAPI_REG_DMABUF_ACCESS_DATA_DIRECT;

use crate::context::{Context, ProtectionDomain};

/// The buffer's size: the longest path in sysfs (`PATH_MAX`).
const ROOM: usize = 4096;

impl Context {
    /// `mlx5dv_get_data_direct_sysfs_path`—the directory of the data-direct function in sysfs.
    ///
    /// One system call, since 6.12.
    ///
    /// # Errors
    /// ENODEV: the device has no such function, or it is not bound to its driver. EPROTONOSUPPORT:
    /// an older kernel.
    #[doc(alias = "mlx5dv_get_data_direct_sysfs_path")]
    pub fn data_direct_path(&self) -> Result<PathBuf> {
        path(self.file())
    }

    /// `mlx5dv_reg_dmabuf_mr`—registers a part of a dmabuf for access by the data-direct function.
    /// The `iova` is aligned to a page.
    ///
    /// One system call, since 6.12.
    ///
    /// # Errors
    /// EINVAL: the device has no such function. EOPNOTSUPP: on-demand paging, or an `iova` within a
    /// page. EPROTONOSUPPORT: an older kernel. Otherwise as for other dmabufs.
    #[doc(alias = "mlx5dv_reg_dmabuf_mr")]
    #[doc(alias = "MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT")]
    pub fn register_data_direct(&self, pd: &ProtectionDomain, init: &DmabufInit<'_>) -> Result<Mr> {
        let attrs = [Attr::constant(
            MLX5_IB_ATTR_REG_DMABUF_MR_ACCESS_FLAGS,
            MLX5_IB_UAPI_REG_DMABUF_ACCESS_DATA_DIRECT,
        )];
        let uhw = Uhw {
            attrs: &attrs,
            ..Uhw::NONE
        };
        self.base().register_dmabuf(pd.object(), init, &uhw)
    }
}

fn path(file: &UverbsFile) -> Result<PathBuf> {
    let op = Op::DataDirectPath;
    let mut bytes = vec![0_u8; ROOM];
    file.ioctl_only(op, || {
        let cells = Cell::from_mut(bytes.as_mut_slice()).as_slice_of_cells();
        let attrs = [Attr::output(MLX5_IB_ATTR_GET_DATA_DIRECT_SYSFS_PATH, cells)];
        file.ioctl(
            op,
            UVERBS_OBJECT_DEVICE,
            MLX5_IB_METHOD_GET_DATA_DIRECT_SYSFS_PATH,
            &attrs,
            &Uhw::NONE,
        )
    })
    .map_err(explain)?;
    let end = bytes.iter().position(|byte| *byte == 0);
    let below = end.and_then(|end| bytes.get(..end)).unwrap_or_default();
    if !below.starts_with(b"/") {
        return Err(Error::bad_reply(op, "path"));
    }
    // The kernel's path is relative to the root of sysfs.
    let whole = [b"/sys", below].concat();
    Ok(PathBuf::from(OsString::from_vec(whole)))
}

fn explain(error: Error) -> Error {
    match error.errno() {
        Some(Errno::NODEV) => error.hint("the device has no data-direct function"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uverbs_core::ErrorKind;

    use super::*;
    use crate::tests::scripted::Scripted;

    #[test]
    fn the_path_is_below_sysfs() {
        let (kernel, file) = Scripted::new();
        kernel.answer(0x1000, b"/devices/pci0000:00/0000:00:05.0\0");
        let found = path(&file).unwrap();
        let folder = "/sys/devices/pci0000:00/0000:00:05.0";
        assert_eq!(found, PathBuf::from(folder));
        assert_eq!(kernel.take_calls(), ["0/+1 +0:out4096"]);
        kernel.refuse("0/+1", Errno::NODEV);
        let error = path(&file).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::NODEV), "{error}");
    }

    #[test]
    fn a_malformed_path_is_a_bad_reply() {
        for bytes in [[b'/'; ROOM].as_slice(), b"devices\0", b""] {
            let (kernel, file) = Scripted::new();
            kernel.answer(0x1000, bytes);
            let error = path(&file).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
        }
    }

    #[test]
    fn a_region_is_registered_for_the_function() {
        use std::os::fd::AsFd as _;
        let (kernel, context) = Scripted::context(0);
        let pd = kernel.pd(&context);
        kernel.take_calls();
        let file = std::fs::File::open("/dev/null").unwrap();
        let init = DmabufInit {
            fd: file.as_fd(),
            offset: 4096,
            length: 8192,
            iova: 0x1_0000,
            access: uverbs_core::types::AccessFlags::LOCAL_WRITE,
        };
        let region = context.register_data_direct(&pd, &init).unwrap();
        let [call]: [String; 1] = kernel.take_calls().try_into().unwrap();
        assert!(call.ends_with("+0:const=0x1"), "{call}");
        drop(region);
        let error = {
            kernel.refuse("", Errno::INVAL);
            context.register_data_direct(&pd, &init).unwrap_err()
        };
        assert_eq!(error.errno(), Some(Errno::INVAL), "{error}");
        let error = context.data_direct_path().unwrap_err();
        assert_eq!(error.known_hint(), None);
        kernel.accept();
        kernel.refuse("", Errno::NODEV);
        let error = context.data_direct_path().unwrap_err();
        assert!(
            error
                .known_hint()
                .unwrap()
                .contains("no data-direct function")
        );
    }
}
