//! From the start to a queue pair connected to itself, in a program that the C library starts
//! without what Rust's runtime does before `main` (mostly a handler for stack overflows), and whose
//! memory is a fixed piece of the program.
//!
//! `sched_yield` marks the moment when the queue pair is ready to send.
//!
//! # Safety
//!
//! `main` has the name and the signature that the C library calls.
#![no_main]
#![allow(unsafe_code, reason = "exports main")]

use rustix::thread::sched_yield;
use rxe_tests::Piece;
use uverbs::QpType;

#[global_allocator]
static PIECE: Piece = Piece::new();

// SAFETY: see the module.
#[unsafe(no_mangle)]
extern "C" fn main(_count: i32, _arguments: *const *const u8) -> i32 {
    match reach_rts() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn reach_rts() -> uverbs::Result<()> {
    let context = verbs_tests::options().open(&verbs_tests::device_name())?;
    let pd = context.alloc_pd()?;
    let cq = context.create_cq(16)?;
    let prepared = pd.queue_pair(QpType::Rc, &cq, &cq).build()?;
    let endpoint = prepared.endpoint();
    let _qp = prepared.handshake(endpoint)?;
    sched_yield();
    Ok(())
}
