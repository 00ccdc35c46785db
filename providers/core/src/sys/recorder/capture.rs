//! Turns a call into the body of a record.

use std::cell::Cell;
use std::os::fd::AsRawFd;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT,
    UVERBS_ATTR_WRITE_CMD, UVERBS_METHOD_INVOKE_WRITE, UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_FLAG_EXTENDED, ib_uverbs_async_event_desc, ib_uverbs_comp_event_desc,
};
use uverbs_uapi::names;

use super::fields::{self, value};
use super::names::Name;
use super::record::{Attribute, Body, CommandPath, Direction, FdClass, Value};
use crate::error::Errno;
use crate::sys::{Attr, Call, CmCommand, Command, Reply, Uhw, Value as Sent};

/// The class of the descriptor a call goes to.
pub(super) fn class(call: &Call<'_>) -> FdClass {
    const ASYNC: usize = size_of::<ib_uverbs_async_event_desc>();
    const COMPLETION: usize = size_of::<ib_uverbs_comp_event_desc>();
    match call {
        Call::Cm(_) => FdClass::ConnectionManager,
        Call::Read(buffer) => match buffer.len() {
            ASYNC => FdClass::AsyncEvents,
            COMPLETION => FdClass::CompletionEvents,
            _ => FdClass::OtherEvents,
        },
        _ => FdClass::Device,
    }
}

/// The request of a call, and its result.
pub(super) fn body(call: &Call<'_>, answer: &Result<Reply, Errno>) -> Body {
    let answered = answer.is_ok();
    match call {
        Call::Ioctl(command) => {
            invoked(command, answered).unwrap_or_else(|| method(command, answered))
        }
        Call::Write(command) => legacy(
            command.number(),
            CommandPath::Write,
            command.request,
            command.reply,
            &command.uhw,
            answered,
        ),
        Call::Cm(command) => cm(command, answered),
        Call::Read(buffer) => {
            let count = match answer {
                Ok(Reply::Read(count)) => *count,
                _ => 0,
            };
            Body::Read {
                room: buffer.len(),
                bytes: buffer.iter().take(count).map(Cell::get).collect(),
            }
        }
        Call::Map {
            offset,
            len,
            protection,
            ..
        } => Body::Map {
            offset: *offset,
            len: *len,
            protection: *protection,
        },
    }
}

/// The legacy command inside an `INVOKE_WRITE`.
fn invoked(command: &Command<'_>, answered: bool) -> Option<Body> {
    if (command.object, command.method) != (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE) {
        return None;
    }
    let find = |id| {
        command
            .attrs
            .iter()
            .find(|attr| attr.id == id)
            .map(|attr| &attr.value)
    };
    let Some(Sent::Constant(number)) = find(UVERBS_ATTR_WRITE_CMD) else {
        return None;
    };
    let request = match find(UVERBS_ATTR_CORE_IN) {
        Some(Sent::In(bytes, _)) => bytes,
        _ => &[][..],
    };
    let reply = match find(UVERBS_ATTR_CORE_OUT) {
        Some(Sent::Out(cells, _)) => cells,
        _ => &[][..],
    };
    let number = u32::try_from(*number).ok()?;
    Some(legacy(
        number,
        CommandPath::Invoke,
        request,
        reply,
        &command.uhw,
        answered,
    ))
}

fn legacy(
    number: u32,
    path: CommandPath,
    request: &[u8],
    reply: &[Cell<u8>],
    uhw: &Uhw<'_>,
    answered: bool,
) -> Body {
    let extended = number & IB_USER_VERBS_CMD_FLAG_EXTENDED != 0;
    let plain = number & !IB_USER_VERBS_CMD_FLAG_EXTENDED;
    let command = Name::new(names::write_command(plain, extended), number);
    let mut attributes = fields::of_command(&command, false, request, Direction::In)
        .unwrap_or_else(|| raw(UVERBS_ATTR_CORE_IN, Direction::In, request));
    if answered {
        let bytes: Vec<u8> = reply.iter().map(Cell::get).collect();
        attributes.extend(
            fields::of_command(&command, true, &bytes, Direction::Out)
                .unwrap_or_else(|| raw(UVERBS_ATTR_CORE_OUT, Direction::Out, &bytes)),
        );
    }
    driver_data(uhw, answered, &mut attributes);
    Body::Command {
        command,
        path,
        attributes,
    }
}

