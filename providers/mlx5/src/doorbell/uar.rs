//! Pages of the device's registers (user access regions), and the doorbells in them.
//!
//! A page has doorbells for send queues from offset 0x800 on, each with two buffers that are used
//! alternately. A store of eight bytes notifies the device; a whole request may be copied through
//! the doorbell instead (BlueFlame), so that the device need not read it. Only one thread may copy
//! at a time: queue pairs that share a page of registers write one doorbell of it, and copy through
//! the other if it is free. Completion queues are armed at 0x20 of any page.

use std::cell::Cell;
use std::sync::Arc;

use uverbs_core::cmd::{new_object_handle, new_object_slot};
use uverbs_core::kind::{Counts, Kind, Legacy};
use uverbs_core::sys::{Attr, Mapping, Protection, Uhw, cells};
use uverbs_core::{Object, Op, Result, UverbsFile};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE,
    MLX5_IB_METHOD_UAR_OBJ_ALLOC, MLX5_IB_METHOD_UAR_OBJ_DESTROY, MLX5_IB_OBJECT_UAR,
};

/// The first doorbell of a page.
pub(crate) const DOORBELLS: usize = 0x800;

static KIND: Kind = Kind {
    name: "Uar",
    op: Op::FreeUar,
    object: MLX5_IB_OBJECT_UAR,
    method: MLX5_IB_METHOD_UAR_OBJ_DESTROY,
    attr: MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE,
    counts: Counts::None,
    legacy: Legacy::None,
};

/// A mapped page.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) memory: Arc<Mapping>,
    /// The device's number of the page.
    pub(crate) id: u32,
    pub(crate) object: Option<Arc<Object>>,
}

/// Allocates a page of registers from the kernel (`MLX5_IB_UAPI_UAR_ALLOC_TYPE_*`).
pub(crate) fn allocate(file: &Arc<UverbsFile>, kind: u32) -> Result<Page> {
    allocate_at(file, kind).map(|(page, _)| page)
}

/// The same, with the offset that the kernel maps the page at.
pub(crate) fn allocate_at(file: &Arc<UverbsFile>, kind: u32) -> Result<(Page, u64)> {
    let op = Op::AllocUar;
    let handle: Cell<u32> = new_object_slot();
    let (mut offset, mut length, mut id) = (0_u64, 0_u32, 0_u32);
    file.ioctl_only(op, || {
        let attrs = [
            Attr::new_object(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, &handle),
            Attr::constant(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, kind),
            Attr::output(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, cells(&mut offset)),
            Attr::output(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, cells(&mut length)),
            Attr::output(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, cells(&mut id)),
        ];
        file.ioctl(
            op,
            MLX5_IB_OBJECT_UAR,
            MLX5_IB_METHOD_UAR_OBJ_ALLOC,
            &attrs,
            &Uhw::NONE,
        )
    })?;
    let handle = new_object_handle(op, &handle)?;
    let object = Object::new(file, &KIND, handle, []);
    let memory = file.map(offset, length as usize, Protection::Write)?;
    let page = Page {
        memory: Arc::new(memory),
        id,
        object: Some(Arc::new(object)),
    };
    Ok((page, offset))
}
