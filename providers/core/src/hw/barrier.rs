//! Barriers between this process and a device, by what they order.
//!
//! The processor may reorder stores and loads, to memory and to a device's registers. The functions
//! here name what is ordered, and keep each architecture's instruction in one place. The rules are
//! those of the kernel's `dma_wmb`, `dma_rmb` and `wmb` (`Documentation/memory-barriers.txt`).
//!
//! # Safety
//!
//! The instructions used here order memory accesses and have no other effect.
#![allow(unsafe_code, reason = "fences that Rust does not have")]
#![allow(
    clippy::inline_always,
    reason = "a fence is one instruction, or only a word to the compiler"
)]

use std::sync::atomic::{Ordering, compiler_fence};

/// Orders earlier stores to memory before later stores to memory, for a device that reads both.
///
/// Between a request and the doorbell record that covers it.
#[inline(always)]
pub fn to_device() {
    if cfg!(any(miri, uverbs_no_asm, not(target_arch = "x86_64"))) {
        outer_store_fence();
    } else {
        // Stores to ordinary memory become visible in order.
        compiler_fence(Ordering::SeqCst);
    }
}

/// Orders earlier loads before later loads, of memory that a device writes.
///
/// Between the word that marks an entry as valid and the rest of the entry.
#[inline(always)]
pub fn from_device() {
    #[cfg(all(target_arch = "aarch64", not(any(miri, uverbs_no_asm))))]
    {
        // SAFETY: the instruction orders accesses to memory; it makes none, and changes no register
        // and no flag.
        unsafe { std::arch::asm!("dmb oshld", options(nostack, preserves_flags)) };
    }
    #[cfg(any(not(target_arch = "aarch64"), miri, uverbs_no_asm))]
    std::sync::atomic::fence(Ordering::Acquire);
}

/// Orders earlier stores to memory before later stores to write-combining registers.
///
/// Between the doorbell record and the doorbell.
#[inline(always)]
pub fn before_registers() {
    registers_fence();
}

/// Flushes stores to write-combining registers out of the processor.
///
/// After the doorbell: without it they may wait in a buffer.
#[inline(always)]
pub fn flush_registers() {
    registers_fence();
}

#[inline(always)]
fn outer_store_fence() {
    #[cfg(all(target_arch = "aarch64", not(any(miri, uverbs_no_asm))))]
    {
        // SAFETY: the instruction orders accesses to memory; it makes none, and changes no register
        // and no flag.
        unsafe { std::arch::asm!("dmb oshst", options(nostack, preserves_flags)) };
    }
    #[cfg(any(not(target_arch = "aarch64"), miri, uverbs_no_asm))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

#[inline(always)]
fn registers_fence() {
    #[cfg(all(target_arch = "x86_64", not(any(miri, uverbs_no_asm))))]
    {
        // SAFETY: the instruction orders accesses to memory; it makes none, and changes no register
        // and no flag.
        unsafe { std::arch::asm!("sfence", options(nostack, preserves_flags)) };
    }
    #[cfg(all(target_arch = "aarch64", not(any(miri, uverbs_no_asm))))]
    {
        // SAFETY: the instruction orders accesses to memory; it makes none, and changes no register
        // and no flag.
        unsafe { std::arch::asm!("dsb st", options(nostack, preserves_flags)) };
    }
    #[cfg(all(target_arch = "riscv64", not(any(miri, uverbs_no_asm))))]
    {
        // SAFETY: the instruction orders accesses to memory; it makes none, and changes no register
        // and no flag.
        unsafe { std::arch::asm!("fence ow, ow", options(nostack, preserves_flags)) };
    }
    #[cfg(any(
        not(any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64"
        )),
        miri,
        uverbs_no_asm
    ))]
    std::sync::atomic::fence(Ordering::SeqCst);
}
