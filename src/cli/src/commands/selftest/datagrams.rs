//! `datagrams`: datagrams through every kind of address that the port has, and the header in front
//! of each.

use std::time::{Duration, Instant};

use uverbs::address::{GlobalRoute, Grh};
use uverbs::gid::{GidEntry, GidType};
use uverbs::link::LinkLayer;
use uverbs::owned::{Buffer, Work};
use uverbs::{AddressHandle, AddressVector, QpType};

use super::check::{Check, Found, Outcome, Trouble, ensure};
use super::pair::{End, Pair, buffer_of, compare, fill, prepare, take_until};
use super::subject::Subject;

const EXPECTED: &str = "bytes as sent, header right";

/// An unprivileged queue key; datagrams with another key are discarded.
const QKEY: u32 = 0x0011_7e57;
const SILENCE: Duration = Duration::from_millis(100);
/// The requested traffic class; the two low bits belong to the network.
const TRAFFIC_CLASS: u8 = 0x28;

pub(super) fn checks() -> Vec<Check> {
    let by = |name, kind| {
        Check::optional(name, EXPECTED, move |subject| {
            let (entry, path) = address(subject, kind)?;
            exchange(subject, entry, &path)
        })
    };
    vec![
        by("RoCE v1", Kind::RoceV1),
        by("RoCE v2, IPv4", Kind::RoceV2V4),
        by("RoCE v2, IPv6", Kind::RoceV2V6),
        by("InfiniBand, local", Kind::IbLocal),
        by("InfiniBand, global", Kind::IbGlobal),
        Check::new("another key", "dropped", other_key),
    ]
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    RoceV1,
    RoceV2V4,
    RoceV2V6,
    IbLocal,
    IbGlobal,
}

impl Kind {
    fn is_of(self, entry: &GidEntry) -> bool {
        let four = entry.gid.ipv4_mapped().is_some();
        match self {
            Self::RoceV1 => entry.gid_type == GidType::RoceV1,
            Self::RoceV2V4 => entry.gid_type == GidType::RoceV2 && four,
            Self::RoceV2V6 => entry.gid_type == GidType::RoceV2 && !four,
            Self::IbLocal | Self::IbGlobal => entry.gid_type == GidType::Ib,
        }
    }
}

/// The port's own address of this kind, and the path to it.
fn address(subject: &Subject, kind: Kind) -> Outcome<(GidEntry, AddressVector)> {
    let none = || Trouble::unsupported("the port has no such address");
    let ethernet = subject.port_attr()?.link_layer == LinkLayer::Ethernet;
    if ethernet == matches!(kind, Kind::IbLocal | Kind::IbGlobal) {
        return Err(none());
    }
    let table = subject.context.gid_table()?;
    let entry = table
        .iter()
        .filter(|entry| entry.port == u32::from(subject.port) && !entry.gid.is_zero())
        .find(|entry| kind.is_of(entry))
        .ok_or_else(none)?;
    let index = u8::try_from(entry.index).map_err(Trouble::unsupported)?;
    let route = GlobalRoute {
        traffic_class: TRAFFIC_CLASS,
        ..GlobalRoute::new(entry.gid, index)
    };
    let lid = subject.port_attr()?.lid;
    let path = match kind {
        Kind::IbLocal => AddressVector::local(subject.port, lid),
        Kind::IbGlobal => AddressVector {
            dlid: lid,
            ..AddressVector::global(subject.port, route)
        },
        _ => AddressVector::global(subject.port, route),
    };
    Ok((*entry, path))
}

fn pair(subject: &Subject) -> Outcome<Pair> {
    let pd = subject.context.alloc_pd()?;
    let end = || -> Outcome<End> {
        let cq = subject.context.create_cq(64)?;
        let prepared = prepare(subject, &pd, QpType::Ud, (&cq, &cq), |builder| {
            builder.qkey(QKEY)
        })?;
        let qp = prepared.activate()?;
        Ok(End::new(cq, qp))
    };
    let (a, b) = (end()?, end()?);
    Ok(Pair { pd, a, b })
}

