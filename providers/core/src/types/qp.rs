//! Queue pairs: kinds, states, sizes and flags.

open_enum! {
    /// `ibv_qp_type`—the transport of a queue pair (`enum ib_uverbs_qp_type`).
    #[doc(alias = "ibv_qp_type")]
    pub enum QpType: u32 {
        /// Reliable connection.
        Rc = 2, "IBV_QPT_RC", "RC";
        /// Unreliable connection.
        Uc = 3, "IBV_QPT_UC", "UC";
        /// Unreliable datagram.
        Ud = 4, "IBV_QPT_UD", "UD";
        /// Whole Ethernet frames.
        RawPacket = 8, "IBV_QPT_RAW_PACKET", "raw packet";
        /// Extended reliable connection, sending side.
        XrcInitiator = 9, "IBV_QPT_XRC_SEND", "XRC initiator";
        /// Extended reliable connection, receiving side.
        XrcTarget = 10, "IBV_QPT_XRC_RECV", "XRC target";
        /// Defined by the provider (DC, SRD).
        Driver = 255, "IBV_QPT_DRIVER", "driver";
    }
}

impl QpType {
    /// Whether it has exactly one peer, which a modify sets.
    pub const fn is_connected(self) -> bool {
        matches!(
            self,
            Self::Rc | Self::Uc | Self::XrcInitiator | Self::XrcTarget
        )
    }
}

open_enum! {
    /// `ibv_qp_state`—the state of a queue pair, which determines what it may do.
    ///
    /// The device may move a queue pair to `SendQueueError` or `Error` on its own. Default:
    /// `Reset`.
    #[doc(alias = "ibv_qp_state")]
    #[derive(Default)]
    pub enum QpState: u8 {
        /// Does nothing; the state of a new queue pair.
        #[default]
        Reset = 0, "IBV_QPS_RESET", "reset";
        /// Receives may be posted.
        Init = 1, "IBV_QPS_INIT", "init";
        /// Ready to receive.
        ReadyToReceive = 2, "IBV_QPS_RTR", "ready to receive";
        /// Ready to send.
        ReadyToSend = 3, "IBV_QPS_RTS", "ready to send";
        /// The send queue is being drained, or has drained.
        SendQueueDrained = 4, "IBV_QPS_SQD", "send queue drained";
        /// A send failed (UC and UD); receives continue.
        SendQueueError = 5, "IBV_QPS_SQE", "send queue error";
        /// All requests are flushed.
        Error = 6, "IBV_QPS_ERR", "error";
    }
}

open_enum! {
    /// `ibv_mig_state`—automatic path migration. Default: `Migrated`, that is, not armed.
    #[doc(alias = "ibv_mig_state")]
    #[derive(Default)]
    pub enum MigrationState: u8 {
        /// On its current path.
        #[default]
        Migrated = 0, "IBV_MIG_MIGRATED", "migrated";
        /// Arming with a new alternate path.
        Rearm = 1, "IBV_MIG_REARM", "rearm";
        /// Ready to migrate.
        Armed = 2, "IBV_MIG_ARMED", "armed";
    }
}

/// `ibv_qp_cap`—sizes of a queue pair. The kernel may grant more than requested.
#[doc(alias = "ibv_qp_cap")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct QpCaps {
    /// Outstanding sends.
    pub max_send_wr: u32,
    /// Outstanding receives; 0 with a shared receive queue.
    pub max_recv_wr: u32,
    /// Scatter/gather entries of a send.
    pub max_send_sge: u32,
    /// Scatter/gather entries of a receive.
    pub max_recv_sge: u32,
    /// Inline data of a send, bytes.
    pub max_inline_data: u32,
}

request_flags! {
    /// `ibv_qp_create_flags`—options of a new queue pair (`enum ib_uverbs_qp_create_flags`).
    #[doc(alias = "ibv_qp_create_flags")]
    pub struct QpCreateFlags: u32 {
        /// Multicasts that it sends itself are not looped back to it.
        BLOCK_MULTICAST_LOOPBACK = 1 << 1, "IBV_QP_CREATE_BLOCK_SELF_MCAST_LB";
        /// Received frames keep their checksum.
        SCATTER_FCS = 1 << 8, "IBV_QP_CREATE_SCATTER_FCS";
        /// The VLAN tag is stripped on receive.
        CVLAN_STRIPPING = 1 << 9, "IBV_QP_CREATE_CVLAN_STRIPPING";
        /// Packets carry another queue pair's number.
        SOURCE_QPN = 1 << 10, "IBV_QP_CREATE_SOURCE_QPN";
        /// Incoming writes are padded to a cache line.
        PCI_WRITE_END_PADDING = 1 << 11, "IBV_QP_CREATE_PCI_WRITE_END_PADDING";
        /// Every send is signaled: [`SigMode::All`]. A flag only in the ioctl command.
        SQ_SIG_ALL = 1 << 12, "IB_UVERBS_QP_CREATE_SQ_SIG_ALL";
    }
}

