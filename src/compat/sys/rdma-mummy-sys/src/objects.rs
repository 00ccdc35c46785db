//! Creating, changing and destroying objects, and asking devices.
//!
//! # Safety
//!
//! As in `slots`. Structs that are filled with zeros consist of numbers.
#![allow(unsafe_code, reason = "calls what objects of C point to")]
#![allow(
    non_camel_case_types,
    non_upper_case_globals,
    missing_docs,
    reason = "the names of the headers"
)]

use std::ffi::{c_int, c_void};

use crate::bindings::{
    _compat_ibv_port_attr, _ibv_query_gid_ex, _ibv_query_gid_table, ib_uverbs_advise_mr_advice,
    ibv_alloc_dm_attr, ibv_context, ibv_counter_attach_attr, ibv_counters, ibv_counters_init_attr,
    ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_create_qp, ibv_create_srq, ibv_device_attr_ex,
    ibv_dm, ibv_flow, ibv_flow_action, ibv_flow_action_esp_attr, ibv_flow_attr, ibv_modify_cq_attr,
    ibv_mr, ibv_mw, ibv_mw_type, ibv_parent_domain_init_attr, ibv_pd, ibv_port_attr, ibv_qp,
    ibv_qp_init_attr_ex, ibv_qp_init_attr_mask, ibv_qp_open_attr, ibv_qp_rate_limit_attr,
    ibv_qp_type, ibv_query_device, ibv_query_device_ex_input, ibv_rwq_ind_table,
    ibv_rwq_ind_table_init_attr, ibv_sge, ibv_srq, ibv_srq_init_attr_ex, ibv_srq_init_attr_mask,
    ibv_srq_type, ibv_td, ibv_td_init_attr, ibv_values_ex, ibv_wq, ibv_wq_attr, ibv_wq_init_attr,
    ibv_xrcd, ibv_xrcd_init_attr,
};
use crate::slots::{extended_slot, extended_slots, operations, own_slots};
use crate::types::ibv_gid_entry;

pub type ibv_advise_mr_advice = ib_uverbs_advise_mr_advice::Type;

pub const IBV_LINK_LAYER_UNSPECIFIED: u8 = 0;
pub const IBV_LINK_LAYER_INFINIBAND: u8 = 1;
pub const IBV_LINK_LAYER_ETHERNET: u8 = 2;

