//! Why a connection was refused.

use crate::types::macros::open_enum;

open_enum! {
    /// Why a peer, or its kernel, refused a connection: the status of a
    /// [`Rejected`](super::EventKind::Rejected) event on InfiniBand and RoCE (`enum
    /// ib_cm_rej_reason`).
    #[doc(alias = "rdma_reject_msg")]
    pub enum RejectReason: u16 {
        /// No queue pair was available.
        NoQueuePair = 1, "IB_CM_REJ_NO_QP", "no queue pair";
        /// No end-to-end context was available.
        NoEec = 2, "IB_CM_REJ_NO_EEC", "no end-to-end context";
        /// The peer lacks resources.
        NoResources = 3, "IB_CM_REJ_NO_RESOURCES", "no resources";
        /// The sender gave up: its id was destroyed while it was connecting, or no answer came.
        Timeout = 4, "IB_CM_REJ_TIMEOUT", "timeout";
        /// The request is not supported.
        Unsupported = 5, "IB_CM_REJ_UNSUPPORTED", "unsupported";
        /// The communication id is not valid.
        InvalidCommId = 6, "IB_CM_REJ_INVALID_COMM_ID", "invalid communication id";
        /// The communication instance is not valid.
        InvalidCommInstance = 7, "IB_CM_REJ_INVALID_COMM_INSTANCE", "invalid communication instance";
        /// Nobody listens at this address and port.
        InvalidServiceId = 8, "IB_CM_REJ_INVALID_SERVICE_ID", "no listener";
        /// The transport is not that of the service.
        InvalidTransportType = 9, "IB_CM_REJ_INVALID_TRANSPORT_TYPE", "invalid transport type";
        /// A connection between these two queue pair numbers exists, or existed a moment ago.
        StaleConnection = 10, "IB_CM_REJ_STALE_CONN", "stale connection";
        /// There is no such reliable datagram channel.
        NoDatagramChannel = 11, "IB_CM_REJ_RDC_NOT_EXIST", "no reliable datagram channel";
        /// The GID is not valid.
        InvalidGid = 12, "IB_CM_REJ_INVALID_GID", "invalid GID";
        /// The LID is not valid.
        InvalidLid = 13, "IB_CM_REJ_INVALID_LID", "invalid LID";
        /// The service level is not valid.
        InvalidServiceLevel = 14, "IB_CM_REJ_INVALID_SL", "invalid service level";
        /// The traffic class is not valid.
        InvalidTrafficClass = 15, "IB_CM_REJ_INVALID_TRAFFIC_CLASS", "invalid traffic class";
        /// The hop limit is not valid.
        InvalidHopLimit = 16, "IB_CM_REJ_INVALID_HOP_LIMIT", "invalid hop limit";
        /// The rate is not valid.
        InvalidPacketRate = 17, "IB_CM_REJ_INVALID_PACKET_RATE", "invalid packet rate";
        /// The GID of the alternate path is not valid.
        InvalidAltGid = 18, "IB_CM_REJ_INVALID_ALT_GID", "invalid alternate GID";
        /// The LID of the alternate path is not valid.
        InvalidAltLid = 19, "IB_CM_REJ_INVALID_ALT_LID", "invalid alternate LID";
        /// The service level of the alternate path is not valid.
        InvalidAltServiceLevel = 20, "IB_CM_REJ_INVALID_ALT_SL", "invalid alternate service level";
        /// The traffic class of the alternate path is not valid.
        InvalidAltTrafficClass = 21, "IB_CM_REJ_INVALID_ALT_TRAFFIC_CLASS", "invalid alternate traffic class";
        /// The hop limit of the alternate path is not valid.
        InvalidAltHopLimit = 22, "IB_CM_REJ_INVALID_ALT_HOP_LIMIT", "invalid alternate hop limit";
        /// The rate of the alternate path is not valid.
        InvalidAltPacketRate = 23, "IB_CM_REJ_INVALID_ALT_PACKET_RATE", "invalid alternate packet rate";
        /// The connection manager is at another port.
        PortCmRedirect = 24, "IB_CM_REJ_PORT_CM_REDIRECT", "connection manager redirected";
        /// The service is at another port.
        PortRedirect = 25, "IB_CM_REJ_PORT_REDIRECT", "port redirected";
        /// The path MTU is not valid.
        InvalidMtu = 26, "IB_CM_REJ_INVALID_MTU", "invalid MTU";
        /// The peer cannot serve as many reads and atomics.
        InsufficientResponderResources = 27, "IB_CM_REJ_INSUFFICIENT_RESP_RESOURCES", "insufficient responder resources";
        /// The peer's program refused, or went away.
        Consumer = 28, "IB_CM_REJ_CONSUMER_DEFINED", "refused by the peer";
        /// The count of retries is not valid.
        InvalidRnrRetry = 29, "IB_CM_REJ_INVALID_RNR_RETRY", "invalid RNR retry count";
        /// The communication id is in use.
        DuplicateCommId = 30, "IB_CM_REJ_DUPLICATE_LOCAL_COMM_ID", "duplicate communication id";
        /// The version of the messages is not known.
        InvalidClassVersion = 31, "IB_CM_REJ_INVALID_CLASS_VERSION", "invalid class version";
        /// The flow label is not valid.
        InvalidFlowLabel = 32, "IB_CM_REJ_INVALID_FLOW_LABEL", "invalid flow label";
        /// The flow label of the alternate path is not valid.
        InvalidAltFlowLabel = 33, "IB_CM_REJ_INVALID_ALT_FLOW_LABEL", "invalid alternate flow label";
        /// The peer does not agree to the vendor's options (ECE).
        VendorOption = 35, "IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED", "vendor option not supported";
    }
}
