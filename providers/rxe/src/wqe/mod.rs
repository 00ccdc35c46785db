//! Work requests in rxe's words.

use uverbs_core::PostError;
use uverbs_core::hw::SharedRing;
use uverbs_core::types::{
    Address, DeviceCaps, Operation, Payload, Placement, QpType, RecvRequest, Remote, SendFlags,
    SendRequest, Sge,
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

/// What a request of a queue may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) kind: QpType,
    pub(crate) max_sge: u32,
    pub(crate) max_inline: u32,
    /// Longest message, in bytes.
    pub(crate) max_message: u64,
    pub(crate) device: DeviceCaps,
}

/// Where the pieces of a receive request start in its slot.
pub(crate) const RECV_HEADER: usize = size_of::<rxe_recv_wqe>();

/// Where the pieces, or the inline bytes, of a send request start in its slot.
pub(crate) const SEND_HEADER: usize = size_of::<rxe_send_wqe>();

/// Bytes of the words that slots are counted in.
const WORD: usize = 8;
const RECV_WORDS: u32 = words_of(RECV_HEADER);
const SEND_WORDS: u32 = words_of(SEND_HEADER);
const PIECE_WORDS: u32 = words_of(size_of::<rxe_sge>());

#[expect(clippy::cast_possible_truncation, reason = "structures are small")]
const fn words_of(bytes: usize) -> u32 {
    assert!(bytes.is_multiple_of(WORD), "slots are made of whole words");
    (bytes / WORD) as u32
}

/// `IB_SEND_INLINE`. Set by the payload alone: the kernel reads the pieces of a request that has it
/// as its data.
pub(crate) const SEND_INLINE: u32 = 1 << 3;

/// The flags that rxe knows; no other bit gets into a ring.
const KNOWN: SendFlags = SendFlags::FENCE
    .union(SendFlags::SIGNALED)
    .union(SendFlags::SOLICITED);

/// Writes a receive request into slot `index`.
#[inline]
pub(crate) fn put_recv(
    ring: &SharedRing,
    index: u32,
    request: &RecvRequest<'_>,
) -> Result<(), PostError> {
    let length = total(request.scatter)?;
    let header = rxe_recv_wqe {
        wr_id: request.wr_id,
        dma: dma(length, request.scatter.len()),
        ..rxe_recv_wqe::default()
    };
    let written =
        ring.put(index, 0, &header) && put_pieces(ring, index, RECV_WORDS, request.scatter);
    if written {
        Ok(())
    } else {
        Err(PostError::InvalidRequest)
    }
}

