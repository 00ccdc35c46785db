//! `rdma/ib_user_verbs.h`: the write commands and the events read back.
//!
//! The same requests and replies are passed through `write(2)`, with a header in front, and through
//! [`UVERBS_METHOD_INVOKE_WRITE`](crate::ib_user_ioctl_cmds::UVERBS_METHOD_INVOKE_WRITE), without
//! one. Driver data follows the fixed part of a request or reply.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::byte_order::{__be16, __be32, __be64};

/// The version of the write commands.
pub const IB_USER_VERBS_ABI_VERSION: u32 = 6;

/// The first extended command without a plain one of the same number.
pub const IB_USER_VERBS_CMD_THRESHOLD: u32 = 50;

kernel_enum! {
    /// Plain write commands.
    enum ib_uverbs_write_cmds: u32 {
        IB_USER_VERBS_CMD_GET_CONTEXT = 0,
        IB_USER_VERBS_CMD_QUERY_DEVICE = 1,
        IB_USER_VERBS_CMD_QUERY_PORT = 2,
        IB_USER_VERBS_CMD_ALLOC_PD = 3,
        IB_USER_VERBS_CMD_DEALLOC_PD = 4,
        IB_USER_VERBS_CMD_CREATE_AH = 5,
        IB_USER_VERBS_CMD_MODIFY_AH = 6,
        IB_USER_VERBS_CMD_QUERY_AH = 7,
        IB_USER_VERBS_CMD_DESTROY_AH = 8,
        IB_USER_VERBS_CMD_REG_MR = 9,
        IB_USER_VERBS_CMD_REG_SMR = 10,
        IB_USER_VERBS_CMD_REREG_MR = 11,
        IB_USER_VERBS_CMD_QUERY_MR = 12,
        IB_USER_VERBS_CMD_DEREG_MR = 13,
        IB_USER_VERBS_CMD_ALLOC_MW = 14,
        IB_USER_VERBS_CMD_BIND_MW = 15,
        IB_USER_VERBS_CMD_DEALLOC_MW = 16,
        IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL = 17,
        IB_USER_VERBS_CMD_CREATE_CQ = 18,
        IB_USER_VERBS_CMD_RESIZE_CQ = 19,
        IB_USER_VERBS_CMD_DESTROY_CQ = 20,
        IB_USER_VERBS_CMD_POLL_CQ = 21,
        IB_USER_VERBS_CMD_PEEK_CQ = 22,
        IB_USER_VERBS_CMD_REQ_NOTIFY_CQ = 23,
        IB_USER_VERBS_CMD_CREATE_QP = 24,
        IB_USER_VERBS_CMD_QUERY_QP = 25,
        IB_USER_VERBS_CMD_MODIFY_QP = 26,
        IB_USER_VERBS_CMD_DESTROY_QP = 27,
        IB_USER_VERBS_CMD_POST_SEND = 28,
        IB_USER_VERBS_CMD_POST_RECV = 29,
        IB_USER_VERBS_CMD_ATTACH_MCAST = 30,
        IB_USER_VERBS_CMD_DETACH_MCAST = 31,
        IB_USER_VERBS_CMD_CREATE_SRQ = 32,
        IB_USER_VERBS_CMD_MODIFY_SRQ = 33,
        IB_USER_VERBS_CMD_QUERY_SRQ = 34,
        IB_USER_VERBS_CMD_DESTROY_SRQ = 35,
        IB_USER_VERBS_CMD_POST_SRQ_RECV = 36,
        IB_USER_VERBS_CMD_OPEN_XRCD = 37,
        IB_USER_VERBS_CMD_CLOSE_XRCD = 38,
        IB_USER_VERBS_CMD_CREATE_XSRQ = 39,
        IB_USER_VERBS_CMD_OPEN_QP = 40,
    }
}

kernel_enum! {
    /// Extended write commands.
    anonymous enum ib_uverbs_ex_write_cmds: u32 {
        IB_USER_VERBS_EX_CMD_QUERY_DEVICE = IB_USER_VERBS_CMD_QUERY_DEVICE,
        IB_USER_VERBS_EX_CMD_CREATE_CQ = IB_USER_VERBS_CMD_CREATE_CQ,
        IB_USER_VERBS_EX_CMD_CREATE_QP = IB_USER_VERBS_CMD_CREATE_QP,
        IB_USER_VERBS_EX_CMD_MODIFY_QP = IB_USER_VERBS_CMD_MODIFY_QP,
        IB_USER_VERBS_EX_CMD_CREATE_FLOW = IB_USER_VERBS_CMD_THRESHOLD,
        IB_USER_VERBS_EX_CMD_DESTROY_FLOW = 51,
        IB_USER_VERBS_EX_CMD_CREATE_WQ = 52,
        IB_USER_VERBS_EX_CMD_MODIFY_WQ = 53,
        IB_USER_VERBS_EX_CMD_DESTROY_WQ = 54,
        IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL = 55,
        IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL = 56,
        IB_USER_VERBS_EX_CMD_MODIFY_CQ = 57,
    }
}

kernel_enum! {
    /// How far a flush goes (IBA A19.4.1.1).
    enum ib_placement_type: u32 {
        IB_FLUSH_GLOBAL = 1 << 0,
        IB_FLUSH_PERSISTENT = 1 << 1,
    }
}

kernel_enum! {
    /// What a flush covers (IBA A19.4.1.2).
    enum ib_selectivity_level: u32 {
        IB_FLUSH_RANGE = 0,
        IB_FLUSH_MR = 1,
    }
}

/// One asynchronous event, as read from the event file.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_async_event_desc {
    /// The user handle of the object concerned, or the port number.
    pub element: u64,
    pub event_type: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_async_event_desc, size 16, align 8, {
    element @ 0, event_type @ 8, reserved @ 12,
});

/// One completion event, as read from a completion channel.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_comp_event_desc {
    /// The user handle given when the queue was created.
    pub cq_handle: u64,
}
assert_layout!(ib_uverbs_comp_event_desc, size 8, align 8, { cq_handle @ 0 });

/// The limits of completion moderation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_cq_moderation_caps {
    pub max_cq_moderation_count: u16,
    pub max_cq_moderation_period: u16,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_cq_moderation_caps, size 8, align 4, {
    max_cq_moderation_count @ 0, max_cq_moderation_period @ 2, reserved @ 4,
});

/// The bits of a command word that hold the command.
pub const IB_USER_VERBS_CMD_COMMAND_MASK: u32 = 0xff;

/// Set in the command word of an extended command.
pub const IB_USER_VERBS_CMD_FLAG_EXTENDED: u32 = 0x8000_0000;

/// Begins every command given to `write(2)`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_cmd_hdr {
    pub command: u32,
    /// Whole request, header included: 4-byte words, or 8-byte words if extended (the core part
    /// only).
    pub in_words: u16,
    /// Size of the reply buffer, in words of the same size.
    pub out_words: u16,
}
assert_layout!(ib_uverbs_cmd_hdr, size 8, align 4, { command @ 0, in_words @ 4, out_words @ 6 });

/// Follows [`ib_uverbs_cmd_hdr`] in an extended command.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_cmd_hdr {
    pub response: u64,
    /// Driver data of the request, 8-byte words.
    pub provider_in_words: u16,
    /// Size of the buffer for the reply's driver data, in 8-byte words.
    pub provider_out_words: u16,
    pub cmd_hdr_reserved: u32,
}
assert_layout!(ib_uverbs_ex_cmd_hdr, size 16, align 8, {
    response @ 0, provider_in_words @ 8, provider_out_words @ 10, cmd_hdr_reserved @ 12,
});

/// Request of [`IB_USER_VERBS_CMD_GET_CONTEXT`]: opens the device.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_get_context {
    pub response: u64,
}
assert_layout!(ib_uverbs_get_context, size 8, align 8, {
    response @ 0,
}, open { driver_data @ 8 });

/// Reply to [`IB_USER_VERBS_CMD_GET_CONTEXT`].
///
/// Followed by `driver_data`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_get_context_resp {
    pub async_fd: u32,
    pub num_comp_vectors: u32,
}
assert_layout!(ib_uverbs_get_context_resp, size 8, align 8, {
    async_fd @ 0, num_comp_vectors @ 4,
}, open { driver_data @ 8 });

/// Request of [`IB_USER_VERBS_CMD_QUERY_DEVICE`]: reads the device's attributes.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_query_device {
    pub response: u64,
}
assert_layout!(ib_uverbs_query_device, size 8, align 8, {
    response @ 0,
}, open { driver_data @ 8 });

