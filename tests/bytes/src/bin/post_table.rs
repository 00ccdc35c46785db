//! Posts a table of work requests between two queue pairs of one device. `post-table DEVICE TABLE`
//!
//! # Safety
//!
//! The memory of requests is mapped once at a fixed address, never unmapped, and no reference to it
//! is formed while a device may write to it: inline bytes are copied out of its first half, which
//! nobody writes to after `memory`.
#![allow(unsafe_code, reason = "posts requests that name memory by address")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "offsets fit, and immediate data is half of a word"
)]

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes_tests::table::{Batch, Case, LENGTH, MEMORY, Numbers, Request, Table, Transport, Verb};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use uverbs::address::FlowLabel;
use uverbs::attr::Psn;
use uverbs::link::{LinkLayer, Mtu};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AccessFlags, AddressHandle, AddressVector, CompletionQueue, Context, MemoryRegion, Notify,
    Operation, Payload, ProtectionDomain, QpType, QueuePair, QueuePairBuilder, RecvRequest, Remote,
    SendFlags, SendRequest, Sge, SharedReceiveQueue, WorkCompletion,
};

const QKEY: u32 = 0x1111_1111;
/// The access key of targets of dynamic connections.
const ACCESS_KEY: u64 = 0x0123_4567_89ab_cdef;
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, path] = arguments.as_slice() else {
        bail!("post-table DEVICE TABLE");
    };
    let table: Table = serde_json::from_str(&fs::read_to_string(path)?)?;
    let bytes = memory()?;
    let context = Context::open(device)?;
    let pd = context.alloc_pd()?;
    let access = AccessFlags::LOCAL_WRITE
        | AccessFlags::REMOTE_WRITE
        | AccessFlags::REMOTE_READ
        | AccessFlags::REMOTE_ATOMIC;
    let length = usize::try_from(LENGTH)?;
    // SAFETY: the memory is never unmapped, and is referred to only where nothing writes.
    let mr = unsafe {
        pd.register(
            std::ptr::with_exposed_provenance_mut(MEMORY as usize),
            length,
            access,
        )
    }?;
    for (number, case) in table.cases.iter().enumerate() {
        run(&context, &pd, &mr, &bytes, case).with_context(|| format!("case {number}"))?;
    }
    Ok(())
}

/// Maps and fills the memory; returns the contents of its first half.
fn memory() -> anyhow::Result<Vec<u8>> {
    let pattern: Vec<u8> = (0..LENGTH).map(|at| (at * 7 % 251) as u8).collect();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
    let wanted = std::ptr::with_exposed_provenance_mut(usize::try_from(MEMORY)?);
    // SAFETY: the kernel maps nothing where something is mapped already.
    let start = unsafe { mmap_anonymous(wanted, pattern.len(), protection, flags) }?;
    if start != wanted {
        bail!("the kernel maps elsewhere");
    }
    let _ = start.expose_provenance();
    // SAFETY: freshly mapped, this long, and not yet registered.
    unsafe { std::ptr::copy_nonoverlapping(pattern.as_ptr(), start.cast(), pattern.len()) };
    Ok(pattern)
}

