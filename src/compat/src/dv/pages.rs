//! Memory and pages for objects that the firmware creates: `mlx5dv_devx_umem`, `mlx5dv_devx_uar`,
//! `mlx5dv_var`; and entries of the table of send rates, `mlx5dv_pp`.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. Registered memory is the program's to
//! keep allocated, and its descriptors are open during a call, as the C interface says.
#![allow(unsafe_code, reason = "exports names; registers a program's memory")]

use std::ffi::{c_int, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd as _};
use std::ptr::with_exposed_provenance_mut;

use uverbs_core::DestroyError;
use uverbs_mlx5::devx::{DevxUar, Umem, UmemInit, UmemMemory};
use uverbs_mlx5::pacing::{PacingEntry, RateLimit};
use uverbs_mlx5::prm::{field, word};
use uverbs_mlx5::{Var, VarKind};

use super::abi::{mlx5dv_devx_uar, mlx5dv_devx_umem, mlx5dv_devx_umem_in, mlx5dv_pp, mlx5dv_var};
use super::devx::firmware;
use super::held::Held;
use super::own;
use crate::answer::{Answer, minus_one, number, pointer};
use crate::context::Context;
use crate::errno::Code;
use crate::fork;
use crate::memory::access;
use crate::pointer::{Handle, In, items};

pub(super) type Registered = Held<mlx5dv_devx_umem, Umem>;

