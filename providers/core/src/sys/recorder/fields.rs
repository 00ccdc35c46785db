//! Decodes a legacy command's bytes by the layout of its struct in the kernel's headers.

use uverbs_uapi::tables::{HEADERS, Struct};

use super::names::Name;
use super::record::{Attribute, Direction, Value};
use crate::sys::number;

/// The longest value that is kept, in bytes: the driver data of opening and querying a device is
/// shorter, that of firmware commands is longer.
const MAX_KEPT: usize = 512;

/// The fields of a command's request or reply: `None` if the headers have no struct for it.
pub(super) fn of_command(
    command: &Name,
    reply: bool,
    bytes: &[u8],
    direction: Direction,
) -> Option<Vec<Attribute>> {
    let mut fields = Vec::new();
    collect(
        command_layout(command, reply)?,
        bytes,
        direction,
        &mut fields,
    );
    Some(fields)
}

/// The struct of a command's request or reply.
pub(super) fn command_layout(command: &Name, reply: bool) -> Option<&'static Struct> {
    let full = command.full()?;
    let (plain, extended) = match full.strip_prefix("IB_USER_VERBS_EX_CMD_") {
        Some(rest) => (rest, true),
        None => (full.strip_prefix("IB_USER_VERBS_CMD_")?, false),
    };
    let suffix = if reply { "_resp" } else { "" };
    let base = plain.to_lowercase();
    extended
        .then(|| find(&format!("ib_uverbs_ex_{base}{suffix}")))
        .flatten()
        .or_else(|| find(&format!("ib_uverbs_{base}{suffix}")))
        .or_else(|| find(alias(&base, reply)?))
}

/// The fields of the request or reply of a command of the connection manager: `None` if the headers
/// have no struct for it, or if its struct depends on what was queried.
pub(super) fn of_cm(
    command: &Name,
    reply: bool,
    bytes: &[u8],
    direction: Direction,
) -> Option<Vec<Attribute>> {
    let base = command
        .full()?
        .strip_prefix("RDMA_USER_CM_CMD_")?
        .to_lowercase();
    let layout = match (base.as_str(), reply) {
        (_, true) if bytes.is_empty() => return Some(Vec::new()),
        ("query_route", false) => find("rdma_ucm_query"),
        ("leave_mcast", false) => find("rdma_ucm_destroy_id"),
        ("leave_mcast", true) => find("rdma_ucm_destroy_id_resp"),
        ("join_mcast" | "join_ip_mcast", true) => find("rdma_ucm_create_id_resp"),
        ("get_event", true) => find("rdma_ucm_event_resp"),
        ("init_qp_attr", true) => find("ib_uverbs_qp_attr"),
        ("migrate_id", true) => find("rdma_ucm_migrate_resp"),
        ("query", true) => None,
        (_, true) => find(&format!("rdma_ucm_{base}_resp")),
        (_, false) => find(&format!("rdma_ucm_{base}")),
    };
    let mut fields = Vec::new();
    collect(layout?, bytes, direction, &mut fields);
    Some(fields)
}

/// The fields of a struct by its name in the kernel's headers.
pub(super) fn of_struct(name: &str, bytes: &[u8], direction: Direction) -> Option<Vec<Attribute>> {
    let mut fields = Vec::new();
    collect(find(name)?, bytes, direction, &mut fields);
    Some(fields)
}

/// Commands that share the reply struct of another.
fn alias(base: &str, reply: bool) -> Option<&'static str> {
    match (base, reply) {
        ("create_xsrq", true) => Some("ib_uverbs_create_srq_resp"),
        ("open_qp", true) => Some("ib_uverbs_create_qp_resp"),
        ("create_rwq_ind_tbl", false) => Some("ib_uverbs_ex_create_rwq_ind_table"),
        ("create_rwq_ind_tbl", true) => Some("ib_uverbs_ex_create_rwq_ind_table_resp"),
        ("destroy_rwq_ind_tbl", false) => Some("ib_uverbs_ex_destroy_rwq_ind_table"),
        _ => None,
    }
}

/// The layout of a struct of the kernel's headers, by its name there.
pub fn find(name: &str) -> Option<&'static Struct> {
    HEADERS
        .iter()
        .flat_map(|header| header.structs)
        .find(|layout| layout.names.contains(&name))
}

/// A field and its position in the bytes of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its name; for a field of a nested struct both names, with a dot.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
}

/// The meaningful fields in order; nested structs are replaced by their fields.
pub fn places(layout: &'static Struct) -> Vec<Place> {
    let mut found = Vec::new();
    add_places(layout, 0, &mut found);
    found
}

fn add_places(layout: &'static Struct, start: usize, found: &mut Vec<Place>) {
    for field in layout.fields {
        let offset = start + field.offset;
        if field.name == "base" && layout.rust.starts_with("ib_uverbs_ex_") {
            let inner = layout.rust.replacen("ib_uverbs_ex_", "ib_uverbs_", 1);
            if let Some(inner) = find(&inner) {
                add_places(inner, offset, found);
                continue;
            }
        }
        if let Some(inner) = inner(field.name).and_then(find)
            && inner.size == field.size
        {
            add_places(inner, offset, found);
            continue;
        }
        if !is_filler(field.name) && field.size != 0 {
            found.push(Place {
                name: field.name,
                offset,
                size: field.size,
            });
        }
    }
}

