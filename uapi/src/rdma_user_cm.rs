//! `rdma/rdma_user_cm.h`: the commands written to `/dev/infiniband/rdma_cm` and their replies.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::ib_user_sa::ib_user_path_rec;
use crate::ib_user_verbs::ib_uverbs_ah_attr;
use crate::linux_socket::{__kernel_sockaddr_storage, sockaddr_in6};

/// The version of these commands.
pub const RDMA_USER_CM_ABI_VERSION: u32 = 4;

/// Size of the private data buffer, bytes.
pub const RDMA_MAX_PRIVATE_DATA: usize = 256;

kernel_enum! {
    /// Commands.
    anonymous enum rdma_ucm_cmd: u32 {
        RDMA_USER_CM_CMD_CREATE_ID = 0,
        RDMA_USER_CM_CMD_DESTROY_ID = 1,
        RDMA_USER_CM_CMD_BIND_IP = 2,
        RDMA_USER_CM_CMD_RESOLVE_IP = 3,
        RDMA_USER_CM_CMD_RESOLVE_ROUTE = 4,
        RDMA_USER_CM_CMD_QUERY_ROUTE = 5,
        RDMA_USER_CM_CMD_CONNECT = 6,
        RDMA_USER_CM_CMD_LISTEN = 7,
        RDMA_USER_CM_CMD_ACCEPT = 8,
        RDMA_USER_CM_CMD_REJECT = 9,
        RDMA_USER_CM_CMD_DISCONNECT = 10,
        RDMA_USER_CM_CMD_INIT_QP_ATTR = 11,
        RDMA_USER_CM_CMD_GET_EVENT = 12,
        RDMA_USER_CM_CMD_GET_OPTION = 13,
        RDMA_USER_CM_CMD_SET_OPTION = 14,
        RDMA_USER_CM_CMD_NOTIFY = 15,
        RDMA_USER_CM_CMD_JOIN_IP_MCAST = 16,
        RDMA_USER_CM_CMD_LEAVE_MCAST = 17,
        RDMA_USER_CM_CMD_MIGRATE_ID = 18,
        RDMA_USER_CM_CMD_QUERY = 19,
        RDMA_USER_CM_CMD_BIND = 20,
        RDMA_USER_CM_CMD_RESOLVE_ADDR = 21,
        RDMA_USER_CM_CMD_JOIN_MCAST = 22,
        RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE = 23,
        RDMA_USER_CM_CMD_WRITE_CM_EVENT = 24,
    }
}

kernel_enum! {
    /// Port spaces (IBTA annex A11).
    enum rdma_ucm_port_space: u32 {
        RDMA_PS_IPOIB = 0x2,
        RDMA_PS_IB = 0x13f,
        RDMA_PS_TCP = 0x106,
        RDMA_PS_UDP = 0x111,
    }
}

/// The header of every command.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_cmd_hdr {
    pub cmd: u32,
    /// Bytes of the request after this header.
    pub r#in: u16,
    /// Size of the reply buffer, bytes.
    pub out: u16,
}
assert_layout!(rdma_ucm_cmd_hdr, size 8, align 4, { cmd @ 0, r#in @ 4, out @ 6 });

/// Request of [`RDMA_USER_CM_CMD_CREATE_ID`]: makes an identifier.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_create_id {
    pub uid: u64,
    pub response: u64,
    /// [`mod@rdma_ucm_port_space`].
    pub ps: u16,
    pub qp_type: u8,
    pub reserved: [u8; 5],
}
assert_layout!(rdma_ucm_create_id, size 24, align 8, {
    uid @ 0, response @ 8, ps @ 16, qp_type @ 18, reserved @ 19,
});

/// Reply to [`RDMA_USER_CM_CMD_CREATE_ID`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_create_id_resp {
    pub id: u32,
}
assert_layout!(rdma_ucm_create_id_resp, size 4, align 4, { id @ 0 });

/// Request of [`RDMA_USER_CM_CMD_DESTROY_ID`]: removes an identifier.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_destroy_id {
    pub response: u64,
    pub id: u32,
    pub reserved: u32,
}
assert_layout!(rdma_ucm_destroy_id, size 16, align 8, { response @ 0, id @ 8, reserved @ 12 });

/// Reply to [`RDMA_USER_CM_CMD_DESTROY_ID`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_destroy_id_resp {
    pub events_reported: u32,
}
assert_layout!(rdma_ucm_destroy_id_resp, size 4, align 4, { events_reported @ 0 });

