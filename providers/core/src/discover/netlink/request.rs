//! Requests as values.

use netlink_packet_core::{
    Emitable as _, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable, Nla,
};
use uverbs_uapi::rdma_netlink::{RDMA_NL_GET_TYPE, RDMA_NL_NLDEV};

use crate::error::{Error, Op, Result};

/// The longest text in an attribute: the kernel's names are shorter.
const TEXT_MAX: usize = 255;

/// An attribute of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attribute<'a> {
    kind: u16,
    value: Value<'a>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Value<'a> {
    Byte([u8; 1]),
    Word([u8; 4]),
    Text(&'a str),
}

impl<'a> Attribute<'a> {
    /// A `u8`.
    pub const fn u8(kind: u16, value: u8) -> Self {
        Self {
            kind,
            value: Value::Byte([value]),
        }
    }

    /// A `u32`.
    pub const fn u32(kind: u16, value: u32) -> Self {
        Self {
            kind,
            value: Value::Word(value.to_ne_bytes()),
        }
    }

    /// Text, which is sent with a NUL at its end.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if it is longer than 255 bytes or contains
    /// a NUL.
    pub fn text(op: Op, kind: u16, text: &'a str) -> Result<Self> {
        if text.len() > TEXT_MAX || text.contains('\0') {
            return Err(Error::invalid(op, "a name").fact("length", text.len()));
        }
        Ok(Self {
            kind,
            value: Value::Text(text),
        })
    }

    fn bytes(&self) -> &[u8] {
        match &self.value {
            Value::Byte(bytes) => bytes,
            Value::Word(bytes) => bytes,
            Value::Text(text) => text.as_bytes(),
        }
    }
}

impl Nla for Attribute<'_> {
    fn value_len(&self) -> usize {
        self.bytes().len() + usize::from(matches!(self.value, Value::Text(_)))
    }

    fn kind(&self) -> u16 {
        self.kind
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        let bytes = self.bytes();
        let (text, nul) = buffer.split_at_mut(bytes.len());
        text.copy_from_slice(bytes);
        nul.fill(0);
    }
}

/// A command to the kernel's device client (`RDMA_NL_NLDEV`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request<'a> {
    command: u16,
    flags: u16,
    attributes: &'a [Attribute<'a>],
}

impl<'a> Request<'a> {
    /// A query with one answer, or a failure.
    pub const fn get(command: u16, attributes: &'a [Attribute<'a>]) -> Self {
        Self {
            command,
            flags: NLM_F_REQUEST,
            attributes,
        }
    }

    /// A query for a list of everything (`NLM_F_DUMP`).
    pub const fn dump(command: u16, attributes: &'a [Attribute<'a>]) -> Self {
        Self {
            command,
            flags: NLM_F_REQUEST | NLM_F_DUMP,
            attributes,
        }
    }

    /// A change, which the kernel acknowledges.
    pub const fn order(command: u16, attributes: &'a [Attribute<'a>]) -> Self {
        Self {
            command,
            flags: NLM_F_REQUEST | NLM_F_ACK,
            attributes,
        }
    }

    /// Whether it is a list query, which several datagrams may answer.
    pub const fn is_list(&self) -> bool {
        self.flags & NLM_F_DUMP == NLM_F_DUMP
    }

    /// Appends the message to a datagram.
    pub fn encode(&self, sequence: u32, datagram: &mut Vec<u8>) {
        let mut header = NetlinkHeader::default();
        header.flags = self.flags;
        header.sequence_number = sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(self.clone()));
        message.finalize();
        let start = datagram.len();
        datagram.resize(start + message.buffer_len(), 0);
        message.serialize(&mut datagram[start..]);
    }
}

impl NetlinkSerializable for Request<'_> {
    fn message_type(&self) -> u16 {
        RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, self.command)
    }

    fn buffer_len(&self) -> usize {
        self.attributes.buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        self.attributes.emit(buffer);
    }
}
