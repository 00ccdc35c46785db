//! Path records (15.2.5.16): every port reaches every other in one hop, and itself.

use super::mad::{Component, EXACTLY, Refused, component, matches, selects, speed};
use super::multicast::{Groups, member};
use super::{Answer, Gid, LIFE_TIME, PARTITION, PORT_MTU, PORT_RATE, Port, Request, Result};
use crate::layout::{Field, Wide, bit, field, part, put};

const LEN: usize = 64;
const SERVICE: Wide = Wide(0);
const DESTINATION: usize = 8;
const SOURCE: usize = 24;
const DESTINATION_LID: Field = field(40, 31, 16);
const SOURCE_LID: Field = field(40, 15, 0);
const FLOW_LABEL: Field = field(44, 27, 8);
const HOP_LIMIT: Field = field(44, 7, 0);
const TRAFFIC_CLASS: Field = field(48, 31, 24);
const REVERSIBLE: Field = bit(48, 23);
const PATHS: Field = field(48, 22, 16);
const KEY: Field = field(48, 15, 0);
const QOS_CLASS: Field = field(52, 31, 20);
const SERVICE_LEVEL: Field = field(52, 19, 16);
const MTU_SELECTOR: Field = field(52, 15, 14);
const MTU: Field = field(52, 13, 8);
const RATE_SELECTOR: Field = field(52, 7, 6);
const RATE: Field = field(52, 5, 0);
const LIFE_TIME_SELECTOR: Field = field(56, 31, 30);
const PACKET_LIFE_TIME: Field = field(56, 29, 24);

/// Bits of the component mask.
mod given {
    pub(super) const DESTINATION: u32 = 2;
    pub(super) const SOURCE: u32 = 3;
    pub(super) const DESTINATION_LID: u32 = 4;
    pub(super) const SOURCE_LID: u32 = 5;
    pub(super) const REVERSIBLE: u32 = 11;
    pub(super) const KEY: u32 = 13;
    pub(super) const MTU: u32 = 17;
    pub(super) const RATE: u32 = 19;
    pub(super) const LIFE_TIME: u32 = 21;
}

/// Components that a path must have as they are. The others describe the traffic, and are
/// returned as they came.
const EXACT: &[Component] = &[
    component(given::DESTINATION, DESTINATION, 0, 128),
    component(given::SOURCE, SOURCE, 0, 128),
    component(given::DESTINATION_LID, 40, 0, 16),
    component(given::SOURCE_LID, 40, 16, 16),
    // Raw traffic.
    component(6, 44, 0, 1),
    // Service level.
    component(15, 52, 12, 4),
];

/// Get and GetTable.
pub(super) fn query(request: &Request<'_>, groups: &Groups) -> Result<Answer> {
    let mask = request.mad.components();
    let gives = |bit: u32| mask >> bit & 1 != 0;
    let asked = request.mad.record(LEN);
    let all: Vec<Port> = request
        .ports
        .iter()
        .copied()
        .chain([Port::manager()])
        .collect();
    let known = |at| all.iter().any(|port| port.gid[..] == part(&asked, at, 16));
    let destination = gid(&asked, DESTINATION);
    let group = gives(given::DESTINATION) && destination[0] == 0xff;
    if gives(given::SOURCE) && !known(SOURCE)
        || gives(given::DESTINATION) && !group && !known(DESTINATION)
    {
        return Err(Refused::InvalidGid);
    }
    if gives(given::KEY) && KEY.get(&asked) & 0x7fff != PARTITION & 0x7fff {
        return Err(Refused::NoRecords);
    }
    let mut records = Vec::new();
    for from in &all {
        if group {
            let to = groups.record(&destination);
            records.extend(to.map(|to| to_group(&asked, from, &to)));
        } else {
            // One path between two ports, so that the number asked for is never exceeded.
            records.extend(all.iter().map(|to| between(&asked, from, to)));
        }
    }
    records.retain(|path| matches(EXACT, mask, &asked, path) && good_enough(mask, &asked, path));
    request.found(records)
}

/// Whether the path is as good as is asked for: reversible, and of an MTU, a rate and a life time.
fn good_enough(mask: u64, asked: &[u8], path: &[u8]) -> bool {
    let plain: fn(u32) -> u64 = u64::from;
    let selected = [
        (given::MTU, MTU_SELECTOR, MTU, plain),
        (given::RATE, RATE_SELECTOR, RATE, speed),
        (
            given::LIFE_TIME,
            LIFE_TIME_SELECTOR,
            PACKET_LIFE_TIME,
            plain,
        ),
    ];
    let reversible = mask >> given::REVERSIBLE & 1 != 0 && REVERSIBLE.is_set(asked);
    (!reversible || REVERSIBLE.is_set(path))
        && selected.iter().all(|(bit, selector, field, rank)| {
            // The selector's bit is the one before its value's.
            mask >> (bit - 1) & 0b11 != 0b11
                || selects(
                    selector.get(asked),
                    rank(field.get(asked)),
                    rank(field.get(path)),
                )
        })
}

fn gid(record: &[u8], at: usize) -> Gid {
    let mut gid = [0; 16];
    gid.copy_from_slice(&part(record, at, 16));
    gid
}

fn between(asked: &[u8], from: &Port, to: &Port) -> Vec<u8> {
    let mut path = vec![0; LEN];
    SERVICE.set(&mut path, SERVICE.get(asked));
    put(&mut path, DESTINATION, &to.gid);
    put(&mut path, SOURCE, &from.gid);
    DESTINATION_LID.set(&mut path, to.lid.into());
    SOURCE_LID.set(&mut path, from.lid.into());
    FLOW_LABEL.copy(asked, &mut path);
    TRAFFIC_CLASS.copy(asked, &mut path);
    QOS_CLASS.copy(asked, &mut path);
    REVERSIBLE.set(&mut path, 1);
    PATHS.set(&mut path, 1);
    KEY.set(&mut path, PARTITION);
    for (field, value) in [
        (MTU_SELECTOR, EXACTLY),
        (MTU, PORT_MTU),
        (RATE_SELECTOR, EXACTLY),
        (RATE, PORT_RATE),
        (LIFE_TIME_SELECTOR, EXACTLY),
        (PACKET_LIFE_TIME, LIFE_TIME),
    ] {
        field.set(&mut path, value);
    }
    path
}

/// The path to a multicast group.
fn to_group(asked: &[u8], from: &Port, group: &[u8]) -> Vec<u8> {
    let to = Port {
        lid: member::LID.get(group) as u16,
        gid: gid(group, member::GROUP),
    };
    let mut path = between(asked, from, &to);
    REVERSIBLE.set(&mut path, 0);
    for (field, of_group) in [
        (FLOW_LABEL, member::FLOW_LABEL),
        (HOP_LIMIT, member::HOP_LIMIT),
        (TRAFFIC_CLASS, member::TRAFFIC_CLASS),
        (KEY, member::KEY),
        (SERVICE_LEVEL, member::SERVICE_LEVEL),
        (MTU, member::MTU),
        (RATE, member::RATE),
        (PACKET_LIFE_TIME, member::PACKET_LIFE_TIME),
    ] {
        field.set(&mut path, of_group.get(group));
    }
    path
}
