//! What queues for datagrams do by slots, and address handles.
//!
//! # Safety
//!
//! As `rsocket::queues`. An address handle is libibverbs' own, and lives until each datagram that
//! was posted with it is complete; its domain is not destroyed before.
#![allow(unsafe_code, reason = "calls a C library through its slots")]

use std::mem::MaybeUninit;

use uverbs_compat_base::abi::{
    Slot, ibv_ah, ibv_ah_attr, ibv_pd, ibv_recv_wr, ibv_send_wr, ibv_sge,
};

use super::super::queues::{INLINE, PostReceive, PostSend, Queues, RECEIVE, done};
use crate::answer::Answer;
use crate::verbs;

/// `IBV_WR_SEND`.
const SEND: u32 = 2;
/// `RDMA_UDP_QKEY`: the key of queue pairs for the port space of UDP.
const KEY: u32 = 0x0123_4567;
/// Bytes in front of each datagram that is received: a header of the network.
pub(super) const HEADER: u32 = 40;

/// The way to a peer.
#[derive(Debug)]
pub(super) struct Handle(*mut ibv_ah);

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    pub(super) fn new(pd: *mut ibv_pd, mut attr: ibv_ah_attr) -> Answer<Self> {
        verbs::create_ah(pd, &mut attr).map(Self)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = verbs::destroy_ah(self.0);
    }
}

/// What has become of a request with this number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Completion {
    /// So many bytes, with the network's header; none if it failed.
    Arrived(usize, u32),
    Sent(usize),
}

impl Queues {
    /// Sends what is in a part, from the request with this number.
    pub(super) fn post_datagram(
        &self,
        number: usize,
        mut part: ibv_sge,
        to: (&Handle, u32),
        is_inline: bool,
    ) -> Answer<()> {
        let mut request = MaybeUninit::<ibv_send_wr>::zeroed();
        // SAFETY: numbers and pointers, for which zeros are valid.
        let request = unsafe { request.assume_init_mut() };
        request.wr_id = number as u64;
        request.sg_list = &raw mut part;
        request.num_sge = 1;
        request.opcode = SEND;
        request.send_flags = if is_inline { INLINE } else { 0 };
        request.wr.first = to.0.0.expose_provenance() as u64;
        request.wr.second = [to.1, KEY];
        // SAFETY: the slot of `ibv_post_send`.
        let post = unsafe { std::mem::transmute::<Slot, PostSend>(self.slot(25)) };
        let mut bad = std::ptr::null_mut();
        done(post(self.qp, request, &raw mut bad))
    }

    /// Gives room for one datagram: for the network's header, and for the rest.
    pub(super) fn post_room(&self, number: usize, mut parts: [ibv_sge; 2]) -> Answer<()> {
        // SAFETY: the slot of `ibv_post_recv`.
        let post = unsafe { std::mem::transmute::<Slot, PostReceive>(self.slot(26)) };
        let mut request = ibv_recv_wr {
            wr_id: RECEIVE | number as u64,
            next: std::ptr::null_mut(),
            sg_list: parts.as_mut_ptr(),
            num_sge: 2,
        };
        let mut bad = std::ptr::null_mut();
        done(post(self.qp, &raw mut request, &raw mut bad))
    }

    /// Takes completions of datagrams, as many as there are up to a limit. `None`: the queue is
    /// broken.
    pub(super) fn poll_datagrams(&self, mut each: impl FnMut(Completion)) -> Option<usize> {
        self.poll_raw(|wc| {
            let number = (wc.wr_id & !RECEIVE) as usize;
            if wc.wr_id & RECEIVE == 0 {
                return each(Completion::Sent(number));
            }
            let length = if wc.status == 0 { wc.byte_len } else { 0 };
            each(Completion::Arrived(number, length));
        })
    }
}
