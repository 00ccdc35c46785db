//! One readable line per entry.

use std::fmt;

use super::entry::{Entry, Value};

/// Numbers from here on are shown in hexadecimal, as for commands.
const LARGE: u64 = 1 << 20;
/// The most bytes that are shown; of more, the first ones and the total number.
const MAX_HEX: usize = 32;

/// An entry that prints its keys, too, and the bytes of unknown meaning.
#[derive(Clone, Copy, Debug)]
pub struct WithKeys<'a>(&'a Entry);

impl Entry {
    /// The same line, including keys, and bytes of unknown meaning, which may contain keys.
    pub fn with_keys(&self) -> WithKeys<'_> {
        WithKeys(self)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(self, false, f)
    }
}

impl fmt::Display for WithKeys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(self.0, true, f)
    }
}

fn line(entry: &Entry, keys: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Entry {
        queue,
        number,
        index,
        kind,
        fields,
        ..
    } = entry;
    write!(f, "{queue} {number:#x}[{index}] {kind}")?;
    for (name, value) in fields {
        write!(f, " {name}=")?;
        write_value(value, keys, f)?;
    }
    Ok(())
}

fn write_value(value: &Value, keys: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        Value::Number(number) if *number < LARGE => write!(f, "{number}"),
        Value::Number(number) | Value::Hex(number) => write!(f, "{number:#x}"),
        Value::Key(_) if !keys => f.write_str("…"),
        Value::Key(key) => write!(f, "{key:#x}"),
        Value::Name(name) => f.write_str(name),
        Value::Flags(flags) if flags.is_empty() => f.write_str("none"),
        Value::Flags(flags) => f.write_str(&flags.join("|")),
        Value::Raw(bytes) if !keys => write!(f, "[{}]", bytes.len()),
        Value::Bytes(bytes) if bytes.len() > MAX_HEX => {
            write_bytes(bytes.get(..MAX_HEX).unwrap_or_default(), f)?;
            write!(f, "…[{}]", bytes.len())
        }
        Value::Raw(bytes) | Value::Bytes(bytes) => write_bytes(bytes, f),
    }
}

fn write_bytes(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}
