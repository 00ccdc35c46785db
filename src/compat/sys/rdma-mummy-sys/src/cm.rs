//! Inline functions of `rdma/rdma_cma.h` and `rdma/rdma_verbs.h`.
//!
//! # Safety
//!
//! Each of these functions demands what the C function of its name demands: that the id has the
//! queues that are used, and that memory is registered until its request ends.
#![allow(unsafe_code, reason = "posts requests of an id's queues")]
#![allow(missing_docs, reason = "the names of the headers")]

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use libc::sockaddr;

use crate::bindings::{
    ibv_access_flags, ibv_ack_cq_events, ibv_ah, ibv_comp_channel, ibv_cq, ibv_dereg_mr,
    ibv_get_cq_event, ibv_mr, ibv_recv_wr, ibv_reg_mr, ibv_sge, ibv_wr_opcode, rdma_cm_id,
};
use crate::queues::{
    ibv_poll_cq, ibv_post_recv, ibv_post_send, ibv_post_srq_recv, ibv_req_notify_cq,
};
use crate::slots::set_errno;
use crate::types::{ibv_send_wr, ibv_wc, rdma_t, ud_t, wr_t};

pub const RDMA_IB_IP_PS_MASK: u64 = 0xffff_ffff_ffff_0000;
pub const RDMA_IB_IP_PORT_MASK: u64 = 0xffff;
pub const RDMA_IB_IP_PS_TCP: u64 = 0x0106_0000;
pub const RDMA_IB_IP_PS_UDP: u64 = 0x0111_0000;
pub const RDMA_IB_PS_IB: u64 = 0x013f_0000;

pub const RDMA_UDP_QKEY: u32 = 0x0123_4567;

pub const RAI_PASSIVE: u32 = 1;
pub const RAI_NUMERICHOST: u32 = 1 << 1;
pub const RAI_NOROUTE: u32 = 1 << 2;
pub const RAI_FAMILY: u32 = 1 << 3;

/// `rdma_get_local_addr`—the address of this side.
///
/// # Safety
/// The id has one.
#[inline]
pub unsafe fn rdma_get_local_addr(id: &rdma_cm_id) -> &sockaddr {
    // SAFETY: all members of the union begin with a `sockaddr`.
    unsafe { &id.route.addr.src_addr_union.src_addr }
}

/// `rdma_get_peer_addr`—the address of the other side.
///
/// # Safety
/// The id has one.
#[inline]
pub unsafe fn rdma_get_peer_addr(id: &rdma_cm_id) -> &sockaddr {
    // SAFETY: all members of the union begin with a `sockaddr`.
    unsafe { &id.route.addr.dst_addr_union.dst_addr }
}

/// `rdma_seterrno`—an error number becomes -1 and `errno`.
///
/// # Safety
/// None is needed; C's function has none to demand either.
#[inline]
pub unsafe fn rdma_seterrno(ret: c_int) -> c_int {
    as_errno(ret)
}

fn as_errno(number: c_int) -> c_int {
    if number == 0 {
        return 0;
    }
    set_errno(number);
    -1
}

