//! Registered memory that buffers are parts of.
//!
//! # Safety
//!
//! The registration keeps `held` until the kernel has confirmed that the device no longer uses the
//! memory, and so does the [`Region`], which every buffer shares. What is held is the owner of the
//! memory, and is not touched meanwhile.
#![allow(unsafe_code, reason = "registers memory that others allocated")]

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use uverbs_core::contract::MrInit;
use uverbs_core::hw::Pages;
use uverbs_core::types::{AccessFlags, LocalKey};
use uverbs_core::{Error, Op, Result};

use super::backing::Backing;
use super::pool::Free;
use crate::{MemoryRegion, ProtectionDomain};

/// What owns the memory of a region.
pub(super) type Held = Arc<dyn Any + Send + Sync>;

/// Memory and its registration, for local access only.
#[derive(Debug)]
pub(super) struct Region {
    /// `None` once it was deregistered.
    pub(super) mr: Option<MemoryRegion>,
    pub(super) lkey: LocalKey,
    /// The identity of the domain, which the registration keeps alive.
    pub(super) domain: usize,
    pub(super) held: Held,
    /// Where its buffers go when they are dropped, if they belong to a pool.
    pub(super) free: Option<Free>,
}

impl Region {
    pub(super) fn new(mr: MemoryRegion, held: Held, free: Option<Free>) -> Self {
        Self {
            lkey: mr.lkey(),
            domain: mr.pd().identity(),
            mr: Some(mr),
            held,
            free,
        }
    }
}

/// Maps and registers `len` bytes.
pub(super) fn allocate(
    pd: &ProtectionDomain,
    len: usize,
    access: AccessFlags,
) -> Result<(MemoryRegion, Arc<Pages>)> {
    let op = Op::RegisterMemory;
    if len == 0 {
        return Err(Error::invalid(op, "length").fact("length", 0_u32));
    }
    let pages = Pages::new(len).map_err(|errno| Error::os(op, errno).fact("length", len))?;
    let pages = Arc::new(pages);
    let start = NonNull::new(pages.as_ptr()).ok_or_else(|| Error::invalid(op, "address"))?;
    // SAFETY: the pages were mapped for this region alone, and are unmapped with their last owner.
    let mr = unsafe { register(pd, start, len, access, Arc::clone(&pages) as Held) }?;
    Ok((mr, pages))
}

/// Pages that were allocated for one region, as this process accesses them.
pub(super) fn backing(pages: Arc<Pages>) -> Backing {
    let (start, len) = (pages.as_ptr(), pages.len());
    // SAFETY: a mapping does not begin at address 0.
    let start = unsafe { NonNull::new_unchecked(start) };
    // SAFETY: the pages are mapped while they are held, and were for this region alone.
    unsafe { Backing::new(start, len, pages) }
}

/// Registers memory that `held` owns, so that children do not make it a copy of what the device
/// uses.
///
/// # Safety
/// As [`register_as_it_is`]. No other code has excluded any of the pages from children and relies
/// on that.
pub(super) unsafe fn register(
    pd: &ProtectionDomain,
    start: NonNull<u8>,
    len: usize,
    access: AccessFlags,
    held: Held,
) -> Result<MemoryRegion> {
    let fork = pd.context().fork_guard()?;
    if !fork.is_needed() {
        // SAFETY: the caller's promise.
        return unsafe { register_as_it_is(pd, start, len, access, held) };
    }
    // SAFETY: the caller's promise.
    let protected = unsafe { fork.protect(start.addr().get(), len) }?;
    // The pages are given back to children while they are still mapped.
    let held = Arc::new((protected, held)) as Held;
    // SAFETY: the caller's promise.
    unsafe { register_as_it_is(pd, start, len, access, held) }
}

/// Registers memory that `held` owns, and that children share or copy as they like.
///
/// # Safety
/// Until `held` is dropped, the `len` bytes at `start` stay mapped, and nothing accesses them
/// except as `access` and the handles of the region allow.
pub(super) unsafe fn register_as_it_is(
    pd: &ProtectionDomain,
    start: NonNull<u8>,
    len: usize,
    access: AccessFlags,
    held: Held,
) -> Result<MemoryRegion> {
    let address = start.as_ptr().expose_provenance() as u64;
    let init = MrInit {
        address,
        length: len as u64,
        iova: address,
        access,
    };
    MemoryRegion::register(pd, &init, held)
}
