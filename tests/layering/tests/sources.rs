//! What a source file may contain.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;

use layering::{root, shipped, sources, whole_repository};

/// The only folder whose code makes system calls.
const SYS: &str = "providers/core/src/sys/";

/// Names of system interfaces that code elsewhere may use, and why.
const NO_CALLS: [(&str, &str, &str); 8] = [
    (
        "src/exchange/stream.rs",
        "TcpStream",
        "sets the time limits of the user's own stream",
    ),
    (
        "src/owned/stable.rs",
        "memmap2::MmapMut",
        "memory that the user mapped",
    ),
    (
        "providers/core/src/error/mod.rs",
        "rustix::io::Errno",
        "a number with a name",
    ),
    (
        "providers/core/src/cmd/xrcd.rs",
        "rustix::fs::OFlags",
        "flags that a command carries",
    ),
    (
        "src/asynchronous.rs",
        "tokio::io::",
        "waits for descriptors in the user's runtime",
    ),
    (
        "src/cm/tokio.rs",
        "tokio::io::",
        "waits for descriptors in the user's runtime",
    ),
    (
        "src/stream/tokio.rs",
        "tokio::io::",
        "two traits, which it implements for streams",
    ),
    (
        "src/asynchronous.rs",
        "tokio::runtime::",
        "asks whether there is a runtime",
    ),
];

/// The libraries for C programs. They are one with the C library of their program: they set its
/// errno, use its mutexes, which programs have in their structs, wait where threads may be
/// cancelled, look up names as it does, read files of sysfs for programs that ask for them, and
/// have sockets with its constants and structs, which are waited for together with its own.
const FOR_C: [&str; 3] = [
    "src/compat/src/",
    "src/compat-base/src/",
    "src/compat-cm/src/",
];
const OF_C: [&str; 39] = [
    "UdpSocket",
    "libc::AF_",
    "libc::AI_",
    "libc::E",
    "libc::FD_",
    "libc::F_",
    "libc::IPPROTO_",
    "libc::IPV6_",
    "libc::IP_",
    "libc::MSG_",
    "libc::O_",
    "libc::POLL",
    "libc::PTHREAD_",
    "libc::SHUT_",
    "libc::SOCK_",
    "libc::SOL_",
    "libc::SO_",
    "libc::TCP_",
    "libc::__errno_location",
    "libc::addrinfo",
    "libc::bind(",
    "libc::calloc",
    "libc::epoll_event",
    "libc::fcntl(",
    "libc::free(",
    "libc::freeaddrinfo(",
    "libc::getaddrinfo(",
    "libc::getsockopt(",
    "libc::iovec",
    "libc::msghdr",
    "libc::nfds_t",
    "libc::poll",
    "libc::pthread_",
    "libc::read(",
    "libc::setsockopt(",
    "libc::socket(",
    "libc::timeval",
    "libc::write(",
    "std::fs::read(",
];

fn is_for_c(path: &str) -> bool {
    FOR_C.iter().any(|folder| path.starts_with(folder))
}

/// Crates that stand for others declare the C library's types and set its errno, as the headers do.
const STAND_INS: &str = "src/compat/sys/";

/// What a system call looks like in Rust.
const INTERFACES: [&str; 13] = [
    "libc::",
    "linux_raw_sys::",
    "memmap2::",
    "nix::",
    "rustix::",
    "std::fs",
    "TcpStream",
    "UdpSocket",
    "std::os::unix::fs",
    "std::process",
    "syscalls::",
    "tokio::io::",
    "tokio::runtime::",
];

/// The limit on lines of code in a file; mirrors of headers are as long as those are.
const LONGEST: usize = 600;
const MIRRORS: [&str; 5] = [
    "uapi/src/",
    "src/compat/sys/ibverbs-sys/src/bindings.rs",
    "src/compat/sys/ibverbs-sys/src/layouts.rs",
    "src/compat/sys/rdma-mummy-sys/src/bindings.rs",
    "src/compat/sys/rdma-mummy-sys/src/layouts.rs",
];

/// Whether a line contains this path, and not one that merely ends with its first name.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line.get(..at).and_then(|start| start.chars().next_back());
        !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
    })
}

