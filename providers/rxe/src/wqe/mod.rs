//! Encodes work requests in rxe's format.

use uverbs_core::PostError;
use uverbs_core::hw::SharedRing;
use uverbs_core::types::{
    Address, DeviceCaps, Operation, Payload, Placement, QpType, Remote, SendFlags, SendRequest, Sge,
};
use uverbs_uapi::byte_order::__be32;
use uverbs_uapi::ib_user_verbs::{
    IB_FLUSH_MR, IB_FLUSH_RANGE, IB_UVERBS_WR_ATOMIC_CMP_AND_SWP,
    IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, IB_UVERBS_WR_ATOMIC_WRITE, IB_UVERBS_WR_BIND_MW,
    IB_UVERBS_WR_FLUSH, IB_UVERBS_WR_LOCAL_INV, IB_UVERBS_WR_RDMA_READ, IB_UVERBS_WR_RDMA_WRITE,
    IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, IB_UVERBS_WR_SEND, IB_UVERBS_WR_SEND_WITH_IMM,
    IB_UVERBS_WR_SEND_WITH_INV,
};
use uverbs_uapi::rdma_user_rxe::{
    RXE_NETWORK_TYPE_IPV4, RXE_NETWORK_TYPE_IPV6, rxe_av, rxe_dma_info, rxe_recv_wqe, rxe_send_wqe,
    rxe_send_wr_atomic, rxe_send_wr_ex, rxe_send_wr_flush, rxe_send_wr_mw, rxe_send_wr_rdma,
    rxe_send_wr_ud, rxe_send_wr_wr, rxe_sge,
};
use zerocopy::transmute;

mod message;
mod receive;

pub(crate) use receive::{put_recv, put_recv_of_one};

/// The limits of a queue's requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) kind: QpType,
    pub(crate) max_sge: u32,
    pub(crate) max_inline: u32,
    /// Longest message, in bytes.
    pub(crate) max_message: u64,
    pub(crate) device: DeviceCaps,
}

/// Offset of the scatter/gather entries in a receive request's slot.
pub(crate) const RECV_HEADER: usize = size_of::<rxe_recv_wqe>();

/// Offset of the scatter/gather entries, or the inline data, in a send request's slot.
pub(crate) const SEND_HEADER: usize = size_of::<rxe_send_wqe>();

/// Slots are addressed in words of this many bytes.
const WORD: usize = 8;
const RECV_WORDS: u32 = words_of(RECV_HEADER);
const SEND_WORDS: u32 = words_of(SEND_HEADER);
const SGE_WORDS: u32 = words_of(size_of::<rxe_sge>());

#[expect(clippy::cast_possible_truncation, reason = "structures are small")]
const fn words_of(bytes: usize) -> u32 {
    assert!(bytes.is_multiple_of(WORD), "slots consist of whole words");
    (bytes / WORD) as u32
}

/// `IB_SEND_INLINE`. Determined by the payload alone: with this flag the kernel takes the
/// scatter/gather entries for the request's data.
pub(crate) const SEND_INLINE: u32 = 1 << 3;

/// The flags that rxe knows; no other bit is written to a ring.
const KNOWN: SendFlags = SendFlags::FENCE
    .union(SendFlags::SIGNALED)
    .union(SendFlags::SOLICITED);

/// Checks a send request and writes it into slot `index`.
#[inline]
pub(crate) fn put_send(
    ring: &SharedRing,
    index: u32,
    limits: &Limits,
    request: &SendRequest<'_>,
) -> Result<(), PostError> {
    match request.operation {
        Operation::Send if connected(limits, request) => {
            message::put(ring, index, limits, request, IB_UVERBS_WR_SEND, 0)
        }
        Operation::SendImm(imm) if connected(limits, request) => {
            let opcode = IB_UVERBS_WR_SEND_WITH_IMM;
            message::put(ring, index, limits, request, opcode, imm.to_be())
        }
        _ => put_any(ring, index, limits, request),
    }
}

