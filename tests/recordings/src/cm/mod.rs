//! Commands of the connection manager, in the normal form of [`crate::normal`]: lives of ids.

mod names;
mod values;

use uverbs_uapi::names::cm_command;
use uverbs_uapi::rdma_user_cm::{
    RDMA_PS_IB, RDMA_PS_UDP, RDMA_USER_CM_CMD_CREATE_ID, RDMA_USER_CM_CMD_GET_EVENT,
    RDMA_USER_CM_CMD_JOIN_IP_MCAST, RDMA_USER_CM_CMD_JOIN_MCAST, RDMA_USER_CM_CMD_LEAVE_MCAST,
};

use crate::decode::{Field, Value};
use crate::normal::{Recording, Step};
use crate::raw::{Call, What};
use names::Names;

/// The life of an id by which librdmacm finds out what the kernel has.
pub const PROBE: &str = "PROBE";

/// A command with the values of its fields.
struct Command {
    number: u32,
    name: String,
    fields: Vec<Field>,
}

impl Command {
    fn value(&self, name: &str, out: bool) -> u64 {
        let mut fields = self.fields.iter();
        match fields.find(|field| field.name == name && field.out == out) {
            Some(Field {
                value: Value::Number(number),
                ..
            }) => *number,
            _ => 0,
        }
    }

    fn id(&self, out: bool) -> u32 {
        u32::try_from(self.value("id", out)).unwrap_or(u32::MAX)
    }
}

/// Reads a recorder's lines; calls on other files are left out.
///
/// # Errors
/// A line that is not a call.
pub fn recording(lines: &str) -> anyhow::Result<Recording> {
    let calls: Result<Vec<Call>, _> = lines.lines().map(serde_json::from_str).collect();
    let (mut names, mut recording) = (Names::default(), Recording::default());
    for call in calls? {
        let Some(command) = command(&call, &names) else {
            continue;
        };
        let life = life(&command, call.errno == 0, &mut names);
        let step = Step {
            fields: names.fields(&command, &life),
            name: command.name,
            errno: call.errno,
        };
        let kept = recording.lives.entry(life.clone()).or_default();
        let kind = life.trim_end_matches(|c: char| c.is_ascii_digit());
        kind.clone_into(&mut kept.kind);
        kept.steps.push(step);
    }
    Ok(recording)
}

/// A command; nothing for other calls, and for a look for events that found none.
fn command(call: &Call, names: &Names) -> Option<Command> {
    const EAGAIN: i32 = 11;
    let What::Cm {
        command,
        request,
        option,
        reply,
    } = &call.what
    else {
        return None;
    };
    if call.errno == EAGAIN {
        return None;
    }
    let full = cm_command(*command).unwrap_or("RDMA_USER_CM_CMD_UNKNOWN");
    let name = full.trim_start_matches("RDMA_USER_CM_CMD_").to_owned();
    let mut fields = values::request(&name, &request.0);
    if !option.0.is_empty() {
        fields.push(Field {
            name: "option".to_owned(),
            out: false,
            value: Value::Bytes(option.0.clone()),
        });
    }
    if call.errno == 0 && name == "GET_EVENT" {
        fields.extend(values::event(&reply.0, |uid| names.is_of_datagrams(uid)));
    } else if call.errno == 0 {
        fields.extend(values::reply(&name, &request.0, &reply.0));
    }
    let mut command = Command {
        number: *command,
        name,
        fields,
    };
    // Those of one life are paired by their names.
    let more = match command.name.as_str() {
        "GET_EVENT" => values::named(command.value("event", true)).to_owned(),
        "INIT_QP_ATTR" => command.value("qp_state", false).to_string(),
        _ => return Some(command),
    };
    command.name = format!("{}/{more}", command.name);
    Some(command)
}

/// Whose life a command belongs to.
fn life(command: &Command, done: bool, names: &mut Names) -> String {
    match command.number {
        RDMA_USER_CM_CMD_CREATE_ID if done => {
            let is_probe = command.value("ps", false) == u64::from(RDMA_PS_IB);
            let uid = command.value("uid", false);
            let datagrams = command.value("ps", false) == u64::from(RDMA_PS_UDP);
            names.created(command.id(true), uid, is_probe, datagrams)
        }
        RDMA_USER_CM_CMD_GET_EVENT if done && values::is_of_group(command.value("event", true)) => {
            names.group(command.id(true))
        }
        RDMA_USER_CM_CMD_GET_EVENT if done => {
            let event = command.value("event", true);
            names.told(command.id(true), values::is_request(event))
        }
        RDMA_USER_CM_CMD_LEAVE_MCAST => names.group(command.id(false)),
        RDMA_USER_CM_CMD_JOIN_MCAST | RDMA_USER_CM_CMD_JOIN_IP_MCAST if done => {
            names.joined(command.id(true))
        }
        _ => names.id(command.id(false)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use uverbs_uapi::rdma_user_cm::{RDMA_USER_CM_CMD_DESTROY_ID, RDMA_USER_CM_CMD_SET_OPTION};

    use super::*;
    use crate::raw::{CONNECTION_MANAGER, Hex};

    fn line(command: u32, errno: i32, request: &[&[u8]], option: &[u8], reply: &[u8]) -> String {
        let call = Call {
            pid: 1,
            fd: 3,
            file: CONNECTION_MANAGER.to_owned(),
            errno,
            what: What::Cm {
                command,
                request: Hex(request.concat()),
                option: Hex(option.to_vec()),
                reply: Hex(reply.to_vec()),
            },
        };
        serde_json::to_string(&call).unwrap()
    }

    #[test]
    fn ids_are_named_in_their_order_and_waiting_is_left_out() {
        let (address, id) = (0xf000_u64.to_ne_bytes(), 9_u32.to_ne_bytes());
        let uid = 77_u64.to_ne_bytes();
        let space = [0x06, 0x01, 2, 0, 0, 0, 0, 0];
        let tos = [&address[..], &id, &[0; 4], &[0; 4], &1_u32.to_ne_bytes()];
        let lines = [
            line(
                RDMA_USER_CM_CMD_CREATE_ID,
                0,
                &[&uid, &address, &space],
                &[],
                &id,
            ),
            line(RDMA_USER_CM_CMD_SET_OPTION, 38, &tos, &[0x20], &[]),
            line(RDMA_USER_CM_CMD_GET_EVENT, 11, &[&address], &[], &[0; 336]),
            line(
                RDMA_USER_CM_CMD_DESTROY_ID,
                0,
                &[&address, &id, &[0; 4]],
                &[],
                &3_u32.to_ne_bytes(),
            ),
        ];
        let life = "ID1\n  CREATE_ID ps=262 qp_type=2\n  SET_OPTION option=20 optlen=1 errno=38\n  \
                    DESTROY_ID →events_reported=3\n";
        assert_eq!(recording(&lines.join("\n")).unwrap().to_string(), life);
    }
}
