//! See `hostile_tests::reply_devx`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_tests::reply_devx(bytes));
