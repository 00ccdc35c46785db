//! Which crates there are, which uses which, and that none of them depends on C.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::fs;

use layering::{Crates, sources};

/// Every edge between delivered crates that the design permits. `docs/ARCHITECTURE.md` draws them.
const EDGES: [(&str, &[&str]); 14] = [
    ("uverbs-uapi", &[]),
    ("uverbs-core", &["uverbs-uapi"]),
    ("uverbs-rxe", &["uverbs-core", "uverbs-uapi"]),
    ("uverbs-mlx5", &["uverbs-core", "uverbs-uapi"]),
    ("uverbs-any", &["uverbs-core", "uverbs-mlx5", "uverbs-rxe"]),
    // A provider is used by name only where the facade exposes what only that vendor has.
    ("uverbs", &["uverbs-any", "uverbs-core", "uverbs-mlx5"]),
    ("uverbs-cli", &["uverbs"]),
    ("uverbs-compat-base", &["uverbs-core"]),
    // C programs are its users: it stands where the facade stands, and has a vendor's header, too.
    (
        "uverbs-compat",
        &[
            "uverbs-any",
            "uverbs-compat-base",
            "uverbs-core",
            "uverbs-mlx5",
        ],
    ),
    // It calls libibverbs by its C names. Static programs get both in one file, whence the first.
    (
        "uverbs-compat-cm",
        &["uverbs-compat", "uverbs-compat-base", "uverbs-core"],
    ),
    // Declarations of their functions, for Rust programs that were written for other crates.
    ("ibverbs-sys", &["uverbs-compat"]),
    ("rdma-mummy-sys", &["uverbs-compat", "uverbs-compat-cm"]),
    // The same declarations, of which a few have other types.
    ("rdma-sys", &["rdma-mummy-sys"]),
    ("uverbs-fake", &["uverbs-core", "uverbs-uapi"]),
];

/// Crates that build, find or bind C.
const C_BUILDERS: [&str; 9] = [
    "autotools",
    "bindgen",
    "cc",
    "cmake",
    "cxx",
    "meson",
    "pkg-config",
    "system-deps",
    "vcpkg",
];

/// Crates whose names end in `-sys` although they contain only Rust.
const RUST_IN_SYS: [(&str, &str); 1] = [(
    "linux-raw-sys",
    "numbers and structs of the kernel, written in Rust",
)];

#[test]
fn arrows_point_down() {
    let crates = Crates::read();
    let mut seen = 0;
    for package in crates.delivered() {
        let (_, allowed) = EDGES
            .iter()
            .find(|(name, _)| *name == package.name)
            .unwrap_or_else(|| panic!("{} has no place among the layers", package.name));
        for used in crates.direct(package).filter(|used| used.ours) {
            assert!(
                allowed.contains(&used.name.as_str()),
                "{} uses {}, which the design does not have",
                package.name,
                used.name
            );
            seen += 1;
        }
    }
    assert!(seen >= 5, "only {seen} edges were looked at");
}

#[test]
fn nothing_that_others_get_needs_what_is_for_tests() {
    let crates = Crates::read();
    for package in crates.delivered() {
        for (by, needed) in crates.closure(package) {
            assert!(
                !needed.ours || needed.shipped || (!by.shipped && needed.delivered()),
                "{} needs {}",
                by.name,
                needed.name
            );
        }
    }
}

#[test]
fn no_c_is_built_or_linked() {
    let crates = Crates::read();
    let mut wrong = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for package in crates.delivered() {
        assert_eq!(package.links, None, "{} links C", package.name);
        for (by, needed) in crates.closure(package) {
            seen.insert(&needed.name);
            if let Some(library) = &needed.links {
                wrong.insert(format!(
                    "{} links {library} (needed by {})",
                    needed.name, by.name
                ));
            }
            if C_BUILDERS.contains(&needed.name.as_str()) {
                wrong.insert(format!("{} is needed by {}", needed.name, by.name));
            }
            // Those of this workspace are looked at themselves.
            let known = RUST_IN_SYS.iter().any(|(name, _)| *name == needed.name) || needed.ours;
            if needed.name.ends_with("-sys") && !known {
                wrong.insert(format!(
                    "{} binds something (needed by {})",
                    needed.name, by.name
                ));
            }
        }
    }
    assert!(seen.len() > 10, "only {seen:?} were looked at");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_crate_is_under_the_lint_table() {
    for package in Crates::read().ours() {
        let manifest = fs::read_to_string(&package.manifest).expect("a manifest");
        let inherits = manifest
            .split("[lints]")
            .nth(1)
            .is_some_and(|rest| rest.trim_start().starts_with("workspace = true"));
        assert!(
            inherits,
            "{} lacks `[lints] workspace = true`",
            package.manifest
        );
    }
}

#[test]
fn the_facade_has_no_kernel_names() {
    for source in sources(&["src"]) {
        for (number, line) in source.code() {
            for word in ["uverbs_uapi", "uverbs_core::cmd", "cmd::"] {
                assert!(!line.contains(word), "{}:{number}: {line}", source.path);
            }
        }
    }
}

/// A hook of `rings` is a check at each doorbell and each poll. Default builds, and programs that
/// are measured, have none.
#[test]
fn queues_are_watched_in_the_tool_alone() {
    let mut enabling = Vec::new();
    for package in Crates::read().ours() {
        let manifest = fs::read_to_string(&package.manifest).expect("a manifest");
        let (built, _) = manifest
            .split_once("[dev-dependencies]")
            .unwrap_or((&manifest, ""));
        if built.contains("\"rings\"") {
            enabling.push(package.name.clone());
        }
    }
    assert_eq!(enabling, ["uverbs-cli"]);
}