extended_slots! {
    ibv_create_flow = ibv_create_flow(qp: *mut ibv_qp, flow: *mut ibv_flow_attr) -> *mut ibv_flow;
    ibv_destroy_flow = ibv_destroy_flow(flow_id: *mut ibv_flow) -> c_int;
    ibv_create_flow_action_esp = create_flow_action_esp(
        ctx: *mut ibv_context, esp: *mut ibv_flow_action_esp_attr
    ) -> *mut ibv_flow_action;
    ibv_modify_flow_action_esp = modify_flow_action_esp(
        action: *mut ibv_flow_action, esp: *mut ibv_flow_action_esp_attr
    ) -> c_int;
    ibv_destroy_flow_action = destroy_flow_action(action: *mut ibv_flow_action) -> c_int;
    ibv_open_xrcd = open_xrcd(
        context: *mut ibv_context, xrcd_init_attr: *mut ibv_xrcd_init_attr
    ) -> *mut ibv_xrcd;
    ibv_close_xrcd = close_xrcd(xrcd: *mut ibv_xrcd) -> c_int;
    ibv_advise_mr = advise_mr(
        pd: *mut ibv_pd, advice: ibv_advise_mr_advice, flags: u32, sg_list: *mut ibv_sge,
        num_sge: u32
    ) -> c_int;
    ibv_alloc_dm = alloc_dm(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm;
    ibv_free_dm = free_dm(dm: *mut ibv_dm) -> c_int;
    ibv_alloc_null_mr = alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr;
    ibv_reg_dm_mr = reg_dm_mr(
        pd: *mut ibv_pd, dm: *mut ibv_dm, dm_offset: u64, length: usize, access: u32
    ) -> *mut ibv_mr;
    ibv_create_cq_ex = create_cq_ex(
        context: *mut ibv_context, cq_attr: *mut ibv_cq_init_attr_ex
    ) -> *mut ibv_cq_ex;
    ibv_modify_cq = modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int;
    ibv_get_srq_num = get_srq_num(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int;
    ibv_alloc_td = alloc_td(
        context: *mut ibv_context, init_attr: *mut ibv_td_init_attr
    ) -> *mut ibv_td;
    ibv_dealloc_td = dealloc_td(td: *mut ibv_td) -> c_int;
    ibv_alloc_parent_domain = alloc_parent_domain(
        context: *mut ibv_context, attr: *mut ibv_parent_domain_init_attr
    ) -> *mut ibv_pd;
    ibv_query_rt_values_ex = query_rt_values(
        context: *mut ibv_context, values: *mut ibv_values_ex
    ) -> c_int;
    ibv_open_qp = open_qp(
        context: *mut ibv_context, qp_open_attr: *mut ibv_qp_open_attr
    ) -> *mut ibv_qp;
    ibv_modify_qp_rate_limit = modify_qp_rate_limit(
        qp: *mut ibv_qp, attr: *mut ibv_qp_rate_limit_attr
    ) -> c_int;
    ibv_create_wq = create_wq(
        context: *mut ibv_context, wq_init_attr: *mut ibv_wq_init_attr
    ) -> *mut ibv_wq;
    ibv_modify_wq = modify_wq(wq: *mut ibv_wq, wq_attr: *mut ibv_wq_attr) -> c_int;
    ibv_destroy_wq = destroy_wq(wq: *mut ibv_wq) -> c_int;
    ibv_create_rwq_ind_table = create_rwq_ind_table(
        context: *mut ibv_context, init_attr: *mut ibv_rwq_ind_table_init_attr
    ) -> *mut ibv_rwq_ind_table;
    ibv_destroy_rwq_ind_table = destroy_rwq_ind_table(
        rwq_ind_table: *mut ibv_rwq_ind_table
    ) -> c_int;
    ibv_create_counters = create_counters(
        context: *mut ibv_context, init_attr: *mut ibv_counters_init_attr
    ) -> *mut ibv_counters;
    ibv_destroy_counters = destroy_counters(counters: *mut ibv_counters) -> c_int;
    ibv_attach_counters_point_flow = attach_counters_point_flow(
        counters: *mut ibv_counters, attr: *mut ibv_counter_attach_attr, flow: *mut ibv_flow
    ) -> c_int;
    ibv_read_counters = read_counters(
        counters: *mut ibv_counters, counters_value: *mut u64, ncounters: u32, flags: u32
    ) -> c_int;
    create_srq_of_any_kind = create_srq_ex(
        context: *mut ibv_context, srq_init_attr_ex: *mut ibv_srq_init_attr_ex
    ) -> *mut ibv_srq;
    create_qp_of_any_kind = create_qp_ex(
        context: *mut ibv_context, qp_init_attr_ex: *mut ibv_qp_init_attr_ex
    ) -> *mut ibv_qp;
}

operations! {
    ibv_alloc_mw = alloc_mw(pd: *mut ibv_pd, type_: ibv_mw_type::Type) -> *mut ibv_mw;
    ibv_dealloc_mw = dealloc_mw(mw: *mut ibv_mw) -> c_int;
}

own_slots! { ibv_dm;
    ibv_memcpy_to_dm = memcpy_to_dm(
        dm_offset: u64, host_addr: *const c_void, length: usize
    ) -> c_int;
}

/// `ibv_memcpy_from_dm`—the device memory is its second argument.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn ibv_memcpy_from_dm(
    host_addr: *mut c_void,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
) -> c_int {
    // SAFETY: the caller promises that it exists.
    let slot = unsafe { (*dm).memcpy_from_dm };
    // SAFETY: `uverbs-compat` fills this slot of every device memory.
    let function = unsafe { slot.unwrap_unchecked() };
    // SAFETY: the caller promises what it demands.
    unsafe { function(host_addr, dm, dm_offset, length) }
}

/// `ibv_inc_rkey`—the key of a window that is bound anew: its last byte is one more.
///
/// # Safety
/// None is needed; C's function has none to demand either.
#[inline]
pub unsafe fn ibv_inc_rkey(rkey: u32) -> u32 {
    rkey & !0xff | rkey.wrapping_add(1) & 0xff
}

/// `ibv_is_qpt_supported`—whether a bit is set.
///
/// # Safety
/// None is needed; C's function has none to demand either.
#[inline]
pub unsafe fn ibv_is_qpt_supported(caps: u32, qpt: ibv_qp_type::Type) -> c_int {
    let bit = 1_u32.checked_shl(qpt).unwrap_or(0);
    c_int::from(caps & bit != 0)
}

/// `ibv_create_srq_ex`—a plain one, if nothing else is asked for.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn ibv_create_srq_ex(
    context: *mut ibv_context,
    srq_init_attr_ex: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    let domain = ibv_srq_init_attr_mask::IBV_SRQ_INIT_ATTR_PD.0;
    let kind = ibv_srq_init_attr_mask::IBV_SRQ_INIT_ATTR_TYPE.0;
    // SAFETY: the caller promises that the struct is filled in.
    let mask = unsafe { (*srq_init_attr_ex).comp_mask };
    // SAFETY: as above.
    let of_kind = unsafe { (*srq_init_attr_ex).srq_type };
    let is_basic = mask & kind == 0 || of_kind == ibv_srq_type::IBV_SRQT_BASIC;
    if mask & !(domain | kind) == 0 && mask & domain != 0 && is_basic {
        // SAFETY: as above.
        let pd = unsafe { (*srq_init_attr_ex).pd };
        // SAFETY: the long struct begins as the short one does.
        return unsafe { ibv_create_srq(pd, srq_init_attr_ex.cast()) };
    }
    // SAFETY: the caller's promises are passed on.
    unsafe { create_srq_of_any_kind(context, srq_init_attr_ex) }
}

