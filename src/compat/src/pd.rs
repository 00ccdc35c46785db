//! Protection domains, thread domains and parent domains.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use uverbs_any::AnyPd;
use uverbs_core::Object as KernelObject;
use uverbs_core::hw::QueueMemory;

use crate::abi::{ibv_context, ibv_parent_domain_init_attr, ibv_pd, ibv_td, ibv_td_init_attr};
use crate::allocator::Allocator;
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::dv;
use crate::errno::Code;
use crate::lock::Locked;
use crate::pointer::{Handle, In, Object};
use crate::users::Users;

/// A protection domain, or a parent domain of one.
#[repr(C)]
pub(crate) struct Pd {
    c: ibv_pd,
    kind: Kind,
    /// What was made in it.
    pub(crate) users: Users,
}

enum Kind {
    /// The domain; `None` once it was freed.
    Plain(Locked<Option<Arc<AnyPd>>>),
    /// A domain that somebody else frees.
    Imported(Arc<AnyPd>),
    Parent {
        of: Handle<Pd>,
        thread: Option<Handle<Td>>,
        /// With the functions that allocate memory for its queues, if the program has some.
        own: Option<Own>,
    },
}

struct Own {
    domain: Arc<AnyPd>,
    memory: Arc<Allocator>,
}

impl Object for Pd {
    type C = ibv_pd;
}

impl Pd {
    fn give(context: *mut ibv_context, handle: u32, kind: Kind) -> *mut ibv_pd {
        let pd = Self {
            c: ibv_pd { context, handle },
            kind,
            users: Users::new(),
        };
        Self::to_c(Box::into_raw(Box::new(pd)))
    }

    /// The opened device it is on.
    pub(crate) fn context<'a>(&self) -> Answer<&'a Context> {
        Handle::of(self.c.context).get()
    }

    /// The pointer to that.
    pub(crate) fn context_pointer(&self) -> *mut ibv_context {
        self.c.context
    }

    /// The domain that the provider knows.
    pub(crate) fn domain(&self) -> Answer<Arc<AnyPd>> {
        match &self.kind {
            Kind::Plain(domain) => {
                let domain = domain.with(|domain| domain.clone()).ok_or(Code::INVALID)?;
                self.with_memory(self.here(domain)?)
            }
            Kind::Imported(domain) => self.with_memory(self.here(Arc::clone(domain))?),
            Kind::Parent { own: Some(own), .. } => Ok(Arc::clone(&own.domain)),
            Kind::Parent { of, .. } => of.get()?.domain(),
        }
    }

    /// The same domain for this process, which may be a child of the one that allocated it.
    fn here(&self, domain: Arc<AnyPd>) -> Answer<Arc<AnyPd>> {
        if domain.object().file().fork_token().is_current() {
            return Ok(domain);
        }
        let imported = dv::import_pd(self.context()?, self.c.handle)?;
        Ok(Arc::new(imported))
    }

    /// The same domain, with the functions that the program gave for the whole device.
    fn with_memory(&self, domain: Arc<AnyPd>) -> Answer<Arc<AnyPd>> {
        match self.context()?.memory() {
            None => Ok(domain),
            Some(memory) => Ok(Arc::new(dv::with_memory(&domain, memory)?)),
        }
    }

    /// What allocates memory for its queues.
    pub(crate) fn memory(&self) -> Option<Arc<dyn QueueMemory>> {
        match &self.kind {
            Kind::Parent { own: Some(own), .. } => Some(Arc::clone(&own.memory) as _),
            _ => None,
        }
    }

    /// Whether one thread at a time uses what is made in it, as the program promised with a thread
    /// domain.
    pub(crate) fn is_of_one_thread(&self) -> bool {
        matches!(
            self.kind,
            Kind::Parent {
                thread: Some(_),
                ..
            }
        )
    }

