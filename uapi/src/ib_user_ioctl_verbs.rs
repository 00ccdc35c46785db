//! `rdma/ib_user_ioctl_verbs.h`: what the attributes of the verbs ioctl carry.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::ib_user_verbs::ib_uverbs_query_port_resp;

/// The first access flag that a kernel may ignore.
pub const IB_UVERBS_ACCESS_OPTIONAL_FIRST: u32 = 1 << 20;

/// The last access flag that a kernel may ignore.
pub const IB_UVERBS_ACCESS_OPTIONAL_LAST: u32 = 1 << 29;

kernel_enum! {
    /// What the kernel core reports to support when a context is created.
    enum ib_uverbs_core_support: u32 {
        IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS = 1 << 0,
        IB_UVERBS_CORE_SUPPORT_ROBUST_UDATA = 1 << 1,
    }
}

kernel_enum! {
    /// What may be done with a memory region.
    enum ib_uverbs_access_flags: u32 {
        IB_UVERBS_ACCESS_LOCAL_WRITE = 1 << 0,
        IB_UVERBS_ACCESS_REMOTE_WRITE = 1 << 1,
        IB_UVERBS_ACCESS_REMOTE_READ = 1 << 2,
        IB_UVERBS_ACCESS_REMOTE_ATOMIC = 1 << 3,
        IB_UVERBS_ACCESS_MW_BIND = 1 << 4,
        IB_UVERBS_ACCESS_ZERO_BASED = 1 << 5,
        IB_UVERBS_ACCESS_ON_DEMAND = 1 << 6,
        IB_UVERBS_ACCESS_HUGETLB = 1 << 7,
        IB_UVERBS_ACCESS_FLUSH_GLOBAL = 1 << 8,
        IB_UVERBS_ACCESS_FLUSH_PERSISTENT = 1 << 9,
        IB_UVERBS_ACCESS_RELAXED_ORDERING = IB_UVERBS_ACCESS_OPTIONAL_FIRST,
        IB_UVERBS_ACCESS_OPTIONAL_RANGE = 0x3ff0_0000,
    }
}

kernel_enum! {
    /// Shared receive queue types.
    enum ib_uverbs_srq_type: u32 {
        IB_UVERBS_SRQT_BASIC = 0,
        IB_UVERBS_SRQT_XRC = 1,
        IB_UVERBS_SRQT_TM = 2,
    }
}

kernel_enum! {
    /// Work queue types.
    enum ib_uverbs_wq_type: u32 {
        IB_UVERBS_WQT_RQ = 0,
    }
}

kernel_enum! {
    /// Work queue flags.
    enum ib_uverbs_wq_flags: u32 {
        IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
        IB_UVERBS_WQ_FLAGS_SCATTER_FCS = 1 << 1,
        IB_UVERBS_WQ_FLAGS_DELAY_DROP = 1 << 2,
        IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
    }
}

kernel_enum! {
    /// Queue pair types.
    enum ib_uverbs_qp_type: u32 {
        IB_UVERBS_QPT_RC = 2,
        IB_UVERBS_QPT_UC = 3,
        IB_UVERBS_QPT_UD = 4,
        IB_UVERBS_QPT_RAW_PACKET = 8,
        IB_UVERBS_QPT_XRC_INI = 9,
        IB_UVERBS_QPT_XRC_TGT = 10,
        IB_UVERBS_QPT_DRIVER = 0xff,
    }
}

kernel_enum! {
    /// Queue pair creation flags.
    enum ib_uverbs_qp_create_flags: u32 {
        IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK = 1 << 1,
        IB_UVERBS_QP_CREATE_SCATTER_FCS = 1 << 8,
        IB_UVERBS_QP_CREATE_CVLAN_STRIPPING = 1 << 9,
        IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING = 1 << 11,
        IB_UVERBS_QP_CREATE_SQ_SIG_ALL = 1 << 12,
    }
}

