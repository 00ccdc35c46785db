//! Calls a method of a trait that cannot be named, but that a bound brings into scope.
#![forbid(unsafe_code)]

use uverbs::QueuePair;
use uverbs::mlx5::FirmwareQueue;
use uverbs_core::Object;

fn known<Q: FirmwareQueue>(queue: &Q, look: impl Fn(&Object)) -> u32 {
    look(queue.known()); //~ E0308
    look(queue.known().0); //~ E0616
    let _ = look;
    queue.firmware_number().unwrap()
}

fn main() {
    let _: fn(&QueuePair, fn(&Object)) -> u32 = known;
}