    fn end(&self) -> Answer<()> {
        self.users.none()?;
        match &self.kind {
            Kind::Plain(domain) => {
                let context = self.context()?;
                domain.with(|domain| {
                    let freed = domain.take().ok_or(Code::INVALID)?;
                    let sole = Arc::try_unwrap(freed).map_err(|shared| {
                        *domain = Some(shared);
                        Code::BUSY
                    })?;
                    // More than the domain's own two: another thread has made something and not
                    // counted it yet.
                    if Arc::strong_count(sole.object()) > 2 {
                        *domain = Some(Arc::new(sole));
                        return Err(Code::BUSY);
                    }
                    KernelObject::destroy_shared(sole.into_object())?;
                    Ok::<_, Code>(())
                })?;
                context.leave();
            }
            Kind::Imported(_) => return Err(Code::INVALID),
            Kind::Parent { of, thread, .. } => {
                of.get()?.users.remove();
                if let Some(thread) = thread {
                    thread.get()?.users.remove();
                }
            }
        }
        self.free();
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_alloc_pd(context: Handle<Context>) -> *mut ibv_pd {
    pointer(|| {
        let opened = context.get()?;
        let domain = opened.provider().alloc_pd()?;
        opened.users.add();
        let handle = domain.object().handle();
        let kind = Kind::Plain(Locked::new(Some(Arc::new(domain)), true));
        Ok(Pd::give(context.raw(), handle, kind))
    })
}

/// Refused (EBUSY) while something made in it exists.
#[unsafe(no_mangle)]
extern "C" fn ibv_dealloc_pd(pd: Handle<Pd>) -> c_int {
    number(|| pd.get()?.end())
}

/// A thread domain: a promise.
#[repr(C)]
pub(crate) struct Td {
    c: ibv_td,
    users: Users,
}

impl Object for Td {
    type C = ibv_td;
}

/// The slot.
pub(crate) extern "C" fn alloc_td(
    context: Handle<Context>,
    attr: In<ibv_td_init_attr>,
) -> *mut ibv_td {
    pointer(|| {
        let opened = context.get()?;
        if attr.get()?.comp_mask != 0 {
            return Err(Code::UNSUPPORTED);
        }
        opened.users.add();
        let td = Td {
            c: ibv_td {
                context: context.raw(),
            },
            users: Users::new(),
        };
        Ok(Td::to_c(Box::into_raw(Box::new(td))))
    })
}

/// The slot.
pub(crate) extern "C" fn dealloc_td(td: Handle<Td>) -> c_int {
    number(|| {
        let td = td.get()?;
        td.users.none()?;
        Handle::<Context>::of(td.c.context).get()?.leave();
        td.free();
        Ok(())
    })
}

/// `IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS` and `…_PD_CONTEXT`.
const ALLOCATORS: u32 = 1;
const PD_CONTEXT: u32 = 2;

/// The slot. On devices whose queues the kernel allocates, a domain with functions for that is
/// refused.
pub(crate) extern "C" fn alloc_parent_domain(
    context: Handle<Context>,
    attr: In<ibv_parent_domain_init_attr>,
) -> *mut ibv_pd {
    pointer(|| {
        let attr = attr.get()?;
        if attr.comp_mask & !(ALLOCATORS | PD_CONTEXT) != 0 {
            return Err(Code::INVALID);
        }
        let of = Handle::<Pd>::of(attr.pd);
        let parent = of.get()?;
        if parent.c.context != context.raw() || matches!(parent.kind, Kind::Parent { .. }) {
            return Err(Code::INVALID);
        }
        let own = match attr.comp_mask & ALLOCATORS {
            0 => None,
            _ => Some(Own::of(parent, attr)?),
        };
        let memory = own.as_ref().map(|own| Arc::clone(&own.memory));
        let thread = Handle::<Td>::of(attr.td);
        if let Some(td) = thread.optional() {
            td.users.add();
        }
        parent.users.add();
        let thread = thread.optional().map(|_| thread);
        let kind = Kind::Parent { of, thread, own };
        let made = Pd::give(context.raw(), parent.c.handle, kind);
        if let Some(memory) = memory {
            memory.domain.store(made, Ordering::Release);
        }
        Ok(made)
    })
}

impl Own {
    fn of(parent: &Pd, attr: &ibv_parent_domain_init_attr) -> Answer<Self> {
        let (Some(alloc), Some(free)) = (attr.alloc, attr.free) else {
            return Err(Code::INVALID);
        };
        let context = match attr.comp_mask & PD_CONTEXT {
            0 => std::ptr::null_mut(),
            _ => attr.pd_context,
        };
        let memory = Arc::new(Allocator::new(alloc, free, context));
        let domain = dv::with_memory(&*parent.domain()?, Arc::clone(&memory) as _)?;
        Ok(Self {
            domain: Arc::new(domain),
            memory,
        })
    }
}

/// The domain is used, and not freed.
#[unsafe(no_mangle)]
extern "C" fn ibv_import_pd(context: Handle<Context>, handle: u32) -> *mut ibv_pd {
    pointer(|| {
        let opened = context.get()?;
        let domain = dv::import_pd(opened, handle)?;
        opened.users.add();
        let kind = Kind::Imported(Arc::new(domain));
        Ok(Pd::give(context.raw(), handle, kind))
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_unimport_pd(pd: Handle<Pd>) {
    number(|| {
        let own = pd.get()?;
        let Kind::Imported(_) = own.kind else {
            return Err(Code::INVALID);
        };
        own.users.none()?;
        own.context()?.leave();
        own.free();
        Ok(())
    });
}
