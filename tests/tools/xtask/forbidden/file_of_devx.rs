//! Registers memory that is borrowed elsewhere, through the opened file of the DEVX handle.
#![forbid(unsafe_code)]

use uverbs::{AccessFlags, Context};
use uverbs_core::cmd::mr::{self, Register};
use uverbs_core::{UverbsFile, sys::Uhw};

/// What any program can do that has an opened file.
fn register(file: &UverbsFile, memory: &mut [u8]) {
    let request = Register {
        pd: 0,
        start: memory.as_mut_ptr() as u64,
        length: memory.len() as u64,
        iova: 0,
        access: AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE,
    };
    drop(mr::register(file, &request, &Uhw::NONE));
}

fn main() {
    let context = Context::open("mlx5_0").unwrap();
    let devx = context.mlx5().unwrap().devx().unwrap();
    let mut memory = vec![0; 4096];
    let held: &mut [u8] = &mut memory;
    let _: fn(&UverbsFile, &mut [u8]) = register;
    register(devx.file(), held); //~ E0624
    held[0] = 1;
    drop(devx);
}
