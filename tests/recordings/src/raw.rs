//! The recorder's output: one JSON object per system call, with every byte in and out.

use serde::{Deserialize, Serialize};

/// One system call on an RDMA descriptor.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Call {
    /// The thread.
    pub pid: i32,
    /// The descriptor.
    pub fd: i32,
    /// The descriptor's file, as `/proc` names it.
    pub file: String,
    /// The errno, or 0.
    pub errno: i32,
    /// The call.
    pub what: What,
}

/// The connection manager's node.
pub const CONNECTION_MANAGER: &str = "/dev/infiniband/rdma_cm";

impl Call {
    /// Whether it is on the connection manager, not on a device.
    #[must_use]
    pub fn is_of_connection_manager(&self) -> bool {
        self.file == CONNECTION_MANAGER
    }
}

/// A system call.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// `RDMA_VERBS_IOCTL`.
    Ioctl {
        /// Object id.
        object: u16,
        /// Method id.
        method: u16,
        /// `RDMA_DRIVER_*`.
        driver: u32,
        /// In the order in which they were passed.
        attrs: Vec<Attr>,
    },
    /// A legacy command by `write(2)`.
    Write {
        /// The number, with the flag of extended commands.
        command: u32,
        /// The request after its header.
        request: Hex,
        /// Driver data of the request, if the header gives its length.
        request_driver: Hex,
        /// The reply, with the length of the room for it.
        reply: Hex,
        /// Driver data of the reply, as above.
        reply_driver: Hex,
    },
    /// A command of the connection manager by `write(2)`.
    Cm {
        /// The number.
        command: u32,
        /// The request after its header.
        request: Hex,
        /// An option's value, which is at an address in the request.
        option: Hex,
        /// The reply, with the length of the room for it.
        reply: Hex,
    },
    /// `mmap(2)`.
    Map {
        /// Length in bytes.
        len: u64,
        /// `PROT_*`.
        protection: u64,
        /// The cookie.
        offset: u64,
    },
    /// `read(2)`.
    Read {
        /// The bytes read.
        bytes: Hex,
    },
    /// `close(2)`.
    Close,
}

/// One attribute of a method.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Attr {
    /// Its id.
    pub id: u16,
    /// Its flags before the call.
    pub flags: u16,
    /// Its flags after it.
    pub flags_after: u16,
    /// Number of bytes at the address, or 0 for handles and descriptors.
    pub len: u16,
    /// Element of an enumeration.
    pub element: u8,
    /// The data word before the call.
    pub data: u64,
    /// The data word after the call.
    pub data_after: u64,
    /// The bytes at the address before the call; empty if there are none.
    pub before: Hex,
    /// The bytes at the address after the call.
    pub after: Hex,
}

/// Bytes, as hexadecimal digits.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Hex(pub Vec<u8>);

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&digits(&self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pairs = text.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> = pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        bytes
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("not hexadecimal"))
    }
}

/// Lower-case digits.
#[must_use]
pub fn digits(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |text, byte| {
            text + &format!("{byte:02x}")
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn lines_come_back_as_they_were() {
        let call = Call {
            pid: 1,
            fd: 3,
            file: "/dev/infiniband/uverbs0".to_owned(),
            errno: 0,
            what: What::Read {
                bytes: Hex(vec![0, 255, 16]),
            },
        };
        let line = serde_json::to_string(&call).unwrap();
        assert!(line.contains("00ff10"), "{line}");
        assert_eq!(serde_json::from_str::<Call>(&line).unwrap(), call);
        assert!(serde_json::from_str::<Hex>("\"0g\"").is_err());
    }
}
