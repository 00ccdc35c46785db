//! One JSON object per entry, for tools.

use super::entry::{Entry, Value};
use crate::sys::recorder::json::{Object, hex};

impl Entry {
    /// The entry as one line of JSON. Keys, and bytes that may contain keys, are null unless `keys`
    /// is set.
    pub fn to_json(&self, keys: bool) -> String {
        let mut json = Object::new();
        json.string("queue", &self.queue.to_string());
        json.number("number", self.number.into());
        json.number("index", self.index.into());
        json.string("kind", self.kind);
        let fields: Vec<_> = self
            .fields
            .iter()
            .map(|(name, value)| field(name, value, keys))
            .collect();
        json.raw("fields", &format!("[{}]", fields.join(",")));
        json.raw("bytes", &quoted_if(keys, &self.bytes));
        json.finish()
    }
}

fn field(name: &str, value: &Value, keys: bool) -> String {
    let mut json = Object::new();
    json.string("name", name);
    match value {
        Value::Number(number) | Value::Hex(number) => json.number("value", *number),
        Value::Key(key) if keys => json.number("value", *key),
        Value::Key(_) => json.raw("value", "null"),
        Value::Name(name) => json.string("value", name),
        Value::Flags(flags) => {
            let names: Vec<_> = flags.iter().map(|flag| format!("\"{flag}\"")).collect();
            json.raw("value", &format!("[{}]", names.join(",")));
        }
        Value::Bytes(bytes) => json.raw("value", &quoted_if(true, bytes)),
        Value::Raw(bytes) => json.raw("value", &quoted_if(keys, bytes)),
    }
    json.finish()
}

fn quoted_if(shown: bool, bytes: &[u8]) -> String {
    if shown {
        format!("\"{}\"", hex(bytes))
    } else {
        "null".to_owned()
    }
}
