//! `rdma/rdma_user_rxe.h`: rxe's queues, shared between the process and the kernel, and its driver
//! data of the verbs commands.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::byte_order::{__be32, __be64};
use crate::linux_socket::{sockaddr_in, sockaddr_in6};

kernel_enum! {
    /// IP version of an address vector.
    anonymous enum rxe_network_type: u32 {
        RXE_NETWORK_TYPE_IPV4 = 1,
        RXE_NETWORK_TYPE_IPV6 = 2,
    }
}

/// The two halves of a GID.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_gid_global {
    pub subnet_prefix: __be64,
    pub interface_id: __be64,
}
assert_layout!(rxe_gid_global, size 16, align 8, {
    subnet_prefix @ 0, interface_id @ 8
}, as "rxe_gid.global");

kernel_union! {
    /// A GID.
    union rxe_gid: [u64; 2] = "rxe_gid" {
        raw: [u8; 16],
        global: rxe_gid_global,
    }
}

/// The global part of an address vector.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_global_route {
    pub dgid: rxe_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    /// Trailing padding, unnamed in C; zero.
    pub implicit_padding: [u8; 1],
}
assert_layout!(rxe_global_route, size 24, align 8, {
    dgid @ 0, flow_label @ 16, sgid_index @ 20, hop_limit @ 21, traffic_class @ 22,
    implicit_padding @ 23,
});

kernel_union! {
    /// The IP address of a GID.
    union rxe_av_addr: [u32; 7] = "rxe_av.sgid_addr" | "rxe_av.dgid_addr" {
        _sockaddr_in: sockaddr_in,
        _sockaddr_in6: sockaddr_in6,
    }
}

/// Address vector: where a datagram goes.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_av {
    pub port_num: u8,
    /// [`mod@rxe_network_type`].
    pub network_type: u8,
    pub dmac: [u8; 6],
    pub grh: rxe_global_route,
    pub sgid_addr: rxe_av_addr,
    pub dgid_addr: rxe_av_addr,
}
assert_layout!(rxe_av, size 88, align 8, {
    port_num @ 0, network_type @ 1, dmac @ 2, grh @ 8, sgid_addr @ 32, dgid_addr @ 60,
});

kernel_union! {
    /// The immediate value, or the key to invalidate.
    union rxe_send_wr_ex: [u32; 1] = "rxe_send_wr.ex" {
        imm_data: __be32,
        invalidate_rkey: u32,
    }
}

/// RDMA flush.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_send_wr_flush {
    pub remote_addr: u64,
    pub length: u32,
    pub rkey: u32,
    pub r#type: u8,
    pub level: u8,
    /// Trailing padding, unnamed in C; zero.
    pub implicit_padding: [u8; 6],
}
assert_layout!(rxe_send_wr_flush, size 24, align 8, {
    remote_addr @ 0, length @ 8, rkey @ 12, r#type @ 16, level @ 17, implicit_padding @ 18,
}, as "rxe_send_wr.wr.flush");

/// RDMA read and write.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_send_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
    pub reserved: u32,
}
assert_layout!(rxe_send_wr_rdma, size 16, align 8, {
    remote_addr @ 0, rkey @ 8, reserved @ 12,
}, as "rxe_send_wr.wr.rdma");

/// Atomic operations and atomic write.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_send_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
    pub reserved: u32,
}
assert_layout!(rxe_send_wr_atomic, size 32, align 8, {
    remote_addr @ 0, compare_add @ 8, swap @ 16, rkey @ 24, reserved @ 28,
}, as "rxe_send_wr.wr.atomic");

/// Datagrams.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_send_wr_ud {
    pub remote_qpn: u32,
    pub remote_qkey: u32,
    pub pkey_index: u16,
    pub reserved: u16,
    pub ah_num: u32,
    pub pad: [u32; 4],
    pub av: rxe_av,
}
assert_layout!(rxe_send_wr_ud, size 120, align 8, {
    remote_qpn @ 0, remote_qkey @ 4, pkey_index @ 8, reserved @ 10, ah_num @ 12, pad @ 16,
    av @ 32,
}, as "rxe_send_wr.wr.ud");

/// Binding a memory window.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_send_wr_mw {
    pub addr: u64,
    pub length: u64,
    pub mr_lkey: u32,
    pub mw_rkey: u32,
    pub rkey: u32,
    pub access: u32,
}
assert_layout!(rxe_send_wr_mw, size 32, align 8, {
    addr @ 0, length @ 8, mr_lkey @ 16, mw_rkey @ 20, rkey @ 24, access @ 28,
}, as "rxe_send_wr.wr.mw");

kernel_union! {
    /// Operands of the opcode.
    union rxe_send_wr_wr: [u64; 15] = "rxe_send_wr.wr" {
        flush: rxe_send_wr_flush,
        rdma: rxe_send_wr_rdma,
        atomic: rxe_send_wr_atomic,
        ud: rxe_send_wr_ud,
        mw: rxe_send_wr_mw,
    }
}

/// A send request inside [`rxe_send_wqe`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_send_wr {
    pub wr_id: u64,
    pub reserved: u32,
    pub opcode: u32,
    pub send_flags: u32,
    pub ex: rxe_send_wr_ex,
    pub wr: rxe_send_wr_wr,
}
assert_layout!(rxe_send_wr, size 144, align 8, {
    wr_id @ 0, reserved @ 8, opcode @ 12, send_flags @ 16, ex @ 20, wr @ 24,
});

