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
//! that end with a zero byte.
#![no_main]
#![allow(unsafe_code, reason = "exports main")]

use std::ffi::{CStr, c_char};

use rustix::thread::sched_yield;
use rxe_tests::Piece;
use uverbs::cm::{self, EventChannel};

#[global_allocator]
static PIECE: Piece = Piece::new();

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