kernel_enum! {
    /// Port capabilities (CapabilityMask).
    enum ib_uverbs_query_port_cap_flags: u32 {
        IB_UVERBS_PCF_SM = 1 << 1,
        IB_UVERBS_PCF_NOTICE_SUP = 1 << 2,
        IB_UVERBS_PCF_TRAP_SUP = 1 << 3,
        IB_UVERBS_PCF_OPT_IPD_SUP = 1 << 4,
        IB_UVERBS_PCF_AUTO_MIGR_SUP = 1 << 5,
        IB_UVERBS_PCF_SL_MAP_SUP = 1 << 6,
        IB_UVERBS_PCF_MKEY_NVRAM = 1 << 7,
        IB_UVERBS_PCF_PKEY_NVRAM = 1 << 8,
        IB_UVERBS_PCF_LED_INFO_SUP = 1 << 9,
        IB_UVERBS_PCF_SM_DISABLED = 1 << 10,
        IB_UVERBS_PCF_SYS_IMAGE_GUID_SUP = 1 << 11,
        IB_UVERBS_PCF_PKEY_SW_EXT_PORT_TRAP_SUP = 1 << 12,
        IB_UVERBS_PCF_EXTENDED_SPEEDS_SUP = 1 << 14,
        IB_UVERBS_PCF_CM_SUP = 1 << 16,
        IB_UVERBS_PCF_SNMP_TUNNEL_SUP = 1 << 17,
        IB_UVERBS_PCF_REINIT_SUP = 1 << 18,
        IB_UVERBS_PCF_DEVICE_MGMT_SUP = 1 << 19,
        IB_UVERBS_PCF_VENDOR_CLASS_SUP = 1 << 20,
        IB_UVERBS_PCF_DR_NOTICE_SUP = 1 << 21,
        IB_UVERBS_PCF_CAP_MASK_NOTICE_SUP = 1 << 22,
        IB_UVERBS_PCF_BOOT_MGMT_SUP = 1 << 23,
        IB_UVERBS_PCF_LINK_LATENCY_SUP = 1 << 24,
        IB_UVERBS_PCF_CLIENT_REG_SUP = 1 << 25,
        IB_UVERBS_PCF_LINK_SPEED_WIDTH_TABLE_SUP = 1 << 27,
        IB_UVERBS_PCF_VENDOR_SPECIFIC_MADS_TABLE_SUP = 1 << 28,
        IB_UVERBS_PCF_MCAST_PKEY_TRAP_SUPPRESSION_SUP = 1 << 29,
        IB_UVERBS_PCF_MCAST_FDB_TOP_SUP = 1 << 30,
        IB_UVERBS_PCF_HIERARCHY_INFO_SUP = 1 << 31,
        IB_UVERBS_PCF_IP_BASED_GIDS = 1 << 26,
    }
}

kernel_enum! {
    /// Port flags.
    enum ib_uverbs_query_port_flags: u32 {
        IB_UVERBS_QPF_GRH_REQUIRED = 1 << 0,
    }
}

kernel_enum! {
    /// Key kinds of an ESP flow action.
    enum ib_uverbs_flow_action_esp_keymat: u32 {
        IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM = 0,
    }
}

kernel_enum! {
    /// How the initialization vector is made.
    enum ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo: u32 {
        IB_UVERBS_FLOW_ACTION_IV_ALGO_SEQ = 0,
    }
}

/// The key of an ESP flow action.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_action_esp_keymat_aes_gcm {
    pub iv: u64,
    pub iv_algo: u32,
    pub salt: u32,
    pub icv_len: u32,
    pub key_len: u32,
    pub aes_key: [u32; 8],
}
assert_layout!(ib_uverbs_flow_action_esp_keymat_aes_gcm, size 56, align 8, {
    iv @ 0, iv_algo @ 8, salt @ 12, icv_len @ 16, key_len @ 20, aes_key @ 24,
});

kernel_enum! {
    /// Replay protection of an ESP flow action.
    enum ib_uverbs_flow_action_esp_replay: u32 {
        IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE = 0,
        IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP = 1,
    }
}

/// The replay window of an ESP flow action.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_action_esp_replay_bmp {
    pub size: u32,
}
assert_layout!(ib_uverbs_flow_action_esp_replay_bmp, size 4, align 4, { size @ 0 });

kernel_enum! {
    /// Flags of an ESP flow action; three of the names stand for a clear bit.
    enum ib_uverbs_flow_action_esp_flags: u32 {
        IB_UVERBS_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO = 0,
        IB_UVERBS_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD = 1 << 0,
        IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TUNNEL = 0,
        IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TRANSPORT = 1 << 1,
        IB_UVERBS_FLOW_ACTION_ESP_FLAGS_DECRYPT = 0,
        IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ENCRYPT = 1 << 2,
        IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW = 1 << 3,
    }
}

