//! See `hostile_tests::rxe_srq`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_tests::rxe_srq(bytes));
