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
use uverbs_core::contract::{self, Cq as _, CqInit, Extra, RawCompletion};
use uverbs_core::hw::QueueMemory;
use uverbs_core::types::{Timestamps, WorkCompletion};

use crate::abi::{ibv_comp_channel, ibv_cq, ibv_cq_ex, ibv_modify_cq_attr};
use crate::answer::{Answer, number, pointer};
use crate::channel::Channel;
use crate::context::Context;
use crate::env;
use crate::errno::Code;
use crate::events::Cookie;
use crate::extended;
use crate::lock::Locked;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Object};
use crate::users::Users;
use crate::wait::{Condition, Mutex, acknowledge, until_acknowledged};

/// A completion queue, always with room for what an extended one has.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) c: ibv_cq_ex,
    /// `None` once the kernel refused to destroy it.
    pub(crate) queue: Locked<Option<AnyCq>>,
    /// The completion that functions of extended queues read.
    pub(crate) current: Cell<RawCompletion>,
    pub(crate) stamp: Cell<u64>,
    /// VLAN and flow tag, if these were asked for.
    pub(crate) frame: Cell<[u32; 2]>,
    pub(crate) of_frames: bool,
    /// Completions carry nothing beyond what is current: neither a timestamp nor fields of frames.
    pub(crate) is_plain: bool,
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
    /// Whether VLAN and flow tag are wanted.
    pub(crate) of_frames: bool,
    pub(crate) is_of_one_thread: bool,
    pub(crate) ignores_overrun: bool,
    pub(crate) parent: Option<Handle<Pd>>,
    /// What allocates its memory.
    pub(crate) memory: Option<Arc<dyn QueueMemory>>,
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
        let memory = wanted.memory.clone();
        let memory = memory.or_else(|| opened.memory().map(|memory| memory as _));
        let mut room = Box::<Self>::new_uninit();
        let cookie = Cookie::of(Self::to_c(room.as_mut_ptr()));
        let queue = opened.provider().create_cq(&CqInit {
            entries: wanted.entries,
            user_handle: cookie.number(),
            comp_channel: channel.map(Channel::fd),
            vector: wanted.vector,
            events: Some(cookie.read()),
            timestamps: wanted.timestamps,
            ignores_overrun: wanted.ignores_overrun,
            unpolled: None,
            memory: memory.as_ref(),
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
        let is_plain = !wanted.of_frames && wanted.timestamps == Timestamps::None;
        let cq = Self {
            c: extended::slots(c, needed, is_plain),
            queue: Locked::new(Some(queue), needed),
            current: Cell::new(RawCompletion::Whole(WorkCompletion::default())),
            is_plain,
            stamp: Cell::new(0),
            frame: Cell::default(),
            of_frames: wanted.of_frames,
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
            of_frames: false,
            is_of_one_thread: false,
            ignores_overrun: false,
            parent: None,
            memory: None,
            extra: None,
        };
        Cq::create(context, &wanted)
    })
}

/// Refused (EBUSY) while queues use it. Waits for the acknowledgement of each event that was
/// fetched.
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
