//! See `hostile_tests::exchange`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_tests::exchange(bytes));
