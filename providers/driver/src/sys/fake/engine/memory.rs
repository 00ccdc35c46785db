//! Registered memory of the process, as the device reaches it.
//!
//! # Safety
//!
//! A device writes to memory that it was told about: whoever registered a range promised that it
//! stays mapped until the registration was destroyed, by the promise that [`Kernel::call`](crate::sys::Kernel::call) asks for. The fake takes it
//! from the `REG_MR` command, exactly as a real device does, checks every access against the registered
//! range and its rights, and makes byte-wise volatile accesses through exposed provenance. It
//! forms no reference. Memory that is unmapped while still registered is the caller's bug, here as
//! there.
#![allow(
    unsafe_code,
    reason = "plays the device: reads and writes registered memory"
)]

use std::sync::atomic::{AtomicU64, Ordering};

/// Reads registered memory. The caller checked that the range is registered.
pub(super) fn read(address: u64, bytes: &mut [u8]) {
    let from = pointer(address);
    for (index, byte) in bytes.iter_mut().enumerate() {
        // SAFETY: the range was checked to lie in one registration, which keeps it mapped.
        let place = unsafe { from.add(index) };
        // SAFETY: as above; bytes need no alignment.
        *byte = unsafe { place.read_volatile() };
    }
}

/// Writes registered memory. The caller checked that the range is registered and writable.
pub(super) fn write(address: u64, bytes: &[u8]) {
    let to = pointer(address);
    for (index, byte) in bytes.iter().enumerate() {
        // SAFETY: the range was checked to lie in one registration, which keeps it mapped.
        let place = unsafe { to.add(index) };
        // SAFETY: as above; the registration allows writes, and bytes need no alignment.
        unsafe { place.write_volatile(*byte) };
    }
}

/// Replaces an aligned 64-bit word by `change(old)` in one step and returns the old value.
pub(super) fn update(address: u64, change: impl Fn(u64) -> u64) -> u64 {
    #[expect(clippy::cast_ptr_alignment, reason = "the caller checked it")]
    let place = pointer(address).cast::<u64>();
    // SAFETY: the word was checked to lie in one registration with atomic rights and to be aligned.
    let word = unsafe { AtomicU64::from_ptr(place) };
    match word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(change(old))) {
        Ok(old) | Err(old) => old,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a pointer of this process travelled as 64 bits"
)]
fn pointer(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}
