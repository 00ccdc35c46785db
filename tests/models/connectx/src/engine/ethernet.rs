//! Frames in flight: checksums on the sending side, steering and delivery on the receiving side.

use crate::device::Device;
use crate::engine::completion::{self, Completion, Opcode};
use crate::engine::message::Payload;
use crate::engine::misbehave;
use crate::engine::receive::{self, Pool};
use crate::flow::{self, Destination, NIC_RECEIVE};
use crate::layout::queue::{ring, wq};
use crate::layout::transport::{rqt, tir};
use crate::layout::{be16, be32};
use crate::objects::RingState;

/// Checksum flags of the Ethernet segment.
const IP_CHECKSUM: u8 = 1 << 6;
const TRANSPORT_CHECKSUM: u8 = 1 << 7;
/// Number of flow tables that a frame may traverse.
const MAX_TABLES: usize = 64;
const HEADER: usize = 14;

/// The ones' complement sum of big-endian half words.
fn sum(bytes: &[u8]) -> u32 {
    let total = bytes.chunks(2).fold(0u64, |sum, pair| {
        sum + u64::from(u16::from_be_bytes([
            pair[0],
            pair.get(1).copied().unwrap_or(0),
        ]))
    });
    let folded = (total & 0xffff) + (total >> 16 & 0xffff) + (total >> 32);
    ((folded & 0xffff) + (folded >> 16)) as u32
}

/// Where the IP packet of a frame begins and ends, its header length and its transport protocol.
fn ip(frame: &[u8]) -> Option<(usize, usize, usize, u8)> {
    let (kind, at) = match be16(frame, 12) {
        0x8100 => (be16(frame, 16), HEADER + 4),
        kind => (kind, HEADER),
    };
    let (header, length, protocol) = match kind {
        0x0800 => {
            let header = usize::from(frame.get(at)? & 0xf) * 4;
            (
                header,
                usize::from(be16(frame, at + 2)),
                *frame.get(at + 9)?,
            )
        }
        0x86dd => (
            40,
            usize::from(be16(frame, at + 4)) + 40,
            *frame.get(at + 6)?,
        ),
        _ => return None,
    };
    let end = at.checked_add(length)?;
    (end <= frame.len() && header >= 20 && length >= header).then_some((at, end, header, protocol))
}

/// Fills in the checksums that a work request requests.
pub(super) fn offload(frame: &mut [u8], flags: u8) {
    let Some((at, end, header, protocol)) = ip(frame) else {
        return;
    };
    if flags & IP_CHECKSUM != 0 && header >= 20 && frame[at] >> 4 == 4 {
        frame[at + 10..at + 12].fill(0);
        let value = !(sum(&frame[at..at + header]) as u16);
        frame[at + 10..at + 12].copy_from_slice(&value.to_be_bytes());
    }
    let field = match protocol {
        6 => at + header + 16,
        17 => at + header + 6,
        _ => return,
    };
    if flags & TRANSPORT_CHECKSUM == 0 || field + 2 > end {
        return;
    }
    frame[field..field + 2].fill(0);
    let addresses = if frame[at] >> 4 == 4 {
        at + 12..at + 20
    } else {
        at + 8..at + 40
    };
    let length = (end - at - header) as u32;
    let total =
        sum(&frame[addresses]) + sum(&frame[at + header..end]) + u32::from(protocol) + length;
    let mut value = !(((total & 0xffff) + (total >> 16)) as u16);
    if value == 0 && protocol == 17 {
        value = 0xffff;
    }
    frame[field..field + 2].copy_from_slice(&value.to_be_bytes());
}

