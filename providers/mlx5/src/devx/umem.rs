//! Memory for objects created by DEVX commands.

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use uverbs_core::cmd::{new_object_handle, new_object_slot};
use uverbs_core::hw::Pages;
use uverbs_core::kind::{Counts, Kind, Legacy};
use uverbs_core::sys::{Attr, Uhw, cells};
use uverbs_core::types::AccessFlags;
use uverbs_core::{DestroyError, Errno, Error, Object, Op, Result};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS,
    MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD,
    MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN,
    MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP,
    MLX5_IB_METHOD_DEVX_UMEM_DEREG, MLX5_IB_METHOD_DEVX_UMEM_REG, MLX5_IB_OBJECT_DEVX_UMEM,
};

use super::{Devx, Parent};

static KIND: Kind = Kind {
    name: "Umem",
    op: Op::DevxDeregisterMemory,
    object: MLX5_IB_OBJECT_DEVX_UMEM,
    method: MLX5_IB_METHOD_DEVX_UMEM_DEREG,
    attr: MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE,
    counts: Counts::None,
    legacy: Legacy::None,
};

/// The memory to register.
#[derive(Clone, Copy, Debug)]
pub enum UmemMemory<'a> {
    /// Memory of this process.
    Process {
        /// The start address.
        address: u64,
        /// The length in bytes.
        length: u64,
    },
    /// A part of a dmabuf, which stays pinned.
    Dmabuf {
        /// The dmabuf.
        fd: BorrowedFd<'a>,
        /// The offset of the part in the dmabuf.
        offset: u64,
        /// The length in bytes.
        length: u64,
    },
}

/// `mlx5dv_devx_umem_in`—the parameters of a registration.
#[doc(alias = "mlx5dv_devx_umem_in")]
#[derive(Clone, Copy, Debug)]
pub struct UmemInit<'a> {
    /// The memory.
    pub memory: UmemMemory<'a>,
    /// Whether the device may write: [`AccessFlags::LOCAL_WRITE`]; remote access and relaxed
    /// ordering are supported too.
    pub access: AccessFlags,
    /// The allowed page sizes, one bit each, for which offsets within the memory stay valid.
    /// `None`: 4 KiB, which suits only objects that start at its beginning.
    pub page_sizes: Option<u64>,
}

/// `mlx5dv_devx_umem`—registered memory. Cheap to clone.
#[doc(alias = "mlx5dv_devx_umem")]
#[derive(Clone, Debug)]
pub struct Umem {
    object: Arc<Object>,
    id: u32,
}

impl Devx {
    /// `mlx5dv_devx_umem_reg`, `mlx5dv_devx_umem_reg_ex`—registers memory for objects created by
    /// DEVX commands. `keep` is released once the kernel no longer uses the memory.
    ///
    /// One system call. A dmabuf since 6.1.
    ///
    /// # Errors
    /// EINVAL: no DEVX in this context, unsupported access flags, or page sizes that are impossible
    /// for this memory. EFAULT: not mapped. ENOMEM: the limit of locked memory.
    ///
    /// # Safety
    /// 1. The memory stays allocated until `keep` is released. While the device may use it, it is
    ///    not accessed through references, except for shared references to atomics.
    #[doc(alias = "mlx5dv_devx_umem_reg")]
    #[doc(alias = "mlx5dv_devx_umem_reg_ex")]
    #[expect(unsafe_code, reason = "passes an obligation on")]
    pub unsafe fn register(
        &self,
        init: &UmemInit<'_>,
        keep: impl Any + Send + Sync,
    ) -> Result<Umem> {
        self.register_kept(init, keep)
    }

    /// Registers pages, which are only accessed by atomic operations.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_pages(&self, pages: &Arc<Pages>, access: AccessFlags) -> Result<Umem> {
        let init = UmemInit {
            memory: UmemMemory::Process {
                address: pages.address(),
                length: pages.len() as u64,
            },
            access,
            page_sizes: None,
        };
        self.register_kept(&init, Arc::clone(pages))
    }

    fn register_kept(&self, init: &UmemInit<'_>, keep: impl Any + Send + Sync) -> Result<Umem> {
        let op = Op::DevxRegisterMemory;
        let access = init.access.checked(op, "access")?;
        let (start, length, fd) = match init.memory {
            UmemMemory::Process { address, length } => (address, length, None),
            UmemMemory::Dmabuf { fd, offset, length } => (offset, length, Some(fd)),
        };
        let handle = new_object_slot();
        let mut id = 0_u32;
        let mut register = || {
            let attrs = [
                Attr::new_object(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, &handle),
                Attr::input(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, &start),
                Attr::input(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, &length),
                Attr::constant(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, access),
                Attr::maybe(
                    init.page_sizes,
                    MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP,
                    Attr::constant,
                ),
                Attr::maybe(fd, MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD, Attr::fd),
                Attr::output(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, cells(&mut id)),
            ];
            self.file.ioctl(
                op,
                MLX5_IB_OBJECT_DEVX_UMEM,
                MLX5_IB_METHOD_DEVX_UMEM_REG,
                &attrs,
                &Uhw::NONE,
            )
        };
        let create = || {
            // A kernel that only lacks a newer attribute has the method.
            let done = if fd.is_some() || init.page_sizes.is_some() {
                register()
            } else {
                self.file.ioctl_only(op, register)
            };
            done.map_err(|error| explain(error).fact("bytes", length))?;
            new_object_handle(op, &handle)
        };
        let (object, _) = Object::create(&self.file, &KIND, [], keep, create, |handle| *handle)?;
        Ok(Umem {
            object: Arc::new(object),
            id,
        })
    }
}

