//! What is posted, what comes back, and what is refused.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Range;

use uverbs_core::PostError;
use uverbs_core::types::{Operation, Remote, RemoteKey, SendFlags, Sge};

use super::kind::{
    AnyOperation, Atomic, Datagram, Invalidating, Kind, Message, MessageImm, Read, Write,
};
use super::{Buffer, ExposedMemory, finished};
use crate::{AddressHandle, ProtectionDomain};

/// The memory of a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Memory {
    /// None: the request moves no data.
    None,
    /// The first bytes of a buffer.
    Buffer(Buffer, usize),
    /// A range of memory that peers may access at the same time.
    Exposed(ExposedMemory, Range<usize>),
    /// Several of them, one scatter/gather entry each, in this order. A list inside a list is
    /// refused.
    List(Vec<Memory>),
}

/// A send request, with the memory it moves.
///
/// ```no_run
/// # fn f(qp: &mut uverbs::owned::QueuePair, buffer: uverbs::owned::Buffer, peer: uverbs::Remote) {
/// use uverbs::owned::Work;
/// use uverbs::SendFlags;
///
/// let len = buffer.len();
/// let work = Work::write_imm(peer, 7).memory((buffer, len)).flags(SendFlags::FENCE).user_data(1);
/// if let Err(refused) = qp.post(work) {
///     eprintln!("{refused}");
///     let _memory_is_still_ours = refused.work.map(Work::take_memory);
/// }
/// # }
/// ```
///
/// Its [kind](super::kind) decides at compile time which queue pairs it can be posted to. One that
/// was made of an [`Operation`] by [`new`](Self::new), or is [`untyped`](Self::untyped), can be
/// posted to all, and is refused by those that do not have the operation.
#[derive(Debug)]
#[must_use = "nothing happens before it is posted"]
pub struct Work<K: Kind = AnyOperation> {
    pub(super) parts: Parts,
    kind: PhantomData<K>,
}

/// All there is to a request.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) operation: Operation<'static>,
    pub(super) memory: Memory,
    pub(super) flags: SendFlags,
    pub(super) signaled: bool,
    pub(super) user_data: u64,
    pub(super) destination: Option<(AddressHandle, u32, u32)>,
}

/// Memory of a request that ended without a completion of its own; see
/// [`QueuePair::released`](super::QueuePair::released).
#[derive(Debug)]
#[non_exhaustive]
pub struct Released {
    /// The `user_data` it was posted with.
    pub user_data: u64,
    /// Its memory.
    pub memory: Memory,
    /// True for an unsignaled request that was carried out; false for one of a batch that was never
    /// submitted.
    pub carried_out: bool,
}

/// Memory that could not be posted to receive into.
///
/// It prints as its error, by `{:?}` too.
pub struct MemoryRefused {
    /// Why.
    pub error: PostError,
    /// The memory.
    pub memory: Memory,
}

/// A request that was not posted, with everything in it.
///
/// It prints as its error, by `{:?}` too.
pub struct Refused {
    /// Why.
    pub error: PostError,
    /// The request. `None` if the kernel refused the doorbell but may have seen the request in the
    /// ring: the queue then keeps the memory until it is destroyed.
    pub work: Option<Work>,
}

/// A buffer that could not be posted to receive into.
///
/// It prints as its error, by `{:?}` too.
pub struct ReceiveRefused {
    /// Why.
    pub error: PostError,
    /// The buffer.
    pub buffer: Buffer,
}

impl Work {
    /// A request that does `operation`, with no memory, no flags and `user_data` 0.
    ///
    /// [`Operation::BindWindow`] and [`Operation::LocalInvalidate`] are refused when posted: they
    /// change who may access memory, and a window that outlives its memory's owner would let a peer
    /// write to memory that has another owner by then. Windows are bound in the raw world.
    #[inline]
    pub fn new(operation: Operation<'static>) -> Self {
        Self::of(operation)
    }
}

impl Work<Message> {
    /// Sends to the peer's receive queue; on raw packet queue pairs, a frame.
    #[inline]
    pub fn send() -> Self {
        Self::of(Operation::Send)
    }
}

