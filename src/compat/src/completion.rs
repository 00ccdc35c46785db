//! Completions as C knows them, and `ibv_poll_cq`.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use uverbs_core::contract::{CompletionSlot, Cq as _, Found, Success, Usual};
use uverbs_core::types::{WcFlags, WorkCompletion};

use crate::abi::ibv_wc;
use crate::cq::Cq;
use crate::errno::{Code, set};
use crate::pointer::{Handle, Out};

/// A send request that brought nothing.
pub(crate) const NOTHING: ibv_wc = ibv_wc {
    wr_id: 0,
    status: 0,
    opcode: 0,
    vendor_err: 0,
    byte_len: 0,
    imm_data: 0,
    qp_num: 0,
    src_qp: 0,
    wc_flags: 0,
    pkey_index: 0,
    slid: 0,
    sl: 0,
    dlid_path_bits: 0,
};

/// The completion of a request that was carried out.
#[expect(clippy::inline_always, reason = "a part of polling")]
#[inline(always)]
pub(crate) fn success(done: &Success) -> ibv_wc {
    ibv_wc {
        wr_id: done.wr_id,
        opcode: done.opcode,
        byte_len: done.byte_len,
        qp_num: done.qp_num,
        src_qp: done.src_qp,
        wc_flags: flags(done.flags),
        pkey_index: done.pkey_index,
        slid: done.slid,
        sl: done.sl,
        dlid_path_bits: done.dlid_path_bits,
        ..NOTHING
    }
}

/// Any completion.
#[inline(never)]
pub(crate) fn any(done: &WorkCompletion) -> ibv_wc {
    ibv_wc {
        wr_id: done.wr_id,
        status: done.status.raw(),
        opcode: done.opcode.raw(),
        vendor_err: done.vendor_err,
        byte_len: done.byte_len,
        imm_data: immediate(done),
        qp_num: done.qp_num,
        src_qp: done.src_qp,
        wc_flags: flags(done.flags),
        pkey_index: done.pkey_index,
        slid: done.slid,
        sl: done.sl,
        dlid_path_bits: done.dlid_path_bits,
    }
}

/// The flags; most have none.
#[inline]
fn flags(flags: WcFlags) -> u32 {
    if flags.is_empty() { 0 } else { flags.to_ibv() }
}

/// The immediate value in network byte order, or the key that the peer invalidated.
pub(crate) fn immediate(done: &WorkCompletion) -> u32 {
    match (done.imm, done.invalidated) {
        (Some(imm), _) => imm.to_be(),
        (None, Some(key)) => key.raw(),
        (None, None) => 0,
    }
}

/// The room for a completion that C gives.
#[repr(transparent)]
pub(crate) struct Place(MaybeUninit<ibv_wc>);

#[expect(clippy::inline_always, reason = "a part of polling")]
impl CompletionSlot for Place {
    #[inline(always)]
    fn found(&mut self, done: &impl Found) {
        self.0.write(success(&done.success()));
    }

    #[inline(always)]
    fn any(&mut self, done: &WorkCompletion) {
        self.0.write(any(done));
    }
}

/// The slot. Negative once the queue has failed.
///
/// Most calls are for one completion, and find one of the usual kinds, or none: what that takes
/// calls no other function. Everything else is left to others at the end, so that nothing need be
/// kept for a return from them.
pub(crate) extern "C" fn poll_cq(cq: Handle<Cq>, room: c_int, into: Out<Place>) -> c_int {
    let Ok(own) = cq.get() else {
        return refused();
    };
    let (1, Ok(place)) = (room, into.get()) else {
        return poll(own, room, into);
    };
    own.queue.quickly(
        |queue| match queue.as_mut()?.poll_usual(place) {
            Usual::Taken => Some(1),
            Usual::None => Some(0),
            Usual::Other => None,
        },
        || poll(own, room, into),
    )
}

#[cold]
extern "C" fn refused() -> c_int {
    set(Code::INVALID);
    -1
}

/// Takes completions of all kinds. No panic leaves it, so that the slot need not return once more.
#[inline(never)]
extern "C" fn poll(own: &Cq, room: c_int, into: Out<Place>) -> c_int {
    own.queue.with(|queue| {
        let Some(queue) = queue else { return -1 };
        // Some programs give a negative number.
        let room = usize::try_from(room).unwrap_or(0);
        let Ok(places) = into.all(room) else {
            return refused();
        };
        match queue.poll_slots(places) {
            Ok(found) => c_int::try_from(found).unwrap_or(c_int::MAX),
            Err(_) => -1,
        }
    })
}
