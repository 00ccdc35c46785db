//! Memory on the device, and the null region.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::IntoRawFd as _;
use std::ptr::with_exposed_provenance_mut;

use uverbs_mlx5::{DeviceMemory, ProtectionDomain, SteeringMemory};

use super::abi::mlx5dv_alloc_dm_attr;
use super::own;
use crate::abi::{Slot, ibv_alloc_dm_attr, ibv_dm, ibv_mr};
use crate::answer::{Answer, minus_one, number, pointer};
use crate::context::Context;
use crate::errno::Code;
use crate::lock::Locked;
use crate::memory::{Mr, access};
use crate::pd::Pd;
use crate::pointer::{Handle, In, Object, items, items_mut};
use crate::users::Users;

/// Memory on the device.
#[repr(C)]
pub(crate) struct Dm {
    c: ibv_dm,
    /// `None` once it was freed.
    memory: Locked<Option<DeviceMemory>>,
    /// Whether somebody else frees it.
    is_imported: bool,
    /// Regions of it.
    pub(crate) users: Users,
}

impl Object for Dm {
    type C = ibv_dm;
}

impl Dm {
    fn give(context: Handle<Context>, memory: DeviceMemory, is_imported: bool) -> *mut ibv_dm {
        let dm = Self {
            c: ibv_dm {
                context: context.raw(),
                memcpy_to_dm: copy_to as Slot,
                memcpy_from_dm: copy_from as Slot,
                comp_mask: 0,
                handle: memory.object().handle(),
            },
            memory: Locked::new(Some(memory), true),
            is_imported,
            users: Users::new(),
        };
        Self::to_c(Box::into_raw(Box::new(dm)))
    }

    /// Ends what the program has, and the memory if that is the program's own.
    fn end(&self) -> Answer<()> {
        self.users.none()?;
        self.memory.with(|memory| {
            let memory = memory.take().ok_or(Code::INVALID)?;
            if self.is_imported {
                drop(memory);
                return Ok(());
            }
            Ok::<_, Code>(memory.free()?)
        })?;
        Handle::<Context>::of(self.c.context).get()?.leave();
        self.free();
        Ok(())
    }

    pub(super) fn with<R>(&self, body: impl FnOnce(&DeviceMemory) -> Answer<R>) -> Answer<R> {
        self.memory
            .with(|memory| body(memory.as_ref().ok_or(Code::INVALID)?))
    }
}

/// The slot.
pub(crate) extern "C" fn alloc_dm(
    context: Handle<Context>,
    attr: In<ibv_alloc_dm_attr>,
) -> *mut ibv_dm {
    pointer(|| {
        let opened = context.get()?;
        let attr = attr.get()?;
        if attr.comp_mask != 0 {
            return Err(Code::UNSUPPORTED);
        }
        let length = attr.length as u64;
        let memory = DeviceMemory::alloc(own(opened)?, length, attr.log_align_req)?;
        opened.users.add();
        Ok(Dm::give(context, memory, false))
    })
}

