//! Tells a process from its forked children.
//!
//! One page of the process is marked `MADV_WIPEONFORK` (Linux 4.14): the kernel hands a child a
//! zeroed copy. A word in it is this process's identity, so the check costs one load and no
//! system call, and a pid that is used again, or equal in another pid namespace, cannot fool it.
//! A child's identity is higher than those of all processes it descends from, and only their
//! handles can be in its memory.
//!
//! # Safety
//!
//! The page is mapped once and never unmapped, so the reference to its first word is valid forever.
#![allow(unsafe_code, reason = "refers to a word in a page of its own")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "pages are aligned for everything"
)]

use std::mem::ManuallyDrop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::Advice;

use super::Mapping;

/// The process that made a handle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ForkToken(u64);

static WORD: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();

/// The highest identity that this process or one it descends from has had.
static LAST: AtomicU64 = AtomicU64::new(0);

impl ForkToken {
    /// The identity of this process.
    ///
    /// Where the kernel has no `MADV_WIPEONFORK`, every process looks the same and nothing is refused.
    pub fn current() -> Self {
        let Some(word) = *WORD.get_or_init(map_word) else {
            return Self(0);
        };
        let known = word.load(Ordering::Relaxed);
        if known != 0 {
            return Self(known);
        }
        let fresh = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        match word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Self(fresh),
            Err(other_thread) => Self(other_thread),
        }
    }

    /// True in the process that made it, false in its children.
    #[inline]
    pub fn is_current(self) -> bool {
        match WORD.get() {
            Some(Some(word)) => word.load(Ordering::Relaxed) == self.0,
            _ => true,
        }
    }
}

/// Maps the page, or `None` when the kernel cannot wipe it on fork.
fn map_word() -> Option<&'static AtomicU64> {
    let page = Mapping::anonymous(size_of::<AtomicU64>()).ok()?;
    page.advise(Advice::LinuxWipeOnFork).ok()?;
    let word = page.as_ptr().cast::<AtomicU64>();
    // The word is referred to for ever.
    let _ = ManuallyDrop::new(page);
    // SAFETY: the page is zeroed, aligned, large enough, and stays mapped because its owner is
    // never dropped; only atomic accesses are made to the word.
    Some(unsafe { &*word })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_recognises_itself() {
        let token = ForkToken::current();
        assert!(token.is_current());
        assert_eq!(ForkToken::current(), token);
    }
}
