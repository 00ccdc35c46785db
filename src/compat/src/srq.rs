//! Shared receive queues.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use uverbs_any::AnySrq;
use uverbs_core::Object as KernelObject;
use uverbs_core::contract::{self, Srq as _, SrqInit};
use uverbs_core::types::{SrqAttr, SrqModify, SrqType};

use crate::abi::{ibv_pd, ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex};
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::cq::Cq;
use crate::dv::Xrcd;
use crate::env;
use crate::errno::Code;
use crate::events::Cookie;
use crate::lock::Locked;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Object, Out};
use crate::users::Users;
use crate::wait::{Condition, Mutex, acknowledge, until_acknowledged};

/// A shared receive queue.
#[repr(C)]
pub(crate) struct Srq {
    c: ibv_srq,
    pub(crate) queue: Locked<AnySrq>,
    /// Queue pairs that receive from it.
    pub(crate) users: Users,
    extended: Option<Extended>,
    cookie: Cookie,
}

impl Object for Srq {
    type C = ibv_srq;
}

/// What a queue of an XRC domain uses: the domain, and the queue of its completions.
#[derive(Clone, Copy)]
struct Extended {
    domain: Handle<Xrcd>,
    cq: Handle<Cq>,
}

impl Srq {
    fn create(
        pd: Handle<Pd>,
        srq_context: *mut c_void,
        attr: &mut ibv_srq_attr,
        extended: Option<Extended>,
    ) -> Answer<*mut ibv_srq> {
        let domain = pd.get()?;
        let mut room = Box::<Self>::new_uninit();
        let cookie = Cookie::of(Self::to_c(room.as_mut_ptr()));
        let init = SrqInit {
            kind: match extended {
                None => SrqType::Basic,
                Some(_) => SrqType::Xrc,
            },
            attr: SrqAttr {
                // Programs ask for a queue without requests, and get one with some.
                max_wr: attr.max_wr.max(1),
                max_sge: attr.max_sge,
                limit: attr.srq_limit,
            },
            user_handle: cookie.number(),
        };
        let queue = match extended {
            None => {
                let provider = domain.context()?.provider();
                provider.create_srq(&*domain.domain()?, &init)?
            }
            Some(Extended { domain: of, cq }) => {
                let of = of.get()?;
                cq.get()?
                    .with(|cq| of.create_srq(domain, contract::Cq::link(cq), &init))?
            }
        };
        domain.users.add();
        if let Some(extended) = extended {
            extended.domain.get()?.users.add();
            extended.cq.get()?.users.add();
        }
        let size = queue.size();
        (attr.max_wr, attr.max_sge) = (size.max_wr, size.max_sge);
        let c = ibv_srq {
            context: domain.context_pointer(),
            srq_context,
            pd: pd.raw(),
            handle: queue.object().handle(),
            mutex: Mutex::new(),
            cond: Condition::new(),
            events_completed: Cell::new(0),
        };
        let needed = !(domain.is_of_one_thread() || env::is_single_threaded());
        let srq = Self {
            c,
            queue: Locked::new(queue, needed),
            users: Users::new(),
            extended,
            cookie,
        };
        Ok(Self::to_c(Box::into_raw(Box::write(room, srq))))
    }

    /// The opened device it is on.
    pub(crate) fn context<'a>(&self) -> Answer<&'a Context> {
        Handle::of(self.c.context).get()
    }

    pub(crate) fn acknowledge(&self) {
        let c = &self.c;
        acknowledge(&c.mutex, &c.cond, &c.events_completed, 1);
    }

    fn end(&self) -> Answer<()> {
        self.users.none()?;
        let counts = self.queue.with(|queue| {
            let object = KernelObject::sole(queue.object_mut())?;
            object.try_destroy()
        })?;
        let c = &self.c;
        until_acknowledged(
            &c.mutex,
            &c.cond,
            &[(&c.events_completed, counts.asynchronous)],
        );
        debug_assert!(self.cookie.number() != 0);
        Handle::<Pd>::of(c.pd).get()?.users.remove();
        if let Some(extended) = self.extended {
            extended.domain.get()?.users.remove();
            extended.cq.get()?.users.remove();
        }
        self.free();
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_srq(pd: Handle<Pd>, attr: Out<ibv_srq_init_attr>) -> *mut ibv_srq {
    pointer(|| {
        let attr = attr.get()?;
        Srq::create(pd, attr.srq_context, &mut attr.attr, None)
    })
}

/// Bits of `comp_mask`.
const HAS_TYPE: u32 = 1;
const HAS_PD: u32 = 2;
const HAS_DOMAIN: u32 = 4;
const HAS_CQ: u32 = 8;
const KNOWN: u32 = 0x1f;

/// The slot, for plain queues and those of XRC domains; tag matching is refused.
pub(crate) extern "C" fn create_srq_ex(
    context: Handle<Context>,
    attr: Out<ibv_srq_init_attr_ex>,
) -> *mut ibv_srq {
    pointer(|| {
        context.get()?;
        let attr = attr.get()?;
        if attr.comp_mask & !KNOWN != 0 || attr.comp_mask & HAS_PD == 0 {
            return Err(Code::INVALID);
        }
        let kind = match attr.comp_mask & HAS_TYPE {
            0 => SrqType::Basic,
            _ => SrqType::from_raw(attr.srq_type),
        };
        let extended = match kind {
            SrqType::Basic => None,
            SrqType::Xrc if attr.comp_mask & HAS_DOMAIN != 0 && attr.comp_mask & HAS_CQ != 0 => {
                Some(Extended {
                    domain: Handle::of(attr.xrcd),
                    cq: Handle::of(attr.cq),
                })
            }
            SrqType::Xrc | SrqType::Unknown(_) => return Err(Code::INVALID),
            _ => return Err(Code::UNSUPPORTED),
        };
        let pd: *mut ibv_pd = attr.pd;
        Srq::create(Handle::of(pd), attr.srq_context, &mut attr.attr, extended)
    })
}

/// `IBV_SRQ_MAX_WR` and `IBV_SRQ_LIMIT`.
const SIZE: u32 = 1;
const LIMIT: u32 = 2;

#[unsafe(no_mangle)]
extern "C" fn ibv_modify_srq(srq: Handle<Srq>, attr: In<ibv_srq_attr>, mask: c_int) -> c_int {
    number(|| {
        let (own, attr, mask) = (srq.get()?, attr.get()?, mask.cast_unsigned());
        if mask & !(SIZE | LIMIT) != 0 {
            return Err(Code::INVALID);
        }
        let change = SrqModify {
            max_wr: (mask & SIZE != 0).then_some(attr.max_wr),
            limit: (mask & LIMIT != 0).then_some(attr.srq_limit),
        };
        own.queue.with(|queue| queue.modify(&change))?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_srq(srq: Handle<Srq>, attr: Out<ibv_srq_attr>) -> c_int {
    number(|| {
        let found = srq.get()?.queue.with(|queue| queue.query())?;
        attr.put(ibv_srq_attr {
            max_wr: found.max_wr,
            max_sge: found.max_sge,
            srq_limit: found.limit,
        })
    })
}

/// Refused (EBUSY) while queue pairs use it. Waits for the acknowledgement of its events.
#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_srq(srq: Handle<Srq>) -> c_int {
    number(|| srq.get()?.end())
}

/// The slot.
pub(crate) extern "C" fn get_srq_num(srq: Handle<Srq>, into: Out<u32>) -> c_int {
    number(|| into.put(srq.get()?.queue.with(|queue| queue.number())))
}
