//! See `hostile_tests::devx_event`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_tests::devx_event(bytes));
