//! Memory regions.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use uverbs_core::contract::{self, DmabufInit, Mr, MrChange, MrInit};
use uverbs_core::discover::fork::Registration;
use uverbs_core::types::{
    AccessFlags, LocalKey, MrAdvice, MrAdviceFlags, OdpGeneralCaps, RemoteKey, Sge,
};
use uverbs_core::{Error, ErrorKind, Op, Result};

use crate::ProtectionDomain;

/// `ibv_mr`—memory that a device may use.
///
/// Cheap to clone; the memory is deregistered with the last clone. [`owned`](crate::owned) has
/// regions that own their memory; this one names memory that its creator looks after.
#[doc(alias = "ibv_mr")]
#[derive(Clone, Debug)]
pub struct MemoryRegion {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    mr: Mr,
    address: u64,
    length: u64,
    access: AccessFlags,
    pd: ProtectionDomain,
}

/// A part of a dmabuf to register.
#[derive(Clone, Copy, Debug)]
pub struct DmabufRange<'a> {
    /// The dmabuf.
    pub fd: BorrowedFd<'a>,
    /// Where the part starts in the dmabuf, in bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The address that work requests use for its first byte; its low 12 bits equal those of
    /// `offset`.
    pub iova: u64,
}

impl<'a> DmabufRange<'a> {
    /// What the provider registers.
    pub(crate) fn with(&self, access: AccessFlags) -> DmabufInit<'a> {
        DmabufInit {
            fd: self.fd,
            offset: self.offset,
            length: self.length,
            iova: self.iova,
            access,
        }
    }
}

/// What [`MemoryRegion::reregister`] changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reregister<'a> {
    /// New memory: its first byte and its length.
    pub memory: Option<(*mut u8, usize)>,
    /// A new protection domain of the same context.
    pub pd: Option<&'a ProtectionDomain>,
    /// New access.
    pub access: Option<AccessFlags>,
}

