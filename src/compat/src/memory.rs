//! Memory regions.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. The program that registers memory is
//! responsible for it, as the C interface says: it stays allocated until it was deregistered.
#![allow(unsafe_code, reason = "exports names")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use uverbs_any::AnyPd;
use uverbs_core::Op;
use uverbs_core::contract::{self, DmabufInit, Mr as Region, MrChange, MrInit};
use uverbs_core::types::{AccessFlags, LocalKey, MrAdvice, MrAdviceFlags, ReregFlags, Sge};

use crate::abi::{ibv_dm, ibv_mr, ibv_pd, ibv_sge};
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::dv::{self, Dm};
use crate::errno::Code;
use crate::fork;
use crate::lock::Locked;
use crate::pd::Pd;
use crate::pointer::{Handle, Object, items};
use crate::users::Users;

/// A memory region.
#[repr(C)]
pub(crate) struct Mr {
    c: ibv_mr,
    /// `None` for the null region, of which the kernel knows nothing, and for imported ones.
    region: Locked<Option<Region>>,
    /// The memory of the device that it is in.
    of: Option<Handle<Dm>>,
    /// Windows that are bound to it, as far as this library knows.
    users: Users,
}

impl Object for Mr {
    type C = ibv_mr;
}

impl Mr {
    fn described(
        domain: &Pd,
        pd: Handle<Pd>,
        address: *mut c_void,
        length: usize,
        region: &Region,
    ) -> ibv_mr {
        ibv_mr {
            context: domain.context_pointer(),
            pd: Cell::new(pd.raw()),
            addr: Cell::new(address),
            length: Cell::new(length),
            handle: region.object.handle(),
            lkey: Cell::new(region.lkey.raw()),
            rkey: Cell::new(region.rkey.raw()),
        }
    }

    /// A region of this library's.
    pub(crate) fn give(
        pd: Handle<Pd>,
        address: *mut c_void,
        length: usize,
        region: Region,
    ) -> Answer<*mut ibv_mr> {
        let domain = pd.get()?;
        domain.users.add();
        let mr = Self {
            c: Self::described(domain, pd, address, length, &region),
            region: Locked::new(Some(region), true),
            of: None,
            users: Users::new(),
        };
        Ok(Self::to_c(Box::into_raw(Box::new(mr))))
    }

    /// A region of memory of the device.
    pub(crate) fn of_device(
        pd: Handle<Pd>,
        memory: Handle<Dm>,
        length: usize,
        region: Region,
    ) -> Answer<*mut ibv_mr> {
        let domain = pd.get()?;
        domain.users.add();
        memory.get()?.users.add();
        let mr = Self {
            c: Self::described(domain, pd, std::ptr::null_mut(), length, &region),
            region: Locked::new(Some(region), true),
            of: Some(memory),
            users: Users::new(),
        };
        Ok(Self::to_c(Box::into_raw(Box::new(mr))))
    }

    /// A region that this library does not end: the null region, or an imported one.
    pub(crate) fn null(pd: Handle<Pd>, c: ibv_mr) -> Answer<*mut ibv_mr> {
        pd.get()?.users.add();
        let mr = Self {
            c,
            region: Locked::new(None, true),
            of: None,
            users: Users::new(),
        };
        Ok(Self::to_c(Box::into_raw(Box::new(mr))))
    }

    /// Its key for local requests.
    pub(crate) fn lkey(&self) -> LocalKey {
        LocalKey::from_raw(self.c.lkey.get())
    }

    /// The domain it is in.
    pub(crate) fn pd(&self) -> *mut ibv_pd {
        self.c.pd.get()
    }
}

/// The access rights of a C program, refused unless all bits have a meaning or are optional.
pub(crate) fn access(bits: c_int) -> Answer<AccessFlags> {
    let flags = AccessFlags::from_bits_retain(bits.cast_unsigned());
    flags.checked(Op::RegisterMemory, "access")?;
    Ok(flags)
}

