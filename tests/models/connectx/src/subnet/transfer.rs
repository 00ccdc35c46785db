//! Reliable transfers (RMPP, 13.6) of tables, from the administrator to those that ask.

use std::collections::BTreeMap;

use super::mad::{self, CLASS_HEADER, LEN, Mad, ROOM, method, rmpp};
use super::{Address, Letter};
use crate::layout::put;

/// How many transfers may be under way; of more, the oldest end.
const MOST: usize = 64;

/// A table on its way.
#[derive(Debug)]
struct Transfer {
    segments: Vec<[u8; LEN]>,
    /// How many of them the asker has room for.
    window: usize,
    /// Greater for a later one.
    age: u64,
}

/// All of them, by asker and transaction.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    transfers: BTreeMap<(Address, u64), Transfer>,
    begun: u64,
}

impl Transfers {
    /// Begins to answer a request with a table. Its first segment is sent at once, the others when
    /// it is acknowledged.
    pub(super) fn begin(&mut self, to: Address, request: &Mad, records: &[Vec<u8>]) -> Vec<Letter> {
        let segments = segments(request, records);
        self.begun += 1;
        let first = segments.first().copied();
        let transfer = Transfer {
            segments,
            window: 1,
            age: self.begun,
        };
        self.transfers.insert((to, request.transaction()), transfer);
        if self.transfers.len() > MOST {
            let ages = self.transfers.iter();
            let oldest = ages.min_by_key(|(_, transfer)| transfer.age);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                self.transfers.remove(&key);
            }
        }
        first.into_iter().map(|mad| Letter { to, mad }).collect()
    }

    /// An acknowledgement allows more segments; anything else ends the transfer.
    pub(super) fn hear(&mut self, from: Address, mad: &Mad) -> Vec<Letter> {
        let key = (from, mad.transaction());
        let Some(transfer) = self.transfers.get_mut(&key) else {
            return Vec::new();
        };
        let count = transfer.segments.len();
        let arrived = mad.get(rmpp::SEGMENT) as usize;
        if mad.get(rmpp::TYPE) != rmpp::ACK || arrived >= count {
            self.transfers.remove(&key);
            return Vec::new();
        }
        // Those after the last that arrived, as far as there is room: new ones, and those that
        // were sent and are missing.
        let window = (mad.get(rmpp::LENGTH) as usize).min(count);
        transfer.window = transfer.window.max(window);
        let next = transfer.segments.get(arrived..transfer.window);
        let next = next.unwrap_or_default().iter();
        next.map(|mad| Letter {
            to: from,
            mad: *mad,
        })
        .collect()
    }
}

/// The datagrams of a table, in order; one without records if it is empty.
fn segments(request: &Mad, records: &[Vec<u8>]) -> Vec<[u8; LEN]> {
    // Each record is as long as a multiple of eight bytes.
    let size = records
        .first()
        .map_or(0, |record| record.len().next_multiple_of(8));
    let mut table = vec![0; size * records.len()];
    for (at, record) in records.iter().enumerate() {
        put(&mut table, at * size, record);
    }
    let parts: Vec<&[u8]> = if table.is_empty() {
        vec![&[]]
    } else {
        table.chunks(ROOM).collect()
    };
    let count = parts.len();
    let answer = method::GET_TABLE | method::ANSWER;
    let segment = |(at, part): (usize, &&[u8])| {
        let (first, last) = (at == 0, at + 1 == count);
        // The first segment has the length of all, the last its own.
        let length = match (first, last) {
            (_, true) => CLASS_HEADER + part.len(),
            (true, false) => CLASS_HEADER * count + table.len(),
            (false, false) => CLASS_HEADER + ROOM,
        };
        let mut mad = request.answer(answer, part);
        let flags = [
            (true, rmpp::ACTIVE),
            (first, rmpp::FIRST),
            (last, rmpp::LAST),
        ];
        let flags = flags.iter().filter(|(set, _)| *set);
        for (field, value) in [
            (rmpp::VERSION, 1),
            (rmpp::TYPE, rmpp::DATA),
            (rmpp::FLAGS, flags.map(|(_, flag)| flag).sum()),
            (rmpp::SEGMENT, at as u32 + 1),
            (rmpp::LENGTH, length as u32),
            (mad::ATTRIBUTE_OFFSET, size as u32 / 8),
        ] {
            mad.set(field, value);
        }
        mad.0
    };
    parts.iter().enumerate().map(segment).collect()
}
