//! Memory of the user, taken over while it is registered and given back afterwards.
//!
//! # Safety
//!
//! [`StableBytes`] says that the bytes belong to the value and stay where they are. The value is
//! kept where nothing refers to it ([`Kept`]) until the kernel has confirmed the deregistration, or
//! forever; meanwhile its bytes are accessed only through buffers and by the device.
#![allow(unsafe_code, reason = "keeps values whose memory a device accesses")]

use std::any::Any;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::sync::Arc;

use uverbs_core::types::AccessFlags;
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::backing::Backing;
use super::exposed::{Exposed, for_peers};
use super::region::{self, Held, Region};
use super::{Buffer, ExposedMemory};
use crate::{MemoryRegion, ProtectionDomain};

/// A value that owns bytes which can be registered.
///
/// Implemented for `Vec<u8>`, `Box<[u8]>` and, with the feature `memmap2`, `memmap2::MmapMut`:
/// anonymous maps, huge pages among them (`MmapOptions::huge`), and maps of files, whose creation
/// is `unsafe` because nothing else may change or shorten the file meanwhile.
///
/// # Safety
/// From the call of [`bytes`](Self::bytes) until the value is used again or dropped, wherever it is
/// moved meanwhile:
/// 1. the bytes stay mapped at that address, valid for reads and writes, and are initialized;
/// 2. nothing else reads or writes them: no clone, no other thread, no other process;
/// 3. no value with invalid bit patterns lives in them;
/// 4. no other code has excluded their pages from child processes and relies on that.
pub unsafe trait StableBytes: Send + 'static {
    /// The bytes.
    fn bytes(&mut self) -> NonNull<[u8]>;
}

// SAFETY: a vector that is not used keeps its allocation, which is its alone, wherever it is moved;
// its elements are initialized.
unsafe impl StableBytes for Vec<u8> {
    fn bytes(&mut self) -> NonNull<[u8]> {
        NonNull::from(self.as_mut_slice())
    }
}

// SAFETY: as above.
unsafe impl StableBytes for Box<[u8]> {
    fn bytes(&mut self) -> NonNull<[u8]> {
        NonNull::from(&mut **self)
    }
}

// SAFETY: the map lends its bytes as a unique slice, and keeps them mapped wherever it is moved.
// That no one else changes those of a file was promised when it was made.
#[cfg(feature = "memmap2")]
unsafe impl StableBytes for memmap2::MmapMut {
    fn bytes(&mut self) -> NonNull<[u8]> {
        NonNull::from(&mut **self)
    }
}

/// A value that nothing refers to until it is taken out.
///
/// It is not an `M` for the compiler, so moving it makes no claim to the memory that it owns.
pub(super) struct Kept<M>(MaybeUninit<M>);

// SAFETY: no reference to the value is made while it is shared.
unsafe impl<M: Send> Sync for Kept<M> {}

impl<M> Kept<M> {
    pub(super) fn into_inner(self) -> M {
        let kept = ManuallyDrop::new(self);
        // SAFETY: it was initialized when it was made, and is neither used nor dropped again.
        unsafe { kept.0.assume_init_read() }
    }
}

impl<M> Drop for Kept<M> {
    fn drop(&mut self) {
        // SAFETY: it was initialized when it was made, and is dropped only here.
        unsafe { self.0.assume_init_drop() }
    }
}

/// Memory that could not be registered.
pub struct NotRegistered<M> {
    /// Why.
    pub error: Error,
    /// The memory. `None` if the kernel may have registered it
    /// ([`outcome_is_unknown`](Error::outcome_is_unknown)): it is leaked then.
    pub memory: Option<M>,
}

/// Memory that was not given back: a [`Buffer`], or
/// [`ExposedMemory`](crate::owned::ExposedMemory).
#[derive(Debug)]
pub struct NotReturned<T> {
    /// Why.
    pub error: Error,
    /// The memory, which can still be used. `None` if the kernel refused the deregistration: it is
    /// leaked then.
    pub memory: Option<T>,
}

/// A value that was registered.
pub(super) struct Taken {
    pub(super) mr: MemoryRegion,
    pub(super) bytes: NonNull<[u8]>,
    /// The value.
    pub(super) kept: Held,
}

