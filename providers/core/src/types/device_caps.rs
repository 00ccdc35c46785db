//! Capabilities of a device.

open_enum! {
    /// `ibv_atomic_cap`—the scope in which remote atomics are atomic.
    #[doc(alias = "ibv_atomic_cap")]
    #[derive(Default)]
    pub enum AtomicCap: u32 {
        /// No remote atomics.
        #[default]
        None = 0, "IBV_ATOMIC_NONE", "none";
        /// Atomic among the queue pairs of this device.
        Device = 1, "IBV_ATOMIC_HCA", "device";
        /// Also atomic with respect to the CPU and other devices.
        Global = 2, "IBV_ATOMIC_GLOB", "global";
    }
}

impl AtomicCap {
    /// The name `ibv_devinfo` prints, such as `ATOMIC_HCA`.
    pub const fn devinfo_name(self) -> &'static str {
        match self {
            Self::None => "ATOMIC_NONE",
            Self::Device => "ATOMIC_HCA",
            Self::Global => "ATOMIC_GLOB",
            Self::Unknown(_) => "invalid atomic capability",
        }
    }
}

open_flags! {
    /// `ibv_device_cap_flags`—what a device can do (`enum ib_uverbs_device_cap_flags`).
    ///
    /// Bits 9, 15, 16, 19, 22, 27, 30 to 33, 35 and 37 have no name: old kernels set some of them,
    /// without meaning.
    #[doc(alias = "ibv_device_cap_flags")]
    pub struct DeviceCaps: u64 {
        /// The number of outstanding work requests of a queue pair can change.
        RESIZE_MAX_WR = 1 << 0, "IBV_DEVICE_RESIZE_MAX_WR";
        /// Ports count bad partition keys.
        BAD_PKEY_CNTR = 1 << 1, "IBV_DEVICE_BAD_PKEY_CNTR";
        /// Ports count bad queue keys.
        BAD_QKEY_CNTR = 1 << 2, "IBV_DEVICE_BAD_QKEY_CNTR";
        /// Multicast of raw packets.
        RAW_MULTI = 1 << 3, "IBV_DEVICE_RAW_MULTI";
        /// Automatic path migration.
        AUTO_PATH_MIG = 1 << 4, "IBV_DEVICE_AUTO_PATH_MIG";
        /// A queue pair can change its port.
        CHANGE_PHY_PORT = 1 << 5, "IBV_DEVICE_CHANGE_PHY_PORT";
        /// A UD address handle must name the port of the queue pair.
        UD_AV_PORT_ENFORCE = 1 << 6, "IBV_DEVICE_UD_AV_PORT_ENFORCE";
        /// A modify may name the current state.
        CURR_QP_STATE_MOD = 1 << 7, "IBV_DEVICE_CURR_QP_STATE_MOD";
        /// Ports can be shut down.
        SHUTDOWN_PORT = 1 << 8, "IBV_DEVICE_SHUTDOWN_PORT";
        /// An event says when a port becomes active.
        PORT_ACTIVE_EVENT = 1 << 10, "IBV_DEVICE_PORT_ACTIVE_EVENT";
        /// The system image GUID is set.
        SYS_IMAGE_GUID = 1 << 11, "IBV_DEVICE_SYS_IMAGE_GUID";
        /// RC queue pairs send RNR NAKs.
        RC_RNR_NAK_GEN = 1 << 12, "IBV_DEVICE_RC_RNR_NAK_GEN";
        /// Shared receive queues can be resized.
        SRQ_RESIZE = 1 << 13, "IBV_DEVICE_SRQ_RESIZE";
        /// A completion queue can notify after N completions.
        N_NOTIFY_CQ = 1 << 14, "IBV_DEVICE_N_NOTIFY_CQ";
        /// Memory windows of type 1.
        MEM_WINDOW = 1 << 17, "IBV_DEVICE_MEM_WINDOW";
        /// Checksums of IP over UD.
        UD_IP_CSUM = 1 << 18, "IBV_DEVICE_UD_IP_CSUM";
        /// Extended reliable connections.
        XRC = 1 << 20, "IBV_DEVICE_XRC";
        /// Send with invalidate, local invalidate, fast registration.
        MEM_MGT_EXTENSIONS = 1 << 21, "IBV_DEVICE_MEM_MGT_EXTENSIONS";
        /// Memory windows of type 2A.
        MEM_WINDOW_TYPE_2A = 1 << 23, "IBV_DEVICE_MEM_WINDOW_TYPE_2A";
        /// Memory windows of type 2B.
        MEM_WINDOW_TYPE_2B = 1 << 24, "IBV_DEVICE_MEM_WINDOW_TYPE_2B";
        /// Checksums of IP over RC.
        RC_IP_CSUM = 1 << 25, "IBV_DEVICE_RC_IP_CSUM";
        /// Checksums of raw packets; superseded by [`RawPacketCaps::IP_CSUM`].
        RAW_IP_CSUM = 1 << 26, "IBV_DEVICE_RAW_IP_CSUM";
        /// Flow steering.
        MANAGED_FLOW_STEERING = 1 << 29, "IBV_DEVICE_MANAGED_FLOW_STEERING";
        /// Received frames with their checksum; superseded by [`RawPacketCaps::SCATTER_FCS`].
        RAW_SCATTER_FCS = 1 << 34, "IBV_DEVICE_RAW_SCATTER_FCS";
        /// Incoming writes can be padded to a cache line.
        PCI_WRITE_END_PADDING = 1 << 36, "IBV_DEVICE_PCI_WRITE_END_PADDING";
        /// Flush to global visibility.
        FLUSH_GLOBAL = 1 << 38, "IB_UVERBS_DEVICE_FLUSH_GLOBAL";
        /// Flush to persistence.
        FLUSH_PERSISTENT = 1 << 39, "IB_UVERBS_DEVICE_FLUSH_PERSISTENT";
        /// Eight-byte atomic writes.
        ATOMIC_WRITE = 1 << 40, "IB_UVERBS_DEVICE_ATOMIC_WRITE";
        /// A confidential guest whose DMA needs bounce buffers.
        CC_DMA_BOUNCE = 1 << 41, "IB_UVERBS_DEVICE_CC_DMA_BOUNCE";
    }
}

