//! A ring whose two indexes are in memory shared with the other side.
//!
//! # Safety
//!
//! [`SharedRing`] holds these invariants from construction on:
//!
//! 1. `data`, `producer` and `consumer` point into `mapping`, which lives as long as the ring.
//! 2. `slots` is a power of two and `data + slots * slot_size` does not pass the mapping's end.
//! 3. `producer` and `consumer` are 4-byte aligned; `data` and `slot_size` are multiples of 8.
//!
//! The ring owns `mapping` and lends no pointer to it, so all accesses of this process are made
//! here: to the indexes as atomic 4-byte words, to the slots as atomic 8-byte words. What is copied
//! out of a slot is loaded only once.
#![allow(unsafe_code, reason = "accesses memory shared with the other side")]

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::pack::Pack;
use super::words::{self, WORD};
use crate::sys::Mapping;

/// The layout of a ring in its mapping. All offsets and sizes are in bytes.
#[derive(Clone, Copy, Debug)]
pub struct RingLayout {
    /// Offset of the 32-bit producer index.
    pub producer: usize,
    /// Offset of the 32-bit consumer index.
    pub consumer: usize,
    /// Offset of the first slot.
    pub data: usize,
    /// Size of a slot.
    pub slot_size: usize,
    /// Number of slots, a power of two.
    pub slots: u32,
}

/// The size from which on copying by more than words pays off.
const LONG: usize = 96;

/// A ring with indexes in shared memory. One slot always stays empty.
pub struct SharedRing {
    #[expect(dead_code, reason = "kept for its drop")]
    mapping: Mapping,
    producer: *mut u32,
    consumer: *mut u32,
    data: *mut u8,
    slot_size: usize,
    mask: u32,
}

// SAFETY: the pointers are into `mapping`, which is `Send`; the ring has no thread affinity.
unsafe impl Send for SharedRing {}
// SAFETY: `&self` makes only atomic accesses, and nothing else accesses the mapping.
unsafe impl Sync for SharedRing {}

impl SharedRing {
    /// A ring over `mapping`, or `None` if `layout` does not fit into it or violates an invariant.
    pub fn new(mapping: Mapping, layout: RingLayout) -> Option<Self> {
        let RingLayout {
            producer,
            consumer,
            data,
            slot_size,
            slots,
        } = layout;
        let bytes = slot_size.checked_mul(usize::try_from(slots).ok()?)?;
        let end = data.checked_add(bytes)?;
        let word_fits = |offset: usize| {
            offset.is_multiple_of(4) && offset.checked_add(4).is_some_and(|end| end <= data)
        };
        let fits = slots.is_power_of_two()
            && slot_size >= 8
            && slot_size.is_multiple_of(8)
            && data.is_multiple_of(8)
            && end <= mapping.len()
            && word_fits(producer)
            && word_fits(consumer);
        if !fits || !mapping.as_ptr().addr().is_multiple_of(8) {
            return None;
        }
        let base = mapping.as_ptr();
        Some(Self {
            // `wrapping_add` stays inside the mapping: the checks above bound every offset.
            producer: base.wrapping_add(producer).cast(),
            consumer: base.wrapping_add(consumer).cast(),
            data: base.wrapping_add(data),
            slot_size,
            mask: slots - 1,
            mapping,
        })
    }

    /// The largest index; also the most entries that the ring can hold.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// Bytes per slot.
    pub fn slot_size(&self) -> usize {
        self.slot_size
    }

    /// The index after `index`.
    #[inline]
    pub fn next(&self, index: u32) -> u32 {
        index.wrapping_add(1) & self.mask
    }

    /// The producer's index, and with it everything the producer wrote before publishing it.
    ///
    /// `None` if the shared word is not a valid index of this ring.
    #[inline]
    pub fn producer(&self) -> Option<u32> {
        self.checked(load(self.producer, Ordering::Acquire))
    }

    /// The consumer's index. `None` if the shared word is not a valid index of this ring.
    #[inline]
    pub fn consumer(&self) -> Option<u32> {
        self.checked(load(self.consumer, Ordering::Acquire))
    }

    /// Makes everything written to the slots before `index` visible to the consumer.
    #[inline]
    pub fn publish(&self, index: u32) {
        store(self.producer, index & self.mask, Ordering::Release);
    }

