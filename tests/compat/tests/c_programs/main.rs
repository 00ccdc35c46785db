//! C programs of this project over both libraries: threads that are cancelled, and that destroy
//! what others wait for; and over this project's alone: what is refused.
//!
//! Those that need the same machine run in one, one after another.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod connectx;
mod rxe;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command as Program;

use compat_tests::by_address::{Side, finish};
use compat_tests::{Library, SUITE, kernel, with_both};
use testbed::cargo::workspace;
use testbed::{Connectx, Guest, Machine, Packages, host};

/// A program, and what checks it.
type Check = (&'static str, fn(&Guest));

/// Boots a machine for these programs, and checks all of them, also those after one that fails.
fn check_all(model: Option<Connectx>, checks: &[Check]) {
    let machine = Machine::new(kernel().unwrap());
    let machine = match model {
        Some(model) => machine.connectx(model),
        None => machine,
    };
    let add = |machine: Machine, (name, _): &Check| machine.with_binary(compile(name), name);
    let machine = checks.iter().fold(with_both(machine).unwrap(), add);
    let guest = machine.boot().unwrap();
    let fails = |(_, check): &&Check| catch_unwind(AssertUnwindSafe(|| check(&guest))).is_err();
    let failed: Vec<_> = checks.iter().filter(fails).map(|(name, _)| *name).collect();
    assert_eq!(failed, [""; 0]);
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// Compiles a program, with Debian's headers and libraries, whose functions of the vendor's are in
/// a library of their own.
fn compile(name: &str) -> PathBuf {
    let packages = [
        "libibverbs-dev",
        "libibverbs1",
        "ibverbs-providers",
        "librdmacm-dev",
        "librdmacm1t64",
        "linux-libc-dev",
    ];
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
        .arg("-L")
        .arg(root.join("usr/lib/x86_64-linux-gnu"))
        .arg("-Wl,--allow-shlib-undefined")
        .args(["-lrdmacm", "-lmlx5", "-libverbs"]);
    host::run(&mut link).unwrap();
    program
}

/// What a program prints over each library.
fn said(guest: &Guest, libraries: &[Library], name: &str) -> Vec<String> {
    let over = |library: &Library| {
        let side = Side {
            program: name,
            args: &[],
        };
        let output = guest.run(side.over(*library)).unwrap();
        let said = output.stdout_text();
        println!("{library:?}:\n{said}");
        output.check().unwrap();
        said
    };
    libraries.iter().map(over).collect()
}