open_flags! {
    /// `ibv_odp_general_caps`—on-demand paging in general.
    #[doc(alias = "ibv_odp_general_caps")]
    pub struct OdpGeneralCaps: u64 {
        /// Regions can be registered without pinning.
        SUPPORT = 1 << 0, "IBV_ODP_SUPPORT";
        /// One region can span the whole address space.
        IMPLICIT = 1 << 1, "IBV_ODP_SUPPORT_IMPLICIT";
    }
}

open_flags! {
    /// `ibv_odp_transport_cap_bits`—operations of one transport that may access memory that is not
    /// pinned.
    #[doc(alias = "ibv_odp_transport_cap_bits")]
    pub struct OdpTransportCaps: u32 {
        /// Send.
        SEND = 1 << 0, "IBV_ODP_SUPPORT_SEND";
        /// Receive.
        RECV = 1 << 1, "IBV_ODP_SUPPORT_RECV";
        /// RDMA write.
        WRITE = 1 << 2, "IBV_ODP_SUPPORT_WRITE";
        /// RDMA read.
        READ = 1 << 3, "IBV_ODP_SUPPORT_READ";
        /// Compare and swap, fetch and add.
        ATOMIC = 1 << 4, "IBV_ODP_SUPPORT_ATOMIC";
        /// Receive from a shared receive queue.
        SRQ_RECV = 1 << 5, "IBV_ODP_SUPPORT_SRQ_RECV";
        /// Flush.
        FLUSH = 1 << 6, "IB_UVERBS_ODP_SUPPORT_FLUSH";
        /// Atomic write.
        ATOMIC_WRITE = 1 << 7, "IB_UVERBS_ODP_SUPPORT_ATOMIC_WRITE";
    }
}

/// `ibv_odp_caps`—on-demand paging: which operations work on memory that is not pinned. Default:
/// none.
#[doc(alias = "ibv_odp_caps")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct OdpCaps {
    /// Whether it is supported at all.
    pub general: OdpGeneralCaps,
    /// On reliable connections.
    pub rc: OdpTransportCaps,
    /// On unreliable connections.
    pub uc: OdpTransportCaps,
    /// On unreliable datagrams.
    pub ud: OdpTransportCaps,
    /// On extended reliable connections.
    pub xrc: OdpTransportCaps,
}

/// `ibv_rss_caps`—receive-side scaling: distributing received packets over work queues.
#[doc(alias = "ibv_rss_caps")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct RssCaps {
    /// Bit `1 << QpType::raw()` for each queue pair type that supports it.
    pub supported_qp_types: u32,
    /// Number of indirection tables.
    pub max_indirection_tables: u32,
    /// Entries of one table.
    pub max_indirection_table_size: u32,
}

open_flags! {
    /// `ibv_raw_packet_caps`—what raw packet queues can do to frames.
    #[doc(alias = "ibv_raw_packet_caps")]
    pub struct RawPacketCaps: u32 {
        /// Strip the VLAN tag on receive.
        CVLAN_STRIPPING = 1 << 0, "IBV_RAW_PACKET_CAP_CVLAN_STRIPPING";
        /// Deliver the frame checksum.
        SCATTER_FCS = 1 << 1, "IBV_RAW_PACKET_CAP_SCATTER_FCS";
        /// Compute and verify IP checksums.
        IP_CSUM = 1 << 2, "IBV_RAW_PACKET_CAP_IP_CSUM";
        /// Hold packets back while no receive is posted.
        DELAY_DROP = 1 << 3, "IBV_RAW_PACKET_CAP_DELAY_DROP";
    }
}

open_flags! {
    /// `ibv_tm_cap_flags`—transports with tag matching.
    #[doc(alias = "ibv_tm_cap_flags")]
    pub struct TagMatchingFlags: u32 {
        /// Rendezvous offload on RC.
        RNDV_RC = 1 << 0, "IBV_TM_CAP_RC";
    }
}

/// `ibv_tm_caps`—tag matching.
#[doc(alias = "ibv_tm_caps")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct TagMatchingCaps {
    /// Largest rendezvous request header, bytes.
    pub max_rndv_hdr_size: u32,
    /// Entries of a matching list.
    pub max_num_tags: u32,
    /// Transports.
    pub flags: TagMatchingFlags,
    /// Outstanding list operations.
    pub max_ops: u32,
    /// Scatter/gather entries of one list entry.
    pub max_sge: u32,
}

/// `ibv_cq_moderation_caps`—how far completion events can be held back.
#[doc(alias = "ibv_cq_moderation_caps")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct CqModerationCaps {
    /// Completions per event.
    pub max_count: u16,
    /// Longest delay, microseconds.
    pub max_period_us: u16,
}
