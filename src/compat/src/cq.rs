//! Completion queues.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null;
use std::sync::Arc;

use uverbs_any::AnyCq;
use uverbs_core::Object as KernelObject;
use uverbs_core::contract::{self, Cq as _, CqInit, Extra};
use uverbs_core::types::{Timestamps, WorkCompletion};

use crate::abi::{ibv_comp_channel, ibv_cq, ibv_cq_ex, ibv_modify_cq_attr, ibv_wc};
use crate::answer::{Answer, number, pointer};
use crate::channel::Channel;
use crate::context::Context;
use crate::errno::{Code, set};
use crate::events::Cookie;
use crate::lock::Locked;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Object, Out};
use crate::users::Users;
use crate::wait::{Condition, Mutex, acknowledge, until_acknowledged};
use crate::{env, extended};

/// A completion queue, always with room for what an extended one has.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) c: ibv_cq_ex,
    /// `None` once the kernel refused to destroy it.
    pub(crate) queue: Locked<Option<AnyCq>>,
    /// The completion that functions of extended queues read.
    pub(crate) current: Cell<WorkCompletion>,
    pub(crate) stamp: Cell<u64>,
    pub(crate) timestamps: Timestamps,
    /// Queues whose completions it gets.
    pub(crate) users: Users,
    cookie: Cookie,
    parent: Option<Handle<Pd>>,
}

impl Object for Cq {
    type C = ibv_cq;
}

/// What a completion queue is created with.
pub(crate) struct Wanted<'a> {
    pub(crate) entries: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) vector: u32,
    pub(crate) timestamps: Timestamps,
    pub(crate) is_of_one_thread: bool,
    pub(crate) parent: Option<Handle<Pd>>,
    /// The vendor's part.
    pub(crate) extra: Option<&'a dyn Extra>,
}

impl Cq {
    /// Creates one.
    pub(crate) fn create(context: Handle<Context>, wanted: &Wanted<'_>) -> Answer<*mut ibv_cq> {
        let opened = context.get()?;
        let channel = Handle::<Channel>::of(wanted.channel).optional();
        if channel.is_some_and(|channel| channel.context().raw() != context.raw()) {
            return Err(Code::INVALID);
        }
        let mut room = Box::<Self>::new_uninit();
        let cookie = Cookie::of(Self::to_c(room.as_mut_ptr()));
        let queue = opened.provider.create_cq(&CqInit {
            entries: wanted.entries,
            user_handle: cookie.number(),
            comp_channel: channel.map(Channel::fd),
            vector: wanted.vector,
            events: Some(cookie.read()),
            timestamps: wanted.timestamps,
            unpolled: None,
            extra: wanted.extra,
        })?;
        opened.users.add();
        if let Some(channel) = channel {
            channel.count(1);
        }
        if let Some(parent) = wanted.parent.and_then(Handle::optional) {
            parent.users.add();
        }
        let c = ibv_cq_ex {
            context: context.raw(),
            channel: wanted.channel,
            cq_context: wanted.cq_context,
            handle: queue.object().handle(),
            cqe: Cell::new(queue.entries().cast_signed()),
            mutex: Mutex::new(),
            cond: Condition::new(),
            comp_events_completed: Cell::new(0),
            async_events_completed: Cell::new(0),
            comp_mask: 0,
            status: Cell::new(0),
            wr_id: Cell::new(0),
            start_poll: null(),
            next_poll: null(),
            end_poll: null(),
            read_opcode: null(),
            read_vendor_err: null(),
            read_byte_len: null(),
            read_imm_data: null(),
            read_qp_num: null(),
            read_src_qp: null(),
            read_wc_flags: null(),
            read_slid: null(),
            read_sl: null(),
            read_dlid_path_bits: null(),
            read_completion_ts: null(),
            read_cvlan: null(),
            read_flow_tag: null(),
            read_tm_info: null(),
            read_completion_wallclock_ns: null(),
        };
        let needed = !(wanted.is_of_one_thread || env::is_single_threaded());
        let cq = Self {
            c: extended::slots(c),
            queue: Locked::new(Some(queue), needed),
            current: Cell::default(),
            stamp: Cell::new(0),
            timestamps: wanted.timestamps,
            users: Users::new(),
            cookie,
            parent: wanted.parent,
        };
        Ok(Self::to_c(Box::into_raw(Box::write(room, cq))))
    }

    /// The opened device it is on.
    pub(crate) fn context<'a>(&self) -> Answer<&'a Context> {
        Handle::of(self.c.context).get()
    }

    /// What the program created it with.
    pub(crate) fn cq_context(&self) -> *mut c_void {
        self.c.cq_context
    }

