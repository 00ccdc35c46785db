//! A descriptor that belongs to no device, given to the running kernel: nothing of the process may
//! be mistaken for an answer.
//!
//! In a file of its own, because other tests would open and close descriptors meanwhile.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::fd::OwnedFd;

use uverbs::OpenOptions;
use uverbs::kernel::CommandPath;
use uverbs_fake::{FakeKernel, Profile};

/// The descriptors of this process, and what they are.
fn descriptors() -> Vec<(String, String)> {
    let mut found: Vec<_> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            // The one that is being read here is closed by now.
            let what = fs::read_link(&path).ok()?.display().to_string();
            Some((path.display().to_string(), what))
        })
        .filter(|(_, what)| !what.contains("/fd"))
        .collect();
    found.sort();
    found
}

#[test]
fn nothing_is_closed_for_a_file_that_is_no_device() {
    let info = FakeKernel::new(Profile::v7_2()).device_info();
    let before = descriptors();
    for path in ["/dev/null", "/dev/zero", "/dev/full"] {
        for way in [
            CommandPath::Write,
            CommandPath::Auto,
            CommandPath::Ioctl,
            CommandPath::InvokeWrite,
        ] {
            let file = File::options().read(true).write(true).open(path).unwrap();
            let opened = OpenOptions::new()
                .command_path(way)
                .over(info.clone(), OwnedFd::from(file));
            assert!(opened.is_err(), "{path} is a device, by {way:?}");
            drop(opened);
            assert_eq!(descriptors(), before, "{path} by {way:?}");
        }
    }
}
