//! Hints for the device's DMA, and regions with them: names that are newer than Debian's headers.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. The program that registers memory is
//! responsible for it, as the C interface says.
#![allow(unsafe_code, reason = "exports names")]
#![allow(non_camel_case_types, reason = "the names of the header")]

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;

use uverbs_core::Object as KernelObject;
use uverbs_core::contract::{DmaHints, HintedInit, MemoryType, Mr as Region, Source};

use crate::abi::{ibv_context, ibv_mr};
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::errno::Code;
use crate::fork;
use crate::lock::Locked;
use crate::memory::{Mr, access};
use crate::pd::Pd;
use crate::pointer::{Handle, In, Object};

/// `struct ibv_dmah`.
#[repr(C)]
pub(crate) struct ibv_dmah {
    context: *mut ibv_context,
}

/// `struct ibv_dmah_init_attr`.
#[repr(C)]
pub(crate) struct ibv_dmah_init_attr {
    comp_mask: u32,
    cpu_id: u32,
    ph: u8,
    tph_mem_type: u8,
}

/// `struct ibv_mr_init_attr`, without the member that only buffers of this library's own have.
#[repr(C)]
pub(crate) struct ibv_mr_init_attr {
    length: usize,
    access: c_int,
    comp_mask: u64,
    iova: u64,
    addr: *mut c_void,
    fd: c_int,
    fd_offset: u64,
    dmah: *mut ibv_dmah,
}

/// Hints.
#[repr(C)]
pub(crate) struct Hints {
    c: ibv_dmah,
    object: Locked<KernelObject>,
}

impl Object for Hints {
    type C = ibv_dmah;
}

/// `IBV_DMAH_INIT_ATTR_MASK_…`.
mod hint {
    pub(super) const PROCESSOR: u32 = 1;
    pub(super) const PROCESSING: u32 = 1 << 1;
    pub(super) const MEMORY: u32 = 1 << 2;
    /// Where the data is wanted, which takes both.
    pub(super) const STEERING: u32 = PROCESSOR | MEMORY;
    pub(super) const ALL: u32 = STEERING | PROCESSING;
}

fn wanted(attr: &ibv_dmah_init_attr) -> Answer<DmaHints> {
    let mask = attr.comp_mask;
    if mask & !hint::ALL != 0 {
        return Err(Code::UNSUPPORTED);
    }
    let steering = mask & hint::STEERING;
    if mask & hint::PROCESSING == 0 || (steering != 0 && steering != hint::STEERING) {
        return Err(Code::INVALID);
    }
    let memory = match attr.tph_mem_type {
        _ if steering == 0 => None,
        0 => Some(MemoryType::Volatile),
        1 => Some(MemoryType::Persistent),
        _ => return Err(Code::INVALID),
    };
    Ok(DmaHints {
        cpu: (steering != 0).then_some(attr.cpu_id),
        memory,
        hint: Some(attr.ph),
    })
}

/// The slot, too.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_alloc_dmah(
    context: Handle<Context>,
    attr: In<ibv_dmah_init_attr>,
) -> *mut ibv_dmah {
    pointer(|| {
        let opened = context.get()?;
        let wanted = wanted(attr.get()?)?;
        let object = opened.provider().base().alloc_dma_hints(&wanted)?;
        opened.users.add();
        let hints = Hints {
            c: ibv_dmah {
                context: context.raw(),
            },
            object: Locked::new(object, true),
        };
        Ok(Hints::to_c(Box::into_raw(Box::new(hints))))
    })
}

/// The slot, too. The kernel refuses it (EBUSY) while regions have the hints.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_dealloc_dmah(hints: Handle<Hints>) -> c_int {
    number(|| {
        let own = hints.get()?;
        own.object.with(KernelObject::try_destroy)?;
        Handle::<Context>::of(own.c.context).get()?.leave();
        own.free();
        Ok(())
    })
}

/// `IBV_REG_MR_MASK_…`.
mod member {
    pub(super) const IOVA: u64 = 1;
    pub(super) const ADDRESS: u64 = 1 << 1;
    pub(super) const DESCRIPTOR: u64 = 1 << 2;
    pub(super) const OFFSET: u64 = 1 << 3;
    pub(super) const HINTS: u64 = 1 << 4;
    /// Memory of this process, and a part of a dma-buf.
    pub(super) const SOURCES: u64 = ADDRESS | DESCRIPTOR | OFFSET;
    pub(super) const ALL: u64 = SOURCES | IOVA | HINTS;
}

/// The slot, too.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_reg_mr_ex(pd: Handle<Pd>, attr: In<ibv_mr_init_attr>) -> *mut ibv_mr {
    pointer(|| {
        let (domain, attr) = (pd.get()?, attr.get()?);
        let mask = attr.comp_mask;
        if mask & !member::ALL != 0 {
            return Err(Code::UNSUPPORTED);
        }
        let start = attr.addr.expose_provenance() as u64;
        let (source, iova, address) = match mask & member::SOURCES {
            member::ADDRESS => (Source::Address(start), start, attr.addr),
            sources if sources == member::DESCRIPTOR | member::OFFSET => {
                if attr.fd < 0 {
                    return Err(Code::new(libc::EBADF));
                }
                if mask & member::IOVA == 0 {
                    return Err(Code::INVALID);
                }
                // SAFETY: not -1; the program keeps it open during the call.
                let fd = unsafe { BorrowedFd::borrow_raw(attr.fd) };
                let offset = attr.fd_offset;
                (Source::Fd { fd, offset }, 0, std::ptr::null_mut())
            }
            _ => return Err(Code::INVALID),
        };
        let rights = access(attr.access)?;
        let keep = match source {
            Source::Address(_) => {
                if attr.addr.addr().checked_add(attr.length).is_none() {
                    return Err(Code::INVALID);
                }
                fork::protect(attr.addr.addr(), attr.length)?
            }
            Source::Fd { .. } => None,
        };
        let hints = (mask & member::HINTS != 0).then(|| Handle::<Hints>::of(attr.dmah));
        let context = domain.context()?;
        let inner = domain.domain()?;
        let register = |hints: Option<&KernelObject>| -> Answer<Region> {
            let init = HintedInit {
                source,
                length: attr.length as u64,
                iova: if mask & member::IOVA == 0 {
                    iova
                } else {
                    attr.iova
                },
                access: rights,
                hints,
            };
            let base = context.provider().base();
            Ok(base.register_hinted(inner.object(), &init, keep)?)
        };
        let region = match hints {
            Some(hints) => hints.get()?.object.with(|hints| register(Some(hints))),
            None => register(None),
        }?;
        Mr::give(pd, address, attr.length, region)
    })
}