/// Reply to [`IB_USER_VERBS_CMD_QUERY_DEVICE`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_query_device_resp {
    pub fw_ver: u64,
    pub node_guid: __be64,
    pub sys_image_guid: __be64,
    pub max_mr_size: u64,
    /// Bit n: pages of 2^n bytes.
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: u32,
    pub max_qp_wr: u32,
    pub device_cap_flags: u32,
    pub max_sge: u32,
    pub max_sge_rd: u32,
    pub max_cq: u32,
    pub max_cqe: u32,
    pub max_mr: u32,
    pub max_pd: u32,
    pub max_qp_rd_atom: u32,
    pub max_ee_rd_atom: u32,
    pub max_res_rd_atom: u32,
    pub max_qp_init_rd_atom: u32,
    pub max_ee_init_rd_atom: u32,
    pub atomic_cap: u32,
    pub max_ee: u32,
    pub max_rdd: u32,
    pub max_mw: u32,
    pub max_raw_ipv6_qp: u32,
    pub max_raw_ethy_qp: u32,
    pub max_mcast_grp: u32,
    pub max_mcast_qp_attach: u32,
    pub max_total_mcast_qp_attach: u32,
    pub max_ah: u32,
    pub max_fmr: u32,
    pub max_map_per_fmr: u32,
    pub max_srq: u32,
    pub max_srq_wr: u32,
    pub max_srq_sge: u32,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
    pub reserved: [u8; 4],
}
assert_layout!(ib_uverbs_query_device_resp, size 176, align 8, {
    fw_ver @ 0, node_guid @ 8, sys_image_guid @ 16, max_mr_size @ 24, page_size_cap @ 32,
    vendor_id @ 40, vendor_part_id @ 44, hw_ver @ 48, max_qp @ 52, max_qp_wr @ 56,
    device_cap_flags @ 60, max_sge @ 64, max_sge_rd @ 68, max_cq @ 72, max_cqe @ 76,
    max_mr @ 80, max_pd @ 84, max_qp_rd_atom @ 88, max_ee_rd_atom @ 92, max_res_rd_atom @ 96,
    max_qp_init_rd_atom @ 100, max_ee_init_rd_atom @ 104, atomic_cap @ 108, max_ee @ 112,
    max_rdd @ 116, max_mw @ 120, max_raw_ipv6_qp @ 124, max_raw_ethy_qp @ 128,
    max_mcast_grp @ 132, max_mcast_qp_attach @ 136, max_total_mcast_qp_attach @ 140,
    max_ah @ 144, max_fmr @ 148, max_map_per_fmr @ 152, max_srq @ 156, max_srq_wr @ 160,
    max_srq_sge @ 164, max_pkeys @ 168, local_ca_ack_delay @ 170, phys_port_cnt @ 171,
    reserved @ 172,
});

/// Request of [`IB_USER_VERBS_EX_CMD_QUERY_DEVICE`]: reads the device's attributes.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_query_device {
    pub comp_mask: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_ex_query_device, size 8, align 4, { comp_mask @ 0, reserved @ 4 });

kernel_enum! {
    /// On-demand paging at all.
    enum ib_uverbs_odp_general_cap_bits: u32 {
        IB_UVERBS_ODP_SUPPORT = 1 << 0,
        IB_UVERBS_ODP_SUPPORT_IMPLICIT = 1 << 1,
    }
}

kernel_enum! {
    /// On-demand paging by operation.
    enum ib_uverbs_odp_transport_cap_bits: u32 {
        IB_UVERBS_ODP_SUPPORT_SEND = 1 << 0,
        IB_UVERBS_ODP_SUPPORT_RECV = 1 << 1,
        IB_UVERBS_ODP_SUPPORT_WRITE = 1 << 2,
        IB_UVERBS_ODP_SUPPORT_READ = 1 << 3,
        IB_UVERBS_ODP_SUPPORT_ATOMIC = 1 << 4,
        IB_UVERBS_ODP_SUPPORT_SRQ_RECV = 1 << 5,
        IB_UVERBS_ODP_SUPPORT_FLUSH = 1 << 6,
        IB_UVERBS_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7,
    }
}

/// [`mod@ib_uverbs_odp_transport_cap_bits`] of each transport.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_odp_caps_per_transport_caps {
    pub rc_odp_caps: u32,
    pub uc_odp_caps: u32,
    pub ud_odp_caps: u32,
}
assert_layout!(ib_uverbs_odp_caps_per_transport_caps, size 12, align 4, {
    rc_odp_caps @ 0, uc_odp_caps @ 4, ud_odp_caps @ 8,
}, as "ib_uverbs_odp_caps.per_transport_caps");

/// What on-demand paging can do, per transport.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_odp_caps {
    pub general_caps: u64,
    pub per_transport_caps: ib_uverbs_odp_caps_per_transport_caps,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_odp_caps, size 24, align 8, {
    general_caps @ 0, per_transport_caps @ 8, reserved @ 20,
});

/// The limits of receive-side scaling.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_rss_caps {
    /// Bit n: queue pairs of type n.
    pub supported_qpts: u32,
    pub max_rwq_indirection_tables: u32,
    pub max_rwq_indirection_table_size: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_rss_caps, size 16, align 4, {
    supported_qpts @ 0, max_rwq_indirection_tables @ 4, max_rwq_indirection_table_size @ 8,
    reserved @ 12,
});

/// The limits of tag matching.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_tm_caps {
    pub max_rndv_hdr_size: u32,
    pub max_num_tags: u32,
    pub flags: u32,
    pub max_ops: u32,
    pub max_sge: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_tm_caps, size 24, align 4, {
    max_rndv_hdr_size @ 0, max_num_tags @ 4, flags @ 8, max_ops @ 12, max_sge @ 16,
    reserved @ 20,
});

/// Reply to [`IB_USER_VERBS_EX_CMD_QUERY_DEVICE`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_query_device_resp {
    pub base: ib_uverbs_query_device_resp,
    pub comp_mask: u32,
    /// Bytes the kernel filled, this field and all before it included.
    pub response_length: u32,
    pub odp_caps: ib_uverbs_odp_caps,
    pub timestamp_mask: u64,
    /// kHz.
    pub hca_core_clock: u64,
    pub device_cap_flags_ex: u64,
    pub rss_caps: ib_uverbs_rss_caps,
    pub max_wq_type_rq: u32,
    pub raw_packet_caps: u32,
    pub tm_caps: ib_uverbs_tm_caps,
    pub cq_moderation_caps: ib_uverbs_cq_moderation_caps,
    pub max_dm_size: u64,
    pub xrc_odp_caps: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_ex_query_device_resp, size 304, align 8, {
    base @ 0, comp_mask @ 176, response_length @ 180, odp_caps @ 184, timestamp_mask @ 208,
    hca_core_clock @ 216, device_cap_flags_ex @ 224, rss_caps @ 232, max_wq_type_rq @ 248,
    raw_packet_caps @ 252, tm_caps @ 256, cq_moderation_caps @ 280, max_dm_size @ 288,
    xrc_odp_caps @ 296, reserved @ 300,
});

/// Request of [`IB_USER_VERBS_CMD_QUERY_PORT`]: reads a port's attributes.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_query_port {
    pub response: u64,
    pub port_num: u8,
    pub reserved: [u8; 7],
}
assert_layout!(ib_uverbs_query_port, size 16, align 8, {
    response @ 0, port_num @ 8, reserved @ 9,
}, open { driver_data @ 16 });

/// Reply to [`IB_USER_VERBS_CMD_QUERY_PORT`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_query_port_resp {
    /// [`mod@crate::ib_user_ioctl_verbs::ib_uverbs_query_port_cap_flags`].
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub gid_tbl_len: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub state: u8,
    pub max_mtu: u8,
    pub active_mtu: u8,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    /// [`mod@crate::ib_user_ioctl_verbs::ib_uverbs_query_port_flags`].
    pub flags: u8,
    pub reserved: u8,
}
assert_layout!(ib_uverbs_query_port_resp, size 40, align 4, {
    port_cap_flags @ 0, max_msg_sz @ 4, bad_pkey_cntr @ 8, qkey_viol_cntr @ 12,
    gid_tbl_len @ 16, pkey_tbl_len @ 20, lid @ 22, sm_lid @ 24, state @ 26, max_mtu @ 27,
    active_mtu @ 28, lmc @ 29, max_vl_num @ 30, sm_sl @ 31, subnet_timeout @ 32,
    init_type_reply @ 33, active_width @ 34, active_speed @ 35, phys_state @ 36,
    link_layer @ 37, flags @ 38, reserved @ 39,
});

/// Request of [`IB_USER_VERBS_CMD_ALLOC_PD`]: allocates a protection domain.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_alloc_pd {
    pub response: u64,
}
assert_layout!(ib_uverbs_alloc_pd, size 8, align 8, { response @ 0 }, open { driver_data @ 8 });

/// Reply to [`IB_USER_VERBS_CMD_ALLOC_PD`].
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_alloc_pd_resp {
    pub pd_handle: u32,
}
assert_layout!(ib_uverbs_alloc_pd_resp, size 4, align 4, {
    pd_handle @ 0,
}, open { driver_data @ 4 });

/// Request of [`IB_USER_VERBS_CMD_DEALLOC_PD`]: frees a protection domain.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_dealloc_pd {
    pub pd_handle: u32,
}
assert_layout!(ib_uverbs_dealloc_pd, size 4, align 4, { pd_handle @ 0 });

/// Request of [`IB_USER_VERBS_CMD_OPEN_XRCD`]: opens an XRC domain.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_open_xrcd {
    pub response: u64,
    pub fd: u32,
    pub oflags: u32,
}
assert_layout!(ib_uverbs_open_xrcd, size 16, align 8, {
    response @ 0, fd @ 8, oflags @ 12,
}, open { driver_data @ 16 });

/// Reply to [`IB_USER_VERBS_CMD_OPEN_XRCD`].
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_open_xrcd_resp {
    pub xrcd_handle: u32,
}
assert_layout!(ib_uverbs_open_xrcd_resp, size 4, align 4, {
    xrcd_handle @ 0,
}, open { driver_data @ 4 });

