//! See `hostile_tests::sysfs_devices`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_tests::sysfs_devices(bytes));
