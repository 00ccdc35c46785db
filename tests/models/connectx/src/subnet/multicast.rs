//! Multicast groups (15.2.5.17): `MCMemberRecord` is set to join or create, deleted to leave.

use std::collections::BTreeMap;

use super::mad::{Component, EXACTLY, Refused, SM_KEY, component, matches, method, selects, speed};
use super::{
    Answer, GROUP_MTU, GROUP_RATE, Gid, LIFE_TIME, PARTITION, PORT_MTU, PORT_RATE, Request, Result,
};
use crate::layout::{Field, part, put};

/// Fields of `MCMemberRecord`, 52 bytes.
pub(super) mod member {
    use crate::layout::{Field, bit, field, word};
    pub(crate) const LEN: usize = 52;
    pub(crate) const GROUP: usize = 0;
    pub(crate) const PORT: usize = 16;
    pub(crate) const QUEUE_KEY: Field = word(32);
    pub(crate) const LID: Field = field(36, 31, 16);
    pub(crate) const MTU_SELECTOR: Field = field(36, 15, 14);
    pub(crate) const MTU: Field = field(36, 13, 8);
    pub(crate) const TRAFFIC_CLASS: Field = field(36, 7, 0);
    pub(crate) const KEY: Field = field(40, 31, 16);
    pub(crate) const RATE_SELECTOR: Field = field(40, 15, 14);
    pub(crate) const RATE: Field = field(40, 13, 8);
    pub(crate) const LIFE_TIME_SELECTOR: Field = field(40, 7, 6);
    pub(crate) const PACKET_LIFE_TIME: Field = field(40, 5, 0);
    pub(crate) const SERVICE_LEVEL: Field = field(44, 31, 28);
    pub(crate) const FLOW_LABEL: Field = field(44, 27, 8);
    pub(crate) const HOP_LIMIT: Field = field(44, 7, 0);
    pub(crate) const SCOPE: Field = field(48, 31, 28);
    pub(crate) const JOIN_STATE: Field = field(48, 27, 24);
    pub(crate) const PROXY: Field = bit(48, 23);
}

/// Bits of the component mask.
mod given {
    pub(super) const GROUP: u64 = 1 << 0;
    pub(super) const PORT: u64 = 1 << 1;
    pub(super) const QUEUE_KEY: u64 = 1 << 2;
    pub(super) const MTU: u64 = 1 << 4 | 1 << 5;
    pub(super) const TRAFFIC_CLASS: u64 = 1 << 6;
    pub(super) const KEY: u64 = 1 << 7;
    pub(super) const RATE: u64 = 1 << 8 | 1 << 9;
    pub(super) const LIFE_TIME: u64 = 1 << 10 | 1 << 11;
    pub(super) const SERVICE_LEVEL: u64 = 1 << 12;
    pub(super) const FLOW_LABEL: u64 = 1 << 13;
    pub(super) const JOIN_STATE: u64 = 1 << 16;
    /// What a group needs to be created (o15-0.2.1).
    pub(super) const NEW: u64 =
        QUEUE_KEY | TRAFFIC_CLASS | KEY | SERVICE_LEVEL | FLOW_LABEL | PORT | JOIN_STATE;
}

/// Components of a query that are compared with those of records.
const COMPARED: &[Component] = &[
    component(0, member::GROUP, 0, 128),
    component(1, member::PORT, 0, 128),
    component(2, 32, 0, 32),
    component(3, 36, 0, 16),
    component(6, 39, 0, 8),
    // A partition key without the bit of full members.
    component(7, 40, 1, 15),
    component(12, 44, 0, 4),
    component(13, 44, 4, 20),
    component(14, 47, 0, 8),
    component(15, 48, 0, 4),
];
/// Those in which a join must agree with the group that exists.
const AGREED: &[Component] = &[
    component(2, 32, 0, 32),
    component(6, 39, 0, 8),
    component(7, 40, 1, 15),
    component(12, 44, 0, 4),
    component(13, 44, 4, 20),
];

