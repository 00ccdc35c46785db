//! Work queues, tables of them, and queue pairs that spread what they receive over such a table by
//! a hash of its headers.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. The memory that requests name is the
//! program's, as the C interface says.
#![allow(unsafe_code, reason = "exports names; posts requests that name memory")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use uverbs_core::Object as KernelObject;
use uverbs_core::contract::Cq as _;
use uverbs_mlx5::rss::work_queue::{
    self, Flags, Modify, State, Striding, WorkQueue, WorkQueueInit,
};
use uverbs_mlx5::rss::{HASH_KEY, Hash, HashFields};
use uverbs_mlx5::{ProtectionDomain, QueuePair};

use super::own;
use crate::abi::{
    Slot, ibv_context, ibv_qp, ibv_qp_init_attr_ex, ibv_recv_wr, ibv_rwq_ind_table,
    ibv_rwq_ind_table_init_attr, ibv_wq, ibv_wq_attr, ibv_wq_init_attr,
};
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::cq::Cq;
use crate::env;
use crate::errno::{Code, set};
use crate::events::Cookie;
use crate::lock::Locked;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Object, Out, items};
use crate::post;
use crate::qp::Qp;
use crate::users::Users;
use crate::wait::{Condition, Mutex, acknowledge, until_acknowledged};

/// A work queue.
#[repr(C)]
pub(crate) struct Wq {
    c: ibv_wq,
    /// `None` once the kernel refused to destroy it.
    queue: Locked<Option<WorkQueue>>,
    /// Tables that it is in.
    users: Users,
    cookie: Cookie,
}

impl Object for Wq {
    type C = ibv_wq;
}

/// `IBV_WQT_RQ`, and the bit of `comp_mask`.
const RECEIVES: u32 = 0;
const HAS_FLAGS: u32 = 1;

impl Wq {
    fn create(
        context: Handle<Context>,
        attr: &mut ibv_wq_init_attr,
        striding: Option<Striding>,
    ) -> Answer<*mut ibv_wq> {
        let opened = context.get()?;
        if attr.wq_type != RECEIVES || attr.comp_mask & !HAS_FLAGS != 0 {
            return Err(Code::INVALID);
        }
        let flags = match attr.comp_mask & HAS_FLAGS {
            0 => 0,
            _ => attr.create_flags,
        };
        let (pd, cq) = (Handle::<Pd>::of(attr.pd), Handle::<Cq>::of(attr.cq));
        let (domain, completions) = (pd.get()?, cq.get()?);
        let inner = domain.domain()?;
        let inner: &ProtectionDomain = inner.of().ok_or(Code::UNSUPPORTED)?;
        let mut room = Box::<Self>::new_uninit();
        let cookie = Cookie::of(Self::to_c(room.as_mut_ptr()));
        let queue = completions.with(|cq| {
            let init = WorkQueueInit {
                cq: cq.link(),
                max_wr: attr.max_wr,
                max_sge: attr.max_sge,
                flags: Flags::from_bits_retain(flags),
                user_handle: cookie.number(),
                striding,
            };
            Ok(WorkQueue::create(own(opened)?, inner, &init)?)
        })?;
        domain.users.add();
        completions.users.add();
        (attr.max_wr, attr.max_sge) = queue.size();
        let c = ibv_wq {
            context: context.raw(),
            wq_context: Cell::new(attr.wq_context),
            pd: attr.pd,
            cq: attr.cq,
            wq_num: queue.number(),
            handle: queue.object().handle(),
            state: Cell::new(raw(State::Reset)),
            wq_type: RECEIVES,
            post_recv: post_recv as Slot,
            mutex: Mutex::new(),
            cond: Condition::new(),
            events_completed: Cell::new(0),
            comp_mask: 0,
        };
        let needed = !(domain.is_of_one_thread() || env::is_single_threaded());
        let wq = Self {
            c,
            queue: Locked::new(Some(queue), needed),
            users: Users::new(),
            cookie,
        };
        Ok(Self::to_c(Box::into_raw(Box::write(room, wq))))
    }

    /// Runs `body` with the provider's queue.
    pub(super) fn with<R>(&self, body: impl FnOnce(&mut WorkQueue) -> Answer<R>) -> Answer<R> {
        self.queue
            .with(|queue| body(queue.as_mut().ok_or(Code::INVALID)?))
    }

    pub(crate) fn acknowledge(&self) {
        let c = &self.c;
        acknowledge(&c.mutex, &c.cond, &c.events_completed, 1);
    }

