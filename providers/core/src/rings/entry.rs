//! An entry of a queue: plain values, with public fields.

use std::fmt;

/// A request that was handed over, or a completion that was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What kind of queue it is in.
    pub queue: QueueKind,
    /// The device's number of that queue. A completion queue of rxe has none: its handle.
    pub number: u32,
    /// Its place in the ring, in what the ring is counted in: requests, completions, or blocks of
    /// 64 bytes (send queues of mlx5).
    pub index: u32,
    /// What is asked for, or what came: the operation's name in the kernel's headers, or `unknown`.
    pub kind: &'static str,
    /// What its bytes mean, in their order. Names may come several times, as pieces of memory do.
    pub fields: Vec<(&'static str, Value)>,
    /// The bytes themselves. They have the keys in them.
    pub bytes: Vec<u8>,
}

/// What kind of queue an entry is in.
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
    /// A number that is no count: an address, an object's number, bits.
    Hex(u64),
    /// A key: who knows it may get at memory or queues.
    Key(u64),
    /// The name of a value.
    Name(&'static str),
    /// Flags by name.
    Flags(Vec<&'static str>),
    /// Bytes as they are: inline data, a GID.
    Bytes(Vec<u8>),
    /// Bytes whose meaning is not known, and which may have keys in them.
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
