//! See `fake_tests::targets::gid_sysfs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fake_tests::targets::gid_sysfs(bytes));