/// Request of [`IB_USER_VERBS_CMD_CLOSE_XRCD`]: closes an XRC domain.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_close_xrcd {
    pub xrcd_handle: u32,
}
assert_layout!(ib_uverbs_close_xrcd, size 4, align 4, { xrcd_handle @ 0 });

/// Request of [`IB_USER_VERBS_CMD_REG_MR`]: registers memory by address.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_reg_mr {
    pub response: u64,
    pub start: u64,
    pub length: u64,
    pub hca_va: u64,
    pub pd_handle: u32,
    pub access_flags: u32,
}
assert_layout!(ib_uverbs_reg_mr, size 40, align 8, {
    response @ 0, start @ 8, length @ 16, hca_va @ 24, pd_handle @ 32, access_flags @ 36,
}, open { driver_data @ 40 });

/// Reply to [`IB_USER_VERBS_CMD_REG_MR`].
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_reg_mr_resp {
    pub mr_handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}
assert_layout!(ib_uverbs_reg_mr_resp, size 12, align 4, {
    mr_handle @ 0, lkey @ 4, rkey @ 8,
}, open { driver_data @ 12 });

/// Request of [`IB_USER_VERBS_CMD_REREG_MR`]: changes the address range, domain or access of a
/// memory region.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_rereg_mr {
    pub response: u64,
    pub mr_handle: u32,
    pub flags: u32,
    pub start: u64,
    pub length: u64,
    pub hca_va: u64,
    pub pd_handle: u32,
    pub access_flags: u32,
}
assert_layout!(ib_uverbs_rereg_mr, size 48, align 8, {
    response @ 0, mr_handle @ 8, flags @ 12, start @ 16, length @ 24, hca_va @ 32,
    pd_handle @ 40, access_flags @ 44,
}, open { driver_data @ 48 });

/// Reply to [`IB_USER_VERBS_CMD_REREG_MR`].
///
/// Followed by `driver_data`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_rereg_mr_resp {
    pub lkey: u32,
    pub rkey: u32,
}
assert_layout!(ib_uverbs_rereg_mr_resp, size 8, align 8, {
    lkey @ 0, rkey @ 4,
}, open { driver_data @ 8 });

/// Request of [`IB_USER_VERBS_CMD_DEREG_MR`]: deregisters memory.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_dereg_mr {
    pub mr_handle: u32,
}
assert_layout!(ib_uverbs_dereg_mr, size 4, align 4, { mr_handle @ 0 });

/// Request of [`IB_USER_VERBS_CMD_ALLOC_MW`]: allocates a memory window.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_alloc_mw {
    pub response: u64,
    pub pd_handle: u32,
    pub mw_type: u8,
    pub reserved: [u8; 3],
}
assert_layout!(ib_uverbs_alloc_mw, size 16, align 8, {
    response @ 0, pd_handle @ 8, mw_type @ 12, reserved @ 13,
}, open { driver_data @ 16 });

/// Reply to [`IB_USER_VERBS_CMD_ALLOC_MW`].
///
/// Followed by `driver_data`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_alloc_mw_resp {
    pub mw_handle: u32,
    pub rkey: u32,
}
assert_layout!(ib_uverbs_alloc_mw_resp, size 8, align 8, {
    mw_handle @ 0, rkey @ 4,
}, open { driver_data @ 8 });

/// Request of [`IB_USER_VERBS_CMD_DEALLOC_MW`]: frees a memory window.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_dealloc_mw {
    pub mw_handle: u32,
}
assert_layout!(ib_uverbs_dealloc_mw, size 4, align 4, { mw_handle @ 0 });

/// Request of [`IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL`]: opens a completion channel.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_comp_channel {
    pub response: u64,
}
assert_layout!(ib_uverbs_create_comp_channel, size 8, align 8, { response @ 0 });

/// Reply to [`IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_comp_channel_resp {
    pub fd: u32,
}
assert_layout!(ib_uverbs_create_comp_channel_resp, size 4, align 4, { fd @ 0 });

/// Request of [`IB_USER_VERBS_CMD_CREATE_CQ`]: creates a completion queue.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_cq {
    pub response: u64,
    pub user_handle: u64,
    pub cqe: u32,
    pub comp_vector: u32,
    /// A file descriptor, or -1.
    pub comp_channel: i32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_create_cq, size 32, align 8, {
    response @ 0, user_handle @ 8, cqe @ 16, comp_vector @ 20, comp_channel @ 24,
    reserved @ 28,
}, open { driver_data @ 32 });

kernel_enum! {
    /// Completion queue creation flags.
    enum ib_uverbs_ex_create_cq_flags: u32 {
        IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION = 1 << 0,
        IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN = 1 << 1,
    }
}

/// Request of [`IB_USER_VERBS_EX_CMD_CREATE_CQ`]: creates a completion queue.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_create_cq {
    pub user_handle: u64,
    pub cqe: u32,
    pub comp_vector: u32,
    /// A file descriptor, or -1.
    pub comp_channel: i32,
    pub comp_mask: u32,
    /// [`mod@ib_uverbs_ex_create_cq_flags`].
    pub flags: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_ex_create_cq, size 32, align 8, {
    user_handle @ 0, cqe @ 8, comp_vector @ 12, comp_channel @ 16, comp_mask @ 20, flags @ 24,
    reserved @ 28,
});

/// Reply to [`IB_USER_VERBS_CMD_CREATE_CQ`].
///
/// Followed by `driver_data`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_cq_resp {
    pub cq_handle: u32,
    pub cqe: u32,
}
assert_layout!(ib_uverbs_create_cq_resp, size 8, align 8, {
    cq_handle @ 0, cqe @ 4,
}, open { driver_data @ 8 });

/// Reply to [`IB_USER_VERBS_EX_CMD_CREATE_CQ`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_create_cq_resp {
    pub base: ib_uverbs_create_cq_resp,
    pub comp_mask: u32,
    pub response_length: u32,
}
assert_layout!(ib_uverbs_ex_create_cq_resp, size 16, align 8, {
    base @ 0, comp_mask @ 8, response_length @ 12,
});

/// Request of [`IB_USER_VERBS_CMD_RESIZE_CQ`]: resizes a completion queue.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_resize_cq {
    pub response: u64,
    pub cq_handle: u32,
    pub cqe: u32,
}
assert_layout!(ib_uverbs_resize_cq, size 16, align 8, {
    response @ 0, cq_handle @ 8, cqe @ 12,
}, open { driver_data @ 16 });

/// Reply to [`IB_USER_VERBS_CMD_RESIZE_CQ`].
///
/// Followed by `driver_data`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_resize_cq_resp {
    pub cqe: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_resize_cq_resp, size 8, align 8, {
    cqe @ 0, reserved @ 4,
}, open { driver_data @ 8 });

/// Request of [`IB_USER_VERBS_CMD_POLL_CQ`]: polls a completion queue in the kernel.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_poll_cq {
    pub response: u64,
    pub cq_handle: u32,
    pub ne: u32,
}
assert_layout!(ib_uverbs_poll_cq, size 16, align 8, { response @ 0, cq_handle @ 8, ne @ 12 });

kernel_enum! {
    /// What completed.
    enum ib_uverbs_wc_opcode: u32 {
        IB_UVERBS_WC_SEND = 0,
        IB_UVERBS_WC_RDMA_WRITE = 1,
        IB_UVERBS_WC_RDMA_READ = 2,
        IB_UVERBS_WC_COMP_SWAP = 3,
        IB_UVERBS_WC_FETCH_ADD = 4,
        IB_UVERBS_WC_BIND_MW = 5,
        IB_UVERBS_WC_LOCAL_INV = 6,
        IB_UVERBS_WC_TSO = 7,
        IB_UVERBS_WC_FLUSH = 8,
        IB_UVERBS_WC_ATOMIC_WRITE = 9,
    }
}

kernel_union! {
    /// The immediate value, or the invalidated key, of a received message.
    union ib_uverbs_wc_ex: [u32; 1] = "ib_uverbs_wc.ex" {
        imm_data: __be32,
        invalidate_rkey: u32,
    }
}

/// A completion, as [`ib_uverbs_poll_cq`] returns it.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_wc {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub ex: ib_uverbs_wc_ex,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
    pub port_num: u8,
    pub reserved: u8,
}
assert_layout!(ib_uverbs_wc, size 48, align 8, {
    wr_id @ 0, status @ 8, opcode @ 12, vendor_err @ 16, byte_len @ 20, ex @ 24, qp_num @ 28,
    src_qp @ 32, wc_flags @ 36, pkey_index @ 40, slid @ 42, sl @ 44, dlid_path_bits @ 45,
    port_num @ 46, reserved @ 47,
});

/// Reply to [`IB_USER_VERBS_CMD_POLL_CQ`].
///
/// Followed by `wc`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_poll_cq_resp {
    pub count: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_poll_cq_resp, size 8, align 8, {
    count @ 0, reserved @ 4,
}, open { wc @ 8 });

/// Request of [`IB_USER_VERBS_CMD_REQ_NOTIFY_CQ`]: arms a completion queue.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_req_notify_cq {
    pub cq_handle: u32,
    pub solicited_only: u32,
}
assert_layout!(ib_uverbs_req_notify_cq, size 8, align 4, { cq_handle @ 0, solicited_only @ 4 });

