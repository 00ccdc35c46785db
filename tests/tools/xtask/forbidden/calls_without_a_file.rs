//! Calls kernels without an opened file.
#![forbid(unsafe_code)]

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use uverbs_core::sys::recorder::{Collector, Recorder};
use uverbs_core::sys::{Call, Kernel, Linux, Uhw, WriteCommand};
use uverbs_fake::{FakeKernel, Profile};

fn main() {
    let register = WriteCommand {
        command: 9,
        extended: false,
        request: &[0; 40],
        reply: &[],
        uhw: Uhw::NONE,
    };
    let node = File::open("/dev/infiniband/uverbs0").unwrap();
    let fake = FakeKernel::new(Profile::v6_12());
    let fd = fake.open().unwrap();
    let call = Call::Write(&register);
    let recorded = Recorder::new(fake.clone(), Arc::new(Collector::new()));
    let shared: Arc<dyn Kernel> = Arc::new(fake.clone());
    println!(
        "{call:?} {recorded:?} {shared:?} {node:?} {fd:?} {Linux:?} {:?}",
        fd.as_fd()
    );
    Linux.call(node.as_fd(), call).unwrap(); //~ E0133
    fake.call(fd.as_fd(), call).unwrap(); //~ E0133
    recorded.call(fd.as_fd(), call).unwrap(); //~ E0133
    shared.call(fd.as_fd(), call).unwrap(); //~ E0133
}