/// Takes over `memory` and registers it.
pub(super) fn take_over<M: StableBytes>(
    pd: &ProtectionDomain,
    memory: M,
    access: AccessFlags,
) -> Result<Taken, NotRegistered<M>> {
    let mut kept = Kept(MaybeUninit::new(memory));
    // SAFETY: it was initialized on the line before.
    let bytes = unsafe { kept.0.assume_init_mut() }.bytes();
    if let Err(error) = check(pd, bytes) {
        let memory = Some(kept.into_inner());
        return Err(NotRegistered { error, memory });
    }
    let kept = Arc::new(kept);
    let held = Arc::clone(&kept) as Held;
    // SAFETY: the bytes are the value's, which says that they stay mapped and that no one else uses
    // them while it is kept.
    match unsafe { region::register(pd, bytes.cast(), bytes.len(), access, held) } {
        Ok(mr) => Ok(Taken { mr, bytes, kept }),
        // If the kernel may have registered it, another owner was leaked.
        Err(error) => Err(NotRegistered {
            error,
            memory: Arc::into_inner(kept).map(Kept::into_inner),
        }),
    }
}

/// Whether `held` is a value of this type that was taken over.
pub(super) fn is_of<M: StableBytes>(held: &Held) -> Result<()> {
    if (&**held as &dyn Any).is::<Kept<M>>() {
        return Ok(());
    }
    Err(Error::invalid(Op::DeregisterMemory, "memory")
        .hint("it was allocated by the library, or registered as another type"))
}

/// The value, once the registration that shared it is gone.
pub(super) fn give_back<M: StableBytes>(held: Held) -> Result<M> {
    let kept = held.downcast::<Kept<M>>().ok().and_then(Arc::into_inner);
    // The registration was the only other owner.
    kept.map(Kept::into_inner)
        .ok_or_else(|| Error::new(Op::DeregisterMemory, ErrorKind::InvalidState))
}

impl ProtectionDomain {
    /// `ibv_reg_mr`—takes over `memory` and registers it for local access, as one buffer;
    /// [`Buffer::into_inner`] gives it back.
    ///
    /// Nothing is copied. One system call; the pages are pinned and count against
    /// `RLIMIT_MEMLOCK`. A device can transfer less than 4 GiB at a time: larger memory is
    /// [split](Buffer::split_off) into buffers.
    ///
    /// Kernels before 5.12 do not copy registered pages on fork, so whole pages are excluded from
    /// child processes there. Memory that does not consist of whole pages is refused on them,
    /// because children would lose what else is on its first and last page. A program that never
    /// forks says so when it opens the device, with
    /// [`ForkGuard::unneeded`](crate::discover::ForkGuard::unneeded).
    ///
    /// ```no_run
    /// # fn f(pd: &uverbs::ProtectionDomain) -> Result<(), Box<dyn std::error::Error>> {
    /// let file = std::fs::read("/etc/hosts")?;
    /// let buffer = pd.register_owned(file)?;
    /// // … sent, and back with its completion …
    /// let file: Vec<u8> = buffer.into_inner()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The memory, and the error: [`InvalidInput`](ErrorKind::InvalidInput) for no bytes;
    /// [`OutOfResources`](ErrorKind::OutOfResources) for memory, usually `RLIMIT_MEMLOCK`;
    /// [`Unsupported`](ErrorKind::Unsupported) for parts of pages on kernels before 5.12.
    #[doc(alias = "ibv_reg_mr")]
    pub fn register_owned<M: StableBytes>(&self, memory: M) -> Result<Buffer, NotRegistered<M>> {
        let Taken { mr, bytes, kept } = take_over(self, memory, AccessFlags::LOCAL_WRITE)?;
        let region = Arc::new(Region::new(mr, kept, None));
        // SAFETY: these are all the bytes that were registered, and this the only buffer.
        Ok(unsafe { Buffer::of(&region, bytes.cast(), bytes.len()) })
    }
}

impl ProtectionDomain {
    /// `ibv_reg_mr`—takes over `memory` and lets peers access it as `access` allows;
    /// [`ExposedMemory::into_inner`] gives it back. Otherwise like
    /// [`register_owned`](Self::register_owned).
    ///
    /// Peers and this process access it in words of 8 aligned bytes; a `Vec<u8>` or `Box<[u8]>`
    /// need not begin with a whole one, but those of common allocators do.
    ///
    /// # Errors
    /// The memory, and the error: as [`register_owned`](Self::register_owned) and
    /// [`expose`](Self::expose).
    #[doc(alias = "ibv_reg_mr")]
    pub fn expose_owned<M: StableBytes>(
        &self,
        memory: M,
        access: AccessFlags,
    ) -> Result<ExposedMemory, NotRegistered<M>> {
        let access = match for_peers(access) {
            Ok(access) => access,
            Err(error) => {
                let memory = Some(memory);
                return Err(NotRegistered { error, memory });
            }
        };
        let Taken { mr, bytes, kept } = take_over(self, memory, access)?;
        // SAFETY: the bytes are the value's, which says that they stay mapped and that no one else
        // uses them while it is kept.
        let backing = unsafe { Backing::new(bytes.cast(), bytes.len(), kept) };
        Ok(ExposedMemory::new(mr, Some(backing)))
    }
}

