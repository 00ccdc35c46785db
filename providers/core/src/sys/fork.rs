//! Distinguishes a process from its forked children.
//!
//! One page of the process is marked `MADV_WIPEONFORK` (Linux 4.14): a child gets a zeroed copy of
//! it. A word in the page is this process's identity, so the check costs one load and no system
//! call, and pids that are reused, or equal in another pid namespace, do not matter. A child's
//! identity is higher than those of all its ancestors, and only their handles can be in its memory.
//!
//! # Safety
//!
//! The advice applies to one static page, which contains nothing but that word. In a child the page
//! reads as zeros, and the word is only read and written by atomic accesses.
#![allow(unsafe_code, reason = "calls madvise on a page of its own")]

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, madvise};

/// The process that created a handle.
///
/// It holds the address of the word, so the check, which every post and poll makes, is one load and
/// one comparison.
#[derive(Clone, Copy, Debug)]
pub struct ForkToken {
    identity: u64,
    word: &'static AtomicU64,
}

impl PartialEq for ForkToken {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

impl Eq for ForkToken {}

/// A whole page, or several: as large, and as strictly aligned, as the largest page size of this
/// architecture. Programs are loaded at a multiple of that size anyway, so this wastes nothing.
#[cfg_attr(
    any(target_arch = "x86_64", target_arch = "riscv64", target_arch = "s390x"),
    repr(align(4096))
)]
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "riscv64", target_arch = "s390x")),
    repr(align(65536))
)]
struct Page {
    word: AtomicU64,
}

/// Zero-initialised, so it takes no space in the executable, and no memory except for the page with
/// the word.
static PAGE: Page = Page {
    word: AtomicU64::new(0),
};

/// Replaces the page where the kernel has no `MADV_WIPEONFORK`: every process looks the same.
static NO_WORD: AtomicU64 = AtomicU64::new(0);

static WORD: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();

/// The highest identity of this process and its ancestors so far.
static LAST: AtomicU64 = AtomicU64::new(0);

impl ForkToken {
    /// The identity of this process.
    ///
    /// Where the kernel has no `MADV_WIPEONFORK`, every process looks the same and nothing is
    /// refused.
    pub fn current() -> Self {
        let Some(word) = *WORD.get_or_init(wiped_word) else {
            return Self {
                identity: 0,
                word: &NO_WORD,
            };
        };
        let known = word.load(Ordering::Relaxed);
        if known != 0 {
            return Self {
                identity: known,
                word,
            };
        }
        let fresh = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let identity = match word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(other_thread) => other_thread,
        };
        Self { identity, word }
    }

    /// A token of no process: handles with it refuse every operation, as in a child.
    pub const fn of_no_process() -> Self {
        Self {
            identity: u64::MAX,
            word: &NO_WORD,
        }
    }

    /// True in the process that created it, false in its children.
    #[inline]
    pub fn is_current(self) -> bool {
        self.word.load(Ordering::Relaxed) == self.identity
    }
}

/// The word, or `None` if the kernel cannot wipe its page on fork.
fn wiped_word() -> Option<&'static AtomicU64> {
    if cfg!(miri) {
        // Miri supports neither `madvise` nor `fork`.
        return Some(&PAGE.word);
    }
    let page = ptr::from_ref(&PAGE).cast_mut().cast();
    // SAFETY: the range is exactly that static, in whole pages; nothing changes in this process,
    // and in a child a word that is only accessed atomically becomes 0.
    unsafe { madvise(page, size_of::<Page>(), Advice::LinuxWipeOnFork) }.ok()?;
    Some(&PAGE.word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_recognises_itself() {
        let token = ForkToken::current();
        assert!(token.is_current());
        assert_eq!(ForkToken::current(), token);
        assert!(!ForkToken::of_no_process().is_current());
    }

    #[test]
    fn the_word_is_wiped_in_children() {
        assert!(wiped_word().is_some(), "MADV_WIPEONFORK, since Linux 4.14");
    }
}
