//! Memory that other processes of this host map, too.
//!
//! # Safety
//!
//! The mapping is of a file that cannot be shortened, is kept by the registration and by whatever
//! accesses it, and is accessed as words.
#![allow(unsafe_code, reason = "registers memory that other processes map")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use uverbs_core::sys;
use uverbs_core::types::AccessFlags;
use uverbs_core::{Error, Op, Result};

use super::ExposedMemory;
use super::backing::Backing;
use super::exposed::for_peers;
use super::region::{self, Held};
use crate::ProtectionDomain;

pub use uverbs_core::sys::PageSize;

/// Memory that other processes of this host may map (`memfd_create(2)`), to be
/// [exposed](ProtectionDomain::expose_shared).
///
/// Its [descriptor](AsFd) is given to them by the usual means: inherited, or sent over a Unix
/// socket (`SCM_RIGHTS`). They open it with [`from_fd`](Self::from_fd), or map it in any other way.
/// Its size is sealed, because shortening a file kills processes that access it (SIGBUS). Cheap to
/// clone; it is freed when no process has it mapped, registered or open.
///
/// ```no_run
/// # fn f(pd: &uverbs::ProtectionDomain) -> Result<(), uverbs::Error> {
/// use uverbs::AccessFlags;
/// use uverbs::owned::{PageSize, SharedMemory};
///
/// let shared = SharedMemory::new(1 << 20, PageSize::Base)?;
/// let memory = pd.expose_shared(&shared, AccessFlags::REMOTE_WRITE)?;
/// // Another process that has the descriptor of `shared` sees what peers write.
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SharedMemory {
    inner: Arc<sys::SharedMemory>,
}

impl SharedMemory {
    /// Creates `len` zeroed bytes. Four system calls, since Linux 3.17; huge pages since 4.14.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | no bytes; a length that is not a multiple of the huge page size (EINVAL) |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | no memory, or fewer huge pages than that (ENOMEM): `/proc/sys/vm/nr_hugepages` |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | a page size that the machine does not have |
    #[doc(alias = "memfd_create")]
    pub fn new(len: usize, pages: PageSize) -> Result<Self> {
        sys::SharedMemory::create(Op::RegisterMemory, len, pages).map(Self::of)
    }

    /// Maps what another process created. Three system calls.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for anything but a file of
    /// `memfd_create(2)` with `F_SEAL_SHRINK`.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        sys::SharedMemory::open(Op::RegisterMemory, fd).map(Self::of)
    }

    fn of(inner: sys::SharedMemory) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// True for no bytes, which cannot be created.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl ProtectionDomain {
    /// `ibv_reg_mr`—lets peers access shared memory as `access` allows. One system call; the pages
    /// are pinned and count against `RLIMIT_MEMLOCK`.
    ///
    /// What this process, other processes and peers write meanwhile takes effect in words of 8
    /// aligned bytes, if the other processes access it so. Children that are forked have the same
    /// memory, not a copy, on all kernels.
    ///
    /// # Errors
    /// As [`expose`](Self::expose).
    #[doc(alias = "ibv_reg_mr")]
    pub fn expose_shared(
        &self,
        shared: &SharedMemory,
        access: AccessFlags,
    ) -> Result<ExposedMemory> {
        let access = for_peers(access)?;
        let inner = &shared.inner;
        let start = NonNull::new(inner.as_ptr())
            .ok_or_else(|| Error::invalid(Op::RegisterMemory, "address"))?;
        let held = Arc::clone(inner) as Held;
        // SAFETY: mapped while the owner is held; it is accessed as words, here and by peers, and a
        // file of this kind is never copied on fork.
        let mr = unsafe { region::register_as_it_is(self, start, inner.len(), access, held) }?;
        let held = Arc::clone(inner) as Held;
        // SAFETY: as above. All mappings of this process are whole files, whose words are the same.
        let backing = unsafe { Backing::new(start, inner.len(), held) };
        Ok(ExposedMemory::new(mr, Some(backing)))
    }
}
