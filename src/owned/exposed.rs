//! Memory that peers access.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use uverbs_core::types::{AccessFlags, OutOfRange, RemoteKey, RemoteMemory, Sge};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::backing::Backing;
use super::region::{self, Held};
use crate::memory::DmabufRange;
use crate::{MemoryRegion, ProtectionDomain};

/// What peers may do, or what a window may allow them to do. Other memory is lent out as slices,
/// and a fake device in this process relies on that: it accesses a region without any of these
/// rights like the memory of requests, and this one word by word.
const PEERS: AccessFlags = AccessFlags::REMOTE_READ
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::MW_BIND);

/// Memory that peers with its key may read, write or change at any time.
///
/// It is allocated ([`expose`](ProtectionDomain::expose)), the program's own
/// ([`expose_owned`](ProtectionDomain::expose_owned)), shared with other processes
/// ([`expose_shared`](ProtectionDomain::expose_shared)), or another device's
/// ([`expose_dmabuf`](ProtectionDomain::expose_dmabuf)).
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
    region: Arc<Exposed>,
}

/// The registration is undone before the memory is freed.
#[derive(Debug)]
pub(super) struct Exposed {
    pub(super) mr: MemoryRegion,
    /// The memory as this process accesses it; `None` for memory that it does not.
    pub(super) backing: Option<Backing>,
}

/// Bytes that are copied at a time to and from readers and writers.
const CHUNK: usize = 16 << 10;

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
        let access = for_peers(access)?;
        let (mr, pages) = region::allocate(self, len, access)?;
        Ok(ExposedMemory::new(mr, Some(region::backing(pages))))
    }

    /// `ibv_reg_dmabuf_mr`—registers a part of a dmabuf, such as a GPU's memory, for requests of
    /// this side and for what `access` allows peers. One system call, since Linux 5.12.
    ///
    /// Local write access is added where remote writes or atomics need it. This process does not
    /// access it ([`is_local`](ExposedMemory::is_local)). Offsets into it count from the start of
    /// the range, and peers address it from its `iova`.
    ///
    /// # Errors
    /// As [`register_dmabuf`](Self::register_dmabuf).
    #[doc(alias = "ibv_reg_dmabuf_mr")]
    pub fn expose_dmabuf(
        &self,
        range: &DmabufRange<'_>,
        access: AccessFlags,
    ) -> Result<ExposedMemory> {
        let mr = self.register_dmabuf(range, with_local_write(access))?;
        Ok(ExposedMemory::new(mr, None))
    }
}

/// What a region of exposed memory is registered with.
pub(super) fn for_peers(access: AccessFlags) -> Result<AccessFlags> {
    access.checked(Op::RegisterMemory, "access")?;
    let refused = AccessFlags::ON_DEMAND | AccessFlags::HUGETLB | AccessFlags::ZERO_BASED;
    if access.intersects(refused) {
        return Err(Error::new(Op::RegisterMemory, ErrorKind::InvalidInput)
            .fact("access", access.to_string()));
    }
    if !access.intersects(PEERS) {
        return Err(Error::new(Op::RegisterMemory, ErrorKind::InvalidInput)
            .fact("access", access.to_string())
            .hint("exposed memory is for peers to reach; for memory that only this side uses, there are buffers"));
    }
    Ok(with_local_write(access))
}

/// The kernel demands local write access where peers may write.
fn with_local_write(access: AccessFlags) -> AccessFlags {
    let writes = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
    if access.intersects(writes) {
        access | AccessFlags::LOCAL_WRITE
    } else {
        access
    }
}

impl ExposedMemory {
    pub(super) fn new(mr: MemoryRegion, backing: Option<Backing>) -> Self {
        Self {
            region: Arc::new(Exposed { mr, backing }),
        }
    }

    /// The memory itself, unless there are clones.
    pub(super) fn into_only(self) -> Result<Exposed, Self> {
        Arc::try_unwrap(self.region).map_err(|region| Self { region })
    }

    /// What owns it, if this process accesses it.
    pub(super) fn held(&self) -> Option<&Held> {
        Some(&self.region.backing.as_ref()?.held)
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        // What was registered fitted into the address space, or a dmabuf.
        usize::try_from(self.region.mr.length()).unwrap_or(usize::MAX)
    }

    /// True for no bytes, which cannot be registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this process can access it. If not (memory of [another
    /// device](ProtectionDomain::expose_dmabuf)), nothing below copies, loads or stores anything.
    pub fn is_local(&self) -> bool {
        self.region.backing.is_some()
    }

    /// The key to give to peers.
    pub fn rkey(&self) -> RemoteKey {
        self.region.mr.rkey()
    }

    /// All of it, as peers address it.
    pub fn remote(&self) -> RemoteMemory {
        RemoteMemory {
            address: self.region.mr.address(),
            length: self.region.mr.length(),
            key: self.rkey(),
        }
    }

    /// A part of it, as peers address it: to tell a peer which part to use. The key still gives
    /// access to all of the memory.
    ///
    /// # Errors
    /// The end of the range, if it is outside.
    pub fn remote_at(&self, range: Range<usize>) -> Result<RemoteMemory, OutOfRange> {
        self.remote().part(range.start as u64..range.end as u64)
    }

