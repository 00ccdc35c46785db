//! The pointers that inline functions of the headers call, in an opened device.

use std::ffi::c_int;
use std::ptr::null;

use crate::abi::{Slot, ibv_context, verbs_context};
use crate::errno::{Code, set};
use crate::{
    completion, cq, dv, extended, flow, hints, memory, pd, post, qp, qp_ex, query, sends, srq,
    window,
};

/// What is in slots that no header of today calls.
extern "C" fn unused() -> c_int {
    set(Code::UNSUPPORTED);
    Code::UNSUPPORTED.number()
}

/// The slots of the plain context, none of them NULL: headers do not test.
pub(crate) fn operations() -> [Slot; 32] {
    let mut all = [unused as Slot; 32];
    for (at, slot) in [
        (0, query::ibv_query_device as Slot),
        (1, query::ibv_query_port as Slot),
        (7, window::alloc_mw as Slot),
        (8, window::bind_mw as Slot),
        (9, window::dealloc_mw as Slot),
        (11, completion::poll_cq as Slot),
        (12, cq::req_notify_cq as Slot),
        (20, post::post_srq_recv as Slot),
        (25, sends::post_send as Slot),
        (26, post::post_recv as Slot),
    ] {
        if let Some(place) = all.get_mut(at) {
            *place = slot;
        }
    }
    all
}

/// The extended context. NULL slots make headers answer EOPNOTSUPP.
pub(crate) fn extended(context: ibv_context) -> verbs_context {
    verbs_context {
        free_buf: null(),
        alloc_buf: null(),
        dm_export_dmabuf_fd: dv::ibv_dm_export_dmabuf_fd as Slot,
        reg_mr_ex: hints::ibv_reg_mr_ex as Slot,
        dealloc_dmah: hints::ibv_dealloc_dmah as Slot,
        alloc_dmah: hints::ibv_alloc_dmah as Slot,
        query_port: query::query_port as Slot,
        advise_mr: memory::advise_mr as Slot,
        alloc_null_mr: dv::alloc_null_mr as Slot,
        read_counters: flow::read_counters as Slot,
        attach_counters_point_flow: flow::attach_counters as Slot,
        create_counters: flow::create_counters as Slot,
        destroy_counters: flow::destroy_counters as Slot,
        reg_dm_mr: dv::reg_dm_mr as Slot,
        alloc_dm: dv::alloc_dm as Slot,
        free_dm: dv::free_dm as Slot,
        modify_flow_action_esp: null(),
        destroy_flow_action: dv::destroy_flow_action as Slot,
        create_flow_action_esp: null(),
        modify_qp_rate_limit: dv::modify_qp_rate_limit as Slot,
        alloc_parent_domain: pd::alloc_parent_domain as Slot,
        dealloc_td: pd::dealloc_td as Slot,
        alloc_td: pd::alloc_td as Slot,
        modify_cq: cq::modify_cq as Slot,
        post_srq_ops: null(),
        destroy_rwq_ind_table: dv::destroy_table as Slot,
        create_rwq_ind_table: dv::create_table as Slot,
        destroy_wq: dv::destroy_wq as Slot,
        modify_wq: dv::modify_wq as Slot,
        create_wq: dv::create_wq as Slot,
        query_rt_values: dv::query_rt_values as Slot,
        create_cq_ex: extended::create_cq_ex as Slot,
        r#priv: null(),
        query_device_ex: query::query_device_ex as Slot,
        ibv_destroy_flow: flow::destroy as Slot,
        ABI_placeholder2: null(),
        ibv_create_flow: flow::create as Slot,
        ABI_placeholder1: null(),
        open_qp: qp::open_qp as Slot,
        create_qp_ex: qp_ex::create_qp_ex as Slot,
        get_srq_num: srq::get_srq_num as Slot,
        create_srq_ex: srq::create_srq_ex as Slot,
        open_xrcd: dv::open_xrcd as Slot,
        close_xrcd: dv::close_xrcd as Slot,
        _ABI_placeholder3: 0,
        sz: size_of::<verbs_context>(),
        context,
    }
}
