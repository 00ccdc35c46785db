//! C programs of this project over both libraries: threads that are cancelled, and that destroy
//! what others wait for; and over this project's alone: what is refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::process::Command as Program;
use std::time::Duration;

use compat_tests::Library::{self, Debian, Ours};
use compat_tests::by_address::{Side, boot_with, finish};
use compat_tests::{SUITE, libraries};
use testbed::cargo::workspace;
use testbed::{Command, Machine, Packages, host};

/// How long a program may take to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compiles a program, with Debian's headers.
fn compile(name: &str) -> PathBuf {
    let packages = ["libibverbs-dev", "librdmacm-dev", "linux-libc-dev"];
    let root = Packages::new(SUITE, &packages).alone().folder().unwrap();
    let folder = workspace().join("target/compat-programs");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join(name);
    let mut link = Program::new("cc");
    link.args(["-O1", "-pthread", "-I"])
        .arg(root.join("usr/include"))
        .arg("-o")
        .arg(&program)
        .arg(workspace().join(format!("tests/compat/programs/{name}.c")))
        .arg(format!("-L{}", libraries().unwrap().display()))
        .args(["-lrdmacm", "-libverbs"]);
    host::run(&mut link).unwrap();
    program
}

/// Runs it over each library, and compares what it prints.
fn over(libraries: &[Library], name: &str, expected: &str) {
    let program = compile(name);
    let guest = boot_with(|machine| machine.with_binary(program, name)).unwrap();
    for library in libraries {
        let side = Side {
            program: name,
            args: &[],
        };
        let output = guest.run(side.over(*library)).unwrap();
        let said = output.stdout_text();
        output.check().unwrap();
        assert_eq!(said.trim(), expected, "{library:?}");
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// Waiting for completions, asynchronous events, events of a channel, and requests; then what
/// waited is destroyed.
#[test]
fn a_thread_that_waits_can_be_cancelled() {
    over(&[Ours, Debian], "cancelled", "1 1 1 1 0");
}

#[test]
fn ids_are_destroyed_while_others_read_their_events() {
    over(&[Ours, Debian], "threads", "0 failures, many events");
}

/// Listeners hear of it, and can be destroyed; nothing can be bound to the address any more.
#[test]
fn a_device_is_removed() {
    let program = compile("removed");
    for library in [Ours, Debian] {
        let add = |machine: Machine| machine.with_binary(program.clone(), "removed");
        let guest = boot_with(add).unwrap();
        let side = Side {
            program: "removed",
            args: &[],
        };
        let listening = guest.spawn(side.over(library)).unwrap();
        listening.wait_for_text("listening", PATIENCE).unwrap();
        let removed = guest.run(Command::shell("rdma link del rxe0")).unwrap();
        removed.check().unwrap();
        let output = listening.wait().unwrap();
        let said = output.stdout_text();
        output.check().unwrap();
        let expected = "RDMA_CM_EVENT_DEVICE_REMOVAL 0, 0, No such device";
        assert!(said.contains(expected), "{library:?}: {said}");
        assert_eq!(finish(guest).unwrap(), [""; 0]);
    }
}

/// Debian's library does not look for NULL.
#[test]
fn wrong_arguments_are_refused() {
    over(&[Ours], "refused", "55 refused, 0 not");
}
