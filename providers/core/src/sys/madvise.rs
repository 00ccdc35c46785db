//! Leaves memory out of children, page ranges at a time.
//!
//! # Safety
//!
//! The two advices used here (`MADV_DONTFORK`, `MADV_DOFORK`) change what a child process finds at
//! an address. They change neither the content nor the mappings of this process, so any range may
//! be given, mapped or not. But pages that a child gets are copied when one of the two writes to
//! them, and a device goes on with the old ones: whose pages are given back is what
//! `ForkGuard::protect` has its callers promise.
#![allow(unsafe_code, reason = "calls madvise on memory that is not ours")]

use std::fmt;
use std::ptr;

use rustix::mm::{Advice, madvise};

use crate::error::Errno;

/// Says which pages a child gets. The real one is `madvise(2)`; tests put another in its place.
pub trait ForkAdvice: fmt::Debug + Send + Sync {
    /// Bytes of a page: a power of two.
    fn page_size(&self) -> usize;

    /// Leaves whole pages out of children, or (`inherit`) in.
    ///
    /// # Errors
    /// ENOMEM when part of the range is not mapped (the rest is done) or there are too many
    /// mappings (`vm.max_map_count`); EINVAL when a range ends inside a huge page.
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
            // The interpreter has no children that the advice could be about.
            return Ok(());
        }
        let start = ptr::without_provenance_mut(address);
        // SAFETY: these advices neither change this process's memory nor its mappings; the kernel
        // checks the range.
        unsafe { madvise(start, len, advice) }
    }
}