#[test]
fn only_sys_makes_system_calls() {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for source in shipped() {
        // The command-line tool is a program like any other user's; the fake kernel creates the
        // descriptors and the memory that a kernel would.
        let elsewhere = [SYS, STAND_INS, "src/cli/", "tests/models/kernel/"]
            .iter()
            .any(|folder| source.path.starts_with(folder));
        if elsewhere || source.path.contains("/tests/") || source.path.ends_with("/tests.rs") {
            continue;
        }
        seen += 1;
        // Below this are the file's own tests.
        let code = source
            .code()
            .take_while(|(_, line)| *line != "#[cfg(test)]");
        for (number, line) in code {
            for interface in INTERFACES.iter().filter(|interface| names(line, interface)) {
                let of_c = is_for_c(&source.path) && OF_C.iter().any(|name| line.contains(name));
                let allowed = NO_CALLS
                    .iter()
                    .any(|(path, name, _)| *path == source.path && line.contains(name));
                let allowed = allowed || of_c;
                if !allowed {
                    wrong.push(format!("{}:{number}: {interface}: {line}", source.path));
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} files were looked at");
    assert!(wrong.is_empty(), "system calls outside of sys: {wrong:#?}");
}

/// What the facade's table of contents says about a vendor.
const FACE: [&str; 4] = [
    "not(feature = \"mlx5\"),",
    "not(any(feature = \"mlx5\", feature = \"rxe\")),",
    "#[cfg(feature = \"mlx5\")]",
    "pub mod mlx5;",
];

/// The vendors that have providers, by the folders of those.
fn vendors() -> Vec<String> {
    let folders = fs::read_dir(root().join("providers")).expect("a folder of providers");
    let names = folders.map(|folder| folder.expect("a folder").file_name());
    let names = names.map(|name| name.into_string().expect("a name is text"));
    names
        .filter(|name| !["any", "core"].contains(&name.as_str()))
        .collect()
}

/// Where the library for C programs has the header of a vendor, and its environment variable; and
/// declarations of that header.
const HEADERS: [&str; 3] = [
    "src/compat/src/dv/",
    "src/compat/src/env.rs",
    "src/compat/sys/rdma-mummy-sys/src/",
];

/// Where the facade lists vendors as types, one line each.
const TYPES: &str = "src/typed/vendor.rs";

/// Vendor-specific code is in that vendor's provider, in its own folder of the facade, and in its
/// row of `providers/any`.
#[test]
fn generic_code_names_no_vendor() {
    let vendors = vendors();
    assert!(vendors.len() >= 2, "only {vendors:?} were found");
    let mut seen = 0;
    let mut said = 0;
    for source in sources(&["src", "providers/any/src"]) {
        let own = vendors
            .iter()
            .any(|vendor| source.path.starts_with(&format!("src/{vendor}/")));
        let own = own || HEADERS.iter().any(|of| source.path.starts_with(of));
        // The command-line tool is a program like any other user's.
        if own || source.path.starts_with("src/cli/") {
            continue;
        }
        seen += 1;
        let is_row = |line: &str| {
            source.path.starts_with("providers/any/src/") && line.contains("feature = ")
        };
        let is_type = |line: &str| {
            let row = ["#[cfg(feature = ", "pub use uverbs_any::vendor::"];
            source.path == TYPES && row.iter().any(|start| line.starts_with(start))
        };
        let is_face =
            |line: &str| source.path == "src/lib.rs" && FACE.contains(&line) || is_type(line);
        for (number, line) in source.code() {
            let lower = line.to_lowercase();
            let names = vendors.iter().any(|vendor| lower.contains(vendor.as_str()));
            if names && (is_row(line) || is_face(line)) {
                said += 1;
            } else {
                assert!(!names, "{}:{number}: {line}", source.path);
            }
        }
    }
    assert!(seen > 30, "only {seen} files were looked at");
    assert!(said >= FACE.len() + vendors.len(), "only {said} names seen");
}

#[test]
fn every_exception_is_still_needed() {
    for (path, name, _) in NO_CALLS {
        let used = shipped()
            .iter()
            .any(|source| source.path == path && source.text.contains(name));
        assert!(
            used,
            "{path} no longer uses {name}: strike it from the list"
        );
    }
    for name in OF_C {
        let used = shipped()
            .iter()
            .any(|source| is_for_c(&source.path) && source.text.contains(name));
        assert!(
            used,
            "{FOR_C:?} no longer use {name}: strike it from the list"
        );
    }
}

/// A command's flags go through `checked`, which refuses unnamed bits; `bits` would let them pass.
#[test]
fn encoders_request_only_named_bits() {
    // Flags that it creates itself.
    let own = ("providers/core/src/cmd/xrcd.rs", "oflags.bits()");
    let encoders = sources(&["providers/core/src/cmd"]);
    let mut checked = 0;
    for source in &encoders {
        if source.path.contains("/tests") {
            continue;
        }
        for (number, line) in source.code() {
            let is_own = source.path == own.0 && line.contains(own.1);
            let passes = line.contains(".bits()") && !is_own;
            assert!(!passes, "{}:{number}: {line}", source.path);
            checked += usize::from(line.contains(".checked("));
        }
    }
    assert!(checked > 20, "only {checked} values are checked");
}

#[test]
fn no_file_is_too_long() {
    let mut wrong = Vec::new();
    for source in whole_repository() {
        let lines = source.code().count();
        if lines > LONGEST && !MIRRORS.iter().any(|mirror| source.path.starts_with(mirror)) {
            wrong.push(format!(
                "{} has {lines} lines of code, {LONGEST} are the limit",
                source.path
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nothing_is_left_for_later() {
    // Written so that this file does not contain them.
    let words = [
        concat!("to", "do!"),
        concat!("unimple", "mented!"),
        concat!("FIX", "ME"),
        concat!("TO", "DO"),
    ];
    for source in whole_repository() {
        for (number, line) in (1..).zip(source.text.lines()) {
            for word in words {
                assert!(!line.contains(word), "{}:{number}: {line}", source.path);
            }
        }
    }
}

#[test]
fn examples_are_found_by_cargo() {
    let manifest = include_str!("../../../Cargo.toml");
    for source in sources(&["docs/examples"]) {
        let inside = source.path.trim_start_matches("docs/examples/");
        // A crate of its own is a member of the workspace.
        let entry = match inside.split_once('/') {
            Some((package, _)) => format!("    \"docs/examples/{package}\","),
            None => format!("path = \"{}\"", source.path),
        };
        assert!(manifest.contains(&entry), "Cargo.toml lacks {entry}");
    }
}