impl ProtectionDomain {
    /// `ibv_reg_mr`—registers `length` bytes at `address`.
    ///
    /// One system call (and two more for each range on kernels before 5.12, which do not copy
    /// registered pages on fork). The pages are pinned and count against `RLIMIT_MEMLOCK`, unless
    /// `access` has [`ON_DEMAND`](AccessFlags::ON_DEMAND). An on-demand region at address 0 with
    /// length `usize::MAX` covers the whole address space, where the device supports that.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | no bytes or a range that wraps (EINVAL), memory that is not mapped or not writable (EFAULT), remote write without local write, access flags without a name (except [optional](AccessFlags::OPTIONAL) ones) |
    /// | [`OutOfResources`](ErrorKind::OutOfResources) | ENOMEM: usually `RLIMIT_MEMLOCK` |
    /// | [`Unsupported`](ErrorKind::Unsupported) | on-demand paging that the device does not have |
    ///
    /// rxe announces on-demand paging since 6.15, but up to 7.2 it takes every position in such a
    /// region for the start of its page: transfers of more than a packet, or to anywhere else, go
    /// astray.
    ///
    /// # Safety
    /// Until the region is deregistered (its last clone is dropped, or
    /// [`deregister`](MemoryRegion::deregister) has returned `Ok`); until the process ends if the
    /// kernel refused that ([`Context::leaked`](crate::Context::leaked) counts it), or if this call
    /// fails with [an unknown outcome](Error::outcome_is_unknown):
    /// 1. the range stays mapped, and what peers or posted work may do to it with `access` breaks
    ///    no rule of the language: no reference to it exists while they write, and no unique
    ///    reference while they read;
    /// 2. no value lives in it for which some bit patterns are invalid;
    /// 3. it holds no part of this library's queues, and nothing else has excluded any of its pages
    ///    from child processes: on kernels before 5.12 they are excluded while the region is
    ///    registered, and included again afterwards.
    #[doc(alias = "ibv_reg_mr")]
    #[doc(alias = "ibv_reg_mr_iova")]
    #[expect(
        unsafe_code,
        reason = "lets a device use memory that this library does not own"
    )]
    pub unsafe fn register(
        &self,
        address: *mut u8,
        length: usize,
        access: AccessFlags,
    ) -> Result<MemoryRegion> {
        // SAFETY: the caller's promise, which does not depend on the iova.
        unsafe { self.register_at(address, length, address.expose_provenance() as u64, access) }
    }

    /// `ibv_reg_mr_iova2`—registers memory whose first byte work requests address as `iova`.
    ///
    /// # Errors
    /// As [`register`](Self::register); EINVAL when `address` and `iova` have different offsets in
    /// their pages.
    ///
    /// # Safety
    /// As [`register`](Self::register).
    #[doc(alias = "ibv_reg_mr_iova2")]
    #[expect(
        unsafe_code,
        reason = "lets a device use memory that this library does not own"
    )]
    pub unsafe fn register_at(
        &self,
        address: *mut u8,
        length: usize,
        iova: u64,
        access: AccessFlags,
    ) -> Result<MemoryRegion> {
        let op = Op::RegisterMemory;
        // Before the range is changed for forks.
        access.checked(op, "access")?;
        let implicit = is_everything(address, length, access);
        if !implicit {
            check_range(op, address.addr(), length)?;
        }
        // SAFETY: the caller's third promise.
        let keep = unsafe { leave_out(self, address.addr(), length, implicit) }?;
        let init = MrInit {
            address: address.expose_provenance() as u64,
            length: length as u64,
            iova,
            access,
        };
        // What is kept takes heap memory, even if it is nothing.
        match keep {
            Some(keep) => MemoryRegion::register(self, &init, keep),
            None => MemoryRegion::register(self, &init, ()),
        }
        .map_err(|error| self.explain(error, access))
    }

    /// `ibv_advise_mr`—brings in pages of on-demand regions before they are needed, so that
    /// requests find them present.
    ///
    /// The scatter/gather entries are of regions of this domain, at most 4095. One system call,
    /// since Linux 5.0; without [`FLUSH`](MrAdviceFlags::FLUSH) the kernel only starts the work,
    /// and does not report what it cannot do.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | the driver does not accept this advice |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | no entries, a region without on-demand paging, unmapped memory (EFAULT) |
    /// | [`NotFound`](ErrorKind::NotFound) | no such region (ENOENT; before 5.7 EFAULT) |
    /// | [`PermissionDenied`](ErrorKind::PermissionDenied) | advice for writing on a read-only region; a region of another domain (EPERM) |
    /// | [`LimitExceeded`](ErrorKind::LimitExceeded) | too many entries |
    #[doc(alias = "ibv_advise_mr")]
    pub fn advise(&self, advice: MrAdvice, flags: MrAdviceFlags, sges: &[Sge]) -> Result<()> {
        let file = &self.context().inner.file;
        contract::advise_memory(file, self.object(), advice, flags, sges)
    }

    /// Kernels refuse on-demand paging with EINVAL if the driver does not know the flag (rxe before
    /// 6.15).
    fn explain(&self, error: Error, access: AccessFlags) -> Error {
        let odp = self.context().device_attr().odp.general;
        if error.kind() == ErrorKind::InvalidInput
            && access.contains(AccessFlags::ON_DEMAND)
            && !odp.contains(OdpGeneralCaps::SUPPORT)
        {
            return error
                .with_kind(ErrorKind::Unsupported)
                .hint("the device announces no on-demand paging");
        }
        error
    }

    /// `ibv_reg_dmabuf_mr`—registers a part of a dmabuf. One system call, since Linux 5.12.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) on kernels or devices without it (rxe has none);
    /// EINVAL for a range outside the dmabuf.
    #[doc(alias = "ibv_reg_dmabuf_mr")]
    pub fn register_dmabuf(
        &self,
        range: &DmabufRange<'_>,
        access: AccessFlags,
    ) -> Result<MemoryRegion> {
        let init = range.with(access);
        let mr = self
            .context()
            .inner
            .provider
            .register_dmabuf(&self.inner.pd, &init)?;
        Ok(MemoryRegion::over(
            self,
            mr,
            range.iova,
            range.length,
            access,
        ))
    }
}

/// Whether an on-demand region covers the whole address space.
fn is_everything(address: *mut u8, length: usize, access: AccessFlags) -> bool {
    length == usize::MAX && address.is_null() && access.contains(AccessFlags::ON_DEMAND)
}

/// Excludes a range from child processes where the kernel needs that; the whole address space
/// cannot be excluded.
///
/// # Safety
/// As [`ForkGuard::protect`](uverbs_core::discover::ForkGuard::protect).
#[expect(unsafe_code, reason = "gives pages back to children in the end")]
unsafe fn leave_out(
    pd: &ProtectionDomain,
    address: usize,
    length: usize,
    implicit: bool,
) -> Result<Option<Registration>> {
    let fork = pd.context().fork_guard()?;
    if fork.is_needed() && !implicit {
        // SAFETY: the caller's promise.
        unsafe { fork.protect(address, length) }.map(Some)
    } else {
        Ok(None)
    }
}

/// Checks that the address space can hold the range.
fn check_range(op: Op, address: usize, length: usize) -> Result<()> {
    if length == 0 {
        return Err(Error::invalid(op, "length").fact("length", 0_u32));
    }
    match address.checked_add(length) {
        Some(_) => Ok(()),
        None => Err(Error::invalid(op, "range")
            .fact("address", address)
            .fact("length", length)),
    }
}