    fn modify(&self, attr: &ibv_wq_attr) -> Answer<()> {
        if attr.attr_mask & !(STATE | CURRENT | FLAGS) != 0 {
            return Err(Code::INVALID);
        }
        let has = |bit| attr.attr_mask & bit != 0;
        if has(FLAGS) && attr.flags_mask & !Flags::all().bits() != 0 {
            return Err(Code::UNSUPPORTED);
        }
        let from = if has(CURRENT) {
            attr.curr_wq_state
        } else {
            self.c.state.get()
        };
        let request = Modify {
            state: if has(STATE) {
                Some(state(attr.wq_state)?)
            } else {
                None
            },
            current: Some(state(from)?),
            flags: has(FLAGS).then(|| {
                let which = Flags::from_bits_retain(attr.flags_mask);
                (Flags::from_bits_retain(attr.flags) & which, which)
            }),
        };
        if request.state.is_none() && request.flags.is_none() {
            return Err(Code::INVALID);
        }
        self.with(|queue| Ok(queue.change(&request)?))?;
        if let Some(to) = request.state {
            self.c.state.set(raw(to));
        }
        Ok(())
    }

    fn end(&self) -> Answer<()> {
        self.users.none()?;
        let counts = self.queue.with(|queue| {
            let object = Arc::clone(queue.as_ref().ok_or(Code::INVALID)?.object());
            *queue = None;
            Ok::<_, Code>(KernelObject::destroy_shared(object)?)
        })?;
        let c = &self.c;
        until_acknowledged(
            &c.mutex,
            &c.cond,
            &[(&c.events_completed, counts.asynchronous)],
        );
        debug_assert!(self.cookie.number() != 0);
        Handle::<Pd>::of(c.pd).get()?.users.remove();
        Handle::<Cq>::of(c.cq).get()?.users.remove();
        self.free();
        Ok(())
    }
}

/// `enum ibv_wq_state`.
fn state(raw: u32) -> Answer<State> {
    match raw {
        0 => Ok(State::Reset),
        1 => Ok(State::Ready),
        2 => Ok(State::Error),
        _ => Err(Code::INVALID),
    }
}

fn raw(state: State) -> u32 {
    match state {
        State::Reset => 0,
        State::Ready => 1,
        State::Error => 2,
    }
}

/// `IBV_WQ_ATTR_…`.
const STATE: u32 = 1;
const CURRENT: u32 = 2;
const FLAGS: u32 = 4;

/// The slot.
pub(crate) extern "C" fn create_wq(
    context: Handle<Context>,
    attr: Out<ibv_wq_init_attr>,
) -> *mut ibv_wq {
    pointer(|| Wq::create(context, attr.get()?, None))
}

/// The slot.
pub(crate) extern "C" fn modify_wq(wq: Handle<Wq>, attr: In<ibv_wq_attr>) -> c_int {
    number(|| wq.get()?.modify(attr.get()?))
}

/// The slot. Refused (EBUSY) while it is in a table.
pub(crate) extern "C" fn destroy_wq(wq: Handle<Wq>) -> c_int {
    number(|| wq.get()?.end())
}

/// `mlx5dv_wq_init_attr`
#[repr(C)]
struct VendorAttr {
    comp_mask: u64,
    single_stride_log_num_of_bytes: u32,
    single_wqe_log_num_of_strides: u32,
    two_byte_shift_en: u8,
}

/// `MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ`
const STRIDING: u64 = 1;

