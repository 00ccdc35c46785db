//! Queue pairs.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use uverbs_any::AnyQp;
use uverbs_core::contract::{self, Cq as _, Extra, Qp as _, QpInit};
use uverbs_core::types::{Ece, Gid, QpCaps, QpCreateFlags, QpType, SigMode};

use crate::abi::{
    ibv_context, ibv_cq, ibv_ece, ibv_gid, ibv_pd, ibv_qp, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr,
    ibv_qp_open_attr, ibv_srq,
};
use crate::answer::{Answer, number, pointer};
use crate::batch::Batch;
use crate::builder;
use crate::context::Context;
use crate::cq::Cq;
use crate::dv::{self, IndirectionTable, To, Xrcd};
use crate::env;
use crate::errno::{Code, set};
use crate::events::Cookie;
use crate::lock::Locked;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Object, Out};
use crate::srq::Srq;
use crate::users::Users;
use crate::wait::{Condition, Mutex, acknowledge, until_acknowledged};

/// A queue pair, always with room for what an extended one has.
///
/// Its rings have one lock, held while a request is written. Whoever sends holds the lock of the
/// requests that are composed as well, from `ibv_wr_start` to `ibv_wr_complete`; a thread that
/// posts receives does not need it.
#[repr(C)]
pub(crate) struct Qp {
    pub(crate) c: ibv_qp_ex,
    pub(crate) queue: Locked<AnyQp>,
    pub(crate) batch: Locked<Batch>,
    /// The functions of the vendor's header.
    pub(crate) vendor: dv::QpFunctions,
    /// Whether it was created with the functions of `ibv_qp_ex`.
    pub(crate) is_extended: bool,
    all_signaled: bool,
    /// The XRC domain of the receiving end of a connection.
    domain: Option<Handle<Xrcd>>,
    /// The table of work queues over which it spreads what it receives.
    table: Option<Handle<IndirectionTable>>,
    cookie: Cookie,
}

impl Object for Qp {
    type C = ibv_qp;
}

/// What a queue pair is created with.
pub(crate) struct Wanted<'a> {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut ibv_cq,
    pub(crate) recv_cq: *mut ibv_cq,
    pub(crate) srq: *mut ibv_srq,
    pub(crate) cap: ibv_qp_cap,
    pub(crate) kind: u32,
    pub(crate) all_signaled: bool,
    pub(crate) flags: u32,
    pub(crate) operations: Option<u64>,
    pub(crate) vendor: Vendor<'a>,
}

impl Wanted<'_> {
    /// One whose messages others receive.
    fn without_queues(qp_context: *mut c_void, kind: QpType) -> Self {
        Self {
            qp_context,
            send_cq: null_mut(),
            recv_cq: null_mut(),
            srq: null_mut(),
            cap: ibv_qp_cap::default(),
            kind: kind.raw(),
            all_signaled: true,
            flags: 0,
            operations: None,
            vendor: Vendor::none(),
        }
    }
}

/// What a vendor's header adds to the attributes.
#[derive(Clone, Copy)]
pub(crate) struct Vendor<'a> {
    pub(crate) extra: Option<&'a dyn Extra>,
    pub(crate) functions: dv::QpFunctions,
}

impl Vendor<'_> {
    /// Nothing.
    pub(crate) fn none() -> Self {
        Self {
            extra: None,
            functions: dv::slots(),
        }
    }
}

/// A queue pair of the provider, and the place where C will know it.
struct Made {
    queue: AnyQp,
    room: Box<MaybeUninit<Qp>>,
    cookie: Cookie,
}

/// What a queue pair belongs to.
struct Owner {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    domain: Option<Handle<Xrcd>>,
    table: Option<Handle<IndirectionTable>>,
    is_of_one_thread: bool,
}

impl Made {
    /// Has `create` make it, with the number that its events will carry.
    fn by(create: impl FnOnce(u64) -> Answer<AnyQp>) -> Answer<Self> {
        let mut room = Box::new_uninit();
        let cookie = Cookie::of(Qp::to_c(room.as_mut_ptr()));
        let queue = create(cookie.number())?;
        Ok(Self {
            queue,
            room,
            cookie,
        })
    }
}

