//! Flow tables: what happens to a frame that a port receives.

use std::collections::BTreeMap;

use crate::layout::{be16, be32, put};

/// Length of the match criteria and values.
pub(crate) const MATCH: usize = 512;
/// Where the miscellaneous match parameters begin: those that are not about the first three layers.
const MISC: usize = 0x40;
const OUTER_FLOW_LABEL: usize = 0x1c;
const INNER_FLOW_LABEL: usize = 0x20;
/// Where those of the inner frame of a tunnel begin.
const INNER: usize = 0x80;
const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;
/// The tables for received frames.
pub(crate) const NIC_RECEIVE: u8 = 0;

/// Where a matching frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Table(u32),
    Tir(u32),
    /// A destination that is not modelled, such as another virtual port.
    Elsewhere,
}

/// What a matching entry does.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) group: u32,
    pub(crate) value: Vec<u8>,
    pub(crate) drop: bool,
    pub(crate) tag: u32,
    pub(crate) destinations: Vec<Destination>,
    pub(crate) counters: Vec<u32>,
    pub(crate) context: Vec<u8>,
}

/// A flow table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) kind: u8,
    pub(crate) log_size: u32,
    pub(crate) miss: Option<u32>,
    /// Criteria of each group.
    pub(crate) groups: BTreeMap<u32, Vec<u8>>,
    pub(crate) next_group: u32,
    pub(crate) entries: BTreeMap<u32, Entry>,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Table {
    /// The first entry that matches, in the order of the indices.
    pub(crate) fn matching(&self, packet: &[u8]) -> Option<&Entry> {
        self.entries.values().find(|entry| {
            self.groups.get(&entry.group).is_some_and(|criteria| {
                criteria
                    .iter()
                    .zip(packet)
                    .zip(&entry.value)
                    .all(|((mask, packet), value)| packet & mask == value & mask)
            })
        })
    }
}

/// The match parameters of a frame, laid out as the criteria are; for a tunnel, those of the inner
/// frame too.
pub(crate) fn parameters(frame: &[u8]) -> Vec<u8> {
    let mut out = vec![0; MATCH];
    let found = headers(frame, &mut out, 0);
    put(&mut out, MISC + OUTER_FLOW_LABEL, &found.flow_label);
    if let Some(inner) = tunnel(frame, &found, &mut out) {
        let found = headers(frame.get(inner..).unwrap_or_default(), &mut out, INNER);
        put(&mut out, MISC + INNER_FLOW_LABEL, &found.flow_label);
    }
    out
}

/// What the headers up to the transport header say about what follows.
struct Found {
    protocol: Option<u8>,
    /// Where the transport header begins.
    payload: usize,
    flow_label: [u8; 4],
}

/// Enters layers 2 to 4 of a frame at an offset of the parameters.
fn headers(frame: &[u8], out: &mut [u8], base: usize) -> Found {
    let get = |at: usize, length: usize| frame.get(at..at + length).unwrap_or(&[]);
    let mut put = |at: usize, bytes: &[u8]| put(out, base + at, bytes);
    put(0x00, get(6, 6));
    put(0x08, get(0, 6));
    let mut kind = be16(frame, 12);
    let mut at = 14;
    let mut flags = 0u8;
    if kind == 0x8100 {
        put(0x0e, get(14, 2));
        flags |= 0x80;
        kind = be16(frame, 16);
        at = 18;
    }
    put(0x06, &kind.to_be_bytes());
    let mut flow_label = [0; 4];
    let (version, protocol, payload) = match kind {
        0x0800 => {
            put(0x11, get(at + 1, 1));
            put(0x1b, get(at + 8, 1));
            put(0x2c, get(at + 12, 4));
            put(0x3c, get(at + 16, 4));
            let header = usize::from(frame.get(at).copied().unwrap_or(0) & 0xf) * 4;
            if be16(frame, at + 6) & 0x3fff != 0 {
                flags |= 0x20;
            }
            (4u8, frame.get(at + 9).copied(), at + header)
        }
        0x86dd => {
            let first = be32(frame, at);
            put(0x11, &[(first >> 20) as u8]);
            put(0x1b, get(at + 7, 1));
            flow_label = (first & 0xf_ffff).to_be_bytes();
            put(0x20, get(at + 8, 16));
            put(0x30, get(at + 24, 16));
            (6, frame.get(at + 6).copied(), at + 40)
        }
        _ => (0, None, at),
    };
    put(0x10, &[protocol.unwrap_or(0)]);
    let tcp_flags = if protocol == Some(TCP) {
        be16(frame, payload + 12) & 0x1ff
    } else {
        0
    };
    let [high, low] = tcp_flags.to_be_bytes();
    put(0x12, &[flags | version << 1 | high, low]);
    match protocol {
        Some(TCP) => put(0x14, get(payload, 4)),
        Some(UDP) => put(0x1c, get(payload, 4)),
        _ => {}
    }
    Found {
        protocol,
        payload,
        flow_label,
    }
}

