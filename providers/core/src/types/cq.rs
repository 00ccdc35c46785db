//! Completions.

use super::RemoteKey;

open_enum! {
    /// `ibv_wc_status`—how a work request ended (`enum ib_wc_status`).
    #[doc(alias = "ibv_wc_status")]
    #[derive(Default)]
    pub enum WcStatus: u32 {
        /// Success.
        #[default]
        Success = 0, "IBV_WC_SUCCESS", "success";
        /// Local length error: a message longer than the receive buffer, or than the device can
        /// send.
        LocalLength = 1, "IBV_WC_LOC_LEN_ERR", "local length error";
        /// Local queue pair operation error: the request is not valid for this queue pair.
        LocalQpOperation = 2, "IBV_WC_LOC_QP_OP_ERR", "local qp operation error";
        /// Local end-to-end context error (reliable datagrams).
        LocalEecOperation = 3, "IBV_WC_LOC_EEC_OP_ERR", "local ee context operation error";
        /// Local protection error: an lkey that does not cover the buffer or does not permit the
        /// access.
        LocalProtection = 4, "IBV_WC_LOC_PROT_ERR", "local protection error";
        /// Flushed: not carried out, because the queue pair is in the error state.
        Flushed = 5, "IBV_WC_WR_FLUSH_ERR", "flushed";
        /// Binding a memory window, or invalidating a key, failed.
        MwBind = 6, "IBV_WC_MW_BIND_ERR", "memory window bind error";
        /// The peer sent an unexpected response.
        BadResponse = 7, "IBV_WC_BAD_RESP_ERR", "bad response error";
        /// Local access error: an incoming write with immediate did not fit.
        LocalAccess = 8, "IBV_WC_LOC_ACCESS_ERR", "local access error";
        /// The peer found the request invalid.
        RemoteInvalidRequest = 9, "IBV_WC_REM_INV_REQ_ERR", "remote invalid request error";
        /// The peer rejected the rkey, the address or the access rights.
        RemoteAccess = 10, "IBV_WC_REM_ACCESS_ERR", "remote access error";
        /// The peer could not carry the request out.
        RemoteOperation = 11, "IBV_WC_REM_OP_ERR", "remote operation error";
        /// No acknowledgement after all retries: wrong address, peer gone, or queue pair not ready.
        RetryExceeded = 12, "IBV_WC_RETRY_EXC_ERR", "transport retry counter exceeded";
        /// The peer had no receive buffer after all retries.
        RnrRetryExceeded = 13, "IBV_WC_RNR_RETRY_EXC_ERR", "rnr retry counter exceeded";
        /// Reliable datagram domains differ.
        LocalRddViolation = 14, "IBV_WC_LOC_RDD_VIOL_ERR", "local rdd violation error";
        /// The peer found a reliable datagram request invalid.
        RemoteInvalidRdRequest = 15, "IBV_WC_REM_INV_RD_REQ_ERR", "remote invalid rd request";
        /// The peer aborted the operation.
        RemoteAborted = 16, "IBV_WC_REM_ABORT_ERR", "aborted";
        /// No such end-to-end context.
        InvalidEecNumber = 17, "IBV_WC_INV_EECN_ERR", "invalid ee context number";
        /// The end-to-end context is in the wrong state.
        InvalidEecState = 18, "IBV_WC_INV_EEC_STATE_ERR", "invalid ee context state";
        /// The device failed.
        Fatal = 19, "IBV_WC_FATAL_ERR", "fatal error";
        /// The peer did not answer in time.
        ResponseTimeout = 20, "IBV_WC_RESP_TIMEOUT_ERR", "response timeout error";
        /// Any other error.
        General = 21, "IBV_WC_GENERAL_ERR", "general error";
        /// Tag matching failed. Reported only by user-space providers.
        TagMatching = 22, "IBV_WC_TM_ERR", "tag matching error";
        /// The device did not finish a rendezvous. Reported only by user-space providers.
        TagMatchingRndvIncomplete = 23, "IBV_WC_TM_RNDV_INCOMPLETE", "tag matching software rendezvous";
    }
}

