//! Data read from DEVX descriptors: events of the device, and replies to asynchronous queries.

use std::collections::BTreeMap;

use super::values::Value;
use super::{Command, Field, firmware, plain};

/// The opcodes of asynchronous queries, by cookie.
#[derive(Debug, Default)]
pub struct Asked(BTreeMap<u64, String>);

impl Asked {
    pub(super) fn remember(&mut self, command: &Command) {
        let Some(opcode) = command.name.strip_prefix("MLX5_DEVX_OBJ_ASYNC_QUERY/") else {
            return;
        };
        let mut fields = command.fields.iter();
        let cookie = fields.find(|field| field.name.ends_with("_WR_ID"));
        if let Some(Value::Number(cookie)) = cookie.map(|field| &field.value) {
            self.0.insert(*cookie, opcode.to_owned());
        }
    }
}

/// A cookie, and the data that came with it.
fn split(bytes: &[u8]) -> (u64, &[u8]) {
    let cookie = bytes.split_first_chunk();
    cookie.map_or((0, bytes), |(cookie, rest)| {
        (u64::from_ne_bytes(*cookie), rest)
    })
}

fn with_cookie(name: &str, cookie: u64, rest: Vec<Field>) -> Command {
    let mut command = plain(name, "MLX5_DEVX", &[("cookie", cookie)]);
    for field in &mut command.fields {
        field.out = true;
    }
    command.fields.extend(rest);
    command
}

/// An event of the device.
pub(super) fn event(bytes: &[u8]) -> Command {
    let (cookie, entry) = split(bytes);
    // The last byte gives the entry's owner, which changes with each pass over the queue.
    let entry = entry.split_last().map_or(entry, |(_, rest)| rest);
    let entry = Field {
        name: "entry".to_owned(),
        out: true,
        value: Value::Bytes(entry.to_vec()),
    };
    with_cookie("read_devx_event", cookie, vec![entry])
}

/// The reply to a query.
pub(super) fn reply(bytes: &[u8], asked: &Asked) -> Command {
    let (cookie, reply) = split(bytes);
    let opcode = asked.0.get(&cookie).map_or("", String::as_str);
    let fields = firmware::fields("reply", opcode, true, reply);
    with_cookie("read_devx_reply", cookie, fields)
}
