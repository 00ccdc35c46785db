//! Test binaries of the ordinary `#[test]` harness, run in a guest test by test.
