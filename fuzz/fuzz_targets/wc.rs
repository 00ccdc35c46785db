//! See `fake_tests::targets::wc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fake_tests::targets::wc(bytes));
