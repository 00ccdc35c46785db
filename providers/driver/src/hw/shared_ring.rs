//! A ring whose two indexes live in memory shared with the other side.
//!
//! # Safety
//!
//! [`SharedRing`] holds these invariants from construction on:
//!
//! 1. `data`, `producer` and `consumer` point into `mapping`, which lives as long as the ring.
//! 2. `slots` is a power of two and `data + slots * slot_size` does not pass the mapping's end.
//! 3. `producer` and `consumer` are 4-byte aligned; `data` and `slot_size` are multiples of 8.
//!
//! Slots are copied in and out by volatile words: the other side may write at any moment, so no
//! reference to the memory is formed and each word is accessed once.
#![allow(unsafe_code, reason = "accesses memory shared with the other side")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "invariant 3 makes slots and indexes aligned"
)]

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::sys::Mapping;

/// Where a ring's parts lie in its mapping, and how large they are. All offsets and sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct RingLayout {
    /// The 32-bit index that the producer advances.
    pub producer: usize,
    /// The 32-bit index that the consumer advances.
    pub consumer: usize,
    /// The first slot.
    pub data: usize,
    /// One slot.
    pub slot_size: usize,
    /// How many slots; a power of two.
    pub slots: u32,
}

/// A ring with indexes in shared memory. One slot always stays empty.
pub struct SharedRing {
    mapping: Mapping,
    producer: *mut u32,
    consumer: *mut u32,
    data: *mut u8,
    slot_size: usize,
    mask: u32,
}

// SAFETY: the pointers are into `mapping`, which is `Send`; the ring has no thread affinity.
unsafe impl Send for SharedRing {}
// SAFETY: `&self` methods make atomic or volatile accesses only.
unsafe impl Sync for SharedRing {}

impl SharedRing {
    /// A ring over `mapping`, or `None` when `layout` does not fit into it or breaks an invariant.
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

    /// The largest index; also the most entries the ring can hold.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// Bytes per slot.
    pub fn slot_size(&self) -> usize {
        self.slot_size
    }

    /// The mapping underneath.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The index after `index`.
    #[inline]
    pub fn next(&self, index: u32) -> u32 {
        index.wrapping_add(1) & self.mask
    }

    /// The producer's index, and with it everything the producer wrote before publishing it.
    ///
    /// `None` when the shared word is no index of this ring.
    #[inline]
    pub fn producer(&self) -> Option<u32> {
        self.checked(load(self.producer, Ordering::Acquire))
    }

    /// The consumer's index. `None` when the shared word is no index of this ring.
    #[inline]
    pub fn consumer(&self) -> Option<u32> {
        self.checked(load(self.consumer, Ordering::Acquire))
    }

    /// Makes everything written to the slots before `index` visible to the consumer.
    #[inline]
    pub fn publish(&self, index: u32) {
        store(self.producer, index & self.mask, Ordering::Release);
    }

    /// Gives the slots before `index` back to the producer.
    #[inline]
    pub fn release(&self, index: u32) {
        store(self.consumer, index & self.mask, Ordering::Release);
    }

    #[inline]
    fn checked(&self, index: u32) -> Option<u32> {
        (index <= self.mask).then_some(index)
    }

    /// Copies `bytes` into slot `index` at `offset`. Returns false, and copies nothing, when they do not fit.
    #[inline]
    pub fn write(&self, index: u32, offset: usize, bytes: &[u8]) -> bool {
        if offset
            .checked_add(bytes.len())
            .is_none_or(|end| end > self.slot_size)
        {
            return false;
        }
        let to = self.slot(index).wrapping_add(offset);
        // SAFETY: the range lies inside one slot (checked above), which invariant 2 puts inside the
        // mapping; `bytes` is ordinary memory and cannot overlap a mapping that lends no references.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        true
    }

    /// Copies `value` into slot `index` at `offset`, as [`write`](Self::write).
    #[inline]
    pub fn put<T: IntoBytes + Immutable + ?Sized>(
        &self,
        index: u32,
        offset: usize,
        value: &T,
    ) -> bool {
        self.write(index, offset, value.as_bytes())
    }

    /// Copies a `T` out of the start of slot `index`, word by word. `None` when a slot is too small for it.
    #[inline]
    pub fn read<T: FromBytes + IntoBytes>(&self, index: u32) -> Option<T> {
        let size = size_of::<T>();
        if size > self.slot_size || !size.is_multiple_of(8) {
            return None;
        }
        let from = self.slot(index).cast::<u64>();
        let mut value = T::new_zeroed();
        for (at, word) in value.as_mut_bytes().chunks_exact_mut(8).enumerate() {
            // SAFETY: word `at` lies inside the slot, whose size was compared with `T`'s above, and
            // is 8-byte aligned by invariant 3.
            let bits = unsafe { from.wrapping_add(at).read_volatile() };
            word.copy_from_slice(&bits.to_ne_bytes());
        }
        Some(value)
    }

    /// The first byte of slot `index`, which is masked first.
    #[inline]
    fn slot(&self, index: u32) -> *mut u8 {
        self.data
            .wrapping_add((index & self.mask) as usize * self.slot_size)
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
        assert!(!ring.write(0, 60, &[0xff; 5]));
        assert!(!ring.write(0, usize::MAX, &[0xff; 5]));
        assert_eq!(ring.read::<[u64; 8]>(0), Some([0; 8]));
        assert_eq!(ring.read::<[u64; 9]>(0), None);
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
}