/// Whether the queue is connected, and the request has no destination of its own.
#[inline]
fn connected(limits: &Limits, request: &SendRequest<'_>) -> bool {
    limits.kind != QpType::Ud && request.destination.is_none()
}

fn put_any(
    ring: &SharedRing,
    index: u32,
    limits: &Limits,
    request: &SendRequest<'_>,
) -> Result<(), PostError> {
    let length = check(limits, request)?;
    let inline = matches!(request.payload, Payload::Inline(_));
    let mut header = rxe_send_wqe::default();
    header.wr.wr_id = request.wr_id;
    header.wr.send_flags =
        request.flags.bits() & KNOWN.bits() | if inline { SEND_INLINE } else { 0 };
    encode_operation(&mut OperationFields(&mut header), request)?;
    let written = match (request.operation, request.payload) {
        (Operation::AtomicWrite { value, .. }, _) => {
            header.dma = dma(8, 0);
            ring.put(index, SEND_WORDS, &value)
        }
        (Operation::Flush { length, .. }, _) => {
            header.dma = dma(length, 0);
            true
        }
        (_, Payload::Gather(sges)) => {
            header.dma = dma(length, sges.len());
            put_sges(ring, index, SEND_WORDS, sges)
        }
        (_, Payload::Inline(parts)) => {
            header.dma = dma(put_inline(ring, index, parts, limits)?, 0);
            true
        }
        _ => return Err(PostError::UnsupportedOperation),
    };
    if written && ring.put(index, 0, &header) {
        Ok(())
    } else {
        Err(PostError::InvalidRequest)
    }
}

#[inline]
fn dma(length: u32, sges: usize) -> rxe_dma_info {
    rxe_dma_info {
        length,
        resid: length,
        // At most the queue's limit, which fits.
        num_sge: u32::try_from(sges).unwrap_or(u32::MAX),
        ..rxe_dma_info::default()
    }
}

#[inline]
fn sge(of: &Sge) -> rxe_sge {
    rxe_sge {
        addr: of.address,
        length: of.length,
        lkey: of.key.raw(),
    }
}

#[inline]
fn put_sges(ring: &SharedRing, index: u32, mut at: u32, sges: &[Sge]) -> bool {
    for entry in sges {
        if !ring.put(index, at, &sge(entry)) {
            return false;
        }
        at += SGE_WORDS;
    }
    true
}

/// Writes inline data, and returns its length.
#[inline]
fn put_inline(
    ring: &SharedRing,
    index: u32,
    parts: &[&[u8]],
    limits: &Limits,
) -> Result<u32, PostError> {
    let written = ring.put_bytes(index, SEND_WORDS, parts, limits.max_inline as usize);
    let length = written.and_then(|length| u32::try_from(length).ok());
    length.ok_or_else(|| PostError::InlineTooLong {
        requested: Payload::Inline(parts).len(),
        max: limits.max_inline,
    })
}

/// Refuses requests that the kernel would not check, or for which it would move the queue pair to
/// the error state. Returns the total length of the scatter/gather entries.
#[inline]
fn check(limits: &Limits, request: &SendRequest<'_>) -> Result<u32, PostError> {
    if !is_supported(limits, &request.operation) {
        return Err(PostError::UnsupportedOperation);
    }
    if (limits.kind == QpType::Ud) != request.destination.is_some() {
        return Err(PostError::InvalidRequest);
    }
    let mut length = 0;
    if let Payload::Gather(sges) = request.payload {
        length = gathered(limits, sges)?;
    }
    let inline = matches!(request.payload, Payload::Inline(_));
    let requested = || request.payload.len();
    let valid = match request.operation {
        Operation::Read(_) => !inline,
        Operation::CompareSwap { remote, .. } | Operation::FetchAdd { remote, .. } => {
            !inline && length == 8 && remote.address.is_multiple_of(8)
        }
        Operation::AtomicWrite { remote, .. } => {
            requested() == 0 && remote.address.is_multiple_of(8)
        }
        Operation::Flush { placement, .. } => requested() == 0 && placement.is_known(),
        Operation::BindWindow(_) | Operation::LocalInvalidate(_) => requested() == 0,
        _ => true,
    };
    if valid {
        Ok(length)
    } else {
        Err(PostError::InvalidRequest)
    }
}

