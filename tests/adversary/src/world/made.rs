//! What a program created, with what the oracle knows about it.

use uverbs::owned::{self, Buffer, Memory};
use uverbs::{
    AddressHandle, AddressVector, CompletionQueue, Context, ProtectionDomain, QpType, QueuePair,
    QueuePairEndpoint,
};

/// An opened device, and its protection domains.
pub(super) struct Site {
    pub(super) context: Context,
    pub(super) pds: [Option<ProtectionDomain>; 2],
}

/// A completion queue.
pub(super) struct Cq {
    pub(super) uid: u32,
    pub(super) site: usize,
    /// `None` while one of its completions is held.
    pub(super) queue: Option<CompletionQueue>,
}

/// A shared receive queue.
pub(super) struct Srq {
    pub(super) uid: u32,
    pub(super) site: usize,
    pub(super) pd: usize,
    pub(super) number: u32,
    pub(super) queue: owned::SharedReceiveQueue,
    /// Queue pairs that receive from it: their numbers, and their completion queues.
    pub(super) users: Vec<(u32, u32)>,
}

/// A queue pair, owned or not.
#[expect(clippy::large_enum_variant, reason = "there are few of them")]
pub(super) enum Body {
    Raw(QueuePair),
    Owned(owned::QueuePair),
}

/// A queue pair.
pub(super) struct Pair {
    pub(super) uid: u32,
    pub(super) site: usize,
    pub(super) number: u32,
    pub(super) body: Body,
    pub(super) send_cq: u32,
    pub(super) recv_cq: u32,
    pub(super) srq: Option<u32>,
    pub(super) link: Link,
    /// Every completion with its number belongs to a request that its owner posted, and still
    /// counts.
    pub(super) pure: bool,
}

/// The peer of a queue pair.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) kind: QpType,
    pub(super) own: QueuePairEndpoint,
    pub(super) peer: QueuePairEndpoint,
    pub(super) path: AddressVector,
    pub(super) address: Option<AddressHandle>,
}

/// A posted request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) owner: u32,
    /// The place index of its buffer.
    pub(super) place: Option<usize>,
    /// It was posted, and neither that nor its end is in doubt.
    pub(super) sure: bool,
    /// It may end without a completion: it is unsignaled, or in a batch that was not submitted.
    pub(super) quiet: bool,
}

/// A buffer that the program owns, and its contents when last checked.
pub(super) struct Hand {
    pub(super) buffer: Buffer,
    copy: Vec<u8>,
}

impl Hand {
    pub(super) fn new(buffer: Buffer) -> Self {
        let copy = buffer.to_vec();
        Self { buffer, copy }
    }

    pub(super) fn has_changed(&self) -> bool {
        self.buffer[..] != self.copy[..]
    }

    pub(super) fn difference(&self) -> String {
        let at = self.buffer.iter().zip(&self.copy).position(|(a, b)| a != b);
        let at = at.unwrap_or(0);
        format!(
            "byte {at} of a buffer in hand: {:#x} -> {:#x}",
            self.copy[at], self.buffer[at]
        )
    }

    /// The program writes message `number` to its first `len` bytes.
    pub(super) fn write(&mut self, number: u64, len: usize) {
        fill(&mut self.buffer, number, len);
        self.copy.copy_from_slice(&self.buffer);
    }
}

/// Writes message `number`, as far as there is room.
pub(super) fn fill(bytes: &mut [u8], number: u64, len: usize) {
    for (at, byte) in bytes.iter_mut().enumerate().take(len) {
        *byte = byte_of(number, at);
    }
}

fn byte_of(number: u64, at: usize) -> u8 {
    match number.to_le_bytes().get(at) {
        Some(byte) => *byte,
        None => number.to_le_bytes()[0].wrapping_mul(31) ^ at.to_le_bytes()[0],
    }
}

/// The number of the message in these bytes, if there is one.
pub(super) fn message(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(*bytes.first_chunk()?);
    let mut all = bytes.iter().enumerate();
    all.all(|(at, byte)| *byte == byte_of(number, at))
        .then_some(number)
}

/// The place index of a request's buffer.
pub(super) fn place(memory: &Memory) -> Option<usize> {
    match memory {
        Memory::Buffer(buffer, _) => Some(buffer.as_ptr().addr()),
        _ => None,
    }
}

impl Pair {
    pub(super) fn owned(&mut self) -> Option<&mut owned::QueuePair> {
        match &mut self.body {
            Body::Owned(qp) => Some(qp),
            Body::Raw(_) => None,
        }
    }
}
