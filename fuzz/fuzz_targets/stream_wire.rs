//! See `fake_tests::targets::stream_wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fake_tests::targets::stream_wire(bytes));
