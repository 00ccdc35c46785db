//! Barriers between this process and a device, by what they order.
//!
//! The processor may let stores and loads pass each other, to memory and to a device's registers.
//! What has to come in order is said by name here, and each machine's instruction for it is in one
//! place. Same rules as the kernel's `dma_wmb`, `dma_rmb` and `wmb`
//! (`Documentation/memory-barriers.txt`).
//!
//! # Safety
//!
//! The instructions used here order memory accesses and have no other effect.
#![allow(unsafe_code, reason = "fences that Rust has no name for")]
#![allow(
    clippy::inline_always,
    reason = "a fence is one instruction, or only a word to the compiler"
)]

use std::sync::atomic::{Ordering, compiler_fence};

/// What was written to memory comes before what is written to memory next, for a device that reads
/// both.
///
/// Between a request and the doorbell record that covers it.
#[inline(always)]
pub fn to_device() {
    if cfg!(any(miri, uverbs_no_asm, not(target_arch = "x86_64"))) {
        outer_store_fence();
    } else {
        // Stores to ordinary memory are seen in order.
        compiler_fence(Ordering::SeqCst);
    }
}

/// What was read before comes before what is read next, both written by a device.
///
/// Between the word that says an entry is there and the rest of the entry.
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

/// What was written to memory comes before a store to write-combining registers.
///
/// Between the doorbell record and the doorbell.
#[inline(always)]
pub fn before_registers() {
    registers_fence();
}

/// Stores to write-combining registers leave the processor now.
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