/// Splits a long TCP segment into frames of at most `size` bytes of data, as a network card does.
pub(super) fn segments(frame: &[u8], size: usize) -> Option<Vec<Vec<u8>>> {
    const FINAL_FLAGS: u8 = 0x09;
    // A long segment may leave its IP length unset; only the headers are examined.
    let at = if be16(frame, 12) == 0x8100 {
        HEADER + 4
    } else {
        HEADER
    };
    let version = frame.get(at)? >> 4;
    let header = match version {
        4 => usize::from(frame[at] & 0xf) * 4,
        6 => 40,
        _ => return None,
    };
    let tcp = at + header;
    let start = tcp + usize::from(frame.get(tcp + 12)? >> 4) * 4;
    let data = frame.get(start..)?;
    if header < 20 || size == 0 || start < tcp + 20 {
        return None;
    }
    let sequence = be32(frame, tcp + 4);
    let count = data.len().div_ceil(size).max(1);
    let mut out = Vec::with_capacity(count);
    for i in 0..count {
        let part = data.get(i * size..data.len().min((i + 1) * size))?;
        let mut one = frame[..start].to_vec();
        one.extend_from_slice(part);
        let length = one.len() - at;
        if version == 4 {
            let id = be16(frame, at + 4).wrapping_add(i as u16);
            one[at + 2..at + 4].copy_from_slice(&(length as u16).to_be_bytes());
            one[at + 4..at + 6].copy_from_slice(&id.to_be_bytes());
        } else {
            one[at + 4..at + 6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
        }
        let next = sequence.wrapping_add((i * size) as u32);
        one[tcp + 4..tcp + 8].copy_from_slice(&next.to_be_bytes());
        if i + 1 < count {
            one[tcp + 13] &= !FINAL_FLAGS;
        }
        offload(&mut one, IP_CHECKSUM | TRANSPORT_CHECKSUM);
        out.push(one);
    }
    Some(out)
}

/// Whether a TIR accepts a frame: one sent by queues of its own transport domain only if it is
/// configured to.
fn takes(device: &Device, tirn: u32, frame: &[u8], sender: Option<u32>) -> bool {
    let Some((context, domain)) = device.tirs.get(tirn).zip(sender) else {
        return true;
    };
    let multicast = frame.first().is_some_and(|byte| byte & 1 != 0);
    tir::TD.get(context) != domain
        || tir::SELF_LOOPBACK.get(context) >> u32::from(multicast) & 1 != 0
}

/// Steers a frame that arrived at a port; `sender` is the transport domain of the queue that sent
/// it through this same port.
pub(super) fn receive(device: &mut Device, frame: &[u8], sender: Option<u32>) {
    let packet = flow::parameters(frame);
    let mut pending: Vec<u32> = device
        .roots
        .get(&NIC_RECEIVE)
        .copied()
        .into_iter()
        .collect();
    let mut targets = Vec::new();
    for _ in 0..MAX_TABLES {
        let Some(table) = pending.pop().and_then(|id| device.flows.get(id)) else {
            break;
        };
        let Some(entry) = table.matching(&packet) else {
            pending.extend(table.miss);
            continue;
        };
        for counter in entry.counters.clone() {
            if let Some(counter) = device.counters.get_mut(counter) {
                counter.packets += 1;
                counter.bytes += frame.len() as u64;
            }
        }
        if entry.drop {
            continue;
        }
        for destination in &entry.destinations {
            match destination {
                Destination::Table(id) => pending.push(*id),
                Destination::Tir(id) => targets.push((*id, entry.tag)),
                Destination::Elsewhere => {}
            }
        }
    }
    for (tirn, tag) in targets {
        if takes(device, tirn, frame, sender)
            && let Some(rqn) = queue(device, tirn, &packet)
        {
            deliver(device, rqn, frame, tag);
        }
    }
}

/// The receive queue that a TIR chooses. The hash is the model's own: not Toeplitz, but the same
/// for every frame of a flow.
fn queue(device: &Device, tirn: u32, packet: &[u8]) -> Option<u32> {
    let context = device.tirs.get(tirn)?;
    if tir::DISPATCH.get(context) == 0 {
        return Some(tir::INLINE_RQN.get(context));
    }
    let table = device.tables.get(tir::TABLE.get(context))?;
    let size = rqt::ACTUAL_SIZE.get(table);
    let hash = packet[0x14..0x40].iter().fold(0u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u32::from(*byte))
    });
    let slot = hash.checked_rem(size)?;
    Some(be32(table, rqt::LIST + slot as usize * 4) & 0xff_ffff)
}

/// A frame without its VLAN tag, and that tag.
fn without_tag(frame: &[u8]) -> Option<(Vec<u8>, u16)> {
    const TAGGED: u16 = 0x8100;
    let (addresses, rest) = frame.split_at_checked(12)?;
    let (tag, rest) = rest.split_at_checked(4)?;
    (be16(tag, 0) == TAGGED).then(|| ([addresses, rest].concat(), be16(tag, 2)))
}