fn run(
    context: &Context,
    pd: &ProtectionDomain,
    mr: &MemoryRegion,
    bytes: &[u8],
    case: &Case,
) -> anyhow::Result<()> {
    let kind = match case.transport {
        Transport::Rc => QpType::Rc,
        Transport::Uc => QpType::Uc,
        Transport::Ud => QpType::Ud,
        Transport::Xrc => QpType::XrcInitiator,
        Transport::Dc => QpType::Driver,
    };
    let channel = context.create_completion_channel()?;
    let create_cq = || context.completion_queue(4096).channel(&channel).build();
    let (mut send_cq, mut recv_cq) = (create_cq()?, create_cq()?);
    let (max_wr, max_sge) = (case.max_recv_wr, case.max_recv_sge);
    let domain = (case.transport == Transport::Xrc)
        .then(|| context.mlx5()?.open_xrc_domain())
        .transpose()?;
    let mut srq = match &domain {
        Some(domain) => Some(domain.create_srq(pd, &recv_cq, max_wr, max_sge)?),
        None if case.shared => Some(pd.create_srq(max_wr, max_sge)?),
        None => None,
    };
    let port = context.query_port(1)?;
    let prepare = |cq: &CompletionQueue, receives: Option<&SharedReceiveQueue>| {
        let mut builder = match (&domain, receives) {
            (Some(domain), Some(_)) => domain.target(pd, cq).untyped(),
            (None, Some(srq)) if kind == QpType::Driver => {
                pd.dc_target(srq, cq, ACCESS_KEY).untyped()
            }
            (None, None) if kind == QpType::Driver => pd.dc_initiator(cq).untyped(),
            _ => pd.queue_pair(kind, cq, cq),
        };
        let srq = receives.filter(|_| domain.is_none());
        builder = describe(builder, case)?;
        if receives.is_some() && kind == QpType::Driver {
            // An XRC target has no queues.
            builder = builder
                .max_send_wr(0)
                .max_send_sge(0)
                .max_recv_wr(0)
                .max_recv_sge(0);
        } else if receives.is_none() || domain.is_none() {
            builder = sizes(builder, case);
        }
        if port.link_layer == LinkLayer::Ethernet {
            builder = builder.gid_index(1);
        }
        if let Some(srq) = srq {
            builder = builder.srq(srq);
        }
        builder.build()
    };
    let sender = prepare(&send_cq, None)?;
    let receiver = prepare(&recv_cq, srq.as_ref())?;
    let (to_sender, to_receiver) = (sender.endpoint(), receiver.endpoint());
    let (mut sender, mut receiver) = if matches!(kind, QpType::Ud | QpType::Driver) {
        (sender.activate()?, receiver.activate()?)
    } else {
        (
            sender.handshake(to_receiver)?,
            receiver.handshake(to_sender)?,
        )
    };
    let numbers = numbers(&sender, &receiver, srq.as_ref(), mr);
    println!("{}", serde_json::to_string(&numbers)?);
    let ah = matches!(kind, QpType::Ud | QpType::Driver)
        .then(|| address(context, pd))
        .transpose()?;
    for batch in &case.batches {
        if let Some(solicited) = batch.notify {
            recv_cq.request_notification(if solicited {
                Notify::SolicitedOnly
            } else {
                Notify::Any
            })?;
        }
        receive(&mut receiver, srq.as_mut(), batch, mr)?;
        post(
            &mut sender,
            &batch.requests,
            mr,
            bytes,
            To {
                peer: receiver.qp_num(),
                ah: ah.as_ref(),
                dynamic: kind == QpType::Driver,
                srq: domain
                    .is_some()
                    .then(|| srq.as_ref().map_or(0, SharedReceiveQueue::number)),
            },
        )?;
        if batch.notify.is_some() {
            channel.event(Some(PATIENCE))?.context("no event")?;
        }
        let signaled = batch.requests.iter().filter(|one| one.signaled).count();
        wait(&mut send_cq, signaled)?;
        wait(&mut recv_cq, batch.received().count())?;
    }
    Ok(())
}

/// The settings of the other program.
fn describe<'a>(
    builder: QueuePairBuilder<'a>,
    case: &Case,
) -> Result<QueuePairBuilder<'a>, uverbs::Error> {
    let mut access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    if matches!(
        case.transport,
        Transport::Rc | Transport::Xrc | Transport::Dc
    ) {
        access |= AccessFlags::REMOTE_READ | AccessFlags::REMOTE_ATOMIC;
    }
    Ok(builder
        .access(access)
        .psn(Psn::from_raw(0))
        .max_rd_atomic(8)
        .max_dest_rd_atomic(8)
        .min_rnr_timer(RnrTimer::code(12)?)
        .timeout(AckTimeout::code(14)?)
        .retry_count(RetryCount::new(7)?)
        .rnr_retry(RnrRetry::new(7)?)
        .path_mtu(Mtu::B1024)
        .qkey(QKEY))
}

fn sizes<'a>(builder: QueuePairBuilder<'a>, case: &Case) -> QueuePairBuilder<'a> {
    let (requests, sges) = match case.transport {
        Transport::Xrc | Transport::Dc => (0, 0),
        _ => (case.max_recv_wr, case.max_recv_sge),
    };
    builder
        .max_send_wr(case.max_send_wr)
        .max_send_sge(case.max_send_sge)
        .max_inline_data(case.max_inline)
        .max_recv_wr(requests)
        .max_recv_sge(sges)
}

fn numbers(
    sender: &QueuePair,
    receiver: &QueuePair,
    srq: Option<&SharedReceiveQueue>,
    mr: &MemoryRegion,
) -> Numbers {
    let caps = sender.caps();
    Numbers {
        qpn: sender.qp_num(),
        peer: receiver.qp_num(),
        srq: srq.map_or(0, SharedReceiveQueue::number),
        xrc: sender.kind() == QpType::XrcInitiator,
        lkey: mr.lkey().raw(),
        rkey: mr.rkey().raw(),
        caps: [
            caps.max_send_wr,
            caps.max_send_sge,
            caps.max_inline_data,
            caps.max_recv_wr,
            caps.max_recv_sge,
        ],
        receives: match srq {
            Some(srq) => [srq.size().max_wr, srq.size().max_sge],
            None => [receiver.caps().max_recv_wr, receiver.caps().max_recv_sge],
        },
    }
}

fn sges_of(sges: &[(u64, u32)], mr: &MemoryRegion) -> Vec<Sge> {
    let sge = |&(offset, length)| Sge {
        address: MEMORY + offset,
        length,
        key: mr.lkey(),
    };
    sges.iter().map(sge).collect()
}