/// A scatter/gather entry of a work queue entry.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}
assert_layout!(rxe_sge, size 16, align 8, { addr @ 0, length @ 8, lkey @ 12 });

/// How to map a queue.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mminfo {
    /// The offset for `mmap`.
    pub offset: u64,
    /// Bytes to map.
    pub size: u32,
    pub pad: u32,
}
assert_layout!(mminfo, size 16, align 8, { offset @ 0, size @ 8, pad @ 12 });

/// A work queue entry's data, and the kernel's progress with it.
///
/// Followed by one of `inline_data`, `atomic_wr`, `sge`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_dma_info {
    /// Bytes to transfer.
    pub length: u32,
    /// Bytes left to transfer; initially equal to `length`.
    pub resid: u32,
    pub cur_sge: u32,
    pub num_sge: u32,
    pub sge_offset: u32,
    pub reserved: u32,
}
assert_layout!(rxe_dma_info, size 24, align 8, {
    length @ 0, resid @ 4, cur_sge @ 8, num_sge @ 12, sge_offset @ 16, reserved @ 20,
}, open { inline_data @ 24, atomic_wr @ 24, sge @ 24 });

/// An entry of the send queue.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_send_wqe {
    pub wr: rxe_send_wr,
    pub status: u32,
    pub state: u32,
    pub iova: u64,
    pub mask: u32,
    pub first_psn: u32,
    pub last_psn: u32,
    pub ack_length: u32,
    pub ssn: u32,
    pub has_rd_atomic: u32,
    pub dma: rxe_dma_info,
}
assert_layout!(rxe_send_wqe, size 208, align 8, {
    wr @ 0, status @ 144, state @ 148, iova @ 152, mask @ 160, first_psn @ 164, last_psn @ 168,
    ack_length @ 172, ssn @ 176, has_rd_atomic @ 180, dma @ 184,
});

/// An entry of a receive queue, shared or not.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_recv_wqe {
    pub wr_id: u64,
    pub reserved: u32,
    pub padding: u32,
    pub dma: rxe_dma_info,
}
assert_layout!(rxe_recv_wqe, size 40, align 8, {
    wr_id @ 0, reserved @ 8, padding @ 12, dma @ 16,
});

/// Driver data in the reply to `IB_USER_VERBS_CMD_CREATE_AH`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_create_ah_resp {
    pub ah_num: u32,
    pub reserved: u32,
}
assert_layout!(rxe_create_ah_resp, size 8, align 4, { ah_num @ 0, reserved @ 4 });

/// Driver data in the reply to completion queue creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_create_cq_resp {
    pub mi: mminfo,
}
assert_layout!(rxe_create_cq_resp, size 16, align 8, { mi @ 0 });

/// Driver data in the reply to `IB_USER_VERBS_CMD_RESIZE_CQ`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_resize_cq_resp {
    pub mi: mminfo,
}
assert_layout!(rxe_resize_cq_resp, size 16, align 8, { mi @ 0 });

/// Driver data in the reply to queue pair creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_create_qp_resp {
    pub rq_mi: mminfo,
    pub sq_mi: mminfo,
}
assert_layout!(rxe_create_qp_resp, size 32, align 8, { rq_mi @ 0, sq_mi @ 16 });

/// Driver data in the reply to shared receive queue creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_create_srq_resp {
    pub mi: mminfo,
    pub srq_num: u32,
    pub reserved: u32,
}
assert_layout!(rxe_create_srq_resp, size 24, align 8, { mi @ 0, srq_num @ 16, reserved @ 20 });

/// Driver data of `IB_USER_VERBS_CMD_MODIFY_SRQ`: where a resize writes its [`mminfo`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_modify_srq_cmd {
    pub mmap_info_addr: u64,
}
assert_layout!(rxe_modify_srq_cmd, size 8, align 8, { mmap_info_addr @ 0 });

/// The header of every queue: its layout and the two indexes, each in its own cache line.
///
/// Followed by `data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rxe_queue_buf {
    /// An element has 2^n bytes.
    pub log2_elem_size: u32,
    /// Slots - 1.
    pub index_mask: u32,
    pub pad_1: [u32; 30],
    pub producer_index: u32,
    pub pad_2: [u32; 31],
    pub consumer_index: u32,
    pub pad_3: [u32; 31],
}
assert_layout!(rxe_queue_buf, size 384, align 4, {
    log2_elem_size @ 0, index_mask @ 4, pad_1 @ 8, producer_index @ 128, pad_2 @ 132,
    consumer_index @ 256, pad_3 @ 260,
}, open { data @ 384 });

kernel_header! {
    "rdma/rdma_user_rxe.h",
    structs: [
        rxe_gid_global, rxe_gid, rxe_global_route, rxe_av_addr, rxe_av, rxe_send_wr_ex,
        rxe_send_wr_flush, rxe_send_wr_rdma, rxe_send_wr_atomic, rxe_send_wr_ud,
        rxe_send_wr_mw, rxe_send_wr_wr, rxe_send_wr, rxe_sge, mminfo, rxe_dma_info,
        rxe_send_wqe, rxe_recv_wqe, rxe_create_ah_resp, rxe_create_cq_resp, rxe_resize_cq_resp,
        rxe_create_qp_resp, rxe_create_srq_resp, rxe_modify_srq_cmd, rxe_queue_buf,
    ],
    enums: [rxe_network_type],
    constants: [],
}
