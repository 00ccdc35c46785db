//! The fuzz targets: one function per untrusted input, from bytes to a verdict.
//!
//! Each takes arbitrary bytes and must neither panic nor hang. libFuzzer drives them in the `fuzz`
//! workspace; the tests here run them over the seeds of that workspace and over random bytes.
//! Targets for the whole library on the fake kernel are in `fake_tests::targets`, and are run along
//! with these.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a target fails by panicking"
)]
#![allow(
    clippy::match_bool,
    clippy::collapsible_match,
    reason = "a choice of the tape's reads as one"
)]

mod adapter;
mod cli;
mod devx;
mod differential;
mod events;
mod liar;
mod machine;
mod mlx5;
mod reply;
mod rings;
mod tape;
mod texts;
mod tree;
#[cfg(test)]
mod unreported;
#[cfg(test)]
mod values;
pub mod watch;

#[path = "../../../src/cli/src/exchange/mod.rs"]
#[expect(dead_code, reason = "the tool uses more of it than the targets here")]
mod exchange;
#[path = "../../../src/cli/src/failure.rs"]
#[expect(dead_code, reason = "the tool uses more of it than the targets here")]
mod failure;
#[path = "../../../src/cli/src/commands/bench/spec.rs"]
#[expect(dead_code, reason = "the tool uses more of it than the targets here")]
mod spec;
#[path = "../../../src/cli/src/commands/sched/file.rs"]
mod tree_file;
#[path = "../../../src/cli/src/commands/bench/wire.rs"]
#[expect(dead_code, reason = "the tool uses more of it than the targets here")]
mod wire;

pub use adapter::{mlx5_context, mlx5_kernel, mlx5_ring, open_mlx5};
pub use devx::reply_devx;
pub use differential::differential;
pub use events::{completion_event, devx_event};
pub use machine::api_machine;
pub use reply::{
    reply_address, reply_cq, reply_device, reply_memory, reply_qp, reply_receive, reply_xrc,
};
pub use rings::rxe_srq;
pub use tape::Tape;
pub use texts::{exchange, prm_words, sched_file, sysfs_devices, texts};
pub use tree::sched_tree;

/// A target: its name, which is that of its folder of seeds, and its body.
pub type Target = (&'static str, fn(&[u8]));

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        /// Every target of this package.
        pub const ALL: &[Target] = &[$((stringify!($name), $name)),*];
    };
}

targets!(
    api_machine,
    completion_event,
    devx_event,
    differential,
    exchange,
    mlx5_context,
    mlx5_ring,
    prm_words,
    reply_address,
    reply_cq,
    reply_device,
    reply_devx,
    reply_memory,
    reply_qp,
    reply_receive,
    reply_xrc,
    rxe_srq,
    sched_file,
    sched_tree,
    sysfs_devices,
    texts,
);
