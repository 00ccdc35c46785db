//! A command without its values.

use super::record::{Attribute, Body, CommandPath, Direction, Record, Value};
use crate::error::Errno;

impl Record {
    /// The command, by its full names in the kernel's headers, and the kind of result; `None` for
    /// calls that are not commands, and for ids without a name in the headers.
    ///
    /// ```text
    /// ioctl ok UVERBS_OBJECT_PD UVERBS_METHOD_PD_DESTROY UVERBS_ATTR_DESTROY_PD_HANDLE
    /// write error IB_USER_VERBS_CMD_CREATE_CQ
    /// ```
    ///
    /// The first word is the encoding: `ioctl`, `invoke` or `write`. The second is the result:
    /// `ok`, `unsupported` (EOPNOTSUPP, EPROTONOSUPPORT, ENOSYS, ENOTTY: the kernel or its driver
    /// does not have the command) or `error`. The attributes of a method are those that it carried,
    /// without driver data, and without the outputs that the kernel left unwritten in a successful
    /// call.
    pub fn outline(&self) -> Option<String> {
        let answer = match self.errno.map(Errno::from_raw_os_error) {
            None => "ok",
            Some(Errno::OPNOTSUPP | Errno::PROTONOSUPPORT | Errno::NOSYS | Errno::NOTTY) => {
                "unsupported"
            }
            Some(_) => "error",
        };
        match &self.body {
            Body::Method {
                object,
                method,
                attributes,
                ..
            } => {
                let mut line = format!("ioctl {answer} {} {}", object.full()?, method.full()?);
                let carried = attributes
                    .iter()
                    .filter(|attribute| !attribute.is_driver_data())
                    .filter(|attribute| self.errno.is_some() || !attribute.is_left_out());
                for name in carried.filter_map(|attribute| attribute.name.full()) {
                    line.push(' ');
                    line.push_str(name);
                }
                Some(line)
            }
            Body::Command { command, path, .. } => {
                let way = match path {
                    CommandPath::Invoke => "invoke",
                    CommandPath::Write | CommandPath::ConnectionManager => "write",
                };
                Some(format!("{way} {answer} {}", command.full()?))
            }
            Body::Read { .. } | Body::Map { .. } => None,
        }
    }
}

impl Attribute {
    /// True for an output that the kernel did not write.
    fn is_left_out(&self) -> bool {
        self.direction == Direction::Out && matches!(self.value, Value::Unwritten | Value::Fd(None))
    }
}