/// The total length of the scatter/gather entries, if neither it nor their number is too large.
fn gathered(limits: &Limits, sges: &[Sge]) -> Result<u32, PostError> {
    let requested = sges.iter().map(|sge| u64::from(sge.length)).sum();
    let too_long = PostError::MessageTooLong {
        requested,
        max: limits.max_message,
    };
    let length = u32::try_from(requested).map_err(|_| too_long)?;
    if requested > limits.max_message {
        return Err(too_long);
    }
    if sges.len() > limits.max_sge as usize {
        return Err(PostError::TooManySges {
            requested: u32::try_from(sges.len()).unwrap_or(u32::MAX),
            max: limits.max_sge,
        });
    }
    Ok(length)
}

/// Whether the transport has the operation; the last two also need a kernel (6.3) that announces
/// them.
fn is_supported(limits: &Limits, operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Send | Operation::SendImm(_) => true,
        Operation::SendInvalidate(_)
        | Operation::Write(_)
        | Operation::WriteImm(..)
        | Operation::BindWindow(_) => {
            matches!(limits.kind, QpType::Rc | QpType::Uc)
        }
        Operation::Read(_)
        | Operation::CompareSwap { .. }
        | Operation::FetchAdd { .. }
        | Operation::LocalInvalidate(_) => limits.kind == QpType::Rc,
        Operation::AtomicWrite { .. } => {
            limits.kind == QpType::Rc && limits.device.contains(DeviceCaps::ATOMIC_WRITE)
        }
        Operation::Flush { placement, .. } => {
            let needed = [
                (Placement::GLOBAL, DeviceCaps::FLUSH_GLOBAL),
                (Placement::PERSISTENT, DeviceCaps::FLUSH_PERSISTENT),
            ];
            limits.kind == QpType::Rc
                && needed
                    .iter()
                    .all(|(bit, cap)| !placement.contains(*bit) || limits.device.contains(*cap))
        }
        _ => false,
    }
}

/// Sets the fields that depend on the operation, in a request that has none yet. They are written
/// in place, since assembling them elsewhere would cost another copy.
struct OperationFields<'a>(&'a mut rxe_send_wqe);

impl OperationFields<'_> {
    #[inline]
    fn set(&mut self, opcode: u32, wr: impl Into<rxe_send_wr_wr>, iova: u64) -> &mut Self {
        self.0.wr.opcode = opcode;
        self.0.wr.wr = wr.into();
        self.0.iova = iova;
        self
    }

    #[inline]
    fn rdma(&mut self, opcode: u32, remote: Remote) -> &mut Self {
        let wr = rxe_send_wr_rdma {
            remote_addr: remote.address,
            rkey: remote.key.raw(),
            reserved: 0,
        };
        self.set(opcode, wr, remote.address)
    }

    #[inline]
    fn atomic(&mut self, opcode: u32, remote: Remote, compare_add: u64, swap: u64) -> &mut Self {
        let wr = rxe_send_wr_atomic {
            remote_addr: remote.address,
            compare_add,
            swap,
            rkey: remote.key.raw(),
            reserved: 0,
        };
        self.set(opcode, wr, remote.address)
    }

    #[inline]
    fn imm(&mut self, imm: u32) -> &mut Self {
        self.0.wr.ex = rxe_send_wr_ex::from(__be32::new(imm));
        self
    }

    #[inline]
    fn invalidate(&mut self, key: u32) -> &mut Self {
        self.0.wr.ex = rxe_send_wr_ex::from(key);
        self
    }
}

