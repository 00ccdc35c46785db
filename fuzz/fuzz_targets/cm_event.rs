//! See `fake_tests::targets::cm_event`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fake_tests::targets::cm_event(bytes));