/// `ibv_create_qp_ex`—a plain one, if nothing else is asked for.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn ibv_create_qp_ex(
    context: *mut ibv_context,
    qp_init_attr_ex: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: the caller promises that the struct is filled in.
    let mask = unsafe { (*qp_init_attr_ex).comp_mask };
    if mask == ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_PD.0 {
        // SAFETY: as above.
        let pd = unsafe { (*qp_init_attr_ex).pd };
        // SAFETY: the long struct begins as the short one does.
        return unsafe { ibv_create_qp(pd, qp_init_attr_ex.cast()) };
    }
    // SAFETY: the caller's promises are passed on.
    unsafe { create_qp_of_any_kind(context, qp_init_attr_ex) }
}

/// `ibv_query_gid_ex`—with the size of an entry.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn ibv_query_gid_ex(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
) -> i32 {
    let size = size_of::<ibv_gid_entry>();
    // SAFETY: the caller's promises are passed on.
    unsafe { _ibv_query_gid_ex(context, port_num, gid_index, entry, flags, size) }
}

/// `ibv_query_gid_table`—with the size of an entry.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
) -> isize {
    let size = size_of::<ibv_gid_entry>();
    // SAFETY: the caller's promises are passed on.
    unsafe { _ibv_query_gid_table(context, entries, max_entries, flags, size) }
}

unsafe extern "C" {
    /// `ibv_query_port`—the function of the library, which fills in the part of the struct that the
    /// first headers had.
    #[link_name = "ibv_query_port"]
    pub fn ibv_query_port_compat(
        context: *mut ibv_context,
        port_num: u8,
        port_attr: *mut _compat_ibv_port_attr,
    ) -> c_int;
}

/// `ibv_query_port`—all members of the struct.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn ibv_query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
) -> c_int {
    if let Some(function) = extended_slot!(query_port of context) {
        // SAFETY: the caller's promises are passed on.
        return unsafe { function(context, port_num, port_attr, size_of::<ibv_port_attr>()) };
    }
    // SAFETY: the caller promises that the struct can be written to.
    unsafe { port_attr.write_bytes(0, 1) };
    // SAFETY: the caller's promises are passed on.
    unsafe { ibv_query_port_compat(context, port_num, port_attr.cast()) }
}

/// `ibv_query_device_ex`—what all devices report, if the device reports no more.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn ibv_query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
) -> c_int {
    if let Some(function) = extended_slot!(query_device_ex of context) {
        // SAFETY: the caller's promises are passed on.
        let answer = unsafe { function(context, input, attr, size_of::<ibv_device_attr_ex>()) };
        if answer != libc::EOPNOTSUPP {
            return answer;
        }
    }
    // SAFETY: the caller promises that the struct can be written to.
    unsafe { attr.write_bytes(0, 1) };
    // SAFETY: as above.
    let plain = unsafe { &raw mut (*attr).orig_attr };
    // SAFETY: the caller's promises are passed on.
    unsafe { ibv_query_device(context, plain) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_of_a_key_starts_over() {
        // SAFETY: nothing is demanded.
        assert_eq!(unsafe { ibv_inc_rkey(0x1234_56ff) }, 0x1234_5600);
        // SAFETY: as above.
        assert_eq!(unsafe { ibv_inc_rkey(0x1234_5607) }, 0x1234_5608);
    }

    #[test]
    fn a_kind_of_queue_pair_is_a_bit() {
        // SAFETY: nothing is demanded.
        let supported = |caps, kind| unsafe { ibv_is_qpt_supported(caps, kind) };
        assert_eq!(supported(1 << 2, ibv_qp_type::IBV_QPT_RC), 1);
        assert_eq!(supported(1 << 2, ibv_qp_type::IBV_QPT_UC), 0);
        assert_eq!(supported(u32::MAX, ibv_qp_type::IBV_QPT_DRIVER), 0);
    }
}
