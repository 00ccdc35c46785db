//! Tests of every kind, for the tests of the testbed's runner:
//! `cargo test --no-run --example suite_fixture`, then run in a guest.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

fn main() {
    println!("These are tests; build them by cargo test --no-run.");
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread::park;

    const TRACE: &str = "/run/another-test-was-here";

    #[test]
    fn a_passes() {
        assert!(
            std::env::var_os("FIXTURE").is_some(),
            "the environment is given on"
        );
    }

    #[test]
    fn b_fails() {
        println!("words of the failing test");
        panic!("as it should");
    }

    #[test]
    fn c_hangs() {
        loop {
            park();
        }
    }

    #[test]
    #[ignore = "to see that it is not run"]
    fn d_is_ignored() {
        panic!("run although ignored");
    }

    #[test]
    fn e_makes_the_kernel_complain() {
        // Without a newline, as some drivers do it.
        fs::write("/dev/kmsg", "<4>rdma_rxe: a complaint made up by a test").unwrap();
    }

    #[test]
    fn f_exits_silently() {
        std::process::exit(0);
    }

    #[test]
    fn g_kills_the_machine() {
        fs::write("/proc/sysrq-trigger", "c").unwrap();
    }

    #[test]
    fn h_passes_after_all_that() {
        fs::write(TRACE, "").unwrap();
    }

    #[test]
    fn i_passes_on_a_machine_of_its_own() {
        assert!(!fs::exists(TRACE).unwrap(), "another test was here");
    }
}