/// Request of [`RDMA_USER_CM_CMD_BIND_IP`]: binds to an IP address.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_bind_ip {
    pub response: u64,
    pub addr: sockaddr_in6,
    pub id: u32,
}
assert_layout!(rdma_ucm_bind_ip, size 40, align 8, { response @ 0, addr @ 8, id @ 36 });

/// Request of [`RDMA_USER_CM_CMD_BIND`]: binds to an address of any family.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_bind {
    pub id: u32,
    pub addr_size: u16,
    pub reserved: u16,
    pub addr: __kernel_sockaddr_storage,
}
assert_layout!(rdma_ucm_bind, size 136, align 8, {
    id @ 0, addr_size @ 4, reserved @ 6, addr @ 8,
});

/// Request of [`RDMA_USER_CM_CMD_RESOLVE_IP`]: resolves an IP address.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_resolve_ip {
    pub src_addr: sockaddr_in6,
    pub dst_addr: sockaddr_in6,
    pub id: u32,
    pub timeout_ms: u32,
}
assert_layout!(rdma_ucm_resolve_ip, size 64, align 4, {
    src_addr @ 0, dst_addr @ 28, id @ 56, timeout_ms @ 60,
});

/// Request of [`RDMA_USER_CM_CMD_RESOLVE_ADDR`]: resolves an address of any family.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_resolve_addr {
    pub id: u32,
    pub timeout_ms: u32,
    pub src_size: u16,
    pub dst_size: u16,
    pub reserved: u32,
    pub src_addr: __kernel_sockaddr_storage,
    pub dst_addr: __kernel_sockaddr_storage,
}
assert_layout!(rdma_ucm_resolve_addr, size 272, align 8, {
    id @ 0, timeout_ms @ 4, src_size @ 8, dst_size @ 10, reserved @ 12, src_addr @ 16,
    dst_addr @ 144,
});

/// Request of [`RDMA_USER_CM_CMD_RESOLVE_ROUTE`]: finds the path.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_resolve_route {
    pub id: u32,
    pub timeout_ms: u32,
}
assert_layout!(rdma_ucm_resolve_route, size 8, align 4, { id @ 0, timeout_ms @ 4 });

kernel_enum! {
    /// What [`RDMA_USER_CM_CMD_QUERY`] asks for.
    anonymous enum rdma_ucm_query_option: u32 {
        RDMA_USER_CM_QUERY_ADDR = 0,
        RDMA_USER_CM_QUERY_PATH = 1,
        RDMA_USER_CM_QUERY_GID = 2,
        RDMA_USER_CM_QUERY_IB_SERVICE = 3,
    }
}

/// Request of [`RDMA_USER_CM_CMD_QUERY`]: reads addresses, paths or services.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_query {
    pub response: u64,
    pub id: u32,
    pub option: u32,
}
assert_layout!(rdma_ucm_query, size 16, align 8, { response @ 0, id @ 8, option @ 12 });

/// Reply to [`RDMA_USER_CM_CMD_QUERY_ROUTE`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_query_route_resp {
    pub node_guid: u64,
    pub ib_route: [ib_user_path_rec; 2],
    pub src_addr: sockaddr_in6,
    pub dst_addr: sockaddr_in6,
    pub num_paths: u32,
    pub port_num: u8,
    pub reserved: [u8; 3],
    pub ibdev_index: u32,
    pub reserved1: u32,
}
assert_layout!(rdma_ucm_query_route_resp, size 208, align 8, {
    node_guid @ 0, ib_route @ 8, src_addr @ 136, dst_addr @ 164, num_paths @ 192,
    port_num @ 196, reserved @ 197, ibdev_index @ 200, reserved1 @ 204,
});

/// Reply to [`RDMA_USER_CM_CMD_QUERY`] with [`RDMA_USER_CM_QUERY_ADDR`] or
/// [`RDMA_USER_CM_QUERY_GID`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_query_addr_resp {
    pub node_guid: u64,
    pub port_num: u8,
    pub reserved: u8,
    pub pkey: u16,
    pub src_size: u16,
    pub dst_size: u16,
    pub src_addr: __kernel_sockaddr_storage,
    pub dst_addr: __kernel_sockaddr_storage,
    pub ibdev_index: u32,
    pub reserved1: u32,
}
assert_layout!(rdma_ucm_query_addr_resp, size 280, align 8, {
    node_guid @ 0, port_num @ 8, reserved @ 9, pkey @ 10, src_size @ 12, dst_size @ 14,
    src_addr @ 16, dst_addr @ 144, ibdev_index @ 272, reserved1 @ 276,
});