fn explain(error: Error) -> Error {
    match error.errno() {
        Some(Errno::NOMEM) => error.hint(
            "raise the limit of locked memory (ulimit -l, LimitMEMLOCK=) or grant CAP_IPC_LOCK",
        ),
        _ => error,
    }
}

impl Umem {
    /// `mlx5dv_devx_umem_import`—the memory of the context that has this handle, whoever registered
    /// it, and the device's number `id`. Dropping it ends nothing, and a deregistration is refused.
    #[doc(alias = "mlx5dv_devx_umem_import")]
    #[doc(hidden)] // Users have no such handle: the library for C programs calls it.
    pub fn import(file: &Arc<uverbs_core::UverbsFile>, handle: u32, id: u32) -> Self {
        Self {
            object: Arc::new(Object::borrowed(file, &KIND, handle)),
            id,
        }
    }

    /// The kernel's handle of the registration in this context.
    pub fn handle(&self) -> u32 {
        self.object.handle()
    }

    /// The device's number of the memory, for commands.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// This memory as the parent of objects created on it.
    pub fn parent(&self) -> Parent {
        Parent(Arc::clone(&self.object))
    }

    /// `mlx5dv_devx_umem_dereg`—ends the registration.
    ///
    /// # Errors
    /// [`Busy`](uverbs_core::ErrorKind::Busy) while clones, or objects created on it, exist;
    /// otherwise the errno for the firmware's status. The memory is returned, unless it is unknown
    /// whether the registration has ended.
    #[doc(alias = "mlx5dv_devx_umem_dereg")]
    pub fn deregister(mut self) -> Result<(), DestroyError<Self>> {
        match Object::sole(&mut self.object).and_then(Object::try_destroy) {
            Ok(_) => Ok(()),
            Err(error) => Err(DestroyError::new(error, self)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::os::fd::AsFd as _;

    use uverbs_core::ErrorKind;

    use super::*;
    use crate::tests::scripted::Scripted;

    #[test]
    fn access_without_a_name_is_not_requested() {
        let (kernel, file) = Scripted::new();
        let devx = Devx::new(&file);
        let pages = Arc::new(Pages::new(4096).unwrap());
        for at in 0..32 {
            let access = AccessFlags::LOCAL_WRITE | AccessFlags::from_bits_retain(1 << at);
            let made = devx.register_pages(&pages, access);
            let requested = kernel.take_calls();
            if matches!(at, 0..=9 | 20..=29) {
                made.unwrap();
                assert_eq!(requested.len(), 1, "bit {at}");
            } else {
                let error = made.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
                assert_eq!(requested, [""; 0], "bit {at}");
            }
            // The end of those that were registered.
            kernel.take_calls();
        }
    }

    #[test]
    fn a_kernel_without_an_attribute_has_the_method() {
        let (kernel, file) = Scripted::new();
        let devx = Devx::new(&file);
        let pages = Arc::new(Pages::new(4096).unwrap());
        let memory = |page_sizes| UmemInit {
            memory: UmemMemory::Process {
                address: pages.address(),
                length: 4096,
            },
            access: AccessFlags::LOCAL_WRITE,
            page_sizes,
        };
        let file = std::fs::File::open("/dev/null").unwrap();
        let foreign = UmemInit {
            memory: UmemMemory::Dmabuf {
                fd: file.as_fd(),
                offset: 0,
                length: 4096,
            },
            ..memory(None)
        };
        kernel.refuse("", Errno::PROTONOSUPPORT);
        for init in [&foreign, &memory(Some(1 << 12))] {
            devx.register_kept(init, ()).unwrap_err();
        }
        assert_eq!(kernel.take_calls().len(), 2);
        kernel.accept();
        drop(devx.register_kept(&memory(None), ()).unwrap());
        kernel.refuse("", Errno::PROTONOSUPPORT);
        kernel.take_calls();
        devx.register_kept(&memory(None), ()).unwrap_err();
        devx.register_kept(&memory(None), ()).unwrap_err();
        assert_eq!(
            kernel.take_calls().len(),
            1,
            "what is not there is asked for once"
        );
    }
}