impl Work<MessageImm> {
    /// Sends, with a 32-bit immediate value for the peer's completion.
    #[inline]
    pub fn send_imm(imm: u32) -> Self {
        Self::of(Operation::SendImm(imm))
    }
}

impl Work<Invalidating> {
    /// Sends, and invalidates this key of the peer when the message arrives.
    #[inline]
    pub fn send_invalidate(key: RemoteKey) -> Self {
        Self::of(Operation::SendInvalidate(key))
    }
}

impl Work<Write> {
    /// Writes into the peer's memory: `Work::write(memory.at(4096)?)`.
    #[inline]
    pub fn write(remote: impl Into<Remote>) -> Self {
        Self::of(Operation::Write(remote.into()))
    }

    /// Writes into the peer's memory and completes a receive there, with a 32-bit immediate value.
    #[inline]
    pub fn write_imm(remote: impl Into<Remote>, imm: u32) -> Self {
        Self::of(Operation::WriteImm(remote.into(), imm))
    }
}

impl Work<Read> {
    /// Reads from the peer's memory.
    #[inline]
    pub fn read(remote: impl Into<Remote>) -> Self {
        Self::of(Operation::Read(remote.into()))
    }
}

impl Work<Atomic> {
    /// Replaces 8 aligned bytes of the peer's if they equal `compare`. The old value is written to
    /// the 8 bytes of [`memory`](Self::memory).
    #[inline]
    pub fn compare_swap(remote: impl Into<Remote>, compare: u64, swap: u64) -> Self {
        Self::of(Operation::CompareSwap {
            remote: remote.into(),
            compare,
            swap,
        })
    }

    /// Adds to 8 aligned bytes of the peer's, modulo 2^64. The old value is written to the 8 bytes
    /// of [`memory`](Self::memory).
    #[inline]
    pub fn fetch_add(remote: impl Into<Remote>, add: u64) -> Self {
        Self::of(Operation::FetchAdd {
            remote: remote.into(),
            add,
        })
    }
}

impl<K: Datagram> Work<K> {
    /// Where a datagram goes: the path, the queue pair at its end, and that queue pair's key.
    #[inline]
    pub fn to(mut self, address: &AddressHandle, qp_num: u32, qkey: u32) -> Work<K::Addressed> {
        self.parts.destination = Some((address.clone(), qp_num, qkey));
        Work {
            parts: self.parts,
            kind: PhantomData,
        }
    }
}

impl<K: Kind> Work<K> {
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn from_parts(parts: Parts) -> Self {
        Self {
            parts,
            kind: PhantomData,
        }
    }

    #[inline]
    fn of(operation: Operation<'static>) -> Self {
        Self {
            parts: Parts {
                operation,
                memory: Memory::None,
                flags: SendFlags::empty(),
                signaled: true,
                user_data: 0,
                destination: None,
            },
            kind: PhantomData,
        }
    }

    /// The same request, whose operation is checked when it is posted.
    #[inline]
    pub fn untyped(self) -> Work {
        Work {
            parts: self.parts,
            kind: PhantomData,
        }
    }

    /// What it moves: a buffer, `(buffer, len)`, `(exposed, range)`, or a list of these
    /// (`Vec<Memory>`, at most 32), which comes back as it is.
    #[inline]
    pub fn memory(self, memory: impl Into<Memory>) -> Self {
        let (parts, memory) = (self.parts, memory.into());
        if !matches!(parts.memory, Memory::None) {
            return Self::from_parts(parts.apart().replace_memory(memory.apart()));
        }
        let Parts {
            operation,
            memory: none,
            flags,
            signaled,
            user_data,
            destination,
        } = parts;
        leave(none);
        Self::from_parts(Parts {
            operation,
            memory,
            flags,
            signaled,
            user_data,
            destination,
        })
    }

    /// How it is carried out, in addition to being signaled.
    #[inline]
    pub fn flags(mut self, flags: SendFlags) -> Self {
        self.parts.flags = flags;
        self
    }