/// Refuses memory that cannot be registered without harm to others.
fn check(pd: &ProtectionDomain, bytes: NonNull<[u8]>) -> Result<()> {
    let op = Op::RegisterMemory;
    if bytes.is_empty() {
        return Err(Error::invalid(op, "length").fact("length", 0_u32));
    }
    let fork = pd.context().fork_guard()?;
    if !fork.affects_only(bytes.cast::<u8>().addr().get(), bytes.len()) {
        return Err(Error::new(op, ErrorKind::Unsupported)
            .fact("length", bytes.len())
            .hint("before Linux 5.12 child processes would lose what else is on these pages; register a memory map of whole pages, copy into a buffer, or open the device with ForkGuard::unneeded if the program never forks"));
    }
    Ok(())
}

impl Buffer {
    /// Deregisters the memory that [`register_owned`](ProtectionDomain::register_owned) took over,
    /// and gives it back. One system call.
    ///
    /// Parts that were split off must have been dropped or [put back](Self::unsplit); what is given
    /// back is the whole memory, whichever part is left.
    ///
    /// # Errors
    /// The buffer, and the error: [`InvalidInput`](ErrorKind::InvalidInput) if its memory is not an
    /// `M`; [`Busy`](ErrorKind::Busy) while other parts of it exist, in the program or in a queue.
    /// If the kernel refuses the deregistration, the memory is leaked and counted in
    /// [`Context::leaked`](crate::Context::leaked).
    #[doc(alias = "ibv_dereg_mr")]
    pub fn into_inner<M: StableBytes>(mut self) -> Result<M, NotReturned<Self>> {
        let refused = |error, memory| Err(NotReturned { error, memory });
        if let Err(error) = is_of::<M>(&self.region.held) {
            return refused(error, Some(self));
        }
        let Some(region) = Arc::get_mut(&mut self.region) else {
            let error = Error::new(Op::DeregisterMemory, ErrorKind::Busy)
                .hint("other parts of the memory exist");
            return refused(error, Some(self));
        };
        if let Some(mr) = region.mr.take()
            && let Err(error) = mr.deregister()
        {
            return refused(error, None);
        }
        let held = std::mem::replace(&mut region.held, Arc::new(()));
        give_back(held).or_else(|error| refused(error, None))
    }
}

impl ExposedMemory {
    /// Deregisters the memory that [`expose_owned`](ProtectionDomain::expose_owned) took over, and
    /// gives it back, with what peers wrote. One system call.
    ///
    /// # Errors
    /// The memory, and the error: [`InvalidInput`](ErrorKind::InvalidInput) if it is not an `M`;
    /// [`Busy`](ErrorKind::Busy) while clones exist, in the program or in a queue. If the kernel
    /// refuses the deregistration, it is leaked and counted in
    /// [`Context::leaked`](crate::Context::leaked).
    #[doc(alias = "ibv_dereg_mr")]
    pub fn into_inner<M: StableBytes>(self) -> Result<M, NotReturned<Self>> {
        let refused = |error, memory| Err(NotReturned { error, memory });
        let op = Op::DeregisterMemory;
        let held = self.held();
        let is_of = match held {
            Some(held) => is_of::<M>(held),
            None => Err(Error::invalid(op, "memory").hint("it is another device's")),
        };
        if let Err(error) = is_of {
            return refused(error, Some(self));
        }
        let Exposed { mr, backing } = match self.into_only() {
            Ok(only) => only,
            Err(memory) => {
                let error = Error::new(op, ErrorKind::Busy).hint("clones of the memory exist");
                return refused(error, Some(memory));
            }
        };
        if let Err(error) = mr.deregister() {
            return refused(error, None);
        }
        match backing {
            Some(backing) => give_back(backing.held).or_else(|error| refused(error, None)),
            None => refused(Error::new(op, ErrorKind::InvalidState), None),
        }
    }
}

impl<M> fmt::Display for NotRegistered<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// Without the bytes, which may be many.
impl<M> fmt::Debug for NotRegistered<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotRegistered")
            .field("error", &self.error)
            .field("returned", &self.memory.is_some())
            .finish_non_exhaustive()
    }
}

impl<M> std::error::Error for NotRegistered<M> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<T> fmt::Display for NotReturned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: fmt::Debug> std::error::Error for NotReturned<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}
