//! From the start to a connection by address, and then to a second one, in a program that the C
//! library starts without what Rust's runtime does before `main`, and whose memory is a fixed piece
//! of the program.
//!
//! `reach-connection-bare ADDRESS:PORT`, where somebody accepts both. `sched_yield` marks the
//! moment when each is established.
//!
//! # Safety
//!
//! `main` has the name and the signature that the C library calls, with a list of that many strings
//! that end with a zero byte. The allocator hands out each byte of its piece once.
#![no_main]
#![allow(unsafe_code, reason = "exports main, and is an allocator")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::sched_yield;
use uverbs::cm::{self, EventChannel};

/// More than it needs: what is freed is not used again.
const SIZE: usize = 1 << 20;

/// Memory from one piece, which costs no system call.
struct Piece {
    bytes: UnsafeCell<[u8; SIZE]>,
    used: AtomicUsize,
}

// SAFETY: the bytes are reached only by those who were given them.
unsafe impl Sync for Piece {}

#[global_allocator]
static PIECE: Piece = Piece {
    bytes: UnsafeCell::new([0; SIZE]),
    used: AtomicUsize::new(0),
};

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

// SAFETY: see the module.
#[unsafe(no_mangle)]
extern "C" fn main(count: i32, arguments: *const *const c_char) -> i32 {
    if count < 2 {
        return 2;
    }
    // SAFETY: the list has that many strings.
    let second = unsafe { arguments.add(1) };
    // SAFETY: as above.
    let second = unsafe { *second };
    // SAFETY: each ends with a zero byte, and stays as long as the process.
    let address = unsafe { CStr::from_ptr(second) };
    match reach_connections(address) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn reach_connections(address: &CStr) -> Result<(), Box<dyn std::error::Error>> {
    let address = address.to_str()?.parse()?;
    let channel = EventChannel::open()?;
    let connector = cm::connect(address).channel(&channel);
    let resolved = connector.clone().resolve()?;
    let pd = resolved.open()?.alloc_pd()?;
    let cq = pd.context().create_cq(16)?;
    let prepared = resolved.queue_pair(&pd, &cq, &cq).build()?;
    let _first = resolved.connect(prepared)?;
    sched_yield();
    let resolved = connector.resolve()?;
    let prepared = resolved.queue_pair(&pd, &cq, &cq).build()?;
    let _second = resolved.connect(prepared)?;
    sched_yield();
    Ok(())
}
