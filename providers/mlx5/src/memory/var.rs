//! Doorbell pages of emulated virtio devices (`drivers/infiniband/hw/mlx5/main.c`).

use std::sync::Arc;

use uverbs_core::cmd::{new_object_handle, new_object_slot};
use uverbs_core::hw::Register;
use uverbs_core::kind::{Counts, Kind, Legacy};
use uverbs_core::sys::{Attr, Mapping, Protection, Uhw, cells};
use uverbs_core::{DestroyError, Error, Object, Op, Result, UverbsFile};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_VAR_OBJ_ALLOC_FLAGS, MLX5_IB_ATTR_VAR_OBJ_ALLOC_HANDLE,
    MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_LENGTH, MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_OFFSET,
    MLX5_IB_ATTR_VAR_OBJ_ALLOC_PAGE_ID, MLX5_IB_ATTR_VAR_OBJ_DESTROY_HANDLE,
    MLX5_IB_METHOD_VAR_OBJ_ALLOC, MLX5_IB_METHOD_VAR_OBJ_DESTROY, MLX5_IB_OBJECT_VAR,
};
use uverbs_uapi::mlx5_user_ioctl_verbs::MLX5_IB_UAPI_VAR_ALLOC_FLAG_TLP;

use crate::devx::Parent;

/// The devices that a page is for.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum VarKind {
    /// Emulated virtio devices.
    #[default]
    Virtio,
    /// Devices emulated by PCI Express packets (`MLX5_IB_UAPI_VAR_ALLOC_FLAG_TLP`).
    Packets,
}

/// `mlx5dv_var`—a page of doorbells that guests of an emulated device write (virtio access region).
///
/// Its offset and length serve to map it into a guest; [`map`](Self::map) maps it into this
/// process.
#[doc(alias = "mlx5dv_var")]
#[derive(Debug)]
pub struct Var {
    object: Arc<Object>,
    page_id: u32,
    offset: u64,
    length: u32,
}

/// A [`Var`] that this process has mapped; cheap to clone. The kernel does not hand out the page
/// again before it is unmapped.
#[derive(Clone, Debug)]
pub struct MappedVar(Arc<Mapping>);

static KIND: Kind = Kind {
    name: "Var",
    op: Op::FreeVar,
    object: MLX5_IB_OBJECT_VAR,
    method: MLX5_IB_METHOD_VAR_OBJ_DESTROY,
    attr: MLX5_IB_ATTR_VAR_OBJ_DESTROY_HANDLE,
    counts: Counts::None,
    legacy: Legacy::None,
};

impl Var {
    /// `mlx5dv_var_import`—the page of the context that has this handle, whoever allocated it,
    /// where it is said to be. Dropping it frees nothing, and a free is refused.
    #[doc(alias = "mlx5dv_var_import")]
    #[doc(hidden)] // Users have no such handle: the library for C programs calls it.
    pub fn import(
        file: &Arc<UverbsFile>,
        handle: u32,
        page_id: u32,
        (offset, length): (u64, u32),
    ) -> Self {
        Self {
            object: Arc::new(Object::borrowed(file, &KIND, handle)),
            page_id,
            offset,
            length,
        }
    }

    /// The kernel's handle of the page in this context.
    pub fn handle(&self) -> u32 {
        self.object.handle()
    }

