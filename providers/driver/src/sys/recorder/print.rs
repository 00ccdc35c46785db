//! One readable line per record.

use std::fmt;

use super::record::{Attribute, Body, CommandPath, Direction, Record, Value};
use crate::error::Errno;
use crate::sys::Protection;

/// Numbers from here on are addresses and cookies, which are shown in hexadecimal.
const LARGE: u64 = 1 << 20;
/// Fields of a legacy struct that are shown; the longest have 40.
const MAX_FIELDS: usize = 20;

/// A record that prints its keys too.
#[derive(Clone, Copy, Debug)]
pub struct WithKeys<'a>(&'a Record);

impl Record {
    /// The same line with lkeys and rkeys in it.
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
            };
            write!(f, "{how} {command}")?;
            let telling = |attribute: &&Attribute| !is_zero(&attribute.value);
            for attribute in attributes.iter().filter(telling).take(MAX_FIELDS) {
                write_attribute(attribute, keys, f)?;
            }
            if attributes.iter().filter(telling).count() > MAX_FIELDS {
                f.write_str(" …")?;
            }
        }
        Body::Read { room, bytes } => {
            write!(f, "read[{room}]")?;
            for byte in bytes {
                write!(f, " {byte:02x}")?;
            }
        }
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

/// The errno's name, and what it says.
fn errno_name(errno: i32) -> String {
    let errno = Errno::from_raw_os_error(errno);
    crate::error::errno_name(errno).to_string()
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
    match &attribute.value {
        Value::Number(number) if *number >= LARGE => write!(f, "{number:#x}"),
        Value::Number(number) => write!(f, "{number}"),
        Value::Handle(handle) => write!(f, "{handle}"),
        Value::Handles(handles) => write!(f, "{handles:?}"),
        Value::Fd(Some(fd)) => write!(f, "fd {fd}"),
        Value::Fd(None) => f.write_str("no fd"),
        Value::Choice(element) => write!(f, "choice {element}"),
        Value::Bytes(_) | Value::Long => write!(f, "[{}]", attribute.len),
        Value::Unwritten => f.write_str("-"),
    }
}
