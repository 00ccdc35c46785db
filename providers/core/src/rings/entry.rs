//! An entry of a queue: plain values, with public fields.

use std::fmt;

/// A request that was submitted, or a completion that was polled.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The kind of its queue.
    pub queue: QueueKind,
    /// The device's number of that queue; for a completion queue of rxe, which has none, its
    /// handle.
    pub number: u32,
    /// Its index in the ring, in units of the ring: requests, completions, or blocks of 64 bytes
    /// (send queues of mlx5).
    pub index: u32,
    /// What it is: the operation's name in the kernel's headers, or `unknown`.
    pub kind: &'static str,
    /// Its decoded fields, in order. Names may occur several times, as for scatter/gather entries.
    pub fields: Vec<(&'static str, Value)>,
    /// Its raw bytes. They contain the keys.
    pub bytes: Vec<u8>,
}

/// The kind of queue that an entry is in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum QueueKind {
    /// Send requests.
    Send,
    /// Receive requests of one queue pair, or of a work queue.
    Receive,
    /// Receive requests of a shared receive queue.
    SharedReceive,
    /// Completions.
    Completion,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A count, a length or an index.
    Number(u64),
    /// A number that is not a count: an address, an object's number, bits.
    Hex(u64),
    /// A key: anyone who knows it may be able to access memory or queues.
    Key(u64),
    /// The name of a value.
    Name(&'static str),
    /// Flags by name.
    Flags(Vec<&'static str>),
    /// Raw bytes: inline data, a GID.
    Bytes(Vec<u8>),
    /// Bytes whose meaning is unknown, and which may contain keys.
    Raw(Vec<u8>),
}

impl Entry {
    /// The kind of an entry that has no name.
    pub const UNKNOWN: &'static str = "unknown";
}

impl fmt::Display for QueueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "sq",
            Self::Receive => "rq",
            Self::SharedReceive => "srq",
            Self::Completion => "cq",
        })
    }
}
