//! Posting through the kernel.
//!
//! rxe rings its doorbell this way. Whole requests go through the kernel only for drivers whose
//! queues exist only there; rxe and mlx5 are not among them.
//!
//! # Memory
//!
//! From the post until the completion the device may read the memory of a request, and write it if
//! the request says so. As in [`mr`](super::mr), the layers above ensure that it stays valid.

use std::cell::Cell;

use uverbs_uapi::byte_order::__be32;
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_POST_RECV, IB_USER_VERBS_CMD_POST_SEND, IB_USER_VERBS_CMD_POST_SRQ_RECV,
    IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, IB_UVERBS_WR_RDMA_READ,
    IB_UVERBS_WR_RDMA_WRITE, IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, IB_UVERBS_WR_SEND,
    IB_UVERBS_WR_SEND_WITH_IMM, IB_UVERBS_WR_SEND_WITH_INV, ib_uverbs_post_recv,
    ib_uverbs_post_recv_resp, ib_uverbs_post_send, ib_uverbs_post_send_resp,
    ib_uverbs_post_srq_recv, ib_uverbs_post_srq_recv_resp, ib_uverbs_recv_wr, ib_uverbs_send_wr,
    ib_uverbs_send_wr_atomic, ib_uverbs_send_wr_ex, ib_uverbs_send_wr_rdma, ib_uverbs_send_wr_ud,
    ib_uverbs_send_wr_wr, ib_uverbs_sge,
};
use zerocopy::IntoBytes;

use super::legacy::Legacy;
use crate::error::{Errno, Error, ErrorKind, Op, Result};
use crate::file::UverbsFile;
use crate::sys::{Uhw, cells};
use crate::types::{Operation, Payload, RecvRequest, Remote, SendRequest, Sge};

/// The kernel refuses a send request shorter than the struct it knows, even when there is none.
const SEND_WR_SIZE: u32 = 56;
const _: () = assert!(SEND_WR_SIZE as usize == size_of::<ib_uverbs_send_wr>());

const RECV_WR_SIZE: u32 = 16;
const _: () = assert!(RECV_WR_SIZE as usize == size_of::<ib_uverbs_recv_wr>());

/// `ibv_post_send` without requests—tells a driver whose send queue is shared with user space to
/// process it: rxe's doorbell.
///
/// One system call, two the first time after `setuid`; allocates nothing unless it fails. In kernel
/// 6.1, rxe sends the packets before the call returns; in later kernels a worker thread may.
///
/// # Errors
/// EINVAL: there is no such queue pair, or it is not ready to send. ENOMEM. EACCES: a forked child,
/// or after `setuid` if only `write(2)` is available.
pub fn doorbell(file: &UverbsFile, qp: u32) -> Result<(), Errno> {
    let command = ib_uverbs_post_send {
        response: 0,
        qp_handle: qp,
        wr_count: 0,
        sge_count: 0,
        wqe_size: SEND_WR_SIZE,
    };
    let mut reply = ib_uverbs_post_send_resp::default();
    Legacy::plain(Op::PostSend, IB_USER_VERBS_CMD_POST_SEND).issue_fast(
        file,
        &command,
        cells(&mut reply),
    )
}

/// `ibv_post_send`—posts send requests through the kernel, in order, until one is refused.
///
/// One system call. Supports sends, writes, reads and atomics; their data must be registered, and a
/// datagram needs an address handle that the kernel knows.
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported): an operation or inline data that this command cannot
/// carry; [`InvalidInput`](ErrorKind::InvalidInput): a flag without a name. In these cases nothing
/// was posted. EINVAL, ENOMEM: the driver refused a request. The kernel does not return its reply
/// on failure, so it is unknown which one.
#[doc(alias = "ibv_post_send")]
pub fn post_send(file: &UverbsFile, qp: u32, requests: &[SendRequest<'_>]) -> Result<()> {
    let op = Op::PostSend;
    let mut sges = Vec::new();
    let mut body = Vec::new();
    for (at, request) in requests.iter().enumerate() {
        let wr = send_wr(op, request, &mut sges).map_err(|error| error.fact("request", at))?;
        body.extend_from_slice(wr.as_bytes());
    }
    let command = ib_uverbs_post_send {
        response: 0,
        qp_handle: qp,
        wr_count: count(op, "requests", requests.len())?,
        sge_count: count(op, "sges", sges.len())?,
        wqe_size: SEND_WR_SIZE,
    };
    let mut reply = ib_uverbs_post_send_resp::default();
    submit(
        file,
        Legacy::plain(op, IB_USER_VERBS_CMD_POST_SEND),
        &[command.as_bytes(), &body, sges.as_bytes()],
        cells(&mut reply),
        requests.len(),
    )
}

fn send_wr(
    op: Op,
    request: &SendRequest<'_>,
    sges: &mut Vec<ib_uverbs_sge>,
) -> Result<ib_uverbs_send_wr> {
    let Payload::Gather(entries) = request.payload else {
        return Err(Error::new(op, ErrorKind::Unsupported).fact("payload", "inline"));
    };
    let none = ib_uverbs_send_wr_ex::default();
    let imm = |imm: u32| ib_uverbs_send_wr_ex::from(__be32::new(imm));
    let (opcode, ex, wr) = match request.operation {
        Operation::Send => (IB_UVERBS_WR_SEND, none, datagram(request)),
        Operation::SendImm(value) => (IB_UVERBS_WR_SEND_WITH_IMM, imm(value), datagram(request)),
        Operation::SendInvalidate(key) => (
            IB_UVERBS_WR_SEND_WITH_INV,
            key.raw().into(),
            datagram(request),
        ),
        Operation::Write(remote) => (IB_UVERBS_WR_RDMA_WRITE, none, rdma(remote)),
        Operation::WriteImm(remote, value) => {
            (IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, imm(value), rdma(remote))
        }
        Operation::Read(remote) => (IB_UVERBS_WR_RDMA_READ, none, rdma(remote)),
        Operation::CompareSwap {
            remote,
            compare,
            swap,
        } => (
            IB_UVERBS_WR_ATOMIC_CMP_AND_SWP,
            none,
            atomic(remote, compare, swap),
        ),
        Operation::FetchAdd { remote, add } => (
            IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD,
            none,
            atomic(remote, add, 0),
        ),
        _ => {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .hint("the kernel cannot post requests with this operation"));
        }
    };
    Ok(ib_uverbs_send_wr {
        wr_id: request.wr_id,
        num_sge: gather(op, entries, sges)?,
        opcode,
        send_flags: request.flags.checked(op, "flags")?,
        ex,
        wr,
    })
}