/// Bits of the join state.
mod join {
    pub(super) const FULL: u32 = 1;
    pub(super) const NON: u32 = 2;
    pub(super) const SEND_ONLY_FULL: u32 = 8;
}

/// The first multicast LID, and how many groups there may be.
const FIRST_LID: u16 = 0xc000;
const GROUPS: usize = 1 << 10;
/// The key with which the subnet's manager is trusted; what `OpenSM` expects unless told otherwise.
const TRUSTED: u64 = 1;
/// The group of IP over InfiniBand's broadcasts in the one partition, and its key, as `OpenSM`
/// makes it (RFC 4391, section 4).
const BROADCAST: Gid = [
    0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
];
const BROADCAST_KEY: u32 = 0x0b1b;

/// A group: its record without a port, and each member's join state.
#[derive(Clone, Debug)]
struct Group {
    record: Vec<u8>,
    members: BTreeMap<Gid, u32>,
    /// Whether it stays without members.
    permanent: bool,
}

impl Group {
    fn lid(&self) -> u16 {
        member::LID.get(&self.record) as u16
    }

    fn of_port(&self, port: &Gid, state: u32) -> Vec<u8> {
        let mut record = self.record.clone();
        put(&mut record, member::PORT, port);
        member::JOIN_STATE.set(&mut record, state);
        record
    }
}

/// All groups.
#[derive(Debug)]
pub(super) struct Groups {
    groups: BTreeMap<Gid, Group>,
}

impl Default for Groups {
    fn default() -> Self {
        let mut record = vec![0; member::LEN];
        put(&mut record, member::GROUP, &BROADCAST);
        for (field, value) in [
            (member::QUEUE_KEY, BROADCAST_KEY),
            (member::LID, FIRST_LID.into()),
            (member::KEY, PARTITION),
            (member::MTU, GROUP_MTU),
            (member::RATE, GROUP_RATE),
            (member::PACKET_LIFE_TIME, LIFE_TIME),
            (member::SCOPE, u32::from(BROADCAST[1] & 0xf)),
        ] {
            field.set(&mut record, value);
        }
        set_exactly(&mut record);
        let broadcast = Group {
            record,
            members: BTreeMap::new(),
            permanent: true,
        };
        Self {
            groups: [(BROADCAST, broadcast)].into(),
        }
    }
}

fn set_exactly(record: &mut [u8]) {
    for selector in [
        member::MTU_SELECTOR,
        member::RATE_SELECTOR,
        member::LIFE_TIME_SELECTOR,
    ] {
        selector.set(record, EXACTLY);
    }
}

fn gid(record: &[u8], at: usize) -> Gid {
    let mut gid = [0; 16];
    gid.copy_from_slice(&part(record, at, 16));
    gid
}

impl Groups {
    pub(super) fn identifiers(&self) -> Vec<Gid> {
        self.groups.keys().copied().collect()
    }

    pub(super) fn record(&self, group: &Gid) -> Option<Vec<u8>> {
        self.groups.get(group).map(|group| group.record.clone())
    }

    /// The members that receive what is sent to this LID; `None` if no group has it.
    pub(super) fn receivers(&self, lid: u16) -> Option<Vec<Gid>> {
        let group = self.groups.values().find(|group| group.lid() == lid)?;
        let mut members = group.members.clone();
        members.retain(|_, state| *state & (join::FULL | join::NON) != 0);
        Some(members.into_keys().collect())
    }

    /// Ends all memberships of a port.
    pub(super) fn forget(&mut self, port: Gid) {
        for group in self.groups.values_mut() {
            group.members.remove(&port);
        }
        self.delete_empty();
    }

