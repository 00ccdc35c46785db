//! One send request: checked as rxe checks it, then carried out between two queue pairs.
#![allow(clippy::wildcard_imports, reason = "a table of the header's own names")]

use uverbs_uapi::ib_user_ioctl_verbs::{
    IB_UVERBS_ACCESS_FLUSH_GLOBAL, IB_UVERBS_ACCESS_FLUSH_PERSISTENT,
    IB_UVERBS_ACCESS_REMOTE_ATOMIC, IB_UVERBS_ACCESS_REMOTE_READ, IB_UVERBS_ACCESS_REMOTE_WRITE,
};
use uverbs_uapi::ib_user_verbs::*;
use uverbs_uapi::rdma_user_rxe::{rxe_send_wqe, rxe_sge};
use zerocopy::FromBytes;

use super::complete::{self, INLINE, SOLICITED, Status, WC_WITH_IMM, WC_WITH_INVALIDATE};
use super::receive::{self, Arrival, RECV, RECV_RDMA_WITH_IMM, Refusal, entries};
use super::{datagram, rights, window};
use crate::device::{self, GIDS};
use crate::feature::Feature;
use crate::qp::{Transport, qps};
use crate::state::State;

/// `wqe_state_done`.
const WQE_DONE: u32 = 3;
/// `rnr_retry` 7 means without limit.
const UNLIMITED: u8 = 7;

/// The outcome of a request.
pub(super) enum Outcome {
    Done(Status),
    /// The receiver has no buffer yet.
    NotReady,
}

/// A request with its parsed parts.
pub(super) struct Request {
    pub(super) wqe: rxe_send_wqe,
    pub(super) sges: Vec<rxe_sge>,
    /// The bytes it sends.
    pub(super) data: Vec<u8>,
    pub(super) sender: u32,
    pub(super) pd: u32,
}

/// Carries out the request at the head of a send queue. False if there is none, or it has to wait.
pub(super) fn next(state: &mut State, id: u32) -> bool {
    let Some(qp) = state.qps.get(&id).filter(|qp| qp.state() == qps::RTS) else {
        return false;
    };
    let Some((place, bytes)) = qp.sq.head() else {
        return false;
    };
    let Ok((wqe, rest)) = rxe_send_wqe::read_from_prefix(&bytes) else {
        return false;
    };
    let outcome = match prepare(state, id, wqe, rest) {
        Ok(request) => carry_out(state, &request),
        Err(status) => Outcome::Done(status),
    };
    let status = match outcome {
        Outcome::Done(status) => status,
        Outcome::NotReady if use_retry(state, id) => return false,
        Outcome::NotReady => Status::RnrRetryExceeded,
    };
    // A queue pair that is its own peer and refused the request has already flushed it.
    let Some(qp) = state.qps.get(&id).filter(|qp| qp.state() == qps::RTS) else {
        return false;
    };
    let mut done = wqe;
    done.status = status as u32;
    done.state = WQE_DONE;
    qp.sq.write_back(place, &done);
    complete::send(state, id, &wqe, status);
    if status != Status::Success {
        super::flush(state, id);
    }
    true
}

/// Consumes one RNR retry. False if none is left.
fn use_retry(state: &mut State, id: u32) -> bool {
    let Some(qp) = state.qps.get_mut(&id) else {
        return false;
    };
    let left = qp.rnr_left.unwrap_or(qp.attr.rnr_retry);
    if left == 0 {
        return false;
    }
    qp.rnr_left = Some(if left == UNLIMITED {
        UNLIMITED
    } else {
        left - 1
    });
    state.retrying.insert(id);
    true
}

fn is_known(transport: Transport, opcode: u32, flush: bool) -> bool {
    match opcode {
        IB_UVERBS_WR_SEND | IB_UVERBS_WR_SEND_WITH_IMM => true,
        IB_UVERBS_WR_RDMA_WRITE
        | IB_UVERBS_WR_RDMA_WRITE_WITH_IMM
        | IB_UVERBS_WR_SEND_WITH_INV
        | IB_UVERBS_WR_BIND_MW => transport != Transport::Ud,
        IB_UVERBS_WR_RDMA_READ
        | IB_UVERBS_WR_ATOMIC_CMP_AND_SWP
        | IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD
        | IB_UVERBS_WR_LOCAL_INV => transport == Transport::Rc,
        IB_UVERBS_WR_FLUSH | IB_UVERBS_WR_ATOMIC_WRITE => transport == Transport::Rc && flush,
        _ => false,
    }
}

