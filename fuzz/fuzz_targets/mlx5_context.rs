//! See `hostile_tests::mlx5_context`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_tests::mlx5_context(bytes));
