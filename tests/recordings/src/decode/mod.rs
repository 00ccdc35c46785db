//! From bytes to names: every call becomes a command with fields, in whatever encoding it was made.

mod devx;
mod driver;
mod firmware;
pub(crate) mod values;

use uverbs::recorder;
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT,
    UVERBS_ATTR_WRITE_CMD, UVERBS_METHOD_INVOKE_WRITE, UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::names;

use crate::raw::{Attr, Call, What};
pub use devx::AsyncQueries;
pub use values::Value;

/// A call with names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Command {
    /// The descriptor it was made on.
    pub fd: i32,
    /// The command: `ALLOC_PD`, `EX_QUERY_DEVICE`, `CQ_CREATE`, `mmap`.
    pub name: String,
    /// The kernel object concerned: `PD`, `CQ`; `CONTEXT` for the device itself.
    pub object: String,
    /// Inputs and outputs. Zero fields of structs are left out.
    pub fields: Vec<Field>,
    /// The errno, or 0.
    pub errno: i32,
}

/// An attribute, or a field of a struct.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Field {
    /// Its name in the kernel's headers, without the common prefix.
    pub name: String,
    /// Whether the kernel wrote it.
    pub out: bool,
    /// Its value.
    pub value: Value,
}

/// Names a call; `driver` is the device's, for commands that do not give it.
pub fn command(call: &Call, driver: u32, queries: &mut AsyncQueries) -> Command {
    let mut command = match &call.what {
        What::Ioctl {
            object,
            method,
            driver,
            attrs,
        } if (*object, *method) == (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE) => {
            invoked(*driver, attrs)
        }
        What::Ioctl {
            object,
            method,
            driver,
            attrs,
        } => self::method(*object, *method, *driver, attrs),
        What::Write {
            command,
            request,
            request_driver,
            reply,
            reply_driver,
        } => {
            let parts = [&request.0[..], &request_driver.0, &reply.0, &reply_driver.0];
            legacy(*command, driver, parts)
        }
        What::Map {
            len,
            protection,
            offset,
        } => {
            let fields = [
                ("length", *len),
                ("protection", *protection),
                ("offset", *offset),
            ];
            plain("mmap", "CONTEXT", &fields)
        }
        What::Read { bytes } if call.file.contains("devx_async_event") => devx::event(&bytes.0),
        What::Read { bytes } if call.file.contains("devx_async_cmd") => {
            devx::reply(&bytes.0, queries)
        }
        What::Read { bytes } => event(&bytes.0),
        What::Close => plain("close", "CONTEXT", &[]),
        What::Cm { .. } => plain("connection manager", "CONTEXT", &[]),
    };
    queries.remember(&command);
    command.fd = call.fd;
    command.errno = call.errno;
    if call.errno != 0 {
        command.fields.retain(|field| !field.out);
    }
    command
}

fn plain(name: &str, object: &str, fields: &[(&str, u64)]) -> Command {
    Command {
        fd: -1,
        name: name.to_owned(),
        object: object.to_owned(),
        fields: fields
            .iter()
            .map(|(name, number)| Field {
                name: (*name).to_owned(),
                out: false,
                value: Value::Number(*number),
            })
            .collect(),
        errno: 0,
    }
}

fn event(bytes: &[u8]) -> Command {
    let (name, object, layout) = match bytes.len() {
        16 => ("read_event", "ASYNC_EVENT", "ib_uverbs_async_event_desc"),
        8 => (
            "read_completion",
            "COMP_CHANNEL",
            "ib_uverbs_comp_event_desc",
        ),
        _ => ("read", "ASYNC_EVENT", ""),
    };
    let mut command = plain(name, object, &[]);
    command.fields = values::of_struct(layout, bytes, true).unwrap_or_default();
    command
}

