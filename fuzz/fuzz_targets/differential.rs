//! See `hostile_tests::differential`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_tests::differential(bytes));
