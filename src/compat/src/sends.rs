//! `ibv_post_send`.
//!
//! The memory that requests name is the program's to keep registered until they have completed, as
//! the C interface says; that of inline data is read during the call.

use std::ffi::c_int;

use uverbs_any::AnyQp;
use uverbs_core::PostError;
use uverbs_core::contract::Qp as _;
use uverbs_core::types::{
    Destination, Operation, Payload, QpType, Remote, RemoteKey, SendFlags, SendRequest, Sge,
};

use crate::abi::ibv_send_wr;
use crate::ah::Ah;
use crate::answer::Answer;
use crate::dv::{self, To};
use crate::errno::{Code, set};
use crate::pointer::{Handle, In, Out, items};
use crate::post::entries;
use crate::qp::Qp;
use crate::window::Mw;

/// `enum ibv_wr_opcode`.
pub(crate) mod opcode {
    pub(crate) const WRITE: u32 = 0;
    pub(crate) const WRITE_IMM: u32 = 1;
    pub(crate) const SEND: u32 = 2;
    pub(crate) const SEND_IMM: u32 = 3;
    pub(crate) const READ: u32 = 4;
    pub(crate) const COMPARE_SWAP: u32 = 5;
    pub(crate) const FETCH_ADD: u32 = 6;
    pub(crate) const LOCAL_INVALIDATE: u32 = 7;
    pub(crate) const BIND: u32 = 8;
    pub(crate) const SEND_INVALIDATE: u32 = 9;
    pub(crate) const SEGMENTS: u32 = 10;
}

/// `IBV_SEND_INLINE`.
pub(crate) const INLINE: u32 = 1 << 3;
/// Parts of inline data that need no allocation.
const FEW: usize = 16;