impl Qp {
    pub(crate) fn create(pd: Handle<Pd>, wanted: &Wanted<'_>) -> Answer<(*mut ibv_qp, QpCaps)> {
        let domain = pd.get()?;
        let kind = QpType::from_raw(wanted.kind);
        let (send, recv) = match [wanted.send_cq, wanted.recv_cq].map(Handle::<Cq>::of) {
            // These do only one of both.
            [send, _] if kind == QpType::XrcInitiator => (send, send),
            [send, recv] if kind == QpType::Driver && send.raw().is_null() => (recv, recv),
            [send, recv] if kind == QpType::Driver && recv.raw().is_null() => (send, send),
            [send, recv] => (send, recv),
        };
        let (send_cq, recv_cq) = (send.get()?, recv.get()?);
        let srq = Handle::<Srq>::of(wanted.srq).optional();
        let provider = domain.context()?.provider();
        let inner = domain.domain()?;
        let create = |user_handle, srq: Option<contract::Link<'_>>| {
            send_cq.queue.with_both(&recv_cq.queue, |send, recv| {
                let (send, recv) = (send.as_ref(), recv.as_ref());
                let init = QpInit {
                    kind,
                    send_cq: contract::Cq::link(send.ok_or(Code::INVALID)?),
                    recv_cq: contract::Cq::link(recv.ok_or(Code::INVALID)?),
                    srq,
                    caps: caps(&wanted.cap),
                    signal: if wanted.all_signaled {
                        SigMode::All
                    } else {
                        SigMode::Requested
                    },
                    flags: QpCreateFlags::from_bits_retain(wanted.flags),
                    user_handle,
                    extra: wanted.vendor.extra,
                };
                Ok::<_, Code>(provider.create_qp(&inner, &init)?)
            })
        };
        let made = Made::by(|number| match srq {
            Some(srq) => srq
                .queue
                .with(|queue| create(number, Some(contract::Srq::link(queue)))),
            None => create(number, None),
        })?;
        let owner = Owner {
            context: domain.context_pointer(),
            pd: pd.raw(),
            domain: None,
            table: None,
            is_of_one_thread: domain.is_of_one_thread(),
        };
        Ok(Self::give(made, &owner, wanted))
    }

    /// The receiving end of a connection of an XRC domain.
    pub(crate) fn target(
        domain: Handle<Xrcd>,
        qp_context: *mut c_void,
        create: impl FnOnce(&Xrcd, u64) -> Answer<AnyQp>,
    ) -> Answer<*mut ibv_qp> {
        let own = domain.get()?;
        let made = Made::by(|number| create(own, number))?;
        let owner = Owner {
            context: own.context_pointer(),
            pd: null_mut(),
            domain: Some(domain),
            table: None,
            is_of_one_thread: false,
        };
        let wanted = Wanted::without_queues(qp_context, QpType::XrcTarget);
        Ok(Self::give(made, &owner, &wanted).0)
    }

    /// One that spreads what it receives over a table of work queues.
    pub(crate) fn spreading(
        pd: Handle<Pd>,
        table: Handle<IndirectionTable>,
        qp_context: *mut c_void,
        create: impl FnOnce(&IndirectionTable, u64) -> Answer<AnyQp>,
    ) -> Answer<*mut ibv_qp> {
        let (domain, over) = (pd.get()?, table.get()?);
        let made = Made::by(|number| create(over, number))?;
        let owner = Owner {
            context: domain.context_pointer(),
            pd: pd.raw(),
            domain: None,
            table: Some(table),
            is_of_one_thread: false,
        };
        let wanted = Wanted::without_queues(qp_context, QpType::RawPacket);
        Ok(Self::give(made, &owner, &wanted).0)
    }

    /// Makes it known to C.
    fn give(made: Made, owner: &Owner, wanted: &Wanted<'_>) -> (*mut ibv_qp, QpCaps) {
        let base = made.queue.base();
        let granted = base.caps;
        let plain = ibv_qp {
            context: owner.context,
            qp_context: wanted.qp_context,
            pd: owner.pd,
            send_cq: wanted.send_cq,
            recv_cq: wanted.recv_cq,
            srq: wanted.srq,
            handle: base.object.handle(),
            qp_num: Cell::new(base.number),
            state: Cell::new(base.state.raw().into()),
            qp_type: wanted.kind,
            mutex: Mutex::new(),
            cond: Condition::new(),
            events_completed: Cell::new(0),
        };
        let needed = !(owner.is_of_one_thread || env::is_single_threaded());
        let qp = Self {
            c: builder::slots(plain, needed),
            queue: Locked::new(made.queue, needed),
            batch: Locked::new(Batch::default(), needed),
            vendor: wanted.vendor.functions,
            is_extended: wanted.operations.is_some(),
            all_signaled: wanted.all_signaled,
            domain: owner.domain,
            table: owner.table,
            cookie: made.cookie,
        };
        qp.each_used(Users::add);
        (
            Self::to_c(Box::into_raw(Box::write(made.room, qp))),
            granted,
        )
    }

    /// Calls `body` with the counts of the objects that it uses.
    fn each_used(&self, body: impl Fn(&Users)) {
        let c = &self.c.qp_base;
        let cqs = [c.send_cq, c.recv_cq].map(|cq| Handle::<Cq>::of(cq).optional());
        let cqs = cqs.into_iter().flatten().map(|cq| &cq.users);
        let pd = Handle::<Pd>::of(c.pd).optional().map(|pd| &pd.users);
        let srq = Handle::<Srq>::of(c.srq).optional().map(|srq| &srq.users);
        let domain = self.domain.and_then(Handle::optional);
        let domain = domain.map(|domain| &domain.users);
        let table = self.table.and_then(Handle::optional);
        let table = table.map(|table| &table.users);
        let others = pd.into_iter().chain(srq).chain(domain).chain(table);
        cqs.chain(others).for_each(body);
    }

    /// Takes completions from before a reset out of its queues.
    pub(crate) fn forget_completions(&self) -> Answer<()> {
        let c = &self.c.qp_base;
        let number = c.qp_num.get();
        for cq in [c.send_cq, c.recv_cq] {
            if let Some(cq) = Handle::<Cq>::of(cq).optional() {
                cq.with(|queue| {
                    queue.forget(number);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Changes the requests that are being composed; for the thread that does so.
    pub(crate) fn compose(&self, change: impl FnOnce(&mut Batch)) {
        self.batch.inside(change);
    }

    /// Whether it is a connection whose requests need no destination.
    #[inline]
    pub(crate) fn is_connection(&self) -> bool {
        let kind = self.c.qp_base.qp_type;
        kind == QpType::Rc.raw() || kind == QpType::Uc.raw()
    }

    /// Runs `body` with the queue while no other thread sends. A thread that posts receives waits
    /// for `body` at most, not for one that composes requests.
    #[inline]
    pub(crate) fn sending<R>(&self, body: impl FnOnce(&mut AnyQp) -> R) -> R {
        self.batch.with(|_| self.queue.with(body))
    }

    /// The same, if no other thread sends or has the queue, and if `body` comes to something;
    /// `otherwise` if not.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) fn sending_quickly<R>(
        &self,
        body: impl FnOnce(&mut AnyQp) -> Option<R>,
        otherwise: impl FnOnce() -> R,
    ) -> R {
        self.batch.quickly(
            |_| self.queue.quickly(|queue| body(queue).map(Some), || None),
            otherwise,
        )
    }

    /// Where its requests go unless they say otherwise.
    pub(crate) fn route(&self) -> To<'static> {
        if self.c.qp_base.qp_type == QpType::RawPacket.raw() {
            To::Frame
        } else {
            To::Usual
        }
    }

    /// The pointer to the opened device it is on.
    pub(crate) fn context_handle(&self) -> Handle<Context> {
        Handle::of(self.c.qp_base.context)
    }

    /// The opened device it is on.
    pub(crate) fn context<'a>(&self) -> Answer<&'a Context> {
        self.context_handle().get()
    }

    pub(crate) fn acknowledge(&self) {
        let c = &self.c.qp_base;
        acknowledge(&c.mutex, &c.cond, &c.events_completed, 1);
    }

    /// Records the state for the program, and the number, which some have only once they are ready.
    pub(crate) fn set_state(&self, queue: &AnyQp) {
        self.c.qp_base.state.set(queue.base().state.raw().into());
        self.c.qp_base.qp_num.set(queue.base().number);
    }

    /// What it was created with, for a query.
    pub(crate) fn created(&self, granted: &QpCaps) -> ibv_qp_init_attr {
        let c = &self.c.qp_base;
        ibv_qp_init_attr {
            qp_context: c.qp_context,
            send_cq: c.send_cq,
            recv_cq: c.recv_cq,
            srq: c.srq,
            cap: caps_to_c(granted),
            qp_type: c.qp_type,
            sq_sig_all: self.all_signaled.into(),
        }
    }

    fn end(&self) -> Answer<()> {
        let counts = self
            .queue
            .with(|queue| queue.object_mut().try_destroy().map_err(Code::from));
        let counts = match counts {
            Err(code) if code.number() == libc::EIO && env::are_removed_objects_destroyed() => {
                uverbs_core::EventCounts::default()
            }
            counts => counts?,
        };
        let c = &self.c.qp_base;
        until_acknowledged(
            &c.mutex,
            &c.cond,
            &[(&c.events_completed, counts.asynchronous)],
        );
        debug_assert!(self.cookie.number() != 0);
        self.each_used(Users::remove);
        self.free();
        Ok(())
    }
}

fn caps(cap: &ibv_qp_cap) -> QpCaps {
    QpCaps {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// Sizes as C knows them.
pub(crate) fn caps_to_c(caps: &QpCaps) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: caps.max_send_wr,
        max_recv_wr: caps.max_recv_wr,
        max_send_sge: caps.max_send_sge,
        max_recv_sge: caps.max_recv_sge,
        max_inline_data: caps.max_inline_data,
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_qp(pd: Handle<Pd>, attr: Out<ibv_qp_init_attr>) -> *mut ibv_qp {
    pointer(|| {
        let attr = attr.get()?;
        let wanted = Wanted {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            kind: attr.qp_type,
            all_signaled: attr.sq_sig_all != 0,
            flags: 0,
            operations: None,
            vendor: Vendor::none(),
        };
        let (qp, granted) = Qp::create(pd, &wanted)?;
        attr.cap = caps_to_c(&granted);
        Ok(qp)
    })
}

/// Bits of `comp_mask`.
const OPENS_BY: u32 = 0b1011;
const OPENS_WITH: u32 = 0b1111;

/// The slot: the receiving end of an XRC connection, by its number and domain.
pub(crate) extern "C" fn open_qp(
    context: Handle<Context>,
    attr: In<ibv_qp_open_attr>,
) -> *mut ibv_qp {
    pointer(|| {
        context.get()?;
        let attr = attr.get()?;
        if attr.comp_mask & OPENS_BY != OPENS_BY || attr.comp_mask & !OPENS_WITH != 0 {
            return Err(Code::INVALID);
        }
        if QpType::from_raw(attr.qp_type) != QpType::XrcTarget {
            return Err(Code::UNSUPPORTED);
        }
        let domain = Handle::of(attr.xrcd);
        Qp::target(domain, attr.qp_context, |domain, user_handle| {
            domain.open_target(attr.qp_num, user_handle)
        })
    })
}

/// NULL for a queue pair that was not created with a set of operations.
#[unsafe(no_mangle)]
extern "C" fn ibv_qp_to_qp_ex(qp: Handle<Qp>) -> *mut ibv_qp_ex {
    match qp.get() {
        Ok(own) if own.is_extended => qp.raw().cast(),
        _ => null_mut(),
    }
}

/// Refused by the kernel (EBUSY) while a memory window is bound on it, for example; it lives on
/// then. Waits for the acknowledgement of its events.
#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_qp(qp: Handle<Qp>) -> c_int {
    number(|| qp.get()?.end())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_attach_mcast(qp: Handle<Qp>, gid: In<ibv_gid>, lid: u16) -> c_int {
    number(|| {
        let group = Gid::from_bytes(gid.get()?.raw);
        let own = qp.get()?;
        own.queue
            .with(|queue| contract::attach_multicast(&queue.base().object, &group, lid))?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_detach_mcast(qp: Handle<Qp>, gid: In<ibv_gid>, lid: u16) -> c_int {
    number(|| {
        let group = Gid::from_bytes(gid.get()?.raw);
        let own = qp.get()?;
        own.queue
            .with(|queue| contract::detach_multicast(&queue.base().object, &group, lid))?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_ece(qp: Handle<Qp>, into: Out<ibv_ece>) -> c_int {
    number(|| {
        let ece = qp.get()?.queue.with(|queue| queue.ece())?;
        into.put(ibv_ece {
            vendor_id: ece.vendor_id,
            options: ece.options,
            comp_mask: ece.comp_mask,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_set_ece(qp: Handle<Qp>, ece: In<ibv_ece>) -> c_int {
    number(|| {
        let ece = ece.get()?;
        if ece.vendor_id == 0 {
            return Err(Code::UNSUPPORTED);
        }
        let ece = Ece {
            vendor_id: ece.vendor_id,
            options: ece.options,
            comp_mask: ece.comp_mask,
        };
        qp.get()?.queue.with(|queue| queue.set_ece(&ece))?;
        Ok(())
    })
}

/// No order of the bytes of a message is promised.
#[unsafe(no_mangle)]
extern "C" fn ibv_query_qp_data_in_order(_qp: Handle<Qp>, _operation: u32, _flags: u32) -> c_int {
    set(Code::new(0));
    0
}
