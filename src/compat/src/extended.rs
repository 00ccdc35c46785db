//! Extended completion queues, which are polled entry by entry.
//!
//! `start_poll` takes the queue's lock and `end_poll` releases it: what is between them is for the
//! thread that has it.

use std::ffi::c_int;

use uverbs_core::PollError;
use uverbs_core::contract::{CompletionSlot, Cq as _, Extra, Found, RawCompletion, Usual};
use uverbs_core::types::{Timestamps, WcOpcode, WorkCompletion};

use crate::abi::{Slot, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_poll_cq_attr, ibv_wc};
use crate::answer::{Answer, pointer};
use crate::completion::{self, NOTHING};
use crate::context::Context;
use crate::cq::{Cq, Wanted};
use crate::dv;
use crate::errno::Code;
use crate::pd::Pd;
use crate::pointer::{Handle, In};

/// `IBV_CREATE_CQ_…` bits: what completions carry.
const STANDARD: u64 = 0x7f;
const RAW_STAMP: u64 = 1 << 7;
const WALL_STAMP: u64 = 1 << 11;
/// VLAN and flow tag.
const OF_FRAMES: u64 = 1 << 8 | 1 << 9;
/// Bits of `comp_mask`, and of `flags`.
const HAS_FLAGS: u32 = 1;
const HAS_PARENT: u32 = 2;
const SINGLE_THREADED: u32 = 1;
const IGNORES_OVERRUN: u32 = 2;

/// The slot.
pub(crate) extern "C" fn create_cq_ex(
    context: Handle<Context>,
    attr: In<ibv_cq_init_attr_ex>,
) -> *mut ibv_cq_ex {
    pointer(|| create(context, attr.get()?, None))
}

/// Completions carry what they always do, one kind of timestamp, and VLAN and flow tag of frames
/// where the device reports them; tag matching is refused.
pub(crate) fn create(
    context: Handle<Context>,
    attr: &ibv_cq_init_attr_ex,
    extra: Option<&dyn Extra>,
) -> Answer<*mut ibv_cq_ex> {
    if attr.comp_mask & !(HAS_FLAGS | HAS_PARENT) != 0 {
        return Err(Code::INVALID);
    }
    let flags = match attr.comp_mask & HAS_FLAGS {
        0 => 0,
        _ => attr.flags,
    };
    if flags & !(SINGLE_THREADED | IGNORES_OVERRUN) != 0 {
        return Err(Code::INVALID);
    }
    let parent = Handle::<Pd>::of(attr.parent_domain);
    let parent = (attr.comp_mask & HAS_PARENT != 0).then_some(parent);
    let one_thread = match parent {
        Some(parent) => parent.get()?.is_of_one_thread(),
        None => false,
    };
    let memory = match parent {
        Some(parent) => parent.get()?.memory(),
        None => None,
    };
    let of_frames = attr.wc_flags & OF_FRAMES != 0;
    if of_frames {
        dv::check_frames(context.get()?)?;
    }
    let wanted = Wanted {
        entries: attr.cqe,
        cq_context: attr.cq_context,
        channel: attr.channel,
        vector: attr.comp_vector,
        timestamps: timestamps(attr.wc_flags)?,
        of_frames,
        is_of_one_thread: one_thread || flags & SINGLE_THREADED != 0,
        ignores_overrun: flags & IGNORES_OVERRUN != 0,
        parent,
        memory,
        extra,
    };
    Ok(Cq::create(context, &wanted)?.cast())
}

fn timestamps(carried: u64) -> Answer<Timestamps> {
    match carried & !(STANDARD | OF_FRAMES) {
        0 => Ok(Timestamps::None),
        RAW_STAMP => Ok(Timestamps::Raw),
        WALL_STAMP => Ok(Timestamps::WallClock),
        _ => Err(Code::UNSUPPORTED),
    }
}

