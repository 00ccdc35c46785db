//! Extended completion queues, which are polled entry by entry.
//!
//! `start_poll` takes the queue's lock and `end_poll` releases it: what is between them is for the
//! thread that has it.

use std::ffi::c_int;

use uverbs_core::PollError;
use uverbs_core::contract::{Cq as _, Extra};
use uverbs_core::types::Timestamps;

use crate::abi::{Slot, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_poll_cq_attr};
use crate::answer::{Answer, pointer};
use crate::context::Context;
use crate::cq::{Cq, Wanted, flags, immediate, status};
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

/// Fills in the functions that headers call.
pub(crate) fn slots(mut c: ibv_cq_ex) -> ibv_cq_ex {
    c.start_poll = start_poll as Slot;
    c.next_poll = next_poll as Slot;
    c.end_poll = end_poll as Slot;
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

/// Takes the next completion, for whoever has the lock.
#[expect(clippy::inline_always, reason = "a part of polling")]
#[inline(always)]
fn advance(cq: &Cq) -> Answer<()> {
    if !cq.is_plain {
        return advance_with_more(cq);
    }
    cq.queue.inside(|queue| {
        let queue = queue.as_mut().ok_or(Code::new(libc::EIO))?;
        match queue.poll() {
            Ok(Some(done)) => {
                cq.c.wr_id.set(done.wr_id);
                cq.c.status.set(status(&done));
                cq.current.set(done);
                Ok(())
            }
            Ok(None) => Err(Code::NO_ENTRY),
            Err(_) => Err(Code::new(libc::EIO)),
        }
    })
}

/// The same with a timestamp, or fields of frames.
#[inline(never)]
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
    cq.c.wr_id.set(done.wr_id);
    cq.c.status.set(done.status.raw());
    cq.current.set(done);
    cq.stamp.set(stamp.unwrap_or(0));
    cq.frame.set(frame);
    Ok(())
}

fn code(answer: Answer<()>) -> c_int {
    answer.map_or_else(Code::number, |()| 0)
}

extern "C" fn start_poll(cq: Handle<Cq>, attr: In<ibv_poll_cq_attr>) -> c_int {
    let Ok(own) = cq.get() else {
        return Code::INVALID.number();
    };
    if attr.get().is_ok_and(|attr| attr.comp_mask != 0) {
        return Code::INVALID.number();
    }
    own.queue.open();
    let answer = advance(own);
    if answer.is_err() {
        own.queue.close();
    }
    code(answer)
}

extern "C" fn next_poll(cq: Handle<Cq>) -> c_int {
    code(cq.get().and_then(advance))
}

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

macro_rules! fields {
    ($($name:ident -> $kind:ty = |$done:ident| $value:expr;)*) => {$(
        extern "C" fn $name(cq: Handle<Cq>) -> $kind {
            let Ok(own) = cq.get() else { return 0 };
            let $done = own.current.get();
            $value
        }
    )*};
}

fields! {
    read_opcode -> u32 = |done| done.opcode.raw();
    read_vendor_err -> u32 = |done| done.vendor_err;
    read_byte_len -> u32 = |done| done.byte_len;
    read_imm_data -> u32 = |done| immediate(&done);
    read_qp_num -> u32 = |done| done.qp_num;
    read_src_qp -> u32 = |done| done.src_qp;
    read_wc_flags -> u32 = |done| flags(&done);
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
