//! Registered memory of the process, as the device reaches it.
//!
//! # Safety
//!
//! A device writes to memory that it was told about: whoever registered a range promised that it
//! stays mapped until the registration was destroyed, by the promise that
//! [`Kernel::call`](uverbs_core::sys::Kernel::call) asks for. The fake takes it from the `REG_MR`
//! command, exactly as a real device does, checks every access against the registered range and its
//! rights, and makes atomic accesses through exposed provenance. It forms no reference but to
//! atomics. Memory that is unmapped while still registered is the caller's bug, here as there.
//!
//! The fake is a thread of this process to the language, so it accesses memory by the words that
//! the process does: [`Words`] of the whole registration where peers may reach it, since only those
//! see such memory meanwhile. Elsewhere, what lies beside a range may be lent as a slice, so the
//! range alone is cut into words.
#![allow(
    unsafe_code,
    reason = "plays the device: reads and writes registered memory"
)]

use std::sync::atomic::Ordering;

use uverbs_core::hw::Words;

/// A checked range of a registration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// Where the memory starts that is cut into words, and how long it is.
    pub(super) start: u64,
    pub(super) whole: u64,
    /// Where the range starts in it, and how long it is.
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Range {
    /// Reads it; nothing where it is no range of this process.
    pub(super) fn read(self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.length).unwrap_or(0)];
        if let Some((words, offset)) = self.words() {
            words.read(offset, &mut bytes);
        }
        bytes
    }

    /// Writes its first bytes. The caller checked that it may be written.
    pub(super) fn write(self, bytes: &[u8]) {
        let len = bytes.len().min(usize::try_from(self.length).unwrap_or(0));
        if let Some((words, offset)) = self.words() {
            words.write(offset, bytes.get(..len).unwrap_or_default());
        }
    }

    /// Replaces the word that it is by `change(old)` in one step and returns the old value. `None`
    /// unless it is one aligned word of 64 bits.
    pub(super) fn update(self, change: impl Fn(u64) -> u64) -> Option<u64> {
        let (words, offset) = self.words()?;
        let word = words.word(offset).filter(|_| self.length == 8)?;
        let changed = |old| Some(change(old));
        match word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed) {
            Ok(old) | Err(old) => Some(old),
        }
    }

    fn words(self) -> Option<(Words<'static>, usize)> {
        let start = usize::try_from(self.start).ok()?;
        let whole = usize::try_from(self.whole).ok()?;
        let place = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the range was checked to lie in one registration, which keeps it mapped for as
        // long as this access takes.
        let words = unsafe { Words::new(place, whole) };
        Some((words, usize::try_from(self.offset).ok()?))
    }
}