/// Fills in the functions that headers call: for a queue that needs its lock or does not, and whose
/// completions are plain or carry more.
pub(crate) fn slots(mut c: ibv_cq_ex, needs_lock: bool, is_plain: bool) -> ibv_cq_ex {
    (c.start_poll, c.next_poll) = match (is_plain, needs_lock) {
        (true, true) => (start_poll::<true> as Slot, next_poll as Slot),
        (true, false) => (start_poll::<false> as Slot, next_poll as Slot),
        (false, _) => (start_poll_of_any as Slot, next_poll_of_any as Slot),
    };
    c.end_poll = match (is_plain, needs_lock) {
        (true, false) => end_poll_of_one as Slot,
        _ => end_poll as Slot,
    };
    c.read_opcode = read_opcode as Slot;
    c.read_vendor_err = read_vendor_err as Slot;
    c.read_byte_len = read_byte_len as Slot;
    c.read_imm_data = read_imm_data as Slot;
    c.read_qp_num = read_qp_num as Slot;
    c.read_src_qp = read_src_qp as Slot;
    c.read_wc_flags = read_wc_flags as Slot;
    c.read_slid = read_slid as Slot;
    c.read_sl = read_sl as Slot;
    c.read_dlid_path_bits = read_dlid_path_bits as Slot;
    c.read_completion_ts = read_stamp as Slot;
    c.read_cvlan = read_vlan as Slot;
    c.read_flow_tag = read_flow_tag as Slot;
    c.read_tm_info = read_no_tag as Slot;
    c.read_completion_wallclock_ns = read_stamp as Slot;
    c
}

/// The place for what functions of extended queues read of the completion that was taken last. Most
/// of it is decoded when they are called.
struct Place<'q>(&'q Cq);

#[expect(clippy::inline_always, reason = "a part of polling")]
impl CompletionSlot for Place<'_> {
    #[inline(always)]
    fn found(&mut self, done: &impl Found) {
        self.0.c.wr_id.set(done.wr_id());
        self.0.c.status.set(0);
        self.0.current.set(done.raw());
    }

    fn any(&mut self, done: &WorkCompletion) {
        self.0.c.wr_id.set(done.wr_id);
        self.0.c.status.set(done.status.raw());
        self.0.current.set(RawCompletion::Whole(*done));
    }
}

/// Takes the next completion if it is of a usual kind, for whoever has the lock.
#[expect(clippy::inline_always, reason = "a part of polling")]
#[inline(always)]
fn advance(cq: &Cq) -> Usual {
    cq.queue.inside(|queue| match queue {
        Some(queue) => queue.poll_usual(&mut Place(cq)),
        None => Usual::Other,
    })
}

/// The same for one of any kind, with everything that the queue's completions carry.
fn advance_to_any(cq: &Cq) -> Answer<()> {
    if !cq.is_plain {
        return advance_with_more(cq);
    }
    let taken = cq.queue.inside(|queue| {
        let queue = queue.as_mut().ok_or(PollError::Poisoned)?;
        queue.poll()
    });
    match taken {
        Ok(Some(done)) => {
            Place(cq).any(&done);
            Ok(())
        }
        Ok(None) => Err(Code::NO_ENTRY),
        Err(_) => Err(Code::new(libc::EIO)),
    }
}

/// The same with a timestamp, or fields of frames.
fn advance_with_more(cq: &Cq) -> Answer<()> {
    let stamped = cq.timestamps != Timestamps::None;
    let taken = cq.queue.inside(|queue| {
        let queue = queue.as_mut().ok_or(PollError::Poisoned)?;
        if cq.of_frames {
            return dv::poll_frame(queue, stamped);
        }
        let done = queue.poll_stamped()?;
        Ok(done.map(|(done, stamp)| (done, stamp, [0; 2])))
    });
    let (done, stamp, frame) = match taken {
        Ok(Some(taken)) => taken,
        Ok(None) => return Err(Code::NO_ENTRY),
        Err(_) => return Err(Code::new(libc::EIO)),
    };
    Place(cq).any(&done);
    cq.stamp.set(stamp.unwrap_or(0));
    cq.frame.set(frame);
    Ok(())
}

fn code(answer: Answer<()>) -> c_int {
    answer.map_or_else(Code::number, |()| 0)
}

extern "C" fn start_poll<const LOCKS: bool>(cq: Handle<Cq>, attr: In<ibv_poll_cq_attr>) -> c_int {
    let Ok(own) = cq.get() else {
        return Code::INVALID.number();
    };
    if attr.get().is_ok_and(|attr| attr.comp_mask != 0) {
        return Code::INVALID.number();
    }
    if !own.queue.try_open_if(LOCKS) {
        return start_poll_of_any(cq, attr);
    }
    match advance(own) {
        Usual::Taken => 0,
        Usual::None => {
            own.queue.close_if(LOCKS);
            Code::NO_ENTRY.number()
        }
        Usual::Other => start_with_any(own),
    }
}

/// Takes a completion of any kind. Without one the queue is not open.
#[inline(never)]
extern "C" fn start_poll_of_any(cq: Handle<Cq>, attr: In<ibv_poll_cq_attr>) -> c_int {
    let Ok(own) = cq.get() else {
        return Code::INVALID.number();
    };
    if attr.get().is_ok_and(|attr| attr.comp_mask != 0) {
        return Code::INVALID.number();
    }
    own.queue.open();
    start_with_any(own)
}

