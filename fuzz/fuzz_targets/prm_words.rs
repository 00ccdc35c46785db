//! See `hostile_tests::prm_words`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_tests::prm_words(bytes));
