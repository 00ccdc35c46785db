//! Extended reliable connections: `ibv_open_xrcd`, and what is created in such a domain.
//!
//! # Safety
//!
//! The program keeps the descriptor that identifies a domain open during the call.
#![allow(unsafe_code, reason = "borrows a descriptor of the program")]

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use uverbs_any::{AnyQp, AnySrq};
use uverbs_core::Object as KernelObject;
use uverbs_core::contract::{Link, SrqInit};
use uverbs_mlx5::{ProtectionDomain, SharedXrcDomain, XrcDomain};

use super::own;
use crate::abi::{ibv_context, ibv_xrcd, ibv_xrcd_init_attr};
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::errno::Code;
use crate::lock::Locked;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Object};
use crate::users::Users;

/// An XRC domain.
#[repr(C)]
pub(crate) struct Xrcd {
    c: ibv_xrcd,
    /// `None` once it was closed.
    domain: Locked<Option<XrcDomain>>,
    /// What was made in it.
    pub(crate) users: Users,
}

impl Object for Xrcd {
    type C = ibv_xrcd;
}

/// Bits of `comp_mask`, both of which are needed.
const HAS_FILE_AND_FLAGS: u32 = 3;

/// The slot.
pub(crate) extern "C" fn open_xrcd(
    context: Handle<Context>,
    attr: In<ibv_xrcd_init_attr>,
) -> *mut ibv_xrcd {
    pointer(|| {
        let opened = context.get()?;
        let attr = attr.get()?;
        if attr.comp_mask != HAS_FILE_AND_FLAGS {
            return Err(Code::INVALID);
        }
        let shared = (attr.fd >= 0).then(|| SharedXrcDomain {
            // SAFETY: not -1; the program keeps it open during the call.
            file: unsafe { BorrowedFd::borrow_raw(attr.fd) },
            create: attr.oflags & libc::O_CREAT != 0,
            exclusive: attr.oflags & libc::O_EXCL != 0,
        });
        let domain = XrcDomain::open(own(opened)?, shared.as_ref())?;
        opened.users.add();
        let xrcd = Xrcd {
            c: ibv_xrcd {
                context: context.raw(),
            },
            domain: Locked::new(Some(domain), true),
            users: Users::new(),
        };
        Ok(Xrcd::to_c(Box::into_raw(Box::new(xrcd))))
    })
}

/// The slot. Refused (EBUSY) while queues of the domain exist.
pub(crate) extern "C" fn close_xrcd(domain: Handle<Xrcd>) -> c_int {
    number(|| {
        let own = domain.get()?;
        own.users.none()?;
        own.domain.with(|domain| {
            let inner = domain.take().ok_or(Code::INVALID)?;
            let object = Arc::clone(inner.object());
            drop(inner);
            KernelObject::destroy_shared(object)?;
            Ok::<_, Code>(())
        })?;
        Handle::<Context>::of(own.c.context).get()?.leave();
        own.free();
        Ok(())
    })
}

impl Xrcd {
    /// The opened device it is on.
    pub(crate) fn context<'a>(&self) -> Answer<&'a Context> {
        Handle::of(self.c.context).get()
    }

    /// The pointer to that.
    pub(crate) fn context_pointer(&self) -> *mut ibv_context {
        self.c.context
    }

    fn with<R>(&self, body: impl FnOnce(&XrcDomain) -> Answer<R>) -> Answer<R> {
        self.domain
            .with(|domain| body(domain.as_ref().ok_or(Code::INVALID)?))
    }

    /// A shared receive queue of the domain, whose receives complete in `cq`.
    pub(crate) fn create_srq(&self, pd: &Pd, cq: Link<'_>, init: &SrqInit) -> Answer<AnySrq> {
        let context = own(self.context()?)?;
        let inner = pd.domain()?;
        let inner: &ProtectionDomain = inner.of().ok_or(Code::INVALID)?;
        self.with(|domain| Ok(domain.create_srq(context, inner, cq, init)?.into()))
    }

    /// The receiving end of a connection.
    pub(crate) fn create_target(&self, user_handle: u64) -> Answer<AnyQp> {
        let context = own(self.context()?)?;
        self.with(|domain| Ok(domain.create_target(context, user_handle)?.into()))
    }

    /// The receiving end with a number, which another process may have created.
    pub(crate) fn open_target(&self, qp_num: u32, user_handle: u64) -> Answer<AnyQp> {
        let context = own(self.context()?)?;
        self.with(|domain| Ok(domain.open_target(context, qp_num, user_handle)?.into()))
    }
}
