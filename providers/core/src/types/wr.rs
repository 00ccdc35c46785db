//! Work requests: what is posted to a send or a receive queue.
//!
//! A request is a plain value. Whether posting it is safe depends on the memory that it names, so
//! the functions that take scatter/gather entries are `unsafe` and list what the caller must
//! uphold.

use std::sync::Arc;

use super::{AccessFlags, LocalKey, MULTICAST_QPN, MwType, Remote, RemoteKey};
use crate::error::{PostError, Result};
use crate::file::UverbsFile;
use crate::object::Object;

/// Work request ids from here on (bit 63 set) are reserved for queues that own their memory.
///
/// The ids that users choose are smaller, so that their completions are never mistaken for those of
/// such a queue. Safe functions refuse a request with a reserved id; callers of `unsafe` ones must
/// not use one.
pub const RESERVED_WR_IDS: u64 = 1 << 63;

/// A scatter/gather entry: a range of local memory (`ibv_sge`).
#[doc(alias = "ibv_sge")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Sge {
    /// Where it starts, as an address in the memory region that `key` names.
    pub address: u64,
    /// Bytes. 0 means no memory.
    pub length: u32,
    /// The memory region.
    pub key: LocalKey,
}

request_flags! {
    /// `ibv_send_flags`—how a send request is carried out (`enum ibv_send_flags`).
    ///
    /// Queues accept the flags that their device knows; no other bit is written to a ring.
    #[doc(alias = "ibv_send_flags")]
    pub struct SendFlags: u32 {
        /// Start only after all earlier reads and atomics have finished.
        FENCE = 1, "IBV_SEND_FENCE";
        /// Generate a completion on success too, not only on failure.
        SIGNALED = 1 << 1, "IBV_SEND_SIGNALED";
        /// Raise a solicited event at the receiver.
        SOLICITED = 1 << 2, "IBV_SEND_SOLICITED";
        /// Let the device compute checksums.
        IP_CHECKSUM = 1 << 4, "IBV_SEND_IP_CSUM";
    }
}

/// What a send request does.
// With the remote address in the same place in all of them: otherwise the compiler keeps it in
// memory where it does not know the operation yet.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// Send to the peer's receive queue (`IBV_WR_SEND`).
    Send,
    /// Send with an immediate value, which appears in the peer's completion
    /// (`IBV_WR_SEND_WITH_IMM`); in host byte order here.
    SendImm(u32),
    /// Send, and invalidate this rkey of the peer on arrival (`IBV_WR_SEND_WITH_INV`).
    SendInvalidate(RemoteKey),
    /// Write into the peer's memory (`IBV_WR_RDMA_WRITE`).
    Write(Remote),
    /// Write with an immediate value, for which the peer gets a completion
    /// (`IBV_WR_RDMA_WRITE_WITH_IMM`).
    WriteImm(Remote, u32),
    /// Read from the peer's memory into the scatter/gather entries (`IBV_WR_RDMA_READ`).
    Read(Remote),
    /// Replace 8 bytes if they equal `compare`; the old value is written to the scatter/gather
    /// entry (`IBV_WR_ATOMIC_CMP_AND_SWP`).
    CompareSwap {
        /// 8 bytes, aligned to 8.
        remote: Remote,
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Add to 8 bytes; the old value is written to the scatter/gather entry
    /// (`IBV_WR_ATOMIC_FETCH_AND_ADD`).
    FetchAdd {
        /// 8 bytes, aligned to 8.
        remote: Remote,
        /// What is added, modulo 2^64.
        add: u64,
    },
    /// Store 8 bytes atomically in the peer's memory (`ibv_wr_atomic_write`).
    AtomicWrite {
        /// 8 bytes, aligned to 8.
        remote: Remote,
        /// The bytes.
        value: [u8; 8],
    },
    /// Make earlier writes to the peer's memory visible or persistent (`ibv_wr_flush`).
    Flush {
        /// Where the range starts.
        remote: Remote,
        /// Bytes in the range.
        length: u32,
        /// Visible, persistent, or both.
        placement: Placement,
        /// Flush the whole region instead of the range.
        whole_region: bool,
    },
    /// Bind a memory window (`IBV_WR_BIND_MW`).
    BindWindow(&'a WindowBinding),
    /// Invalidate a local key: a bound window's, or a region's (`IBV_WR_LOCAL_INV`).
    LocalInvalidate(RemoteKey),
}

request_flags! {
    /// How far a flush pushes data (`enum ib_placement_type`).
    pub struct Placement: u32 {
        /// Visible to everyone who reads the memory.
        GLOBAL = 1, "IB_FLUSH_GLOBAL";
        /// Written to persistent memory.
        PERSISTENT = 2, "IB_FLUSH_PERSISTENT";
    }
}

impl Placement {
    /// Whether at least one placement is set, and no unknown bit.
    pub const fn is_known(self) -> bool {
        !self.is_empty() && Self::all().contains(self)
    }
}

/// What a memory window is bound to.
#[derive(Clone, Copy, Debug)]
pub struct WindowBinding {
    /// The window's type.
    pub kind: MwType,
    /// The window's current key.
    pub window_key: RemoteKey,
    /// The window's new key; only the low 8 bits may differ.
    pub new_key: RemoteKey,
    /// The region, registered with `MW_BIND`.
    pub region_key: LocalKey,
    /// Where the window starts.
    pub address: u64,
    /// Bytes; 0 unbinds.
    pub length: u64,
    /// What peers may do through the window.
    pub access: AccessFlags,
}

/// The access rights that apply to windows.
const OF_WINDOWS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::ZERO_BASED)
    .union(AccessFlags::FLUSH_GLOBAL)
    .union(AccessFlags::FLUSH_PERSISTENT);

