//! Work requests and completions.

use std::ffi::c_int;

use super::{ibv_mr, ibv_mw, structs};

structs! {
    pub const WORK;
    #[derive(Clone, Copy)]
    struct ibv_wc {
        wr_id: u64,
        status: u32,
        opcode: u32,
        vendor_err: u32,
        byte_len: u32,
        imm_data: u32,
        qp_num: u32,
        src_qp: u32,
        wc_flags: u32,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }
    struct ibv_send_wr {
        wr_id: u64,
        next: *mut ibv_send_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        opcode: u32,
        send_flags: u32,
        imm_data: u32,
        wr: RequestPart,
        qp_type: u32,
        bind_mw: ibv_wr_bind_mw,
    }
    struct ibv_recv_wr {
        wr_id: u64,
        next: *mut ibv_recv_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
    }
    #[derive(Clone, Copy)]
    struct ibv_sge {
        addr: u64,
        length: u32,
        lkey: u32,
    }
    struct ibv_data_buf {
        addr: *mut std::ffi::c_void,
        length: usize,
    }
    #[derive(Clone, Copy)]
    struct ibv_mw_bind_info {
        mr: *mut ibv_mr,
        addr: u64,
        length: u64,
        mw_access_flags: u32,
    }
    struct ibv_mw_bind {
        wr_id: u64,
        send_flags: u32,
        bind_info: ibv_mw_bind_info,
    }
}

/// The unnamed struct of a window binding.
#[repr(C)]
pub struct ibv_wr_bind_mw {
    pub mw: *mut ibv_mw,
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}

/// The union `wr` of a send request. Which of the words mean what depends on the operation.
#[repr(C)]
pub struct RequestPart {
    /// `rdma.remote_addr`, `atomic.remote_addr`, `ud.ah`.
    pub first: u64,
    /// `rdma.rkey`; the halves of `atomic.compare_add`; `ud.remote_qpn` and `ud.remote_qkey`.
    pub second: [u32; 2],
    /// `atomic.swap`.
    pub swap: u64,
    /// `atomic.rkey`.
    pub rkey: u32,
}

impl RequestPart {
    /// `atomic.compare_add`.
    pub fn compare_add(&self) -> u64 {
        let [one, two] = self.second.map(u32::to_ne_bytes);
        let mut bytes = [0; 8];
        let (low, high) = bytes.split_at_mut(4);
        low.copy_from_slice(&one);
        high.copy_from_slice(&two);
        u64::from_ne_bytes(bytes)
    }
}
