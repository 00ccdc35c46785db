//! Shared memory as words: the only way in which this process accesses it.
//!
//! Rust does not allow races between atomic accesses of different widths any more than other races:
//! two concurrent accesses, of which one writes, must be atomic, and to exactly the same bytes. So
//! the memory is divided in one way, for all accesses made here: an aligned 8-byte word that is
//! entirely inside the range is always accessed as a word, whichever part of it is requested; up to
//! 7 bytes at either end that do not belong to such a word are accessed as single bytes.
//!
//! Less than a word is written by compare-and-exchange of the word with one that differs only in
//! those bytes, repeated while another writer changes it meanwhile, so that no other byte reverts
//! to an old value. This also holds with respect to devices. Compare-and-exchange operates on a
//! cache line that the processor owns, and a device's writes are coherent with it (without
//! coherence there is no RDMA from user space): they come either before it, and it is retried, or
//! after it, and persist. An atomic operation of a device that is not atomic with respect to
//! processors (`AtomicCap::Device`) may lose what a processor writes to its word in the middle of
//! it, by an access of any width.
//!
//! # Safety
//!
//! [`Words`] is a range that is valid for its lifetime, and all accesses of this process that may
//! be concurrent with those made here are made here as well, with the same division. All accesses
//! here are atomic.
#![allow(unsafe_code, reason = "accesses shared memory")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "words are aligned before they are accessed"
)]

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::wide::{self, Wide};

/// Bytes of a word.
pub(crate) const WORD: usize = 8;

/// A range of memory, divided into words.
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
    /// 1. They are valid for reads and writes for all of `'a`.
    /// 2. During `'a`, every access of this process to any of them that may be concurrent with an
    ///    access made here goes through `Words` of the same range, or is an atomic access of the
    ///    same bytes.
    #[inline]
    pub unsafe fn new(start: *mut u8, len: usize) -> Self {
        Self {
            start,
            len,
            memory: PhantomData,
        }
    }

    /// The word at `offset`. `None` if there is no whole, aligned word inside the range.
    #[inline]
    pub fn word(self, offset: usize) -> Option<&'a AtomicU64> {
        let place = self.range(offset, WORD)?.cast::<u64>();
        if !place.is_aligned() {
            return None;
        }
        // SAFETY: inside, by the range's invariant, and aligned.
        Some(unsafe { AtomicU64::from_ptr(place) })
    }

    /// Copies bytes at `offset` out. False, and nothing is copied, if they are not all inside.
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

    /// Copies bytes in at `offset`. False, and nothing is copied, if they do not all fit.
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

    /// A pointer to the `len` bytes at `offset`, if they are inside.
    #[inline]
    fn range(self, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then(|| self.start.wrapping_add(offset))
    }

    /// The word that contains the byte at `place`, and the index of the byte in it; `None` if that
    /// word is not entirely inside the range.
    fn around(self, place: *mut u8) -> Option<(&'a AtomicU64, usize)> {
        let within = place.addr() % WORD;
        let offset = place.addr().wrapping_sub(self.start.addr());
        Some((self.word(offset.checked_sub(within)?)?, within))
    }

    /// Reads less than a word, within one word.
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
            // SAFETY: a byte of the range, as the caller checked.
            let place = unsafe { AtomicU8::from_ptr(from.wrapping_add(at)) };
            *byte = place.load(Ordering::Relaxed);
        }
    }

    /// Writes less than a word, within one word.
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
            // SAFETY: a byte of the range, as the caller checked.
            let place = unsafe { AtomicU8::from_ptr(to.wrapping_add(at)) };
            place.store(*byte, Ordering::Relaxed);
        }
    }
}

/// The number of bytes from `place` to the next word; 0 if it is aligned.
#[inline]
fn to_word(place: *mut u8) -> usize {
    place.addr().wrapping_neg() % WORD
}

/// Stores whole words, in no particular order.
///
/// # Safety
/// `to` is aligned to 8, and valid for atomic accesses of that many words.
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
        // SAFETY: 16 borrowed bytes; no alignment is required, and any bytes are a valid value.
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

    /// Memory of the test, and the part of it that is divided into words.
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
            // SAFETY: inside the memory, which is only accessed by atomics.
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

    /// Two threads write the halves of a word, and a third one increments a counter in the next
    /// word: no write is lost.
    #[test]
    fn concurrent_writes_to_neighbouring_bytes_are_not_lost() {
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
