//! Asynchronous events.

open_enum! {
    /// `ibv_event_type`—an event that is not the completion of a work request
    /// (`enum ib_event_type`).
    #[doc(alias = "ibv_event_type")]
    pub enum AsyncEventType: u32 {
        /// A completion queue overran or failed.
        CqError = 0, "IBV_EVENT_CQ_ERR", "completion queue error";
        /// A queue pair failed and entered the error state.
        QpFatal = 1, "IBV_EVENT_QP_FATAL", "queue pair fatal error";
        /// A request failed, and no completion reports it.
        QpRequestError = 2, "IBV_EVENT_QP_REQ_ERR", "queue pair request error";
        /// A peer's request violated access rights, and no completion reports it.
        QpAccessError = 3, "IBV_EVENT_QP_ACCESS_ERR", "queue pair access error";
        /// The first packet arrived while the queue pair was in RTR.
        CommunicationEstablished = 4, "IBV_EVENT_COMM_EST", "communication established";
        /// The send queue has drained.
        SendQueueDrained = 5, "IBV_EVENT_SQ_DRAINED", "send queue drained";
        /// The queue pair migrated to its alternate path.
        PathMigrated = 6, "IBV_EVENT_PATH_MIG", "path migrated";
        /// The queue pair could not migrate to its alternate path.
        PathMigrationError = 7, "IBV_EVENT_PATH_MIG_ERR", "path migration error";
        /// The device failed or is being removed.
        DeviceFatal = 8, "IBV_EVENT_DEVICE_FATAL", "device fatal error";
        /// A port became active.
        PortActive = 9, "IBV_EVENT_PORT_ACTIVE", "port active";
        /// A port went down.
        PortError = 10, "IBV_EVENT_PORT_ERR", "port error";
        /// The LID of a port changed.
        LidChange = 11, "IBV_EVENT_LID_CHANGE", "lid change";
        /// The partition keys of a port changed.
        PkeyChange = 12, "IBV_EVENT_PKEY_CHANGE", "partition key change";
        /// The subnet manager changed.
        SmChange = 13, "IBV_EVENT_SM_CHANGE", "subnet manager change";
        /// A shared receive queue failed.
        SrqError = 14, "IBV_EVENT_SRQ_ERR", "shared receive queue error";
        /// A shared receive queue fell below its limit.
        SrqLimitReached = 15, "IBV_EVENT_SRQ_LIMIT_REACHED", "shared receive queue limit reached";
        /// A queue pair in the error state has taken its last request from its shared receive
        /// queue.
        LastWqeReached = 16, "IBV_EVENT_QP_LAST_WQE_REACHED", "last receive reached";
        /// The subnet manager wants clients to register again.
        ClientReregister = 17, "IBV_EVENT_CLIENT_REREGISTER", "client reregistration";
        /// The GID table of a port changed.
        GidChange = 18, "IBV_EVENT_GID_CHANGE", "gid table change";
        /// A receive work queue failed.
        WqFatal = 19, "IBV_EVENT_WQ_FATAL", "work queue fatal error";
        /// The speed of the device changed. Newer kernels only.
        DeviceSpeedChange = 20, "IB_EVENT_DEVICE_SPEED_CHANGE", "device speed change";
    }
}

/// How many events the kernel had delivered for an object when it was destroyed.
///
/// libibverbs blocks until as many events have been acknowledged. Here events carry a generation
/// instead, so an unread event blocks nothing, and one that was in flight is recognised as stale.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EventCounts {
    /// Completion events.
    pub completions: u32,
    /// Asynchronous events.
    pub asynchronous: u32,
}

/// What the `element` of an event identifies.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum EventObject {
    /// A completion queue, by its user data.
    CompletionQueue,
    /// A queue pair, by its user data.
    QueuePair,
    /// A shared receive queue, by its user data.
    SharedReceiveQueue,
    /// A receive work queue, by its user data.
    WorkQueue,
    /// A port, by its number.
    Port,
    /// The whole device; the element has no meaning.
    Device,
}

impl AsyncEventType {
    /// `ibv_event_type_str`—the C library's text; it has none of its own for a speed change.
    #[doc(alias = "ibv_event_type_str")]
    pub const fn ibv_str(self) -> &'static str {
        match self {
            Self::CqError => "CQ error",
            Self::QpFatal => "local work queue catastrophic error",
            Self::QpRequestError => "invalid request local work queue error",
            Self::QpAccessError => "local access violation work queue error",
            Self::CommunicationEstablished => "communication established",
            Self::SendQueueDrained => "send queue drained",
            Self::PathMigrated => "path migrated",
            Self::PathMigrationError => "path migration request error",
            Self::DeviceFatal => "local catastrophic error",
            Self::PortActive => "port active",
            Self::PortError => "port error",
            Self::LidChange => "LID change",
            Self::PkeyChange => "P_Key change",
            Self::SmChange => "SM change",
            Self::SrqError => "SRQ catastrophic error",
            Self::SrqLimitReached => "SRQ limit reached",
            Self::LastWqeReached => "last WQE reached",
            Self::ClientReregister => "client reregistration",
            Self::GidChange => "GID table change",
            Self::WqFatal => "WQ fatal",
            Self::DeviceSpeedChange | Self::Unknown(_) => "unknown",
        }
    }

    /// What the event is about, or `None` for an unknown event.
    pub const fn object(self) -> Option<EventObject> {
        Some(match self {
            Self::CqError => EventObject::CompletionQueue,
            Self::QpFatal
            | Self::QpRequestError
            | Self::QpAccessError
            | Self::CommunicationEstablished
            | Self::SendQueueDrained
            | Self::PathMigrated
            | Self::PathMigrationError
            | Self::LastWqeReached => EventObject::QueuePair,
            Self::SrqError | Self::SrqLimitReached => EventObject::SharedReceiveQueue,
            Self::WqFatal => EventObject::WorkQueue,
            Self::PortActive
            | Self::PortError
            | Self::LidChange
            | Self::PkeyChange
            | Self::SmChange
            | Self::ClientReregister
            | Self::GidChange => EventObject::Port,
            Self::DeviceFatal | Self::DeviceSpeedChange => EventObject::Device,
            Self::Unknown(_) => return None,
        })
    }
}
