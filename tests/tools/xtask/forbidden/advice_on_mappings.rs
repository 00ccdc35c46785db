//! Makes the kernel discard pages whose contents are relied on.
#![forbid(unsafe_code)]

use uverbs_core::sys::Mapping;

fn empty(mapping: &Mapping) {
    println!("{mapping:?}");
    mapping.advise(rustix::mm::Advice::LinuxDontNeed).unwrap(); //~ E0599
}

fn main() {
    let _: fn(&Mapping) = empty;
}
