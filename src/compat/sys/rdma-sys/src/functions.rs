//! Functions whose arguments or results are not those of `rdma-mummy-sys`.
//!
//! # Safety
//!
//! They demand what the functions demand that they call.
#![allow(unsafe_code, reason = "calls functions of C")]

use std::ffi::{c_int, c_uint, c_void};

use rdma_mummy_sys as verbs;
use rdma_mummy_sys::{
    ib_uverbs_access_flags, ibv_alloc_dm_attr, ibv_context, ibv_counters, ibv_counters_init_attr,
    ibv_cq_ex, ibv_cq_init_attr_ex, ibv_dm, ibv_flow, ibv_flow_action, ibv_flow_action_esp_attr,
    ibv_flow_attr, ibv_mr, ibv_mw, ibv_mw_type, ibv_parent_domain_init_attr, ibv_pd, ibv_qp,
    ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_rwq_ind_table, ibv_rwq_ind_table_init_attr, ibv_srq,
    ibv_srq_init_attr, ibv_srq_init_attr_ex, ibv_td, ibv_td_init_attr, ibv_wq, ibv_wq_init_attr,
    ibv_xrcd, ibv_xrcd_init_attr, rdma_cm_id,
};

unsafe extern "C" {
    /// `rdma_create_srq`—for the queue pairs of a connection's id.
    pub fn rdma_create_srq(
        id: *mut rdma_cm_id,
        pd: *mut ibv_pd,
        attr: *mut ibv_srq_init_attr,
    ) -> c_int;

    /// `rdma_create_srq_ex`—the same, of any kind.
    pub fn rdma_create_srq_ex(id: *mut rdma_cm_id, attr: *mut ibv_srq_init_attr_ex) -> c_int;

    /// `rdma_destroy_srq`
    pub fn rdma_destroy_srq(id: *mut rdma_cm_id);
}

/// Functions of slots of a context. `None` is for an empty slot, which `uverbs-compat` does not
/// have: a function that fails returns NULL, as over rdma-core.
macro_rules! of_slots {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $object:ty;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`; NULL if it fails, with `errno`.")]
        ///
        /// # Safety
        /// As for the C function.
        #[inline]
        pub unsafe fn $name($($argument: $kind),*) -> Option<*mut $object> {
            // SAFETY: the caller's promises are passed on.
            Some(unsafe { verbs::$name($($argument),*) })
        }
    )*};
}

of_slots! {
    ibv_alloc_dm(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> ibv_dm;
    ibv_alloc_mw(pd: *mut ibv_pd, type_: ibv_mw_type::Type) -> ibv_mw;
    ibv_alloc_null_mr(pd: *mut ibv_pd) -> ibv_mr;
    ibv_alloc_parent_domain(
        context: *mut ibv_context, attr: *mut ibv_parent_domain_init_attr
    ) -> ibv_pd;
    ibv_alloc_td(context: *mut ibv_context, init_attr: *mut ibv_td_init_attr) -> ibv_td;
    ibv_create_counters(
        context: *mut ibv_context, init_attr: *mut ibv_counters_init_attr
    ) -> ibv_counters;
    ibv_create_cq_ex(context: *mut ibv_context, cq_attr: *mut ibv_cq_init_attr_ex) -> ibv_cq_ex;
    ibv_create_flow(qp: *mut ibv_qp, flow: *mut ibv_flow_attr) -> ibv_flow;
    ibv_create_qp_ex(
        context: *mut ibv_context, qp_init_attr_ex: *mut ibv_qp_init_attr_ex
    ) -> ibv_qp;
    ibv_create_rwq_ind_table(
        context: *mut ibv_context, init_attr: *mut ibv_rwq_ind_table_init_attr
    ) -> ibv_rwq_ind_table;
    ibv_create_srq_ex(
        context: *mut ibv_context, srq_init_attr_ex: *mut ibv_srq_init_attr_ex
    ) -> ibv_srq;
    ibv_create_wq(context: *mut ibv_context, wq_init_attr: *mut ibv_wq_init_attr) -> ibv_wq;
    ibv_open_qp(context: *mut ibv_context, qp_open_attr: *mut ibv_qp_open_attr) -> ibv_qp;
    ibv_open_xrcd(context: *mut ibv_context, xrcd_init_attr: *mut ibv_xrcd_init_attr) -> ibv_xrcd;
    ibv_reg_dm_mr(
        pd: *mut ibv_pd, dm: *mut ibv_dm, dm_offset: u64, length: usize, access: u32
    ) -> ibv_mr;
}

/// `ibv_create_flow_action_esp`: `None`, with `errno` EOPNOTSUPP, because this slot is empty.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn ibv_create_flow_action_esp(
    ctx: *mut ibv_context,
    esp: *mut ibv_flow_action_esp_attr,
) -> Option<*mut ibv_flow_action> {
    // SAFETY: the caller's promises are passed on.
    let action = unsafe { verbs::ibv_create_flow_action_esp(ctx, esp) };
    (!action.is_null()).then_some(action)
}

/// Whether access is constant and needs nothing of the newer function.
fn is_plain(access: c_uint, is_access_const: c_int) -> bool {
    let optional = ib_uverbs_access_flags::IB_UVERBS_ACCESS_OPTIONAL_RANGE.0;
    is_access_const != 0 && access & optional == 0
}

/// `ibv_reg_mr`, as the macro of that name calls it.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn __ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_uint,
    is_access_const: c_int,
) -> *mut ibv_mr {
    if is_plain(access, is_access_const) {
        // SAFETY: the caller's promises are passed on.
        return unsafe { verbs::ibv_reg_mr(pd, addr, length, access.cast_signed()) };
    }
    // SAFETY: as above.
    unsafe { verbs::ibv_reg_mr_iova2(pd, addr, length, addr.expose_provenance() as u64, access) }
}

/// `ibv_reg_mr_iova`, as the macro of that name calls it.
///
/// # Safety
/// As for the C function.
#[inline]
pub unsafe fn __ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
    is_access_const: c_int,
) -> *mut ibv_mr {
    if is_plain(access, is_access_const) {
        // SAFETY: the caller's promises are passed on.
        return unsafe { verbs::ibv_reg_mr_iova(pd, addr, length, iova, access.cast_signed()) };
    }
    // SAFETY: as above.
    unsafe { verbs::ibv_reg_mr_iova2(pd, addr, length, iova, access) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_access_needs_the_newer_function() {
        assert!(is_plain(1, 1));
        assert!(!is_plain(1, 0));
        assert!(!is_plain(1 << 20, 1));
    }
}