/// Validates the request, which is in memory that the process can write to.
fn prepare(state: &State, id: u32, wqe: rxe_send_wqe, rest: &[u8]) -> Result<Request, Status> {
    let qp = state.qps.get(&id).ok_or(Status::LocalOperation)?;
    let opcode = wqe.wr.opcode;
    if !is_known(qp.transport, opcode, state.profile.has(Feature::Flush)) {
        return Err(Status::LocalOperation);
    }
    if matches!(
        opcode,
        IB_UVERBS_WR_LOCAL_INV | IB_UVERBS_WR_BIND_MW | IB_UVERBS_WR_FLUSH
    ) {
        return Ok(Request {
            wqe,
            sges: Vec::new(),
            data: Vec::new(),
            sender: id,
            pd: qp.pd,
        });
    }
    if wqe.dma.length > device::max_message(state.profile) {
        return Err(Status::LocalLength);
    }
    if wqe.wr.send_flags & INLINE != 0 || opcode == IB_UVERBS_WR_ATOMIC_WRITE {
        let data = rest
            .get(..wqe.dma.length as usize)
            .filter(|_| wqe.dma.length <= qp.cap.max_inline_data.max(8));
        let data = data.ok_or(Status::LocalLength)?.to_vec();
        return Ok(Request {
            wqe,
            sges: Vec::new(),
            data,
            sender: id,
            pd: qp.pd,
        });
    }
    if wqe.dma.num_sge > qp.cap.max_send_sge {
        return Err(Status::LocalOperation);
    }
    let sges = entries(rest, wqe.dma.num_sge).ok_or(Status::LocalOperation)?;
    let total: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
    if total < u64::from(wqe.dma.length) {
        return Err(Status::LocalProtection);
    }
    let sends = !matches!(
        opcode,
        IB_UVERBS_WR_RDMA_READ
            | IB_UVERBS_WR_ATOMIC_CMP_AND_SWP
            | IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD
    );
    let mut data = if sends {
        rights::gather(state, qp.pd, &sges).ok_or(Status::LocalProtection)?
    } else {
        Vec::new()
    };
    data.truncate(wqe.dma.length as usize);
    Ok(Request {
        wqe,
        sges,
        data,
        sender: id,
        pd: qp.pd,
    })
}

fn carry_out(state: &mut State, request: &Request) -> Outcome {
    match request.wqe.wr.opcode {
        IB_UVERBS_WR_LOCAL_INV => Outcome::Done(window::invalidate(
            state,
            request.wqe.wr.ex.invalidate_rkey(),
            Status::LocalOperation,
        )),
        IB_UVERBS_WR_BIND_MW => Outcome::Done(window::bind(state, request).unwrap_or(Status::Bind)),
        _ => {
            let transport = state.qps.get(&request.sender).map(|qp| qp.transport);
            if transport == Some(Transport::Ud) {
                datagram::datagram(state, request)
            } else {
                connected(state, request)
            }
        }
    }
}

/// The other end of a connection, if it can receive from this one.
fn peer(state: &State, sender: u32) -> Option<u32> {
    let qp = state.qps.get(&sender)?;
    let id = qp.attr.dest_qp_num;
    let peer = state.qps.get(&id)?;
    let reachable = GIDS.contains(&qp.attr.dest.dgid);
    let listens = peer.transport == qp.transport && (qps::RTR..=qps::SQD).contains(&peer.state());
    (reachable && listens && peer.attr.dest_qp_num == sender).then_some(id)
}

fn connected(state: &mut State, request: &Request) -> Outcome {
    let reliable = state
        .qps
        .get(&request.sender)
        .is_some_and(|qp| qp.transport == Transport::Rc);
    let outcome = match peer(state, request.sender) {
        Some(peer) => at_peer(state, request, peer),
        None => Outcome::Done(Status::RetryExceeded),
    };
    match outcome {
        // Without acknowledgements the sender does not learn the outcome.
        _ if !reliable => Outcome::Done(Status::Success),
        outcome => outcome,
    }
}