fn deliver(device: &mut Device, rqn: u32, frame: &[u8], tag: u32) {
    let Some(queue) = device
        .rqs
        .get(rqn)
        .filter(|queue| queue.state == RingState::Ready)
    else {
        return;
    };
    let (cqn, user_index) = (queue.cqn(), ring::USER_INDEX.get(&queue.context));
    let pd = wq::PD.at(ring::WQ).get(&queue.context);
    let stripped = if ring::KEEPS_VLAN.is_set(&queue.context) {
        None
    } else {
        without_tag(frame)
    };
    let vlan = stripped.as_ref().map(|(_, tag)| *tag);
    let frame = stripped.as_ref().map_or(frame, |(rest, _)| rest);
    // Without a buffer the frame is lost, as on any Ethernet.
    let Some(posted) = receive::take(device, Pool::Raw(rqn)) else {
        return;
    };
    let placed = receive::scatter(device, &posted, frame.len() as u64, pd, rqn);
    let memory = device.memory.clone();
    let written = placed.ok().is_some_and(|spans| {
        Payload::Inline(frame.to_vec())
            .copy(&*memory, &*memory, &spans)
            .map(|()| misbehave::frame(device, cqn, &spans))
            .is_ok()
    });
    let mut done = Completion::new(Opcode::Send, tag, user_index, posted.index);
    done.byte_count = frame.len() as u32;
    done.vlan = vlan;
    if let Some((at, end, ..)) = ip(frame) {
        done.checksum = sum(&frame[at.min(HEADER)..end]) as u16;
    }
    if written {
        completion::push(device, cqn, done);
    } else {
        device.report(
            "receive queue",
            &format!("RQ {rqn:#x}: a frame of {} bytes does not fit", frame.len()),
        );
        let done = Completion {
            opcode: Opcode::ResponseError,
            ..done
        };
        completion::push(
            device,
            cqn,
            done.failed(completion::Syndrome::LocalProtection),
        );
        if let Some(queue) = device.rqs.get_mut(rqn) {
            queue.state = RingState::Error;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_add_up_to_all_ones() {
        let mut frame = vec![0u8; 14 + 20 + 8 + 5];
        frame[12..14].copy_from_slice(&[0x08, 0]);
        frame[14..34].copy_from_slice(&[
            0x45, 0, 0, 33, 1, 2, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        frame[34..42].copy_from_slice(&[0x10, 0, 0x20, 0, 0, 13, 0, 0]);
        frame[42..].copy_from_slice(b"hello");
        offload(&mut frame, IP_CHECKSUM | TRANSPORT_CHECKSUM);
        assert_eq!(sum(&frame[14..34]), 0xffff);
        let total = sum(&frame[26..34]) + sum(&frame[34..]) + 17 + 13;
        assert_eq!((total & 0xffff) + (total >> 16), 0xffff);
    }

    #[test]
    fn a_long_segment_is_cut_and_numbered() {
        let mut frame = vec![0u8; 14 + 20 + 20 + 2500];
        frame[12] = 0x08;
        frame[14..24].copy_from_slice(&[0x45, 0, 0, 0, 0, 7, 0, 0, 64, 6]);
        frame[34 + 12] = 0x50;
        frame[34 + 13] = 0x18;
        let cut = segments(&frame, 1000).unwrap_or_default();
        assert_eq!(
            cut.iter().map(Vec::len).collect::<Vec<_>>(),
            [1054, 1054, 554]
        );
        assert_eq!(be32(&cut[2], 34 + 4), 2000);
        assert_eq!((be16(&cut[1], 18), be16(&cut[2], 16)), (8, 540));
        assert_eq!((cut[0][47], cut[2][47]), (0x10, 0x18));
        assert_eq!(sum(&cut[1][14..34]), 0xffff);
        assert_eq!(segments(&frame, 0), None);
        assert_eq!(segments(&frame[..40], 1000), None);
    }

    #[test]
    fn a_frame_that_lies_about_its_length_is_left_alone() {
        let mut frame = vec![0u8; 40];
        frame[12] = 0x08;
        frame[14] = 0x4f;
        frame[16] = 0xff;
        let before = frame.clone();
        offload(&mut frame, 0xff);
        assert_eq!(frame, before);
    }
}
