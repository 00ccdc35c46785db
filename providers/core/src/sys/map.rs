//! Memory shared with the kernel or a device.
//!
//! # Safety
//!
//! A [`Mapping`] is the only owner of its address range and unmaps it once, when it is dropped, in
//! the process that has it. It never lends a reference to the memory, because the other side may
//! write at any time: users of the pointer make atomic accesses within the range, of the widths
//! that `hw` defines. A mapping itself loads only 8-byte words.
#![allow(unsafe_code, reason = "maps and unmaps memory")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "alignment is checked before a word is read"
)]

use std::any::Any;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::ForkToken;
use crate::error::Errno;

/// How this process may access a mapping.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protection {
    /// Load only: clock pages.
    Read,
    /// Store only: doorbell pages.
    Write,
    /// Both: queues.
    ReadWrite,
}

/// A range of memory that the other side may write to at any time.
pub struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
    owner: Owner,
}

enum Owner {
    /// Unmap the range on drop.
    Mmap,
    /// Unmap the range on drop, in the process that mapped it: children do not inherit it, and may
    /// have something else mapped there.
    MmapOf(ForkToken),
    /// The range belongs to this value (a fake kernel's memory).
    Value(#[expect(dead_code, reason = "kept for its drop")] Box<dyn Any + Send + Sync>),
}

// SAFETY: a mapping is an address range without thread affinity, and it lends no references.
unsafe impl Send for Mapping {}
// SAFETY: as above; every access through `as_ptr` is unsafe code of the caller.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes at `offset` of a device descriptor, at the address `near` if that is free.
    pub(super) fn of_fd(
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        protection: Protection,
        near: usize,
    ) -> Result<Self, Errno> {
        let prot = match protection {
            Protection::Read => ProtFlags::READ,
            Protection::Write => ProtFlags::WRITE,
            Protection::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let near = ptr::without_provenance_mut(near);
        // SAFETY: without MAP_FIXED the kernel picks a free range, whatever the requested address.
        let ptr = unsafe { mmap(near, len, prot, MapFlags::SHARED, fd, offset) }?;
        Self::owned(ptr.cast(), len)
    }

    /// Excludes the range from forked children (`MADV_DONTFORK`): a child that touched the parent's
    /// queues would corrupt them.
    pub(crate) fn leave_out(&mut self) -> Result<(), Errno> {
        if self.is_mapped() {
            self.dont_fork()?;
            self.owner = Owner::MmapOf(ForkToken::current());
        }
        Ok(())
    }

    /// The same for two mappings, by one system call if `low` ends where `high` begins.
    pub(crate) fn leave_out_both(low: &mut Self, high: &mut Self) -> Result<(), Errno> {
        let meet = low.as_ptr().addr() + low.len == high.as_ptr().addr();
        if cfg!(miri) || !meet || !low.is_mapped() || !high.is_mapped() {
            low.leave_out()?;
            return high.leave_out();
        }
        let len = low.len + high.len;
        // SAFETY: both ranges belong to these mappings, with nothing between them; as in
        // `dont_fork`.
        unsafe { madvise(low.as_ptr().cast(), len, Advice::LinuxDontFork) }?;
        let process = ForkToken::current();
        low.owner = Owner::MmapOf(process);
        high.owner = Owner::MmapOf(process);
        Ok(())
    }

    /// Whether this value mapped the range.
    fn is_mapped(&self) -> bool {
        !matches!(self.owner, Owner::Value(_))
    }

    /// Maps `len` bytes of zeroed private memory, rounded up to whole pages.
    ///
    /// # Errors
    /// ENOMEM; EINVAL if `len` is 0.
    pub fn anonymous(len: usize) -> Result<Self, Errno> {
        let page = rustix::param::page_size();
        let len = len.checked_next_multiple_of(page).ok_or(Errno::NOMEM)?;
        // SAFETY: without an address and without MAP_FIXED the kernel picks a free range.
        let ptr = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        Self::owned(ptr.cast(), len)
    }

    /// The same, excluded from forked children: otherwise parent and child would share the pages
    /// until either writes, and the writer would get a copy that the device does not use.
    ///
    /// # Errors
    /// As [`anonymous`](Self::anonymous).
    pub fn for_device(len: usize) -> Result<Self, Errno> {
        let mut mapping = Self::anonymous(len)?;
        mapping.leave_out()?;
        Ok(mapping)
    }

    fn owned(ptr: *mut u8, len: usize) -> Result<Self, Errno> {
        Ok(Self {
            ptr: NonNull::new(ptr).ok_or(Errno::NOMEM)?,
            len,
            owner: Owner::Mmap,
        })
    }

    /// Wraps memory that `owner` keeps alive: the mappings of a fake kernel.
    ///
    /// # Safety
    /// `ptr` is valid for reads and writes of `len` bytes for as long as `owner` lives. Meanwhile
    /// no reference to that memory is formed except shared ones to atomics, and accesses that may
    /// happen concurrently are atomic and of the same bytes.
    pub unsafe fn from_owner(
        ptr: NonNull<u8>,
        len: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            ptr,
            len,
            owner: Owner::Value(owner),
        }
    }

    /// Excludes the range from children that are forked from now on.
    fn dont_fork(&self) -> Result<(), Errno> {
        // Miri supports neither `madvise` nor `fork`.
        if cfg!(miri) {
            return Ok(());
        }
        // SAFETY: the range belongs to this mapping, and the advice changes what a child sees,
        // never the memory of this process.
        unsafe { madvise(self.ptr.as_ptr().cast(), self.len, Advice::LinuxDontFork) }
    }