/// One header of ESP tunnel mode: a list element.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_action_esp_encap {
    /// Address of an `ib_uverbs_flow_…_filter`.
    pub val_ptr: u64,
    /// Address of the next element, or 0.
    pub next_ptr: u64,
    /// Bytes at `val_ptr`.
    pub len: u16,
    pub r#type: u16,
    /// The tail C leaves unnamed; zero.
    pub implicit_padding: [u8; 4],
}
assert_layout!(ib_uverbs_flow_action_esp_encap, size 24, align 8, {
    val_ptr @ 0, next_ptr @ 8, len @ 16, r#type @ 18, implicit_padding @ 20,
});

/// An ESP flow action.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_flow_action_esp {
    pub spi: u32,
    pub seq: u32,
    pub tfc_pad: u32,
    pub flags: u32,
    pub hard_limit_pkts: u64,
}
assert_layout!(ib_uverbs_flow_action_esp, size 24, align 8, {
    spi @ 0, seq @ 4, tfc_pad @ 8, flags @ 12, hard_limit_pkts @ 16,
});

kernel_enum! {
    /// How counters are read.
    enum ib_uverbs_read_counters_flags: u32 {
        IB_UVERBS_READ_COUNTERS_PREFER_CACHED = 1 << 0,
    }
}

kernel_enum! {
    /// What is advised about a memory region.
    enum ib_uverbs_advise_mr_advice: u32 {
        IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH = 0,
        IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE = 1,
        IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT = 2,
    }
}

kernel_enum! {
    /// How the advice is given.
    enum ib_uverbs_advise_mr_flag: u32 {
        IB_UVERBS_ADVISE_MR_FLAG_FLUSH = 1 << 0,
    }
}

/// Reply of `UVERBS_METHOD_QUERY_PORT`; older kernels fill less.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_query_port_resp_ex {
    pub legacy_resp: ib_uverbs_query_port_resp,
    pub port_cap_flags2: u16,
    pub reserved: [u8; 2],
    pub active_speed_ex: u32,
}
assert_layout!(ib_uverbs_query_port_resp_ex, size 48, align 4, {
    legacy_resp @ 0, port_cap_flags2 @ 40, reserved @ 42, active_speed_ex @ 44,
});

/// A queue pair's sizes, asked for and granted.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}
assert_layout!(ib_uverbs_qp_cap, size 20, align 4, {
    max_send_wr @ 0, max_recv_wr @ 4, max_send_sge @ 8, max_recv_sge @ 12,
    max_inline_data @ 16,
});

kernel_enum! {
    /// Drivers, as the ioctl header and netlink name them.
    enum rdma_driver_id: u32 {
        RDMA_DRIVER_UNKNOWN = 0,
        RDMA_DRIVER_MLX5 = 1,
        RDMA_DRIVER_MLX4 = 2,
        RDMA_DRIVER_CXGB3 = 3,
        RDMA_DRIVER_CXGB4 = 4,
        RDMA_DRIVER_MTHCA = 5,
        RDMA_DRIVER_BNXT_RE = 6,
        RDMA_DRIVER_OCRDMA = 7,
        RDMA_DRIVER_NES = 8,
        RDMA_DRIVER_I40IW = 9,
        RDMA_DRIVER_IRDMA = RDMA_DRIVER_I40IW,
        RDMA_DRIVER_VMW_PVRDMA = 10,
        RDMA_DRIVER_QEDR = 11,
        RDMA_DRIVER_HNS = 12,
        RDMA_DRIVER_USNIC = 13,
        RDMA_DRIVER_RXE = 14,
        RDMA_DRIVER_HFI1 = 15,
        RDMA_DRIVER_QIB = 16,
        RDMA_DRIVER_EFA = 17,
        RDMA_DRIVER_SIW = 18,
        RDMA_DRIVER_ERDMA = 19,
        RDMA_DRIVER_MANA = 20,
        RDMA_DRIVER_IONIC = 21,
    }
}