fn collect(
    layout: &'static Struct,
    bytes: &[u8],
    direction: Direction,
    fields: &mut Vec<Attribute>,
) {
    for place in places(layout) {
        // Replies of older kernels may be shorter than the struct in the headers.
        let Some(part) = bytes.get(place.offset..place.offset + place.size) else {
            continue;
        };
        fields.push(Attribute {
            name: Name::new(Some(place.name), 0),
            direction,
            len: place.size,
            mandatory: true,
            // In network byte order, so the bytes are more readable than the number.
            value: if place.name.ends_with("guid") {
                Value::Bytes(part.to_vec())
            } else {
                value(part)
            },
        });
    }
}

/// The struct nested in a field.
fn inner(field: &str) -> Option<&'static str> {
    match field {
        "dest" | "alt_dest" => Some("ib_uverbs_qp_dest"),
        "attr" => Some("ib_uverbs_ah_attr"),
        "grh" => Some("ib_uverbs_global_route"),
        "legacy_resp" => Some("ib_uverbs_query_port_resp"),
        _ => None,
    }
}

/// The struct that an attribute of the ioctl interface carries.
pub(super) fn of_attribute(name: &Name, bytes: &[u8], direction: Direction) -> Option<Value> {
    let layout = find(match name.full()? {
        "UVERBS_ATTR_CREATE_QP_CAP" | "UVERBS_ATTR_CREATE_QP_RESP_CAP" => "ib_uverbs_qp_cap",
        "UVERBS_ATTR_QUERY_PORT_RESP" => "ib_uverbs_query_port_resp_ex",
        "UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY" => "ib_uverbs_gid_entry",
        "UVERBS_ATTR_DESTROY_CQ_RESP" => "ib_uverbs_destroy_cq_resp",
        _ => return None,
    })?;
    let mut fields = Vec::new();
    collect(layout, bytes, direction, &mut fields);
    Some(Value::Fields(fields))
}

/// Fields without information: the address of the reply, and reserved ones.
fn is_filler(name: &str) -> bool {
    ["response", "reserved", "pad"].iter().any(|filler| {
        name.strip_prefix(filler)
            .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '_'))
    }) || name.starts_with("implicit_padding")
}

/// A number if the size is that of an integer, otherwise the bytes.
pub(super) fn value(bytes: &[u8]) -> Value {
    match bytes.len() {
        1 | 2 | 4 | 8 => number(bytes).map_or(Value::Long, Value::Number),
        0..=MAX_KEPT => Value::Bytes(bytes.to_vec()),
        _ => Value::Long,
    }
}

#[cfg(test)]
mod tests {
    use uverbs_uapi::names::write_command;

    use super::*;

    #[test]
    fn every_legacy_command_has_a_layout() {
        // Commands in the headers that no kernel ever implemented have no struct.
        let unused = [
            "MODIFY_AH",
            "QUERY_AH",
            "REG_SMR",
            "QUERY_MR",
            "BIND_MW",
            "PEEK_CQ",
        ];
        for extended in [false, true] {
            for number in 0..64 {
                let Some(full) = write_command(number, extended) else {
                    continue;
                };
                let name = Name::new(Some(full), number);
                let known = of_command(&name, false, &[], Direction::In).is_some();
                assert!(
                    known || unused.contains(&name.to_string().as_str()),
                    "{full}"
                );
            }
        }
    }

    #[test]
    fn attributes_that_are_structs_have_fields() {
        for (full, first) in [
            ("UVERBS_ATTR_CREATE_QP_CAP", "max_send_wr"),
            ("UVERBS_ATTR_CREATE_QP_RESP_CAP", "max_send_wr"),
            ("UVERBS_ATTR_QUERY_PORT_RESP", "port_cap_flags"),
            ("UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY", "gid"),
            ("UVERBS_ATTR_DESTROY_CQ_RESP", "comp_events_reported"),
        ] {
            let name = Name::new(Some(full), 1);
            let Some(Value::Fields(fields)) = of_attribute(&name, &[7; 64], Direction::Out) else {
                panic!("{full} has no fields");
            };
            let found = fields.iter().any(|field| field.name.to_string() == first);
            assert!(found, "{full}: {fields:?}");
        }
        let other = Name::new(Some("UVERBS_ATTR_CREATE_QP_TYPE"), 9);
        assert_eq!(of_attribute(&other, &[7; 64], Direction::In), None);
    }

    #[test]
    fn every_command_of_the_connection_manager_has_a_layout() {
        for number in 0..32 {
            let Some(full) = uverbs_uapi::names::cm_command(number) else {
                continue;
            };
            let name = Name::new(Some(full), number);
            let known = of_cm(&name, false, &[], Direction::In).is_some();
            // No kernel ever implemented GET_OPTION.
            assert_eq!(known, full != "RDMA_USER_CM_CMD_GET_OPTION", "{full}");
        }
    }

    #[test]
    fn fields_come_out_by_name() {
        let name = Name::new(write_command(19, false), 19);
        let mut bytes = vec![0xff; 8];
        bytes.extend(7_u32.to_ne_bytes());
        bytes.extend(63_u32.to_ne_bytes());
        let fields = of_command(&name, false, &bytes, Direction::In).expect("resize_cq");
        let shown: Vec<_> = fields
            .iter()
            .map(|field| (field.name.full().unwrap_or_default(), field.value.clone()))
            .collect();
        assert_eq!(
            shown,
            [("cq_handle", Value::Number(7)), ("cqe", Value::Number(63))]
        );
    }
}
