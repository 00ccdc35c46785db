//! The queues of an rxe device: memory that the fake and the process under test share.
//!
//! # Safety
//!
//! A [`Shared`] allocation is accessed only through raw pointers and atomically: its header, which
//! contains the indexes, as 4-byte words, its elements through [`Words`], like in the process under
//! test. It lives until the last [`Arc`] to it is dropped: the ring has one, and so does every
//! [`Mapping`] that was returned. Offsets are checked before every access.
#![allow(
    unsafe_code,
    reason = "shares memory with the code under test, as the kernel does"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use uverbs_uapi::rdma_user_rxe::rxe_queue_buf;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use uverbs_core::error::Errno;
use uverbs_core::hw::Words;
use uverbs_core::sys::Mapping;

/// Page size of the modelled machine, in bytes.
pub(super) const PAGE: usize = 4096;

const HEADER: usize = size_of::<rxe_queue_buf>();
const PRODUCER: usize = offset_of!(rxe_queue_buf, producer_index);
const CONSUMER: usize = offset_of!(rxe_queue_buf, consumer_index);
const CACHE_LINE: usize = 64;

/// Zeroed, page-aligned memory that both sides may write to at any time.
pub(super) struct Shared {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory has no thread affinity, and accesses are atomic.
unsafe impl Send for Shared {}
// SAFETY: as above; no reference to the bytes is ever formed.
unsafe impl Sync for Shared {}

impl Shared {
    pub(super) fn new(len: usize) -> Result<Self, Errno> {
        let len = len
            .max(1)
            .checked_next_multiple_of(PAGE)
            .ok_or(Errno::NOMEM)?;
        let layout = Layout::from_size_align(len, PAGE).map_err(|_| Errno::NOMEM)?;
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Errno::NOMEM)?;
        Ok(Self { base, layout })
    }

    pub(super) fn len(&self) -> usize {
        self.layout.size()
    }

    fn at(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        if end > self.len() {
            return None;
        }
        // SAFETY: `offset` is inside the allocation, or one past its end if `len` is 0.
        Some(unsafe { self.base.add(offset) })
    }

    /// The elements, which follow the header.
    fn elements(&self) -> Option<Words<'_>> {
        let len = self.len().checked_sub(HEADER)?;
        let start = self.at(HEADER, len)?;
        // SAFETY: inside the allocation, which lives as long as `self`; the process under test
        // divides elements into the same words, since they start at multiples of 8.
        Some(unsafe { Words::new(start.as_ptr(), len) })
    }

    /// Copies bytes out of elements; nothing if they are not all inside.
    pub(super) fn read(&self, offset: usize, bytes: &mut [u8]) {
        if let (Some(elements), Some(at)) = (self.elements(), offset.checked_sub(HEADER)) {
            elements.read(at, bytes);
        }
    }

    /// Copies bytes into elements; nothing if they do not all fit.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        if let (Some(elements), Some(at)) = (self.elements(), offset.checked_sub(HEADER)) {
            elements.write(at, bytes);
        }
    }

    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let place = self.at(offset, size_of::<u32>())?.cast::<u32>();
        if !place.is_aligned() {
            return None;
        }
        // SAFETY: the word is inside the allocation, aligned, and lives as long as `self`; it is in
        // the header, whose words both sides access by atomics of this width.
        Some(unsafe { AtomicU32::from_ptr(place.as_ptr()) })
    }

    pub(super) fn load(&self, offset: usize) -> u32 {
        self.word(offset)
            .map_or(0, |word| word.load(Ordering::Acquire))
    }

    pub(super) fn store(&self, offset: usize, value: u32) {
        if let Some(word) = self.word(offset) {
            word.store(value, Ordering::Release);
        }
    }

    /// The mapping that `mmap(2)` of the first `len` bytes returns.
    pub(super) fn map(self: &Arc<Self>, len: usize) -> Mapping {
        let len = len.min(self.len());
        // SAFETY: the allocation lives as long as the Arc that the mapping keeps, and no reference
        // to its bytes is ever formed.
        unsafe { Mapping::from_owner(self.base, len, Box::new(Arc::clone(self))) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this value allocated the memory with this layout, and nothing else refers to it.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({} bytes)", self.len())
    }
}

