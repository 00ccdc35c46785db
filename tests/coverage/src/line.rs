//! From a record to a line.

use uverbs::recorder::{Attribute, Body, CommandPath, Direction, Record, Value};

/// EOPNOTSUPP, EPROTONOSUPPORT, ENOSYS, ENOTTY: the kernel or its driver has no such thing.
const UNSUPPORTED: [i32; 4] = [95, 93, 38, 25];

/// Driver data, which nearly every command has.
const DRIVER_DATA: [&str; 2] = ["UVERBS_ATTR_UHW_IN", "UVERBS_ATTR_UHW_OUT"];

/// The line of a command; `None` for other calls, and for numbers that the headers have no name for.
pub(super) fn of(record: &Record) -> Option<String> {
    let answer = match record.errno {
        None => "ok",
        Some(errno) if UNSUPPORTED.contains(&errno) => "unsupported",
        Some(_) => "error",
    };
    match &record.body {
        Body::Method {
            object,
            method,
            attributes,
            ..
        } => {
            let mut line = format!("ioctl {answer} {} {}", object.full()?, method.full()?);
            let carried = attributes.iter().filter(|attribute| {
                record.errno.is_some() || !is_left_out(attribute)
            });
            let mut names: Vec<_> = carried
                .filter_map(|attribute| attribute.name.full())
                .filter(|name| !DRIVER_DATA.contains(name))
                .collect();
            names.sort_unstable();
            for name in names {
                line.push(' ');
                line.push_str(name);
            }
            Some(line)
        }
        Body::Command { command, path, .. } => {
            let way = match path {
                CommandPath::Invoke => "invoke",
                CommandPath::Write => "write",
            };
            Some(format!("{way} {answer} {}", command.full()?))
        }
        _ => None,
    }
}

/// True for an output that a kernel which did the rest did not write.
fn is_left_out(attribute: &Attribute) -> bool {
    attribute.direction == Direction::Out
        && matches!(attribute.value, Value::Unwritten | Value::Fd(None))
}