    /// Copies bytes out from `offset`. Returns false, and copies nothing, if the range does not
    /// fit.
    #[must_use = "nothing is copied from outside"]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> bool {
        let words = self.region.backing.as_ref().map(Backing::words);
        words.is_some_and(|words| words.read(offset, bytes))
    }

    /// Copies `bytes` in at `offset`. Returns false, and copies nothing, if the range does not fit.
    ///
    /// Adjacent bytes keep their value, or take the one that a peer or another thread writes there
    /// meanwhile. A range that is not aligned to words of 8 bytes takes a compare-and-exchange of
    /// the word at either end.
    #[must_use = "nothing is copied to outside"]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let words = self.region.backing.as_ref().map(Backing::words);
        words.is_some_and(|words| words.write(offset, bytes))
    }

    /// The aligned 8 bytes at `offset`, loaded in one access with acquire ordering: what the peer
    /// wrote before them over the same connection is visible. `None` if `offset` is outside or
    /// unaligned.
    pub fn load(&self, offset: usize) -> Option<u64> {
        Some(self.word(offset)?.load(Ordering::Acquire))
    }

    /// Stores the aligned 8 bytes at `offset` in one access, after everything written before.
    /// Returns false if `offset` is outside or unaligned.
    #[must_use = "nothing is stored outside"]
    pub fn store(&self, offset: usize, value: u64) -> bool {
        let word = self.word(offset);
        word.is_some_and(|word| {
            word.store(value, Ordering::Release);
            true
        })
    }

    /// Stores `new` in the aligned 8 bytes at `offset` if they are `current`, in one access with
    /// acquire and release ordering. Returns `Ok` with the previous value if they were, `Err` with
    /// the value that they have if not; `None` if `offset` is outside or unaligned.
    ///
    /// It is atomic with respect to other threads, and to what peers write. With respect to atomic
    /// operations of peers it is so only if the device's
    /// [`AtomicCap`](crate::caps::AtomicCap) is `Global`. With `Device`, which is usual, a peer's
    /// operation that is under way meanwhile may undo it; words that peers change by atomics are
    /// then changed only by atomics of that device, on this side by a queue pair that is connected
    /// to itself.
    ///
    /// ```no_run
    /// # fn f(memory: &uverbs::owned::ExposedMemory) {
    /// const LOCK: usize = 0;
    /// if memory.compare_exchange(LOCK, 0, 1) == Some(Ok(0)) {
    ///     // It was free.
    /// }
    /// # }
    /// ```
    #[must_use = "it says whether the word was changed"]
    pub fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Option<Result<u64, u64>> {
        let word = self.word(offset)?;
        Some(word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire))
    }

    /// Adds `value` to the aligned 8 bytes at `offset`, wrapping around. Returns their previous
    /// value; `None` if `offset` is outside or unaligned. Atomic as
    /// [`compare_exchange`](Self::compare_exchange) is.
    pub fn fetch_add(&self, offset: usize, value: u64) -> Option<u64> {
        Some(self.word(offset)?.fetch_add(value, Ordering::AcqRel))
    }

    /// Stores `value` in the aligned 8 bytes at `offset`. Returns their previous value; `None` if
    /// `offset` is outside or unaligned. Atomic as [`compare_exchange`](Self::compare_exchange) is.
    pub fn swap(&self, offset: usize, value: u64) -> Option<u64> {
        Some(self.word(offset)?.swap(value, Ordering::AcqRel))
    }

    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        self.region.backing.as_ref()?.words().word(offset)
    }

    /// Writes the bytes of `range` to `to`, in chunks of up to 16 KiB that are copied first,
    /// because a writer needs bytes that no peer changes meanwhile.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a range outside, with nothing written;
    /// [`Unsupported`](io::ErrorKind::Unsupported) for memory of another device; else those of
    /// `to`.
    pub fn write_to(&self, range: Range<usize>, mut to: impl Write) -> io::Result<()> {
        self.check(&range)?;
        let mut bytes = vec![0; range.len().min(CHUNK)];
        for offset in range.clone().step_by(CHUNK) {
            let chunk = &mut bytes[..(range.end - offset).min(CHUNK)];
            // Inside, as checked.
            let _ = self.read(offset, chunk);
            to.write_all(chunk)?;
        }
        Ok(())
    }

    /// Fills `range` with bytes that are read from `from`, in chunks of up to 16 KiB that are
    /// copied in one after the other.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a range outside, with nothing read;
    /// [`Unsupported`](io::ErrorKind::Unsupported) for memory of another device;
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if there are fewer bytes; else those of
    /// `from`. Chunks that were complete are in the memory then.
    pub fn read_from(&self, range: Range<usize>, mut from: impl Read) -> io::Result<()> {
        self.check(&range)?;
        let mut bytes = vec![0; range.len().min(CHUNK)];
        for offset in range.clone().step_by(CHUNK) {
            let chunk = &mut bytes[..(range.end - offset).min(CHUNK)];
            from.read_exact(chunk)?;
            // Inside, as checked.
            let _ = self.write(offset, chunk);
        }
        Ok(())
    }

    fn check(&self, range: &Range<usize>) -> io::Result<()> {
        if !self.is_local() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.remote_at(range.clone())
            .map(|_| ())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    #[inline]
    pub(super) fn sge(&self, offset: usize, len: usize) -> Option<Sge> {
        self.region.mr.sge(offset as u64, u32::try_from(len).ok()?)
    }

    #[inline]
    pub(super) fn is_in(&self, pd: &ProtectionDomain) -> bool {
        self.region.mr.pd().is_same(pd)
    }
}