impl WindowBinding {
    /// The access rights to write to a ring: those that apply to windows. Optional ones are left
    /// out.
    ///
    /// # Errors
    /// [`PostError::InvalidRequest`] for other rights, and for a type without a name.
    pub fn checked(&self) -> Result<AccessFlags, PostError> {
        let access = self.access.without_optional();
        match self.kind {
            MwType::Type1 | MwType::Type2 if OF_WINDOWS.contains(access) => Ok(access),
            _ => Err(PostError::InvalidRequest),
        }
    }
}

/// The data of a send request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Payload<'a> {
    /// Registered memory that the device reads (or, for reads and atomics, writes) while the
    /// request is under way.
    Gather(&'a [Sge]),
    /// Inline data: bytes copied into the queue when the request is posted; they need no
    /// registration (`IBV_SEND_INLINE`).
    #[doc(alias = "IBV_SEND_INLINE")]
    Inline(&'a [&'a [u8]]),
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The path.
    pub address: &'a Address,
    /// The queue pair there, 24 bits.
    pub qp_num: u32,
    /// Its queue key.
    pub qkey: u32,
}

impl Destination<'_> {
    /// The queue pair number to write to a ring.
    ///
    /// # Errors
    /// [`PostError::InvalidRequest`] for a number that does not fit its field.
    #[inline]
    pub const fn checked_qp_num(&self) -> Result<u32, PostError> {
        if self.qp_num > MULTICAST_QPN {
            return Err(PostError::InvalidRequest);
        }
        Ok(self.qp_num)
    }
}

/// An address handle in the form that work requests carry.
///
/// A provider fills in what its device reads: a number assigned by the kernel, or a vector of
/// bytes.
#[derive(Clone, Debug)]
pub struct Address {
    object: Option<Arc<Object>>,
    number: u32,
    vector: [u8; 88],
}

impl Address {
    /// An address handle that a provider created on a device: the kernel object, `None` where the
    /// address is local to this library; the kernel's number for it, 0 for none; and the
    /// device-specific form.
    #[doc(hidden)] // Providers make them; users have them from address handles.
    pub fn new(
        made_on: &UverbsFile,
        object: Option<Arc<Object>>,
        number: u32,
        vector: [u8; 88],
    ) -> Self {
        // The argument is a proof: without an opened file no address can be constructed.
        let _ = made_on;
        Self {
            object,
            number,
            vector,
        }
    }