fn register(
    context: Handle<Context>,
    init: &UmemInit<'_>,
    range: Option<(usize, usize)>,
) -> Answer<*mut mlx5dv_devx_umem> {
    let devx = firmware(context)?;
    let keep = match range {
        Some((address, length)) => fork::protect(address, length)?,
        None => None,
    };
    // SAFETY: as `mlx5dv_devx_umem_reg` asks, the program keeps the pages until it ends the
    // registration.
    let umem = unsafe { devx.register(init, keep) }?;
    let c = mlx5dv_devx_umem { umem_id: umem.id() };
    Registered::give(context, c, umem)
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_umem_reg(
    context: Handle<Context>,
    address: *mut c_void,
    length: usize,
    bits: u32,
) -> *mut mlx5dv_devx_umem {
    pointer(|| {
        let init = UmemInit {
            memory: UmemMemory::Process {
                address: address.expose_provenance() as u64,
                length: length as u64,
            },
            access: access(bits.cast_signed())?,
            page_sizes: None,
        };
        register(context, &init, Some((address.addr(), length)))
    })
}

/// `MLX5DV_UMEM_MASK_DMABUF`.
const DMABUF: u64 = 1;

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_umem_reg_ex(
    context: Handle<Context>,
    wanted: In<mlx5dv_devx_umem_in>,
) -> *mut mlx5dv_devx_umem {
    pointer(|| {
        let wanted = wanted.get()?;
        if wanted.comp_mask & !DMABUF != 0 {
            return Err(Code::UNSUPPORTED);
        }
        let is_foreign = wanted.comp_mask & DMABUF != 0;
        if is_foreign && wanted.dmabuf_fd < 0 {
            return Err(Code::new(libc::EBADF));
        }
        let (start, length) = (wanted.addr.expose_provenance() as u64, wanted.size as u64);
        let memory = if is_foreign {
            UmemMemory::Dmabuf {
                // SAFETY: not -1; the program keeps it open during the call.
                fd: unsafe { BorrowedFd::borrow_raw(wanted.dmabuf_fd) },
                offset: start,
                length,
            }
        } else {
            UmemMemory::Process {
                address: start,
                length,
            }
        };
        let init = UmemInit {
            memory,
            access: access(wanted.access.cast_signed())?,
            page_sizes: Some(wanted.pgsz_bitmap),
        };
        let own = (!is_foreign).then(|| (wanted.addr.addr(), wanted.size));
        register(context, &init, own)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_umem_dereg(umem: Handle<Registered>) -> c_int {
    number(|| umem.get()?.end(Umem::deregister))
}

type Registers = Held<mlx5dv_devx_uar, DevxUar>;

/// `MLX5DV_UAR_ALLOC_TYPE_…`.
const COMBINING: u32 = 0;
const PLAIN: u32 = 1;
const PLAIN_DEDICATED: u32 = 1 << 31;
/// Where the first doorbell of a page is.
const FIRST_DOORBELL: u64 = 0x800;

/// Each call has a page of its own, also of the kind that rdma-core shares.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_alloc_uar(context: Handle<Context>, flags: u32) -> *mut mlx5dv_devx_uar {
    pointer(|| {
        let combining = match flags {
            COMBINING => true,
            PLAIN | PLAIN_DEDICATED => false,
            _ => return Err(Code::UNSUPPORTED),
        };
        let uar = firmware(context)?.uar(combining)?;
        let at = |offset: u64| {
            let address = usize::try_from(uar.address() + offset).map_err(|_| Code::INVALID)?;
            Ok::<_, Code>(with_exposed_provenance_mut(address))
        };
        let c = mlx5dv_devx_uar {
            reg_addr: at(FIRST_DOORBELL)?,
            base_addr: at(0)?,
            page_id: uar.id(),
            mmap_off: uar.offset().cast_signed(),
            comp_mask: 0,
        };
        Registers::give(context, c, uar)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_uar_export_dmabuf_fd(uar: Handle<Registers>) -> c_int {
    minus_one(|| {
        let exported = uar.get()?.with(|page| Ok(page.export()?))?;
        Ok(exported.into_raw_fd())
    })
}

/// Ends an object whose destroy has no result in C.
fn free<C, T>(held: Handle<Held<C, T>>, destroy: impl FnOnce(T) -> Result<(), DestroyError<T>>) {
    number(|| held.get()?.end(destroy));
}

/// The page is unmapped, and given back with it.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_free_uar(uar: Handle<Registers>) {
    free(uar, |uar| {
        drop(uar);
        Ok(())
    });
}

pub(super) type Doorbells = Held<mlx5dv_var, Var>;

/// `MLX5DV_VAR_ALLOC_FLAG_TLP`.
const PACKETS: u32 = 1;

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_alloc_var(context: Handle<Context>, flags: u32) -> *mut mlx5dv_var {
    pointer(|| {
        let kind = match flags {
            0 => VarKind::Virtio,
            PACKETS => VarKind::Packets,
            _ => return Err(Code::UNSUPPORTED),
        };
        let opened = context.get()?;
        own(opened)?;
        let var = Var::alloc(opened.file(), kind)?;
        let c = mlx5dv_var {
            page_id: var.page_id(),
            length: var.length(),
            mmap_off: var.offset().cast_signed(),
            comp_mask: 0,
        };
        Doorbells::give(context, c, var)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_free_var(var: Handle<Doorbells>) {
    free(var, Var::free);
}

type Rate = Held<mlx5dv_pp, PacingEntry>;

/// `MLX5_IB_UAPI_PP_ALLOC_FLAGS_DEDICATED_INDEX`.
const DEDICATED: u32 = 1;
/// Bytes of a rate's context that have a meaning.
const KNOWN: usize = 12;

/// The rate, burst and packet size that the firmware's context of a rate has.
fn rate(context: &[u8]) -> Answer<RateLimit> {
    let others = context.get(KNOWN..).unwrap_or_default();
    if others.iter().any(|byte| *byte != 0) || field(8, 31, 16).get(context) != 0 {
        return Err(Code::UNSUPPORTED);
    }
    let size = field(8, 15, 0).get(context);
    Ok(RateLimit::kbps(word(0).get(context))
        .max_burst(word(4).get(context))
        .typical_packet(u16::try_from(size).unwrap_or(u16::MAX)))
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_pp_alloc(
    context: Handle<Context>,
    length: usize,
    limit: *const c_void,
    flags: u32,
) -> *mut mlx5dv_pp {
    pointer(|| {
        if flags & !DEDICATED != 0 {
            return Err(Code::UNSUPPORTED);
        }
        let limit = rate(items(limit.cast::<u8>(), length)?)?;
        let entry = firmware(context)?.pace(&limit, flags & DEDICATED != 0)?;
        let c = mlx5dv_pp {
            index: entry.index(),
        };
        Rate::give(context, c, entry)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_pp_free(entry: Handle<Rate>) {
    free(entry, |entry| {
        // Nothing can be done about an entry that the kernel keeps.
        drop(entry);
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use uverbs_mlx5::prm::rate_context;

    #[test]
    fn a_rate_is_read_from_the_context_of_the_firmware() {
        let mut context = rate_context(1_000_000, 0x2000, 1500);
        let limit = RateLimit::kbps(1_000_000)
            .max_burst(0x2000)
            .typical_packet(1500);
        assert_eq!(rate(&context), Ok(limit));
        context[20] = 1;
        assert_eq!(rate(&context), Err(Code::UNSUPPORTED));
        assert_eq!(rate(&[]), Ok(RateLimit::UNLIMITED));
    }
}