fn invoked(driver: u32, attrs: &[Attr]) -> Command {
    let find = |id| attrs.iter().find(|attr| attr.id == id);
    let sent = |id| find(id).map_or_else(Vec::new, values::sent);
    let written = |id| find(id).map_or_else(Vec::new, |attr: &Attr| attr.after.0.clone());
    let number = find(UVERBS_ATTR_WRITE_CMD).map_or(0, |attr| attr.data);
    let parts = [
        sent(UVERBS_ATTR_CORE_IN),
        sent(UVERBS_ATTR_UHW_IN),
        written(UVERBS_ATTR_CORE_OUT),
        written(UVERBS_ATTR_UHW_OUT),
    ];
    legacy(
        u32::try_from(number).unwrap_or(u32::MAX),
        driver,
        parts.each_ref().map(Vec::as_slice),
    )
}

/// Core request, its driver data, core reply, its driver data. Without extended headers the driver
/// data follows the core's struct.
fn legacy(number: u32, driver: u32, parts: [&[u8]; 4]) -> Command {
    let full = recorder::command_name(number);
    let name = full.full().map_or_else(
        || format!("{number:#x}"),
        |full| {
            full.strip_prefix("IB_USER_VERBS_CMD_")
                .map(str::to_owned)
                .or_else(|| {
                    full.strip_prefix("IB_USER_VERBS_EX_CMD_")
                        .map(|rest| format!("EX_{rest}"))
                })
                .unwrap_or_else(|| full.to_owned())
        },
    );
    let [request, request_driver, reply, reply_driver] = parts;
    let mut fields = Vec::new();
    for (out, core, driver_data) in [
        (false, request, request_driver),
        (true, reply, reply_driver),
    ] {
        let (core_fields, size) =
            recorder::command_fields(&full, out, core).unwrap_or((Vec::new(), core.len()));
        fields.extend(values::of_attributes(core_fields, out));
        let tail = core.get(size..).unwrap_or_default();
        if !out && let Some(lists) = values::of_list(&name, tail) {
            fields.extend(lists);
            continue;
        }
        let data = if driver_data.is_empty() {
            tail
        } else {
            driver_data
        };
        fields.extend(driver::fields(driver, &name, out, data));
    }
    let object = object_of(&name);
    Command {
        fd: -1,
        object,
        name,
        fields,
        errno: 0,
    }
}

/// The object of a legacy command, from the last word of its name.
fn object_of(name: &str) -> String {
    let word = match name.rsplit('_').next().unwrap_or(name) {
        "DEVICE" | "PORT" | "CONTEXT" => "CONTEXT",
        "RECV" if name.contains("SRQ") => "SRQ",
        "SEND" | "MCAST" | "RECV" => "QP",
        "XSRQ" => "SRQ",
        "CHANNEL" => "COMP_CHANNEL",
        "TBL" => "IND_TBL",
        word => word,
    };
    word.to_owned()
}

/// Parts of the names of commands that create an object.
const MAKERS: [&str; 4] = ["ALLOC", "REG_", "CREATE", "OPEN_"];

/// Whether a command creates an object.
pub(crate) fn makes(name: &str) -> bool {
    let begins = |name: &str| MAKERS.iter().any(|maker| name.starts_with(maker));
    let bare = ["EX_", "MLX5_"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix));
    begins(name)
        || bare.is_some_and(begins)
        || ["_CREATE", "_ALLOC", "_REG"]
            .iter()
            .any(|maker| name.contains(maker))
}

/// For a table with room for more, only the entries that the kernel reports to have written: what
/// follows is the caller's.
fn only_filled(fields: &mut Vec<Field>) {
    let count = fields
        .iter()
        .find(|field| field.name == "QUERY_GID_TABLE_RESP_NUM_ENTRIES");
    let Some(Value::Number(count)) = count.map(|field| field.value.clone()) else {
        return;
    };
    fields.retain(|field| {
        let index = field.name.strip_prefix("entries[");
        let index = index.and_then(|rest| rest.split(']').next()?.parse::<u64>().ok());
        index.is_none_or(|index| index < count)
    });
}

/// A name of the kernel's headers without the common prefix.
fn short(full: &str, word: &str) -> String {
    full.strip_prefix(&format!("UVERBS_{word}_"))
        .map(str::to_owned)
        .or_else(|| {
            full.strip_prefix(&format!("MLX5_IB_{word}_"))
                .map(|rest| format!("MLX5_{rest}"))
        })
        .unwrap_or_else(|| full.to_owned())
}

