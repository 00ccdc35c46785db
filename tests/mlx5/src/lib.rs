//! Code shared by the tests of mlx5.
//!
//! They run inside a machine of the testbed (`cargo xtask test --level mlx5`) that has two software
//! ConnectX functions of one kind, each test in a process of its own. Tests whose names begin with
//! `ib_` or `roce_` are only for that kind. After each test the kernel log has to be clean, the
//! model must have reported nothing, and its and the kernel's object counts must be as before.
//!
//! | variable | meaning |
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

/// Tells the runner that the machine cannot be used any more after this test.
pub fn uses_the_machine_up() {
    println!("this machine is used up");
}
