//! One readable line per record.

use std::fmt;

use uverbs_uapi::ib_user_verbs::{ib_uverbs_async_event_desc, ib_uverbs_comp_event_desc};
use zerocopy::FromBytes;

use super::record::{Attribute, Body, CommandPath, Direction, FdClass, Record, Value};
use crate::error::Errno;
use crate::sys::Protection;

/// Numbers from here on are addresses and user data, which are shown in hexadecimal.
const LARGE: u64 = 1 << 20;
/// The most fields of a legacy struct that are shown; the longest have 40.
const MAX_FIELDS: usize = 20;

/// Structs with at most this many fields are shown with their zeros.
const FEW_FIELDS: usize = 4;
/// The most bytes that are shown in hexadecimal: enough for a GID.
const MAX_HEX: usize = 16;

/// A record that prints its keys, too.
#[derive(Clone, Copy, Debug)]
pub struct WithKeys<'a>(&'a Record);

impl Record {
    /// The same line, including lkeys and rkeys.
    pub fn with_keys(&self) -> WithKeys<'_> {
        WithKeys(self)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(self, false, f)
    }
}

impl fmt::Display for WithKeys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(self.0, true, f)
    }
}

fn line(record: &Record, keys: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &record.body {
        Body::Method {
            object,
            method,
            attributes,
            ..
        } => {
            let short = method.clone().within(&[object]).to_string().to_uppercase();
            write!(f, "ioctl {object}/{short}")?;
            for attribute in attributes {
                write_attribute(attribute, keys, f)?;
            }
        }
        Body::Command {
            command,
            path,
            attributes,
        } => {
            let how = match path {
                CommandPath::Invoke => "invoke",
                CommandPath::Write => "write",
                CommandPath::ConnectionManager => "cm",
            };
            write!(f, "{how} {command}")?;
            write_fields(attributes, keys, f)?;
        }
        Body::Read { room, bytes } => write_event(record.fd, *room, bytes, f)?,
        Body::Map {
            offset,
            len,
            protection,
        } => {
            let rights = match protection {
                Protection::Read => "r",
                Protection::Write => "w",
                Protection::ReadWrite => "rw",
            };
            write!(f, "mmap offset={offset} len={len} {rights}")?;
        }
    }
    match record.errno {
        None => f.write_str(" = ok")?,
        Some(errno) => write!(f, " = {}", errno_name(errno))?,
    }
    write!(f, " ({} µs)", record.duration.as_micros())
}

/// The errno's name, and its description.
fn errno_name(errno: i32) -> String {
    let errno = Errno::from_raw_os_error(errno);
    crate::error::errno_name(errno).to_string()
}

/// Writes the fields of a struct; without zeros if there are many fields.
fn write_fields(fields: &[Attribute], keys: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let short = fields.len() <= FEW_FIELDS;
    let shown = |field: &&Attribute| short || !is_zero(&field.value);
    for field in fields.iter().filter(shown).take(MAX_FIELDS) {
        write_attribute(field, keys, f)?;
    }
    if fields.iter().filter(shown).count() > MAX_FIELDS {
        f.write_str(" …")?;
    }
    Ok(())
}

fn write_event(
    class: FdClass,
    room: usize,
    bytes: &[u8],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let asynchronous = ib_uverbs_async_event_desc::read_from_bytes(bytes);
    let completion = ib_uverbs_comp_event_desc::read_from_bytes(bytes);
    match (class, asynchronous, completion) {
        (FdClass::AsyncEvents, Ok(event), _) => write!(
            f,
            "read event element={:#x} event_type={}",
            event.element, event.event_type
        ),
        (FdClass::CompletionEvents, _, Ok(event)) => {
            write!(f, "read completion cq_handle={:#x}", event.cq_handle)
        }
        _ => write!(f, "read[{room}] {} bytes", bytes.len()),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Number(number) => *number == 0,
        Value::Bytes(bytes) => bytes.iter().all(|byte| *byte == 0),
        _ => false,
    }
}

fn write_attribute(attribute: &Attribute, keys: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let optional = if attribute.mandatory { "" } else { "?" };
    let arrow = match attribute.direction {
        Direction::In => "=",
        Direction::Out => "→",
    };
    write!(f, " {}{optional}{arrow}", attribute.name)?;
    if attribute.is_key() && !keys {
        return f.write_str("…");
    }
    if attribute.is_driver_data() {
        return write!(f, "[{}]", attribute.len);
    }
    match &attribute.value {
        Value::Number(number) if *number >= LARGE || attribute.is_mask() => {
            write!(f, "{number:#x}")
        }
        Value::Number(number) => write!(f, "{number}"),
        Value::Handle(handle) => write!(f, "{handle}"),
        Value::Handles(handles) => write!(f, "{handles:?}"),
        Value::Fd(Some(fd)) => write!(f, "fd {fd}"),
        Value::Fd(None) => f.write_str("no fd"),
        Value::Choice(element) => write!(f, "choice {element}"),
        Value::Bytes(bytes) if bytes.len() <= MAX_HEX => {
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        }
        Value::Bytes(_) | Value::Long => write!(f, "[{}]", attribute.len),
        Value::Fields(fields) => {
            f.write_str("{")?;
            write_fields(fields, keys, f)?;
            f.write_str(" }")
        }
        Value::Unwritten => f.write_str("-"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::Name;
    use super::*;

    struct Printed<'a>(&'a Attribute);

    impl fmt::Display for Printed<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_attribute(self.0, false, f)
        }
    }

    #[test]
    fn bytes_are_shown_as_long_as_a_gid_at_most() {
        let print = |len: usize| {
            let attribute = Attribute {
                name: Name::new(None, 5),
                direction: Direction::In,
                len,
                mandatory: true,
                value: Value::Bytes(vec![0xa5; len]),
            };
            Printed(&attribute).to_string()
        };
        assert!(print(MAX_HEX).ends_with(&"a5".repeat(MAX_HEX)));
        assert!(print(MAX_HEX + 1).ends_with("[17]"));
    }
}
