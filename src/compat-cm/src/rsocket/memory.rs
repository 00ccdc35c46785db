//! Registered memory of sockets: rings and lists, which a device reads, or a peer writes.
//!
//! # Safety
//!
//! The memory of a [`Region`] is a mapping of its own, which lives as long as its registration; one
//! that cannot be deregistered is never unmapped. All accesses are made here, as [`Words`] of the
//! whole. Registrations are libibverbs' own, on a protection domain that is not destroyed yet. The
//! pointer to one may be used by any thread.
#![allow(unsafe_code, reason = "registers memory that a peer writes")]

use std::ffi::c_int;
use std::mem::ManuallyDrop;

use uverbs_compat_base::abi::{ibv_mr, ibv_pd};
use uverbs_core::hw::Words;
use uverbs_core::sys::Mapping;

use crate::answer::Answer;
use crate::errno::Code;
use crate::verbs;

/// `IBV_ACCESS_LOCAL_WRITE`.
pub(super) const LOCAL: c_int = 1 << 0;
/// `IBV_ACCESS_REMOTE_WRITE`.
pub(super) const REMOTE: c_int = 1 << 1;

pub(super) struct Region {
    memory: ManuallyDrop<Mapping>,
    len: usize,
    registration: *mut ibv_mr,
}

// SAFETY: the mapping may be used by any thread, and so may libibverbs' objects.
unsafe impl Send for Region {}
// SAFETY: as above; all accesses are atomic.
unsafe impl Sync for Region {}

impl Region {
    /// `len` bytes, at least one, of zeros.
    pub(super) fn new(pd: *mut ibv_pd, len: u32, access: c_int) -> Answer<Self> {
        let len = len.max(1) as usize;
        let memory = Mapping::for_device(len).map_err(|errno| Code::new(errno.raw_os_error()))?;
        let start = memory.as_ptr().cast();
        let registration = verbs::reg_mr(pd, start, memory.len(), access)?;
        Ok(Self {
            memory: ManuallyDrop::new(memory),
            len,
            registration,
        })
    }

    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: registered for as long as this value lives.
        unsafe { (*self.registration).lkey.get() }
    }

    pub(super) fn remote_key(&self) -> u32 {
        // SAFETY: registered for as long as this value lives.
        unsafe { (*self.registration).rkey.get() }
    }

    fn words(&self) -> Words<'_> {
        // SAFETY: (1) the mapping is longer and lives as long; (2) all accesses are made by this.
        unsafe { Words::new(self.memory.as_ptr(), self.len) }
    }

    /// Copies out. False: not all is inside, and nothing is copied.
    pub(super) fn read(&self, offset: usize, bytes: &mut [u8]) -> bool {
        self.words().read(offset, bytes)
    }

    /// Copies in. False: not all fits, and nothing is copied.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        self.words().write(offset, bytes)
    }
}

/// Memory of the program that is registered, and not accessed here.
pub(super) struct Registered {
    /// Its address and length.
    pub(super) place: (usize, usize),
    registration: *mut ibv_mr,
}

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for Registered {}

impl Registered {
    pub(super) fn new(pd: *mut ibv_pd, start: usize, len: usize, access: c_int) -> Answer<Self> {
        let address = std::ptr::with_exposed_provenance_mut(start);
        Ok(Self {
            place: (start, len),
            registration: verbs::reg_mr(pd, address, len, access)?,
        })
    }

    pub(super) fn remote_key(&self) -> u32 {
        // SAFETY: registered for as long as this value lives.
        unsafe { (*self.registration).rkey.get() }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let _ = verbs::dereg_mr(self.registration);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if verbs::dereg_mr(self.registration).is_ok() {
            // SAFETY: not used afterwards, and no device has it any more.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}
