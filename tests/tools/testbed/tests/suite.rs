//! The runner distinguishes tests that pass from all others, and continues whatever a test does to
//! the machine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;
use testbed::suite::{Failure, Suite};
use testbed::{Kernel, Machine};

/// The tests of `tests/tools/init/examples/suite_fixture.rs`.
fn fixture() -> Suite {
    let args = [
        "test",
        "--no-run",
        "--package",
        "guest-init",
        "--example",
        "suite_fixture",
    ];
    let binary = testbed::cargo::build_program("suite_fixture", &args).unwrap();
    Suite::new("suite_fixture", binary)
        .env("FIXTURE", "1")
        .timeout(Duration::from_secs(5))
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level testbed"]
fn every_kind_of_test_is_distinguished() {
    let summary = fixture()
        .run(&Machine::new(Kernel::named("6.12").unwrap()))
        .unwrap();

    assert_eq!(
        (summary.passed, summary.ignored, summary.filtered_out),
        (2, 1, 0)
    );
    let failed: Vec<_> = summary
        .failures
        .iter()
        .map(|failure| failure.test.as_str())
        .collect();
    assert_eq!(
        failed,
        [
            "tests::b_fails",
            "tests::c_hangs",
            "tests::e_makes_the_kernel_complain",
            "tests::f_exits_silently",
            "tests::g_kills_the_machine",
            "tests::i_passes_on_a_machine_of_its_own",
        ]
    );
    assert!(summary.unsteady.is_empty(), "{:?}", summary.unsteady);
    let why = |index: usize| {
        format!(
            "{}\n{}",
            summary.failures[index].why, summary.failures[index].output
        )
    };
    assert!(
        why(0).contains("exit code 101") && why(0).contains("words of the failing test"),
        "{}",
        why(0)
    );
    assert!(why(1).contains("its time limit"), "{}", why(1));
    assert!(
        why(2).contains("! [") && why(2).contains("a complaint made up by a test"),
        "{}",
        why(2)
    );
    assert!(why(4).contains("Kernel panic"), "{}", why(4));
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level testbed"]
fn a_test_that_fails_can_have_another_try() {
    let wanted = ["b_fails", "h_passes", "i_passes"].map(str::to_owned);
    let summary = fixture()
        .filters(&wanted)
        .tries(2)
        .run(&Machine::new(Kernel::named("6.12").unwrap()))
        .unwrap();
    let names = |failures: &[Failure]| {
        let names = failures.iter().map(|failure| failure.test.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&summary.failures), ["tests::b_fails"]);
    assert_eq!(
        names(&summary.unsteady),
        ["tests::i_passes_on_a_machine_of_its_own"]
    );
    assert!(
        summary.unsteady[0].output.contains("another test was here"),
        "{}",
        summary.unsteady[0]
    );
    assert_eq!(summary.passed, 2);
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level testbed"]
fn a_filter_leaves_the_others_out() {
    let args = ["test", "--no-run", "--package", "guest-init", "--lib"];
    let binary = testbed::cargo::build_program("guest_init", &args).unwrap();
    let suite = Suite::new("guest_init", binary).filters(&["survives".to_owned()]);
    let summary = suite
        .run(&Machine::new(Kernel::named("newest").unwrap()))
        .unwrap();
    assert!(summary.is_ok());
    assert_eq!((summary.passed, summary.filtered_out), (1, 1));
}
