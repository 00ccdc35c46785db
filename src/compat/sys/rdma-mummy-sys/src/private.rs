//! Functions of libibverbs that only its own headers declare, and rdma-mummy-sys too.
//!
//! # Safety
//!
//! Functions are those of `uverbs-compat`, and demand of their callers what libibverbs demands.
#![allow(unsafe_code, reason = "declares functions of C")]
#![allow(
    non_camel_case_types,
    missing_docs,
    reason = "the names of the headers"
)]

use std::ffi::{c_char, c_int, c_uint};

use crate::bindings::ibv_context;

pub type ibv_gid_type_sysfs = c_uint;

pub const IBV_GID_TYPE_SYSFS_IB_ROCE_V1: ibv_gid_type_sysfs = 0;
pub const IBV_GID_TYPE_SYSFS_ROCE_V2: ibv_gid_type_sysfs = 1;

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
}
