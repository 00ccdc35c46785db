//! What the tests of the whole stack on rxe share.
//!
//! They run inside a machine of the testbed (`cargo xtask test --level rxe`), each in a process of its own.
//!
//! | variable | what it says | default |
//! |---|---|---|
//! | `UVERBS_TEST_DEVICE` | the device | `rxe0` |
//! | `UVERBS_TEST_PATH` | how commands reach the kernel: `auto`, `ioctl`, `invoke-write`, `write` | `auto` |
#![allow(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking, and says what is missing"
)]

pub mod link;
mod memory;
mod pair;
pub mod raw;
mod wait;

pub use memory::Registered;
pub use pair::{Pair, Side};
pub use wait::{DEADLINE, drain, next, nothing, queue_event, until};

use uverbs::{
    CommandPath, Context, GidEntry, GidType, OpenOptions, QueuePair, WcStatus, WorkCompletion,
};

/// The device under test.
pub fn device_name() -> String {
    std::env::var("UVERBS_TEST_DEVICE").unwrap_or_else(|_| "rxe0".to_owned())
}

/// The way to the kernel under test.
pub fn command_path() -> CommandPath {
    match std::env::var("UVERBS_TEST_PATH").as_deref() {
        Err(_) | Ok("auto") => CommandPath::Auto,
        Ok("ioctl") => CommandPath::Ioctl,
        Ok("invoke-write") => CommandPath::InvokeWrite,
        Ok("write") => CommandPath::Write,
        Ok(other) => panic!("UVERBS_TEST_PATH: no way to the kernel is called {other:?}"),
    }
}

/// How the device under test is opened.
pub fn options() -> OpenOptions {
    OpenOptions::new().command_path(command_path())
}

/// The device under test, opened.
pub fn open() -> Context {
    open_named(&device_name())
}

/// The device of this name, opened by the path under test.
pub fn open_named(name: &str) -> Context {
    match options().open(name) {
        Ok(context) => context,
        Err(error) => panic!(
            "cannot open the RDMA device {name:?} (these tests run in a machine: \
             cargo xtask test --level rxe): {error}"
        ),
    }
}

/// Tells the runner that the kernel is right to warn or complain with these words during this test.
pub fn kernel_may_say(words: &str) {
    println!("the kernel may say: {words}");
}

/// Tells the runner that requests fail in this test; newer kernels write a line for each.
pub fn requests_fail() {
    kernel_may_say("non-flush error status");
}

/// A request that this side could not carry out failed with `status`, or was flushed.
///
/// rxe does not tell every kind of failure apart, and since 6.3 moves the queue pair to ERROR before
/// it reports such a request, which flushes it with the rest.
pub fn failed_here(done: &WorkCompletion, status: WcStatus) {
    let expected = if kernel() >= (6, 3) {
        [status, WcStatus::Flushed]
    } else {
        [status, WcStatus::LocalQpOperation]
    };
    assert!(expected.contains(&done.status), "not {status}: {done:?}");
}

/// The entry of the GID table that the builder chose for `qp`.
pub fn gid_entry(context: &Context, qp: &QueuePair) -> GidEntry {
    let gid = qp.endpoint().gid.expect("RoCE has GIDs");
    let table = context.gid_table().expect("a GID table");
    let of = |entry: &&GidEntry| entry.gid == gid && entry.gid_type == GidType::RoceV2;
    *table.iter().find(of).expect("the GID is in the table")
}

/// The running kernel, as (major, minor).
pub fn kernel() -> (u32, u32) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut parts = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}
