//! Memory that peers access.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use uverbs_core::types::{AccessFlags, Remote, RemoteKey, Sge};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::buffer::Region;
use crate::ProtectionDomain;

/// What peers may do, or what a window may allow them to do. Other memory is lent out as slices,
/// and a fake device in this process relies on that: it accesses a region without any of these
/// rights like the memory of requests, and this one word by word.
const PEERS: AccessFlags = AccessFlags::REMOTE_READ
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::MW_BIND);

/// Memory that peers with its key may read, write or change at any time.
///
/// It lends no reference to its bytes: they are copied in and out, each byte once, while peers and
/// other threads may be writing; the copy is then a mix of old and new. Words of 8 aligned bytes
/// are loaded and stored in one access, so they can serve as flags. Cheap to clone; the memory is
/// freed once the last clone is dropped and the kernel has confirmed that nothing can reach it any
/// more.
///
/// ```no_run
/// # fn f(pd: &uverbs::ProtectionDomain) -> Result<(), uverbs::Error> {
/// use uverbs::AccessFlags;
///
/// let memory = pd.expose(4096, AccessFlags::REMOTE_WRITE)?;
/// let tell_the_peer = memory.remote();
/// let mut head = [0; 16];
/// memory.read(0, &mut head);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ExposedMemory {
    region: Arc<Region>,
}

impl ProtectionDomain {
    /// Allocates `len` zeroed bytes and lets peers access them as `access` allows. Two or three
    /// system calls.
    ///
    /// Local write access is added where remote writes or atomics need it.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a length of 0, or access flags that make no
    /// sense here (none for peers, on-demand paging, huge pages, zero-based addresses) or have no
    /// name; [`OutOfResources`](ErrorKind::OutOfResources) for memory, usually `RLIMIT_MEMLOCK`.
    pub fn expose(&self, len: usize, access: AccessFlags) -> Result<ExposedMemory> {
        access.asked(Op::RegisterMemory, "access")?;
        let refused = AccessFlags::ON_DEMAND | AccessFlags::HUGETLB | AccessFlags::ZERO_BASED;
        if access.intersects(refused) {
            return Err(Error::new(Op::RegisterMemory, ErrorKind::InvalidInput)
                .fact("access", access.to_string()));
        }
        if !access.intersects(PEERS) {
            return Err(Error::new(Op::RegisterMemory, ErrorKind::InvalidInput)
                .fact("access", access.to_string())
                .hint("exposed memory is what peers reach; for memory of this side alone there are buffers"));
        }
        let writes = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
        let local = if access.intersects(writes) {
            AccessFlags::LOCAL_WRITE
        } else {
            AccessFlags::empty()
        };
        Ok(ExposedMemory {
            region: Arc::new(Region::new(self, len, access | local)?),
        })
    }
}

impl ExposedMemory {
    /// Bytes.
    pub fn len(&self) -> usize {
        self.region.pages.len()
    }

    /// True for no bytes, which cannot be allocated.
    pub fn is_empty(&self) -> bool {
        self.region.pages.is_empty()
    }

    /// The key to give to peers.
    pub fn rkey(&self) -> RemoteKey {
        self.region.mr.rkey()
    }

    /// Its start, as peers address it.
    pub fn remote(&self) -> Remote {
        Remote {
            address: self.region.mr.address(),
            key: self.rkey(),
        }
    }

    /// Copies bytes out from `offset`. Returns false, and copies nothing, if the range does not
    /// fit.
    #[must_use = "nothing is copied from outside"]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> bool {
        self.region.pages.copy_to(offset, bytes)
    }

    /// Copies `bytes` in at `offset`. Returns false, and copies nothing, if the range does not fit.
    ///
    /// Adjacent bytes keep their value, or take the one that a peer or another thread writes there
    /// meanwhile. A range that is not aligned to words of 8 bytes takes a compare-and-exchange of
    /// the word at either end.
    #[must_use = "nothing is copied to outside"]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        self.region.pages.copy_from(offset, bytes)
    }

    /// The aligned 8 bytes at `offset`, loaded in one access with acquire ordering: what the peer
    /// wrote before them over the same connection is visible. `None` if `offset` is outside or
    /// unaligned.
    pub fn load(&self, offset: usize) -> Option<u64> {
        self.region.pages.load(offset, Ordering::Acquire)
    }

    /// Stores the aligned 8 bytes at `offset` in one access, after everything written before.
    /// Returns false if `offset` is outside or unaligned.
    #[must_use = "nothing is stored outside"]
    pub fn store(&self, offset: usize, value: u64) -> bool {
        self.region.pages.store(offset, value, Ordering::Release)
    }

    pub(super) fn sge(&self, offset: usize, len: usize) -> Option<Sge> {
        self.region.mr.sge(offset as u64, u32::try_from(len).ok()?)
    }

    pub(super) fn is_in(&self, pd: &ProtectionDomain) -> bool {
        self.region.mr.pd().is_same(pd)
    }
}
