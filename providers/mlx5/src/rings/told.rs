//! Entries are copied out of the rings, and whoever watches is told of them.

use std::sync::atomic::{AtomicU64, Ordering};

use uverbs_core::hw::{BlockRing, UnitRing};
use uverbs_core::rings::{Fields, Watched};

use super::completion::{self, ENTRY, MINI};
use super::receive;
use super::segments::Route;
use super::send;
use crate::cqe::ring::{CqRing, Place};
use crate::cqe::{format, opcode};
use crate::sync::barrier;
use crate::wqe::{BLOCK_UNITS, UNIT};

/// A send queue that is watched.
#[derive(Debug)]
pub(crate) struct Sends {
    pub(crate) watched: Watched,
    pub(crate) route: Route,
}

impl Sends {
    /// Tells of the requests in `ring` from one block up to another, both counted on and on.
    #[cold]
    pub(crate) fn tell(&self, ring: &BlockRing, from: u32, to: u32) {
        let mut block = from;
        // Each request has a block of its own, so they end.
        while block != to {
            let first = block.wrapping_mul(BLOCK_UNITS);
            let units = send::units(u64::from_be(ring.word(first, 0)));
            let bytes = units_of(ring, first, units);
            let index = block & (ring.mask() / BLOCK_UNITS);
            self.watched
                .tell(index, bytes, |bytes| send::fields(bytes, self.route));
            let blocks = units.div_ceil(BLOCK_UNITS);
            block = block.wrapping_add(blocks.min(to.wrapping_sub(block)));
        }
    }
}

/// Tells of the receive requests at these indexes of a ring, each of `1 << shift` units.
#[cold]
pub(crate) fn receives(
    watched: &Watched,
    ring: &UnitRing,
    shift: u32,
    listed: bool,
    indexes: impl Iterator<Item = u32>,
) {
    for index in indexes {
        let bytes = units_of(ring, index << shift, 1 << shift);
        watched.tell(index, bytes, |bytes| receive::fields(bytes, listed));
    }
}

fn units_of(ring: &UnitRing, first: u32, units: u32) -> Vec<u8> {
    let unit = |at| ring.get(first.wrapping_add(at)).map(u64::to_ne_bytes);
    (0..units).flat_map(unit).flatten().collect()
}

/// A completion queue that is watched.
#[derive(Debug)]
pub(crate) struct Completions {
    watched: Watched,
    /// Entries that were told of, counted on and on.
    told: AtomicU64,
}

impl Completions {
    /// Nothing was taken out of it yet.
    pub(crate) fn new(watched: Watched) -> Self {
        Self {
            watched,
            told: AtomicU64::new(0),
        }
    }

    /// Tells of the entries before `position`, which were taken and not given back.
    #[cold]
    pub(crate) fn tell(&self, ring: &CqRing, position: u64) {
        barrier::from_device();
        let told = self.told.fetch_max(position, Ordering::Relaxed);
        for position in told..position {
            self.tell_one(ring, ring.place(position), &[]);
        }
    }

    /// Tells of an entry that is there and stands for others, with what it says of each. They are
    /// told of again when they are taken, as the entries that were made of it.
    #[cold]
    pub(crate) fn tell_title(&self, ring: &CqRing, place: Place) {
        let [_, count] = ring.units.get(ring.first(place.position).wrapping_add(2));
        let count = u64::from_be(count) & u64::from(u32::MAX);
        let minis: Vec<_> = (0..count.min(MOST_MINIS))
            .map(|at| mini(ring, place.position, at))
            .collect();
        self.tell_one(ring, place, &minis);
    }

    fn tell_one(&self, ring: &CqRing, place: Place, minis: &[[u8; MINI]]) {
        let entry = entry(ring, place);
        let [.., last] = entry;
        let has_data = u32::from(last >> 2 & 3) == format::DATA_64
            && matches!(
                u32::from(last >> 4),
                opcode::RECEIVE_WRITE_IMM..=opcode::RECEIVE_INVALIDATE
            );
        let message = ring
            .data(place, format::DATA_64)
            .filter(|_| has_data)
            .map_or_else(Vec::new, |(bytes, _)| bytes.to_vec());
        let bytes = [&message, entry.as_slice(), minis.as_flattened()].concat();
        let index = u32::try_from(place.position & u64::from(ring.entries() - 1)).unwrap_or(0);
        self.watched.tell(index, bytes, |_| -> Fields {
            completion::fields(&message, &entry, minis)
        });
    }
}

/// Completions that come as one, at most: more than any device does.
const MOST_MINIS: u64 = 256;

/// The 64 bytes of an entry.
fn entry(ring: &CqRing, place: Place) -> [u8; ENTRY] {
    let first = ring.first(place.position);
    let mut bytes = [0; ENTRY];
    for (at, unit) in (0..).zip(bytes.as_chunks_mut::<{ UNIT as usize }>().0) {
        let words = ring.units.get(first.wrapping_add(at)).map(u64::to_ne_bytes);
        unit.copy_from_slice(words.as_flattened());
    }
    bytes
}

/// What a title at `position` says of one of those that it stands for. An array lies in the second
/// place, and those of eight more in every eighth.
fn mini(ring: &CqRing, position: u64, at: u64) -> [u8; MINI] {
    let array = ring.first(position.wrapping_add((at & !7).max(1)));
    let unit = array.wrapping_add(u32::try_from(at & 7).unwrap_or(0) / 2);
    let [first, second] = ring.units.get(unit);
    if at & 1 == 0 { first } else { second }.to_ne_bytes()
}
