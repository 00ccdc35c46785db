//! The names and versions that the libraries export, compared with Debian's.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use compat_tests::{FILES, libraries};
use testbed::Packages;
use uverbs_compat::symbols::Symbol;

/// The ABI of 2006, whose structs nothing has used since: these names have a newer version.
const OLD_ABI: &str = "@IBVERBS_1.0";
/// Names of an older ABI that have no newer version, or one that is exported.
const LEFT_OUT: [&str; 2] = [
    "ibv_register_driver@IBVERBS_1.1",
    "mlx5dv_init_obj@MLX5_1.0",
];

/// `name@version` of what a library exports, and the versions themselves.
fn exported(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm")
        .args(["-D", "--with-symbol-versions", "--defined-only"])
        .arg(library)
        .output()
        .expect("nm (package binutils) can be run");
    let name = library.display();
    assert!(output.status.success(), "{name}: {output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(|name| name.replace("@@", "@"))
        .collect()
}

/// Names of a table, with their versions.
fn table(all: impl Iterator<Item = Symbol>) -> BTreeSet<String> {
    all.map(|symbol| format!("{}@{}", symbol.name, symbol.version))
        .collect()
}

#[test]
fn a_library_exports_its_table_and_nothing_else() {
    let folder = libraries().unwrap();
    let [verbs, _, cm] = FILES;
    let tables = [
        (verbs, table(uverbs_compat::symbols::all())),
        (cm, table(uverbs_compat_cm::symbols::all())),
    ];
    for (file, table) in tables {
        let names: BTreeSet<_> = exported(&folder.join(file))
            .into_iter()
            .filter(|name| name.contains('@'))
            .collect();
        assert_eq!(names, table, "{file}: exported (left), table (right)");
    }
}

/// glibc 2.41 does not load at run time a library that wants an executable stack.
#[test]
fn no_library_wants_an_executable_stack() {
    let folder = libraries().unwrap();
    for file in FILES {
        let output = Command::new("readelf")
            .args(["--program-headers", "--wide"])
            .arg(folder.join(file))
            .output()
            .expect("readelf (package binutils) can be run");
        let text = String::from_utf8(output.stdout).unwrap();
        let stack = text.lines().find(|line| line.contains("GNU_STACK"));
        let stack = stack.unwrap_or_else(|| panic!("{file} says nothing about its stack: {text}"));
        assert!(
            stack.contains("RW ") && !stack.contains("RWE"),
            "{file}: {stack}"
        );
    }
}

/// What NCCL looks for by name and version (its `src/misc/ibvsymbols.cc`): without one of the
/// first it uses no InfiniBand at all.
const NCCL: [(&str, &str); 4] = [
    (
        "IBVERBS_1.1",
        "get_device_list free_device_list get_device_name open_device close_device get_async_event \
         ack_async_event query_device query_port query_gid query_qp alloc_pd dealloc_pd reg_mr \
         dereg_mr create_cq destroy_cq create_qp modify_qp destroy_qp fork_init event_type_str",
    ),
    ("IBVERBS_1.8", "reg_mr_iova2"),
    ("IBVERBS_1.10", "query_ece set_ece"),
    ("IBVERBS_1.12", "reg_dmabuf_mr"),
];

#[test]
fn nccl_finds_what_it_looks_for() {
    let [verbs, ..] = FILES;
    let names = exported(&libraries().unwrap().join(verbs));
    for (version, functions) in NCCL {
        for function in functions.split_whitespace() {
            let name = format!("ibv_{function}@{version}");
            assert!(names.contains(&name), "{name}");
        }
    }
}

/// The last versions of rdma-core 65, and a function of each.
const NEWEST: [&str; 3] = [
    "ibv_create_comp_cntr@IBVERBS_1.18",
    "mlx5dv_devx_umem_import@MLX5_1.27",
    "repoll_create@RDMACM_1.5",
];

#[test]
fn the_newest_versions_are_there() {
    let folder = libraries().unwrap();
    let [verbs, vendor, cm] = FILES.map(|file| exported(&folder.join(file)));
    // The vendor's library has versions alone.
    for ((names, name), versions) in [&verbs, &verbs, &cm]
        .into_iter()
        .zip(NEWEST)
        .zip([&verbs, &vendor, &cm])
    {
        let (_, version) = name.split_once('@').unwrap();
        assert!(names.contains(name), "{name}");
        assert!(versions.contains(version), "{version}");
    }
}

#[test]
fn nothing_of_debians_libraries_is_missing() {
    let folder = libraries().unwrap();
    let files = FILES.map(|file| (file, exported(&folder.join(file))));
    let ours = files.iter().flat_map(|(_, names)| names.clone());
    let ours: BTreeSet<_> = ours.collect();
    for (suite, cm) in [
        ("bookworm", "librdmacm1"),
        ("trixie", "librdmacm1t64"),
        ("sid", "librdmacm1t64"),
    ] {
        let packages = ["libibverbs1", "ibverbs-providers", cm];
        let packages = Packages::new(suite, &packages).alone();
        let debian = packages.folder().unwrap().join("usr/lib/x86_64-linux-gnu");
        let mut seen = 0;
        for (file, own) in &files {
            let theirs = exported(&debian.join(file));
            seen += theirs.len();
            // The loader looks for a version in the file that a program was linked with.
            let versions = theirs.iter().filter(|name| !name.contains('@'));
            let lost: Vec<_> = versions.filter(|name| !own.contains(*name)).collect();
            assert!(
                lost.is_empty() || suite == "bookworm",
                "{file} lacks {lost:?}"
            );
            let private = |name: &str| name.contains("PRIVATE") && suite == "bookworm";
            let missing: Vec<_> = theirs
                .difference(&ours)
                .filter(|name| {
                    let newer = name
                        .strip_suffix(OLD_ABI)
                        .is_some_and(|name| ours.contains(&format!("{name}@IBVERBS_1.1")));
                    !newer && !LEFT_OUT.contains(&name.as_str()) && !private(name)
                })
                .collect();
            assert!(missing.is_empty(), "{suite}'s {file} has more: {missing:?}");
        }
        assert!(seen > 370, "{suite}: only {seen} names");
    }
}