/// Which side the kernel is on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Side {
    /// It produces: completion queues.
    Producer,
    /// It consumes: work queues.
    Consumer,
}

/// A queue as the driver has it: the memory, its layout, and the kernel's own index.
///
/// The layout is separate from its copy in shared memory, which the process can overwrite.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) memory: Arc<Shared>,
    side: Side,
    log2_elem: u32,
    mask: u32,
    own: u32,
}

impl Ring {
    /// A queue of at least `elements` elements of at least `size` bytes (`rxe_queue_init`).
    pub(super) fn new(elements: u32, bytes_each: usize, side: Side) -> Result<Self, Errno> {
        let slots = elements
            .checked_add(1)
            .and_then(u32::checked_next_power_of_two)
            .ok_or(Errno::NOMEM)?;
        let elem = bytes_each.max(CACHE_LINE).next_power_of_two();
        let bytes = elem
            .checked_mul(slots as usize)
            .and_then(|data| data.checked_add(HEADER))
            .ok_or(Errno::NOMEM)?;
        let memory = Shared::new(bytes)?;
        memory.store(
            offset_of!(rxe_queue_buf, log2_elem_size),
            elem.trailing_zeros(),
        );
        memory.store(offset_of!(rxe_queue_buf, index_mask), slots - 1);
        Ok(Self {
            memory: Arc::new(memory),
            side,
            log2_elem: elem.trailing_zeros(),
            mask: slots - 1,
            own: 0,
        })
    }

    /// The number of elements that it can hold.
    pub(super) fn capacity(&self) -> u32 {
        self.mask
    }

    /// The other side's index, masked, since a process can write anything there.
    fn peer(&self) -> u32 {
        self.memory.load(match self.side {
            Side::Producer => CONSUMER,
            Side::Consumer => PRODUCER,
        }) & self.mask
    }

    /// The number of elements in it.
    pub(super) fn count(&self) -> u32 {
        let peer = self.peer();
        match self.side {
            Side::Producer => self.own.wrapping_sub(peer) & self.mask,
            Side::Consumer => peer.wrapping_sub(self.own) & self.mask,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.count() == self.mask
    }

    fn place(&self, index: u32) -> usize {
        HEADER + (((index & self.mask) as usize) << self.log2_elem)
    }

    /// The next element to consume, and its offset.
    pub(super) fn head(&self) -> Option<(usize, Vec<u8>)> {
        if self.count() == 0 {
            return None;
        }
        let mut bytes = vec![0; 1 << self.log2_elem];
        let place = self.place(self.own);
        self.memory.read(place, &mut bytes);
        Some((place, bytes))
    }

    /// All elements in it, oldest first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Vec<u8>> {
        (0..self.count()).map(|step| {
            let mut bytes = vec![0; 1 << self.log2_elem];
            let place = self.place(self.own.wrapping_add(step));
            self.memory.read(place, &mut bytes);
            bytes
        })
    }

    /// Consumes the element that [`head`](Self::head) returned.
    pub(super) fn pop(&mut self) {
        self.own = self.own.wrapping_add(1) & self.mask;
        self.memory.store(CONSUMER, self.own);
    }

    /// Adds an element. False if the ring is full.
    pub(super) fn push(&mut self, element: &[u8]) -> bool {
        if self.is_full() {
            return false;
        }
        self.memory.write(self.place(self.own), element);
        self.own = self.own.wrapping_add(1) & self.mask;
        self.memory.store(PRODUCER, self.own);
        true
    }

    /// Moves the elements to `new` and replaces this ring by it (`resize_finish`).
    pub(super) fn replace(&mut self, mut new: Self) -> Result<(), Errno> {
        if self.count() > new.capacity() {
            return Err(Errno::INVAL);
        }
        let count = self.count();
        let mut element = vec![0; 1 << self.log2_elem];
        let first = match self.side {
            Side::Producer => self.peer(),
            Side::Consumer => self.own,
        };
        for step in 0..count {
            self.memory
                .read(self.place(first.wrapping_add(step)), &mut element);
            new.memory.write(new.place(step), &element);
        }
        new.memory.store(PRODUCER, count);
        new.own = if self.side == Side::Producer {
            count
        } else {
            0
        };
        *self = new;
        Ok(())
    }