    /// Returns the slots before `index` to the producer.
    #[inline]
    pub fn release(&self, index: u32) {
        store(self.consumer, index & self.mask, Ordering::Release);
    }

    #[inline]
    fn checked(&self, index: u32) -> Option<u32> {
        (index <= self.mask).then_some(index)
    }

    /// Stores `value`, which consists of whole 8-byte words, into slot `index`, starting at word
    /// `at`. Returns false, and stores nothing, if it does not fit.
    #[inline]
    pub fn put<T: IntoBytes + Immutable>(&self, index: u32, at: u32, value: &T) -> bool {
        const {
            assert!(
                size_of::<T>().is_multiple_of(WORD),
                "not a multiple of 8 bytes"
            );
        };
        let Some(to) = self.words(index, at, size_of::<T>()) else {
            return false;
        };
        let bytes = value.as_bytes();
        if size_of::<T>() >= LONG {
            // SAFETY: inside the slot, as just checked, and aligned by invariant 3.
            unsafe { words::put(to, bytes) };
            return true;
        }
        for (at, word) in bytes.as_chunks().0.iter().enumerate() {
            // SAFETY: as above.
            let place = unsafe { AtomicU64::from_ptr(to.wrapping_add(at)) };
            place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        true
    }

    /// Stores the bytes of all `parts`, back to back, into slot `index`, starting at word `at`, and
    /// pads the last word with zeroes. Returns the number of bytes; `None`, and stores nothing, if
    /// there are more than `most`, or if they do not fit.
    #[inline]
    pub fn put_bytes(&self, index: u32, at: u32, parts: &[&[u8]], most: usize) -> Option<usize> {
        // The sum can overflow: the same bytes may be borrowed many times.
        let total = match parts {
            [one] => one.len(),
            all => (all.iter().map(|part| part.len())).fold(0, usize::saturating_add),
        };
        if total > most {
            return None;
        }
        // A slot consists of whole words, so what fits also fits when padded.
        let mut to = self.words(index, at, total)?;
        let mut store = |word| {
            // SAFETY: one of the words that the bytes of all parts fill, which are inside the slot,
            // as just checked; aligned by invariant 3.
            unsafe { AtomicU64::from_ptr(to) }.store(word, Ordering::Relaxed);
            to = to.wrapping_add(1);
        };
        let mut pack = Pack::default();
        match parts {
            // Most have one: then no bytes are left over from the one before.
            [one] => pack.push(one, &mut store),
            all => all.iter().for_each(|part| pack.push(part, &mut store)),
        }
        if let Some(word) = pack.finish() {
            store(word);
        }
        Some(total)
    }

    /// Copies a `T`, which consists of whole 8-byte words, from the start of slot `index`. `None`
    /// if slots are too small for it.
    #[inline]
    pub fn read<T: FromBytes + IntoBytes>(&self, index: u32) -> Option<T> {
        const {
            assert!(
                size_of::<T>().is_multiple_of(WORD),
                "not a multiple of 8 bytes"
            );
        };
        let from = self.words(index, 0, size_of::<T>())?;
        let mut value = T::new_zeroed();
        for (at, word) in value
            .as_mut_bytes()
            .as_chunks_mut()
            .0
            .iter_mut()
            .enumerate()
        {
            // SAFETY: inside the slot, as just checked, and aligned by invariant 3.
            let place = unsafe { AtomicU64::from_ptr(from.wrapping_add(at)) };
            *word = place.load(Ordering::Relaxed).to_ne_bytes();
        }
        Some(value)
    }

    /// Copies the bytes of slot `index`, in memory order: all of them or at most `most`, in whole
    /// words.
    #[cfg(feature = "rings")]
    pub fn bytes(&self, index: u32, most: usize) -> Vec<u8> {
        let length = self.slot_size.min(most) / WORD * WORD;
        let Some(from) = self.words(index, 0, length) else {
            return Vec::new();
        };
        let load = |at| {
            // SAFETY: one of the words that `length` bytes fill, which are inside the slot, as just
            // checked; aligned by invariant 3.
            let place = unsafe { AtomicU64::from_ptr(from.wrapping_add(at)) };
            place.load(Ordering::Relaxed).to_ne_bytes()
        };
        (0..length / WORD).flat_map(load).collect()
    }

    /// A pointer to word `at` of slot `index` (which is masked), if `bytes` bytes from there on are
    /// inside the slot.
    #[inline]
    fn words(&self, index: u32, at: u32, bytes: usize) -> Option<*mut u64> {
        let offset = at as usize * WORD;
        let slot = (index & self.mask) as usize * self.slot_size;
        (offset.saturating_add(bytes) <= self.slot_size)
            .then(|| self.data.wrapping_add(slot + offset).cast())
    }
}

#[inline]
fn load(word: *mut u32, order: Ordering) -> u32 {
    // SAFETY: invariants 1 and 3 of the ring make the pointer valid and aligned, and every access
    // of this process to an index word is atomic.
    let word = unsafe { AtomicU32::from_ptr(word) };
    word.load(order)
}

#[inline]
fn store(word: *mut u32, index: u32, order: Ordering) {
    // SAFETY: as in `load`.
    let word = unsafe { AtomicU32::from_ptr(word) };
    word.store(index, order);
}

impl fmt::Debug for SharedRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SharedRing({} slots of {} bytes)",
            self.mask + 1,
            self.slot_size
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: RingLayout = RingLayout {
        producer: 128,
        consumer: 256,
        data: 384,
        slot_size: 64,
        slots: 8,
    };

