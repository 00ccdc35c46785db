//! Copies of more than a word, by the widest instructions that are still equivalent to accesses of
//! single words.
//!
//! Rust's widest atomic access here is an 8-byte word. Instructions that move 16 bytes are
//! equivalent to relaxed accesses of several words in no particular order: each aligned word is
//! loaded or stored as a whole. On other architectures, and for tools that have to see each access
//! (Miri, ThreadSanitizer), words are moved one by one.
//!
//! # Safety
//!
//! The instructions used here load and store exactly their operands, and have no other effect.
#![allow(unsafe_code, reason = "loads and stores that Rust does not have")]
#![allow(
    clippy::inline_always,
    reason = "a few instructions, whose operands are in registers"
)]

pub(super) use machine::{copy_in, copy_out, copy_words, store_bytes, store_words};

/// Bytes copied at once.
pub(super) const BLOCK: usize = 64;

/// 16 bytes in memory order.
#[cfg(all(target_arch = "x86_64", not(any(miri, uverbs_no_asm))))]
pub(super) type Wide = std::arch::x86_64::__m128i;
/// 16 bytes in memory order.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, uverbs_no_asm)))))]
pub(super) type Wide = [u64; 2];

#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, uverbs_no_asm))
))]
mod machine {
    use std::arch::asm;

    use super::{BLOCK, Wide};

    /// Copies eight words to eight words of a register: all loads first, because between stores
    /// they would keep the processor from combining those into one transaction.
    ///
    /// # Safety
    /// Both are aligned to 8, valid for atomic accesses, and do not overlap.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(in crate::hw) unsafe fn copy_words(from: *const u64, to: *mut u64) {
        // SAFETY: the caller's promise.
        unsafe { copy(from.cast(), to.cast()) };
    }

    /// Copies eight words to eight words of a register: all loads first, because between stores
    /// they would keep the processor from combining those into one transaction; and by stores of
    /// one register each, because a hypervisor that traps a store of a register pair does not learn
    /// what it stores.
    ///
    /// # Safety
    /// Both are aligned to 8, valid for atomic accesses, and do not overlap.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub(in crate::hw) unsafe fn copy_words(from: *const u64, to: *mut u64) {
        // SAFETY: the caller's promise. No flag is changed.
        unsafe {
            asm!(
                "ldp {a}, {b}, [{from}]",
                "ldp {c}, {d}, [{from}, #16]",
                "ldp {e}, {f}, [{from}, #32]",
                "ldp {g}, {h}, [{from}, #48]",
                "str {a}, [{to}]",
                "str {b}, [{to}, #8]",
                "str {c}, [{to}, #16]",
                "str {d}, [{to}, #24]",
                "str {e}, [{to}, #32]",
                "str {f}, [{to}, #40]",
                "str {g}, [{to}, #48]",
                "str {h}, [{to}, #56]",
                from = in(reg) from,
                to = in(reg) to,
                a = out(reg) _,
                b = out(reg) _,
                c = out(reg) _,
                d = out(reg) _,
                e = out(reg) _,
                f = out(reg) _,
                g = out(reg) _,
                h = out(reg) _,
                options(nostack, preserves_flags)
            );
        };
    }

    /// Copies private bytes of this process to eight words.
    ///
    /// # Safety
    /// The words are aligned to 8, and valid for atomic accesses.
    #[inline(always)]
    pub(in crate::hw) unsafe fn copy_in(from: &[u8; BLOCK], to: *mut u64) {
        // SAFETY: the caller's promise; borrowed bytes do not overlap memory that lends no
        // references.
        unsafe { copy(from.as_ptr(), to.cast()) };
    }

    /// Copies eight words to private bytes of this process.
    ///
    /// # Safety
    /// The words are aligned to 8, and valid for atomic accesses.
    #[inline(always)]
    pub(in crate::hw) unsafe fn copy_out(from: *const u64, to: &mut [u8; BLOCK]) {
        // SAFETY: as for copying in.
        unsafe { copy(from.cast(), to.as_mut_ptr()) };
    }

    /// Stores two words.
    ///
    /// # Safety
    /// They are aligned to 8, and valid for atomic accesses.
    #[inline(always)]
    pub(in crate::hw) unsafe fn store_words(to: *mut u64, value: Wide) {
        // SAFETY: the caller's promise.
        unsafe { store_bytes(to.cast(), value) };
    }

    /// Stores 16 bytes, each of them once.
    ///
    /// # Safety
    /// They are valid, and nothing else in this process accesses them meanwhile.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(in crate::hw) unsafe fn store_bytes(to: *mut u8, value: Wide) {
        // SAFETY: the caller's promise. No flag is changed.
        unsafe {
            asm!(
                "movups xmmword ptr [{to}], {value}",
                value = in(xmm_reg) value,
                to = in(reg) to,
                options(nostack, preserves_flags)
            );
        };
    }

    /// Stores 16 bytes, each of them once.
    ///
    /// # Safety
    /// They are valid, and nothing else in this process accesses them meanwhile.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub(in crate::hw) unsafe fn store_bytes(to: *mut u8, value: Wide) {
        // SAFETY: the caller's promise. No flag is changed.
        unsafe {
            asm!(
                "stp {first}, {second}, [{to}]",
                first = in(reg) value[0],
                second = in(reg) value[1],
                to = in(reg) to,
                options(nostack, preserves_flags)
            );
        };
    }

    /// # Safety
    /// 64 bytes may be read at `from` and written at `to`, and do not overlap. Those that others
    /// access concurrently are aligned to 8.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise. No flag is changed.
        unsafe {
            asm!(
                "movups {a}, xmmword ptr [{from}]",
                "movups {b}, xmmword ptr [{from} + 16]",
                "movups {c}, xmmword ptr [{from} + 32]",
                "movups {d}, xmmword ptr [{from} + 48]",
                "movups xmmword ptr [{to}], {a}",
                "movups xmmword ptr [{to} + 16], {b}",
                "movups xmmword ptr [{to} + 32], {c}",
                "movups xmmword ptr [{to} + 48], {d}",
                from = in(reg) from,
                to = in(reg) to,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        };
    }

    /// # Safety
    /// 64 bytes may be read at `from` and written at `to`, and do not overlap. Those that others
    /// access concurrently are aligned to 8.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise. No flag is changed.
        unsafe {
            asm!(
                "ldp {a}, {b}, [{from}]",
                "ldp {c}, {d}, [{from}, #16]",
                "stp {a}, {b}, [{to}]",
                "stp {c}, {d}, [{to}, #16]",
                "ldp {a}, {b}, [{from}, #32]",
                "ldp {c}, {d}, [{from}, #48]",
                "stp {a}, {b}, [{to}, #32]",
                "stp {c}, {d}, [{to}, #48]",
                from = in(reg) from,
                to = in(reg) to,
                a = out(reg) _,
                b = out(reg) _,
                c = out(reg) _,
                d = out(reg) _,
                options(nostack, preserves_flags)
            );
        };
    }
}

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, uverbs_no_asm))
)))]
mod machine {
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

