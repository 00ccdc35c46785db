//! See `connectx::run_program`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| connectx::run_program(bytes));
