//! Service records (15.2.5.14): what a port offers, under a number and a name, for a time.

use std::collections::BTreeMap;

use super::mad::{Component, Refused, component, matches, method};
use super::{Answer, Gid, PARTITION, Request, Result};
use crate::layout::{Field, Wide, be16, part, put, word};

const LEN: usize = 176;
const NUMBER: Wide = Wide(0);
const PORT: usize = 8;
const KEY: usize = 24;
/// Seconds; all ones: without end.
const LEASE: Field = word(28);
const FOREVER: u32 = u32::MAX;
const NAME: usize = 48;
const NAME_LEN: usize = 64;
/// How many records there may be.
const MOST: usize = 1 << 10;

/// Bits of the component mask.
mod given {
    pub(super) const NUMBER: u64 = 1 << 0;
    pub(super) const PORT: u64 = 1 << 1;
}

/// Number, port, partition key, lease, key, name, and the service's own data.
const COMPARED: [Component; 36] = {
    const NOTHING: Component = component(63, 0, 0, 0);
    let mut table = [NOTHING; 36];
    table[0] = component(0, 0, 0, 64);
    table[1] = component(1, PORT, 0, 128);
    table[2] = component(2, KEY, 0, 16);
    table[3] = component(4, 28, 0, 32);
    table[4] = component(5, 32, 0, 128);
    table[5] = component(6, 48, 0, 512);
    // Sixteen values of 8 bits, eight of 16, four of 32, two of 64.
    let (mut at, mut byte, mut bits, mut left) = (6, 112, 8, 16);
    while at < 36 {
        table[at] = component(at as u32 + 1, byte, 0, bits);
        byte += bits / 8;
        at += 1;
        left -= 1;
        if left == 0 {
            bits *= 2;
            left = 128 / bits;
        }
    }
    table
};

/// What identifies a record: service, port, partition.
type Id = (u64, Gid, u16);

/// A record, and when it ends.
#[derive(Debug)]
struct Service {
    record: Vec<u8>,
    ends: Option<u64>,
}

/// All services.
#[derive(Debug, Default)]
pub(super) struct Services {
    services: BTreeMap<Id, Service>,
}

impl Services {
    /// Keeps a record without end. `false` if the name is too long, or there is no more room.
    pub(super) fn register(&mut self, port: Gid, number: u64, name: &str) -> bool {
        let id = (number, port, PARTITION as u16);
        let full = self.services.len() >= MOST && !self.services.contains_key(&id);
        if full || name.len() >= NAME_LEN {
            return false;
        }
        let mut record = vec![0; LEN];
        NUMBER.set(&mut record, number);
        put(&mut record, PORT, &port);
        put(&mut record, KEY, &(PARTITION as u16).to_be_bytes());
        LEASE.set(&mut record, FOREVER);
        put(&mut record, NAME, name.as_bytes());
        self.services.insert(id, Service { record, ends: None });
        true
    }

    pub(super) fn serve(&mut self, request: &Request<'_>) -> Result<Answer> {
        let now = request.now;
        self.services
            .retain(|_, service| service.ends.is_none_or(|end| end > now));
        let asked = request.mad.record(LEN);
        let mut port = [0; 16];
        port.copy_from_slice(&part(&asked, PORT, 16));
        let id = (NUMBER.get(&asked), port, be16(&asked, KEY));
        let named = request.mad.gives(given::NUMBER | given::PORT);
        match request.method {
            method::SET | method::DELETE if !named => Err(Refused::Incomplete),
            method::SET => {
                if !request.ports.iter().any(|known| known.gid == port) {
                    return Err(Refused::InvalidGid);
                }
                if self.services.len() >= MOST && !self.services.contains_key(&id) {
                    return Err(Refused::NoResources);
                }
                let ends = match LEASE.get(&asked) {
                    FOREVER => None,
                    seconds => Some(now.saturating_add(u64::from(seconds) * 1_000_000_000)),
                };
                let record = asked.clone();
                self.services.insert(id, Service { record, ends });
                Ok(Answer::One(asked))
            }
            method::DELETE => {
                let gone = self.services.remove(&id).ok_or(Refused::NoRecords)?;
                Ok(Answer::One(gone.record))
            }
            _ => {
                let mask = request.mad.components();
                let all = self.services.values().map(|service| &service.record);
                let found = all.filter(|record| matches(&COMPARED, mask, &asked, record));
                request.found(found.cloned().collect())
            }
        }
    }
}
