//! The firmware's status of a command (`MLX5_CMD_STAT_*`).

use std::fmt;

use uverbs_core::Errno;

use super::Unrecognized;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $raw:literal, $text:literal, $errno:ident;)*) => {
        /// The status of a command's reply.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum Status {
            $($(#[$doc])* $name,)*
            /// A status that this library does not know.
            Unknown(Unrecognized<Status, u8>),
        }

        impl Status {
            /// Converts from the device's number.
            pub const fn from_raw(raw: u8) -> Self {
                match raw {
                    $($raw => Self::$name,)*
                    other => Self::Unknown(Unrecognized::new(other)),
                }
            }

            /// The device's number.
            pub const fn raw(self) -> u8 {
                match self {
                    $(Self::$name => $raw,)*
                    Self::Unknown(unrecognized) => unrecognized.raw(),
                }
            }

            /// The errno with which the kernel's own commands fail for it.
            pub const fn errno(self) -> Errno {
                match self {
                    $(Self::$name => Errno::$errno,)*
                    Self::Unknown(_) => Errno::IO,
                }
            }
        }

        impl fmt::Display for Status {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name => f.write_str($text),)*
                    Self::Unknown(other) => write!(f, "status {:#x}", other.raw()),
                }
            }
        }
    };
}

statuses! {
    /// Success.
    Ok = 0x00, "OK", IO;
    /// An internal error of the device.
    Internal = 0x01, "INTERNAL_ERR", IO;
    /// There is no such command, or not in this configuration.
    BadOperation = 0x02, "BAD_OP", INVAL;
    /// A parameter is invalid.
    BadParameter = 0x03, "BAD_PARAM", INVAL;
    /// The device is in the wrong state for it.
    BadSystemState = 0x04, "BAD_SYS_STATE", IO;
    /// A resource does not exist, or belongs to another user context.
    BadResource = 0x05, "BAD_RESOURCE", INVAL;
    /// A resource is in use.
    Busy = 0x06, "RESOURCE_BUSY", BUSY;
    /// Not ready yet.
    NotReady = 0x07, "NOT_READY", IO;
    /// A limit of the device was exceeded.
    Limit = 0x08, "EXCEED_LIM", NOMEM;
    /// A resource is in the wrong state for it.
    BadResourceState = 0x09, "BAD_RES_STATE", INVAL;
    /// An index is out of range.
    BadIndex = 0x0a, "BAD_INDEX", INVAL;
    /// No resources are left.
    NoResources = 0x0f, "NO_RESOURCES", AGAIN;
    /// The queue pair is in the wrong state for it.
    BadQueueState = 0x10, "BAD_QP_STATE", INVAL;
    /// A management datagram is invalid.
    BadPacket = 0x30, "BAD_PKT", INVAL;
    /// Too many outstanding completions for the size.
    BadOutstanding = 0x40, "BAD_SIZE_OUTS_CQES", INVAL;
    /// The command is too short or too long.
    BadInputLength = 0x50, "BAD_INPUT_LEN", IO;
    /// The buffer for the reply is too small.
    BadOutputLength = 0x51, "BAD_OUTPUT_LEN", IO;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        for raw in 0..=u8::MAX {
            assert_eq!(Status::from_raw(raw).raw(), raw);
        }
        assert_eq!(Status::from_raw(0x77).to_string(), "status 0x77");
        assert_eq!(Status::from_raw(0x06).errno(), Errno::BUSY);
    }
}
