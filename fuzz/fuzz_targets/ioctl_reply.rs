//! See `fake_tests::targets::ioctl_reply`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fake_tests::targets::ioctl_reply(bytes));
