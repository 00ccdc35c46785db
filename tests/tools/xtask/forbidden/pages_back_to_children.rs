//! Lets children inherit the pages of a queue again, to which a device continues to write.
#![forbid(unsafe_code)]

use uverbs_core::discover::ForkGuard;
use uverbs_core::hw::Pages;

fn main() {
    let ring = Pages::for_device(4096).unwrap();
    let guard = ForkGuard::forced();
    println!("{guard:?} {}", ring.len());
    drop(guard.protect(ring.as_ptr().addr(), ring.len())); //~ E0133
}
