//! See `adversary`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| adversary::run::fuzz(adversary::run::MODELS[1].1, bytes));
