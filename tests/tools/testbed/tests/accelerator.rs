//! Whether kernels boot is determined by booting one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};
use testbed::Kernel;
use testbed::accelerator::{Accelerator, Answer, probe};
use testbed::host::{Tool, ensure};

const QEMU: &str = "qemu-system-x86_64";

/// More than the emulator takes on a busy host.
const LONG: Duration = Duration::from_secs(180);

fn tried(qemu: &str, patience: Duration) -> Answer {
    let kernel = Kernel::named("6.12").unwrap();
    probe(&[qemu.to_owned()], kernel, Accelerator::Tcg, patience).unwrap()
}

#[test]
#[ignore = "needs QEMU"]
fn an_emulator_that_boots_a_kernel_is_accepted() {
    ensure(&[Tool::Qemu]).unwrap();
    let release = Kernel::named("6.12").unwrap().fetch().unwrap();
    assert_eq!(tried(QEMU, LONG), Answer::Boots(release));
}

#[test]
#[ignore = "needs QEMU"]
fn an_emulator_that_boots_none_is_rejected_in_time() {
    ensure(&[Tool::Qemu]).unwrap();
    // The emulator needs longer: a kernel that does not boot in time counts as one that never does.
    let since = Instant::now();
    let Answer::DoesNot(why) = tried(QEMU, Duration::ZERO) else {
        panic!("a kernel booted in no time");
    };
    assert!(why.contains("has not come up within 0 s"), "{why}");
    assert!(since.elapsed() < LONG, "{:?}", since.elapsed());
    let Answer::DoesNot(why) = tried("false", LONG) else {
        panic!("a program that is no QEMU booted a kernel");
    };
    assert!(why.contains("QEMU ends early"), "{why}");
    let Answer::DoesNot(why) = tried("no-such-program", LONG) else {
        panic!("no program booted a kernel");
    };
    assert!(why.contains("no-such-program"), "{why}");
}
