//! Structs with unnamed unions, whose unions have the names that users of this crate know.
#![allow(
    missing_debug_implementations,
    missing_docs,
    non_camel_case_types,
    clippy::struct_field_names,
    reason = "the names of the headers, and of rdma-mummy-sys"
)]

use std::ffi::{c_int, c_uint, c_void};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};

use crate::bindings::{
    __be16, __be32, __be64, ibv_ah, ibv_cq, ibv_event_type, ibv_flow_spec_action_drop,
    ibv_flow_spec_action_handle, ibv_flow_spec_action_tag, ibv_flow_spec_counter_action,
    ibv_flow_spec_esp, ibv_flow_spec_eth, ibv_flow_spec_gre, ibv_flow_spec_ipv4,
    ibv_flow_spec_ipv4_ext, ibv_flow_spec_ipv6, ibv_flow_spec_mpls, ibv_flow_spec_tcp_udp,
    ibv_flow_spec_tunnel, ibv_flow_spec_type, ibv_mr, ibv_mw, ibv_ops_wr_opcode, ibv_qp, ibv_sge,
    ibv_srq, ibv_wc_opcode, ibv_wc_status, ibv_wq, ibv_wr_opcode, rdma_cm_event_type, rdma_cm_id,
    rdma_conn_param,
};

