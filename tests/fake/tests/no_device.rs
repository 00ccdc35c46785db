//! Descriptors that are not verbs devices, given to the running kernel.
#![forbid(unsafe_code)]
#![cfg(not(miri))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{File, read_link};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use fake_tests::PATHS;
use uverbs::attr::DriverId;
use uverbs::discover::{DeviceInfo, DriverMatch};
use uverbs::{ErrorKind, OpenOptions};
use uverbs_fake::{FakeKernel, Profile};

fn file(path: &str) -> OwnedFd {
    let both = File::options().read(true).write(true).open(path);
    both.or_else(|_| File::open(path)).unwrap().into()
}

/// Descriptors that take commands for data, and descriptors that refuse them.
fn descriptors() -> Vec<OwnedFd> {
    let mut all: Vec<OwnedFd> = [
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/urandom",
        "/",
        "/proc/self/mem",
    ]
    .map(file)
    .into();
    let (reader, writer) = std::io::pipe().unwrap();
    let (one, other) = UnixStream::pair().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = std::env::temp_dir().join(format!("uverbs-no-device-{}", std::process::id()));
    let regular = File::create_new(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    all.extend([
        reader.into(),
        writer.into(),
        regular.into(),
        listener.into(),
    ]);
    all.extend([OwnedFd::from(one), other.into()]);
    all
}

/// What is known about the device: its driver, or that it is unknown.
fn infos() -> [DeviceInfo; 3] {
    let rxe = FakeKernel::new(Profile::v6_12()).device_info();
    let mut mlx5 = rxe.clone();
    mlx5.driver = DriverMatch::Kernel(DriverId::Mlx5);
    mlx5.abi_version = Some(1);
    let mut unknown = rxe.clone();
    unknown.driver = DriverMatch::Unknown;
    [rxe, mlx5, unknown]
}

#[test]
fn no_command_is_given_and_no_descriptor_closed() {
    let stdin = read_link("/proc/self/fd/0").unwrap();
    for path in PATHS {
        for info in infos() {
            for descriptor in descriptors() {
                let what = format!("{descriptor:?} by {path:?} as {:?}", info.driver);
                let before = descriptor.try_clone().unwrap();
                let options = OpenOptions::new().command_path(path);
                let error = options.over(info.clone(), descriptor).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what}: {error}");
                let after = File::from(before).metadata().unwrap();
                assert!(
                    !after.is_file() || after.len() == 0,
                    "{what} was written to"
                );
                assert_eq!(read_link("/proc/self/fd/0").unwrap(), stdin, "{what}");
            }
        }
    }
}

#[test]
fn a_fake_device_is_none_of_the_running_kernel_nor_of_another_fake() {
    let (one, other) = (
        FakeKernel::new(Profile::v6_12()),
        FakeKernel::new(Profile::v6_12()),
    );
    for path in PATHS {
        let options = || OpenOptions::new().command_path(path);
        let info = one.device_info();
        let over_linux = options().over(info.clone(), one.open().unwrap());
        let kernel = std::sync::Arc::new(other.clone());
        let over_other = options().kernel(kernel).over(info, one.open().unwrap());
        for refused in [over_linux, over_other] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
    assert_eq!((one.calls(), other.calls()), (0, 0));
}