kernel_enum! {
    /// What a GID table entry is for.
    enum ib_uverbs_gid_type: u32 {
        IB_UVERBS_GID_TYPE_IB = 0,
        IB_UVERBS_GID_TYPE_ROCE_V1 = 1,
        IB_UVERBS_GID_TYPE_ROCE_V2 = 2,
    }
}

/// One entry of the GID table.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_gid_entry {
    /// 16 bytes in network order.
    pub gid: [u64; 2],
    pub gid_index: u32,
    pub port_num: u32,
    /// [`mod@ib_uverbs_gid_type`].
    pub gid_type: u32,
    /// 0 if there is no network device.
    pub netdev_ifindex: u32,
}
assert_layout!(ib_uverbs_gid_entry, size 32, align 8, {
    gid @ 0, gid_index @ 16, port_num @ 20, gid_type @ 24, netdev_ifindex @ 28,
});

kernel_enum! {
    /// What is behind an [`ib_uverbs_buffer_desc`].
    enum ib_uverbs_buffer_type: u32 {
        IB_UVERBS_BUFFER_TYPE_DMABUF = 0,
        IB_UVERBS_BUFFER_TYPE_VA = 1,
    }
}

/// A buffer for the device, behind a dma-buf or an address: what a `…BUF_UMEM` attribute carries.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_buffer_desc {
    /// [`mod@ib_uverbs_buffer_type`].
    pub r#type: u32,
    /// The dma-buf, if that is the type.
    pub fd: i32,
    /// A bit the kernel does not know fails with EINVAL; none is defined.
    pub flags: u32,
    /// A bit the kernel does not know is ignored; none is defined.
    pub optional_flags: u32,
    /// Offset into the dma-buf, or virtual address.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
}
assert_layout!(ib_uverbs_buffer_desc, size 32, align 8, {
    r#type @ 0, fd @ 4, flags @ 8, optional_flags @ 12, addr @ 16, length @ 24,
});

kernel_enum! {
    /// One of the two values of a completion counter.
    enum ib_uverbs_comp_cntr_entry: u32 {
        IB_UVERBS_COMP_CNTR_ENTRY_COMP = 0,
        IB_UVERBS_COMP_CNTR_ENTRY_ERR = 1,
    }
}

kernel_enum! {
    /// How a completion counter is changed.
    enum ib_uverbs_comp_cntr_modify_op: u32 {
        IB_UVERBS_COMP_CNTR_MODIFY_OP_SET = 0,
        IB_UVERBS_COMP_CNTR_MODIFY_OP_INC = 1,
    }
}

kernel_enum! {
    /// Which operations of a queue pair a completion counter counts.
    enum ib_uverbs_qp_attach_comp_cntr_op: u32 {
        IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,
        IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,
        IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,
        IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3,
        IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,
        IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5,
    }
}

kernel_header! {
    "rdma/ib_user_ioctl_verbs.h",
    structs: [
        ib_uverbs_flow_action_esp_keymat_aes_gcm, ib_uverbs_flow_action_esp_replay_bmp,
        ib_uverbs_flow_action_esp_encap, ib_uverbs_flow_action_esp,
        ib_uverbs_query_port_resp_ex, ib_uverbs_qp_cap, ib_uverbs_gid_entry,
        ib_uverbs_buffer_desc,
    ],
    enums: [
        ib_uverbs_core_support, ib_uverbs_access_flags, ib_uverbs_srq_type, ib_uverbs_wq_type,
        ib_uverbs_wq_flags, ib_uverbs_qp_type, ib_uverbs_qp_create_flags,
        ib_uverbs_query_port_cap_flags, ib_uverbs_query_port_flags,
        ib_uverbs_flow_action_esp_keymat, ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo,
        ib_uverbs_flow_action_esp_replay, ib_uverbs_flow_action_esp_flags,
        ib_uverbs_read_counters_flags, ib_uverbs_advise_mr_advice, ib_uverbs_advise_mr_flag,
        rdma_driver_id, ib_uverbs_gid_type, ib_uverbs_buffer_type,
        ib_uverbs_comp_cntr_entry, ib_uverbs_comp_cntr_modify_op, ib_uverbs_qp_attach_comp_cntr_op,
    ],
    constants: [IB_UVERBS_ACCESS_OPTIONAL_FIRST, IB_UVERBS_ACCESS_OPTIONAL_LAST],
}
