//! Writes a command to the device's descriptor.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};

use uverbs::Context;

fn write(device: BorrowedFd<'_>) {
    let mut device = File::from(device.try_clone_to_owned().unwrap());
    device.write_all(&[9; 64]).unwrap();
}

fn of_any(device: &impl AsFd) {
    write(device.as_fd());
}

fn main() {
    let context = Context::open("rxe0").unwrap();
    write(context.event_fd().unwrap());
    write(context.as_fd()); //~ E0599
    of_any(&context.create_completion_channel().unwrap());
    of_any(&context); //~ E0277
}