/// Posts the receive requests of a batch with one doorbell of their queue.
fn receive(
    qp: &mut QueuePair,
    srq: Option<&mut SharedReceiveQueue>,
    batch: &Batch,
    mr: &MemoryRegion,
) -> anyhow::Result<()> {
    let lists: Vec<Vec<Sge>> = batch
        .received()
        .map(|one| sges_of(&one.receive, mr))
        .collect();
    let requests: Vec<RecvRequest<'_>> = lists
        .iter()
        .map(|scatter| RecvRequest { wr_id: 0, scatter })
        .collect();
    match srq {
        // SAFETY: see the file's paragraph.
        Some(srq) => unsafe { srq.post_recv(&requests) }?,
        // SAFETY: see the file's paragraph.
        None => unsafe { qp.post_recv(&requests) }?,
    }
    Ok(())
}

fn address(context: &Context, pd: &ProtectionDomain) -> anyhow::Result<AddressHandle> {
    let port = context.query_port(1)?;
    let vector = if port.link_layer == LinkLayer::Ethernet {
        let gid = context.gid(1, 1)?.context("no GID at index 1")?.gid;
        let mut route = uverbs::address::GlobalRoute::new(gid, 1);
        route.hop_limit = 64;
        // Without one the source port is random.
        route.flow_label = FlowLabel::from_raw(0x12345);
        AddressVector::global(1, route)
    } else {
        AddressVector::local(1, port.lid)
    };
    Ok(pd.create_ah(&vector)?)
}

/// The destination of requests.
#[derive(Clone, Copy)]
struct To<'a> {
    peer: u32,
    /// For a datagram, and for a request to a target of dynamic connections.
    ah: Option<&'a AddressHandle>,
    dynamic: bool,
    /// The shared queue of an XRC domain.
    srq: Option<u32>,
}

fn post(
    qp: &mut QueuePair,
    requests: &[Request],
    mr: &MemoryRegion,
    bytes: &[u8],
    to: To<'_>,
) -> anyhow::Result<()> {
    let mut batch = qp.send_batch();
    for one in requests {
        let sges = sges_of(&one.sges, mr);
        let copied: Vec<&[u8]> = one
            .sges
            .iter()
            .map(|&(offset, length)| &bytes[offset as usize..][..length as usize])
            .collect();
        let payload = if one.inline {
            Payload::Inline(&copied)
        } else {
            Payload::Gather(&sges)
        };
        let remote = Remote {
            address: MEMORY + one.remote,
            key: mr.rkey(),
        };
        // pyverbs passes immediate data as it is in memory.
        let immediate = (one.words.0 as u32).swap_bytes();
        let operation = match one.verb {
            Verb::Send => Operation::Send,
            Verb::SendWithImm => Operation::SendImm(immediate),
            Verb::RdmaWrite => Operation::Write(remote),
            Verb::RdmaWriteWithImm => Operation::WriteImm(remote, immediate),
            Verb::RdmaRead => Operation::Read(remote),
            Verb::AtomicCmpAndSwp => Operation::CompareSwap {
                remote,
                compare: one.words.0,
                swap: one.words.1,
            },
            Verb::AtomicFetchAndAdd => Operation::FetchAdd {
                remote,
                add: one.words.0,
            },
        };
        let mut request = SendRequest::new(operation, payload);
        request.flags.set(SendFlags::FENCE, one.fence);
        request.flags.set(SendFlags::SIGNALED, one.signaled);
        request.flags.set(SendFlags::SOLICITED, one.solicited);
        let dynamic = to.ah.filter(|_| to.dynamic);
        if let Some(ah) = to.ah.filter(|_| !to.dynamic) {
            request = request.to(ah.to(to.peer, QKEY));
        }
        match (dynamic, to.srq) {
            (Some(ah), _) => {
                let target = ah.to_dc_target(to.peer, ACCESS_KEY);
                // SAFETY: see the file's paragraph.
                unsafe { batch.push_dc(&request, &target) }?;
            }
            // SAFETY: see the file's paragraph.
            (None, Some(srq)) => unsafe { batch.push_xrc(&request, srq) }?,
            // SAFETY: see the file's paragraph.
            (None, None) => unsafe { batch.push(&request) }?,
        }
    }
    Ok(batch.submit()?)
}

fn wait(cq: &mut CompletionQueue, mut count: usize) -> anyhow::Result<()> {
    while count > 0 {
        let mut done = [WorkCompletion::default(); 16];
        let got = cq.poll_into(&mut done)?;
        for one in &done[..got] {
            if !one.status.is_success() {
                bail!("{} (vendor error {:#x})", one.status, one.vendor_err);
            }
        }
        count = count.checked_sub(got).context("a completion too many")?;
    }
    Ok(())
}
