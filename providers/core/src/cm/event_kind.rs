//! What an event says.

use crate::types::macros::open_enum;

open_enum! {
    /// `rdma_cm_event_type`—what an event says. [`c_name`](Self::c_name) is the text of
    /// `rdma_event_str`.
    #[doc(alias = "rdma_cm_event_type")]
    #[doc(alias = "rdma_event_str")]
    pub enum EventKind: u32 {
        /// The device and the peer's link address were found.
        AddressResolved = 0, "RDMA_CM_EVENT_ADDR_RESOLVED", "address resolved";
        /// They were not; the id may try again.
        AddressError = 1, "RDMA_CM_EVENT_ADDR_ERROR", "address error";
        /// The path was found.
        RouteResolved = 2, "RDMA_CM_EVENT_ROUTE_RESOLVED", "route resolved";
        /// It was not; the id may try again.
        RouteError = 3, "RDMA_CM_EVENT_ROUTE_ERROR", "route error";
        /// A peer asks for a connection. The `uid` is the listener's, the `id` a new one, for the
        /// connection: whoever reads the event owns it.
        ConnectRequest = 4, "RDMA_CM_EVENT_CONNECT_REQUEST", "connect request";
        /// The peer accepted; the queue pair has to be moved, and the connection
        /// [established](super::establish).
        ConnectResponse = 5, "RDMA_CM_EVENT_CONNECT_RESPONSE", "connect response";
        /// Connecting failed (iWARP).
        ConnectError = 6, "RDMA_CM_EVENT_CONNECT_ERROR", "connect error";
        /// No answer came, or a datagram service refused. May also come on an established
        /// connection that works, when the peer's link address changed (Linux 6.0).
        Unreachable = 7, "RDMA_CM_EVENT_UNREACHABLE", "unreachable";
        /// The peer, or its kernel, refused or gave up.
        Rejected = 8, "RDMA_CM_EVENT_REJECTED", "rejected";
        /// The connection is established: on the passive side; on the active side of iWARP and of
        /// datagrams.
        Established = 9, "RDMA_CM_EVENT_ESTABLISHED", "established";
        /// The peer disconnected, or answered our disconnect, or failed to in time.
        Disconnected = 10, "RDMA_CM_EVENT_DISCONNECTED", "disconnected";
        /// The device was removed: every command but a destroy fails from now on.
        DeviceRemoval = 11, "RDMA_CM_EVENT_DEVICE_REMOVAL", "device removal";
        /// A multicast group was joined. The `uid` and the `id` are those of the join.
        MulticastJoin = 12, "RDMA_CM_EVENT_MULTICAST_JOIN", "multicast join";
        /// A multicast group was not joined, or lost. The `uid` and the `id` are those of the join.
        MulticastError = 13, "RDMA_CM_EVENT_MULTICAST_ERROR", "multicast error";
        /// The link address of the network interface changed; connections stay on their paths.
        AddressChange = 14, "RDMA_CM_EVENT_ADDR_CHANGE", "address change";
        /// The numbers of the queue pairs of a former connection may be used again.
        TimewaitExit = 15, "RDMA_CM_EVENT_TIMEWAIT_EXIT", "time wait exit";
        /// A service was found. Newer than Linux 6.12.
        ServiceResolved = 16, "RDMA_CM_EVENT_ADDRINFO_RESOLVED", "service resolved";
        /// It was not. Newer than Linux 6.12.
        ServiceError = 17, "RDMA_CM_EVENT_ADDRINFO_ERROR", "service error";
        /// Written by the program itself. Newer than Linux 6.12.
        User = 18, "RDMA_CM_EVENT_USER", "user event";
        /// Written by the program's library. Newer than Linux 6.12.
        Internal = 19, "RDMA_CM_EVENT_INTERNAL", "internal event";
    }
}

impl EventKind {
    /// Whether `uid` and `id` of such an event are those of a multicast join.
    pub const fn is_of_multicast(self) -> bool {
        matches!(self, Self::MulticastJoin | Self::MulticastError)
    }
}