    /// Reports no success: its memory comes back from
    /// [`released`](super::QueuePair::released) after the completion of a later request of its send
    /// queue. If it fails, it has a completion like any other request.
    ///
    /// A send queue of unsignaled requests alone fills up, and stays full.
    #[inline]
    pub fn unsignaled(mut self) -> Self {
        self.parts.signaled = false;
        self
    }

    /// A number that comes back when the request is finished.
    #[inline]
    pub fn user_data(mut self, user_data: u64) -> Self {
        self.parts.user_data = user_data;
        self
    }

    /// Takes the memory back out.
    #[inline]
    pub fn take_memory(self) -> Memory {
        self.parts.memory
    }
}

impl Memory {
    /// The buffer, if it is one.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Buffer(buffer, _) => Some(buffer),
            other => {
                finished::give_up(other);
                None
            }
        }
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Buffer(_, len) => *len,
            Self::Exposed(_, range) => range.len(),
            Self::List(list) => Self::len_of(list),
        }
    }

    #[cold]
    #[inline(never)]
    fn len_of(list: &[Self]) -> usize {
        list.iter().map(Self::len).sum()
    }

    /// True for no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`Parts::apart`].
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn apart(self) -> Self {
        match self {
            Self::None => Self::None,
            Self::Buffer(buffer, len) => Self::Buffer(buffer, len),
            Self::Exposed(exposed, range) => Self::Exposed(exposed, range),
            Self::List(list) => Self::List(list),
        }
    }

    /// The scatter/gather entry for the device: `None` for no memory, an error for a range outside
    /// of it, for memory of another protection domain, and for a list.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn sge(&self, pd: &ProtectionDomain) -> Result<Option<Sge>, PostError> {
        let sge = match self {
            Self::None => return Ok(None),
            Self::Buffer(buffer, len) if buffer.is_in(pd) => buffer.sge(*len),
            Self::Exposed(exposed, range) if exposed.is_in(pd) && range.start <= range.end => {
                exposed.sge(range.start, range.len())
            }
            _ => None,
        };
        sge.map(Some).ok_or(PostError::InvalidRequest)
    }
}

/// Drops what is known to be nothing: a drop that checks would need it in memory.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(super) fn leave<T>(nothing: T) {
    let _ = ManuallyDrop::new(nothing);
}

impl Parts {
    /// The same request as a new value. Anything of its size is passed on in memory; that is then
    /// this value, and the compiler can keep the original in registers.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn apart(self) -> Self {
        Self {
            operation: self.operation,
            memory: self.memory.apart(),
            flags: self.flags,
            signaled: self.signaled,
            user_data: self.user_data,
            destination: self.destination,
        }
    }

    #[cold]
    #[inline(never)]
    fn replace_memory(self, memory: Memory) -> Self {
        Self { memory, ..self }
    }
}

impl From<Vec<Memory>> for Memory {
    fn from(list: Vec<Memory>) -> Self {
        Self::List(list)
    }
}

impl From<(Buffer, usize)> for Memory {
    #[inline]
    fn from((buffer, len): (Buffer, usize)) -> Self {
        Self::Buffer(buffer, len)
    }
}

impl From<Buffer> for Memory {
    #[inline]
    fn from(buffer: Buffer) -> Self {
        let len = buffer.len();
        Self::Buffer(buffer, len)
    }
}

impl From<(ExposedMemory, Range<usize>)> for Memory {
    #[inline]
    fn from((exposed, range): (ExposedMemory, Range<usize>)) -> Self {
        Self::Exposed(exposed, range)
    }
}

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not posted: {}", self.error)
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl ReceiveRefused {
    pub(super) fn new(error: PostError, buffer: Buffer) -> Self {
        Self { error, buffer }
    }
}

impl fmt::Debug for ReceiveRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ReceiveRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not posted: {}", self.error)
    }
}

impl std::error::Error for ReceiveRefused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl fmt::Debug for MemoryRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for MemoryRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not posted: {}", self.error)
    }
}

impl std::error::Error for MemoryRefused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
