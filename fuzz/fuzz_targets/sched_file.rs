//! See `hostile_tests::sched_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_tests::sched_file(bytes));
