//! What queues do: requests, completions, and reading them one by one.
//!
//! # Safety
//!
//! As in `slots`.
#![allow(unsafe_code, reason = "calls what objects of C point to")]

use std::ffi::{c_int, c_uint, c_void};

use crate::bindings::{
    __be32, ibv_ah, ibv_cq, ibv_cq_ex, ibv_data_buf, ibv_mw, ibv_mw_bind, ibv_mw_type,
    ibv_poll_cq_attr, ibv_qp, ibv_qp_ex, ibv_recv_wr, ibv_sge, ibv_srq, ibv_wc_opcode,
    ibv_wc_tm_info, ibv_wq,
};
use crate::slots::{extended_slot, operations, own_slots};
use crate::types::{ibv_mw_bind_info, ibv_ops_wr, ibv_send_wr, ibv_wc};

own_slots! { ibv_qp_ex;
    ibv_wr_atomic_cmp_swp = wr_atomic_cmp_swp(rkey: u32, remote_addr: u64, compare: u64, swap: u64);
    ibv_wr_atomic_fetch_add = wr_atomic_fetch_add(rkey: u32, remote_addr: u64, add: u64);
    ibv_wr_bind_mw = wr_bind_mw(mw: *mut ibv_mw, rkey: u32, bind_info: *const ibv_mw_bind_info);
    ibv_wr_local_inv = wr_local_inv(invalidate_rkey: u32);
    ibv_wr_rdma_read = wr_rdma_read(rkey: u32, remote_addr: u64);
    ibv_wr_rdma_write = wr_rdma_write(rkey: u32, remote_addr: u64);
    ibv_wr_rdma_write_imm = wr_rdma_write_imm(rkey: u32, remote_addr: u64, imm_data: __be32);
    ibv_wr_send = wr_send();
    ibv_wr_send_imm = wr_send_imm(imm_data: __be32);
    ibv_wr_send_inv = wr_send_inv(invalidate_rkey: u32);
    ibv_wr_send_tso = wr_send_tso(hdr: *mut c_void, hdr_sz: u16, mss: u16);
    ibv_wr_set_ud_addr = wr_set_ud_addr(ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32);
    ibv_wr_set_xrc_srqn = wr_set_xrc_srqn(remote_srqn: u32);
    ibv_wr_set_inline_data = wr_set_inline_data(addr: *mut c_void, length: usize);
    ibv_wr_set_inline_data_list = wr_set_inline_data_list(
        num_buf: usize, buf_list: *const ibv_data_buf
    );
    ibv_wr_set_sge = wr_set_sge(lkey: u32, addr: u64, length: u32);
    ibv_wr_set_sge_list = wr_set_sge_list(num_sge: usize, sg_list: *const ibv_sge);
    ibv_wr_start = wr_start();
    ibv_wr_complete = wr_complete() -> c_int;
    ibv_wr_abort = wr_abort();
}

own_slots! { ibv_cq_ex;
    ibv_start_poll = start_poll(attr: *mut ibv_poll_cq_attr) -> c_int;
    ibv_next_poll = next_poll() -> c_int;
    ibv_end_poll = end_poll();
    ibv_wc_read_opcode = read_opcode() -> ibv_wc_opcode::Type;
    ibv_wc_read_vendor_err = read_vendor_err() -> u32;
    ibv_wc_read_byte_len = read_byte_len() -> u32;
    ibv_wc_read_imm_data = read_imm_data() -> __be32;
    ibv_wc_read_invalidated_rkey = read_imm_data() -> u32;
    ibv_wc_read_qp_num = read_qp_num() -> u32;
    ibv_wc_read_src_qp = read_src_qp() -> u32;
    ibv_wc_read_wc_flags = read_wc_flags() -> c_uint;
    ibv_wc_read_slid = read_slid() -> u32;
    ibv_wc_read_sl = read_sl() -> u8;
    ibv_wc_read_dlid_path_bits = read_dlid_path_bits() -> u8;
    ibv_wc_read_completion_ts = read_completion_ts() -> u64;
    ibv_wc_read_completion_wallclock_ns = read_completion_wallclock_ns() -> u64;
    ibv_wc_read_cvlan = read_cvlan() -> u16;
    ibv_wc_read_flow_tag = read_flow_tag() -> u32;
    ibv_wc_read_tm_info = read_tm_info(tm_info: *mut ibv_wc_tm_info);
}

own_slots! { ibv_wq;
    ibv_post_wq_recv = post_recv(
        recv_wr: *mut ibv_recv_wr, bad_recv_wr: *mut *mut ibv_recv_wr
    ) -> c_int;
}

operations! {
    ibv_poll_cq = poll_cq(cq: *mut ibv_cq, num_entries: i32, wc: *mut ibv_wc) -> c_int;
    ibv_req_notify_cq = req_notify_cq(cq: *mut ibv_cq, solicited_only: i32) -> c_int;
    ibv_post_send = post_send(
        qp: *mut ibv_qp, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr
    ) -> c_int;
    ibv_post_recv = post_recv(
        qp: *mut ibv_qp, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr
    ) -> c_int;
    ibv_post_srq_recv = post_srq_recv(
        srq: *mut ibv_srq, recv_wr: *mut ibv_recv_wr, bad_recv_wr: *mut *mut ibv_recv_wr
    ) -> c_int;
    bind_mw_of_first_type = bind_mw(
        qp: *mut ibv_qp, mw: *mut ibv_mw, mw_bind: *mut ibv_mw_bind
    ) -> c_int;
}

/// `ibv_bind_mw`—only for windows of the first type.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn ibv_bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, mw_bind: *mut ibv_mw_bind) -> c_int {
    // SAFETY: the caller promises that the window exists.
    if unsafe { (*mw).type_ } != ibv_mw_type::IBV_MW_TYPE_1 {
        return libc::EINVAL;
    }
    // SAFETY: the caller's promises are passed on.
    unsafe { bind_mw_of_first_type(qp, mw, mw_bind) }
}

/// `ibv_post_srq_ops`—changes of a list of tags.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn ibv_post_srq_ops(
    srq: *mut ibv_srq,
    op: *mut ibv_ops_wr,
    bad_op: *mut *mut ibv_ops_wr,
) -> c_int {
    if let Some(function) = extended_slot!(post_srq_ops of srq) {
        // SAFETY: the caller promises what it demands.
        return unsafe { function(srq, op, bad_op) };
    }
    // SAFETY: the caller promises that it can be written to.
    unsafe { *bad_op = op };
    libc::EOPNOTSUPP
}

/// `ibv_cq_ex_to_cq`—both structs begin alike.
///
/// # Safety
/// None is needed; C's function has none to demand either.
#[inline]
pub unsafe fn ibv_cq_ex_to_cq(cq: *mut ibv_cq_ex) -> *mut ibv_cq {
    cq.cast()
}
