//! Fork support: which memory children do not inherit.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. Pages are left out of children, and given
//! back to them, as the C program asks for with `ibv_fork_init` and `ibv_dontfork_range`; it is
//! responsible for what its children do.
#![allow(unsafe_code, reason = "exports names; changes what children inherit")]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use uverbs_core::discover::ForkGuard;
use uverbs_core::discover::fork::Registration;

use crate::answer::{Answer, number};
use crate::errno::Code;

static GUARD: OnceLock<ForkGuard> = OnceLock::new();
/// Memory was registered that children still inherit.
static TOO_LATE: AtomicBool = AtomicBool::new(false);
/// Ranges that the program itself left out.
static RANGES: Mutex<BTreeMap<(usize, usize), Vec<Registration>>> = Mutex::new(BTreeMap::new());

/// `IBV_FORK_DISABLED`, `IBV_FORK_ENABLED`, `IBV_FORK_UNNEEDED`.
const STATES: [c_int; 3] = [0, 1, 2];

/// Turns it on. Kernels since 5.12 need no help.
pub(crate) fn init() -> Answer<()> {
    if GUARD.get().is_some() {
        return Ok(());
    }
    let guard = ForkGuard::detect()?;
    if guard.is_needed() && TOO_LATE.load(Ordering::Relaxed) {
        return Err(Code::INVALID);
    }
    let _ = GUARD.set(guard);
    Ok(())
}

/// Leaves memory that is registered out of children, if that was asked for.
pub(crate) fn protect(address: usize, length: usize) -> Answer<Option<Registration>> {
    let Some(guard) = GUARD.get() else {
        TOO_LATE.store(true, Ordering::Relaxed);
        return Ok(None);
    };
    if !guard.is_needed() {
        return Ok(None);
    }
    // SAFETY: the program asked for it, and registers the range.
    Ok(Some(unsafe { guard.protect(address, length) }?))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_fork_init() -> c_int {
    number(init)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_is_fork_initialized() -> c_int {
    let [disabled, enabled, unneeded] = STATES;
    match GUARD.get() {
        Some(guard) if guard.is_needed() => enabled,
        Some(_) => unneeded,
        None if ForkGuard::detect().is_ok_and(|guard| !guard.is_needed()) => unneeded,
        None => disabled,
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dontfork_range(base: *mut c_void, size: usize) -> c_int {
    number(|| {
        let Some(range) = protect(base.addr(), size)? else {
            return Ok(());
        };
        let mut ranges = RANGES.lock().unwrap_or_else(PoisonError::into_inner);
        ranges.entry((base.addr(), size)).or_default().push(range);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dofork_range(base: *mut c_void, size: usize) -> c_int {
    number(|| {
        let mut ranges = RANGES.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (base.addr(), size);
        let left = ranges.get_mut(&key).and_then(Vec::pop);
        let is_known = left.is_some() || GUARD.get().is_none_or(|guard| !guard.is_needed());
        if ranges.get(&key).is_some_and(Vec::is_empty) {
            ranges.remove(&key);
        }
        drop(ranges);
        drop(left);
        if is_known { Ok(()) } else { Err(Code::INVALID) }
    })
}