    /// Runs `body` with the provider's queue.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut AnyCq) -> Answer<R>) -> Answer<R> {
        self.queue
            .with(|queue| body(queue.as_mut().ok_or(Code::INVALID)?))
    }

    pub(crate) fn acknowledge(&self, events: u32) {
        let c = &self.c;
        acknowledge(&c.mutex, &c.cond, &c.comp_events_completed, events);
    }

    pub(crate) fn acknowledge_async(&self) {
        let c = &self.c;
        acknowledge(&c.mutex, &c.cond, &c.async_events_completed, 1);
    }

    fn end(&self) -> Answer<()> {
        self.users.none()?;
        let counts = self.queue.with(|queue| {
            let object = Arc::clone(queue.as_ref().ok_or(Code::INVALID)?.object());
            // The queue itself, and this one.
            if Arc::strong_count(&object) > 2 {
                return Err(Code::BUSY);
            }
            *queue = None;
            Ok(KernelObject::destroy_shared(object)?)
        });
        let counts = match counts {
            Err(code) if code.number() == libc::EIO && env::are_removed_objects_destroyed() => {
                uverbs_core::EventCounts::default()
            }
            counts => counts?,
        };
        let c = &self.c;
        until_acknowledged(
            &c.mutex,
            &c.cond,
            &[
                (&c.comp_events_completed, counts.completions),
                (&c.async_events_completed, counts.asynchronous),
            ],
        );
        debug_assert!(self.cookie.number() != 0);
        if let Some(channel) = Handle::<Channel>::of(c.channel).optional() {
            channel.count(-1);
        }
        if let Some(parent) = self.parent.and_then(Handle::optional) {
            parent.users.remove();
        }
        Handle::<Context>::of(c.context).get()?.leave();
        self.free();
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_cq(
    context: Handle<Context>,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    pointer(|| {
        let wanted = Wanted {
            entries: u32::try_from(entries).map_err(|_| Code::INVALID)?,
            cq_context,
            channel,
            vector: u32::try_from(vector).map_err(|_| Code::INVALID)?,
            timestamps: Timestamps::None,
            is_of_one_thread: false,
            parent: None,
            extra: None,
        };
        Cq::create(context, &wanted)
    })
}

/// Refused (EBUSY) while queues use it. Waits for the acknowledgement of each event that was got.
#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_cq(cq: Handle<Cq>) -> c_int {
    number(|| cq.get()?.end())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_resize_cq(cq: Handle<Cq>, entries: c_int) -> c_int {
    number(|| {
        let own = cq.get()?;
        let entries = u32::try_from(entries).map_err(|_| Code::INVALID)?;
        own.with(|queue| {
            queue.resize(entries)?;
            own.c.cqe.set(queue.entries().cast_signed());
            Ok(())
        })
    })
}

/// `IBV_CQ_ATTR_MODERATE`.
const MODERATE: u32 = 1;

/// The slot.
pub(crate) extern "C" fn modify_cq(cq: Handle<Cq>, attr: In<ibv_modify_cq_attr>) -> c_int {
    number(|| {
        let (own, attr) = (cq.get()?, attr.get()?);
        if attr.attr_mask != MODERATE {
            return Err(Code::INVALID);
        }
        own.with(|queue| {
            let moderate = &attr.moderate;
            contract::moderate_cq(queue.object(), moderate.cq_count, moderate.cq_period)?;
            Ok(())
        })
    })
}

/// The slot.
pub(crate) extern "C" fn req_notify_cq(cq: Handle<Cq>, solicited_only: c_int) -> c_int {
    number(|| {
        cq.get()?.with(|queue| {
            queue.arm(solicited_only != 0)?;
            Ok(())
        })
    })
}

/// The completion as C knows it.
#[inline]
fn completion(done: &WorkCompletion) -> ibv_wc {
    ibv_wc {
        wr_id: done.wr_id,
        status: done.status.raw(),
        opcode: done.opcode.raw(),
        vendor_err: done.vendor_err,
        byte_len: done.byte_len,
        imm_data: immediate(done),
        qp_num: done.qp_num,
        src_qp: done.src_qp,
        wc_flags: done.flags.to_ibv(),
        pkey_index: done.pkey_index,
        slid: done.slid,
        sl: done.sl,
        dlid_path_bits: done.dlid_path_bits,
    }
}

/// The immediate value in network byte order, or the key that the peer invalidated.
#[inline]
pub(crate) fn immediate(done: &WorkCompletion) -> u32 {
    match (done.imm, done.invalidated) {
        (Some(imm), _) => imm.to_be(),
        (None, Some(key)) => key.raw(),
        (None, None) => 0,
    }
}

/// The slot. Negative once the queue has failed.
pub(crate) extern "C" fn poll_cq(cq: Handle<Cq>, room: c_int, into: Out<ibv_wc>) -> c_int {
    let Ok(own) = cq.get() else {
        set(Code::INVALID);
        return -1;
    };
    own.queue.with(|queue| {
        let Some(queue) = queue else { return -1 };
        let mut count = 0;
        while count < room {
            let done = match queue.next() {
                Ok(Some(done)) => done,
                Err(_) if count == 0 => return -1,
                Ok(None) | Err(_) => break,
            };
            let place = into.after(usize::try_from(count).unwrap_or(0));
            if place.put(completion(&done)).is_err() {
                return -1;
            }
            count += 1;
        }
        if count > 0 {
            queue.release();
        }
        count
    })
}
