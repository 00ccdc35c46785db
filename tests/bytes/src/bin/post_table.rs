//! Posts a table of work requests between two queue pairs of one device. `post-table DEVICE TABLE`
//!
//! # Safety
//!
//! The memory of requests is mapped once at a fixed address, never unmapped, and no reference to it is formed while
//! a device may write to it: inline bytes are copied out of its first half, which nobody writes to after `memory`.
#![allow(unsafe_code, reason = "posts requests that name memory by address")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "offsets fit, and immediate data is half of a word"
)]

use std::fs;

use anyhow::{Context as _, bail};
use bytes_tests::table::{Case, LENGTH, MEMORY, Numbers, Request, TARGET, Table, Transport, Verb};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use uverbs::{
    AccessFlags, AddressHandle, AddressVector, CompletionQueue, Context, FlowLabel, LinkLayer,
    MemoryRegion, Mtu, Operation, Payload, ProtectionDomain, QpType, QueuePair, RecvRequest,
    Remote, SendFlags, SendRequest, Sge, WorkCompletion,
};

const RECEIVED: u32 = 9040;
const QKEY: u32 = 0x1111_1111;

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
    // SAFETY: the memory is never unmapped, and is referred to only where nobody writes.
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

/// Maps and fills the memory; returns what its first half holds.
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
    };
    let mut send_cq = context.create_cq(4096)?;
    let mut recv_cq = context.create_cq(4096)?;
    let prepare = |cq: &CompletionQueue| {
        pd.create_qp(kind, cq, cq)
            .max_send_wr(case.max_send_wr)
            .max_send_sge(case.max_send_sge)
            .max_inline_data(case.max_inline)
            .max_recv_wr(case.max_recv_wr)
            .max_recv_sge(case.max_recv_sge)
            .access(
                AccessFlags::LOCAL_WRITE
                    | AccessFlags::REMOTE_WRITE
                    | AccessFlags::REMOTE_READ
                    | AccessFlags::REMOTE_ATOMIC,
            )
            .path_mtu(Mtu::B1024)
            .qkey(QKEY)
            .build()
    };
    let (sender, receiver) = (prepare(&send_cq)?, prepare(&recv_cq)?);
    let (to_sender, to_receiver) = (sender.endpoint(), receiver.endpoint());
    let (mut sender, mut receiver) = if kind == QpType::Ud {
        (sender.activate()?, receiver.activate()?)
    } else {
        (
            sender.handshake(to_receiver)?,
            receiver.handshake(to_sender)?,
        )
    };
    let caps = sender.caps();
    let numbers = Numbers {
        qpn: sender.qp_num(),
        peer: receiver.qp_num(),
        lkey: mr.lkey().raw(),
        rkey: mr.rkey().raw(),
        caps: [
            caps.max_send_wr,
            caps.max_send_sge,
            caps.max_inline_data,
            caps.max_recv_wr,
            caps.max_recv_sge,
        ],
    };
    println!("{}", serde_json::to_string(&numbers)?);
    let ah = (kind == QpType::Ud)
        .then(|| address(context, pd))
        .transpose()?;
    for batch in &case.batches {
        let expected = batch.iter().filter(|one| one.verb.is_received()).count();
        for _ in 0..expected {
            let scatter = [Sge {
                address: MEMORY + TARGET,
                length: RECEIVED,
                key: mr.lkey(),
            }];
            // SAFETY: see the file's paragraph.
            unsafe {
                receiver.post_recv(&[RecvRequest {
                    wr_id: 0,
                    scatter: &scatter,
                }])
            }?;
        }
        post(
            &mut sender,
            batch,
            mr,
            bytes,
            receiver.qp_num(),
            ah.as_ref(),
        )?;
        wait(
            &mut send_cq,
            batch.iter().filter(|one| one.signaled).count(),
        )?;
        wait(&mut recv_cq, expected)?;
    }
    Ok(())
}

fn address(context: &Context, pd: &ProtectionDomain) -> anyhow::Result<AddressHandle> {
    let port = context.query_port(1)?;
    let vector = if port.link_layer == LinkLayer::Ethernet {
        let gid = context.gid(1, 1)?.context("no GID at index 1")?.gid;
        let mut route = uverbs::GlobalRoute::new(gid, 1);
        route.hop_limit = 64;
        // Without one the source port is random.
        route.flow_label = FlowLabel::from_raw(0x12345);
        AddressVector::global(1, route)
    } else {
        AddressVector::local(1, port.lid)
    };
    Ok(pd.create_ah(&vector)?)
}

fn post(
    qp: &mut QueuePair,
    requests: &[Request],
    mr: &MemoryRegion,
    bytes: &[u8],
    peer: u32,
    ah: Option<&AddressHandle>,
) -> anyhow::Result<()> {
    let mut batch = qp.send_batch();
    for one in requests {
        let pieces: Vec<Sge> = one
            .pieces
            .iter()
            .map(|&(offset, length)| Sge {
                address: MEMORY + offset,
                length,
                key: mr.lkey(),
            })
            .collect();
        let copied: Vec<&[u8]> = one
            .pieces
            .iter()
            .map(|&(offset, length)| &bytes[offset as usize..][..length as usize])
            .collect();
        let payload = if one.inline {
            Payload::Inline(&copied)
        } else {
            Payload::Gather(&pieces)
        };
        let remote = Remote {
            address: MEMORY + one.remote,
            key: mr.rkey(),
        };
        // pyverbs passes immediate data as it lies in memory.
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
        if let Some(ah) = ah {
            request = request.to(ah.to(peer, QKEY));
        }
        // SAFETY: see the file's paragraph.
        unsafe { batch.push(&request) }?;
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
