//! See `fake_tests::targets::nldev_dump`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fake_tests::targets::nldev_dump(bytes));
