//! Objects: protection domains, memory, queues.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicI32;

use super::{Slot, ibv_context, structs};
use crate::wait::{Condition, Mutex};

structs! {
    pub const OBJECTS;
    struct ibv_pd {
        context: *mut ibv_context,
        handle: u32,
    }
    struct ibv_td {
        context: *mut ibv_context,
    }
    struct ibv_xrcd {
        context: *mut ibv_context,
    }
    struct ibv_dm {
        context: *mut ibv_context,
        memcpy_to_dm: Slot,
        memcpy_from_dm: Slot,
        comp_mask: u32,
        handle: u32,
    }
    struct ibv_mr {
        context: *mut ibv_context,
        pd: Cell<*mut ibv_pd>,
        addr: Cell<*mut c_void>,
        length: Cell<usize>,
        handle: u32,
        lkey: Cell<u32>,
        rkey: Cell<u32>,
    }
    struct ibv_mw {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        rkey: Cell<u32>,
        handle: u32,
        r#type: u32,
    }
    struct ibv_ah {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        handle: u32,
    }
    struct ibv_comp_channel {
        context: *mut ibv_context,
        fd: c_int,
        refcnt: AtomicI32,
    }
    struct ibv_cq {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: Cell<c_int>,
        mutex: Mutex,
        cond: Condition,
        comp_events_completed: Cell<u32>,
        async_events_completed: Cell<u32>,
    }
    struct ibv_cq_ex {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: Cell<c_int>,
        mutex: Mutex,
        cond: Condition,
        comp_events_completed: Cell<u32>,
        async_events_completed: Cell<u32>,
        comp_mask: u32,
        status: Cell<u32>,
        wr_id: Cell<u64>,
        start_poll: Slot,
        next_poll: Slot,
        end_poll: Slot,
        read_opcode: Slot,
        read_vendor_err: Slot,
        read_byte_len: Slot,
        read_imm_data: Slot,
        read_qp_num: Slot,
        read_src_qp: Slot,
        read_wc_flags: Slot,
        read_slid: Slot,
        read_sl: Slot,
        read_dlid_path_bits: Slot,
        read_completion_ts: Slot,
        read_cvlan: Slot,
        read_flow_tag: Slot,
        read_tm_info: Slot,
        read_completion_wallclock_ns: Slot,
    }
    struct ibv_srq {
        context: *mut ibv_context,
        srq_context: *mut c_void,
        pd: *mut ibv_pd,
        handle: u32,
        mutex: Mutex,
        cond: Condition,
        events_completed: Cell<u32>,
    }
    struct ibv_qp {
        context: *mut ibv_context,
        qp_context: *mut c_void,
        pd: *mut ibv_pd,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        handle: u32,
        qp_num: Cell<u32>,
        state: Cell<u32>,
        qp_type: u32,
        mutex: Mutex,
        cond: Condition,
        events_completed: Cell<u32>,
    }
    struct ibv_qp_ex {
        qp_base: ibv_qp,
        comp_mask: u64,
        wr_id: Cell<u64>,
        wr_flags: Cell<u32>,
        wr_atomic_cmp_swp: Slot,
        wr_atomic_fetch_add: Slot,
        wr_bind_mw: Slot,
        wr_local_inv: Slot,
        wr_rdma_read: Slot,
        wr_rdma_write: Slot,
        wr_rdma_write_imm: Slot,
        wr_send: Slot,
        wr_send_imm: Slot,
        wr_send_inv: Slot,
        wr_send_tso: Slot,
        wr_set_ud_addr: Slot,
        wr_set_xrc_srqn: Slot,
        wr_set_inline_data: Slot,
        wr_set_inline_data_list: Slot,
        wr_set_sge: Slot,
        wr_set_sge_list: Slot,
        wr_start: Slot,
        wr_complete: Slot,
        wr_abort: Slot,
        wr_atomic_write: Slot,
        wr_flush: Slot,
    }
    struct ibv_wq {
        context: *mut ibv_context,
        wq_context: Cell<*mut c_void>,
        pd: *mut ibv_pd,
        cq: *mut ibv_cq,
        wq_num: u32,
        handle: u32,
        state: Cell<u32>,
        wq_type: u32,
        post_recv: Slot,
        mutex: Mutex,
        cond: Condition,
        events_completed: Cell<u32>,
        comp_mask: u32,
    }
    struct ibv_rwq_ind_table {
        context: *mut ibv_context,
        ind_tbl_handle: c_int,
        ind_tbl_num: c_int,
        comp_mask: u32,
    }
    struct ibv_flow {
        comp_mask: u32,
        context: *mut ibv_context,
        handle: u32,
    }
    struct ibv_counters {
        context: *mut ibv_context,
    }
    struct ibv_async_event {
        element: u64,
        event_type: u32,
    }
}