/// Checks a send request and writes it into slot `index`.
#[inline]
pub(crate) fn put_send(
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
    words(&mut Words(&mut header), request)?;
    let written = match (request.operation, request.payload) {
        (Operation::AtomicWrite { value, .. }, _) => {
            header.dma = dma(8, 0);
            ring.put(index, SEND_WORDS, &value)
        }
        (Operation::Flush { length, .. }, _) => {
            header.dma = dma(length, 0);
            true
        }
        (_, Payload::Gather(pieces)) => {
            header.dma = dma(length, pieces.len());
            put_pieces(ring, index, SEND_WORDS, pieces)
        }
        (_, Payload::Inline(pieces)) => {
            header.dma = dma(put_inline(ring, index, pieces, limits)?, 0);
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

fn dma(length: u32, pieces: usize) -> rxe_dma_info {
    rxe_dma_info {
        length,
        resid: length,
        // At most the queue's limit, which fits.
        num_sge: u32::try_from(pieces).unwrap_or(u32::MAX),
        ..rxe_dma_info::default()
    }
}

#[inline]
fn put_pieces(ring: &SharedRing, index: u32, mut at: u32, pieces: &[Sge]) -> bool {
    for piece in pieces {
        let words = rxe_sge {
            addr: piece.address,
            length: piece.length,
            lkey: piece.key.raw(),
        };
        if !ring.put(index, at, &words) {
            return false;
        }
        at += PIECE_WORDS;
    }
    true
}

/// The bytes of all pieces. The device counts them in 32 bits.
fn total(pieces: &[Sge]) -> Result<u32, PostError> {
    let asked = pieces.iter().map(|piece| u64::from(piece.length)).sum();
    u32::try_from(asked).map_err(|_| PostError::MessageTooLong {
        asked,
        max: u32::MAX.into(),
    })
}

/// Writes inline data, and tells how many bytes it is.
#[inline]
fn put_inline(
    ring: &SharedRing,
    index: u32,
    pieces: &[&[u8]],
    limits: &Limits,
) -> Result<u32, PostError> {
    let written = ring.put_bytes(index, SEND_WORDS, pieces, limits.max_inline as usize);
    let length = written.and_then(|length| u32::try_from(length).ok());
    length.ok_or_else(|| PostError::InlineTooLong {
        asked: Payload::Inline(pieces).len(),
        max: limits.max_inline,
    })
}

/// Refuses what the kernel would not check, or would punish with a dead queue. Tells how many bytes
/// pieces have.
#[inline]
fn check(limits: &Limits, request: &SendRequest<'_>) -> Result<u32, PostError> {
    if !is_supported(limits, &request.operation) {
        return Err(PostError::UnsupportedOperation);
    }
    if (limits.kind == QpType::Ud) != request.destination.is_some() {
        return Err(PostError::InvalidRequest);
    }
    let mut length = 0;
    if let Payload::Gather(pieces) = request.payload {
        length = gathered(limits, pieces)?;
    }
    let inline = matches!(request.payload, Payload::Inline(_));
    let asked = || request.payload.len();
    let valid = match request.operation {
        Operation::Read(_) => !inline,
        Operation::CompareSwap { remote, .. } | Operation::FetchAdd { remote, .. } => {
            !inline && length == 8 && remote.address.is_multiple_of(8)
        }
        Operation::AtomicWrite { remote, .. } => asked() == 0 && remote.address.is_multiple_of(8),
        Operation::Flush { placement, .. } => asked() == 0 && placement.is_known(),
        Operation::BindWindow(_) | Operation::LocalInvalidate(_) => asked() == 0,
        _ => true,
    };
    if valid {
        Ok(length)
    } else {
        Err(PostError::InvalidRequest)
    }
}

/// The bytes of pieces, if they are not too many.
fn gathered(limits: &Limits, pieces: &[Sge]) -> Result<u32, PostError> {
    let asked = pieces.iter().map(|piece| u64::from(piece.length)).sum();
    let too_long = PostError::MessageTooLong {
        asked,
        max: limits.max_message,
    };
    let length = u32::try_from(asked).map_err(|_| too_long)?;
    if asked > limits.max_message {
        return Err(too_long);
    }
    if pieces.len() > limits.max_sge as usize {
        return Err(PostError::TooManySges {
            asked: u32::try_from(pieces.len()).unwrap_or(u32::MAX),
            max: limits.max_sge,
        });
    }
    Ok(length)
}

/// Which operations the transport has; the last two also need a kernel (6.3) that announces them.
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

/// The words that depend on the operation, in a request that has none yet: they are written where
/// they belong, since a request that is put together elsewhere is copied once more.
struct Words<'a>(&'a mut rxe_send_wqe);

impl Words<'_> {
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

/// Says what is asked for.
#[inline]
fn words(words: &mut Words<'_>, request: &SendRequest<'_>) -> Result<(), PostError> {
    match request.operation {
        Operation::Send => message(words, IB_UVERBS_WR_SEND, request)?,
        Operation::SendImm(imm) => message(words, IB_UVERBS_WR_SEND_WITH_IMM, request)?.imm(imm),
        Operation::SendInvalidate(key) => {
            message(words, IB_UVERBS_WR_SEND_WITH_INV, request)?.invalidate(key.raw())
        }
        Operation::Write(remote) => words.rdma(IB_UVERBS_WR_RDMA_WRITE, remote),
        Operation::WriteImm(remote, imm) => words
            .rdma(IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, remote)
            .imm(imm),
        Operation::Read(remote) => words.rdma(IB_UVERBS_WR_RDMA_READ, remote),
        Operation::AtomicWrite { remote, .. } => words.rdma(IB_UVERBS_WR_ATOMIC_WRITE, remote),
        Operation::CompareSwap {
            remote,
            compare,
            swap,
        } => words.atomic(IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, remote, compare, swap),
        Operation::FetchAdd { remote, add } => {
            words.atomic(IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, remote, add, 0)
        }
        Operation::LocalInvalidate(key) => words
            .set(IB_UVERBS_WR_LOCAL_INV, rxe_send_wr_rdma::default(), 0)
            .invalidate(key.raw()),
        Operation::Flush {
            remote,
            length,
            placement,
            whole_region,
        } => flush(words, remote, length, placement, whole_region)?,
        Operation::BindWindow(binding) => {
            let bound = binding.length != 0;
            let wr = rxe_send_wr_mw {
                addr: binding.address,
                length: binding.length,
                mr_lkey: if bound { binding.region_key.raw() } else { 0 },
                mw_rkey: binding.window_key.raw(),
                rkey: binding.new_key.raw(),
                access: binding.asked()?.bits(),
            };
            words.set(IB_UVERBS_WR_BIND_MW, wr, 0)
        }
        _ => return Err(PostError::UnsupportedOperation),
    };
    Ok(())
}

/// A message to the peer's receive queue; a datagram says where that is.
fn message<'a, 'b>(
    words: &'a mut Words<'b>,
    opcode: u32,
    request: &SendRequest<'_>,
) -> Result<&'a mut Words<'b>, PostError> {
    let wr = match &request.destination {
        None => rxe_send_wr_wr::default(),
        Some(to) => rxe_send_wr_wr::from(rxe_send_wr_ud {
            remote_qpn: to.asked_qp_num()?,
            remote_qkey: to.qkey,
            ah_num: to.address.number(),
            av: path(to.address)?,
            ..rxe_send_wr_ud::default()
        }),
    };
    Ok(words.set(opcode, wr, 0))
}

/// The path of an address. Read by kernels that number no handles, and where the number is 0.
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
    words: &'a mut Words<'b>,
    remote: Remote,
    length: u32,
    placement: Placement,
    whole_region: bool,
) -> Result<&'a mut Words<'b>, PostError> {
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
    Ok(words.set(IB_UVERBS_WR_FLUSH, wr, remote.address))
}

#[cfg(test)]
mod tests;
