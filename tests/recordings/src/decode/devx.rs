//! Data read from DEVX descriptors: events of the device, and replies to asynchronous queries.

use std::collections::BTreeMap;

use super::values::Value;
use super::{Command, Field, firmware, plain};

/// The opcodes of asynchronous queries, by cookie.
#[derive(Debug, Default)]
pub struct AsyncQueries(BTreeMap<u64, String>);

impl AsyncQueries {
    pub(super) fn remember(&mut self, command: &Command) {
        let Some(opcode) = command.name.strip_prefix("MLX5_DEVX_OBJ_ASYNC_QUERY/") else {
            return;
        };
        let mut fields = command.fields.iter();
        let user_data = fields.find(|field| field.name.ends_with("_WR_ID"));
        if let Some(Value::Number(user_data)) = user_data.map(|field| &field.value) {
            self.0.insert(*user_data, opcode.to_owned());
        }
    }
}

/// A cookie, and the data that came with it.
fn split(bytes: &[u8]) -> (u64, &[u8]) {
    let user_data = bytes.split_first_chunk();
    user_data.map_or((0, bytes), |(user_data, rest)| {
        (u64::from_ne_bytes(*user_data), rest)
    })
}

fn with_user_data(name: &str, user_data: u64, rest: Vec<Field>) -> Command {
    let mut command = plain(name, "MLX5_DEVX", &[("cookie", user_data)]);
    for field in &mut command.fields {
        field.out = true;
    }
    command.fields.extend(rest);
    command
}

/// An event of the device.
pub(super) fn event(bytes: &[u8]) -> Command {
    let (user_data, entry) = split(bytes);
    // The last byte gives the entry's owner, which changes with each pass over the queue.
    let entry = entry.split_last().map_or(entry, |(_, rest)| rest);
    let entry = Field {
        name: "entry".to_owned(),
        out: true,
        value: Value::Bytes(entry.to_vec()),
    };
    with_user_data("read_devx_event", user_data, vec![entry])
}

/// The reply to a query.
pub(super) fn reply(bytes: &[u8], queries: &AsyncQueries) -> Command {
    let (user_data, reply) = split(bytes);
    let opcode = queries.0.get(&user_data).map_or("", String::as_str);
    let fields = firmware::fields("reply", opcode, true, reply);
    with_user_data("read_devx_reply", user_data, fields)
}