    use super::{BLOCK, Wide};

    /// Copies eight words to eight words of a register.
    ///
    /// # Safety
    /// Both are aligned to 8, valid for atomic accesses, and do not overlap.
    #[inline(always)]
    pub(in crate::hw) unsafe fn copy_words(from: *const u64, to: *mut u64) {
        for at in 0..BLOCK / 8 {
            // SAFETY: the caller's promise.
            let source = unsafe { &*from.wrapping_add(at).cast::<AtomicU64>() };
            // SAFETY: as above.
            let target = unsafe { AtomicU64::from_ptr(to.wrapping_add(at)) };
            target.store(source.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Copies private bytes of this process to eight words.
    ///
    /// # Safety
    /// The words are aligned to 8, and valid for atomic accesses.
    #[inline(always)]
    pub(in crate::hw) unsafe fn copy_in(from: &[u8; BLOCK], to: *mut u64) {
        for (at, word) in from.as_chunks().0.iter().enumerate() {
            // SAFETY: the caller's promise.
            let target = unsafe { AtomicU64::from_ptr(to.wrapping_add(at)) };
            target.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
    }

    /// Copies eight words to private bytes of this process.
    ///
    /// # Safety
    /// The words are aligned to 8, and valid for atomic accesses.
    #[inline(always)]
    pub(in crate::hw) unsafe fn copy_out(from: *const u64, to: &mut [u8; BLOCK]) {
        for (at, word) in to.as_chunks_mut().0.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let source = unsafe { &*from.wrapping_add(at).cast::<AtomicU64>() };
            *word = source.load(Ordering::Relaxed).to_ne_bytes();
        }
    }

    /// Stores two words.
    ///
    /// # Safety
    /// They are aligned to 8, and valid for atomic accesses.
    #[inline(always)]
    pub(in crate::hw) unsafe fn store_words(to: *mut u64, value: Wide) {
        for (at, word) in value.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            let target = unsafe { AtomicU64::from_ptr(to.wrapping_add(at)) };
            target.store(word, Ordering::Relaxed);
        }
    }

    /// Stores 16 bytes, each of them once.
    ///
    /// # Safety
    /// They are valid, and nothing else in this process accesses them meanwhile.
    #[inline(always)]
    pub(in crate::hw) unsafe fn store_bytes(to: *mut u8, value: Wide) {
        for (at, byte) in value
            .map(u64::to_ne_bytes)
            .as_flattened()
            .iter()
            .enumerate()
        {
            // SAFETY: the caller's promise.
            let target = unsafe { AtomicU8::from_ptr(to.wrapping_add(at)) };
            target.store(*byte, Ordering::Relaxed);
        }
    }
}
