//! Memory that several processes map (`memfd_create(2)`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};

use super::{Mapping, Protection};
use crate::error::{Errno, Error, Op, Result};

/// A file in memory that can no longer change its size, and the mapping of all of it.
///
/// Whoever has the descriptor may change its content at any time.
#[derive(Debug)]
pub struct SharedMemory {
    mapping: Mapping,
    fd: OwnedFd,
    len: usize,
}

/// The pages of new shared memory.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum PageSize {
    /// Those of the machine.
    #[default]
    Base,
    /// Huge ones of the machine's default size (`Hugepagesize` in `/proc/meminfo`).
    Huge,
    /// Huge ones of 2 MiB.
    Huge2MiB,
    /// Huge ones of 1 GiB.
    Huge1GiB,
}

impl PageSize {
    fn flags(self) -> MemfdFlags {
        match self {
            Self::Base => MemfdFlags::empty(),
            Self::Huge => MemfdFlags::HUGETLB,
            Self::Huge2MiB => MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
            Self::Huge1GiB => MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB,
        }
    }
}

/// Without this seal another process could shorten the file, and end this one by SIGBUS.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

impl SharedMemory {
    /// Creates `len` zeroed bytes. Four system calls.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn create(op: Op, len: usize, pages: PageSize) -> Result<Self> {
        let os = |errno| Error::os(op, errno).fact("length", len);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | pages.flags();
        let fd = memfd_create("uverbs", flags).map_err(os)?;
        ftruncate(&fd, len as u64).map_err(os)?;
        fcntl_add_seals(&fd, SEALS).map_err(os)?;
        Self::map(op, fd, len)
    }

    /// Maps what another process created. Three system calls.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a descriptor of something else, or of a
    /// file that could be shortened; else those of the system calls.
    pub fn open(op: Op, fd: OwnedFd) -> Result<Self> {
        // EINVAL for a file that has no seals.
        let seals = fcntl_get_seals(&fd).map_err(|_| no_shared_memory(op))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(no_shared_memory(op));
        }
        let size = fstat(&fd).map_err(|errno| Error::os(op, errno))?.st_size;
        let len = usize::try_from(size).map_err(|_| no_shared_memory(op))?;
        Self::map(op, fd, len)
    }

    fn map(op: Op, fd: OwnedFd, len: usize) -> Result<Self> {
        let mapping = Mapping::of_fd(fd.as_fd(), 0, len, Protection::ReadWrite, 0)
            .map_err(|errno: Errno| Error::os(op, errno).fact("length", len))?;
        Ok(Self { mapping, fd, len })
    }

    /// The first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapping.as_ptr()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for no bytes, which cannot be mapped.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

fn no_shared_memory(op: Op) -> Error {
    Error::invalid(op, "fd")
        .hint("shared memory is a file of memfd_create(2) with F_SEAL_SHRINK; this is not")
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const OP: Op = Op::RegisterMemory;

    #[test]
    fn writes_to_the_file_are_seen_in_every_mapping() {
        let one = SharedMemory::create(OP, 100, PageSize::Base).unwrap();
        let fd = one.as_fd().try_clone_to_owned().unwrap();
        let other = SharedMemory::open(OP, fd).unwrap();
        assert_eq!((one.len(), other.len()), (100, 100));
        assert_ne!(one.as_ptr(), other.as_ptr());
        rustix::io::pwrite(one.as_fd(), b"here", 0).unwrap();
        let word = other.mapping.load(0).unwrap().to_ne_bytes();
        assert_eq!(&word[..4], b"here");
    }

    #[test]
    fn shared_memory_cannot_be_truncated() {
        let memory = SharedMemory::create(OP, 4096, PageSize::Base).unwrap();
        assert_eq!(ftruncate(memory.as_fd(), 0), Err(Errno::PERM));
    }

    #[test]
    fn files_that_can_be_truncated_are_refused() {
        let unsealed = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, 4096).unwrap();
        let device = std::fs::File::open("/dev/null").unwrap();
        for fd in [unsealed, device.into()] {
            let error = SharedMemory::open(OP, fd).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        let none = SharedMemory::create(OP, 0, PageSize::Base).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn shared_memory_is_not_empty() {
        let memory = SharedMemory::create(OP, 100, PageSize::default()).unwrap();
        assert!(!memory.is_empty());
        assert_eq!(memory.as_ptr(), memory.mapping.as_ptr());
        for (pages, huge) in [
            (PageSize::Base, false),
            (PageSize::Huge, true),
            (PageSize::Huge2MiB, true),
            (PageSize::Huge1GiB, true),
        ] {
            assert_eq!(
                pages.flags().contains(MemfdFlags::HUGETLB),
                huge,
                "{pages:?}"
            );
        }
        assert_ne!(PageSize::Huge2MiB.flags(), PageSize::Huge1GiB.flags());
    }
}