    /// Writes a value to shared memory at an offset that [`head`](Self::head) returned.
    pub(super) fn write_back<T: IntoBytes + Immutable>(&self, place: usize, value: &T) {
        self.memory.write(place, value.as_bytes());
    }
}

/// A queue's memory, for tests that act as a hostile kernel.
///
/// Offsets count from the start of the mapping: `log2_elem_size` at 0, `index_mask` at 4, the
/// producer's index at 128, the consumer's at 256, elements from 384.
#[derive(Clone, Debug)]
pub struct RingView(pub(super) Arc<Shared>);

impl RingView {
    /// Offset of the producer's index.
    pub const PRODUCER: usize = PRODUCER;
    /// Offset of the consumer's index.
    pub const CONSUMER: usize = CONSUMER;
    /// Offset of the first element.
    pub const DATA: usize = HEADER;

    /// Bytes of the mapping.
    #[expect(clippy::len_without_is_empty, reason = "a ring has at least a header")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A 32-bit word of the header.
    pub fn load(&self, offset: usize) -> u32 {
        self.0.load(offset)
    }

    /// Overwrites a 32-bit word of the header.
    pub fn store(&self, offset: usize, value: u32) {
        self.0.store(offset, value);
    }

    /// Reads a `T` at `offset` in the elements; zeros if that is outside.
    pub fn read<T: FromBytes + IntoBytes>(&self, offset: usize) -> T {
        let mut value = T::new_zeroed();
        self.0.read(offset, value.as_mut_bytes());
        value
    }

    /// Overwrites bytes of elements; does nothing if they do not fit.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.0.write(offset, bytes);
    }

    /// Offset of element `index`.
    pub fn element(&self, index: u32) -> usize {
        let log2 = self.load(offset_of!(rxe_queue_buf, log2_elem_size)) & 31;
        let mask = self.load(offset_of!(rxe_queue_buf, index_mask));
        HEADER + (((index & mask) as usize) << log2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_out_in_order_across_the_wrap() {
        let mut ring = Ring::new(3, 48, Side::Producer).expect("memory");
        assert_eq!(ring.capacity(), 3);
        for round in 0_u8..10 {
            assert!(ring.push(&[round; 48]));
            let view = RingView(Arc::clone(&ring.memory));
            let consumer = view.load(RingView::CONSUMER);
            assert_eq!(view.read::<[u8; 48]>(view.element(consumer)), [round; 48]);
            view.store(RingView::CONSUMER, (consumer + 1) & 3);
        }
    }

    #[test]
    fn a_full_ring_refuses_and_a_resized_one_keeps_its_elements() {
        let mut ring = Ring::new(3, 48, Side::Producer).expect("memory");
        for value in 0_u8..3 {
            assert!(ring.push(&[value; 48]));
        }
        assert!(!ring.push(&[9; 48]));
        assert_eq!(
            ring.replace(Ring::new(1, 48, Side::Producer).expect("memory")),
            Err(Errno::INVAL)
        );
        ring.replace(Ring::new(7, 48, Side::Producer).expect("memory"))
            .expect("room");
        assert!(ring.push(&[3; 48]));
        let view = RingView(Arc::clone(&ring.memory));
        for value in 0_u8..4 {
            assert_eq!(
                view.read::<[u8; 48]>(view.element(u32::from(value))),
                [value; 48]
            );
        }
    }

    #[test]
    fn an_index_beyond_the_ring_is_masked() {
        let ring = Ring::new(3, 64, Side::Consumer).expect("memory");
        ring.memory.store(PRODUCER, 0xffff_fff9);
        assert_eq!(ring.count(), 1);
        assert!(ring.head().is_some());
    }
}