fn at_peer(state: &mut State, request: &Request, peer: u32) -> Outcome {
    let wr = &request.wqe.wr;
    let status = match wr.opcode {
        IB_UVERBS_WR_SEND | IB_UVERBS_WR_SEND_WITH_IMM | IB_UVERBS_WR_SEND_WITH_INV => {
            return send(state, request, peer, Some(&request.data));
        }
        IB_UVERBS_WR_RDMA_WRITE | IB_UVERBS_WR_RDMA_WRITE_WITH_IMM => {
            return write(state, request, peer);
        }
        IB_UVERBS_WR_RDMA_READ => read(state, request, peer),
        IB_UVERBS_WR_ATOMIC_CMP_AND_SWP | IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD => {
            atomic(state, request, peer)
        }
        IB_UVERBS_WR_ATOMIC_WRITE => {
            let word = request
                .data
                .first_chunk::<8>()
                .map(|bytes| u64::from_ne_bytes(*bytes));
            let rdma = wr.wr.rdma();
            let span = rights::remote(
                state,
                peer,
                rdma.rkey,
                rdma.remote_addr,
                8,
                IB_UVERBS_ACCESS_REMOTE_WRITE,
            );
            match (word, span) {
                (Some(word), Some(span)) if span.update(|_| word).is_some() => Ok(()),
                (_, Some(_)) => Err(Status::RemoteInvalid),
                _ => Err(Status::RemoteAccess),
            }
        }
        _ => {
            let flush = wr.wr.flush();
            let access = [
                0,
                IB_UVERBS_ACCESS_FLUSH_GLOBAL,
                IB_UVERBS_ACCESS_FLUSH_PERSISTENT,
            ];
            let access = access
                .get(usize::from(flush.r#type))
                .copied()
                .unwrap_or(u32::MAX);
            match rights::remote(
                state,
                peer,
                flush.rkey,
                flush.remote_addr,
                u64::from(flush.length),
                access,
            ) {
                Some(_) => Ok(()),
                None => Err(Status::RemoteAccess),
            }
        }
    };
    Outcome::Done(refused(state, peer, status))
}

/// Moves a responder that refused a request to the error state.
fn refused(state: &mut State, peer: u32, status: Result<(), Status>) -> Status {
    match status {
        Ok(()) => Status::Success,
        Err(Status::LocalProtection) => Status::LocalProtection,
        Err(status) => {
            super::flush(state, peer);
            status
        }
    }
}

/// Sends, and the immediate value of a write.
fn send(state: &mut State, request: &Request, peer: u32, payload: Option<&[u8]>) -> Outcome {
    let wr = &request.wqe.wr;
    let buffer = match receive::take(state, peer) {
        Ok(buffer) => buffer,
        Err(Refusal::NotReady) => return Outcome::NotReady,
        Err(Refusal::Malformed) => {
            return Outcome::Done(refused(state, peer, Err(Status::RemoteOperation)));
        }
    };
    let with_imm = matches!(
        wr.opcode,
        IB_UVERBS_WR_SEND_WITH_IMM | IB_UVERBS_WR_RDMA_WRITE_WITH_IMM
    );
    let with_inv = wr.opcode == IB_UVERBS_WR_SEND_WITH_INV;
    let arrival = Arrival {
        payload,
        byte_len: request.wqe.dma.length,
        opcode: if payload.is_some() {
            RECV
        } else {
            RECV_RDMA_WITH_IMM
        },
        flags: if with_imm { WC_WITH_IMM } else { 0 }
            | if with_inv { WC_WITH_INVALIDATE } else { 0 },
        ex: if with_imm || with_inv {
            wr.ex.invalidate_rkey()
        } else {
            0
        },
        src_qp: 0,
        solicited: wr.send_flags & SOLICITED != 0,
    };
    if with_inv {
        let status = window::invalidate(state, wr.ex.invalidate_rkey(), Status::RemoteInvalid);
        if status != Status::Success {
            receive::fail(state, peer, &buffer, status);
            return Outcome::Done(refused(state, peer, Err(status)));
        }
    }
    Outcome::Done(match receive::deliver(state, peer, &buffer, &arrival) {
        Status::Success => Status::Success,
        Status::LocalLength => refused(state, peer, Err(Status::RemoteInvalid)),
        _ => refused(state, peer, Err(Status::RemoteOperation)),
    })
}

fn write(state: &mut State, request: &Request, peer: u32) -> Outcome {
    let rdma = request.wqe.wr.wr.rdma();
    let length = request.data.len() as u64;
    let immediate = request.wqe.wr.opcode == IB_UVERBS_WR_RDMA_WRITE_WITH_IMM;
    let span = match length {
        // A write of 0 bytes needs no key.
        0 => None,
        _ => match rights::remote(
            state,
            peer,
            rdma.rkey,
            rdma.remote_addr,
            length,
            IB_UVERBS_ACCESS_REMOTE_WRITE,
        ) {
            Some(span) => Some(span),
            None => return Outcome::Done(refused(state, peer, Err(Status::RemoteAccess))),
        },
    };
    if let Some(span) = span {
        span.write(&request.data);
    }
    if immediate {
        send(state, request, peer, None)
    } else {
        Outcome::Done(Status::Success)
    }
}

fn read(state: &State, request: &Request, peer: u32) -> Result<(), Status> {
    let rdma = request.wqe.wr.wr.rdma();
    let length = u64::from(request.wqe.dma.length);
    if state
        .qps
        .get(&peer)
        .is_none_or(|qp| qp.attr.max_dest_rd_atomic == 0)
    {
        return Err(Status::RemoteInvalid);
    }
    if length == 0 {
        return Ok(());
    }
    let bytes = rights::remote(
        state,
        peer,
        rdma.rkey,
        rdma.remote_addr,
        length,
        IB_UVERBS_ACCESS_REMOTE_READ,
    )
    .ok_or(Status::RemoteAccess)?
    .read();
    rights::scatter(state, request.pd, &request.sges, &bytes).ok_or(Status::LocalProtection)
}

fn atomic(state: &State, request: &Request, peer: u32) -> Result<(), Status> {
    let atomic = request.wqe.wr.wr.atomic();
    let swap = request.wqe.wr.opcode == IB_UVERBS_WR_ATOMIC_CMP_AND_SWP;
    let span = rights::remote(
        state,
        peer,
        atomic.rkey,
        atomic.remote_addr,
        8,
        IB_UVERBS_ACCESS_REMOTE_ATOMIC,
    )
    .ok_or(Status::RemoteAccess)?;
    let old = span
        .update(|old| match swap {
            true if old == atomic.compare_add => atomic.swap,
            true => old,
            false => old.wrapping_add(atomic.compare_add),
        })
        .ok_or(Status::RemoteInvalid)?;
    rights::scatter(state, request.pd, &request.sges, &old.to_ne_bytes())
        .ok_or(Status::LocalProtection)
}
