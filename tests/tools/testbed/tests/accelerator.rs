//! Whether guests run is found out by running one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use testbed::accelerator::{Accelerator, probe};
use testbed::host::{Tool, ensure};

const QEMU: &str = "qemu-system-x86_64";

#[test]
#[ignore = "needs QEMU"]
fn a_guest_of_one_instruction_runs() {
    ensure(&[Tool::Qemu]).unwrap();
    assert_eq!(probe(QEMU, Accelerator::Tcg), Ok(()));
}

#[test]
#[ignore = "needs QEMU"]
fn what_starts_no_guest_is_told_from_what_does() {
    let error = probe("true", Accelerator::Tcg).unwrap_err();
    assert!(error.contains("ended by"), "{error}");
    let error = probe("no-such-program", Accelerator::Tcg).unwrap_err();
    assert!(error.contains("no-such-program"), "{error}");
}
