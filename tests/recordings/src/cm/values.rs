//! The structs of requests and replies, and values as they are shown.

use std::net::{Ipv4Addr, Ipv6Addr};

use uverbs_uapi::rdma_user_cm::{RDMA_USER_CM_QUERY_PATH, rdma_ucm_event_resp};

use crate::decode::values::of_struct;
use crate::decode::{Field, Value};
use crate::raw::digits;

/// The port that scenarios use; the kernel chooses others.
const PORT: u16 = 7700;
/// `RDMA_CM_EVENT_*` of `rdma/rdma_cma.h`, by number.
const EVENTS: [&str; 16] = [
    "ADDR_RESOLVED",
    "ADDR_ERROR",
    "ROUTE_RESOLVED",
    "ROUTE_ERROR",
    "CONNECT_REQUEST",
    "CONNECT_RESPONSE",
    "CONNECT_ERROR",
    "UNREACHABLE",
    "REJECTED",
    "ESTABLISHED",
    "DISCONNECTED",
    "DEVICE_REMOVAL",
    "MULTICAST_JOIN",
    "MULTICAST_ERROR",
    "ADDR_CHANGE",
    "TIMEWAIT_EXIT",
];

pub(super) fn named(event: u64) -> &'static str {
    let at = usize::try_from(event).unwrap_or(usize::MAX);
    EVENTS.get(at).copied().unwrap_or("unknown")
}

pub(super) fn is_request(event: u64) -> bool {
    named(event) == "CONNECT_REQUEST"
}

/// Its id is that of a join.
pub(super) fn is_of_group(event: u64) -> bool {
    named(event).starts_with("MULTICAST")
}

pub(super) fn request(name: &str, bytes: &[u8]) -> Vec<Field> {
    let layout = match name {
        "QUERY_ROUTE" => "query".to_owned(),
        "LEAVE_MCAST" => "destroy_id".to_owned(),
        _ => name.to_lowercase(),
    };
    nested(of_struct(&format!("rdma_ucm_{layout}"), bytes, false).unwrap_or_default())
}

/// With the fields of structs that are fields.
fn nested(fields: Vec<Field>) -> Vec<Field> {
    let inner = |field: &Field| match (&field.value, field.name.as_str()) {
        (Value::Bytes(bytes), "conn_param") => of_struct("rdma_ucm_conn_param", bytes, field.out),
        (Value::Bytes(bytes), "ah_attr") => of_struct("ib_uverbs_ah_attr", bytes, field.out),
        (Value::Bytes(bytes), "grh") => of_struct("ib_uverbs_global_route", bytes, field.out),
        _ => None,
    };
    let of = |field: Field| match inner(&field) {
        Some(inner) => nested(inner),
        None => vec![field],
    };
    fields.into_iter().flat_map(of).collect()
}

pub(super) fn reply(name: &str, request: &[u8], bytes: &[u8]) -> Vec<Field> {
    let option = request.get(12..16).map_or(0, |word| u32::from(word[0]));
    let layout = match name {
        "CREATE_ID" | "JOIN_MCAST" | "JOIN_IP_MCAST" => "rdma_ucm_create_id_resp",
        "DESTROY_ID" | "LEAVE_MCAST" => "rdma_ucm_destroy_id_resp",
        "QUERY_ROUTE" => "rdma_ucm_query_route_resp",
        "QUERY" if option == RDMA_USER_CM_QUERY_PATH => "rdma_ucm_query_path_resp",
        "QUERY" => "rdma_ucm_query_addr_resp",
        "INIT_QP_ATTR" => "ib_uverbs_qp_attr",
        _ => return Vec::new(),
    };
    nested(of_struct(layout, bytes, true).unwrap_or_default())
}

/// What an event carries depends on it, and on whether its id is of datagrams.
pub(super) fn event(bytes: &[u8], of_datagrams: impl Fn(u64) -> bool) -> Vec<Field> {
    let mut fields = of_struct("rdma_ucm_event_resp", bytes, true).unwrap_or_default();
    let number = |name: &str| {
        let field = fields.iter().find(|field| field.name == name);
        match field.map(|field| &field.value) {
            Some(Value::Number(number)) => *number,
            _ => 0,
        }
    };
    let layout = if is_of_group(number("event")) || of_datagrams(number("uid")) {
        "rdma_ucm_ud_param"
    } else {
        "rdma_ucm_conn_param"
    };
    fields.retain(|field| field.name != "param");
    let begin = std::mem::offset_of!(rdma_ucm_event_resp, param);
    let param = bytes.get(begin..).unwrap_or_default();
    fields.extend(nested(of_struct(layout, param, true).unwrap_or_default()));
    fields
}

/// A value as it is shown.
pub(super) fn plain(name: &str, value: &Value) -> String {
    match value {
        Value::Number(_) if name == "flow_label" => "flow".to_owned(),
        Value::Number(_) if name.ends_with("_psn") => "psn".to_owned(),
        Value::Number(_) | Value::Bytes(_) if name == "node_guid" => "guid".to_owned(),
        // What is left of a limit.
        Value::Number(number) if name == "timeout_ms" => (number.div_ceil(500) * 500).to_string(),
        Value::Number(number) if name == "status" => {
            let low = u32::try_from(*number).unwrap_or(u32::MAX);
            low.cast_signed().to_string()
        }
        Value::Number(number) if *number > 9999 => format!("{number:#x}"),
        Value::Number(number) => number.to_string(),
        Value::Bytes(bytes) if name.ends_with("_addr") || name == "addr" => address(bytes),
        Value::Bytes(bytes) if name == "private_data" => text(bytes),
        // Of the ports, and so of the run.
        Value::Bytes(_) if name == "ib_route" => "path".to_owned(),
        Value::Bytes(bytes) => digits(bytes),
        Value::Handle(handle) => handle.to_string(),
        Value::Fd(fd) => fd.to_string(),
        Value::Unwritten => "unwritten".to_owned(),
    }
}

/// A socket address.
fn address(bytes: &[u8]) -> String {
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    const AF_IB: u16 = 27;
    let half = |at: usize| {
        bytes
            .get(at..at + 2)
            .map_or([0; 2], |half| [half[0], half[1]])
    };
    let port = match u16::from_be_bytes(half(2)) {
        0 => "0",
        PORT => "7700",
        _ => "port",
    };
    let family = u16::from_ne_bytes(half(0));
    let v4 = bytes
        .get(4..8)
        .and_then(|four| <[u8; 4]>::try_from(four).ok());
    let v6 = bytes
        .get(8..24)
        .and_then(|all| <[u8; 16]>::try_from(all).ok());
    match (family, v4, v6) {
        (AF_INET, Some(address), _) => format!("{}:{port}", Ipv4Addr::from(address)),
        (AF_INET6, _, Some(address)) => format!("[{}]:{port}", Ipv6Addr::from(address)),
        // Its service holds a port.
        (AF_IB, ..) => format!("GID {}", digits(bytes.get(8..24).unwrap_or_default())),
        _ => {
            let end = bytes.iter().rposition(|byte| *byte != 0);
            digits(&bytes[..end.map_or(0, |end| end + 1)])
        }
    }
}

/// Private data, without the zeros that pad it.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte != 0);
    let bytes = &bytes[..end.map_or(0, |end| end + 1)];
    if bytes.is_ascii() {
        return String::from_utf8_lossy(bytes).escape_debug().to_string();
    }
    digits(bytes)
}
