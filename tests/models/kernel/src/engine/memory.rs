//! The device's access to registered memory of the process.
//!
//! # Safety
//!
//! A device writes to registered memory: by the contract of
//! [`Kernel::call`](uverbs_core::sys::Kernel::call), whoever registers a range ensures that it
//! stays mapped until the registration is destroyed. The fake takes the address from the `REG_MR`
//! command, exactly as a real device does, checks every access against the registered range and its
//! rights, and makes atomic accesses through exposed provenance. It forms no references except to
//! atomics. As with a real device, unmapping memory that is still registered is a bug of the
//! caller.
//!
//! For Rust the fake is a thread of this process, so it accesses memory as the same words as the
//! process: as [`Words`] of the whole registration if peers may access it, since such memory is
//! then only accessed that way. Otherwise the bytes next to a range may be lent as a slice, so only
//! the range itself is divided into words.
#![allow(
    unsafe_code,
    reason = "acts as the device: reads and writes registered memory"
)]

use std::sync::atomic::Ordering;

use uverbs_core::hw::Words;

/// A checked range of a registration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// Address and length of the memory that is divided into words.
    pub(super) start: u64,
    pub(super) whole: u64,
    /// Offset and length of the range in it.
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Range {
    /// Reads the range; nothing if it is not in this process.
    pub(super) fn read(self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.length).unwrap_or(0)];
        if let Some((words, offset)) = self.words() {
            words.read(offset, &mut bytes);
        }
        bytes
    }

    /// Writes its first bytes. The caller has checked that writing is allowed.
    pub(super) fn write(self, bytes: &[u8]) {
        let len = bytes.len().min(usize::try_from(self.length).unwrap_or(0));
        if let Some((words, offset)) = self.words() {
            words.write(offset, bytes.get(..len).unwrap_or_default());
        }
    }

    /// Replaces its value by `change(old)` atomically and returns the old value. `None` unless the
    /// range is exactly one aligned 64-bit word.
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
        // SAFETY: the range was checked to be in one registration, which keeps it mapped for the
        // duration of this access.
        let words = unsafe { Words::new(place, whole) };
        Some((words, usize::try_from(self.offset).ok()?))
    }
}