/// Encodes the operation.
#[inline]
fn encode_operation(
    fields: &mut OperationFields<'_>,
    request: &SendRequest<'_>,
) -> Result<(), PostError> {
    match request.operation {
        Operation::Send => message(fields, IB_UVERBS_WR_SEND, request)?,
        Operation::SendImm(imm) => message(fields, IB_UVERBS_WR_SEND_WITH_IMM, request)?.imm(imm),
        Operation::SendInvalidate(key) => {
            message(fields, IB_UVERBS_WR_SEND_WITH_INV, request)?.invalidate(key.raw())
        }
        Operation::Write(remote) => fields.rdma(IB_UVERBS_WR_RDMA_WRITE, remote),
        Operation::WriteImm(remote, imm) => fields
            .rdma(IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, remote)
            .imm(imm),
        Operation::Read(remote) => fields.rdma(IB_UVERBS_WR_RDMA_READ, remote),
        Operation::AtomicWrite { remote, .. } => fields.rdma(IB_UVERBS_WR_ATOMIC_WRITE, remote),
        Operation::CompareSwap {
            remote,
            compare,
            swap,
        } => fields.atomic(IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, remote, compare, swap),
        Operation::FetchAdd { remote, add } => {
            fields.atomic(IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, remote, add, 0)
        }
        Operation::LocalInvalidate(key) => fields
            .set(IB_UVERBS_WR_LOCAL_INV, rxe_send_wr_rdma::default(), 0)
            .invalidate(key.raw()),
        Operation::Flush {
            remote,
            length,
            placement,
            whole_region,
        } => flush(fields, remote, length, placement, whole_region)?,
        Operation::BindWindow(binding) => {
            let bound = binding.length != 0;
            let wr = rxe_send_wr_mw {
                addr: binding.address,
                length: binding.length,
                mr_lkey: if bound { binding.region_key.raw() } else { 0 },
                mw_rkey: binding.window_key.raw(),
                rkey: binding.new_key.raw(),
                access: binding.checked()?.bits(),
            };
            fields.set(IB_UVERBS_WR_BIND_MW, wr, 0)
        }
        _ => return Err(PostError::UnsupportedOperation),
    };
    Ok(())
}

/// A message to the peer's receive queue; a datagram carries its destination.
fn message<'a, 'b>(
    fields: &'a mut OperationFields<'b>,
    opcode: u32,
    request: &SendRequest<'_>,
) -> Result<&'a mut OperationFields<'b>, PostError> {
    let wr = match &request.destination {
        None => rxe_send_wr_wr::default(),
        Some(to) => rxe_send_wr_wr::from(rxe_send_wr_ud {
            remote_qpn: to.checked_qp_num()?,
            remote_qkey: to.qkey,
            ah_num: to.address.number(),
            av: path(to.address)?,
            ..rxe_send_wr_ud::default()
        }),
    };
    Ok(fields.set(opcode, wr, 0))
}

/// The path of an address. Kernels that do not number handles use it, and those that do if the
/// number is 0.
fn path(address: &Address) -> Result<rxe_av, PostError> {
    let path: rxe_av = transmute!(*address.vector());
    let network = u32::from(path.network_type);
    if address.number() == 0 && network != RXE_NETWORK_TYPE_IPV4 && network != RXE_NETWORK_TYPE_IPV6
    {
        return Err(PostError::InvalidRequest);
    }
    Ok(path)
}

fn flush<'a, 'b>(
    fields: &'a mut OperationFields<'b>,
    remote: Remote,
    length: u32,
    placement: Placement,
    whole_region: bool,
) -> Result<&'a mut OperationFields<'b>, PostError> {
    let level = if whole_region {
        IB_FLUSH_MR
    } else {
        IB_FLUSH_RANGE
    };
    let wr = rxe_send_wr_flush {
        remote_addr: remote.address,
        length,
        rkey: remote.key.raw(),
        r#type: u8::try_from(placement.bits()).map_err(|_| PostError::InvalidRequest)?,
        level: u8::try_from(level).map_err(|_| PostError::InvalidRequest)?,
        ..rxe_send_wr_flush::default()
    };
    Ok(fields.set(IB_UVERBS_WR_FLUSH, wr, remote.address))
}

#[cfg(test)]
mod tests;