/// Reply to [`RDMA_USER_CM_CMD_QUERY`] with [`RDMA_USER_CM_QUERY_PATH`].
///
/// Followed by `path_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_query_path_resp {
    pub num_paths: u32,
    pub reserved: u32,
}
assert_layout!(rdma_ucm_query_path_resp, size 8, align 4, {
    num_paths @ 0, reserved @ 4,
}, open { path_data @ 8 });

/// Reply to [`RDMA_USER_CM_CMD_QUERY`] with [`RDMA_USER_CM_QUERY_IB_SERVICE`].
///
/// Followed by `recs`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_query_ib_service_resp {
    pub num_service_recs: u32,
    pub reserved: u32,
}
assert_layout!(rdma_ucm_query_ib_service_resp, size 8, align 8, {
    num_service_recs @ 0, reserved @ 4,
}, open { recs @ 8 });

/// The parameters that the two sides of a connection exchange.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct rdma_ucm_conn_param {
    pub qp_num: u32,
    pub qkey: u32,
    pub private_data: [u8; RDMA_MAX_PRIVATE_DATA],
    pub private_data_len: u8,
    pub srq: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub valid: u8,
}
assert_layout!(rdma_ucm_conn_param, size 272, align 4, {
    qp_num @ 0, qkey @ 4, private_data @ 8, private_data_len @ 264, srq @ 265,
    responder_resources @ 266, initiator_depth @ 267, flow_control @ 268, retry_count @ 269,
    rnr_retry_count @ 270, valid @ 271,
});
default_zeroed!(rdma_ucm_conn_param);

/// The address of a datagram peer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct rdma_ucm_ud_param {
    pub qp_num: u32,
    pub qkey: u32,
    pub ah_attr: ib_uverbs_ah_attr,
    pub private_data: [u8; RDMA_MAX_PRIVATE_DATA],
    pub private_data_len: u8,
    pub reserved: [u8; 7],
}
assert_layout!(rdma_ucm_ud_param, size 304, align 4, {
    qp_num @ 0, qkey @ 4, ah_attr @ 8, private_data @ 40, private_data_len @ 296,
    reserved @ 297,
});
default_zeroed!(rdma_ucm_ud_param);

/// Vendor options of a connection (enhanced connection establishment).
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_ece {
    pub vendor_id: u32,
    pub attr_mod: u32,
}
assert_layout!(rdma_ucm_ece, size 8, align 4, { vendor_id @ 0, attr_mod @ 4 });

/// Request of [`RDMA_USER_CM_CMD_CONNECT`]: asks for a connection.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_connect {
    pub conn_param: rdma_ucm_conn_param,
    pub id: u32,
    pub reserved: u32,
    pub ece: rdma_ucm_ece,
}
assert_layout!(rdma_ucm_connect, size 288, align 4, {
    conn_param @ 0, id @ 272, reserved @ 276, ece @ 280,
});

/// Request of [`RDMA_USER_CM_CMD_LISTEN`]: waits for connections.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_listen {
    pub id: u32,
    pub backlog: u32,
}
assert_layout!(rdma_ucm_listen, size 8, align 4, { id @ 0, backlog @ 4 });

/// Request of [`RDMA_USER_CM_CMD_ACCEPT`]: accepts a connection.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_accept {
    pub uid: u64,
    pub conn_param: rdma_ucm_conn_param,
    pub id: u32,
    pub reserved: u32,
    pub ece: rdma_ucm_ece,
}
assert_layout!(rdma_ucm_accept, size 296, align 8, {
    uid @ 0, conn_param @ 8, id @ 280, reserved @ 284, ece @ 288,
});

/// Request of [`RDMA_USER_CM_CMD_REJECT`]: refuses a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct rdma_ucm_reject {
    pub id: u32,
    pub private_data_len: u8,
    pub reason: u8,
    pub reserved: [u8; 2],
    pub private_data: [u8; RDMA_MAX_PRIVATE_DATA],
}
assert_layout!(rdma_ucm_reject, size 264, align 4, {
    id @ 0, private_data_len @ 4, reason @ 5, reserved @ 6, private_data @ 8,
});
default_zeroed!(rdma_ucm_reject);