/// The same with the queue open.
#[inline(never)]
extern "C" fn start_with_any(own: &Cq) -> c_int {
    let answer = advance_to_any(own);
    if answer.is_err() {
        own.queue.close();
    }
    code(answer)
}

extern "C" fn next_poll(cq: Handle<Cq>) -> c_int {
    let Ok(own) = cq.get() else {
        return Code::INVALID.number();
    };
    match advance(own) {
        Usual::Taken => 0,
        Usual::None => Code::NO_ENTRY.number(),
        Usual::Other => next_poll_of_any(cq),
    }
}

#[inline(never)]
extern "C" fn next_poll_of_any(cq: Handle<Cq>) -> c_int {
    code(cq.get().and_then(advance_to_any))
}

/// Of a queue without a lock, whose completions were given back when they were taken.
extern "C" fn end_poll_of_one(_cq: Handle<Cq>) {}

extern "C" fn end_poll(cq: Handle<Cq>) {
    let Ok(own) = cq.get() else { return };
    // Others were given back when they were taken.
    if own.of_frames {
        own.queue.inside(|queue| {
            if let Some(queue) = queue {
                queue.release();
            }
        });
    }
    own.queue.close();
}

extern "C" fn read_opcode(cq: Handle<Cq>) -> u32 {
    match cq.get().map(|own| own.current.get()) {
        Ok(RawCompletion::Sent { opcode, .. }) => opcode,
        Ok(RawCompletion::Received { .. }) => WcOpcode::Recv.raw(),
        Ok(RawCompletion::Whole(done)) => done.opcode.raw(),
        Err(_) => 0,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
extern "C" fn read_qp_num(cq: Handle<Cq>) -> u32 {
    match cq.get().map(|own| own.current.get()) {
        Ok(RawCompletion::Sent { qp_num, .. }) => qp_num,
        Ok(RawCompletion::Received { queue, .. }) => queue as u32,
        Ok(RawCompletion::Whole(done)) => done.qp_num,
        Err(_) => 0,
    }
}

/// What only completions have that were decoded when they were found: others have 0.
fn of_whole(cq: Handle<Cq>, field: impl FnOnce(&WorkCompletion) -> u32) -> u32 {
    match cq.get().map(|own| own.current.get()) {
        Ok(RawCompletion::Whole(done)) => field(&done),
        _ => 0,
    }
}

extern "C" fn read_vendor_err(cq: Handle<Cq>) -> u32 {
    of_whole(cq, |done| done.vendor_err)
}

extern "C" fn read_imm_data(cq: Handle<Cq>) -> u32 {
    of_whole(cq, completion::immediate)
}

/// All of it, for whoever has the lock.
fn whole(cq: &Cq) -> ibv_wc {
    match cq.current.get() {
        RawCompletion::Whole(done) => completion::any(&done),
        raw => cq.queue.inside(|queue| match queue {
            Some(queue) => completion::success(&queue.read(&raw)),
            None => NOTHING,
        }),
    }
}

macro_rules! fields {
    ($($name:ident -> $kind:ty = |$done:ident| $value:expr;)*) => {$(
        extern "C" fn $name(cq: Handle<Cq>) -> $kind {
            let $done = cq.get().map_or(NOTHING, whole);
            $value
        }
    )*};
}

fields! {
    read_byte_len -> u32 = |done| done.byte_len;
    read_src_qp -> u32 = |done| done.src_qp;
    read_wc_flags -> u32 = |done| done.wc_flags;
    read_slid -> u32 = |done| done.slid.into();
    read_sl -> u8 = |done| done.sl;
    read_dlid_path_bits -> u8 = |done| done.dlid_path_bits;
}

extern "C" fn read_stamp(cq: Handle<Cq>) -> u64 {
    cq.get().map_or(0, |own| own.stamp.get())
}

extern "C" fn read_vlan(cq: Handle<Cq>) -> u32 {
    cq.get().map_or(0, |own| own.frame.get()[0])
}

extern "C" fn read_flow_tag(cq: Handle<Cq>) -> u32 {
    cq.get().map_or(0, |own| own.frame.get()[1])
}

extern "C" fn read_no_tag(_cq: Handle<Cq>, tag: crate::pointer::Out<[u64; 2]>) {
    tag.put_if_any([0; 2]);
}
