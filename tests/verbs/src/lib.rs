//! Tests of the whole stack on any device, and code shared by these and the driver-specific tests.
//!
//! They run inside a machine of the testbed (`cargo xtask test --level rxe`, `--level mlx5`), each
//! in a process of its own. Tests whose names begin with `ib_` or `roce_` are only for a port of
//! that kind, those that begin with `rxe_` or `mlx5_` only for that driver.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `UVERBS_TEST_DEVICE` | the device | `rxe0` |
//! | `UVERBS_TEST_ADDRESS` | the IPv4 address of its interface | `10.1.0.1` |
//! | `UVERBS_TEST_PEER` | a device that it reaches | the same |
//! | `UVERBS_TEST_CONNECTX` | the software ConnectX's control socket, if there is one | |
//! | `UVERBS_TEST_DOORBELLS` | of mlx5 devices: `as-needed`, or `fixed` as on kernels before 5.7 | `as-needed` |
//! | `UVERBS_TEST_PATH` | how commands reach the kernel: `auto`, `ioctl`, `invoke-write`, `write` | `auto` |
#![allow(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking, and says what is missing"
)]

pub mod adversary;
pub mod by_address;
pub mod impair;
pub mod link;
mod memory;
mod pair;
pub mod raw;
mod wait;

pub use memory::Registered;
pub use pair::{Pair, Side};
pub use wait::{DEADLINE, drain, next, nothing, queue_event, until};

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};

use uverbs::address::GlobalRoute;
use uverbs::gid::{GidEntry, GidType};
use uverbs::kernel::CommandPath;
use uverbs::link::LinkLayer;
use uverbs::mlx5::Doorbells;
use uverbs::{AddressVector, Context, OpenOptions, QueuePair, WcStatus, WorkCompletion};

/// The variable that names the software ConnectX's control socket.
const CONNECTX_VARIABLE: &str = "UVERBS_TEST_CONNECTX";

/// The device under test.
pub fn device_name() -> String {
    std::env::var("UVERBS_TEST_DEVICE").unwrap_or_else(|_| "rxe0".to_owned())
}

/// A device that the device under test reaches; the same one if there is no other.
pub fn peer_name() -> String {
    std::env::var("UVERBS_TEST_PEER").unwrap_or_else(|_| device_name())
}

/// The driver of the device under test.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Driver {
    /// Soft RoCE.
    Rxe,
    /// ConnectX, as InfiniBand or Ethernet.
    Mlx5,
}

/// The driver of the device under test, by its name.
pub fn driver() -> Driver {
    match device_name() {
        name if name.starts_with("rxe") => Driver::Rxe,
        name if name.starts_with("mlx5") => Driver::Mlx5,
        name => panic!("nothing is known of the driver of {name}"),
    }
}

/// The path to the kernel under test.
pub fn command_path() -> CommandPath {
    match std::env::var("UVERBS_TEST_PATH").as_deref() {
        Err(_) | Ok("auto") => CommandPath::Auto,
        Ok("ioctl") => CommandPath::Ioctl,
        Ok("invoke-write") => CommandPath::InvokeWrite,
        Ok("write") => CommandPath::Write,
        Ok(other) => panic!("UVERBS_TEST_PATH: no way to the kernel is called {other:?}"),
    }
}

/// The doorbells that contexts of mlx5 devices are opened with.
pub fn doorbells() -> Doorbells {
    match std::env::var("UVERBS_TEST_DOORBELLS").as_deref() {
        Err(_) | Ok("as-needed") => Doorbells::AsNeeded,
        Ok("fixed") => Doorbells::Fixed,
        Ok(other) => panic!("UVERBS_TEST_DOORBELLS: no doorbells are {other:?}"),
    }
}

/// How the device under test is opened.
pub fn options() -> OpenOptions {
    let options = OpenOptions::new()
        .command_path(command_path())
        .doorbells_of_mlx5(doorbells());
    match coverage::sink() {
        Some(sink) => options.record(sink),
        None => options,
    }
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
             cargo xtask test --level rxe, --level mlx5): {error}"
        ),
    }
}

/// Tells the runner that the kernel may warn or complain with these words during this test.
pub fn kernel_may_say(words: &str) {
    println!("the kernel may say: {words}");
}

/// Tells the runner, and the software ConnectX, which may be strict, that it may report these words
/// during this test. To be called while nothing else uses the control socket.
pub fn model_may_report(words: &str) {
    println!("the model may report: {words}");
    if let Ok(path) = std::env::var(CONNECTX_VARIABLE) {
        let file = File::options().read(true).write(true).open(&path);
        let mut model = file.unwrap_or_else(|error| panic!("{path}: {error}"));
        // No words would end all permissions.
        let words = if words.is_empty() { "*" } else { words };
        let line = format!("expect {words}\n");
        model.write_all(line.as_bytes()).expect("the model listens");
        let mut answer = String::new();
        let said = BufReader::new(&model).read_line(&mut answer);
        said.expect("the model answers");
    }
}

/// Tells the runner that requests fail in this test; newer kernels log a line for each, and the
/// software ConnectX reports those that name memory incorrectly.
pub fn requests_fail() {
    kernel_may_say("non-flush error status");
    model_may_report("memory key");
}

/// Checks that a request that this side could not carry out failed with `status`, or was flushed.
///
/// rxe does not distinguish all kinds of failure, and since 6.3 moves the queue pair to ERROR
/// before it reports such a request, which flushes it with the rest.
pub fn failed_here(done: &WorkCompletion, status: WcStatus) {
    let expected = if driver() == Driver::Mlx5 {
        [status, status]
    } else if kernel() >= (6, 3) {
        [status, WcStatus::Flushed]
    } else {
        [status, WcStatus::LocalQpOperation]
    };
    assert!(expected.contains(&done.status), "not {status}: {done:?}");
}

/// Whether the device's port is InfiniBand; otherwise it is Ethernet.
pub fn is_infiniband(context: &Context) -> bool {
    let port = context.query_port(1).expect("a port");
    port.link_layer == LinkLayer::InfiniBand
}

/// The entry of the GID table that the builder chose for `qp` on Ethernet; the port's own on
/// InfiniBand.
pub fn gid_entry(context: &Context, qp: &QueuePair) -> GidEntry {
    let table = context.gid_table().expect("a GID table");
    if is_infiniband(context) {
        return *table.first().expect("a port has a GID");
    }
    let gid = qp.endpoint().gid.expect("RoCE has GIDs");
    let of = |entry: &&GidEntry| entry.gid == gid && entry.gid_type == GidType::RoceV2;
    *table.iter().find(of).expect("the GID is in the table")
}

/// The path from a port to itself.
pub fn own_address(context: &Context, qp: &QueuePair) -> AddressVector {
    if is_infiniband(context) {
        let port = context.query_port(1).expect("a port");
        return AddressVector::local(1, port.lid);
    }
    let entry = gid_entry(context, qp);
    let index = u8::try_from(entry.index).expect("a small table");
    AddressVector::global(1, GlobalRoute::new(entry.gid, index))
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