/// A datagram's destination, by the kernel's address handle.
fn datagram(request: &SendRequest<'_>) -> ib_uverbs_send_wr_wr {
    request
        .destination
        .map_or_else(ib_uverbs_send_wr_wr::default, |to| {
            ib_uverbs_send_wr_ud {
                ah: to.address.handle().unwrap_or(u32::MAX),
                remote_qpn: to.qp_num,
                remote_qkey: to.qkey,
                reserved: 0,
            }
            .into()
        })
}

fn rdma(remote: Remote) -> ib_uverbs_send_wr_wr {
    ib_uverbs_send_wr_rdma {
        remote_addr: remote.address,
        rkey: remote.key.raw(),
        reserved: 0,
    }
    .into()
}

fn atomic(remote: Remote, compare_add: u64, swap: u64) -> ib_uverbs_send_wr_wr {
    ib_uverbs_send_wr_atomic {
        remote_addr: remote.address,
        compare_add,
        swap,
        rkey: remote.key.raw(),
        reserved: 0,
    }
    .into()
}

fn gather(op: Op, entries: &[Sge], sges: &mut Vec<ib_uverbs_sge>) -> Result<u32> {
    sges.extend(entries.iter().map(|sge| ib_uverbs_sge {
        addr: sge.address,
        length: sge.length,
        lkey: sge.key.raw(),
    }));
    count(op, "sges", entries.len())
}

/// Issues the command for a list of requests, made of these parts.
fn submit(
    file: &UverbsFile,
    legacy: Legacy,
    parts: &[&[u8]],
    reply: &[Cell<u8>],
    requests: usize,
) -> Result<()> {
    legacy
        .send(file, &parts.concat(), reply, &Uhw::NONE)
        .map_err(|error| error.fact("requests", requests))
}

fn count(op: Op, what: &'static str, count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| Error::limit(op, what, count as u64, u32::MAX.into()))
}

/// `ibv_post_recv`—posts receive requests through the kernel, in order, until one is refused.
///
/// One system call.
///
/// # Errors
/// EINVAL, ENOMEM: the driver refused a request; it is unknown which one.
#[doc(alias = "ibv_post_recv")]
pub fn post_recv(file: &UverbsFile, qp: u32, requests: &[RecvRequest<'_>]) -> Result<()> {
    let op = Op::PostReceive;
    let (wr_count, sge_count, body) = receives(op, requests)?;
    let command = ib_uverbs_post_recv {
        response: 0,
        qp_handle: qp,
        wr_count,
        sge_count,
        wqe_size: RECV_WR_SIZE,
    };
    let mut reply = ib_uverbs_post_recv_resp::default();
    submit(
        file,
        Legacy::plain(op, IB_USER_VERBS_CMD_POST_RECV),
        &[command.as_bytes(), &body],
        cells(&mut reply),
        requests.len(),
    )
}

/// `ibv_post_srq_recv`—the same for a shared receive queue.
///
/// # Errors
/// As [`post_recv`].
#[doc(alias = "ibv_post_srq_recv")]
pub fn post_srq_recv(file: &UverbsFile, srq: u32, requests: &[RecvRequest<'_>]) -> Result<()> {
    let op = Op::PostSharedReceive;
    let (wr_count, sge_count, body) = receives(op, requests)?;
    let command = ib_uverbs_post_srq_recv {
        response: 0,
        srq_handle: srq,
        wr_count,
        sge_count,
        wqe_size: RECV_WR_SIZE,
    };
    let mut reply = ib_uverbs_post_srq_recv_resp::default();
    submit(
        file,
        Legacy::plain(op, IB_USER_VERBS_CMD_POST_SRQ_RECV),
        &[command.as_bytes(), &body],
        cells(&mut reply),
        requests.len(),
    )
}

/// Encodes the requests, followed by all their scatter/gather entries.
fn receives(op: Op, requests: &[RecvRequest<'_>]) -> Result<(u32, u32, Vec<u8>)> {
    let mut sges = Vec::new();
    let mut body = Vec::new();
    for request in requests {
        let wr = ib_uverbs_recv_wr {
            wr_id: request.wr_id,
            num_sge: gather(op, request.scatter, &mut sges)?,
            reserved: 0,
        };
        body.extend_from_slice(wr.as_bytes());
    }
    body.extend_from_slice(sges.as_bytes());
    let wr_count = count(op, "requests", requests.len())?;
    Ok((wr_count, count(op, "sges", sges.len())?, body))
}
