//! Constructs an opened file, for the running kernel and for the fake, whose device writes to
//! registered memory.
#![forbid(unsafe_code)]

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use uverbs_core::file::driver_of;
use uverbs_core::sys::{Kernel, Linux};
use uverbs_core::types::DriverId;
use uverbs_core::{CommandPath, UverbsFile, cmd};
use uverbs_fake::{FakeKernel, Profile};

/// What any program can do that has an opened file.
fn ring(file: &UverbsFile) {
    drop(cmd::qp::doorbell(file, 0));
}

fn main() {
    let node = File::open("/dev/infiniband/uverbs0").unwrap();
    let fake = FakeKernel::new(Profile::v6_12());
    let kernels: [(Arc<dyn Kernel>, _); 2] = [
        (Arc::new(Linux), node.into()),
        (Arc::new(fake.clone()), fake.open().unwrap()),
    ];
    let _: fn(&UverbsFile) = ring;
    for (kernel, fd) in kernels {
        println!(
            "{kernel:?} {:?}",
            kernel.check_device(fd.as_fd(), None, None)
        );
        println!("{:?}", driver_of(&*kernel, fd.as_fd(), &[DriverId::Rxe])); //~ E0133
        ring(&UverbsFile::new(kernel, fd, 12, CommandPath::Auto)); //~ E0133
    }
}
