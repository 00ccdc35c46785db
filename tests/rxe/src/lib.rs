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

mod memory;
mod pair;
mod wait;

pub use memory::Registered;
pub use pair::{Pair, Side};
pub use wait::{DEADLINE, drain, next, until};

use uverbs::{CommandPath, Context, OpenOptions};

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

/// The running kernel, as (major, minor).
pub fn kernel() -> (u32, u32) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut parts = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}
