//! Memory for programs whose system calls are counted.
//!
//! # Safety
//!
//! The allocator hands out each byte of its piece once.
#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More than they need: what is freed is not used again.
const SIZE: usize = 1 << 20;

/// Memory from one piece of the program, which costs no system call.
#[derive(Debug)]
pub struct Piece {
    bytes: UnsafeCell<[u8; SIZE]>,
    used: AtomicUsize,
}

// SAFETY: the bytes are reached only by those who were given them.
unsafe impl Sync for Piece {}

impl Piece {
    /// All of it unused.
    #[expect(
        clippy::new_without_default,
        clippy::large_stack_arrays,
        reason = "for statics"
    )]
    pub const fn new() -> Self {
        Self {
            bytes: UnsafeCell::new([0; SIZE]),
            used: AtomicUsize::new(0),
        }
    }
}

// SAFETY: what is returned is inside of the piece, aligned, and nobody else's: the place moves past
// it, and never back.
unsafe impl GlobalAlloc for Piece {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = self.bytes.get().cast::<u8>();
        let place = |used: usize| {
            let at = start.addr().checked_add(used)?;
            let at = at.checked_next_multiple_of(layout.align())? - start.addr();
            let end = at.checked_add(layout.size())?;
            (end <= SIZE).then_some((at, end))
        };
        let (all, none) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self
            .used
            .fetch_update(all, none, |used| place(used).map(|(_, end)| end));
        let Some((at, _)) = before.ok().and_then(place) else {
            return null_mut();
        };
        start.wrapping_add(at)
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
