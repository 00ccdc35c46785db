//! `frames`: raw Ethernet frames: whether a rule steers them to its queue pair, and how fast they
//! are sent.
//!
//! They go to an address that no host has, and their EtherType is the one for experiments.

use std::time::{Duration, Instant};

use uverbs::link::LinkLayer;
use uverbs::mlx5::pacing::RateLimit;
use uverbs::mlx5::{EthernetFields, FlowFlags, FlowInit, FlowKind, FlowSpec};
use uverbs::{
    CompletionQueue, Error, ErrorKind, OpenOptions, ProtectionDomain, QpType, QueuePair,
    SendRequest, owned,
};

use super::check::{Check, Found, Outcome, Trouble, ensure};
use super::pair::{End, Exchange as _, buffer_of, compare, ended, fill, take, take_until};
use super::subject::Subject;

/// Both are locally administered.
const TO: [u8; 6] = [0x02, 0x75, 0x76, 0x65, 0x72, 0x62];
const FROM: [u8; 6] = [0x02, 0x75, 0x76, 0x65, 0x72, 0x73];
/// The EtherTypes for local experiments (IEEE 802).
const TYPE: u16 = 0x88b5;
const OTHER_TYPE: u16 = 0x88b6;
const HEADER: usize = 14;

/// Lengths that every port accepts.
const LENGTHS: [usize; 4] = [60, 61, 64, 200];
/// How long a frame that comes back may take.
const BACK: Duration = Duration::from_millis(300);

/// The rate limit, and how many frames of how many bytes are sent under it.
const KBPS: u32 = 4_000;
const FRAME: usize = 500;
const COUNT: usize = 800;
/// In percent: a device lets a burst through before it limits the rate.
const MOST: u64 = 130;
const LEAST: u64 = 70;
/// How many frames are sent with one doorbell.
const BATCH: usize = 16;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::optional("own frames", "those of the rule, bytes as sent", own),
        Check::optional("rate", "4 Mb/s, but for a burst", rate),
    ]
}

/// A raw packet queue pair of the port, ready to send.
fn raw(subject: &Subject, pd: &ProtectionDomain, cq: &CompletionQueue) -> Outcome<QueuePair> {
    if subject.port_attr()?.link_layer != LinkLayer::Ethernet {
        return Err(Trouble::unsupported("the port has no frames"));
    }
    let builder = pd
        .queue_pair(QpType::RawPacket, cq, cq)
        .port(subject.port)
        .max_send_wr(64)
        .max_recv_wr(64)
        .max_inline_data(512);
    Ok(builder.build().map_err(allowed)?.activate()?)
}

/// Without the capability, raw packets are not available.
fn allowed(error: Error) -> Trouble {
    if error.kind() == ErrorKind::PermissionDenied {
        Trouble::unsupported("CAP_NET_RAW is missing")
    } else {
        error.into()
    }
}

fn frame(len: usize, kind: u16, seed: u64) -> Vec<u8> {
    let mut bytes = [&TO[..], &FROM, &kind.to_be_bytes()].concat();
    bytes.resize(len, 0);
    fill(bytes.get_mut(HEADER..).unwrap_or_default(), seed);
    bytes
}

/// Sends frames with one doorbell, and waits until the last of them has been sent.
fn send(qp: &mut QueuePair, cq: &mut CompletionQueue, bytes: &[u8], count: usize) -> Outcome<()> {
    let slices = [bytes];
    let mut batch = qp.send_batch();
    for number in 1..=count {
        let request = SendRequest::send_inline(&slices);
        let last = number == count;
        batch.push_inline(&if last { request.signaled() } else { request })?;
    }
    batch.submit()?;
    take(cq, |done| {
        ensure(done.is_success(), || {
            format!("{}, vendor {:#x}", done.status, done.vendor_err)
        })
    })?
}

