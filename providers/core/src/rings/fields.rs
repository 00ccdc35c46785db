//! Builds the list of fields; used by decoders of entries.

use super::entry::{Entry, Value};

/// The decoded part of an entry.
#[derive(Debug)]
pub struct Fields {
    pub(super) kind: &'static str,
    pub(super) list: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Fields of an entry of this kind; `None` for an entry without a name.
    pub fn of(kind: Option<&'static str>) -> Self {
        Self {
            kind: kind.unwrap_or(Entry::UNKNOWN),
            list: Vec::new(),
        }
    }

    /// Whether the kind has no name.
    pub fn is_unknown(&self) -> bool {
        self.kind == Entry::UNKNOWN
    }

    /// Adds a count, a length or an index.
    pub fn number(&mut self, name: &'static str, value: impl Into<u64>) {
        self.list.push((name, Value::Number(value.into())));
    }

    /// Adds an address, an object's number, or bits.
    pub fn hex(&mut self, name: &'static str, value: impl Into<u64>) {
        self.list.push((name, Value::Hex(value.into())));
    }

    /// Like [`hex`](Self::hex), but omits 0.
    pub fn hex_if_any(&mut self, name: &'static str, value: impl Into<u64>) {
        let value = value.into();
        if value != 0 {
            self.hex(name, value);
        }
    }

    /// Adds a key.
    pub fn key(&mut self, name: &'static str, value: impl Into<u64>) {
        self.list.push((name, Value::Key(value.into())));
    }

    /// Adds a value by name, or by its number if it has none.
    pub fn name(&mut self, name: &'static str, value: Option<&'static str>, raw: impl Into<u64>) {
        let value = value.map_or_else(|| Value::Hex(raw.into()), Value::Name);
        self.list.push((name, value));
    }

    /// Adds flags by the names in `table`. Unnamed bits become a field `other_flags`.
    pub fn flags(&mut self, name: &'static str, bits: u32, table: &[(u32, &'static str)]) {
        let set = table.iter().filter(|(bit, _)| bits & bit != 0);
        self.list
            .push((name, Value::Flags(set.map(|(_, name)| *name).collect())));
        let named = table.iter().fold(0, |all, (bit, _)| all | bit);
        self.hex_if_any("other_flags", bits & !named);
    }

    /// Adds bytes that do not contain keys.
    pub fn bytes(&mut self, name: &'static str, value: &[u8]) {
        self.list.push((name, Value::Bytes(value.to_vec())));
    }

    /// Adds bytes of unknown meaning, unless there are none.
    pub fn rest(&mut self, value: &[u8]) {
        if !value.is_empty() {
            self.list.push(("rest", Value::Raw(value.to_vec())));
        }
    }
}