    /// The first byte. Valid for atomic accesses of [`len`](Self::len) bytes.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Loads the aligned 8 bytes at `offset` by one relaxed access; also valid for read-only
    /// memory. `None` if the offset is outside the mapping or unaligned.
    pub fn load(&self, offset: usize) -> Option<u64> {
        let end = offset.checked_add(8)?;
        let place = self.as_ptr().wrapping_add(offset).cast::<AtomicU64>();
        if end > self.len || !place.is_aligned() {
            return None;
        }
        // SAFETY: inside the mapping and aligned, as just checked.
        let word = unsafe { &*place };
        Some(word.load(Ordering::Relaxed))
    }

    /// Loads the aligned 4 bytes at `offset`, by a [`load`](Self::load) of the 8-byte word that
    /// contains them.
    pub fn load_u32(&self, offset: usize) -> Option<u32> {
        let upper = offset % 8;
        let bytes = self.load(offset - upper)?.to_ne_bytes();
        let half = bytes.get(upper..)?.first_chunk()?;
        upper.is_multiple_of(4).then(|| u32::from_ne_bytes(*half))
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it has no bytes; the kernel never makes such a mapping.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address, as the device and the kernel know it.
    pub fn address(&self) -> u64 {
        self.ptr.as_ptr().expose_provenance() as u64
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let is_mapped = match &self.owner {
            Owner::Mmap => true,
            Owner::MmapOf(process) => process.is_current(),
            Owner::Value(_) => false,
        };
        if is_mapped {
            // SAFETY: this value mapped the range, lent no reference to it, and ends here. The call
            // fails only for an invalid range, which would be a bug in this file.
            let _ = unsafe { munmap(self.ptr.as_ptr().cast(), self.len) };
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd as _;

    use super::*;

    /// The kernel's flags of the mapping that begins at an address.
    fn flags_of(mapping: &Mapping) -> String {
        let table = fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{:x}-", mapping.as_ptr().addr());
        let rows = table.lines().skip_while(|row| !row.starts_with(&start));
        let mut flags = rows.filter_map(|row| row.strip_prefix("VmFlags:"));
        flags.next().unwrap().to_owned()
    }

    /// Two mappings of two pages each, the second `gap` bytes after the first.
    fn two(gap: usize) -> [Mapping; 2] {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        // A place where both fit.
        let place = Mapping::anonymous(1 << 16).unwrap();
        let at = place.as_ptr().addr();
        drop(place);
        [at, at + 8192 + gap]
            .map(|near| Mapping::of_fd(file.as_fd(), 0, 8192, Protection::Read, near).unwrap())
    }

    #[test]
    fn children_have_neither_of_two_mappings() {
        for gap in [0, 8192] {
            let [mut low, mut high] = two(gap);
            assert!(!flags_of(&low).contains(" dc"), "as it was made");
            Mapping::leave_out_both(&mut low, &mut high).unwrap();
            for mapping in [&low, &high] {
                assert!(flags_of(mapping).contains(" dc"), "{gap}");
                assert!(matches!(mapping.owner, Owner::MmapOf(_)));
            }
        }
    }

    #[test]
    fn memory_that_another_value_mapped_stays_with_children() {
        let [mut low, high] = two(0);
        let (ptr, len) = (high.ptr, high.len);
        let owner = Owner::Value(Box::new(high));
        let mut wrapped = Mapping { ptr, len, owner };
        Mapping::leave_out_both(&mut low, &mut wrapped).unwrap();
        assert!(flags_of(&low).contains(" dc"));
        assert!(!flags_of(&wrapped).contains(" dc"));
    }

    #[test]
    fn a_mapping_is_whole_pages_and_says_where() {
        let page = rustix::param::page_size();
        for (len, rounded) in [(1, page), (page, page), (page + 1, 2 * page)] {
            let mapping = Mapping::anonymous(len).unwrap();
            assert_eq!((mapping.len(), mapping.is_empty()), (rounded, false));
            assert_eq!(mapping.address(), mapping.as_ptr().addr() as u64);
            assert_eq!(format!("{mapping:?}"), format!("Mapping({rounded} bytes)"));
        }
        assert_eq!(Mapping::anonymous(0).unwrap_err(), Errno::INVAL);
        assert_eq!(Mapping::anonymous(usize::MAX).unwrap_err(), Errno::NOMEM);
    }

    #[test]
    fn words_and_halves_are_loaded_where_they_are_aligned_and_inside() {
        let path = std::env::temp_dir().join(format!("uverbs-map-{}", std::process::id()));
        let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
        fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        let mapping = Mapping::of_fd(file.as_fd(), 0, 4096, Protection::Read, 0).unwrap();
        fs::remove_file(&path).unwrap();
        for offset in [0, 8, 240, 4096 - 8] {
            let word = u64::from_ne_bytes(bytes[offset..][..8].try_into().unwrap());
            assert_eq!(mapping.load(offset), Some(word), "{offset}");
            for half in [offset, offset + 4] {
                let expected = u32::from_ne_bytes(bytes[half..][..4].try_into().unwrap());
                assert_eq!(mapping.load_u32(half), Some(expected), "{half}");
            }
        }
        for offset in [1, 4, 4096 - 4, 4096, usize::MAX - 7] {
            assert_eq!(mapping.load(offset), None, "{offset}");
        }
        for offset in [1, 2, 6, 7, 4096, usize::MAX - 3] {
            assert_eq!(mapping.load_u32(offset), None, "{offset}");
        }
    }
}