/// Request of [`RDMA_USER_CM_CMD_DISCONNECT`]: ends a connection.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_disconnect {
    pub id: u32,
}
assert_layout!(rdma_ucm_disconnect, size 4, align 4, { id @ 0 });

/// Request of [`RDMA_USER_CM_CMD_INIT_QP_ATTR`]: computes the queue pair attributes of a state.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_init_qp_attr {
    pub response: u64,
    pub id: u32,
    pub qp_state: u32,
}
assert_layout!(rdma_ucm_init_qp_attr, size 16, align 8, { response @ 0, id @ 8, qp_state @ 12 });

/// Request of [`RDMA_USER_CM_CMD_NOTIFY`]: reports a queue pair event.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_notify {
    pub id: u32,
    pub event: u32,
}
assert_layout!(rdma_ucm_notify, size 8, align 4, { id @ 0, event @ 4 });

/// Request of [`RDMA_USER_CM_CMD_JOIN_IP_MCAST`]: joins a multicast group by IP address.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_join_ip_mcast {
    pub response: u64,
    pub uid: u64,
    pub addr: sockaddr_in6,
    pub id: u32,
}
assert_layout!(rdma_ucm_join_ip_mcast, size 48, align 8, {
    response @ 0, uid @ 8, addr @ 16, id @ 44,
});

kernel_enum! {
    /// How a multicast group is joined.
    anonymous enum rdma_mc_join_flags: u32 {
        RDMA_MC_JOIN_FLAG_FULLMEMBER = 0,
        RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER = 1,
        RDMA_MC_JOIN_FLAG_RESERVED = 2,
    }
}

/// Request of [`RDMA_USER_CM_CMD_JOIN_MCAST`]: joins a multicast group.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_join_mcast {
    pub response: u64,
    pub uid: u64,
    pub id: u32,
    pub addr_size: u16,
    pub join_flags: u16,
    pub addr: __kernel_sockaddr_storage,
}
assert_layout!(rdma_ucm_join_mcast, size 152, align 8, {
    response @ 0, uid @ 8, id @ 16, addr_size @ 20, join_flags @ 22, addr @ 24,
});

/// Request of [`RDMA_USER_CM_CMD_GET_EVENT`]: takes the next event.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_get_event {
    pub response: u64,
}
assert_layout!(rdma_ucm_get_event, size 8, align 8, { response @ 0 });

kernel_union! {
    /// What the event carries.
    union rdma_ucm_event_resp_param: [u32; 76] = "rdma_ucm_event_resp.param" {
        conn: rdma_ucm_conn_param,
        ud: rdma_ucm_ud_param,
        arg32: [u32; 2],
    }
}

/// Reply to [`RDMA_USER_CM_CMD_GET_EVENT`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_event_resp {
    pub uid: u64,
    pub id: u32,
    pub event: u32,
    pub status: u32,
    pub param: rdma_ucm_event_resp_param,
    pub reserved: u32,
    pub ece: rdma_ucm_ece,
}
assert_layout!(rdma_ucm_event_resp, size 336, align 8, {
    uid @ 0, id @ 8, event @ 12, status @ 16, param @ 20, reserved @ 324, ece @ 328,
});

kernel_enum! {
    /// Option levels.
    anonymous enum rdma_option_level: u32 {
        RDMA_OPTION_ID = 0,
        RDMA_OPTION_IB = 1,
    }
}

kernel_enum! {
    /// Options of [`RDMA_OPTION_ID`].
    anonymous enum rdma_option_id: u32 {
        RDMA_OPTION_ID_TOS = 0,
        RDMA_OPTION_ID_REUSEADDR = 1,
        RDMA_OPTION_ID_AFONLY = 2,
        RDMA_OPTION_ID_ACK_TIMEOUT = 3,
    }
}

kernel_enum! {
    /// Options of [`RDMA_OPTION_IB`].
    anonymous enum rdma_option_ib: u32 {
        RDMA_OPTION_IB_PATH = 1,
    }
}

/// Request of [`RDMA_USER_CM_CMD_SET_OPTION`]: sets an option.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_set_option {
    pub optval: u64,
    pub id: u32,
    pub level: u32,
    pub optname: u32,
    pub optlen: u32,
}
assert_layout!(rdma_ucm_set_option, size 24, align 8, {
    optval @ 0, id @ 8, level @ 12, optname @ 16, optlen @ 20,
});