/// Registers memory in the id's protection domain.
macro_rules! registrations {
    ($($name:ident = $access:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`—registers memory in the id's domain.")]
        ///
        /// # Safety
        /// As for the C function.
        #[inline]
        pub unsafe fn $name(id: *mut rdma_cm_id, addr: *mut c_void, length: usize) -> *mut ibv_mr {
            let access: ibv_access_flags = $access;
            // SAFETY: the caller promises that the id exists.
            let pd = unsafe { (*id).pd };
            // SAFETY: the caller promises the same of the domain and the memory.
            unsafe { ibv_reg_mr(pd, addr, length, access.0.cast_signed()) }
        }
    )*};
}

registrations! {
    rdma_reg_msgs = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
    rdma_reg_read = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | ibv_access_flags::IBV_ACCESS_REMOTE_READ;
    rdma_reg_write = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
}

/// `rdma_dereg_mr`—ends a registration.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn rdma_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: the caller's promises are passed on.
    as_errno(unsafe { ibv_dereg_mr(mr) })
}

/// What a send request does, with its arguments.
struct Wanted {
    opcode: ibv_wr_opcode::Type,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
    peer: Option<wr_t>,
}

/// # Safety
/// As for the C functions that call it.
unsafe fn post(id: *mut rdma_cm_id, wanted: Wanted) -> c_int {
    // SAFETY: a request consists of numbers and of pointers that may be null.
    let mut wr = unsafe { std::mem::zeroed::<ibv_send_wr>() };
    wr.wr_id = wanted.context.addr() as u64;
    wr.sg_list = wanted.sgl;
    wr.num_sge = wanted.nsge;
    wr.opcode = wanted.opcode;
    wr.send_flags = wanted.flags.cast_unsigned();
    if let Some(peer) = wanted.peer {
        wr.wr = peer;
    }
    let mut bad = null_mut();
    // SAFETY: the caller promises that the id exists.
    let qp = unsafe { (*id).qp };
    // SAFETY: the caller promises the same of its queue and of the memory.
    as_errno(unsafe { ibv_post_send(qp, &raw mut wr, &raw mut bad) })
}

fn remote(remote_addr: u64, rkey: u32) -> wr_t {
    wr_t {
        rdma: rdma_t { remote_addr, rkey },
    }
}

/// `rdma_post_recvv`—into several places.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn rdma_post_recvv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
) -> c_int {
    let mut wr = ibv_recv_wr {
        wr_id: context.addr() as u64,
        next: null_mut(),
        sg_list: sgl,
        num_sge: nsge,
    };
    let mut bad = null_mut();
    // SAFETY: the caller promises that the id exists.
    let srq = unsafe { (*id).srq };
    as_errno(if srq.is_null() {
        // SAFETY: as above.
        let qp = unsafe { (*id).qp };
        // SAFETY: the caller promises the same of its queue and of the memory.
        unsafe { ibv_post_recv(qp, &raw mut wr, &raw mut bad) }
    } else {
        // SAFETY: as above.
        unsafe { ibv_post_srq_recv(srq, &raw mut wr, &raw mut bad) }
    })
}

/// `rdma_post_sendv`—from several places.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn rdma_post_sendv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
) -> c_int {
    let wanted = Wanted {
        opcode: ibv_wr_opcode::IBV_WR_SEND,
        context,
        sgl,
        nsge,
        flags,
        peer: None,
    };
    // SAFETY: the caller's promises are passed on.
    unsafe { post(id, wanted) }
}

/// `rdma_post_readv`—into several places.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn rdma_post_readv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> c_int {
    let wanted = Wanted {
        opcode: ibv_wr_opcode::IBV_WR_RDMA_READ,
        context,
        sgl,
        nsge,
        flags,
        peer: Some(remote(remote_addr, rkey)),
    };
    // SAFETY: the caller's promises are passed on.
    unsafe { post(id, wanted) }
}

/// `rdma_post_writev`—from several places.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn rdma_post_writev(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> c_int {
    let wanted = Wanted {
        opcode: ibv_wr_opcode::IBV_WR_RDMA_WRITE,
        context,
        sgl,
        nsge,
        flags,
        peer: Some(remote(remote_addr, rkey)),
    };
    // SAFETY: the caller's promises are passed on.
    unsafe { post(id, wanted) }
}

/// One place in registered memory. Inline data need no key.
///
/// # Safety
/// The region exists, unless it is null.
#[expect(
    clippy::cast_possible_truncation,
    reason = "C's functions take a size and pass on its lower 32 bits"
)]
unsafe fn place(addr: *mut c_void, length: usize, mr: *mut ibv_mr) -> ibv_sge {
    let lkey = if mr.is_null() {
        0
    } else {
        // SAFETY: the caller promises that it exists.
        unsafe { (*mr).lkey }
    };
    ibv_sge {
        addr: addr.addr() as u64,
        length: length as u32,
        lkey,
    }
}

/// `rdma_post_recv`—into one place, which is in the region (EINVAL otherwise).
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn rdma_post_recv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
) -> c_int {
    // SAFETY: the caller promises that the region exists.
    let start = unsafe { (*mr).addr }.addr();
    // SAFETY: as above.
    let size = unsafe { (*mr).length };
    let before = addr.addr().checked_sub(start);
    let fits = before.is_some_and(|before| before.saturating_add(length) <= size);
    if !fits {
        return as_errno(libc::EINVAL);
    }
    // SAFETY: as above.
    let mut sge = unsafe { place(addr, length, mr) };
    // SAFETY: the caller's promises are passed on.
    unsafe { rdma_post_recvv(id, context, &raw mut sge, 1) }
}

/// `rdma_post_send`—from one place.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn rdma_post_send(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller promises that the region exists.
    let mut sge = unsafe { place(addr, length, mr) };
    // SAFETY: the caller's promises are passed on.
    unsafe { rdma_post_sendv(id, context, &raw mut sge, 1, flags) }
}

/// `rdma_post_read`—into one place.
///
/// # Safety
/// As for the C function.
#[inline]
#[expect(clippy::too_many_arguments, reason = "those of the C function")]
pub unsafe fn rdma_post_read(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> c_int {
    // SAFETY: the caller promises that the region exists.
    let mut sge = unsafe { place(addr, length, mr) };
    // SAFETY: the caller's promises are passed on.
    unsafe { rdma_post_readv(id, context, &raw mut sge, 1, flags, remote_addr, rkey) }
}

/// `rdma_post_write`—from one place.
///
/// # Safety
/// As for the C function.
#[inline]
#[expect(clippy::too_many_arguments, reason = "those of the C function")]
pub unsafe fn rdma_post_write(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> c_int {
    // SAFETY: the caller promises that the region exists.
    let mut sge = unsafe { place(addr, length, mr) };
    // SAFETY: the caller's promises are passed on.
    unsafe { rdma_post_writev(id, context, &raw mut sge, 1, flags, remote_addr, rkey) }
}

/// `rdma_post_ud_send`—from one place to a datagram queue pair.
///
/// # Safety
/// As for the C function.
#[inline]
#[expect(clippy::too_many_arguments, reason = "those of the C function")]
pub unsafe fn rdma_post_ud_send(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    ah: *mut ibv_ah,
    remote_qpn: u32,
) -> c_int {
    // SAFETY: the caller promises that the region exists.
    let mut sge = unsafe { place(addr, length, mr) };
    let ud = ud_t {
        ah,
        remote_qpn,
        remote_qkey: RDMA_UDP_QKEY,
    };
    let wanted = Wanted {
        opcode: ibv_wr_opcode::IBV_WR_SEND,
        context,
        sgl: &raw mut sge,
        nsge: 1,
        flags,
        peer: Some(wr_t { ud }),
    };
    // SAFETY: the caller's promises are passed on.
    unsafe { post(id, wanted) }
}

/// Takes one completion, and waits for it if there is none.
///
/// # Safety
/// The queue and its channel exist, and the struct can be written to.
unsafe fn completion(cq: *mut ibv_cq, channel: *mut ibv_comp_channel, wc: *mut ibv_wc) -> c_int {
    // SAFETY: as the caller promises.
    let poll = || unsafe { ibv_poll_cq(cq, 1, wc) };
    let found = loop {
        let found = poll();
        if found != 0 {
            break found;
        }
        // SAFETY: as the caller promises.
        let refused = unsafe { ibv_req_notify_cq(cq, 0) };
        if refused != 0 {
            return as_errno(refused);
        }
        // One that came before the request makes no event.
        let found = poll();
        if found != 0 {
            break found;
        }
        let (mut of, mut context) = (null_mut(), null_mut());
        // SAFETY: as the caller promises.
        let failed = unsafe { ibv_get_cq_event(channel, &raw mut of, &raw mut context) };
        if failed != 0 {
            return failed;
        }
        // SAFETY: it is the queue that the event is of.
        unsafe { ibv_ack_cq_events(of, 1 as c_uint) };
    };
    if found < 0 { as_errno(found) } else { found }
}

/// `rdma_get_send_comp`—waits for the completion of a request to send.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn rdma_get_send_comp(id: *mut rdma_cm_id, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the caller promises that the id exists.
    let cq = unsafe { (*id).send_cq };
    // SAFETY: as above.
    let channel = unsafe { (*id).send_cq_channel };
    // SAFETY: the caller promises the same of its queue.
    unsafe { completion(cq, channel, wc) }
}

/// `rdma_get_recv_comp`—waits for the completion of a receive.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn rdma_get_recv_comp(id: *mut rdma_cm_id, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the caller promises that the id exists.
    let cq = unsafe { (*id).recv_cq };
    // SAFETY: as above.
    let channel = unsafe { (*id).recv_cq_channel };
    // SAFETY: the caller promises the same of its queue.
    unsafe { completion(cq, channel, wc) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receive_outside_of_its_region_is_refused() {
        // SAFETY: it consists of numbers and of pointers that may be null.
        let mut mr = unsafe { std::mem::zeroed::<ibv_mr>() };
        mr.addr = std::ptr::without_provenance_mut(0x1000);
        mr.length = 0x100;
        for (address, length) in [
            (0xfff, 1),
            (0x1000, 0x101),
            (0x1100, 1),
            (0x1000, usize::MAX),
        ] {
            set_errno(0);
            let addr = std::ptr::without_provenance_mut(address);
            // SAFETY: the region exists, and nothing else is touched before it is compared.
            let answer =
                unsafe { rdma_post_recv(null_mut(), null_mut(), addr, length, &raw mut mr) };
            let errno = std::io::Error::last_os_error().raw_os_error();
            assert_eq!((answer, errno), (-1, Some(libc::EINVAL)), "{address:#x}");
        }
    }
}