/// Gives `put` the request that C describes.
#[inline]
fn with_request(
    wr: &ibv_send_wr,
    is_datagram: bool,
    put: impl FnOnce(&SendRequest<'_>) -> Answer<()>,
) -> Answer<()> {
    let part = &wr.wr;
    let key = RemoteKey::from_raw(part.second[0]);
    let remote = Remote {
        address: part.first,
        key,
    };
    let binding;
    let operation = match wr.opcode {
        opcode::SEND | opcode::SEGMENTS => Operation::Send,
        opcode::WRITE => Operation::Write(remote),
        opcode::READ => Operation::Read(remote),
        opcode::SEND_IMM => Operation::SendImm(u32::from_be(wr.imm_data)),
        opcode::WRITE_IMM => Operation::WriteImm(remote, u32::from_be(wr.imm_data)),
        opcode::SEND_INVALIDATE => Operation::SendInvalidate(RemoteKey::from_raw(wr.imm_data)),
        opcode::COMPARE_SWAP => Operation::CompareSwap {
            remote: Remote {
                address: part.first,
                key: RemoteKey::from_raw(part.rkey),
            },
            compare: part.compare_add(),
            swap: part.swap,
        },
        opcode::FETCH_ADD => Operation::FetchAdd {
            remote: Remote {
                address: part.first,
                key: RemoteKey::from_raw(part.rkey),
            },
            add: part.compare_add(),
        },
        opcode::LOCAL_INVALIDATE => Operation::LocalInvalidate(RemoteKey::from_raw(wr.imm_data)),
        opcode::BIND => {
            let bind = &wr.bind_mw;
            binding = Handle::<Mw>::of(bind.mw)
                .get()?
                .binding(&bind.bind_info, bind.rkey)?;
            Operation::BindWindow(&binding)
        }
        _ => return Err(PostError::UnsupportedOperation.into()),
    };
    let destination = if is_datagram {
        Some(Destination {
            address: &ah(part.first)?.address,
            qp_num: part.second[0],
            qkey: part.second[1],
        })
    } else {
        None
    };
    let request = |payload| SendRequest {
        wr_id: wr.wr_id,
        flags: SendFlags::from_bits_retain(wr.send_flags & !INLINE),
        operation,
        payload,
        destination,
    };
    let gather = match wr.opcode {
        opcode::LOCAL_INVALIDATE | opcode::BIND => &[],
        _ => entries(wr.sg_list, wr.num_sge)?,
    };
    if wr.send_flags & INLINE == 0 {
        return put(&request(Payload::Gather(gather)));
    }
    if gather.len() <= FEW {
        let mut pieces = [&[][..]; FEW];
        for (piece, sge) in pieces.iter_mut().zip(gather) {
            *piece = bytes(sge)?;
        }
        let pieces = pieces.get(..gather.len()).unwrap_or_default();
        return put(&request(Payload::Inline(pieces)));
    }
    let pieces: Vec<_> = gather.iter().map(bytes).collect::<Answer<_>>()?;
    put(&request(Payload::Inline(&pieces)))
}

fn ah<'a>(address: u64) -> Answer<&'a Ah> {
    let address = usize::try_from(address).map_err(|_| Code::INVALID)?;
    Handle::<Ah>::of(std::ptr::with_exposed_provenance_mut(address)).get()
}

/// Inline data in the program's memory.
#[inline]
fn bytes<'a>(sge: &Sge) -> Answer<&'a [u8]> {
    let address = usize::try_from(sge.address).map_err(|_| Code::INVALID)?;
    items(
        std::ptr::with_exposed_provenance(address),
        sge.length as usize,
    )
}

/// Calls `$put` with a request of a connection that most programs post: an operation on memory of
/// the peer, or a message, with one entry. `$otherwise` for others.
///
/// Not a function with a closure: each use is compiled with its operation.
macro_rules! usual {
    ($wr:ident, |$request:ident| $put:expr, $otherwise:expr) => {{
        let (1, Ok(sge)) = (
            $wr.num_sge,
            In::<Sge>::of($wr.sg_list.cast_const().cast()).get(),
        ) else {
            return $otherwise;
        };
        let remote = Remote {
            address: $wr.wr.first,
            key: RemoteKey::from_raw($wr.wr.second[0]),
        };
        macro_rules! put {
            ($operation:expr, $payload:expr) => {{
                let $request = SendRequest {
                    wr_id: $wr.wr_id,
                    flags: SendFlags::from_bits_retain($wr.send_flags & !INLINE),
                    operation: $operation,
                    payload: $payload,
                    destination: None,
                };
                $put
            }};
        }
        if $wr.send_flags & INLINE == 0 {
            let payload = Payload::Gather(std::slice::from_ref(sge));
            match $wr.opcode {
                opcode::WRITE => put!(Operation::Write(remote), payload),
                opcode::SEND => put!(Operation::Send, payload),
                opcode::READ => put!(Operation::Read(remote), payload),
                opcode::FETCH_ADD => {
                    let add = $wr.wr.compare_add();
                    let remote = atomic_remote($wr);
                    put!(Operation::FetchAdd { remote, add }, payload)
                }
                opcode::COMPARE_SWAP => {
                    let (compare, swap) = ($wr.wr.compare_add(), $wr.wr.swap);
                    let remote = atomic_remote($wr);
                    put!(
                        Operation::CompareSwap {
                            remote,
                            compare,
                            swap
                        },
                        payload
                    )
                }
                _ => $otherwise,
            }
        } else {
            let Ok(data) = bytes(sge) else {
                return $otherwise;
            };
            let data = [data];
            let payload = Payload::Inline(&data);
            match $wr.opcode {
                opcode::WRITE => put!(Operation::Write(remote), payload),
                opcode::SEND => put!(Operation::Send, payload),
                _ => $otherwise,
            }
        }
    }};
}

/// The peer's memory that an atomic operation is on.
#[inline]
fn atomic_remote(wr: &ibv_send_wr) -> Remote {
    Remote {
        address: wr.wr.first,
        key: RemoteKey::from_raw(wr.wr.rkey),
    }
}

/// The slot.
///
/// Most calls are for one request of a usual kind, which calls no other function; what is not like
/// that is left to another one at the end.
pub(crate) extern "C" fn post_send(
    qp: Handle<Qp>,
    first: *mut ibv_send_wr,
    bad: Out<*mut ibv_send_wr>,
) -> c_int {
    let (Ok(own), Ok(wr)) = (qp.get(), In::<ibv_send_wr>::of(first).get()) else {
        return post_sends(qp, first, bad);
    };
    if !wr.next.is_null() || !own.is_connection() {
        return post_sends(qp, first, bad);
    }
    own.sending_quickly(
        |queue| post_usual(queue, wr).then_some(0),
        || post_sends(qp, first, bad),
    )
}

/// Posts a request if it is a usual one. Whether it was posted.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
fn post_usual(queue: &mut AnyQp, wr: &ibv_send_wr) -> bool {
    usual!(wr, |request| dv::post_usual(queue, request), false)
}

/// Puts a request if it is a usual one; `None` for others.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
fn put_usual(queue: &mut AnyQp, wr: &ibv_send_wr) -> Option<Answer<()>> {
    usual!(
        wr,
        |request| Some(dv::put_known(queue, &request).map_err(Code::from)),
        None
    )
}

/// Posts any requests. No panic leaves it, so that the slot need not return once more.
#[inline(never)]
extern "C" fn post_sends(
    qp: Handle<Qp>,
    first: *mut ibv_send_wr,
    bad: Out<*mut ibv_send_wr>,
) -> c_int {
    let Ok(own) = qp.get() else {
        set(Code::INVALID);
        return Code::INVALID.number();
    };
    let is_connection = own.is_connection();
    own.sending(|queue| {
        let mut at = first;
        let mut refused = None;
        while let Ok(wr) = In::<ibv_send_wr>::of(at).get() {
            let usual = if is_connection {
                put_usual(queue, wr)
            } else {
                None
            };
            let done = match usual {
                Some(done) => done,
                None => put_any(queue, wr),
            };
            if let Err(code) = done {
                refused = Some(code);
                break;
            }
            at = wr.next;
        }
        if let Err(error) = queue.submit_send() {
            at = first;
            refused = Some(error.into());
        }
        let Some(code) = refused else { return 0 };
        bad.put_if_any(at);
        set(code);
        code.number()
    })
}

/// Puts any request.
#[inline(never)]
fn put_any(queue: &mut AnyQp, wr: &ibv_send_wr) -> Answer<()> {
    let kind = queue.base().kind;
    let is_datagram = kind == QpType::Ud;
    if is_datagram && wr.opcode != opcode::SEGMENTS {
        return with_request(wr, true, |request| dv::put(queue, request, To::Usual));
    }
    let to = match kind {
        QpType::XrcInitiator => To::Shared(wr.qp_type),
        _ if wr.opcode == opcode::SEGMENTS => {
            // The union's other struct: the header's address, its length, and a segment's.
            let [a, b, c, d] = wr.bind_mw.rkey.to_ne_bytes();
            let length = u16::from_ne_bytes([a, b]).into();
            let header = items(wr.bind_mw.mw.cast::<u8>().cast_const(), length)?;
            To::Segments(header, u16::from_ne_bytes([c, d]))
        }
        QpType::RawPacket => To::Frame,
        _ => To::Usual,
    };
    with_request(wr, false, |request| dv::put(queue, request, to))
}

/// Posts one request.
pub(crate) fn post_one(own: &Qp, request: &SendRequest<'_>) -> Answer<()> {
    own.sending(|queue| {
        dv::put(queue, request, To::Usual)?;
        queue.submit_send().map_err(Code::from)
    })
}