/// Which successful sends generate a completion. Default: those that ask for one.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum SigMode {
    /// All (`sq_sig_all` 1).
    #[doc(alias = "IB_SIGNAL_ALL_WR")]
    All,
    /// Those posted with the signaled flag (`sq_sig_all` 0); failed sends always do.
    #[default]
    #[doc(alias = "IB_SIGNAL_REQ_WR")]
    Requested,
}

impl SigMode {
    /// From the kernel's `sq_sig_all`.
    pub const fn from_raw(sq_sig_all: u8) -> Self {
        if sq_sig_all == 0 {
            Self::Requested
        } else {
            Self::All
        }
    }

    /// The kernel's `sq_sig_all`.
    pub const fn raw(self) -> u8 {
        match self {
            Self::All => 1,
            Self::Requested => 0,
        }
    }
}

impl std::fmt::Display for SigMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::All => "all",
            Self::Requested => "requested",
        })
    }
}

request_flags! {
    /// `ibv_qp_attr_mask`—which attributes a modify sets or a query asks for.
    ///
    /// Bits 0 to 20 fit every modify command; `RATE_LIMIT` needs the extended one. Bits 21 to 24
    /// are reserved.
    #[doc(alias = "ibv_qp_attr_mask")]
    pub struct QpAttrMask: u32 {
        /// State to move to.
        STATE = 1 << 0, "IBV_QP_STATE";
        /// Current state, as the caller assumes it.
        CUR_STATE = 1 << 1, "IBV_QP_CUR_STATE";
        /// Whether to raise an event when the send queue has drained.
        EN_SQD_ASYNC_NOTIFY = 1 << 2, "IBV_QP_EN_SQD_ASYNC_NOTIFY";
        /// What peers may do.
        ACCESS_FLAGS = 1 << 3, "IBV_QP_ACCESS_FLAGS";
        /// Partition key index.
        PKEY_INDEX = 1 << 4, "IBV_QP_PKEY_INDEX";
        /// Port.
        PORT = 1 << 5, "IBV_QP_PORT";
        /// Queue key.
        QKEY = 1 << 6, "IBV_QP_QKEY";
        /// Address vector.
        AV = 1 << 7, "IBV_QP_AV";
        /// Path MTU.
        PATH_MTU = 1 << 8, "IBV_QP_PATH_MTU";
        /// Acknowledgement timeout.
        TIMEOUT = 1 << 9, "IBV_QP_TIMEOUT";
        /// Retry count.
        RETRY_CNT = 1 << 10, "IBV_QP_RETRY_CNT";
        /// RNR retry count.
        RNR_RETRY = 1 << 11, "IBV_QP_RNR_RETRY";
        /// Sequence number of the first packet received.
        RQ_PSN = 1 << 12, "IBV_QP_RQ_PSN";
        /// Outstanding reads and atomics as initiator.
        MAX_QP_RD_ATOMIC = 1 << 13, "IBV_QP_MAX_QP_RD_ATOMIC";
        /// Alternate path.
        ALT_PATH = 1 << 14, "IBV_QP_ALT_PATH";
        /// RNR timer.
        MIN_RNR_TIMER = 1 << 15, "IBV_QP_MIN_RNR_TIMER";
        /// Sequence number of the first packet sent.
        SQ_PSN = 1 << 16, "IBV_QP_SQ_PSN";
        /// Outstanding reads and atomics as responder.
        MAX_DEST_RD_ATOMIC = 1 << 17, "IBV_QP_MAX_DEST_RD_ATOMIC";
        /// Path migration state.
        PATH_MIG_STATE = 1 << 18, "IBV_QP_PATH_MIG_STATE";
        /// Sizes.
        CAP = 1 << 19, "IBV_QP_CAP";
        /// The peer's queue pair.
        DEST_QPN = 1 << 20, "IBV_QP_DEST_QPN";
        /// Rate limit.
        RATE_LIMIT = 1 << 25, "IBV_QP_RATE_LIMIT";
    }
}

impl QpAttrMask {
    /// Bits 0 to 20: what the plain modify command takes.
    pub const STANDARD: Self = Self::from_bits_retain(0x001f_ffff);

    /// Whether a modify with this mask needs the extended command.
    pub const fn needs_extended(self) -> bool {
        self.bits() & !Self::STANDARD.bits() != 0
    }
}
