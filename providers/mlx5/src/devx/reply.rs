//! Sending a command through the kernel, and the errors in its reply.

use std::cell::Cell;

use uverbs_core::sys::{Attr, Uhw, Value};
use uverbs_core::{Errno, Error, Op, Result, UverbsFile};

use crate::prm::{Mailbox, Status};

/// Sends a command by a method, and receives its reply.
///
/// If the firmware refuses, the kernel copies the reply and returns EREMOTEIO; a kernel that
/// returns another errno did not copy the reply, whose status is then zero.
pub(super) fn exchange(
    file: &UverbsFile,
    op: Op,
    object: u16,
    method: u16,
    (command, command_attr): (&Mailbox, u16),
    (reply, reply_attr): (&mut Mailbox, u16),
    others: &[Attr<'_>],
) -> Result<()> {
    let result = {
        let cells = Cell::from_mut(reply.as_mut_bytes()).as_slice_of_cells();
        let mut attrs = others.to_vec();
        attrs.push(Attr::new(command_attr, Value::In(command.as_bytes(), None)));
        attrs.push(Attr::output(reply_attr, cells));
        file.ioctl_only(op, || file.ioctl(op, object, method, &attrs, &Uhw::NONE))
    };
    match (result, reply.status()) {
        (Ok(()), Status::Ok) => Ok(()),
        // The contents of the reply are then unknown, too.
        (Err(error), _) if error.outcome_is_unknown() => Err(error),
        (Err(error), Status::Ok) => Err(explain(error, command)),
        (_, status) => Err(refused(op, command, status, reply.syndrome())),
    }
}

/// The firmware refused.
fn refused(op: Op, command: &Mailbox, status: Status, syndrome: u32) -> Error {
    Error::os(op, status.errno())
        .fact("opcode", format!("{:#x}", command.opcode()))
        .fact("firmware_status", status.to_string())
        .fact("syndrome", format!("{syndrome:#x}"))
}

/// The kernel refused.
fn explain(error: Error, command: &Mailbox) -> Error {
    let error = error.fact("opcode", format!("{:#x}", command.opcode()));
    match error.errno() {
        Some(Errno::INVAL) => error.hint(
            "the kernel lets only some opcodes through here, on their own objects, and in contexts opened for DEVX",
        ),
        Some(Errno::PROTONOSUPPORT) => {
            error.hint("the device, or its configuration, offers no user contexts (DEVX)")
        }
        _ => error,
    }
}

/// The error of a reply that arrived separately from its command.
pub(super) fn check(op: Op, command: u16, reply: &Mailbox) -> Result<()> {
    match reply.status() {
        Status::Ok => Ok(()),
        status => Err(refused(
            op,
            &Mailbox::command(command, 0, 16),
            status,
            reply.syndrome(),
        )),
    }
}
