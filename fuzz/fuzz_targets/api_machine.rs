//! See `hostile_tests::api_machine`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_tests::api_machine(bytes));