/// Request of [`IB_USER_VERBS_CMD_DESTROY_CQ`]: destroys a completion queue.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_destroy_cq {
    pub response: u64,
    pub cq_handle: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_destroy_cq, size 16, align 8, {
    response @ 0, cq_handle @ 8, reserved @ 12,
});

/// Reply to [`IB_USER_VERBS_CMD_DESTROY_CQ`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_destroy_cq_resp {
    pub comp_events_reported: u32,
    pub async_events_reported: u32,
}
assert_layout!(ib_uverbs_destroy_cq_resp, size 8, align 4, {
    comp_events_reported @ 0, async_events_reported @ 4,
});

/// The global part of an address.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_global_route {
    pub dgid: [u8; 16],
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub reserved: u8,
}
assert_layout!(ib_uverbs_global_route, size 24, align 4, {
    dgid @ 0, flow_label @ 16, sgid_index @ 20, hop_limit @ 21, traffic_class @ 22,
    reserved @ 23,
});

/// An address.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ah_attr {
    pub grh: ib_uverbs_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
    pub reserved: u8,
}
assert_layout!(ib_uverbs_ah_attr, size 32, align 4, {
    grh @ 0, dlid @ 24, sl @ 26, src_path_bits @ 27, static_rate @ 28, is_global @ 29,
    port_num @ 30, reserved @ 31,
});

/// A queue pair's attributes, as the connection manager returns them.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_qp_attr {
    pub qp_attr_mask: u32,
    pub qp_state: u32,
    pub cur_qp_state: u32,
    pub path_mtu: u32,
    pub path_mig_state: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: u32,
    pub ah_attr: ib_uverbs_ah_attr,
    pub alt_ah_attr: ib_uverbs_ah_attr,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub reserved: [u8; 5],
}
assert_layout!(ib_uverbs_qp_attr, size 144, align 4, {
    qp_attr_mask @ 0, qp_state @ 4, cur_qp_state @ 8, path_mtu @ 12, path_mig_state @ 16,
    qkey @ 20, rq_psn @ 24, sq_psn @ 28, dest_qp_num @ 32, qp_access_flags @ 36, ah_attr @ 40,
    alt_ah_attr @ 72, max_send_wr @ 104, max_recv_wr @ 108, max_send_sge @ 112,
    max_recv_sge @ 116, max_inline_data @ 120, pkey_index @ 124, alt_pkey_index @ 126,
    en_sqd_async_notify @ 128, sq_draining @ 129, max_rd_atomic @ 130,
    max_dest_rd_atomic @ 131, min_rnr_timer @ 132, port_num @ 133, timeout @ 134,
    retry_cnt @ 135, rnr_retry @ 136, alt_port_num @ 137, alt_timeout @ 138, reserved @ 139,
});

/// Request of [`IB_USER_VERBS_CMD_CREATE_QP`]: creates a queue pair.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_qp {
    pub response: u64,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub send_cq_handle: u32,
    pub recv_cq_handle: u32,
    pub srq_handle: u32,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    pub sq_sig_all: u8,
    pub qp_type: u8,
    pub is_srq: u8,
    pub reserved: u8,
}
assert_layout!(ib_uverbs_create_qp, size 56, align 8, {
    response @ 0, user_handle @ 8, pd_handle @ 16, send_cq_handle @ 20, recv_cq_handle @ 24,
    srq_handle @ 28, max_send_wr @ 32, max_recv_wr @ 36, max_send_sge @ 40, max_recv_sge @ 44,
    max_inline_data @ 48, sq_sig_all @ 52, qp_type @ 53, is_srq @ 54, reserved @ 55,
}, open { driver_data @ 56 });

kernel_enum! {
    /// Which optional fields of [`ib_uverbs_ex_create_qp`] are valid.
    enum ib_uverbs_create_qp_mask: u32 {
        IB_UVERBS_CREATE_QP_MASK_IND_TABLE = 1 << 0,
    }
}

kernel_enum! {
    /// All of [`mod@ib_uverbs_create_qp_mask`].
    anonymous enum ib_uverbs_create_qp_sup_comp_mask: u32 {
        IB_UVERBS_CREATE_QP_SUP_COMP_MASK = IB_UVERBS_CREATE_QP_MASK_IND_TABLE,
    }
}

/// Request of [`IB_USER_VERBS_EX_CMD_CREATE_QP`]: creates a queue pair.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_create_qp {
    pub user_handle: u64,
    pub pd_handle: u32,
    pub send_cq_handle: u32,
    pub recv_cq_handle: u32,
    pub srq_handle: u32,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    pub sq_sig_all: u8,
    pub qp_type: u8,
    pub is_srq: u8,
    pub reserved: u8,
    pub comp_mask: u32,
    pub create_flags: u32,
    pub rwq_ind_tbl_handle: u32,
    pub source_qpn: u32,
}
assert_layout!(ib_uverbs_ex_create_qp, size 64, align 8, {
    user_handle @ 0, pd_handle @ 8, send_cq_handle @ 12, recv_cq_handle @ 16, srq_handle @ 20,
    max_send_wr @ 24, max_recv_wr @ 28, max_send_sge @ 32, max_recv_sge @ 36,
    max_inline_data @ 40, sq_sig_all @ 44, qp_type @ 45, is_srq @ 46, reserved @ 47,
    comp_mask @ 48, create_flags @ 52, rwq_ind_tbl_handle @ 56, source_qpn @ 60,
});

/// Request of [`IB_USER_VERBS_CMD_OPEN_QP`]: opens a shared XRC target queue pair.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_open_qp {
    pub response: u64,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub qpn: u32,
    pub qp_type: u8,
    pub reserved: [u8; 7],
}
assert_layout!(ib_uverbs_open_qp, size 32, align 8, {
    response @ 0, user_handle @ 8, pd_handle @ 16, qpn @ 20, qp_type @ 24, reserved @ 25,
}, open { driver_data @ 32 });

/// Reply to [`IB_USER_VERBS_CMD_CREATE_QP`]. Also of [`IB_USER_VERBS_CMD_OPEN_QP`].
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_qp_resp {
    pub qp_handle: u32,
    pub qpn: u32,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_create_qp_resp, size 32, align 4, {
    qp_handle @ 0, qpn @ 4, max_send_wr @ 8, max_recv_wr @ 12, max_send_sge @ 16,
    max_recv_sge @ 20, max_inline_data @ 24, reserved @ 28,
}, open { driver_data @ 32 });

/// Reply to [`IB_USER_VERBS_EX_CMD_CREATE_QP`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_create_qp_resp {
    pub base: ib_uverbs_create_qp_resp,
    pub comp_mask: u32,
    pub response_length: u32,
}
assert_layout!(ib_uverbs_ex_create_qp_resp, size 40, align 4, {
    base @ 0, comp_mask @ 32, response_length @ 36,
});

/// An address, as queue-pair commands pack it.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_qp_dest {
    pub dgid: [u8; 16],
    pub flow_label: u32,
    pub dlid: u16,
    pub reserved: u16,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}
assert_layout!(ib_uverbs_qp_dest, size 32, align 4, {
    dgid @ 0, flow_label @ 16, dlid @ 20, reserved @ 22, sgid_index @ 24, hop_limit @ 25,
    traffic_class @ 26, sl @ 27, src_path_bits @ 28, static_rate @ 29, is_global @ 30,
    port_num @ 31,
});

/// Request of [`IB_USER_VERBS_CMD_QUERY_QP`]: reads a queue pair's attributes.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_query_qp {
    pub response: u64,
    pub qp_handle: u32,
    pub attr_mask: u32,
}
assert_layout!(ib_uverbs_query_qp, size 16, align 8, {
    response @ 0, qp_handle @ 8, attr_mask @ 12,
}, open { driver_data @ 16 });

/// Reply to [`IB_USER_VERBS_CMD_QUERY_QP`].
///
/// Followed by `driver_data`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_query_qp_resp {
    pub dest: ib_uverbs_qp_dest,
    pub alt_dest: ib_uverbs_qp_dest,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: u32,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub qp_state: u8,
    pub cur_qp_state: u8,
    pub path_mtu: u8,
    pub path_mig_state: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub sq_sig_all: u8,
    pub reserved: [u8; 5],
}
assert_layout!(ib_uverbs_query_qp_resp, size 128, align 8, {
    dest @ 0, alt_dest @ 32, max_send_wr @ 64, max_recv_wr @ 68, max_send_sge @ 72,
    max_recv_sge @ 76, max_inline_data @ 80, qkey @ 84, rq_psn @ 88, sq_psn @ 92,
    dest_qp_num @ 96, qp_access_flags @ 100, pkey_index @ 104, alt_pkey_index @ 106,
    qp_state @ 108, cur_qp_state @ 109, path_mtu @ 110, path_mig_state @ 111,
    sq_draining @ 112, max_rd_atomic @ 113, max_dest_rd_atomic @ 114, min_rnr_timer @ 115,
    port_num @ 116, timeout @ 117, retry_cnt @ 118, rnr_retry @ 119, alt_port_num @ 120,
    alt_timeout @ 121, sq_sig_all @ 122, reserved @ 123,
}, open { driver_data @ 128 });

