//! Copies entries out of the rings, and reports them to observers.

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

/// A send queue with an observer.
#[derive(Debug)]
pub(crate) struct Sends {
    pub(crate) watched: Watched,
    pub(crate) route: Route,
}

impl Sends {
    /// Reports the requests in `ring` from one block up to another (both free-running counters).
    #[cold]
    pub(crate) fn report(&self, ring: &BlockRing, from: u32, to: u32) {
        let mut block = from;
        // Each request takes at least one block, so the loop ends.
        while block != to {
            let first = block.wrapping_mul(BLOCK_UNITS);
            let units = send::units(u64::from_be(ring.word(first, 0)));
            let bytes = units_of(ring, first, units);
            let index = block & (ring.mask() / BLOCK_UNITS);
            self.watched
                .report(index, bytes, |bytes| send::fields(bytes, self.route));
            let blocks = units.div_ceil(BLOCK_UNITS);
            block = block.wrapping_add(blocks.min(to.wrapping_sub(block)));
        }
    }
}

/// Reports the receive requests at these indexes of a ring, each of `1 << shift` units.
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
        watched.report(index, bytes, |bytes| receive::fields(bytes, listed));
    }
}

fn units_of(ring: &UnitRing, first: u32, units: u32) -> Vec<u8> {
    let unit = |at| ring.get(first.wrapping_add(at)).map(u64::to_ne_bytes);
    (0..units).flat_map(unit).flatten().collect()
}

/// A completion queue with an observer.
#[derive(Debug)]
pub(crate) struct Completions {
    watched: Watched,
    /// Entries reported (free-running counter).
    reported: AtomicU64,
}

impl Completions {
    /// An observer of a queue from which no entry has been taken.
    pub(crate) fn new(watched: Watched) -> Self {
        Self {
            watched,
            reported: AtomicU64::new(0),
        }
    }

    /// Reports the entries before `position`, which were taken and not given back.
    #[cold]
    pub(crate) fn report(&self, ring: &CqRing, position: u64) {
        barrier::from_device();
        let reported = self.reported.fetch_max(position, Ordering::Relaxed);
        for position in reported..position {
            self.report_one(ring, ring.place(position), &[]);
        }
    }

    /// Reports a compressed entry that has been written, with the elements of its array. The
    /// completions are reported again when they are taken, as the entries into which it was
    /// expanded.
    #[cold]
    pub(crate) fn report_title(&self, ring: &CqRing, place: Place) {
        let [_, count] = ring.units.get(ring.first(place.position).wrapping_add(2));
        let count = u64::from_be(count) & u64::from(u32::MAX);
        let minis: Vec<_> = (0..count.min(MOST_MINIS))
            .map(|at| mini(ring, place.position, at))
            .collect();
        self.report_one(ring, place, &minis);
    }

    fn report_one(&self, ring: &CqRing, place: Place, minis: &[[u8; MINI]]) {
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
        self.watched.report(index, bytes, |_| -> Fields {
            completion::fields(&message, &entry, minis)
        });
    }
}

/// The maximum number of completions in a compressed entry: more than any device writes.
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

/// One element of the array of a title at `position`. The first array is in the second slot, and
/// those of eight more elements each in every eighth slot.
fn mini(ring: &CqRing, position: u64, at: u64) -> [u8; MINI] {
    let array = ring.first(position.wrapping_add((at & !7).max(1)));
    let unit = array.wrapping_add(u32::try_from(at & 7).unwrap_or(0) / 2);
    let [first, second] = ring.units.get(unit);
    if at & 1 == 0 { first } else { second }.to_ne_bytes()
}