    /// Set: the port joins a group, which is created if it is complete and does not exist.
    pub(super) fn join(&mut self, request: &Request<'_>) -> Result<Answer> {
        let (asked, port) = membership(request)?;
        let state = member::JOIN_STATE.get(&asked);
        let group = gid(&asked, member::GROUP);
        let named = request.mad.gives(given::GROUP) && group != [0; 16];
        if named && group[0] != 0xff {
            return Err(Refused::Invalid);
        }
        let group = if named && self.groups.contains_key(&group) {
            group
        } else {
            self.create(request, &asked, named.then_some(group))?
        };
        let group = self.groups.get_mut(&group).ok_or(Refused::Invalid)?;
        agrees(request.mad.components(), &asked, &group.record)?;
        let joined = group.members.entry(port).or_insert(0);
        *joined |= state;
        let joined = *joined;
        Ok(Answer::One(group.of_port(&port, joined)))
    }

    fn create(&mut self, request: &Request<'_>, asked: &[u8], name: Option<Gid>) -> Result<Gid> {
        if !request.mad.gives(given::NEW) {
            return Err(Refused::Incomplete);
        }
        // Only full members create, and only in the one partition.
        let creates = join::FULL | join::SEND_ONLY_FULL;
        let partition = member::KEY.get(asked) & 0x7fff == PARTITION & 0x7fff;
        if member::JOIN_STATE.get(asked) & creates == 0 || !partition {
            return Err(Refused::Invalid);
        }
        let lid = self.free_lid().ok_or(Refused::NoResources)?;
        let name = name.unwrap_or_else(|| {
            // Transient, of this link, with a signature of names that an administrator gives.
            let mut name = [0xff, 0x12, 0xa0, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            name[14..].copy_from_slice(&lid.to_be_bytes());
            name
        });
        let mut record = asked.to_vec();
        put(&mut record, member::GROUP, &name);
        put(&mut record, member::PORT, &[0; 16]);
        member::LID.set(&mut record, lid.into());
        member::KEY.set(&mut record, PARTITION);
        let mask = request.mad.components();
        let plain: fn(u32) -> u64 = u64::from;
        for (bits, selector, field, best, rank) in [
            (
                given::MTU,
                member::MTU_SELECTOR,
                member::MTU,
                PORT_MTU,
                plain,
            ),
            (
                given::RATE,
                member::RATE_SELECTOR,
                member::RATE,
                PORT_RATE,
                speed,
            ),
        ] {
            let value = chosen(mask & bits == bits, selector, field, asked, best, rank);
            field.set(&mut record, value.ok_or(Refused::Invalid)?);
        }
        member::PACKET_LIFE_TIME.set(&mut record, LIFE_TIME);
        member::SCOPE.set(&mut record, u32::from(name[1] & 0xf));
        member::JOIN_STATE.set(&mut record, 0);
        member::PROXY.set(&mut record, 0);
        set_exactly(&mut record);
        let group = Group {
            record,
            members: BTreeMap::new(),
            permanent: false,
        };
        self.groups.insert(name, group);
        Ok(name)
    }

    fn free_lid(&self) -> Option<u16> {
        let taken: Vec<u16> = self.groups.values().map(Group::lid).collect();
        let end = FIRST_LID.saturating_add(GROUPS as u16);
        (FIRST_LID..end).find(|lid| !taken.contains(lid))
    }

    /// Delete: the port gives up these ways of being a member.
    pub(super) fn leave(&mut self, request: &Request<'_>) -> Result<Answer> {
        let (asked, port) = membership(request)?;
        if !request.mad.gives(given::GROUP) {
            return Err(Refused::Incomplete);
        }
        let name = gid(&asked, member::GROUP);
        let group = self.groups.get_mut(&name).ok_or(Refused::Invalid)?;
        let state = group.members.get_mut(&port).ok_or(Refused::Invalid)?;
        let left = member::JOIN_STATE.get(&asked);
        if *state & left == 0 {
            return Err(Refused::Invalid);
        }
        *state &= !left;
        let rest = *state;
        if rest == 0 {
            group.members.remove(&port);
        }
        let record = group.of_port(&port, rest);
        self.delete_empty();
        Ok(Answer::One(record))
    }

    /// A group ends with its last full member.
    fn delete_empty(&mut self) {
        let keeps = join::FULL | join::SEND_ONLY_FULL;
        self.groups.retain(|_, group| {
            group.permanent || group.members.values().any(|state| state & keeps != 0)
        });
    }

    /// Get and GetTable: groups without their members, unless the asker has the manager's trust.
    pub(super) fn query(&self, request: &Request<'_>) -> Result<Answer> {
        let asked = request.mad.record(member::LEN);
        let mask = request.mad.components();
        let trusted = request.method == method::GET_TABLE && SM_KEY.get(&request.mad.0) == TRUSTED;
        let mut records = Vec::new();
        for group in self.groups.values() {
            if trusted {
                let members = group.members.iter();
                records.extend(members.map(|(port, state)| group.of_port(port, *state)));
            } else if mask & given::PORT != 0 {
                // A port may ask for its own membership.
                let port = gid(&asked, member::PORT);
                let state = group.members.get(&port);
                records.extend(state.map(|state| group.of_port(&port, *state)));
            } else {
                records.push(group.record.clone());
            }
        }
        records.retain(|record| {
            matches(COMPARED, mask, &asked, record) && agrees_in_selected(mask, &asked, record)
        });
        request.found(records)
    }
}

/// The record and the port of a request to join or leave, which must be the sender's own.
fn membership(request: &Request<'_>) -> Result<(Vec<u8>, Gid)> {
    let asked = request.mad.record(member::LEN);
    if !request.mad.gives(given::PORT | given::JOIN_STATE) {
        return Err(Refused::Incomplete);
    }
    if member::JOIN_STATE.get(&asked) == 0 {
        return Err(Refused::Invalid);
    }
    let port = gid(&asked, member::PORT);
    let mut ports = request.ports.iter();
    match ports.find(|known| known.gid == port) {
        None => Err(Refused::InvalidGid),
        Some(known) if known.lid != request.from.lid => Err(Refused::Denied),
        Some(_) => Ok((asked, port)),
    }
}

/// The value of a new group: the best that ports have and the selector allows.
fn chosen(
    given: bool,
    selector: Field,
    field: Field,
    asked: &[u8],
    best: u32,
    rank: fn(u32) -> u64,
) -> Option<u32> {
    let (selector, code) = (selector.get(asked), field.get(asked));
    if !given {
        return Some(best);
    }
    let mut values: Vec<u32> = (1..64)
        .filter(|value| (1..=rank(best)).contains(&rank(*value)))
        .filter(|value| selects(selector, rank(code), rank(*value)))
        .collect();
    values.sort_by_key(|value| rank(*value));
    values.last().copied()
}

/// Whether a join agrees with the group in everything that it gives.
fn agrees(mask: u64, asked: &[u8], record: &[u8]) -> Result<()> {
    if matches(AGREED, mask, asked, record) && agrees_in_selected(mask, asked, record) {
        Ok(())
    } else {
        Err(Refused::Invalid)
    }
}

fn agrees_in_selected(mask: u64, asked: &[u8], record: &[u8]) -> bool {
    let plain: fn(u32) -> u64 = u64::from;
    let selected = [
        (given::MTU, member::MTU_SELECTOR, member::MTU, plain),
        (given::RATE, member::RATE_SELECTOR, member::RATE, speed),
        (
            given::LIFE_TIME,
            member::LIFE_TIME_SELECTOR,
            member::PACKET_LIFE_TIME,
            plain,
        ),
    ];
    selected.iter().all(|(bits, selector, field, rank)| {
        mask & bits != *bits
            || selects(
                selector.get(asked),
                rank(field.get(asked)),
                rank(field.get(record)),
            )
    })
}