/// The name of an attribute in recordings.
pub(crate) fn attribute_name(object: u16, method: u16, id: u16, driver: u32) -> String {
    names::attribute(object, method, id, driver)
        .map_or_else(|| format!("{id:#x}"), |full| short(full, "ATTR"))
}

fn method(object: u16, method: u16, driver: u32, attrs: &[Attr]) -> Command {
    let name = names::method(object, method, driver).map_or_else(
        || format!("{object:#x}/{method:#x}"),
        |full| short(full, "METHOD"),
    );
    let object_name = names::object(object, driver)
        .map_or_else(|| format!("{object:#x}"), |full| short(full, "OBJECT"));
    let object_name = match object_name.as_str() {
        "DEVICE" => "CONTEXT".to_owned(),
        _ => object_name,
    };
    let named = |attr: &Attr| attribute_name(object, method, attr.id, driver);
    // A new object's handle is the attribute with the least specific name. A handle may be 0 before
    // and after the call.
    let made = makes(&name)
        .then(|| {
            let handles = attrs
                .iter()
                .filter(|attr| values::is_handle(attr, &named(attr)));
            handles.min_by_key(|attr| named(attr).len())
        })
        .flatten();
    let is_firmware = |attr: &Attr| {
        let name = named(attr);
        name.ends_with("_CMD_IN") || name.ends_with("_CMD_OUT")
    };
    let firmware = attrs.iter().find(|attr| named(attr).ends_with("_CMD_IN"));
    let firmware = firmware.map(|attr| firmware::opcode(&values::sent(attr)));
    // A queue pair that distributes frames over a table has driver data of its own.
    let spreads = attrs.iter().any(|attr| named(attr).contains("IND_TABLE"));
    let driver_name = if spreads { "QP_CREATE/RSS" } else { &name };
    let mut fields = Vec::new();
    for attr in attrs {
        let full = names::attribute(object, method, attr.id, driver);
        if full.is_some_and(|full| full.ends_with("ATTR_UHW_IN")) {
            let sent = values::sent(attr);
            fields.extend(driver::fields(driver, driver_name, false, &sent));
            continue;
        }
        if full.is_some_and(|full| full.ends_with("ATTR_UHW_OUT")) {
            fields.extend(driver::fields(driver, driver_name, true, &attr.after.0));
            continue;
        }
        let new = made.is_some_and(|made| made.id == attr.id);
        let firmware = firmware.as_deref().filter(|_| is_firmware(attr));
        fields.extend(values::of_attr(attr, full, &named(attr), new, firmware));
    }
    only_filled(&mut fields);
    let name = match firmware {
        Some(opcode) => format!("{name}/{opcode}"),
        None => name,
    };
    Command {
        fd: -1,
        name,
        object: object_name,
        fields,
        errno: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_filled_entries_of_a_table_are_kept() {
        let field = |name: &str, number| Field {
            name: name.to_owned(),
            out: true,
            value: Value::Number(number),
        };
        let mut fields = vec![
            field("entries[0].port_num", 1),
            field("entries[9].port_num", 1),
            field("entries[10].port_num", 32766),
            field("QUERY_GID_TABLE_RESP_NUM_ENTRIES", 10),
        ];
        only_filled(&mut fields);
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "entries[0].port_num",
                "entries[9].port_num",
                "QUERY_GID_TABLE_RESP_NUM_ENTRIES"
            ]
        );
    }

    #[test]
    fn commands_that_create_are_recognised_by_name() {
        for name in [
            "CQ_CREATE",
            "ALLOC_PD",
            "REG_MR",
            "EX_CREATE_WQ",
            "OPEN_QP",
            "ASYNC_EVENT_ALLOC",
        ] {
            assert!(makes(name), "{name}");
        }
        for name in [
            "CQ_DESTROY",
            "DEALLOC_PD",
            "DEREG_MR",
            "REREG_MR",
            "MODIFY_QP",
        ] {
            assert!(!makes(name), "{name}");
        }
    }
}