/// From one context to another: a context does not receive its own frames.
fn own(subject: &Subject) -> Outcome {
    let context = subject.reopen(OpenOptions::new().command_path(subject.path))?;
    let (pd, mut cq) = (subject.context.alloc_pd()?, subject.context.create_cq(64)?);
    let mut sender = raw(subject, &pd, &cq)?;
    let (pd, there) = (context.alloc_pd()?, context.create_cq(64)?);
    let mut receiver = raw(subject, &pd, &there)?;
    let wanted = FlowSpec::Ethernet(
        EthernetFields {
            destination: TO,
            ether_type: TYPE,
            ..EthernetFields::default()
        },
        EthernetFields {
            destination: [0xff; 6],
            ether_type: 0xffff,
            ..EthernetFields::default()
        },
    );
    let rule = FlowInit {
        kind: FlowKind::Normal,
        priority: 0,
        port: subject.port,
        flags: FlowFlags::empty(),
        specs: &[wanted],
    };
    receiver.create_flow(&rule).map_err(allowed)?;
    let mut end = End {
        cq: there,
        qp: owned::QueuePair::new(receiver),
    };
    for (len, seed) in LENGTHS.into_iter().zip(1..) {
        let [room] = pd.buffers::<1>(256)?;
        end.qp.recv(room, seed)?;
        send(&mut sender, &mut cq, &frame(len, OTHER_TYPE, 99), 1)?;
        send(&mut sender, &mut cq, &frame(len, TYPE, seed), 1)?;
        let receiving = &mut end.qp;
        let arrived = take_until(&mut end.cq, Instant::now() + BACK, |done| {
            let foreign = || Trouble::failed("a completion of another request");
            receiving.exchange(done).map_err(|_| foreign())
        })?;
        let Some(arrived) = arrived else {
            return Err(match seed {
                1 => Trouble::unsupported("frames do not come back to the port that sent them"),
                _ => Trouble::failed(format_args!("the frame of {len} bytes is missing")),
            });
        };
        let arrived = arrived?;
        ensure(arrived.status().is_success(), || ended(&arrived))?;
        ensure(arrived.len() == len, || {
            format!("{} bytes instead of {len}", arrived.len())
        })?;
        let room = buffer_of(arrived)?;
        compare(room.get(HEADER..len).unwrap_or_default(), seed)
            .map_err(|trouble| trouble.with(format_args!("{len} bytes")))?;
    }
    Ok(Found::new(format_args!("{} lengths", LENGTHS.len())))
}

fn rate(subject: &Subject) -> Outcome {
    let (pd, mut cq) = (subject.context.alloc_pd()?, subject.context.create_cq(64)?);
    let mut qp = raw(subject, &pd, &cq)?;
    for kbps in [2 * KBPS, 3 * KBPS, KBPS] {
        qp.modify_rate_limit(&RateLimit::kbps(kbps))?;
    }
    let bytes = frame(FRAME, TYPE, 1);
    let start = Instant::now();
    for _ in 0..COUNT / BATCH {
        send(&mut qp, &mut cq, &bytes, BATCH)?;
    }
    judged(start.elapsed())
}

/// Whether it took as long as the rate limit requires.
fn judged(took: Duration) -> Outcome {
    let bits = (FRAME * COUNT * 8) as u64;
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    let kbps = bits * 1000 / micros;
    let most = u64::from(KBPS);
    ensure(kbps <= most * MOST / 100, || {
        format!("{kbps} kb/s: it has no effect")
    })?;
    // The machine may be too slow, which is not a fault of the device.
    Ok(Found::new(format_args!("{kbps} kb/s")).slow_if(kbps < most * LEAST / 100))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_rate_is_measured_by_the_time() {
        let right = (FRAME * COUNT * 8) as u64 / u64::from(KBPS);
        assert!(!judged(Duration::from_millis(right)).unwrap().slow);
        assert!(judged(Duration::from_millis(right / 2)).is_err());
        assert!(judged(Duration::from_millis(right * 3)).unwrap().slow);
    }

    #[test]
    fn a_frame_has_its_addresses_and_its_bytes() {
        let bytes = frame(60, TYPE, 3);
        assert_eq!((bytes.len(), &bytes[..6]), (60, &TO[..]));
        assert_eq!(bytes[12..14], [0x88, 0xb5]);
        compare(&bytes[HEADER..], 3).unwrap();
    }
}