    /// The kernel object's handle, if there is one.
    pub(crate) fn handle(&self) -> Option<u32> {
        self.object.as_deref().map(Object::handle)
    }

    /// The kernel's number for it; 0 for none.
    #[inline]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The device-specific form.
    #[inline]
    pub fn vector(&self) -> &[u8; 88] {
        &self.vector
    }

    /// `ibv_destroy_ah`—destroys the kernel object, if there is one.
    ///
    /// # Errors
    /// As [`Object::destroy_shared`].
    pub fn destroy(self) -> Result<()> {
        match self.object {
            Some(object) => Object::destroy_shared(object).map(drop),
            None => Ok(()),
        }
    }
}

/// A send request (`ibv_send_wr`).
#[doc(alias = "ibv_send_wr")]
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// Returned in the completion. Below [`RESERVED_WR_IDS`].
    pub wr_id: u64,
    /// How it is carried out.
    pub flags: SendFlags,
    /// What it does.
    pub operation: Operation<'a>,
    /// Its data.
    pub payload: Payload<'a>,
    /// Its destination; datagram queue pairs only.
    pub destination: Option<Destination<'a>>,
}

/// A receive request (`ibv_recv_wr`).
#[doc(alias = "ibv_recv_wr")]
#[derive(Clone, Copy, Debug)]
pub struct RecvRequest<'a> {
    /// Returned in the completion. Below [`RESERVED_WR_IDS`].
    pub wr_id: u64,
    /// The memory that the message is written to. A datagram queue pair needs 40 more bytes, for
    /// the global routing header.
    pub scatter: &'a [Sge],
}

impl<'a> SendRequest<'a> {
    /// A request for `operation` with `payload`: `wr_id` 0, not signaled.
    pub const fn new(operation: Operation<'a>, payload: Payload<'a>) -> Self {
        Self {
            wr_id: 0,
            flags: SendFlags::empty(),
            operation,
            payload,
            destination: None,
        }
    }

    /// Sends the memory of the scatter/gather entries.
    pub const fn send(gather: &'a [Sge]) -> Self {
        Self::new(Operation::Send, Payload::Gather(gather))
    }

    /// Sends inline data.
    pub const fn send_inline(bytes: &'a [&'a [u8]]) -> Self {
        Self::new(Operation::Send, Payload::Inline(bytes))
    }

    /// Writes the memory of the scatter/gather entries to `remote`.
    pub const fn write(gather: &'a [Sge], remote: Remote) -> Self {
        Self::new(Operation::Write(remote), Payload::Gather(gather))
    }

    /// Reads from `remote` into the scatter/gather entries.
    pub const fn read(scatter: &'a [Sge], remote: Remote) -> Self {
        Self::new(Operation::Read(remote), Payload::Gather(scatter))
    }

    /// Sets the `wr_id` that the completion returns. Below [`RESERVED_WR_IDS`].
    #[must_use]
    pub const fn wr_id(mut self, wr_id: u64) -> Self {
        self.wr_id = wr_id;
        self
    }

    /// Asks for a completion on success, too.
    #[must_use]
    pub fn signaled(mut self) -> Self {
        self.flags |= SendFlags::SIGNALED;
        self
    }

    /// Adds flags.
    #[must_use]
    pub fn with(mut self, flags: SendFlags) -> Self {
        self.flags |= flags;
        self
    }

    /// Sets the destination of a datagram.
    #[must_use]
    pub const fn to(mut self, destination: Destination<'a>) -> Self {
        self.destination = Some(destination);
        self
    }
}

impl Payload<'_> {
    /// The payload of operations that move no data.
    pub const NONE: Payload<'static> = Payload::Gather(&[]);

    /// Total bytes; no sum of lengths overflows 64 bits.
    pub fn len(&self) -> u64 {
        match self {
            Self::Gather(entries) => entries.iter().map(|sge| u64::from(sge.length)).sum(),
            Self::Inline(parts) => parts.iter().map(|part| part.len() as u64).sum(),
        }
    }

    /// True for no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
