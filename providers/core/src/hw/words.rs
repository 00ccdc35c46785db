//! Memory that others access, too, as words: the one way in which this process accesses it.
//!
//! The language knows races between atomic accesses of different width as little as between others:
//! two accesses that may happen at the same time, of which one writes, have to be atomic, and of
//! the very same bytes. So memory is cut, once for all who reach it here: an aligned word of 8
//! bytes that lies inside as a whole is accessed as a word, whatever part of it is asked for; up to
//! 7 bytes at either end that are part of no such word, as single bytes.
//!
//! Bytes that are less than a word are written by exchanging the word for one that differs in them
//! alone, for as long as somebody else changes it meanwhile: no other byte gets an old value back.
//! That holds towards devices, too. Exchanging is an operation on a cache line that the processor
//! owns; a device's writes are coherent with it (there is no RDMA from user space where they are
//! not), so they come before it, and it is tried again, or behind it, and stay. An atomic operation
//! of a device that is not atomic towards processors (`AtomicCap::Device`) may lose what a
//! processor writes to its word in the middle of it, by whatever width.
//!
//! # Safety
//!
//! [`Words`] is a range that is there for as long as its lifetime, and accesses of this process
//! that may come at the same time as the ones made here are made here, too, with the same cut. All
//! accesses here are atomic.
#![allow(unsafe_code, reason = "accesses memory that others access, too")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "words are aligned by the cut before they are accessed"
)]

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::wide::{self, Wide};

/// Bytes of a word.
pub(crate) const WORD: usize = 8;

/// A range of memory, cut into words.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    start: *mut u8,
    len: usize,
    memory: PhantomData<&'a AtomicU64>,
}

impl<'a> Words<'a> {
    /// The `len` bytes at `start`.
    ///
    /// # Safety
    /// 1. They may be read and written for all of `'a`.
    /// 2. Until then, whoever else in this process accesses any of them at the same time as it is
    ///    accessed here does so by words of the same range, or by atomic accesses of the same
    ///    bytes.
    #[inline]
    pub unsafe fn new(start: *mut u8, len: usize) -> Self {
        Self {
            start,
            len,
            memory: PhantomData,
        }
    }

    /// The word at `offset`. `None` where there is no whole word inside.
    #[inline]
    pub fn word(self, offset: usize) -> Option<&'a AtomicU64> {
        let place = self.range(offset, WORD)?.cast::<u64>();
        if !place.is_aligned() {
            return None;
        }
        // SAFETY: inside, by the range's invariant, and aligned.
        Some(unsafe { AtomicU64::from_ptr(place) })
    }

    /// Copies bytes at `offset` out. False, and nothing is copied, where they are not all inside.
    pub fn read(self, offset: usize, bytes: &mut [u8]) -> bool {
        let Some(from) = self.range(offset, bytes.len()) else {
            return false;
        };
        let (head, rest) = bytes.split_at_mut(to_word(from).min(bytes.len()));
        self.read_part(from, head);
        let mut from = from.wrapping_add(head.len());
        let (blocks, rest) = rest.as_chunks_mut();
        for block in blocks {
            // SAFETY: eight whole words of the range, as counted here.
            unsafe { wide::copy_out(from.cast(), block) };
            from = from.wrapping_add(wide::BLOCK);
        }
        let (words, tail) = rest.as_chunks_mut();
        for word in words {
            // SAFETY: a whole word of the range, as counted here.
            let place = unsafe { AtomicU64::from_ptr(from.cast()) };
            *word = place.load(Ordering::Relaxed).to_ne_bytes();
            from = from.wrapping_add(WORD);
        }
        self.read_part(from, tail);
        true
    }

    /// Copies bytes in at `offset`. False, and nothing is copied, where they do not all fit.
    pub fn write(self, offset: usize, bytes: &[u8]) -> bool {
        let Some(to) = self.range(offset, bytes.len()) else {
            return false;
        };
        let (head, rest) = bytes.split_at(to_word(to).min(bytes.len()));
        self.write_part(to, head);
        let to = to.wrapping_add(head.len());
        let whole = rest.len() / WORD * WORD;
        let (words, tail) = rest.split_at(whole);
        // SAFETY: aligned by the head, and inside.
        unsafe { put(to.cast(), words) };
        self.write_part(to.wrapping_add(whole), tail);
        true
    }

    /// Where `len` bytes at `offset` are.
    #[inline]
    fn range(self, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then(|| self.start.wrapping_add(offset))
    }

    /// The word that the byte at `place` is a part of, and which of its bytes that is; `None` where
    /// it is none of the range's.
    fn around(self, place: *mut u8) -> Option<(&'a AtomicU64, usize)> {
        let within = place.addr() % WORD;
        let offset = place.addr().wrapping_sub(self.start.addr());
        Some((self.word(offset.checked_sub(within)?)?, within))
    }

    /// Reads less than a word, inside of one.
    fn read_part(self, from: *mut u8, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Some((word, within)) = self.around(from) {
            let all = word.load(Ordering::Relaxed).to_ne_bytes();
            for (byte, of_word) in bytes.iter_mut().zip(all.iter().skip(within)) {
                *byte = *of_word;
            }
            return;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: a byte of the range, which its caller counted.
            let place = unsafe { AtomicU8::from_ptr(from.wrapping_add(at)) };
            *byte = place.load(Ordering::Relaxed);
        }
    }

    /// Writes less than a word, inside of one.
    fn write_part(self, to: *mut u8, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Some((word, within)) = self.around(to) {
            let mut old = word.load(Ordering::Relaxed);
            loop {
                let mut all = old.to_ne_bytes();
                for (of_word, byte) in all.iter_mut().skip(within).zip(bytes) {
                    *of_word = *byte;
                }
                let new = u64::from_ne_bytes(all);
                match word.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return,
                    Err(now) => old = now,
                }
            }
        }
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: a byte of the range, which its caller counted.
            let place = unsafe { AtomicU8::from_ptr(to.wrapping_add(at)) };
            place.store(*byte, Ordering::Relaxed);
        }
    }
}