/// Enters the header of a VXLAN or Geneve tunnel, and returns where the inner frame begins.
fn tunnel(frame: &[u8], outer: &Found, out: &mut [u8]) -> Option<usize> {
    const HEADER: usize = 8;
    if outer.protocol != Some(UDP) {
        return None;
    }
    let at = outer.payload + UDP_HEADER;
    let header = frame.get(at..at + HEADER)?;
    match be16(frame, outer.payload + 2) {
        VXLAN_PORT => {
            put(out, MISC + 0x14, &header[4..7]);
            Some(at + HEADER)
        }
        GENEVE_PORT => {
            let options = header[0] & 0x3f;
            put(out, MISC + 0x18, &header[4..7]);
            put(out, MISC + 0x1b, &[header[1] >> 7]);
            put(out, MISC + 0x25, &[options]);
            put(out, MISC + 0x26, &header[2..4]);
            Some(at + HEADER + usize::from(options) * 4)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_udp_frame_is_taken_apart() {
        let mut frame = vec![0u8; 60];
        frame[..6].copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[23] = 17;
        frame[30..34].copy_from_slice(&[10, 0, 0, 1]);
        frame[36..38].copy_from_slice(&4791u16.to_be_bytes());
        let found = parameters(&frame);
        assert_eq!(found[0x08..0x0e], [1, 2, 3, 4, 5, 6]);
        assert_eq!(found[0x10], 17);
        assert_eq!(found[0x12], 4 << 1);
        assert_eq!(found[0x3c..0x40], [10, 0, 0, 1]);
        assert_eq!(found[0x1e..0x20], 4791u16.to_be_bytes());
    }

    #[test]
    fn a_tunnel_is_looked_into() {
        let mut frame = vec![0u8; 14 + 20 + 8 + 12];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[23] = 17;
        frame[36..38].copy_from_slice(&GENEVE_PORT.to_be_bytes());
        // One option word, protocol, network identifier.
        frame[42..50].copy_from_slice(&[1, 0x80, 0x65, 0x58, 0, 1, 2, 0]);
        frame.extend_from_slice(&[9; 14]);
        let found = parameters(&frame);
        assert_eq!(found[MISC + 0x18..MISC + 0x1c], [0, 1, 2, 1]);
        assert_eq!(found[MISC + 0x24..MISC + 0x28], [0, 1, 0x65, 0x58]);
        assert_eq!(found[INNER + 0x08..INNER + 0x0e], [9; 6]);
        assert_eq!(parameters(&frame[..48])[INNER..INNER + 0x40], [0; 0x40]);
    }

    #[test]
    fn the_first_matching_entry_wins() {
        let entry = |group, tag, last| {
            let mut value = vec![0; MATCH];
            value[0x0d] = last;
            Entry {
                group,
                value,
                drop: false,
                tag,
                destinations: vec![],
                counters: vec![],
                context: vec![],
            }
        };
        let mut table = Table::default();
        let mut criteria = vec![0; MATCH];
        criteria[0x0d] = 0xff;
        table.groups.insert(0, criteria);
        table.groups.insert(1, vec![0; MATCH]);
        table.entries.insert(0, entry(0, 10, 6));
        table.entries.insert(1, entry(0, 11, 7));
        table.entries.insert(2, entry(1, 12, 0));
        let mut packet = vec![0; MATCH];
        packet[0x0d] = 7;
        assert_eq!(table.matching(&packet).map(|entry| entry.tag), Some(11));
        packet[0x0d] = 8;
        assert_eq!(table.matching(&packet).map(|entry| entry.tag), Some(12));
    }
}
