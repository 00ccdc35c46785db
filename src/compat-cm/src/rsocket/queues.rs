//! The queues of a connection: requests are posted, and completions taken, by what the header's
//! inline functions call.
//!
//! # Safety
//!
//! The objects are libibverbs' own and not destroyed while this value lives: what has it destroys
//! them afterwards. Slots of their context have the functions that the header says. Requests are
//! there for the call, and name memory that their poster keeps until they are complete.
#![allow(unsafe_code, reason = "calls a C library through its slots")]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use uverbs_compat_base::abi::{
    Slot, ibv_comp_channel, ibv_context, ibv_cq, ibv_pd, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_sge,
    ibv_wc,
};

use super::wire::{Control, Message};
use crate::answer::Answer;
use crate::errno::Code;
use crate::verbs;

/// `IBV_WR_RDMA_WRITE`, `IBV_WR_RDMA_WRITE_WITH_IMM`.
const WRITE: u32 = 0;
const WRITE_WITH_IMM: u32 = 1;
/// `IBV_SEND_INLINE`.
pub(super) const INLINE: u32 = 1 << 3;
/// `IBV_WC_WITH_IMM`.
const WITH_IMM: u32 = 1 << 1;
/// Marks receives.
pub(super) const RECEIVE: u64 = 1 << 63;
/// Completions that are taken at a time.
const BATCH: c_int = 16;
const ROOM: usize = 16;

pub(super) type PostSend =
    extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
pub(super) type PostReceive =
    extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
type PollCq = extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
type RequestNotify = extern "C" fn(*mut ibv_cq, c_int) -> c_int;

/// A connection's queue pair, and the completion queue of both directions with its channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queues {
    pub(super) qp: *mut ibv_qp,
    cq: *mut ibv_cq,
    channel: *mut ibv_comp_channel,
    /// The channel's descriptor.
    pub(super) fd: c_int,
}

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for Queues {}
// SAFETY: as above.
unsafe impl Sync for Queues {}

/// A write into the peer's memory.
pub(super) struct Write<'a> {
    pub(super) address: u64,
    pub(super) key: u32,
    /// What is written.
    pub(super) parts: &'a [ibv_sge],
    pub(super) is_inline: bool,
    /// What is told the peer, or what the completion has if it is told nothing.
    pub(super) message: Message,
}

/// What has become of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Completion {
    /// A message has arrived.
    Arrived(Message),
    /// A receive that failed, or brought none.
    Nothing,
    /// A message was sent, or not.
    Sent { message: Message, is_good: bool },
}

impl Queues {
    pub(super) fn new(
        qp: *mut ibv_qp,
        cq: *mut ibv_cq,
        channel: *mut ibv_comp_channel,
    ) -> Answer<Self> {
        if qp.is_null() || cq.is_null() || channel.is_null() {
            return Err(Code::INVALID);
        }
        // SAFETY: a channel of libibverbs.
        let fd = unsafe { (*channel).fd };
        Ok(Self {
            qp,
            cq,
            channel,
            fd,
        })
    }

    /// Their protection domain.
    pub(super) fn pd(&self) -> *mut ibv_pd {
        // SAFETY: a queue pair of libibverbs.
        unsafe { (*self.qp).pd }
    }

    pub(super) fn qp_num(&self) -> u32 {
        // SAFETY: a queue pair of libibverbs.
        unsafe { (*self.qp).qp_num.get() }
    }

    /// A slot of the queues' context.
    pub(super) fn slot(&self, at: usize) -> Slot {
        // SAFETY: a queue pair of libibverbs.
        let context: *mut ibv_context = unsafe { (*self.qp).context };
        // SAFETY: its context, which is open.
        let slots = unsafe { &raw const (*context).ops }.cast::<Slot>();
        // SAFETY: one of the 32 slots.
        unsafe { slots.wrapping_add(at).read() }
    }