/// Request of [`IB_USER_VERBS_CMD_MODIFY_QP`]: changes a queue pair's attributes and state.
///
/// Followed by `driver_data`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_modify_qp {
    pub dest: ib_uverbs_qp_dest,
    pub alt_dest: ib_uverbs_qp_dest,
    pub qp_handle: u32,
    pub attr_mask: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: u32,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub qp_state: u8,
    pub cur_qp_state: u8,
    pub path_mtu: u8,
    pub path_mig_state: u8,
    pub en_sqd_async_notify: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub reserved: [u8; 2],
}
assert_layout!(ib_uverbs_modify_qp, size 112, align 8, {
    dest @ 0, alt_dest @ 32, qp_handle @ 64, attr_mask @ 68, qkey @ 72, rq_psn @ 76,
    sq_psn @ 80, dest_qp_num @ 84, qp_access_flags @ 88, pkey_index @ 92, alt_pkey_index @ 94,
    qp_state @ 96, cur_qp_state @ 97, path_mtu @ 98, path_mig_state @ 99,
    en_sqd_async_notify @ 100, max_rd_atomic @ 101, max_dest_rd_atomic @ 102,
    min_rnr_timer @ 103, port_num @ 104, timeout @ 105, retry_cnt @ 106, rnr_retry @ 107,
    alt_port_num @ 108, alt_timeout @ 109, reserved @ 110,
}, open { driver_data @ 112 });

/// Request of [`IB_USER_VERBS_EX_CMD_MODIFY_QP`]: changes a queue pair's attributes and state.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_modify_qp {
    pub base: ib_uverbs_modify_qp,
    pub rate_limit: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_ex_modify_qp, size 120, align 8, {
    base @ 0, rate_limit @ 112, reserved @ 116,
});

/// Reply to [`IB_USER_VERBS_EX_CMD_MODIFY_QP`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_modify_qp_resp {
    pub comp_mask: u32,
    pub response_length: u32,
}
assert_layout!(ib_uverbs_ex_modify_qp_resp, size 8, align 4, {
    comp_mask @ 0, response_length @ 4,
});

/// Request of [`IB_USER_VERBS_CMD_DESTROY_QP`]: destroys a queue pair.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_destroy_qp {
    pub response: u64,
    pub qp_handle: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_destroy_qp, size 16, align 8, {
    response @ 0, qp_handle @ 8, reserved @ 12,
});

/// Reply to [`IB_USER_VERBS_CMD_DESTROY_QP`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_destroy_qp_resp {
    pub events_reported: u32,
}
assert_layout!(ib_uverbs_destroy_qp_resp, size 4, align 4, { events_reported @ 0 });

/// A scatter/gather element of a work request.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}
assert_layout!(ib_uverbs_sge, size 16, align 8, { addr @ 0, length @ 8, lkey @ 12 });

kernel_enum! {
    /// What a send request asks for.
    enum ib_uverbs_wr_opcode: u32 {
        IB_UVERBS_WR_RDMA_WRITE = 0,
        IB_UVERBS_WR_RDMA_WRITE_WITH_IMM = 1,
        IB_UVERBS_WR_SEND = 2,
        IB_UVERBS_WR_SEND_WITH_IMM = 3,
        IB_UVERBS_WR_RDMA_READ = 4,
        IB_UVERBS_WR_ATOMIC_CMP_AND_SWP = 5,
        IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD = 6,
        IB_UVERBS_WR_LOCAL_INV = 7,
        IB_UVERBS_WR_BIND_MW = 8,
        IB_UVERBS_WR_SEND_WITH_INV = 9,
        IB_UVERBS_WR_TSO = 10,
        IB_UVERBS_WR_RDMA_READ_WITH_INV = 11,
        IB_UVERBS_WR_MASKED_ATOMIC_CMP_AND_SWP = 12,
        IB_UVERBS_WR_MASKED_ATOMIC_FETCH_AND_ADD = 13,
        IB_UVERBS_WR_FLUSH = 14,
        IB_UVERBS_WR_ATOMIC_WRITE = 15,
    }
}

kernel_union! {
    /// The immediate value, or the key to invalidate.
    union ib_uverbs_send_wr_ex: [u32; 1] = "ib_uverbs_send_wr.ex" {
        imm_data: __be32,
        invalidate_rkey: u32,
    }
}

/// RDMA read and write.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_send_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_send_wr_rdma, size 16, align 8, {
    remote_addr @ 0, rkey @ 8, reserved @ 12,
}, as "ib_uverbs_send_wr.wr.rdma");

/// Atomic operations.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_send_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_send_wr_atomic, size 32, align 8, {
    remote_addr @ 0, compare_add @ 8, swap @ 16, rkey @ 24, reserved @ 28,
}, as "ib_uverbs_send_wr.wr.atomic");

/// Datagrams.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_send_wr_ud {
    pub ah: u32,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_send_wr_ud, size 16, align 4, {
    ah @ 0, remote_qpn @ 4, remote_qkey @ 8, reserved @ 12,
}, as "ib_uverbs_send_wr.wr.ud");

kernel_union! {
    /// What the opcode needs besides data.
    union ib_uverbs_send_wr_wr: [u64; 4] = "ib_uverbs_send_wr.wr" {
        rdma: ib_uverbs_send_wr_rdma,
        atomic: ib_uverbs_send_wr_atomic,
        ud: ib_uverbs_send_wr_ud,
    }
}

/// A send request, as [`ib_uverbs_post_send`] carries it.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_send_wr {
    pub wr_id: u64,
    pub num_sge: u32,
    /// [`mod@ib_uverbs_wr_opcode`].
    pub opcode: u32,
    pub send_flags: u32,
    pub ex: ib_uverbs_send_wr_ex,
    pub wr: ib_uverbs_send_wr_wr,
}
assert_layout!(ib_uverbs_send_wr, size 56, align 8, {
    wr_id @ 0, num_sge @ 8, opcode @ 12, send_flags @ 16, ex @ 20, wr @ 24,
});

/// Request of [`IB_USER_VERBS_CMD_POST_SEND`]: posts send requests through the kernel.
///
/// Followed by `send_wr`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_post_send {
    pub response: u64,
    pub qp_handle: u32,
    pub wr_count: u32,
    pub sge_count: u32,
    pub wqe_size: u32,
}
assert_layout!(ib_uverbs_post_send, size 24, align 8, {
    response @ 0, qp_handle @ 8, wr_count @ 12, sge_count @ 16, wqe_size @ 20,
}, open { send_wr @ 24 });

/// Reply to [`IB_USER_VERBS_CMD_POST_SEND`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_post_send_resp {
    pub bad_wr: u32,
}
assert_layout!(ib_uverbs_post_send_resp, size 4, align 4, { bad_wr @ 0 });

/// A receive request, as [`ib_uverbs_post_recv`] carries it.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_recv_wr {
    pub wr_id: u64,
    pub num_sge: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_recv_wr, size 16, align 8, { wr_id @ 0, num_sge @ 8, reserved @ 12 });

/// Request of [`IB_USER_VERBS_CMD_POST_RECV`]: posts receive requests through the kernel.
///
/// Followed by `recv_wr`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_post_recv {
    pub response: u64,
    pub qp_handle: u32,
    pub wr_count: u32,
    pub sge_count: u32,
    pub wqe_size: u32,
}
assert_layout!(ib_uverbs_post_recv, size 24, align 8, {
    response @ 0, qp_handle @ 8, wr_count @ 12, sge_count @ 16, wqe_size @ 20,
}, open { recv_wr @ 24 });

/// Reply to [`IB_USER_VERBS_CMD_POST_RECV`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_post_recv_resp {
    pub bad_wr: u32,
}
assert_layout!(ib_uverbs_post_recv_resp, size 4, align 4, { bad_wr @ 0 });

/// Request of [`IB_USER_VERBS_CMD_POST_SRQ_RECV`]: posts shared receive requests through the
/// kernel.
///
/// Followed by `recv`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_post_srq_recv {
    pub response: u64,
    pub srq_handle: u32,
    pub wr_count: u32,
    pub sge_count: u32,
    pub wqe_size: u32,
}
assert_layout!(ib_uverbs_post_srq_recv, size 24, align 8, {
    response @ 0, srq_handle @ 8, wr_count @ 12, sge_count @ 16, wqe_size @ 20,
}, open { recv @ 24 });

/// Reply to [`IB_USER_VERBS_CMD_POST_SRQ_RECV`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_post_srq_recv_resp {
    pub bad_wr: u32,
}
assert_layout!(ib_uverbs_post_srq_recv_resp, size 4, align 4, { bad_wr @ 0 });

/// Request of [`IB_USER_VERBS_CMD_CREATE_AH`]: creates an address handle.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_ah {
    pub response: u64,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub reserved: u32,
    pub attr: ib_uverbs_ah_attr,
}
assert_layout!(ib_uverbs_create_ah, size 56, align 8, {
    response @ 0, user_handle @ 8, pd_handle @ 16, reserved @ 20, attr @ 24,
}, open { driver_data @ 56 });

/// Reply to [`IB_USER_VERBS_CMD_CREATE_AH`].
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_ah_resp {
    pub ah_handle: u32,
}
assert_layout!(ib_uverbs_create_ah_resp, size 4, align 4, {
    ah_handle @ 0,
}, open { driver_data @ 4 });