    /// `mlx5dv_alloc_var`—allocates a page from the device.
    ///
    /// One system call, since 5.6; [`VarKind::Packets`] is newer.
    ///
    /// # Errors
    /// [`Unsupported`](uverbs_core::ErrorKind::Unsupported) (EPROTONOSUPPORT, EOPNOTSUPP): the
    /// device does not support emulation, or the kernel is older. ENOSPC: no page is left.
    #[doc(alias = "mlx5dv_alloc_var")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn alloc(file: &Arc<UverbsFile>, kind: VarKind) -> Result<Self> {
        let op = Op::AllocVar;
        let handle = new_object_slot();
        let (mut offset, mut length, mut page_id) = (0_u64, 0_u32, 0_u32);
        let flags = match kind {
            VarKind::Virtio => None,
            VarKind::Packets => Some(MLX5_IB_UAPI_VAR_ALLOC_FLAG_TLP),
        };
        {
            let attrs = [
                Attr::new_object(MLX5_IB_ATTR_VAR_OBJ_ALLOC_HANDLE, &handle),
                Attr::maybe(flags, MLX5_IB_ATTR_VAR_OBJ_ALLOC_FLAGS, Attr::constant),
                Attr::output(MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_OFFSET, cells(&mut offset)),
                Attr::output(MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_LENGTH, cells(&mut length)),
                Attr::output(MLX5_IB_ATTR_VAR_OBJ_ALLOC_PAGE_ID, cells(&mut page_id)),
            ];
            let alloc = || {
                let method = MLX5_IB_METHOD_VAR_OBJ_ALLOC;
                file.ioctl(op, MLX5_IB_OBJECT_VAR, method, &attrs, &Uhw::NONE)
            };
            // A kernel that only lacks the flags has the method.
            let done = if flags.is_some() {
                alloc()
            } else {
                file.ioctl_only(op, alloc)
            };
            done.map_err(|error| error.fact("kind", format!("{kind:?}")))?;
        }
        let handle = new_object_handle(op, &handle)?;
        Ok(Self {
            object: Arc::new(Object::new(file, &KIND, handle, [])),
            page_id,
            offset,
            length,
        })
    }

    /// The device's number of the page, for commands that create emulated queues.
    pub fn page_id(&self) -> u32 {
        self.page_id
    }

    /// Its offset in the device's descriptor, for `mmap(2)`.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its length in bytes.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// This page as the parent of objects that use its doorbells.
    pub fn parent(&self) -> Parent {
        Parent(Arc::clone(&self.object))
    }

    /// Maps it into this process for writing. One system call.
    ///
    /// # Errors
    /// The errno of `mmap(2)`.
    pub fn map(&self) -> Result<MappedVar> {
        let file = self.object.file();
        let memory = file.map(self.offset, self.length as usize, Protection::Write)?;
        Ok(MappedVar(Arc::new(memory)))
    }

    /// `mlx5dv_free_var`—frees the page. One system call. Dropping it does the same.
    ///
    /// # Errors
    /// [`Busy`](uverbs_core::ErrorKind::Busy) while objects created with it as a parent exist; the
    /// page is then returned.
    #[doc(alias = "mlx5dv_free_var")]
    pub fn free(mut self) -> Result<(), DestroyError<Self>> {
        match Object::sole(&mut self.object).and_then(Object::try_destroy) {
            Ok(_) => Ok(()),
            Err(error) => Err(DestroyError::new(error, self)),
        }
    }
}

impl MappedVar {
    /// The `len` bytes at `offset`.
    ///
    /// # Errors
    /// [`InvalidInput`](uverbs_core::ErrorKind::InvalidInput): outside the page, or not multiples
    /// of 8.
    pub fn register(&self, offset: usize, len: usize) -> Result<Register> {
        Register::new(Arc::clone(&self.0), offset, len).ok_or_else(|| {
            Error::invalid(Op::AllocVar, "register")
                .fact("offset", offset)
                .fact("bytes", len)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uverbs_core::{Errno, ErrorKind};

    use super::*;
    use crate::tests::scripted::Scripted;

    #[test]
    fn a_page_is_taken_mapped_and_given_back() {
        let (kernel, file) = Scripted::new();
        kernel.answer(0x1001, &0x4_0000_u64.to_ne_bytes());
        kernel.answer(0x1002, &8192_u32.to_ne_bytes());
        kernel.answer(0x1003, &5_u32.to_ne_bytes());
        let page = Var::alloc(&file, VarKind::Virtio).unwrap();
        assert_eq!(
            (page.page_id(), page.offset(), page.length()),
            (5, 0x4_0000, 8192)
        );
        let mapped = page.map().unwrap();
        assert_eq!(mapped.register(4096, 8).unwrap().len(), 8);
        for (offset, len) in [(8192, 8), (4, 8), (0, 12), (usize::MAX - 7, 8)] {
            let error = mapped.register(offset, len).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        let user = page.parent();
        let refused = page.free().unwrap_err();
        let (page, error) = (*refused.handle.unwrap(), refused.error);
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        drop(user);
        page.free().unwrap();
        assert_eq!(
            kernel.take_calls(),
            [
                "+6/+0 +0:new +1:out8 +2:out4 +3:out4",
                "map 0x40000 8192",
                "+6/+1 +0:obj=1",
            ]
        );
    }

    #[test]
    fn an_unsupported_flag_does_not_affect_later_allocations() {
        let (kernel, file) = Scripted::new();
        kernel.refuse("+6/+0", Errno::PROTONOSUPPORT);
        let error = Var::alloc(&file, VarKind::Packets).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(
            kernel.take_calls(),
            ["+6/+0 +0:new +4:const=0x1 +1:out8 +2:out4 +3:out4"]
        );
        kernel.accept();
        let page = Var::alloc(&file, VarKind::Virtio).unwrap();
        // The kernel reports a length of 0.
        assert_eq!(page.map().unwrap_err().kind(), ErrorKind::BadReply);
    }
}
