//! Excludes page ranges from forked children.
//!
//! # Safety
//!
//! The two kinds of advice used here (`MADV_DONTFORK`, `MADV_DOFORK`) change what a child process
//! finds at an address. They change neither the contents nor the mappings of this process, so any
//! range may be given, mapped or not. But pages that a child inherits are copied when either
//! process writes to them, and a device keeps using the old ones: that no such page is given back
//! to children is what callers of `ForkGuard::protect` promise.
#![allow(unsafe_code, reason = "calls madvise on memory that is not ours")]

use std::fmt;
use std::ptr;

use rustix::mm::{Advice, madvise};

use crate::error::Errno;

/// Controls which pages a child inherits. The real implementation is `madvise(2)`; tests substitute
/// another.
pub trait ForkAdvice: fmt::Debug + Send + Sync {
    /// Bytes of a page: a power of two.
    fn page_size(&self) -> usize;

    /// Excludes whole pages from children, or (`inherit`) includes them again.
    ///
    /// # Errors
    /// ENOMEM if part of the range is not mapped (the rest is done) or there are too many mappings
    /// (`vm.max_map_count`); EINVAL if a range ends inside a huge page.
    fn advise(&self, address: usize, len: usize, inherit: bool) -> Result<(), Errno>;
}

/// `madvise(2)`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinuxForkAdvice;

impl ForkAdvice for LinuxForkAdvice {
    fn page_size(&self) -> usize {
        rustix::param::page_size()
    }

    fn advise(&self, address: usize, len: usize, inherit: bool) -> Result<(), Errno> {
        let advice = if inherit {
            Advice::LinuxDoFork
        } else {
            Advice::LinuxDontFork
        };
        if cfg!(miri) {
            // Miri does not support `fork`, so the advice has no effect.
            return Ok(());
        }
        let start = ptr::without_provenance_mut(address);
        // SAFETY: this advice changes neither this process's memory nor its mappings; the kernel
        // checks the range.
        unsafe { madvise(start, len, advice) }
    }
}