/// Request of [`IB_USER_VERBS_CMD_DESTROY_AH`]: destroys an address handle.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_destroy_ah {
    pub ah_handle: u32,
}
assert_layout!(ib_uverbs_destroy_ah, size 4, align 4, { ah_handle @ 0 });

/// Request of [`IB_USER_VERBS_CMD_ATTACH_MCAST`]: joins a queue pair to a multicast group.
///
/// Followed by `driver_data`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_attach_mcast {
    pub gid: [u8; 16],
    pub qp_handle: u32,
    pub mlid: u16,
    pub reserved: u16,
}
assert_layout!(ib_uverbs_attach_mcast, size 24, align 8, {
    gid @ 0, qp_handle @ 16, mlid @ 20, reserved @ 22,
}, open { driver_data @ 24 });

/// Request of [`IB_USER_VERBS_CMD_DETACH_MCAST`]: takes a queue pair out of a multicast group.
///
/// Followed by `driver_data`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_detach_mcast {
    pub gid: [u8; 16],
    pub qp_handle: u32,
    pub mlid: u16,
    pub reserved: u16,
}
assert_layout!(ib_uverbs_detach_mcast, size 24, align 8, {
    gid @ 0, qp_handle @ 16, mlid @ 20, reserved @ 22,
}, open { driver_data @ 24 });

/// Begins every part of a steering rule.
///
/// Followed by `flow_spec_data`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_hdr {
    pub r#type: u32,
    pub size: u16,
    pub reserved: u16,
}
assert_layout!(ib_uverbs_flow_spec_hdr, size 8, align 8, {
    r#type @ 0, size @ 4, reserved @ 6,
}, open { flow_spec_data @ 8 });

/// Ethernet fields to match.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_eth_filter {
    pub dst_mac: [u8; 6],
    pub src_mac: [u8; 6],
    pub ether_type: __be16,
    pub vlan_tag: __be16,
}
assert_layout!(ib_uverbs_flow_eth_filter, size 16, align 2, {
    dst_mac @ 0, src_mac @ 6, ether_type @ 12, vlan_tag @ 14,
});

/// Matches Ethernet.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_eth {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_eth_filter,
    pub mask: ib_uverbs_flow_eth_filter,
}
assert_layout!(ib_uverbs_flow_spec_eth, size 40, align 8, {
    hdr @ 0, val @ 8, mask @ 24,
}, also { r#type @ 0 + 4, size @ 4 + 2, reserved @ 6 + 2 });

/// IPv4 fields to match.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_ipv4_filter {
    pub src_ip: __be32,
    pub dst_ip: __be32,
    pub proto: u8,
    pub tos: u8,
    pub ttl: u8,
    pub flags: u8,
}
assert_layout!(ib_uverbs_flow_ipv4_filter, size 12, align 4, {
    src_ip @ 0, dst_ip @ 4, proto @ 8, tos @ 9, ttl @ 10, flags @ 11,
});

/// Matches IPv4.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_ipv4 {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_ipv4_filter,
    pub mask: ib_uverbs_flow_ipv4_filter,
}
assert_layout!(ib_uverbs_flow_spec_ipv4, size 32, align 8, {
    hdr @ 0, val @ 8, mask @ 20,
}, also { r#type @ 0 + 4, size @ 4 + 2, reserved @ 6 + 2 });

/// Ports to match.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_tcp_udp_filter {
    pub dst_port: __be16,
    pub src_port: __be16,
}
assert_layout!(ib_uverbs_flow_tcp_udp_filter, size 4, align 2, { dst_port @ 0, src_port @ 2 });

/// Matches TCP or UDP.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_tcp_udp {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_tcp_udp_filter,
    pub mask: ib_uverbs_flow_tcp_udp_filter,
}
assert_layout!(ib_uverbs_flow_spec_tcp_udp, size 16, align 8, {
    hdr @ 0, val @ 8, mask @ 12,
}, also { r#type @ 0 + 4, size @ 4 + 2, reserved @ 6 + 2 });

/// IPv6 fields to match.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_ipv6_filter {
    pub src_ip: [u8; 16],
    pub dst_ip: [u8; 16],
    pub flow_label: __be32,
    pub next_hdr: u8,
    pub traffic_class: u8,
    pub hop_limit: u8,
    pub reserved: u8,
}
assert_layout!(ib_uverbs_flow_ipv6_filter, size 40, align 4, {
    src_ip @ 0, dst_ip @ 16, flow_label @ 32, next_hdr @ 36, traffic_class @ 37,
    hop_limit @ 38, reserved @ 39,
});

/// Matches IPv6.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_ipv6 {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_ipv6_filter,
    pub mask: ib_uverbs_flow_ipv6_filter,
}
assert_layout!(ib_uverbs_flow_spec_ipv6, size 88, align 8, {
    hdr @ 0, val @ 8, mask @ 48,
}, also { r#type @ 0 + 4, size @ 4 + 2, reserved @ 6 + 2 });

/// Marks matching packets with a tag.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_action_tag {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub tag_id: u32,
    pub reserved1: u32,
}
assert_layout!(ib_uverbs_flow_spec_action_tag, size 16, align 8, {
    hdr @ 0, tag_id @ 8, reserved1 @ 12,
}, also { r#type @ 0 + 4, size @ 4 + 2, reserved @ 6 + 2 });

/// Drops matching packets.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_action_drop {
    pub hdr: ib_uverbs_flow_spec_hdr,
}
assert_layout!(ib_uverbs_flow_spec_action_drop, size 8, align 8, {
    hdr @ 0,
}, also { r#type @ 0 + 4, size @ 4 + 2, reserved @ 6 + 2 });

/// Applies a flow action.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_action_handle {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub handle: u32,
    pub reserved1: u32,
}
assert_layout!(ib_uverbs_flow_spec_action_handle, size 16, align 8, {
    hdr @ 0, handle @ 8, reserved1 @ 12,
}, also { r#type @ 0 + 4, size @ 4 + 2, reserved @ 6 + 2 });

/// Counts matching packets.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_action_count {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub handle: u32,
    pub reserved1: u32,
}
assert_layout!(ib_uverbs_flow_spec_action_count, size 16, align 8, {
    hdr @ 0, handle @ 8, reserved1 @ 12,
}, also { r#type @ 0 + 4, size @ 4 + 2, reserved @ 6 + 2 });

/// Tunnel fields to match.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_tunnel_filter {
    pub tunnel_id: __be32,
}
assert_layout!(ib_uverbs_flow_tunnel_filter, size 4, align 4, { tunnel_id @ 0 });

/// Matches a tunnel.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_tunnel {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_tunnel_filter,
    pub mask: ib_uverbs_flow_tunnel_filter,
}
assert_layout!(ib_uverbs_flow_spec_tunnel, size 16, align 8, {
    hdr @ 0, val @ 8, mask @ 12,
}, also { r#type @ 0 + 4, size @ 4 + 2, reserved @ 6 + 2 });

/// ESP fields to match.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_esp_filter {
    pub spi: u32,
    pub seq: u32,
}
assert_layout!(ib_uverbs_flow_spec_esp_filter, size 8, align 4, { spi @ 0, seq @ 4 });

/// Matches ESP.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_esp {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_spec_esp_filter,
    pub mask: ib_uverbs_flow_spec_esp_filter,
}
assert_layout!(ib_uverbs_flow_spec_esp, size 24, align 8, {
    hdr @ 0, val @ 8, mask @ 16,
}, also { r#type @ 0 + 4, size @ 4 + 2, reserved @ 6 + 2 });

/// GRE fields to match.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_gre_filter {
    /// The first 16 bits of a GRE header: C, reserved, K, S, reserved, version.
    pub c_ks_res0_ver: __be16,
    pub protocol: __be16,
    pub key: __be32,
}
assert_layout!(ib_uverbs_flow_gre_filter, size 8, align 4, {
    c_ks_res0_ver @ 0, protocol @ 2, key @ 4,
});

/// Matches GRE.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_gre {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_gre_filter,
    pub mask: ib_uverbs_flow_gre_filter,
}
assert_layout!(ib_uverbs_flow_spec_gre, size 24, align 8, {
    hdr @ 0, val @ 8, mask @ 16,
}, also { r#type @ 0 + 4, size @ 4 + 2, reserved @ 6 + 2 });

/// MPLS fields to match.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_mpls_filter {
    /// The whole label: 20 bits label, 3 traffic class, 1 bottom of stack, 8 time to live.
    pub label: __be32,
}
assert_layout!(ib_uverbs_flow_mpls_filter, size 4, align 4, { label @ 0 });

/// Matches MPLS.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_spec_mpls {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_mpls_filter,
    pub mask: ib_uverbs_flow_mpls_filter,
}
assert_layout!(ib_uverbs_flow_spec_mpls, size 16, align 8, {
    hdr @ 0, val @ 8, mask @ 12,
}, also { r#type @ 0 + 4, size @ 4 + 2, reserved @ 6 + 2 });

/// A steering rule; its parts follow.
///
/// Followed by `flow_specs`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_attr {
    pub r#type: u32,
    pub size: u16,
    pub priority: u16,
    pub num_of_specs: u8,
    pub reserved: [u8; 2],
    pub port: u8,
    pub flags: u32,
}
assert_layout!(ib_uverbs_flow_attr, size 16, align 8, {
    r#type @ 0, size @ 4, priority @ 6, num_of_specs @ 8, reserved @ 9, port @ 11, flags @ 12,
}, open { flow_specs @ 16 });

/// Request of [`IB_USER_VERBS_EX_CMD_CREATE_FLOW`]: steers packets to a queue pair.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_flow {
    pub comp_mask: u32,
    pub qp_handle: u32,
    pub flow_attr: ib_uverbs_flow_attr,
}
assert_layout!(ib_uverbs_create_flow, size 24, align 8, {
    comp_mask @ 0, qp_handle @ 4, flow_attr @ 8,
});

/// Reply to [`IB_USER_VERBS_EX_CMD_CREATE_FLOW`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_flow_resp {
    pub comp_mask: u32,
    pub flow_handle: u32,
}
assert_layout!(ib_uverbs_create_flow_resp, size 8, align 4, { comp_mask @ 0, flow_handle @ 4 });

/// Request of [`IB_USER_VERBS_EX_CMD_DESTROY_FLOW`]: removes a steering rule.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_destroy_flow {
    pub comp_mask: u32,
    pub flow_handle: u32,
}
assert_layout!(ib_uverbs_destroy_flow, size 8, align 4, { comp_mask @ 0, flow_handle @ 4 });

/// Request of [`IB_USER_VERBS_CMD_CREATE_SRQ`]: creates a shared receive queue.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_srq {
    pub response: u64,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}
assert_layout!(ib_uverbs_create_srq, size 32, align 8, {
    response @ 0, user_handle @ 8, pd_handle @ 16, max_wr @ 20, max_sge @ 24, srq_limit @ 28,
}, open { driver_data @ 32 });

/// Request of [`IB_USER_VERBS_CMD_CREATE_XSRQ`]: creates a shared receive queue of any type.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_xsrq {
    pub response: u64,
    pub user_handle: u64,
    pub srq_type: u32,
    pub pd_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
    pub max_num_tags: u32,
    pub xrcd_handle: u32,
    pub cq_handle: u32,
}
assert_layout!(ib_uverbs_create_xsrq, size 48, align 8, {
    response @ 0, user_handle @ 8, srq_type @ 16, pd_handle @ 20, max_wr @ 24, max_sge @ 28,
    srq_limit @ 32, max_num_tags @ 36, xrcd_handle @ 40, cq_handle @ 44,
}, open { driver_data @ 48 });