impl WcStatus {
    /// `ibv_wc_status_str`—the C library's text.
    #[doc(alias = "ibv_wc_status_str")]
    pub const fn ibv_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::LocalLength => "local length error",
            Self::LocalQpOperation => "local QP operation error",
            Self::LocalEecOperation => "local EE context operation error",
            Self::LocalProtection => "local protection error",
            Self::Flushed => "Work Request Flushed Error",
            Self::MwBind => "memory management operation error",
            Self::BadResponse => "bad response error",
            Self::LocalAccess => "local access error",
            Self::RemoteInvalidRequest => "remote invalid request error",
            Self::RemoteAccess => "remote access error",
            Self::RemoteOperation => "remote operation error",
            Self::RetryExceeded => "transport retry counter exceeded",
            Self::RnrRetryExceeded => "RNR retry counter exceeded",
            Self::LocalRddViolation => "local RDD violation error",
            Self::RemoteInvalidRdRequest => "remote invalid RD request",
            Self::RemoteAborted => "aborted error",
            Self::InvalidEecNumber => "invalid EE context number",
            Self::InvalidEecState => "invalid EE context state",
            Self::Fatal => "fatal error",
            Self::ResponseTimeout => "response timeout error",
            Self::General => "general error",
            Self::TagMatching => "TM error",
            Self::TagMatchingRndvIncomplete => "TM software rendezvous",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Whether the work request was carried out.
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Success)
    }
}

open_enum! {
    /// `ibv_wc_opcode`—what kind of work completed.
    ///
    /// Numbers 0 to 9 are `enum ib_uverbs_wc_opcode`, which libibverbs shares; receives set bit 7.
    /// Numbers from 130 on are libibverbs' own and are never reported by the kernel. Numbers 10 to
    /// 12 are internal to the kernel and never reach user space.
    #[doc(alias = "ibv_wc_opcode")]
    #[derive(Default)]
    pub enum WcOpcode: u32 {
        /// Send, in all its forms.
        #[default]
        Send = 0, "IBV_WC_SEND", "send";
        /// RDMA write, in all its forms.
        RdmaWrite = 1, "IBV_WC_RDMA_WRITE", "rdma write";
        /// RDMA read.
        RdmaRead = 2, "IBV_WC_RDMA_READ", "rdma read";
        /// Compare and swap.
        CompareSwap = 3, "IBV_WC_COMP_SWAP", "compare and swap";
        /// Fetch and add.
        FetchAdd = 4, "IBV_WC_FETCH_ADD", "fetch and add";
        /// A memory window was bound.
        BindMw = 5, "IBV_WC_BIND_MW", "bind memory window";
        /// A key was invalidated.
        LocalInvalidate = 6, "IBV_WC_LOCAL_INV", "local invalidate";
        /// Segmentation offload.
        Tso = 7, "IBV_WC_TSO", "tso";
        /// Flush.
        Flush = 8, "IBV_WC_FLUSH", "flush";
        /// Atomic write.
        AtomicWrite = 9, "IBV_WC_ATOMIC_WRITE", "atomic write";
        /// A message was received.
        Recv = 128, "IBV_WC_RECV", "receive";
        /// A peer's write with immediate consumed a receive request.
        RecvRdmaWithImm = 129, "IBV_WC_RECV_RDMA_WITH_IMM", "receive of rdma write with immediate";
        /// A tag was added to a matching list.
        TagAdd = 130, "IBV_WC_TM_ADD", "tag add";
        /// A tag was removed from a matching list.
        TagDelete = 131, "IBV_WC_TM_DEL", "tag delete";
        /// A matching list was synchronised.
        TagSync = 132, "IBV_WC_TM_SYNC", "tag sync";
        /// A message matched a tag.
        TagRecv = 133, "IBV_WC_TM_RECV", "tag receive";
        /// A message had no tag.
        TagNone = 134, "IBV_WC_TM_NO_TAG", "no tag";
        /// Defined by the provider.
        Driver1 = 135, "IBV_WC_DRIVER1", "driver 1";
        /// Defined by the provider.
        Driver2 = 136, "IBV_WC_DRIVER2", "driver 2";
        /// Defined by the provider.
        Driver3 = 137, "IBV_WC_DRIVER3", "driver 3";
    }
}

impl WcOpcode {
    /// Whether a receive work request completed.
    pub const fn is_receive(self) -> bool {
        self.raw() & 128 != 0
            && !matches!(
                self,
                Self::TagAdd
                    | Self::TagDelete
                    | Self::TagSync
                    | Self::Driver1
                    | Self::Driver2
                    | Self::Driver3
            )
    }
}