/// Sends the first bytes of a buffer, and returns the buffer.
fn send(
    pair: &mut Pair,
    to: &AddressHandle,
    text: Buffer,
    len: usize,
    key: u32,
) -> Outcome<Buffer> {
    let number = pair.b.qp.qp_num();
    let work = Work::send().memory((text, len)).to(to, number, key);
    pair.a.qp.post(work)?;
    buffer_of(pair.a.success()?)
}

fn exchange(subject: &Subject, entry: GidEntry, path: &AddressVector) -> Outcome {
    let mtu = subject.mtu()?;
    let mut pair = pair(subject)?;
    let to = pair.pd.create_ah(path)?;
    let [mut text, mut room] = pair.pd.buffers(Grh::LEN + mtu)?;
    let lengths = [0, 1, 7, 64, mtu - 1, mtu];
    let mut header = None;
    for (len, seed) in lengths.into_iter().zip(1..) {
        fill(&mut text[..len], seed);
        pair.b.qp.recv(room, seed)?;
        text = send(&mut pair, &to, text, len, QKEY)?;
        let received = pair.b.success()?;
        let done = received.reported;
        let right = done.byte_len as usize == Grh::LEN + len && done.src_qp == pair.a.qp.qp_num();
        ensure(right, || {
            format!("{} bytes, of another sender or length", done.byte_len)
        })?;
        // Within an InfiniBand subnet there is no global routing header.
        ensure(done.has_grh() == path.grh.is_some(), || {
            format!("header: {}", done.has_grh())
        })?;
        room = buffer_of(received)?;
        if done.has_grh() {
            header = Some(check_header(&room, &entry)?);
        }
        compare(&room[Grh::LEN..Grh::LEN + len], seed)
            .map_err(|trouble| trouble.with(format_args!("{len} bytes")))?;
    }
    Ok(Found::new(match header {
        Some(header) => format!("{} lengths, {header}", lengths.len()),
        None => format!("{} lengths, no header", lengths.len()),
    }))
}

/// Checks that the header names the port's own address on both sides. The address itself is not
/// reported.
fn check_header(bytes: &[u8], entry: &GidEntry) -> Outcome<String> {
    let header = Grh::parse(bytes).ok_or_else(|| Trouble::failed("no IP header"))?;
    ensure(header.sgid() == entry.gid, || {
        "the header has another sender".into()
    })?;
    ensure(header.dgid() == entry.gid, || {
        "the header has another receiver".into()
    })?;
    let next = match entry.gid_type {
        GidType::RoceV2 => 17,
        _ => 0x1b,
    };
    ensure(header.next_header() == next, || {
        format!("protocol {}", header.next_header())
    })?;
    ensure(header.traffic_class() & 0xfc == TRAFFIC_CLASS, || {
        format!("traffic class {:#x}", header.traffic_class())
    })?;
    Ok(format!(
        "protocol {next}, traffic class {:#x}, hop limit {}",
        header.traffic_class(),
        header.hop_limit()
    ))
}

/// A datagram with another key does not arrive; the one after it does.
fn other_key(subject: &Subject) -> Outcome {
    let kinds = [Kind::RoceV2V4, Kind::RoceV2V6, Kind::RoceV1, Kind::IbLocal];
    let found = kinds.iter().find_map(|kind| address(subject, *kind).ok());
    let (_, path) = found.ok_or_else(|| Trouble::failed("the port has no address"))?;
    let mut pair = pair(subject)?;
    let to = pair.pd.create_ah(&path)?;
    let [text, room] = pair.pd.buffers(Grh::LEN + 8)?;
    pair.b.qp.recv(room, 1)?;
    let text = send(&mut pair, &to, text, 8, QKEY ^ 1)?;
    let arrived = take_until(&mut pair.b.cq, Instant::now() + SILENCE, |_| ())?;
    ensure(arrived.is_none(), || "it arrived".into())?;
    send(&mut pair, &to, text, 8, QKEY)?;
    pair.b.success()?;
    Ok(Found::new("dropped"))
}
