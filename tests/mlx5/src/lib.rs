//! What the tests of mlx5 share.
//!
//! They run inside a machine of the testbed (`cargo xtask test --level mlx5`) that has two software
//! ConnectX functions of one kind, each test in a process of its own. Tests whose names begin with
//! `ib_` or `roce_` are about that kind alone. After each test the kernel log has to be clean, the
//! model silent, and the counts of its objects and of the kernel's as before.
//!
//! | variable | what it says |
//! |---|---|
//! | `UVERBS_TEST_DEVICE`, `UVERBS_TEST_PEER` | the two devices |
//! | `UVERBS_TEST_PATH` | how commands reach the kernel |
//! | `UVERBS_TEST_DOORBELLS` | `fixed`: contexts have the doorbells of kernels before 5.7 |
//! | `UVERBS_TEST_CONNECTX` | the model's control socket |
#![allow(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking, and says what is missing"
)]

mod model;
pub mod raw;

pub use model::Model;
pub use verbs_tests::model_may_report;

/// Tells the runner that nothing more can be done with the machine after this test.
pub fn uses_the_machine_up() {
    println!("this machine is used up");
}
