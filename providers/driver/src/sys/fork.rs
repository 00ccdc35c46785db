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
///
/// It knows where to look, so that the check, which every post and poll makes, is one load and one comparison.
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

/// What stands for the page where the kernel has no `MADV_WIPEONFORK`: every process looks the same.
static NO_WORD: AtomicU64 = AtomicU64::new(0);

static WORD: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();

/// The highest identity that this process or one it descends from has had.
static LAST: AtomicU64 = AtomicU64::new(0);

impl ForkToken {
    /// The identity of this process.
    ///
    /// Where the kernel has no `MADV_WIPEONFORK`, every process looks the same and nothing is refused.
    pub fn current() -> Self {
        let Some(word) = *WORD.get_or_init(map_word) else {
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

    /// True in the process that made it, false in its children.
    #[inline]
    pub fn is_current(self) -> bool {
        self.word.load(Ordering::Relaxed) == self.identity
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
