//! The segments after the control segment of a send request.

use uverbs_core::PostError;
use uverbs_core::hw::UnitRing;
use uverbs_core::types::{Operation, Payload, SendRequest, Sge, WcOpcode};

use crate::wqe::inline::{self, Packer};
use crate::wqe::operations::Operations;
use crate::wqe::umr;
use crate::wqe::{self, Unit, control, opcode};

/// The longest message: one bit less than its length field has, which marks inline data.
const MAX_MESSAGE: u64 = MAX_SGE_LENGTH as u64;
pub(crate) const MAX_SGE_LENGTH: u32 = (1 << 31) - 1;

/// The limits of a queue's requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_sge: u32,
    pub(crate) max_inline: u32,
    pub(crate) operations: Operations,
    /// The number of the queue pair.
    pub(crate) qpn: u32,
}

/// A request being written: its first unit, the control segment, is written last.
pub(crate) struct Writer<'r> {
    pub(crate) ring: &'r UnitRing,
    pub(crate) at: u32,
}

impl Writer<'_> {
    #[inline]
    pub(crate) fn unit(&mut self, unit: Unit) {
        self.ring.put(self.at, unit);
        self.at = self.at.wrapping_add(1);
    }

    pub(crate) fn units(&mut self, units: &[Unit]) {
        for unit in units {
            self.unit(*unit);
        }
    }
}

/// The content of a request's control segment, and of its completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) opcode: u32,
    pub(crate) immediate: u32,
    pub(crate) completion: WcOpcode,
    /// What the next request has to wait for.
    pub(crate) fence: u32,
    /// The request's stream of a DC initiator, as encoded in the control segment
    /// ([`wqe::stream_bits`]).
    pub(crate) stream: u32,
}

impl Kind {
    #[inline]
    pub(crate) const fn new(opcode: u32, immediate: u32, completion: WcOpcode) -> Self {
        Self {
            opcode,
            immediate,
            completion,
            fence: 0,
            stream: 0,
        }
    }
}

/// Writes the segments that the operation needs, and the data.
#[inline]
pub(crate) fn operation(
    writer: &mut Writer<'_>,
    limits: &Limits,
    request: &SendRequest<'_>,
) -> Result<Kind, PostError> {
    let allowed = |operations| {
        if limits.operations.contains(operations) {
            Ok(())
        } else {
            Err(PostError::UnsupportedOperation)
        }
    };
    let kind = match request.operation {
        Operation::Write(remote) => {
            allowed(Operations::WRITE)?;
            writer.unit(wqe::remote(remote));
            Kind::new(opcode::WRITE, 0, WcOpcode::RdmaWrite)
        }
        Operation::Send => Kind::new(opcode::SEND, 0, WcOpcode::Send),
        Operation::SendImm(imm) => {
            allowed(Operations::SEND_IMM)?;
            Kind::new(opcode::SEND_IMM, imm, WcOpcode::Send)
        }
        Operation::SendInvalidate(key) => {
            allowed(Operations::SEND_INVALIDATE)?;
            Kind::new(opcode::SEND_INVALIDATE, key.raw(), WcOpcode::Send)
        }
        Operation::WriteImm(remote, imm) => {
            allowed(Operations::WRITE)?;
            writer.unit(wqe::remote(remote));
            Kind::new(opcode::WRITE_IMM, imm, WcOpcode::RdmaWrite)
        }
        Operation::Read(remote) => {
            allowed(Operations::READ)?;
            let Payload::Gather(_) = request.payload else {
                return Err(PostError::InvalidRequest);
            };
            writer.unit(wqe::remote(remote));
            Kind::new(opcode::READ, 0, WcOpcode::RdmaRead)
        }
        Operation::CompareSwap {
            remote,
            compare,
            swap,
        } => {
            allowed(Operations::ATOMIC)?;
            let sge = atomic_sge(request, remote.address)?;
            writer.units(&[wqe::remote(remote), wqe::atomic(swap, compare), sge]);
            return Ok(Kind::new(opcode::COMPARE_SWAP, 0, WcOpcode::CompareSwap));
        }
        Operation::FetchAdd { remote, add } => {
            allowed(Operations::ATOMIC)?;
            let sge = atomic_sge(request, remote.address)?;
            writer.units(&[wqe::remote(remote), wqe::atomic(add, 0), sge]);
            return Ok(Kind::new(opcode::FETCH_ADD, 0, WcOpcode::FetchAdd));
        }
        Operation::BindWindow(_) | Operation::LocalInvalidate(_) => {
            allowed(Operations::CHANGE_KEY)?;
            return change_key(writer, request, limits);
        }
        _ => return Err(PostError::UnsupportedOperation),
    };
    payload(writer, limits, &request.payload)?;
    Ok(kind)
}

