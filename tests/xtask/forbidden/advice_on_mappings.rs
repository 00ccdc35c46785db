//! Has the kernel empty pages that something relies on.
#![forbid(unsafe_code)]

use uverbs_driver::hw::Pages;
use uverbs_driver::sys::Mapping;

fn main() {
    let pages = Pages::new(4096).unwrap();
    let mapping: &Mapping = pages.mapping();
    println!("{mapping:?}");
    mapping.advise(rustix::mm::Advice::LinuxDontNeed).unwrap(); //~ E0599
}