/// Request of [`RDMA_USER_CM_CMD_MIGRATE_ID`]: moves an identifier to another file.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_migrate_id {
    pub response: u64,
    pub id: u32,
    pub fd: u32,
}
assert_layout!(rdma_ucm_migrate_id, size 16, align 8, { response @ 0, id @ 8, fd @ 12 });

/// Reply to [`RDMA_USER_CM_CMD_MIGRATE_ID`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_migrate_resp {
    pub events_reported: u32,
}
assert_layout!(rdma_ucm_migrate_resp, size 4, align 4, { events_reported @ 0 });

kernel_enum! {
    /// Which fields of [`rdma_ucm_ib_service`] are valid.
    anonymous enum rdma_ucm_ib_service_flags: u32 {
        RDMA_USER_CM_IB_SERVICE_FLAG_ID = 1 << 0,
        RDMA_USER_CM_IB_SERVICE_FLAG_NAME = 1 << 1,
    }
}

/// Bytes of a service name.
pub const RDMA_USER_CM_IB_SERVICE_NAME_SIZE: usize = 64;

/// A service, by id or by name.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct rdma_ucm_ib_service {
    pub service_id: u64,
    pub service_name: [u8; RDMA_USER_CM_IB_SERVICE_NAME_SIZE],
    pub flags: u32,
    pub reserved: u32,
}
assert_layout!(rdma_ucm_ib_service, size 80, align 8, {
    service_id @ 0, service_name @ 8, flags @ 72, reserved @ 76,
});
default_zeroed!(rdma_ucm_ib_service);

/// Request of [`RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE`]: resolves a service.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_resolve_ib_service {
    pub id: u32,
    pub reserved: u32,
    pub ibs: rdma_ucm_ib_service,
}
assert_layout!(rdma_ucm_resolve_ib_service, size 88, align 8, { id @ 0, reserved @ 4, ibs @ 8 });

kernel_union! {
    /// What the event carries.
    union rdma_ucm_write_cm_event_param: [u64; 38] = "rdma_ucm_write_cm_event.param" {
        conn: rdma_ucm_conn_param,
        ud: rdma_ucm_ud_param,
        arg: u64,
    }
}

/// Request of [`RDMA_USER_CM_CMD_WRITE_CM_EVENT`]: puts an event into the queue.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct rdma_ucm_write_cm_event {
    pub id: u32,
    pub reserved: u32,
    pub event: u32,
    pub status: u32,
    pub param: rdma_ucm_write_cm_event_param,
}
assert_layout!(rdma_ucm_write_cm_event, size 320, align 8, {
    id @ 0, reserved @ 4, event @ 8, status @ 12, param @ 16,
});

kernel_header! {
    "rdma/rdma_user_cm.h",
    structs: [
        rdma_ucm_cmd_hdr, rdma_ucm_create_id, rdma_ucm_create_id_resp, rdma_ucm_destroy_id,
        rdma_ucm_destroy_id_resp, rdma_ucm_bind_ip, rdma_ucm_bind, rdma_ucm_resolve_ip,
        rdma_ucm_resolve_addr, rdma_ucm_resolve_route, rdma_ucm_query,
        rdma_ucm_query_route_resp, rdma_ucm_query_addr_resp, rdma_ucm_query_path_resp,
        rdma_ucm_query_ib_service_resp, rdma_ucm_conn_param, rdma_ucm_ud_param, rdma_ucm_ece,
        rdma_ucm_connect, rdma_ucm_listen, rdma_ucm_accept, rdma_ucm_reject,
        rdma_ucm_disconnect, rdma_ucm_init_qp_attr, rdma_ucm_notify, rdma_ucm_join_ip_mcast,
        rdma_ucm_join_mcast, rdma_ucm_get_event, rdma_ucm_event_resp_param,
        rdma_ucm_event_resp, rdma_ucm_set_option, rdma_ucm_migrate_id, rdma_ucm_migrate_resp,
        rdma_ucm_ib_service, rdma_ucm_resolve_ib_service, rdma_ucm_write_cm_event_param,
        rdma_ucm_write_cm_event,
    ],
    enums: [
        rdma_ucm_cmd, rdma_ucm_port_space, rdma_ucm_query_option, rdma_mc_join_flags,
        rdma_option_level, rdma_option_id, rdma_option_ib, rdma_ucm_ib_service_flags,
    ],
    constants: [
        RDMA_USER_CM_ABI_VERSION, RDMA_MAX_PRIVATE_DATA, RDMA_USER_CM_IB_SERVICE_NAME_SIZE,
    ],
}
