//! The structs of `rdma/rdma_cma.h`, with their names there. `tests/compat` compares sizes and
//! offsets with the real header.
//!
//! Members of unnamed unions have the name of one of them. What this library changes after it gave
//! a struct to C is a `Cell`.
#![allow(
    clippy::struct_field_names,
    non_camel_case_types,
    reason = "the names of the header"
)]

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};

use uverbs_compat_base::abi::{
    ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_gid, ibv_pd, ibv_qp, ibv_sa_path_rec,
    ibv_srq, structs,
};

structs! {
    pub(crate) const STRUCTS;
    #[derive(Clone, Copy, Default)]
    struct rdma_ib_addr {
        sgid: ibv_gid,
        dgid: ibv_gid,
        pkey: u16,
    }
    struct rdma_addr {
        src_storage: Cell<Storage>,
        dst_storage: Cell<Storage>,
        addr: Cell<rdma_ib_addr>,
    }
    struct rdma_route {
        addr: rdma_addr,
        path_rec: Cell<*mut ibv_sa_path_rec>,
        num_paths: Cell<c_int>,
    }
    struct rdma_event_channel {
        fd: c_int,
    }
    struct rdma_cm_id {
        verbs: Cell<*mut ibv_context>,
        channel: Cell<*mut rdma_event_channel>,
        context: Cell<*mut c_void>,
        qp: Cell<*mut ibv_qp>,
        route: rdma_route,
        ps: u32,
        port_num: Cell<u8>,
        event: Cell<*mut rdma_cm_event>,
        send_cq_channel: Cell<*mut ibv_comp_channel>,
        send_cq: Cell<*mut ibv_cq>,
        recv_cq_channel: Cell<*mut ibv_comp_channel>,
        recv_cq: Cell<*mut ibv_cq>,
        srq: Cell<*mut ibv_srq>,
        pd: Cell<*mut ibv_pd>,
        qp_type: u32,
    }
    #[derive(Clone, Copy)]
    struct rdma_conn_param {
        private_data: *const c_void,
        private_data_len: u8,
        responder_resources: u8,
        initiator_depth: u8,
        flow_control: u8,
        retry_count: u8,
        rnr_retry_count: u8,
        srq: u8,
        qp_num: u32,
    }
    #[derive(Clone, Copy)]
    struct rdma_ud_param {
        private_data: *const c_void,
        private_data_len: u8,
        ah_attr: ibv_ah_attr,
        qp_num: u32,
        qkey: u32,
    }
    struct rdma_cm_event {
        id: *mut rdma_cm_id,
        listen_id: *mut rdma_cm_id,
        event: u32,
        status: c_int,
        param: Param,
    }
    struct rdma_addrinfo {
        ai_flags: c_int,
        ai_family: c_int,
        ai_qp_type: c_int,
        ai_port_space: c_int,
        ai_src_len: u32,
        ai_dst_len: u32,
        ai_src_addr: *mut c_void,
        ai_dst_addr: *mut c_void,
        ai_src_canonname: *mut c_char,
        ai_dst_canonname: *mut c_char,
        ai_route_len: usize,
        ai_route: *mut c_void,
        ai_connect_len: usize,
        ai_connect: *mut c_void,
        ai_next: *mut rdma_addrinfo,
    }
    struct rdma_cm_join_mc_attr_ex {
        comp_mask: u32,
        join_flags: u32,
        addr: *const c_void,
    }
}

/// `struct sockaddr_storage`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Storage(pub(crate) [u8; 128]);

/// What an event carries.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Param {
    pub(crate) conn: rdma_conn_param,
    pub(crate) ud: rdma_ud_param,
    pub(crate) arg: u64,
}

/// `enum rdma_port_space`.
pub(crate) mod port_space {
    pub(crate) const IPOIB: u32 = 0x2;
    pub(crate) const TCP: u32 = 0x106;
    pub(crate) const UDP: u32 = 0x111;
    pub(crate) const IB: u32 = 0x13f;
}

/// `enum ibv_qp_type`.
pub(crate) mod qp_type {
    pub(crate) const RC: u32 = 2;
    pub(crate) const UC: u32 = 3;
    pub(crate) const UD: u32 = 4;
    pub(crate) const XRC_SEND: u32 = 9;
    pub(crate) const XRC_RECV: u32 = 10;
}

/// `RDMA_MAX_RESP_RES`, `RDMA_MAX_INIT_DEPTH`: as much as the device has.
pub(crate) const AS_MUCH_AS_POSSIBLE: u8 = 0xff;