/// A command of the connection manager.
fn cm(command: &CmCommand<'_>, answered: bool) -> Body {
    let name = Name::new(names::cm_command(command.command), command.command);
    let mut attributes = fields::of_cm(&name, false, command.request, Direction::In)
        .unwrap_or_else(|| raw(UVERBS_ATTR_CORE_IN, Direction::In, command.request));
    // The request has the address of the value in this place.
    attributes.retain(|field| field.name.full() != Some("optval"));
    if !command.value.is_empty() {
        attributes.push(Attribute {
            name: Name::new(Some("optval"), 0),
            direction: Direction::In,
            len: command.value.len(),
            mandatory: true,
            value: value(command.value),
        });
    }
    if answered {
        let bytes: Vec<u8> = command.reply.iter().map(Cell::get).collect();
        attributes.extend(
            fields::of_cm(&name, true, &bytes, Direction::Out)
                .unwrap_or_else(|| raw(UVERBS_ATTR_CORE_OUT, Direction::Out, &bytes)),
        );
    }
    Body::Command {
        command: name,
        path: CommandPath::ConnectionManager,
        attributes,
    }
}

fn raw(id: u16, direction: Direction, bytes: &[u8]) -> Vec<Attribute> {
    if bytes.is_empty() {
        return Vec::new();
    }
    vec![Attribute {
        name: device_name(id),
        direction,
        len: bytes.len(),
        mandatory: true,
        value: value(bytes),
    }]
}

/// The name of an attribute that commands of any object may have.
fn device_name(id: u16) -> Name {
    let method = names::method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, 0);
    let name = names::attribute(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, id, 0);
    Name::new(name, u32::from(id)).within(&[&Name::new(method, 0)])
}

fn driver_data(uhw: &Uhw<'_>, answered: bool, attributes: &mut Vec<Attribute>) {
    if !uhw.input.is_empty() {
        attributes.extend(raw(UVERBS_ATTR_UHW_IN, Direction::In, uhw.input));
    }
    if !uhw.output.is_empty() && answered {
        let bytes: Vec<u8> = uhw.output.iter().map(Cell::get).collect();
        attributes.extend(raw(UVERBS_ATTR_UHW_OUT, Direction::Out, &bytes));
    }
}

fn method(command: &Command<'_>, answered: bool) -> Body {
    let driver = command.driver_id;
    let object = Name::new(
        names::object(command.object, driver),
        u32::from(command.object),
    );
    let full = names::method(command.object, command.method, driver);
    let plain = Name::new(full, u32::from(command.method));
    let mut attributes: Vec<Attribute> = command
        .attrs
        .iter()
        .chain(command.uhw.attrs)
        .filter(|attr| !matches!(attr.value, Sent::Absent))
        .map(|attr| {
            let name = names::attribute(command.object, command.method, attr.id, driver);
            attribute(
                attr,
                Name::new(name, u32::from(attr.id)).within(&[&object, &plain]),
                answered,
            )
        })
        .collect();
    driver_data(&command.uhw, answered, &mut attributes);
    Body::Method {
        object,
        method: plain,
        driver_id: driver,
        attributes,
    }
}

fn attribute(attr: &Attr<'_>, name: Name, answered: bool) -> Attribute {
    use Direction::{In, Out};
    let (direction, len, value) = match &attr.value {
        Sent::Absent => (In, 0, Value::Unwritten),
        Sent::In(bytes, _) => {
            let shown = fields::of_attribute(&name, bytes, In).unwrap_or_else(|| value(bytes));
            (In, bytes.len(), shown)
        }
        Sent::Out(cells, written) => {
            let bytes: Vec<u8> = cells.iter().map(Cell::get).collect();
            let shown = if answered && written.get() {
                fields::of_attribute(&name, &bytes, Out).unwrap_or_else(|| value(&bytes))
            } else {
                Value::Unwritten
            };
            (Out, cells.len(), shown)
        }
        Sent::Constant(number) => (In, 8, Value::Number(*number)),
        Sent::Enum(element, payload) => (In, payload.len(), Value::Choice(*element)),
        Sent::Object(handle) => (In, 0, Value::Handle(*handle)),
        Sent::NewObject(_) if !answered => (Out, 0, Value::Unwritten),
        Sent::NewObject(handle) => (Out, 0, Value::Handle(handle.get())),
        Sent::Objects(handles) => (In, size_of_val(*handles), Value::Handles(handles.to_vec())),
        Sent::Fd(fd) => (In, 0, Value::Fd(Some(fd.as_raw_fd()))),
        Sent::NewFd(slot) => {
            let fd = slot.take();
            let raw = fd.as_ref().map(AsRawFd::as_raw_fd);
            slot.set(fd);
            (Out, 0, Value::Fd(raw))
        }
    };
    Attribute {
        name,
        direction,
        len,
        mandatory: attr.mandatory,
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_new_objects_are_there_once_the_kernel_answered() {
        let handle = Cell::new(7);
        let new = Attr::new_object(1, &handle);
        for (answered, value) in [(false, Value::Unwritten), (true, Value::Handle(7))] {
            let shown = attribute(&new, Name::new(None, 1), answered);
            assert_eq!((shown.direction, shown.value), (Direction::Out, value));
        }
    }
}
