//! Declarations that Debian's headers do not have: functions that only libibverbs' own headers
//! declare, and names that are newer than those headers.
//!
//! # Safety
//!
//! Functions are those of `uverbs-compat`, and demand of their callers what libibverbs demands.
#![allow(unsafe_code, reason = "declares functions of C")]
#![allow(
    missing_debug_implementations,
    missing_docs,
    non_camel_case_types,
    reason = "the names of the headers"
)]

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::bindings::{
    ibv_context, ibv_dm, ibv_mr, ibv_odp_transport_cap_bits, ibv_pd,
    ibv_query_qp_data_in_order_flags, mlx5_ib_uapi_flow_table_type, mlx5dv_context_flags,
    mlx5dv_flow_matcher_attr_mask,
};

pub type ibv_gid_type_sysfs = c_uint;
pub const IBV_GID_TYPE_SYSFS_IB_ROCE_V1: ibv_gid_type_sysfs = 0;
pub const IBV_GID_TYPE_SYSFS_ROCE_V2: ibv_gid_type_sysfs = 1;

pub type ibv_tph_mem_type = c_uint;
pub const IBV_TPH_MEM_TYPE_VM: ibv_tph_mem_type = 0;
pub const IBV_TPH_MEM_TYPE_PM: ibv_tph_mem_type = 1;

pub type ibv_dmah_init_attr_mask = c_uint;
pub const IBV_DMAH_INIT_ATTR_MASK_CPU_ID: ibv_dmah_init_attr_mask = 1;
pub const IBV_DMAH_INIT_ATTR_MASK_PH: ibv_dmah_init_attr_mask = 1 << 1;
pub const IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE: ibv_dmah_init_attr_mask = 1 << 2;

pub type ibv_mr_init_attr_mask = c_uint;
pub const IBV_REG_MR_MASK_IOVA: ibv_mr_init_attr_mask = 1;
pub const IBV_REG_MR_MASK_ADDR: ibv_mr_init_attr_mask = 1 << 1;
pub const IBV_REG_MR_MASK_FD: ibv_mr_init_attr_mask = 1 << 2;
pub const IBV_REG_MR_MASK_FD_OFFSET: ibv_mr_init_attr_mask = 1 << 3;
pub const IBV_REG_MR_MASK_DMAH: ibv_mr_init_attr_mask = 1 << 4;

pub const IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY: ibv_query_qp_data_in_order_flags = 1 << 1;

pub const MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_RX: mlx5_ib_uapi_flow_table_type = 5;
pub const MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_TX: mlx5_ib_uapi_flow_table_type = 6;

impl ibv_odp_transport_cap_bits {
    pub const IBV_ODP_SUPPORT_FLUSH: Self = Self(1 << 6);
    pub const IBV_ODP_SUPPORT_ATOMIC_WRITE: Self = Self(1 << 7);
}

impl mlx5dv_context_flags {
    pub const MLX5DV_CONTEXT_FLAGS_BLUEFLAME: Self = Self(1 << 8);
}

impl mlx5dv_flow_matcher_attr_mask {
    pub const MLX5DV_FLOW_MATCHER_MASK_IB_PORT: Self = Self(1 << 1);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_dmah {
    pub context: *mut ibv_context,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_dmah_init_attr {
    pub comp_mask: u32,
    pub cpu_id: u32,
    pub ph: u8,
    pub tph_mem_type: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mr_init_attr {
    pub length: usize,
    pub access: c_int,
    pub comp_mask: u64,
    pub iova: u64,
    pub addr: *mut c_void,
    pub fd: c_int,
    pub fd_offset: u64,
    pub dmah: *mut ibv_dmah,
}

unsafe extern "C" {
    pub fn ibv_get_sysfs_path() -> *const c_char;

    pub fn ibv_read_sysfs_file(
        dir: *const c_char,
        file: *const c_char,
        buf: *mut c_char,
        size: usize,
    ) -> c_int;

    pub fn ibv_query_gid_type(
        context: *mut ibv_context,
        port_num: u8,
        index: c_uint,
        type_: *mut ibv_gid_type_sysfs,
    ) -> c_int;

    pub fn ibv_alloc_dmah(
        context: *mut ibv_context,
        attr: *mut ibv_dmah_init_attr,
    ) -> *mut ibv_dmah;

    pub fn ibv_dealloc_dmah(dmah: *mut ibv_dmah) -> c_int;

    pub fn ibv_reg_mr_ex(pd: *mut ibv_pd, mr_init_attr: *mut ibv_mr_init_attr) -> *mut ibv_mr;

    pub fn ibv_dm_export_dmabuf_fd(dm: *mut ibv_dm) -> c_int;

    pub fn ibv_query_port_speed(
        context: *mut ibv_context,
        port_num: u32,
        port_speed: *mut u64,
    ) -> c_int;
}