    fn memory() -> Mapping {
        Mapping::anonymous(4096).unwrap()
    }

    #[test]
    fn what_is_put_is_read() {
        let ring = SharedRing::new(memory(), LAYOUT).unwrap();
        assert!(ring.put(7, 0, &[1_u64, 2, 3]));
        assert_eq!(format!("{ring:?}"), "SharedRing(8 slots of 64 bytes)");
        ring.publish(8);
        assert_eq!(ring.producer(), Some(0));
        assert_eq!(ring.read::<[u64; 3]>(7), Some([1, 2, 3]));
        assert_eq!(
            ring.read::<[u64; 3]>(15),
            Some([1, 2, 3]),
            "indexes are masked"
        );
    }

    #[test]
    fn nothing_leaves_its_slot() {
        let ring = SharedRing::new(memory(), LAYOUT).unwrap();
        for (at, value) in [(7, [1_u64; 2]), (8, [1; 2]), (u32::MAX, [1; 2])] {
            assert!(!ring.put(0, at, &value), "{at}");
        }
        assert!(!ring.put(0, 0, &[1_u64; 9]));
        assert_eq!(ring.put_bytes(0, 7, &[&[0xff; 9]], 100), None);
        assert_eq!(ring.put_bytes(0, 0, &[[0xff; 33].as_slice(); 2], 100), None);
        assert_eq!(ring.put_bytes(0, 0, &[&[0xff; 9]], 8), None);
        assert_eq!(ring.read::<[u64; 8]>(0), Some([0; 8]));
        assert_eq!(ring.read::<[u64; 9]>(0), None);
    }

    #[test]
    fn values_of_any_length_and_ranges_land_where_they_belong() {
        let layout = RingLayout {
            slot_size: 256,
            ..LAYOUT
        };
        let ring = SharedRing::new(memory(), layout).unwrap();
        let found = |index| ring.read::<[[u8; 8]; 32]>(index).unwrap();
        let long: [u64; 26] = std::array::from_fn(|at| at as u64 + 1);
        assert!(ring.put(2, 3, &long));
        let expected = long.map(u64::to_ne_bytes);
        assert_eq!(found(2)[3..29], expected);
        assert_eq!((found(2)[2], found(2)[29]), ([0; 8], [0; 8]));
        let bytes: Vec<u8> = (1..=56).collect();
        let cases = (0..30).flat_map(|first| (0..26).map(move |second| (first, second)));
        for (first, second) in cases.step_by(if cfg!(miri) { 7 } else { 1 }) {
            assert!(ring.put(1, 0, &[u64::MAX; 32]));
            let parts = [&bytes[..first], &bytes[first..first + second]];
            let total = first + second;
            assert_eq!(ring.put_bytes(1, 25, &parts, 56), Some(total));
            let words = found(1);
            let all = words.as_flattened();
            let end = 200 + total;
            assert!(all[..200].iter().all(|byte| *byte == 0xff));
            assert_eq!(all[200..end], bytes[..total]);
            let filled = end.next_multiple_of(8);
            assert!(all[end..filled].iter().all(|byte| *byte == 0));
            assert!(all[filled..].iter().all(|byte| *byte == 0xff));
        }
    }