/// Writes the data.
#[inline]
fn payload(
    writer: &mut Writer<'_>,
    limits: &Limits,
    payload: &Payload<'_>,
) -> Result<(), PostError> {
    match *payload {
        Payload::Gather(sges) => gather(writer, limits.max_sge, sges),
        Payload::Inline(slices) => inline(writer, limits.max_inline, slices),
        _ => Err(PostError::UnsupportedOperation),
    }
}

pub(crate) fn gather(writer: &mut Writer<'_>, max_sge: u32, sges: &[Sge]) -> Result<(), PostError> {
    gather_behind(writer, max_sge, sges, 0)
}

/// Writes the scatter/gather entries except for their first `skip` bytes.
#[expect(
    clippy::inline_always,
    reason = "nothing to skip is known when this is compiled"
)]
#[inline(always)]
pub(crate) fn gather_behind(
    writer: &mut Writer<'_>,
    max_sge: u32,
    sges: &[Sge],
    mut skip: u32,
) -> Result<(), PostError> {
    if sges.len() > max_sge as usize {
        return Err(PostError::TooManySges {
            requested: u32::try_from(sges.len()).unwrap_or(u32::MAX),
            max: max_sge,
        });
    }
    let mut total = 0;
    for sge in sges {
        let before = skip.min(sge.length);
        skip -= before;
        if sge.length != before {
            total += u64::from(sge.length - before);
            writer.unit(wqe::data(&Sge {
                address: sge.address.wrapping_add(before.into()),
                length: sge.length - before,
                ..*sge
            }));
        }
    }
    if total > MAX_MESSAGE {
        return Err(PostError::MessageTooLong {
            requested: total,
            max: MAX_MESSAGE,
        });
    }
    Ok(())
}

fn inline(writer: &mut Writer<'_>, max_inline: u32, slices: &[&[u8]]) -> Result<(), PostError> {
    let requested = Payload::Inline(slices).len();
    let length = u32::try_from(requested)
        .ok()
        .filter(|length| *length <= max_inline)
        .ok_or(PostError::InlineTooLong {
            requested,
            max: max_inline,
        })?;
    if length == 0 {
        return Ok(());
    }
    if let [slice] = slices
        && let Some((start, rest)) = slice.split_first_chunk()
    {
        writer.at = inline::put_slice(writer.ring, writer.at, start, rest);
        return Ok(());
    }
    let mut packer = Packer::with_head(writer.ring, writer.at, length);
    for slice in slices {
        packer.push(slice);
    }
    writer.at = packer.finish();
    Ok(())
}

/// Whether an atomic operation on the peer's `address` can return the old value to this entry.
#[inline]
pub(crate) const fn is_atomic(sge: &Sge, address: u64) -> bool {
    sge.length == 8 && address.is_multiple_of(8)
}

/// The scatter/gather entry for the old value of an atomic operation.
fn atomic_sge(request: &SendRequest<'_>, address: u64) -> Result<Unit, PostError> {
    match request.payload {
        Payload::Gather([sge]) if is_atomic(sge, address) => Ok(wqe::data(sge)),
        _ => Err(PostError::InvalidRequest),
    }
}

/// Writes the segments of a bind or an invalidation.
fn change_key(
    writer: &mut Writer<'_>,
    request: &SendRequest<'_>,
    limits: &Limits,
) -> Result<Kind, PostError> {
    if !request.payload.is_empty() {
        return Err(PostError::InvalidRequest);
    }
    let (key, completion) = match request.operation {
        Operation::BindWindow(binding) => {
            let units = umr::bind(binding, limits.qpn)?;
            let count = if binding.length == 0 {
                umr::INVALIDATE_UNITS
            } else {
                umr::BIND_UNITS
            };
            writer.units(units.get(..count).unwrap_or(&units));
            (binding.window_key, WcOpcode::BindMw)
        }
        Operation::LocalInvalidate(key) => {
            writer.units(&umr::invalidate());
            (key, WcOpcode::LocalInvalidate)
        }
        _ => return Err(PostError::UnsupportedOperation),
    };
    Ok(Kind {
        fence: control::SMALL_FENCE,
        ..Kind::new(opcode::UMR, key.raw(), completion)
    })
}
