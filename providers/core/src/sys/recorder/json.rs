//! One JSON object per record, for tools.

use std::fmt::Write;

use super::record::{Attribute, Body, CommandPath, Direction, FdClass, Record, Value};
use crate::error::Errno;

impl Record {
    /// The record as one line of JSON. Keys are null unless `keys` asks for them.
    pub fn to_json(&self, keys: bool) -> String {
        let mut json = Object::new();
        json.number("number", self.number);
        json.string(
            "fd_class",
            match self.fd {
                FdClass::Device => "device",
                FdClass::AsyncEvents => "async_events",
                FdClass::CompletionEvents => "completion_events",
                FdClass::OtherEvents => "other_events",
                FdClass::ConnectionManager => "connection_manager",
            },
        );
        json.raw("fd", &self.fd_number.to_string());
        json.raw("nanoseconds", &self.duration.as_nanos().to_string());
        match &self.body {
            Body::Method {
                object,
                method,
                driver_id,
                attributes,
            } => {
                json.string("call", "ioctl");
                json.string("object", &full(object));
                json.string("method", &full(method));
                json.number("driver_id", u64::from(*driver_id));
                json.raw("attributes", &list(attributes, keys));
            }
            Body::Command {
                command,
                path,
                attributes,
            } => {
                json.string(
                    "call",
                    match path {
                        CommandPath::Invoke => "invoke_write",
                        CommandPath::Write => "write",
                        CommandPath::ConnectionManager => "connection_manager",
                    },
                );
                json.string("command", &full(command));
                json.raw("attributes", &list(attributes, keys));
            }
            Body::Read { room, bytes } => {
                json.string("call", "read");
                json.number("room", *room as u64);
                json.string("bytes", &hex(bytes));
            }
            Body::Map {
                offset,
                len,
                protection,
            } => {
                json.string("call", "mmap");
                json.number("offset", *offset);
                json.number("len", *len as u64);
                json.string("protection", &format!("{protection:?}").to_lowercase());
            }
        }
        match self.errno {
            None => json.raw("error", "null"),
            Some(errno) => {
                let name = crate::error::errno_name(Errno::from_raw_os_error(errno)).to_string();
                json.string("error", &name);
            }
        }
        json.finish()
    }
}

fn full(name: &super::Name) -> String {
    name.full()
        .map_or_else(|| format!("{:#x}", name.raw()), str::to_owned)
}

fn list(attributes: &[Attribute], keys: bool) -> String {
    let items: Vec<String> = attributes
        .iter()
        .map(|attribute| {
            let mut json = Object::new();
            json.string("name", &full(&attribute.name));
            json.string(
                "direction",
                match attribute.direction {
                    Direction::In => "in",
                    Direction::Out => "out",
                },
            );
            json.number("len", attribute.len as u64);
            json.raw(
                "mandatory",
                if attribute.mandatory { "true" } else { "false" },
            );
            json.raw("value", &value(attribute, keys));
            json.finish()
        })
        .collect();
    format!("[{}]", items.join(","))
}

fn value(attribute: &Attribute, keys: bool) -> String {
    if attribute.is_key() && !keys {
        return "null".to_owned();
    }
    match &attribute.value {
        Value::Number(number) => number.to_string(),
        Value::Handle(handle) => handle.to_string(),
        Value::Handles(handles) => format!("{handles:?}"),
        Value::Fd(Some(fd)) => fd.to_string(),
        Value::Choice(element) => element.to_string(),
        Value::Bytes(bytes) => format!("\"{}\"", hex(bytes)),
        Value::Fields(fields) => list(fields, keys),
        Value::Fd(None) | Value::Long | Value::Unwritten => "null".to_owned(),
    }
}

/// Bytes in hexadecimal, two digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A JSON object under construction.
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Self {
        Self("{".to_owned())
    }

    pub(crate) fn raw(&mut self, key: &str, value: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        let _ = write!(self.0, "\"{key}\":{value}");
    }

    pub(crate) fn number(&mut self, key: &str, value: u64) {
        self.raw(key, &value.to_string());
    }

    /// `value` consists of names from headers and digits: nothing that JSON requires to be escaped.
    pub(crate) fn string(&mut self, key: &str, value: &str) {
        let safe: String = value
            .chars()
            .filter(|c| !c.is_control() && !matches!(c, '"' | '\\'))
            .collect();
        self.raw(key, &format!("\"{safe}\""));
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}