impl VendorAttr {
    fn striding(&self) -> Answer<Option<Striding>> {
        match self.comp_mask {
            0 => Ok(None),
            STRIDING => Ok(Some(Striding {
                log_bytes: self.single_stride_log_num_of_bytes,
                log_strides: self.single_wqe_log_num_of_strides,
                shifts_two_bytes: self.two_byte_shift_en != 0,
            })),
            _ => Err(Code::INVALID),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_create_wq(
    context: Handle<Context>,
    attr: Out<ibv_wq_init_attr>,
    vendor: In<VendorAttr>,
) -> *mut ibv_wq {
    pointer(|| {
        own(context.get()?)?;
        let striding = match vendor.get() {
            Ok(vendor) => vendor.striding()?,
            Err(_) => None,
        };
        Wq::create(context, attr.get()?, striding)
    })
}

extern "C" fn post_recv(
    wq: Handle<Wq>,
    first: *mut ibv_recv_wr,
    bad: Out<*mut ibv_recv_wr>,
) -> c_int {
    let refused = |code: Code| {
        set(code);
        code.number()
    };
    let Ok(own) = wq.get() else {
        return refused(Code::INVALID);
    };
    own.queue.with(|queue| {
        let Some(queue) = queue else {
            return refused(Code::INVALID);
        };
        queue.abort();
        post::post(
            queue,
            first,
            first,
            bad,
            |queue, request| {
                // SAFETY: as `ibv_post_wq_recv` asks, the program keeps the memory, registered and
                // to itself, until the request has completed.
                unsafe { queue.put(request) }
            },
            WorkQueue::submit,
        )
    })
}

/// A table of work queues.
#[repr(C)]
pub(crate) struct IndirectionTable {
    c: ibv_rwq_ind_table,
    table: Locked<Option<work_queue::IndirectionTable>>,
    queues: Vec<Handle<Wq>>,
    /// Queue pairs that spread over it.
    pub(crate) users: Users,
}

impl Object for IndirectionTable {
    type C = ibv_rwq_ind_table;
}

impl IndirectionTable {
    /// Runs `body` with the provider's table.
    pub(super) fn with<R>(
        &self,
        body: impl FnOnce(&work_queue::IndirectionTable) -> Answer<R>,
    ) -> Answer<R> {
        self.table
            .with(|table| body(table.as_ref().ok_or(Code::INVALID)?))
    }
}

/// log₂ of more queues than any table has.
const TOO_LARGE: u32 = 24;

/// The slot.
pub(crate) extern "C" fn create_table(
    context: Handle<Context>,
    attr: In<ibv_rwq_ind_table_init_attr>,
) -> *mut ibv_rwq_ind_table {
    pointer(|| {
        let (opened, attr) = (context.get()?, attr.get()?);
        if attr.comp_mask != 0 || attr.log_ind_tbl_size >= TOO_LARGE {
            return Err(Code::INVALID);
        }
        let list = items(attr.ind_tbl.cast_const(), 1 << attr.log_ind_tbl_size)?;
        let queues: Vec<_> = list.iter().map(|wq| Handle::<Wq>::of(*wq)).collect();
        let objects = queues
            .iter()
            .map(|wq| wq.get()?.with(|queue| Ok(Arc::clone(queue.object()))))
            .collect::<Answer<Vec<_>>>()?;
        let table = work_queue::IndirectionTable::of_objects(own(opened)?, objects)?;
        opened.users.add();
        for wq in &queues {
            wq.get()?.users.add();
        }
        let made = IndirectionTable {
            c: ibv_rwq_ind_table {
                context: context.raw(),
                ind_tbl_handle: table.object().handle().cast_signed(),
                ind_tbl_num: table.number().cast_signed(),
                comp_mask: 0,
            },
            table: Locked::new(Some(table), true),
            queues,
            users: Users::new(),
        };
        Ok(IndirectionTable::to_c(Box::into_raw(Box::new(made))))
    })
}

/// The slot. Refused (EBUSY) while queue pairs use it.
pub(crate) extern "C" fn destroy_table(table: Handle<IndirectionTable>) -> c_int {
    number(|| {
        let own = table.get()?;
        own.users.none()?;
        own.table.with(|table| {
            let object = Arc::clone(table.as_ref().ok_or(Code::INVALID)?.object());
            *table = None;
            KernelObject::destroy_shared(object)?;
            Ok::<_, Code>(())
        })?;
        for wq in &own.queues {
            wq.get()?.users.remove();
        }
        let context: *mut ibv_context = own.c.context;
        Handle::<Context>::of(context).get()?.leave();
        own.free();
        Ok(())
    })
}

/// `IBV_RX_HASH_FUNC_TOEPLITZ`.
const TOEPLITZ: u8 = 1;

/// A queue pair over a table of work queues.
pub(crate) fn create_spreading(attr: &ibv_qp_init_attr_ex) -> Answer<*mut ibv_qp> {
    let hash = &attr.rx_hash_conf;
    if hash.rx_hash_function != TOEPLITZ {
        return Err(Code::UNSUPPORTED);
    }
    let key = items(
        hash.rx_hash_key.cast_const(),
        usize::from(hash.rx_hash_key_len),
    )?;
    let hash = Hash {
        fields: HashFields::from_bits_retain(hash.rx_hash_fields_mask),
        key: <[u8; HASH_KEY]>::try_from(key).map_err(|_| Code::INVALID)?,
    };
    let pd = Handle::<Pd>::of(attr.pd);
    let qp_context: *mut c_void = attr.qp_context;
    Qp::spreading(
        pd,
        Handle::of(attr.rwq_ind_tbl),
        qp_context,
        |over, user_handle| {
            let domain = pd.get()?;
            let inner = domain.domain()?;
            let inner: &ProtectionDomain = inner.of().ok_or(Code::INVALID)?;
            let context = own(domain.context()?)?;
            over.with(|table| {
                let queue = QueuePair::spreading(context, inner, table, &hash, user_handle)?;
                Ok(queue.into())
            })
        },
    )
}