    pub(super) fn post_write(&self, write: &Write<'_>) -> Answer<()> {
        let raw = write.message.to_raw();
        let is_silent = matches!(
            write.message,
            Message::Direct(_) | Message::Control(Control::KeepAlive)
        );
        let mut request = MaybeUninit::<ibv_send_wr>::zeroed();
        // SAFETY: numbers and pointers, for which zeros are valid.
        let request = unsafe { request.assume_init_mut() };
        request.wr_id = raw.into();
        request.num_sge = c_int::try_from(write.parts.len()).map_err(|_| Code::INVALID)?;
        if !write.parts.is_empty() {
            request.sg_list = write.parts.as_ptr().cast_mut();
        }
        request.opcode = if is_silent { WRITE } else { WRITE_WITH_IMM };
        request.send_flags = if write.is_inline { INLINE } else { 0 };
        request.imm_data = raw.to_be();
        request.wr.first = write.address;
        request.wr.second = [write.key, 0];
        // SAFETY: the slot of `ibv_post_send`.
        let post = unsafe { std::mem::transmute::<Slot, PostSend>(self.slot(25)) };
        let mut bad = std::ptr::null_mut();
        done(post(self.qp, request, &raw mut bad))
    }

    /// Posts receives that have no room, because all that arrives is written elsewhere.
    pub(super) fn post_receives(&self, count: u32) -> Answer<()> {
        // SAFETY: the slot of `ibv_post_recv`.
        let post = unsafe { std::mem::transmute::<Slot, PostReceive>(self.slot(26)) };
        for _ in 0..count {
            let mut request = ibv_recv_wr {
                wr_id: RECEIVE,
                next: std::ptr::null_mut(),
                sg_list: std::ptr::null_mut(),
                num_sge: 0,
            };
            let mut bad = std::ptr::null_mut();
            done(post(self.qp, &raw mut request, &raw mut bad))?;
        }
        Ok(())
    }

    /// Takes completions, as many as there are up to a limit. `None`: the queue is broken.
    pub(super) fn poll(&self, mut each: impl FnMut(Completion)) -> Option<usize> {
        self.poll_raw(|wc| each(completion(wc)))
    }

    pub(super) fn poll_raw(&self, mut each: impl FnMut(&ibv_wc)) -> Option<usize> {
        let mut found = [const { MaybeUninit::<ibv_wc>::zeroed() }; ROOM];
        // SAFETY: the slot of `ibv_poll_cq`.
        let poll = unsafe { std::mem::transmute::<Slot, PollCq>(self.slot(11)) };
        let count = poll(self.cq, BATCH, found.as_mut_ptr().cast());
        let count = usize::try_from(count).ok()?;
        for place in found.iter().take(count) {
            // SAFETY: numbers, for which any bytes are valid.
            each(unsafe { place.assume_init_ref() });
        }
        Some(count)
    }

    /// Asks for an event with the next completion.
    pub(super) fn arm(&self) -> Answer<()> {
        // SAFETY: the slot of `ibv_req_notify_cq`.
        let arm = unsafe { std::mem::transmute::<Slot, RequestNotify>(self.slot(12)) };
        done(arm(self.cq, 0))
    }

    /// Takes an event, if there is one.
    pub(super) fn take_event(&self) -> bool {
        let mut cq = std::ptr::null_mut();
        let mut context: *mut c_void = std::ptr::null_mut();
        if verbs::get_cq_event(self.channel, &mut cq, &mut context).is_err() {
            return false;
        }
        verbs::ack_cq_event(self.cq);
        true
    }
}

fn completion(wc: &ibv_wc) -> Completion {
    let is_good = wc.status == 0;
    if wc.wr_id & RECEIVE == 0 {
        return Completion::Sent {
            message: u32::try_from(wc.wr_id).map_or(Message::Unknown, Message::from_raw),
            is_good,
        };
    }
    if is_good && wc.wc_flags & WITH_IMM != 0 {
        return Completion::Arrived(Message::from_raw(u32::from_be(wc.imm_data)));
    }
    Completion::Nothing
}

pub(super) fn done(code: c_int) -> Answer<()> {
    match code {
        0 => Ok(()),
        ..0 => Err(Code::last()),
        code => Err(Code::new(code)),
    }
}