impl MemoryRegion {
    pub(crate) fn register(
        pd: &ProtectionDomain,
        init: &MrInit,
        keep: impl std::any::Any + Send + Sync,
    ) -> Result<Self> {
        let mr = pd
            .context()
            .inner
            .provider
            .register(&pd.inner.pd, init, keep)?;
        Ok(Self::over(pd, mr, init.iova, init.length, init.access))
    }

    pub(crate) fn over(
        pd: &ProtectionDomain,
        mr: Mr,
        address: u64,
        length: u64,
        access: AccessFlags,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                mr,
                address,
                length,
                access,
                pd: pd.clone(),
            }),
        }
    }

    /// The key for scatter/gather entries of work requests.
    #[inline]
    pub fn lkey(&self) -> LocalKey {
        self.inner.mr.lkey
    }

    /// The key to give to peers. Anyone who has it may do to the region what its access flags
    /// allow.
    pub fn rkey(&self) -> RemoteKey {
        self.inner.mr.rkey
    }

    /// The address of its first byte in work requests.
    #[inline]
    pub fn address(&self) -> u64 {
        self.inner.address
    }

    /// Bytes.
    #[inline]
    pub fn length(&self) -> u64 {
        self.inner.length
    }

    /// What it may be used for.
    pub fn access(&self) -> AccessFlags {
        self.inner.access
    }

    /// The protection domain it belongs to.
    #[inline]
    pub fn pd(&self) -> &ProtectionDomain {
        &self.inner.pd
    }

    /// A scatter/gather entry for a part of the region; `None` if the part does not lie inside it.
    #[inline]
    pub fn sge(&self, offset: u64, length: u32) -> Option<Sge> {
        let end = offset.checked_add(length.into())?;
        (end <= self.inner.length).then(|| Sge {
            address: self.inner.address.wrapping_add(offset),
            length,
            key: self.inner.mr.lkey,
        })
    }

    /// `ibv_rereg_mr`—changes memory, domain or access of the region. One system call (and two more
    /// for each range of new memory before 5.12).
    ///
    /// The keys may change. rxe can change the domain and access since 6.4, but not the memory.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`Busy`](ErrorKind::Busy) | clones of the region exist |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | a domain of another context, a bad range, bad access |
    /// | [`Unsupported`](ErrorKind::Unsupported) | the device cannot change regions, or not this property |
    ///
    /// After an error from the kernel the region may be unusable; it can still be deregistered.
    ///
    /// # Safety
    /// As [`ProtectionDomain::register`] for the new memory and the new access; after an error, for
    /// both the old and the new. No posted work uses the region.
    #[doc(alias = "ibv_rereg_mr")]
    #[expect(
        unsafe_code,
        reason = "lets a device use memory that this library does not own"
    )]
    pub unsafe fn reregister(&mut self, change: &Reregister<'_>) -> Result<()> {
        let op = Op::ReregisterMemory;
        let inner = Arc::get_mut(&mut self.inner).ok_or_else(|| Error::new(op, ErrorKind::Busy))?;
        if let Some(pd) = change.pd
            && !pd.is_of(inner.pd.context())
        {
            return Err(Error::invalid(op, "pd").hint("the domain belongs to another context"));
        }
        let access = change.access.unwrap_or(inner.access);
        let mut memory = None;
        let mut keep = None;
        if let Some((address, length)) = change.memory {
            check_range(op, address.addr(), length)?;
            let implicit = is_everything(address, length, access);
            // SAFETY: the caller's third promise.
            keep = unsafe { leave_out(&inner.pd, address.addr(), length, implicit) }?;
            let start = address.expose_provenance() as u64;
            memory = Some((start, length as u64, start));
        }
        let provider = &inner.pd.context().inner.provider;
        provider.check_memory(op, change.access.unwrap_or_default(), memory.is_some())?;
        let changed = MrChange {
            memory,
            pd: change.pd.map(ProtectionDomain::object),
            access: change.access,
        };
        inner.mr.reregister(&changed, keep)?;
        if let Some((start, length, _)) = memory {
            inner.address = start;
            inner.length = length;
        }
        if let Some(pd) = change.pd {
            inner.pd = pd.clone();
        }
        inner.access = access;
        Ok(())
    }

    /// `ibv_dereg_mr`—deregisters the memory. One system call. Dropping the last clone does the
    /// same.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) while clones exist, or while a window is bound to it (EBUSY).
    #[doc(alias = "ibv_dereg_mr")]
    pub fn deregister(self) -> Result<()> {
        let inner = Arc::try_unwrap(self.inner).map_err(|shared| {
            Error::new(Op::DeregisterMemory, ErrorKind::Busy)
                .fact("clones", Arc::strong_count(&shared) - 1)
        })?;
        inner.mr.object.destroy().map(|_| ())
    }
}
