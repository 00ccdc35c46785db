//! Work requests as data, read by both sides.

use serde::{Deserialize, Serialize};

/// Address of the memory of requests, in both programs.
pub const MEMORY: u64 = 0x2000_0000_0000;
/// Its length in bytes.
pub const LENGTH: u64 = 1 << 20;
/// The first half is read, the second half is written to.
pub const TARGET: u64 = LENGTH / 2;

/// What is posted.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Table {
    /// Queue pairs, one after another.
    pub cases: Vec<Case>,
}

/// One queue pair and what is posted to it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Case {
    /// Its transport.
    pub transport: Transport,
    /// Largest number of outstanding send requests.
    pub max_send_wr: u32,
    /// Scatter/gather entries of a send request.
    pub max_send_sge: u32,
    /// Inline bytes of a send request.
    pub max_inline: u32,
    /// Largest number of outstanding receive requests.
    pub max_recv_wr: u32,
    /// Scatter/gather entries of a receive request.
    pub max_recv_sge: u32,
    /// Whether the receiving side receives from a shared queue, of the same size.
    pub shared: bool,
    /// Batches, each with one doorbell; all of a batch completes before the next is posted.
    pub batches: Vec<Batch>,
}

/// Requests that are posted together.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Batch {
    /// In order.
    pub requests: Vec<Request>,
    /// Whether the receiving side waits for an event: for any completion, or (true) for a solicited
    /// one.
    pub notify: Option<bool>,
}

impl Batch {
    /// Those that consume a receive request of the peer.
    pub fn received(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|one| one.verb.is_received())
    }
}

impl Case {
    /// All requests, in order.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.batches.iter().flat_map(|batch| &batch.requests)
    }
}

/// The transports of the table.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection: an initiator, and a target with a shared queue of its domain.
    Xrc,
    /// Dynamic connections: an initiator, and a target with a shared queue.
    Dc,
}

impl Transport {
    /// Number of 16-byte units of a request that give its destination.
    pub fn route_units(self) -> usize {
        match self {
            Self::Rc | Self::Uc => 0,
            Self::Ud | Self::Dc => 3,
            Self::Xrc => 1,
        }
    }
}

/// One send request.
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the flags of a request"
)]
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Request {
    /// The operation.
    pub verb: Verb,
    /// `IBV_SEND_*`: fence.
    pub fence: bool,
    /// Signaled.
    pub signaled: bool,
    /// Solicited.
    pub solicited: bool,
    /// Copied into the queue.
    pub inline: bool,
    /// Scatter/gather entries: offset and length.
    pub sges: Vec<(u64, u32)>,
    /// Offset of the remote address.
    pub remote: u64,
    /// Immediate data, or the operands of atomics.
    pub words: (u64, u64),
    /// Scatter/gather entries of the peer's receive request, if it consumes one.
    pub receive: Vec<(u64, u32)>,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(missing_docs, reason = "the names of `enum ibv_wr_opcode`")]
pub enum Verb {
    Send,
    SendWithImm,
    RdmaWrite,
    RdmaWriteWithImm,
    RdmaRead,
    AtomicCmpAndSwp,
    AtomicFetchAndAdd,
}

impl Verb {
    /// Whether it consumes a receive request of the peer.
    pub fn is_received(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendWithImm | Self::RdmaWriteWithImm
        )
    }
}

/// A program's output about a case, one JSON line each, so that its numbers can be distinguished
/// from content.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Numbers {
    /// The queue pair that sends.
    pub qpn: u32,
    /// The one that receives.
    pub peer: u32,
    /// The queue it receives from; 0 for its own.
    pub srq: u32,
    /// Whether requests name that queue.
    pub xrc: bool,
    /// The region's local key.
    pub lkey: u32,
    /// The region's remote key.
    pub rkey: u32,
    /// Sizes granted to the sending side: send requests, their scatter/gather entries and inline
    /// bytes, receive requests and their entries.
    pub caps: [u32; 5],
    /// Requests and scatter/gather entries granted to the receiving side, in its own or in the
    /// shared queue.
    pub receives: [u32; 2],
}
