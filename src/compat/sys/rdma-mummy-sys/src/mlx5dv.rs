//! Inline functions of `infiniband/mlx5dv.h`: requests that only ConnectX has.
//!
//! # Safety
//!
//! As in `slots`.
#![allow(unsafe_code, reason = "calls what objects of C point to")]

use std::ffi::c_void;

use crate::bindings::{
    ibv_ah, ibv_sge, mlx5dv_crypto_attr, mlx5dv_mkey, mlx5dv_mkey_conf_attr, mlx5dv_mr_interleaved,
    mlx5dv_qp_ex, mlx5dv_sig_block_attr,
};
use crate::slots::own_slots;

own_slots! { mlx5dv_qp_ex;
    mlx5dv_wr_set_dc_addr = wr_set_dc_addr(ah: *mut ibv_ah, remote_dctn: u32, remote_dc_key: u64);
    mlx5dv_wr_set_dc_addr_stream = wr_set_dc_addr_stream(
        ah: *mut ibv_ah, remote_dctn: u32, remote_dc_key: u64, stream_id: u16
    );
    mlx5dv_wr_mr_interleaved = wr_mr_interleaved(
        mkey: *mut mlx5dv_mkey, access_flags: u32, repeat_count: u32, num_interleaved: u16,
        data: *mut mlx5dv_mr_interleaved
    );
    mlx5dv_wr_mr_list = wr_mr_list(
        mkey: *mut mlx5dv_mkey, access_flags: u32, num_sges: u16, sge: *mut ibv_sge
    );
    mlx5dv_wr_mkey_configure = wr_mkey_configure(
        mkey: *mut mlx5dv_mkey, num_setters: u8, attr: *mut mlx5dv_mkey_conf_attr
    );
    mlx5dv_wr_set_mkey_access_flags = wr_set_mkey_access_flags(access_flags: u32);
    mlx5dv_wr_set_mkey_layout_list = wr_set_mkey_layout_list(num_sges: u16, sge: *const ibv_sge);
    mlx5dv_wr_set_mkey_layout_interleaved = wr_set_mkey_layout_interleaved(
        repeat_count: u32, num_interleaved: u16, data: *const mlx5dv_mr_interleaved
    );
    mlx5dv_wr_set_mkey_sig_block = wr_set_mkey_sig_block(attr: *const mlx5dv_sig_block_attr);
    mlx5dv_wr_set_mkey_crypto = wr_set_mkey_crypto(attr: *const mlx5dv_crypto_attr);
    mlx5dv_wr_memcpy = wr_memcpy(
        dest_lkey: u32, dest_addr: u64, src_lkey: u32, src_addr: u64, length: usize
    );
    mlx5dv_wr_raw_wqe = wr_raw_wqe(wqe: *const c_void);
}