/// Reply to [`IB_USER_VERBS_CMD_CREATE_SRQ`]. Also of [`IB_USER_VERBS_CMD_CREATE_XSRQ`].
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_create_srq_resp {
    pub srq_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srqn: u32,
}
assert_layout!(ib_uverbs_create_srq_resp, size 16, align 4, {
    srq_handle @ 0, max_wr @ 4, max_sge @ 8, srqn @ 12,
}, open { driver_data @ 16 });

/// Request of [`IB_USER_VERBS_CMD_MODIFY_SRQ`]: resizes or arms a shared receive queue.
///
/// Followed by `driver_data`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_modify_srq {
    pub srq_handle: u32,
    pub attr_mask: u32,
    pub max_wr: u32,
    pub srq_limit: u32,
}
assert_layout!(ib_uverbs_modify_srq, size 16, align 8, {
    srq_handle @ 0, attr_mask @ 4, max_wr @ 8, srq_limit @ 12,
}, open { driver_data @ 16 });

/// Request of [`IB_USER_VERBS_CMD_QUERY_SRQ`]: reads a shared receive queue's attributes.
///
/// Followed by `driver_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_query_srq {
    pub response: u64,
    pub srq_handle: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_query_srq, size 16, align 8, {
    response @ 0, srq_handle @ 8, reserved @ 12,
}, open { driver_data @ 16 });

/// Reply to [`IB_USER_VERBS_CMD_QUERY_SRQ`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_query_srq_resp {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_query_srq_resp, size 16, align 4, {
    max_wr @ 0, max_sge @ 4, srq_limit @ 8, reserved @ 12,
});

/// Request of [`IB_USER_VERBS_CMD_DESTROY_SRQ`]: destroys a shared receive queue.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_destroy_srq {
    pub response: u64,
    pub srq_handle: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_destroy_srq, size 16, align 8, {
    response @ 0, srq_handle @ 8, reserved @ 12,
});

/// Reply to [`IB_USER_VERBS_CMD_DESTROY_SRQ`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_destroy_srq_resp {
    pub events_reported: u32,
}
assert_layout!(ib_uverbs_destroy_srq_resp, size 4, align 4, { events_reported @ 0 });

/// Request of [`IB_USER_VERBS_EX_CMD_CREATE_WQ`]: creates a receive work queue.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_create_wq {
    pub comp_mask: u32,
    pub wq_type: u32,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub cq_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub create_flags: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_ex_create_wq, size 40, align 8, {
    comp_mask @ 0, wq_type @ 4, user_handle @ 8, pd_handle @ 16, cq_handle @ 20, max_wr @ 24,
    max_sge @ 28, create_flags @ 32, reserved @ 36,
});

/// Reply to [`IB_USER_VERBS_EX_CMD_CREATE_WQ`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_create_wq_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub wq_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub wqn: u32,
}
assert_layout!(ib_uverbs_ex_create_wq_resp, size 24, align 4, {
    comp_mask @ 0, response_length @ 4, wq_handle @ 8, max_wr @ 12, max_sge @ 16, wqn @ 20,
});

/// Request of [`IB_USER_VERBS_EX_CMD_DESTROY_WQ`]: destroys a receive work queue.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_destroy_wq {
    pub comp_mask: u32,
    pub wq_handle: u32,
}
assert_layout!(ib_uverbs_ex_destroy_wq, size 8, align 4, { comp_mask @ 0, wq_handle @ 4 });

/// Reply to [`IB_USER_VERBS_EX_CMD_DESTROY_WQ`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_destroy_wq_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub events_reported: u32,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_ex_destroy_wq_resp, size 16, align 4, {
    comp_mask @ 0, response_length @ 4, events_reported @ 8, reserved @ 12,
});

/// Request of [`IB_USER_VERBS_EX_CMD_MODIFY_WQ`]: changes a work queue's state or flags.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_modify_wq {
    pub attr_mask: u32,
    pub wq_handle: u32,
    pub wq_state: u32,
    pub curr_wq_state: u32,
    pub flags: u32,
    pub flags_mask: u32,
}
assert_layout!(ib_uverbs_ex_modify_wq, size 24, align 4, {
    attr_mask @ 0, wq_handle @ 4, wq_state @ 8, curr_wq_state @ 12, flags @ 16,
    flags_mask @ 20,
});

/// The largest indirection table the kernel accepts, as a power of two.
pub const IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE: u32 = 0x0d;

/// Request of [`IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL`]: creates an indirection table over work
/// queues.
///
/// Followed by `wq_handles`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_create_rwq_ind_table {
    pub comp_mask: u32,
    pub log_ind_tbl_size: u32,
}
assert_layout!(ib_uverbs_ex_create_rwq_ind_table, size 8, align 4, {
    comp_mask @ 0, log_ind_tbl_size @ 4,
}, open { wq_handles @ 8 });

/// Reply to [`ib_uverbs_ex_create_rwq_ind_table`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_create_rwq_ind_table_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub ind_tbl_handle: u32,
    pub ind_tbl_num: u32,
}
assert_layout!(ib_uverbs_ex_create_rwq_ind_table_resp, size 16, align 4, {
    comp_mask @ 0, response_length @ 4, ind_tbl_handle @ 8, ind_tbl_num @ 12,
});

/// Request of [`IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL`]: destroys an indirection table.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_destroy_rwq_ind_table {
    pub comp_mask: u32,
    pub ind_tbl_handle: u32,
}
assert_layout!(ib_uverbs_ex_destroy_rwq_ind_table, size 8, align 4, {
    comp_mask @ 0, ind_tbl_handle @ 4,
});

/// When a completion raises an event: after this many, or after this many microseconds.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_cq_moderation {
    pub cq_count: u16,
    pub cq_period: u16,
}
assert_layout!(ib_uverbs_cq_moderation, size 4, align 2, { cq_count @ 0, cq_period @ 2 });

/// Request of [`IB_USER_VERBS_EX_CMD_MODIFY_CQ`]: sets a completion queue's moderation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ex_modify_cq {
    pub cq_handle: u32,
    pub attr_mask: u32,
    pub attr: ib_uverbs_cq_moderation,
    pub reserved: u32,
}
assert_layout!(ib_uverbs_ex_modify_cq, size 16, align 4, {
    cq_handle @ 0, attr_mask @ 4, attr @ 8, reserved @ 12,
});

/// Bytes of a device name, with its final zero.
pub const IB_DEVICE_NAME_MAX: usize = 64;