/// Defines structs and unions with C's layout.
macro_rules! c_types {
    ($( $(#[$meta:meta])* $kind:ident $name:ident { $($field:ident: $type:ty,)* } )*) => {$(
        $(#[$meta])*
        #[repr(C)]
        pub $kind $name {
            $(pub $field: $type,)*
        }
    )*};
}

// Addresses of ports, and how to reach one.
c_types! {
    #[derive(Clone, Copy)]
    struct ibv_gid_global_t {
        subnet_prefix: __be64,
        interface_id: __be64,
    }

    #[derive(Clone, Copy)]
    union ibv_gid {
        raw: [u8; 16],
        global: ibv_gid_global_t,
    }

    #[derive(Clone, Copy)]
    struct ibv_gid_entry {
        gid: ibv_gid,
        gid_index: u32,
        port_num: u32,
        gid_type: u32,
        ndev_ifindex: u32,
    }

    #[derive(Clone, Copy)]
    struct ibv_global_route {
        dgid: ibv_gid,
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
    }

    #[derive(Clone, Copy)]
    struct ibv_ah_attr {
        grh: ibv_global_route,
        dlid: u16,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
    }
}

// What happened.
c_types! {
    union ibv_async_event_element_t {
        cq: *mut ibv_cq,
        qp: *mut ibv_qp,
        srq: *mut ibv_srq,
        wq: *mut ibv_wq,
        port_num: c_int,
    }

    struct ibv_async_event {
        element: ibv_async_event_element_t,
        event_type: ibv_event_type,
    }

    #[derive(Clone, Copy)]
    union imm_data_invalidated_rkey_union_t {
        imm_data: __be32,
        invalidated_rkey: u32,
    }

    #[derive(Clone, Copy)]
    struct ibv_wc {
        wr_id: u64,
        status: ibv_wc_status::Type,
        opcode: ibv_wc_opcode::Type,
        vendor_err: u32,
        byte_len: u32,
        imm_data_invalidated_rkey_union: imm_data_invalidated_rkey_union_t,
        qp_num: u32,
        src_qp: u32,
        wc_flags: c_uint,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }
}

// Requests to send.
c_types! {
    #[derive(Clone, Copy)]
    struct ibv_mw_bind_info {
        mr: *mut ibv_mr,
        addr: u64,
        length: u64,
        mw_access_flags: c_uint,
    }

    #[derive(Clone, Copy)]
    struct rdma_t {
        remote_addr: u64,
        rkey: u32,
    }

    #[derive(Clone, Copy)]
    struct atomic_t {
        remote_addr: u64,
        compare_add: u64,
        swap: u64,
        rkey: u32,
    }

    #[derive(Clone, Copy)]
    struct ud_t {
        ah: *mut ibv_ah,
        remote_qpn: u32,
        remote_qkey: u32,
    }

    union wr_t {
        rdma: rdma_t,
        atomic: atomic_t,
        ud: ud_t,
    }

    #[derive(Clone, Copy)]
    struct xrc_t {
        remote_srqn: u32,
    }

    union qp_type_t {
        xrc: xrc_t,
    }

    #[derive(Clone, Copy)]
    struct bind_mw_t {
        mw: *mut ibv_mw,
        rkey: u32,
        bind_info: ibv_mw_bind_info,
    }

    #[derive(Clone, Copy)]
    struct tso_t {
        hdr: *mut c_void,
        hdr_sz: u16,
        mss: u16,
    }

    union bind_mw_tso_union_t {
        bind_mw: bind_mw_t,
        tso: tso_t,
    }

    struct ibv_send_wr {
        wr_id: u64,
        next: *mut Self,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        opcode: ibv_wr_opcode::Type,
        send_flags: c_uint,
        imm_data_invalidated_rkey_union: imm_data_invalidated_rkey_union_t,
        wr: wr_t,
        qp_type: qp_type_t,
        bind_mw_tso_union: bind_mw_tso_union_t,
    }
}

// Lists of tags.
c_types! {
    #[derive(Clone, Copy)]
    struct add_t {
        recv_wr_id: u64,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        tag: u64,
        mask: u64,
    }

    #[derive(Clone, Copy)]
    struct tm_t {
        unexpected_cnt: u32,
        handle: u32,
        add: add_t,
    }

    struct ibv_ops_wr {
        wr_id: u64,
        next: *mut Self,
        opcode: ibv_ops_wr_opcode::Type,
        flags: c_int,
        tm: tm_t,
    }
}

// What a rule matches, and what it does.
c_types! {
    #[derive(Clone, Copy)]
    struct hdr_t {
        type_: ibv_flow_spec_type::Type,
        size: u16,
    }

    union ibv_flow_spec_union_t {
        hdr: hdr_t,
        eth: ibv_flow_spec_eth,
        ipv4: ibv_flow_spec_ipv4,
        tcp_udp: ibv_flow_spec_tcp_udp,
        ipv4_ext: ibv_flow_spec_ipv4_ext,
        ipv6: ibv_flow_spec_ipv6,
        esp: ibv_flow_spec_esp,
        tunnel: ibv_flow_spec_tunnel,
        gre: ibv_flow_spec_gre,
        mpls: ibv_flow_spec_mpls,
        flow_tag: ibv_flow_spec_action_tag,
        drop: ibv_flow_spec_action_drop,
        handle: ibv_flow_spec_action_handle,
        flow_count: ibv_flow_spec_counter_action,
    }

    struct ibv_flow_spec {
        ibv_flow_spec_union: ibv_flow_spec_union_t,
    }
}

// Connections.
c_types! {
    #[derive(Clone, Copy)]
    struct rdma_ib_addr {
        sgid: ibv_gid,
        dgid: ibv_gid,
        pkey: __be16,
    }

    union src_addr_union_t {
        src_addr: sockaddr,
        src_sin: sockaddr_in,
        src_sin6: sockaddr_in6,
        src_storage: sockaddr_storage,
    }

    union dst_addr_union_t {
        dst_addr: sockaddr,
        dst_sin: sockaddr_in,
        dst_sin6: sockaddr_in6,
        dst_storage: sockaddr_storage,
    }

    union addr_union_t {
        ibaddr: rdma_ib_addr,
    }

    struct rdma_addr {
        src_addr_union: src_addr_union_t,
        dst_addr_union: dst_addr_union_t,
        addr: addr_union_t,
    }

    #[derive(Clone, Copy)]
    struct rdma_ud_param {
        private_data: *const c_void,
        private_data_len: u8,
        ah_attr: ibv_ah_attr,
        qp_num: u32,
        qkey: u32,
    }

    union param_t {
        conn: rdma_conn_param,
        ud: rdma_ud_param,
    }

    struct rdma_cm_event {
        id: *mut rdma_cm_id,
        listen_id: *mut rdma_cm_id,
        event: rdma_cm_event_type::Type,
        status: c_int,
        param: param_t,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/compat` compares those of `uverbs-compat` with the header itself.
    #[test]
    fn layouts_are_those_of_the_library() {
        macro_rules! sizes {
            ($($name:ident)*) => { [$((stringify!($name), size_of::<$name>())),*] };
        }
        let ours = sizes! {
            ibv_ah_attr ibv_async_event ibv_gid_entry ibv_global_route ibv_mw_bind_info ibv_send_wr
            ibv_wc
        };
        for (name, size) in ours {
            let known = uverbs_compat::layouts().find(|layout| layout.name == name);
            assert_eq!(known.map(|layout| layout.size), Some(size), "{name}");
        }
    }
}