open_flags! {
    /// `ibv_wc_flags`—what a completion carries besides the data.
    ///
    /// The bits are the kernel's (`enum ib_wc_flags`): they appear like this in the completion
    /// rings that the kernel fills. libibverbs has "with invalidate" and "checksum ok" the other
    /// way round; see [`WcFlags::to_ibv`].
    #[doc(alias = "ibv_wc_flags")]
    pub struct WcFlags: u32 {
        /// The first 40 bytes of the buffer are a [`Grh`](super::Grh) (UD only).
        GRH = 1 << 0, "IBV_WC_GRH";
        /// The message carried an immediate value.
        WITH_IMM = 1 << 1, "IBV_WC_WITH_IMM";
        /// The peer invalidated one of this side's rkeys.
        WITH_INVALIDATE = 1 << 2, "IBV_WC_WITH_INV";
        /// The checksums of the packet are correct. Reported only by queues for Ethernet packets,
        /// on devices that check them.
        IP_CSUM_OK = 1 << 3, "IBV_WC_IP_CSUM_OK";
        /// The source MAC address is known.
        WITH_SMAC = 1 << 4, "IB_WC_WITH_SMAC";
        /// The VLAN is known.
        WITH_VLAN = 1 << 5, "IB_WC_WITH_VLAN";
        /// The kind of network header is known.
        WITH_NETWORK_HDR_TYPE = 1 << 6, "IB_WC_WITH_NETWORK_HDR_TYPE";
    }
}

impl WcFlags {
    /// The flags with libibverbs' bit values: checksum ok is 4, with invalidate is 8. The kernel's
    /// other flags have none.
    pub const fn to_ibv(self) -> u32 {
        let same = self.bits() & 0b0011;
        let invalidate = if self.contains(Self::WITH_INVALIDATE) {
            8
        } else {
            0
        };
        let checksum = if self.contains(Self::IP_CSUM_OK) {
            4
        } else {
            0
        };
        same | invalidate | checksum
    }
}

/// `ibv_wc`—one completion.
///
/// Unless `status` is success, only `wr_id`, `status`, `vendor_err` and `qp_num` are valid.
/// Default: a successful send with everything zero.
#[doc(alias = "ibv_wc")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WorkCompletion {
    /// The work request's `wr_id`.
    pub wr_id: u64,
    /// How the work request ended.
    pub status: WcStatus,
    /// What kind of work completed.
    pub opcode: WcOpcode,
    /// The vendor's error code.
    pub vendor_err: u32,
    /// Bytes received or read; for a UD receive this includes the 40 bytes of the header.
    pub byte_len: u32,
    /// Immediate value in host order.
    pub imm: Option<u32>,
    /// The rkey that the peer invalidated.
    pub invalidated: Option<RemoteKey>,
    /// Local queue pair.
    pub qp_num: u32,
    /// Sending queue pair (UD receives).
    pub src_qp: u32,
    /// Which of the other fields are valid, and what the device checked.
    pub flags: WcFlags,
    /// Partition key index (GSI only).
    pub pkey_index: u16,
    /// LID of the sender (UD on InfiniBand).
    pub slid: u16,
    /// Service level (UD).
    pub sl: u8,
    /// Low bits of the destination LID (UD on InfiniBand).
    pub dlid_path_bits: u8,
}

impl WorkCompletion {
    /// Whether the work request was carried out.
    pub const fn is_success(&self) -> bool {
        self.status.is_success()
    }

    /// Whether this is the completion of a receive. Valid only on success.
    pub const fn is_receive(&self) -> bool {
        self.opcode.is_receive()
    }

    /// Whether the buffer starts with a [`Grh`](super::Grh).
    pub const fn has_grh(&self) -> bool {
        self.flags.contains(WcFlags::GRH)
    }
}

/// The timestamps that a queue's completions carry.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Timestamps {
    /// Nothing.
    #[default]
    None,
    /// `IBV_WC_EX_WITH_COMPLETION_TIMESTAMP`—counts of the device's clock.
    Raw,
    /// `IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK`—nanoseconds since 1970.
    WallClock,
}

request_flags! {
    /// `ibv_create_cq_attr_flags`—options of a new completion queue.
    #[doc(alias = "ibv_create_cq_attr_flags")]
    pub struct CqCreateFlags: u32 {
        /// Completions carry timestamps.
        TIMESTAMP_COMPLETION = 1 << 0, "IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION";
        /// The queue may overrun without an error.
        IGNORE_OVERRUN = 1 << 1, "IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN";
    }
}