    #[cfg(feature = "rings")]
    #[test]
    fn the_bytes_of_a_slot_are_those_of_its_words() {
        let ring = SharedRing::new(memory(), LAYOUT).unwrap();
        let words: [u64; 8] = std::array::from_fn(|at| at as u64 + 1);
        assert!(ring.put(7, 0, &words));
        let expected = words.map(u64::to_ne_bytes);
        assert_eq!(ring.bytes(15, usize::MAX), expected.as_flattened());
        assert_eq!(ring.bytes(7, 23), expected.as_flattened()[..16]);
        assert_eq!(ring.bytes(7, 0), []);
    }

    #[test]
    fn an_impossible_index_is_seen() {
        let ring = SharedRing::new(memory(), LAYOUT).unwrap();
        store(ring.producer, 8, Ordering::Relaxed);
        assert_eq!(ring.producer(), None);
    }

    #[test]
    fn layouts_that_do_not_fit_are_refused() {
        let refused = [
            RingLayout {
                slots: 64,
                ..LAYOUT
            },
            RingLayout { slots: 6, ..LAYOUT },
            RingLayout { slots: 0, ..LAYOUT },
            RingLayout {
                slot_size: 0,
                ..LAYOUT
            },
            RingLayout {
                slot_size: 12,
                ..LAYOUT
            },
            RingLayout {
                slot_size: usize::MAX & !7,
                ..LAYOUT
            },
            RingLayout {
                producer: 126,
                ..LAYOUT
            },
            RingLayout {
                consumer: 384,
                ..LAYOUT
            },
            RingLayout {
                data: 385,
                ..LAYOUT
            },
            RingLayout {
                data: usize::MAX & !7,
                ..LAYOUT
            },
        ];
        for layout in refused {
            assert!(SharedRing::new(memory(), layout).is_none(), "{layout:?}");
        }
    }

    #[test]
    fn both_indexes_go_round() {
        let ring = SharedRing::new(memory(), LAYOUT).unwrap();
        assert_eq!((ring.mask(), ring.slot_size()), (7, 64));
        for (index, next) in [(0, 1), (6, 7), (7, 0), (8, 1), (u32::MAX, 0)] {
            assert_eq!(ring.next(index), next, "{index}");
        }
        ring.publish(5);
        ring.release(11);
        assert_eq!((ring.producer(), ring.consumer()), (Some(5), Some(3)));
        store(ring.consumer, 8, Ordering::Relaxed);
        assert_eq!((ring.producer(), ring.consumer()), (Some(5), None));
    }

    #[test]
    fn words_beside_the_slots_are_at_any_place_that_fits() {
        for (producer, consumer, data) in [(0, 4, 8), (60, 0, 64), (0, 8, 4096 - 512)] {
            let layout = RingLayout {
                producer,
                consumer,
                data,
                ..LAYOUT
            };
            let ring = SharedRing::new(memory(), layout).unwrap();
            ring.publish(2);
            ring.release(1);
            assert_eq!((ring.producer(), ring.consumer()), (Some(2), Some(1)));
            assert!(ring.put(7, 0, &[u64::MAX; 8]));
            assert_eq!(ring.read::<[u64; 8]>(7), Some([u64::MAX; 8]));
        }
    }

    #[test]
    fn each_slot_keeps_its_own_words() {
        let ring = SharedRing::new(memory(), LAYOUT).unwrap();
        for index in 0..8 {
            assert!(ring.put(index, 0, &[u64::from(index) + 1; 8]));
        }
        for index in 0..8 {
            let expected = [u64::from(index) + 1; 8];
            assert_eq!(ring.read::<[u64; 8]>(index), Some(expected));
        }
        assert_eq!(
            ring.put_bytes(0, 0, &[&[9; 8]], 8),
            Some(8),
            "all of the room"
        );
        assert_eq!(ring.put_bytes(0, 0, &[&[9; 64]], 64), Some(64));
        assert_eq!(ring.read::<u64>(1), Some(2));
    }
}