/// Registers memory of this process.
fn register(
    pd: Handle<Pd>,
    address: *mut c_void,
    length: usize,
    iova: u64,
    bits: c_int,
) -> *mut ibv_mr {
    pointer(|| {
        let domain = pd.get()?;
        let flags = access(bits)?;
        let everything =
            length == usize::MAX && address.is_null() && flags.contains(AccessFlags::ON_DEMAND);
        if !everything && address.addr().checked_add(length).is_none() {
            return Err(Code::INVALID);
        }
        let keep = if everything {
            None
        } else {
            fork::protect(address.addr(), length)?
        };
        let init = MrInit {
            address: address.expose_provenance() as u64,
            length: length as u64,
            iova,
            access: flags,
        };
        let context = domain.context()?;
        let region = context
            .provider()
            .register(&*domain.domain()?, &init, keep)?;
        Mr::give(pd, address, length, region)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr(
    pd: Handle<Pd>,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    register(pd, address, length, address.addr() as u64, access)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr_iova(
    pd: Handle<Pd>,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    register(pd, address, length, iova, access)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr_iova2(
    pd: Handle<Pd>,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: u32,
) -> *mut ibv_mr {
    register(pd, address, length, iova, access.cast_signed())
}

/// Registers a part of a dma-buf: its offset, length and address, as `register` does it.
pub(crate) fn register_dmabuf(
    pd: Handle<Pd>,
    (offset, length, iova): (u64, usize, u64),
    fd: c_int,
    bits: c_int,
    register: impl FnOnce(&AnyPd, &DmabufInit<'_>) -> Answer<Region>,
) -> Answer<*mut ibv_mr> {
    if fd < 0 {
        return Err(Code::new(libc::EBADF));
    }
    let domain = pd.get()?;
    let init = DmabufInit {
        // SAFETY: not -1; the program keeps it open during the call.
        fd: unsafe { BorrowedFd::borrow_raw(fd) },
        offset,
        length: length as u64,
        iova,
        access: access(bits)?,
    };
    let region = register(&*domain.domain()?, &init)?;
    Mr::give(pd, std::ptr::null_mut(), length, region)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_dmabuf_mr(
    pd: Handle<Pd>,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    bits: c_int,
) -> *mut ibv_mr {
    pointer(|| {
        let context = pd.get()?.context()?;
        register_dmabuf(pd, (offset, length, iova), fd, bits, |domain, init| {
            Ok(context.provider().register_dmabuf(domain, init)?)
        })
    })
}

/// Kinds of failure that `ibv_rereg_mr` has numbers of its own for.
#[derive(Clone, Copy)]
enum Failure {
    /// `IBV_REREG_MR_ERR_INPUT`: nothing was changed.
    Input = -1,
    /// `IBV_REREG_MR_ERR_CMD`: the region cannot be used any more.
    Command = -4,
}

#[unsafe(no_mangle)]
extern "C" fn ibv_rereg_mr(
    mr: Handle<Mr>,
    flags: c_int,
    pd: Handle<Pd>,
    address: *mut c_void,
    length: usize,
    bits: c_int,
) -> c_int {
    let flags = ReregFlags::from_bits_retain(flags.cast_unsigned());
    let mut how = Failure::Input;
    let failed = number(|| {
        let region = mr.get()?;
        let moves = flags.contains(ReregFlags::CHANGE_TRANSLATION);
        if flags.is_empty() || !ReregFlags::all().contains(flags) {
            return Err(Code::INVALID);
        }
        if moves && (address.is_null() || length == 0) {
            return Err(Code::INVALID);
        }
        let own = Handle::<Pd>::of(region.pd()).get()?;
        let context = own.context()?;
        let rights = flags.contains(ReregFlags::CHANGE_ACCESS);
        let rights = rights.then(|| access(bits)).transpose()?;
        let other = flags.contains(ReregFlags::CHANGE_PD);
        let other = other.then(|| pd.get()).transpose()?;
        let domain: Option<Arc<AnyPd>> = other.map(Pd::domain).transpose()?;
        let op = Op::ReregisterMemory;
        context
            .provider()
            .check_memory(op, rights.unwrap_or_default(), moves)?;
        let keep = if moves {
            fork::protect(address.addr(), length)?
        } else {
            None
        };
        let start = address.expose_provenance() as u64;
        let change = MrChange {
            memory: moves.then_some((start, length as u64, start)),
            pd: domain.as_deref().map(AnyPd::object),
            access: rights,
        };
        how = Failure::Command;
        region.region.with(|inner| {
            let inner = inner.as_mut().ok_or(Code::INVALID)?;
            inner.reregister(&change, keep)?;
            region.c.lkey.set(inner.lkey.raw());
            region.c.rkey.set(inner.rkey.raw());
            Ok::<_, Code>(())
        })?;
        if moves {
            region.c.addr.set(address);
            region.c.length.set(length);
        }
        if let Some(other) = other {
            other.users.add();
            own.users.remove();
            region.c.pd.set(pd.raw());
        }
        Ok(())
    });
    if failed == 0 { 0 } else { how as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dereg_mr(mr: Handle<Mr>) -> c_int {
    number(|| {
        let region = mr.get()?;
        region.users.none()?;
        region.region.with(|inner| match inner {
            Some(inner) => inner.object.try_destroy().map(drop),
            None => Ok(()),
        })?;
        if let Some(memory) = region.of.and_then(Handle::optional) {
            memory.users.remove();
        }
        Handle::<Pd>::of(region.pd()).get()?.users.remove();
        region.free();
        Ok(())
    })
}

/// The slot.
pub(crate) extern "C" fn advise_mr(
    pd: Handle<Pd>,
    advice: u32,
    flags: u32,
    first: *const ibv_sge,
    count: u32,
) -> c_int {
    number(|| {
        let domain = pd.get()?;
        let ranges: Vec<Sge> = items(first, count as usize)?
            .iter()
            .map(|range| Sge {
                address: range.addr,
                length: range.length,
                key: LocalKey::from_raw(range.lkey),
            })
            .collect();
        let context: &Context = domain.context()?;
        contract::advise_memory(
            context.file(),
            domain.domain()?.object(),
            MrAdvice::from_raw(advice),
            MrAdviceFlags::from_bits_retain(flags),
            &ranges,
        )?;
        Ok(())
    })
}

/// A region that somebody else deregisters; where it is in this process, if anywhere, is not known.
#[unsafe(no_mangle)]
extern "C" fn ibv_import_mr(pd: Handle<Pd>, handle: u32) -> *mut ibv_mr {
    pointer(|| {
        let domain = pd.get()?;
        let info = contract::query_region(domain.context()?.file(), handle)?;
        let length = usize::try_from(info.length).map_err(|_| Code::INVALID)?;
        Mr::null(
            pd,
            ibv_mr {
                context: domain.context_pointer(),
                pd: Cell::new(pd.raw()),
                addr: Cell::new(std::ptr::null_mut()),
                length: Cell::new(length),
                handle,
                lkey: Cell::new(info.lkey.raw()),
                rkey: Cell::new(info.rkey.raw()),
            },
        )
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_unimport_mr(mr: Handle<Mr>) {
    number(|| {
        let region = mr.get()?;
        if region.region.with(|inner| inner.is_some()) {
            return Err(Code::INVALID);
        }
        region.users.none()?;
        Handle::<Pd>::of(region.pd()).get()?.users.remove();
        region.free();
        Ok(())
    });
}

/// The memory is used, and not freed.
#[unsafe(no_mangle)]
extern "C" fn ibv_import_dm(context: Handle<Context>, handle: u32) -> *mut ibv_dm {
    pointer(|| dv::import_dm(context, handle))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_unimport_dm(dm: Handle<Dm>) {
    number(|| dv::unimport_dm(dm));
}
