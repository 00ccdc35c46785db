//! The record of a call: plain values with public fields.

use std::time::Duration;

use super::names::Name;
use crate::sys::Protection;

/// One call and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The number of the call, counted from 0 by the recorder.
    pub number: u64,
    /// What the descriptor is, as far as the call shows.
    pub fd: FdClass,
    /// The descriptor's number.
    pub fd_number: i32,
    /// How long the call took.
    pub duration: Duration,
    /// The request and its outputs.
    pub body: Body,
    /// The errno, or `None` for success.
    pub errno: Option<i32>,
}

/// What a descriptor is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FdClass {
    /// `/dev/infiniband/uverbsN`.
    Device,
    /// Asynchronous events: its events have 16 bytes.
    AsyncEvents,
    /// A completion channel: its events have 8 bytes.
    CompletionEvents,
    /// Another event descriptor.
    OtherEvents,
    /// `/dev/infiniband/rdma_cm`.
    ConnectionManager,
}

/// The request and its outputs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body {
    /// An ioctl method.
    Method {
        /// `UVERBS_OBJECT_*`.
        object: Name,
        /// `UVERBS_METHOD_*`.
        method: Name,
        /// `RDMA_DRIVER_*` of the device.
        driver_id: u32,
        /// The attributes that were sent, driver data last.
        attributes: Vec<Attribute>,
    },
    /// A legacy command, or one of the connection manager.
    Command {
        /// `IB_USER_VERBS_CMD_*`, `IB_USER_VERBS_EX_CMD_*` or `RDMA_USER_CM_CMD_*`.
        command: Name,
        /// How it was issued.
        path: CommandPath,
        /// The fields of request and reply, driver data last.
        attributes: Vec<Attribute>,
    },
    /// `read(2)`.
    Read {
        /// Size of the buffer in bytes.
        room: usize,
        /// The bytes that were read.
        bytes: Vec<u8>,
    },
    /// `mmap(2)`.
    Map {
        /// The offset, in bytes.
        offset: u64,
        /// Bytes.
        len: usize,
        /// How the process may access it.
        protection: Protection,
    },
}

/// How a legacy command was issued.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CommandPath {
    /// Inside the ioctl `INVOKE_WRITE`.
    Invoke,
    /// By `write(2)`.
    Write,
    /// By `write(2)` to the connection manager, whose commands have no other encoding.
    ConnectionManager,
}

/// One attribute of a method, or one field of a legacy command.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name in the kernel's headers.
    pub name: Name,
    /// Who wrote it.
    pub direction: Direction,
    /// Bytes.
    pub len: usize,
    /// Whether a kernel that does not know it refuses the command.
    pub mandatory: bool,
    /// Its value.
    pub value: Value,
}

/// Who wrote an attribute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// The process.
    In,
    /// The kernel.
    Out,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A number of up to 64 bits.
    Number(u64),
    /// The handle of an object.
    Handle(u32),
    /// Handles of several objects.
    Handles(Vec<u32>),
    /// A descriptor's number, or `None` if the kernel created none.
    Fd(Option<i32>),
    /// One of several payloads.
    Choice(u8),
    /// Up to 512 raw bytes.
    Bytes(Vec<u8>),
    /// The fields of a struct.
    Fields(Vec<Attribute>),
    /// Too long to keep.
    Long,
    /// An output that the kernel did not write.
    Unwritten,
}

impl Attribute {
    /// True for driver data, which only the provider and the driver understand.
    pub(super) fn is_driver_data(&self) -> bool {
        let name = self.name.full().unwrap_or_default();
        name.ends_with("UHW_IN") || name.ends_with("UHW_OUT")
    }

    /// True for bit masks.
    pub(super) fn is_mask(&self) -> bool {
        let name = self.name.full().unwrap_or_default();
        ["mask", "MASK", "flags", "FLAGS"]
            .iter()
            .any(|word| name.ends_with(word))
    }

    /// True for keys, which grant access to memory to anyone who knows them.
    pub fn is_key(&self) -> bool {
        let name = self.name.full().unwrap_or_default();
        ["LKEY", "RKEY", "lkey", "rkey", "access_key"]
            .iter()
            .any(|key| name.ends_with(key))
    }
}
