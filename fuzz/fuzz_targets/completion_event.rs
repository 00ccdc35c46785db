//! See `hostile_tests::completion_event`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_tests::completion_event(bytes));
