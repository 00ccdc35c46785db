//! Posts raw packets, like `oracle/frames.c`. `post-frames DEVICE`
//!
//! # Safety
//!
//! What is posted names memory that is never freed, and that the device only reads.
#![allow(unsafe_code, reason = "posts requests that name memory by address")]

use anyhow::{Context as _, bail};
use uverbs::mlx5::Frame;
use uverbs::{
    AccessFlags, CompletionQueue, Context, Payload, QpType, QueuePair, SendFlags, SendRequest, Sge,
    WorkCompletion,
};

/// As in `oracle/frames.c`.
const COUNT: u32 = 96;
const LENGTH: u32 = 65536;
const OPTIONS: u8 = 5;
const INLINE: u32 = 200;
const HEADER: [u8; 54] = [
    2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 9, 8, 8, 0, 0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 9, 8,
    7, 10, 9, 8, 6, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0,
];

struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).unwrap_or(0) % end
    }
}

fn header(options: u8) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    bytes[46] = (5 + options) << 4;
    bytes.extend(vec![1; 4 * usize::from(options)]);
    bytes
}

fn main() -> anyhow::Result<()> {
    let device = std::env::args().nth(1).context("post-frames DEVICE")?;
    let mut filled: Vec<u8> = (0..LENGTH)
        .map(|at| u8::try_from(at * 7 % 251).unwrap_or(0))
        .collect();
    let whole = [header(0), vec![1; 4 * usize::from(OPTIONS)]].concat();
    filled[..whole.len()].copy_from_slice(&whole);
    let memory: &'static mut [u8] = filled.leak();
    let context = Context::open(&device)?;
    let pd = context.alloc_pd()?;
    let mut cq = context.create_cq(64)?;
    // SAFETY: the memory is never freed, and read by all.
    let mr = unsafe { pd.register(memory.as_mut_ptr(), memory.len(), AccessFlags::LOCAL_WRITE) }?;
    let memory: &'static [u8] = memory;
    let builder = pd
        .queue_pair(QpType::RawPacket, &cq, &cq)
        .max_send_wr(16)
        .max_recv_wr(16)
        .max_send_sge(3)
        .max_recv_sge(1)
        .max_inline_data(INLINE)
        .max_tso_header(u16::try_from(HEADER.len())? + 4 * u16::from(OPTIONS));
    let mut qp = builder.build()?.activate()?;
    let mut draw = Draw(1);
    for _ in 0..COUNT {
        let (kind, mut sges) = (draw.below(3), 1 + draw.below(3));
        let options = u8::try_from(draw.below(u32::from(OPTIONS) + 1))?;
        let segment = u16::try_from(100 + draw.below(900))?;
        let mut flags = SendFlags::SIGNALED;
        flags.set(SendFlags::IP_CHECKSUM, draw.below(2) != 0);
        if kind == 1 {
            sges = 1;
        }
        let mut list = Vec::new();
        for at in 0..sges {
            let (mut offset, mut length) = (draw.below(LENGTH / 2), 1 + draw.below(400));
            if kind != 2 && at == 0 {
                offset = 0;
                length = 60
                    + if kind == 1 {
                        length % (INLINE - 60)
                    } else {
                        length
                    };
            }
            list.push(Sge {
                address: memory.as_ptr().expose_provenance() as u64 + u64::from(offset),
                length,
                key: mr.lkey(),
            });
        }
        post(
            &mut qp,
            kind,
            flags,
            &list,
            &header(options),
            segment,
            memory,
        )?;
        wait(&mut cq)?;
    }
    println!(
        "{{\"lkey\": {}, \"memory\": {}}}",
        mr.lkey().raw(),
        memory.as_ptr().expose_provenance()
    );
    Ok(())
}

fn post(
    qp: &mut QueuePair,
    kind: u32,
    flags: SendFlags,
    list: &[Sge],
    header: &[u8],
    segment: u16,
    memory: &[u8],
) -> anyhow::Result<()> {
    let mut batch = qp.send_batch();
    if kind == 2 {
        let frame = Frame {
            wr_id: 0,
            flags,
            header,
            rest: list,
            segment: Some(segment),
        };
        // SAFETY: see the file's paragraph.
        unsafe { batch.push_frame(&frame) }?;
    } else {
        let length = list.first().map_or(0, |sge| sge.length);
        let bytes = [&memory[..length as usize]];
        let payload = if kind == 1 {
            Payload::Inline(&bytes)
        } else {
            Payload::Gather(list)
        };
        let mut request = SendRequest::new(uverbs::Operation::Send, payload);
        request.flags = flags;
        // SAFETY: see the file's paragraph.
        unsafe { batch.push(&request) }?;
    }
    Ok(batch.submit()?)
}

fn wait(cq: &mut CompletionQueue) -> anyhow::Result<()> {
    let mut done = [WorkCompletion::default()];
    while cq.poll_into(&mut done)? == 0 {}
    if !done[0].status.is_success() {
        bail!(
            "{} (vendor error {:#x})",
            done[0].status,
            done[0].vendor_err
        );
    }
    Ok(())
}
