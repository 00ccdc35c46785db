//! See `hostile_tests::texts`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_tests::texts(bytes));