/// What memory of each kind (`enum mlx5dv_alloc_dm_type`) is for, if not for programs' data.
fn steering(kind: u32) -> Answer<Option<SteeringMemory>> {
    Ok(Some(match kind {
        0 => return Ok(None),
        1 => SteeringMemory::Entries,
        2 => SteeringMemory::HeaderChanges,
        3 => SteeringMemory::HeaderPatterns,
        4 => SteeringMemory::Encapsulations,
        _ => return Err(Code::UNSUPPORTED),
    }))
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_alloc_dm(
    context: Handle<Context>,
    attr: In<ibv_alloc_dm_attr>,
    vendor: In<mlx5dv_alloc_dm_attr>,
) -> *mut ibv_dm {
    pointer(|| {
        let opened = context.get()?;
        let own = own(opened)?;
        let (attr, vendor) = (attr.get()?, vendor.get()?);
        let kind = steering(vendor.r#type)?;
        if attr.comp_mask != 0 || vendor.comp_mask != 0 {
            return Err(Code::INVALID);
        }
        let (length, alignment) = (attr.length as u64, attr.log_align_req);
        let memory = match kind {
            None => DeviceMemory::alloc(own, length, alignment)?,
            Some(kind) => DeviceMemory::alloc_steering(own, kind, length, alignment)?,
        };
        opened.users.add();
        Ok(Dm::give(context, memory, false))
    })
}

/// The program unmaps the word, with the length of the memory in whole pages.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_dm_map_op_addr(dm: Handle<Dm>, operation: u8) -> *mut c_void {
    pointer(|| {
        let word = dm
            .get()?
            .with(|memory| Ok(memory.map_operation(operation)?))?;
        let address = usize::try_from(word.leak()).map_err(|_| Code::INVALID)?;
        Ok(with_exposed_provenance_mut(address))
    })
}

/// The slot, too.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_dm_export_dmabuf_fd(dm: Handle<Dm>) -> c_int {
    minus_one(|| {
        let exported = dm.get()?.with(|memory| Ok(memory.export()?))?;
        Ok(exported.into_raw_fd())
    })
}

/// The slot. Refused (EBUSY) while regions of it exist.
pub(crate) extern "C" fn free_dm(dm: Handle<Dm>) -> c_int {
    number(|| {
        let own = dm.get()?;
        if own.is_imported {
            return Err(Code::INVALID);
        }
        own.end()
    })
}

/// Memory that somebody else frees, by its handle.
pub(crate) fn import_dm(context: Handle<Context>, handle: u32) -> Answer<*mut ibv_dm> {
    let opened = context.get()?;
    let memory = DeviceMemory::import(own(opened)?, handle)?;
    opened.users.add();
    Ok(Dm::give(context, memory, true))
}

pub(crate) fn unimport_dm(dm: Handle<Dm>) -> Answer<()> {
    let own = dm.get()?;
    if !own.is_imported {
        return Err(Code::INVALID);
    }
    own.end()
}

extern "C" fn copy_to(dm: Handle<Dm>, offset: u64, from: *const c_void, length: usize) -> c_int {
    number(|| {
        let bytes = items(from.cast::<u8>(), length)?;
        dm.get()?.with(|memory| Ok(memory.write(offset, bytes)?))
    })
}

extern "C" fn copy_from(into: *mut c_void, dm: Handle<Dm>, offset: u64, length: usize) -> c_int {
    number(|| {
        let bytes = items_mut(into.cast::<u8>(), length)?;
        dm.get()?.with(|memory| Ok(memory.read(offset, bytes)?))
    })
}

/// The slot.
pub(crate) extern "C" fn reg_dm_mr(
    pd: Handle<Pd>,
    dm: Handle<Dm>,
    offset: u64,
    length: usize,
    bits: c_uint,
) -> *mut ibv_mr {
    pointer(|| {
        let domain = pd.get()?;
        let context = own(domain.context()?)?;
        let inner = domain.domain()?;
        let inner: &ProtectionDomain = inner.of().ok_or(Code::INVALID)?;
        let rights = access(bits.cast_signed())?;
        let memory = dm.get()?;
        let region = memory
            .with(|memory| Ok(memory.register(context, inner, offset, length as u64, rights)?))?;
        Mr::of_device(pd, dm, length, region)
    })
}

/// The slot: a key without a region, of which the kernel knows nothing.
pub(crate) extern "C" fn alloc_null_mr(pd: Handle<Pd>) -> *mut ibv_mr {
    pointer(|| {
        let domain = pd.get()?;
        let key = own(domain.context()?)?.null_key();
        let key = key.ok_or(Code::UNSUPPORTED)?;
        Mr::null(
            pd,
            ibv_mr {
                context: domain.context_pointer(),
                pd: Cell::new(pd.raw()),
                addr: Cell::new(std::ptr::null_mut()),
                length: Cell::new(usize::MAX),
                handle: 0,
                lkey: Cell::new(key.raw()),
                rkey: Cell::new(0),
            },
        )
    })
}
