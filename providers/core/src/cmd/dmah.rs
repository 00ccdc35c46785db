//! DMA handles (`UVERBS_OBJECT_DMAH`): hints for the DMA of a memory region (PCIe TLP processing
//! hints).

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_ALLOC_DMAH_CPU_ID, UVERBS_ATTR_ALLOC_DMAH_HANDLE, UVERBS_ATTR_ALLOC_DMAH_PH,
    UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE, UVERBS_ATTR_FREE_DMA_HANDLE, UVERBS_METHOD_DMAH_ALLOC,
    UVERBS_METHOD_DMAH_FREE, UVERBS_OBJECT_DMAH,
};

use super::legacy::{explain_create, handle_slot, new_handle};
use crate::error::{Errno, Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::{Attr, Uhw, Value};

/// The kind of memory (`enum tph_mem_type`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MemoryType {
    /// Volatile.
    Volatile,
    /// Persistent.
    Persistent,
}

/// Hints. Default: none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Alloc {
    /// The processor that will use the data; this thread must be allowed to run on it.
    pub cpu: Option<u32>,
    /// The kind of memory.
    pub memory: Option<MemoryType>,
    /// The processing hint, two bits.
    pub hint: Option<u8>,
}

/// `ibv_alloc_dmah`—allocates a DMA handle and returns its number.
///
/// One system call, since 6.17.
///
/// # Errors
/// EPROTONOSUPPORT, EOPNOTSUPP: the kernel, the driver or the platform does not have it. EPERM:
/// this thread may not run on the processor. EINVAL: no such processor, or more than two bits.
#[doc(alias = "ibv_alloc_dmah")]
pub fn alloc(file: &UverbsFile, request: &Alloc, uhw: &Uhw<'_>) -> Result<u32> {
    let op = Op::AllocDmaHandle;
    let memory = request.memory.map(|memory| match memory {
        MemoryType::Volatile => 0,
        MemoryType::Persistent => 1,
    });
    let handle = handle_slot();
    file.ioctl_only(op, || {
        let attrs = [
            Attr::new_object(UVERBS_ATTR_ALLOC_DMAH_HANDLE, &handle),
            Attr::maybe(
                request.cpu.as_ref(),
                UVERBS_ATTR_ALLOC_DMAH_CPU_ID,
                Attr::input,
            ),
            Attr::maybe(
                memory,
                UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE,
                |id, element| Attr::new(id, Value::Enum(element, &[])),
            ),
            Attr::maybe(
                request.hint.as_ref(),
                UVERBS_ATTR_ALLOC_DMAH_PH,
                Attr::input,
            ),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_DMAH,
            UVERBS_METHOD_DMAH_ALLOC,
            &attrs,
            uhw,
        )
    })
    .map_err(|error| match (error.errno(), request.cpu) {
        (Some(Errno::PERM | Errno::INVAL), Some(cpu)) => error.fact("cpu", cpu),
        _ => explain_create(error),
    })?;
    new_handle(op, handle.get())
}

/// DMA handles, which `ibv_dealloc_dmah` frees.
///
/// One system call.
///
/// # Errors
/// EBUSY: a region uses it.
#[doc(alias = "ibv_dealloc_dmah")]
pub static KIND: kind::Kind = kind::Kind {
    name: "DmaHandle",
    op: Op::FreeDmaHandle,
    object: UVERBS_OBJECT_DMAH,
    method: UVERBS_METHOD_DMAH_FREE,
    attr: UVERBS_ATTR_FREE_DMA_HANDLE,
    counts: kind::Counts::None,
    legacy: kind::Legacy::None,
};