/// Bytes from `place` to the next word; 0 at one.
#[inline]
fn to_word(place: *mut u8) -> usize {
    place.addr().wrapping_neg() % WORD
}

/// Stores whole words, in no order.
///
/// # Safety
/// `to` is aligned to 8, and as many words are there for atomic accesses.
#[inline]
pub(super) unsafe fn put(to: *mut u64, words: &[u8]) {
    let (blocks, rest) = words.as_chunks();
    let mut to = to;
    for block in blocks {
        // SAFETY: the caller's promise.
        unsafe { wide::copy_in(block, to) };
        to = to.wrapping_add(wide::BLOCK / WORD);
    }
    let (pairs, rest) = rest.as_chunks::<{ 2 * WORD }>();
    for pair in pairs {
        // SAFETY: 16 bytes that are borrowed; any alignment will do, and any bytes are a value.
        let value = unsafe { pair.as_ptr().cast::<Wide>().read_unaligned() };
        // SAFETY: the caller's promise.
        unsafe { wide::store_words(to, value) };
        to = to.wrapping_add(2);
    }
    for word in rest.as_chunks().0 {
        // SAFETY: the caller's promise.
        let place = unsafe { AtomicU64::from_ptr(to) };
        place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        to = to.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Memory of this test's own, and the part of it that is cut into words.
    struct Memory {
        bytes: [AtomicU64; 24],
    }

    impl Memory {
        fn new() -> Self {
            Self {
                bytes: [const { AtomicU64::new(u64::MAX) }; 24],
            }
        }

        fn words(&self, from: usize, len: usize) -> Words<'_> {
            assert!(from + len <= size_of_val(&self.bytes));
            let start = self.bytes.as_ptr().cast_mut().cast::<u8>();
            // SAFETY: inside of the memory, which is reached by atomics.
            unsafe { Words::new(start.wrapping_add(from), len) }
        }

        fn all(&self) -> Vec<u8> {
            let words = self.bytes.iter().map(|word| word.load(Ordering::Relaxed));
            words.flat_map(u64::to_ne_bytes).collect()
        }
    }

    #[test]
    fn copies_agree_wherever_they_and_the_range_begin_and_end() {
        let source: Vec<u8> = (1..=150).collect();
        let (offsets, lens) = if cfg!(miri) {
            (vec![0, 3, 8], vec![0, 1, 7, 17, 70])
        } else {
            ((0..10).collect(), (0..150).collect())
        };
        for (start, cut) in [(0, 0), (1, 0), (5, 3), (8, 1), (11, 7)] {
            for (offset, len) in offsets
                .iter()
                .flat_map(|at| lens.iter().map(move |len| (*at, *len)))
            {
                let memory = Memory::new();
                let words = memory.words(start, 192 - start - cut);
                assert!(words.write(offset, &source[..len]));
                let mut expected = vec![0xff; 192];
                expected[start + offset..][..len].copy_from_slice(&source[..len]);
                assert_eq!(memory.all(), expected, "{len} at {offset} of {start}");
                let mut back = vec![0; len];
                assert!(words.read(offset, &mut back));
                assert_eq!(back, source[..len]);
            }
        }
    }

    #[test]
    fn what_is_not_inside_is_refused() {
        let memory = Memory::new();
        let words = memory.words(3, 40);
        for (offset, len) in [(41, 0), (34, 7), (usize::MAX, 1), (0, 41)] {
            assert!(!words.read(offset, &mut vec![0; len]));
            assert!(!words.write(offset, &vec![0; len]));
        }
        assert!(words.write(40, &[]) && words.read(40, &mut []));
        // Words are whole ones, inside, by their address.
        assert!(words.word(5).is_some() && words.word(29).is_some());
        for offset in [0, 4, 37, usize::MAX - 2] {
            assert!(words.word(offset).is_none(), "{offset}");
        }
    }

    /// Two threads write the halves of a word, and a third one counts in the word behind: nobody
    /// loses anything.
    #[test]
    fn writers_of_neighbouring_bytes_keep_out_of_each_others_way() {
        let memory = Memory::new();
        let words = || memory.words(0, 192);
        assert!(words().write(0, &[0; 24]));
        let turns: u64 = if cfg!(miri) { 30 } else { 20_000 };
        thread::scope(|scope| {
            for (offset, len) in [(0, 3), (3, 7), (10, 3)] {
                scope.spawn(move || {
                    let (words, mut back) = (words(), vec![0; len]);
                    for turn in 0..turns {
                        let bytes = vec![turn.to_le_bytes()[0]; len];
                        assert!(words.write(offset, &bytes) && words.read(offset, &mut back));
                        assert_eq!(back, bytes, "{len} bytes at {offset}");
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..turns {
                    words().word(16).unwrap().fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        assert_eq!(words().word(16).unwrap().load(Ordering::Relaxed), turns);
    }
}
