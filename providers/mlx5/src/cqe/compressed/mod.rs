//! Compressed completions: several completions that the device writes as one entry.
//!
//! A title is in the slot of the first completion. It has everything that the completions have in
//! common, and their number in place of the length. The second slot holds an array with what
//! differs in the first eight, the ninth slot the array of the next eight, and so on; the contents
//! of the other slots are stale. Here they are expanded into ordinary entries, each in its own
//! slot, which belongs to the program until it gives the slots back: so polling, resets and resizes
//! see them as if the device had written them one by one.
//!
//! Facts: `struct mlx5_mini_cqe8` of the kernel's `include/linux/mlx5/device.h`, and the network
//! driver's own receive path.
#![expect(
    clippy::cast_possible_truncation,
    reason = "fields are cut out of wider words"
)]

use super::ring::CqRing;
use super::{Results, Tail, format, opcode};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::barrier;

/// One entry of an array; eight of them have the size of a completion entry.
const EACH: u32 = 8;
/// The word of an entry that contains its length, and the last word.
const LENGTH: usize = 5;
const TAIL: usize = 7;

/// An entry's eight words, in host order.
type Words = [u64; 8];

impl CqRing {
    /// How many entries the written entry at `position` represents. May be called by any thread,
    /// while another expands them.
    pub(crate) fn stands_for(&self, position: u64, tail: Tail) -> u64 {
        if self.results.is_none() || tail.format() != format::COMPRESSED {
            return 1;
        }
        barrier::from_device();
        let count = self.words(position)[LENGTH] & u64::from(u32::MAX);
        // The title is the last to be replaced by an entry, and its length after that.
        barrier::from_device();
        match self.tail(position) {
            Some(now) if now.format() == format::COMPRESSED => {
                count.clamp(1, self.entries().into())
            }
            _ => {
                // A thread that goes on to the next entry finds it expanded.
                barrier::from_device();
                1
            }
        }
    }

    /// Expands the compressed entry at `position`, which is the next to be taken. Returns whether
    /// this was possible; a malformed title stays.
    #[cold]
    pub(crate) fn expand(&self, position: u64) -> bool {
        let Some(results) = self.results else {
            return false;
        };
        barrier::from_device();
        let title = self.words(position);
        let (tail, count) = (Tail(title[TAIL]), title[LENGTH] as u32);
        let sound = tail.format() == format::COMPRESSED
            && tail.opcode() <= opcode::RECEIVE_INVALIDATE
            && (2..=self.entries()).contains(&count);
        if !sound {
            return false;
        }
        // From the end: an array is in the slot of the first or the second of its own entries.
        for group in (0..count.div_ceil(EACH)).rev() {
            let first = group * EACH;
            let minis = self.words(position + u64::from(first.max(1)));
            let behind_title = usize::from(group == 0);
            for (index, mini) in (first..count).zip(minis).skip(behind_title) {
                self.put(
                    position + u64::from(index),
                    &one(&title, mini, index, results),
                );
            }
            if group == 0 {
                self.put_title(position, &one(&title, minis[0], 0, results));
            }
        }
        true
    }

    fn words(&self, position: u64) -> Words {
        let first = self.first(position);
        let mut words = [0; 8];
        for (unit, pair) in (0..).zip(words.as_chunks_mut::<2>().0) {
            *pair = self.units.get(first.wrapping_add(unit)).map(u64::from_be);
        }
        words
    }

    /// Stores an entry in its slot, as if the device had written it there.
    fn put(&self, position: u64, words: &Words) {
        let first = self.first(position);
        let mut words = *words;
        words[TAIL] = words[TAIL] & !1 | u64::from(self.owner(self.place(position)));
        for (unit, pair) in (0..).zip(words.as_chunks::<2>().0) {
            self.units
                .put(first.wrapping_add(unit), pair.map(u64::to_be));
        }
    }

    /// Stores the first entry in the title's slot. A reader that no longer finds a title there
    /// finds the other entries.
    fn put_title(&self, position: u64, words: &Words) {
        let first = self.first(position);
        let owner = u64::from(self.owner(self.place(position)));
        let tail = words[TAIL] & !1 | owner;
        fence(Ordering::Release);
        self.units.set_word(first.wrapping_add(3), 1, tail.to_be());
        fence(Ordering::Release);
        for (unit, pair) in (0..3).zip(words.as_chunks::<2>().0) {
            self.units
                .put(first.wrapping_add(unit), pair.map(u64::to_be));
        }
    }
}

/// The entry with this index of a title's entries, with the fields that differ.
fn one(title: &Words, mini: u64, index: u32, results: Results) -> Words {
    const COUNTER: u64 = 0xffff << 16;
    const FORMAT: u64 = 3 << 2;
    const SEND_OPCODE: u64 = 0xff << 56;
    const HASH: u64 = u32::MAX as u64;
    const HASH_TYPE: u64 = 0xff << 56;
    const CHECKSUM: u64 = 0xffff << 16;
    let mut words = *title;
    put(&mut words[LENGTH], u32::MAX.into(), mini);
    let tail = &mut words[TAIL];
    put(tail, FORMAT, 0);
    if Tail(*tail).opcode() == opcode::REQUEST {
        // Its counter and its own opcode, 16 and 8 bits.
        put(tail, COUNTER, mini >> 32);
        put(tail, SEND_OPCODE, mini << 16);
        return words;
    }
    let counter = Tail(*tail).counter().wrapping_add(index as u16);
    put(tail, COUNTER, u64::from(counter) << 16);
    match results {
        Results::Hash => put(&mut words[1], HASH, mini >> 32),
        Results::Checksum | Results::ChecksumAndStride => {
            put(&mut words[1], HASH, 0);
            put(&mut words[2], HASH_TYPE, 0);
            put(&mut words[2], CHECKSUM, mini >> 32);
        }
    }
    if results == Results::ChecksumAndStride {
        // In place of the request's number, as where nothing is compressed.
        put(&mut words[TAIL], COUNTER, mini >> 16);
    }
    words
}

/// Replaces the bits of `mask`.
fn put(word: &mut u64, mask: u64, bits: u64) {
    *word ^= (*word ^ bits) & mask;
}

#[cfg(test)]
mod tests;