kernel_enum! {
    /// Device capabilities. Old kernels may set bits that have no name here.
    enum ib_uverbs_device_cap_flags: u64 {
        IB_UVERBS_DEVICE_RESIZE_MAX_WR = 1 << 0,
        IB_UVERBS_DEVICE_BAD_PKEY_CNTR = 1 << 1,
        IB_UVERBS_DEVICE_BAD_QKEY_CNTR = 1 << 2,
        IB_UVERBS_DEVICE_RAW_MULTI = 1 << 3,
        IB_UVERBS_DEVICE_AUTO_PATH_MIG = 1 << 4,
        IB_UVERBS_DEVICE_CHANGE_PHY_PORT = 1 << 5,
        IB_UVERBS_DEVICE_UD_AV_PORT_ENFORCE = 1 << 6,
        IB_UVERBS_DEVICE_CURR_QP_STATE_MOD = 1 << 7,
        IB_UVERBS_DEVICE_SHUTDOWN_PORT = 1 << 8,
        IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT = 1 << 10,
        IB_UVERBS_DEVICE_SYS_IMAGE_GUID = 1 << 11,
        IB_UVERBS_DEVICE_RC_RNR_NAK_GEN = 1 << 12,
        IB_UVERBS_DEVICE_SRQ_RESIZE = 1 << 13,
        IB_UVERBS_DEVICE_N_NOTIFY_CQ = 1 << 14,
        IB_UVERBS_DEVICE_MEM_WINDOW = 1 << 17,
        IB_UVERBS_DEVICE_UD_IP_CSUM = 1 << 18,
        IB_UVERBS_DEVICE_XRC = 1 << 20,
        IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21,
        IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23,
        IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24,
        IB_UVERBS_DEVICE_RC_IP_CSUM = 1 << 25,
        IB_UVERBS_DEVICE_RAW_IP_CSUM = 1 << 26,
        IB_UVERBS_DEVICE_MANAGED_FLOW_STEERING = 1 << 29,
        IB_UVERBS_DEVICE_RAW_SCATTER_FCS = 1 << 34,
        IB_UVERBS_DEVICE_PCI_WRITE_END_PADDING = 1 << 36,
        IB_UVERBS_DEVICE_FLUSH_GLOBAL = 1 << 38,
        IB_UVERBS_DEVICE_FLUSH_PERSISTENT = 1 << 39,
        IB_UVERBS_DEVICE_ATOMIC_WRITE = 1 << 40,
        IB_UVERBS_DEVICE_CC_DMA_BOUNCE = 1 << 41,
    }
}

kernel_enum! {
    /// Raw packet capabilities.
    enum ib_uverbs_raw_packet_caps: u32 {
        IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING = 1 << 0,
        IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS = 1 << 1,
        IB_UVERBS_RAW_PACKET_CAP_IP_CSUM = 1 << 2,
        IB_UVERBS_RAW_PACKET_CAP_DELAY_DROP = 1 << 3,
    }
}

/// The page that converts a device clock to wall time, as drivers with a software clock map it.
///
/// `sign` is odd while the kernel writes and another number afterwards: read it before and after.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_clock_info {
    pub sign: u32,
    pub resv: u32,
    pub nsec: u64,
    pub cycles: u64,
    pub frac: u64,
    pub mult: u32,
    pub shift: u32,
    pub mask: u64,
    pub overflow_period: u64,
}
assert_layout!(ib_uverbs_clock_info, size 56, align 8, {
    sign @ 0, resv @ 4, nsec @ 8, cycles @ 16, frac @ 24, mult @ 32, shift @ 36, mask @ 40,
    overflow_period @ 48,
});

kernel_header! {
    "rdma/ib_user_verbs.h",
    structs: [
        ib_uverbs_async_event_desc, ib_uverbs_comp_event_desc, ib_uverbs_cq_moderation_caps,
        ib_uverbs_cmd_hdr, ib_uverbs_ex_cmd_hdr, ib_uverbs_get_context,
        ib_uverbs_get_context_resp, ib_uverbs_query_device, ib_uverbs_query_device_resp,
        ib_uverbs_ex_query_device, ib_uverbs_odp_caps_per_transport_caps, ib_uverbs_odp_caps,
        ib_uverbs_rss_caps, ib_uverbs_tm_caps, ib_uverbs_ex_query_device_resp,
        ib_uverbs_query_port, ib_uverbs_query_port_resp, ib_uverbs_alloc_pd,
        ib_uverbs_alloc_pd_resp, ib_uverbs_dealloc_pd, ib_uverbs_open_xrcd,
        ib_uverbs_open_xrcd_resp, ib_uverbs_close_xrcd, ib_uverbs_reg_mr,
        ib_uverbs_reg_mr_resp, ib_uverbs_rereg_mr, ib_uverbs_rereg_mr_resp, ib_uverbs_dereg_mr,
        ib_uverbs_alloc_mw, ib_uverbs_alloc_mw_resp, ib_uverbs_dealloc_mw,
        ib_uverbs_create_comp_channel, ib_uverbs_create_comp_channel_resp, ib_uverbs_create_cq,
        ib_uverbs_ex_create_cq, ib_uverbs_create_cq_resp, ib_uverbs_ex_create_cq_resp,
        ib_uverbs_resize_cq, ib_uverbs_resize_cq_resp, ib_uverbs_poll_cq, ib_uverbs_wc_ex,
        ib_uverbs_wc, ib_uverbs_poll_cq_resp, ib_uverbs_req_notify_cq, ib_uverbs_destroy_cq,
        ib_uverbs_destroy_cq_resp, ib_uverbs_global_route, ib_uverbs_ah_attr,
        ib_uverbs_qp_attr, ib_uverbs_create_qp, ib_uverbs_ex_create_qp, ib_uverbs_open_qp,
        ib_uverbs_create_qp_resp, ib_uverbs_ex_create_qp_resp, ib_uverbs_qp_dest,
        ib_uverbs_query_qp, ib_uverbs_query_qp_resp, ib_uverbs_modify_qp,
        ib_uverbs_ex_modify_qp, ib_uverbs_ex_modify_qp_resp, ib_uverbs_destroy_qp,
        ib_uverbs_destroy_qp_resp, ib_uverbs_sge, ib_uverbs_send_wr_ex, ib_uverbs_send_wr_rdma,
        ib_uverbs_send_wr_atomic, ib_uverbs_send_wr_ud, ib_uverbs_send_wr_wr,
        ib_uverbs_send_wr, ib_uverbs_post_send, ib_uverbs_post_send_resp, ib_uverbs_recv_wr,
        ib_uverbs_post_recv, ib_uverbs_post_recv_resp, ib_uverbs_post_srq_recv,
        ib_uverbs_post_srq_recv_resp, ib_uverbs_create_ah, ib_uverbs_create_ah_resp,
        ib_uverbs_destroy_ah, ib_uverbs_attach_mcast, ib_uverbs_detach_mcast,
        ib_uverbs_flow_spec_hdr, ib_uverbs_flow_eth_filter, ib_uverbs_flow_spec_eth,
        ib_uverbs_flow_ipv4_filter, ib_uverbs_flow_spec_ipv4, ib_uverbs_flow_tcp_udp_filter,
        ib_uverbs_flow_spec_tcp_udp, ib_uverbs_flow_ipv6_filter, ib_uverbs_flow_spec_ipv6,
        ib_uverbs_flow_spec_action_tag, ib_uverbs_flow_spec_action_drop,
        ib_uverbs_flow_spec_action_handle, ib_uverbs_flow_spec_action_count,
        ib_uverbs_flow_tunnel_filter, ib_uverbs_flow_spec_tunnel,
        ib_uverbs_flow_spec_esp_filter, ib_uverbs_flow_spec_esp, ib_uverbs_flow_gre_filter,
        ib_uverbs_flow_spec_gre, ib_uverbs_flow_mpls_filter, ib_uverbs_flow_spec_mpls,
        ib_uverbs_flow_attr, ib_uverbs_create_flow, ib_uverbs_create_flow_resp,
        ib_uverbs_destroy_flow, ib_uverbs_create_srq, ib_uverbs_create_xsrq,
        ib_uverbs_create_srq_resp, ib_uverbs_modify_srq, ib_uverbs_query_srq,
        ib_uverbs_query_srq_resp, ib_uverbs_destroy_srq, ib_uverbs_destroy_srq_resp,
        ib_uverbs_ex_create_wq, ib_uverbs_ex_create_wq_resp, ib_uverbs_ex_destroy_wq,
        ib_uverbs_ex_destroy_wq_resp, ib_uverbs_ex_modify_wq,
        ib_uverbs_ex_create_rwq_ind_table, ib_uverbs_ex_create_rwq_ind_table_resp,
        ib_uverbs_ex_destroy_rwq_ind_table, ib_uverbs_cq_moderation, ib_uverbs_ex_modify_cq,
        ib_uverbs_clock_info,
    ],
    enums: [
        ib_uverbs_write_cmds, ib_uverbs_ex_write_cmds, ib_placement_type, ib_selectivity_level,
        ib_uverbs_odp_general_cap_bits, ib_uverbs_odp_transport_cap_bits,
        ib_uverbs_ex_create_cq_flags, ib_uverbs_wc_opcode, ib_uverbs_create_qp_mask,
        ib_uverbs_create_qp_sup_comp_mask, ib_uverbs_wr_opcode, ib_uverbs_device_cap_flags,
        ib_uverbs_raw_packet_caps,
    ],
    constants: [
        IB_USER_VERBS_ABI_VERSION, IB_USER_VERBS_CMD_THRESHOLD, IB_USER_VERBS_CMD_COMMAND_MASK,
        IB_USER_VERBS_CMD_FLAG_EXTENDED, IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE,
        IB_DEVICE_NAME_MAX,
    ],
}
