//! See `fake_tests::targets::rxe_ring`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fake_tests::targets::rxe_ring(bytes));
