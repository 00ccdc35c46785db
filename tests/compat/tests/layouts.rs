//! Sizes and offsets of the structs, compared with the real headers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use compat_tests::SUITE;
use testbed::Packages;
use testbed::cargo::workspace;

/// Slots that are newer than the suite's header: there, the struct begins behind them.
const NEWER: [&str; 6] = [
    "free_buf",
    "alloc_buf",
    "dm_export_dmabuf_fd",
    "reg_mr_ex",
    "dealloc_dmah",
    "alloc_dmah",
];

/// A C program that is refused if a layout differs.
fn program() -> String {
    let headers = [
        "stddef.h",
        "infiniband/verbs.h",
        "infiniband/mlx5dv.h",
        "rdma/rdma_cma.h",
    ];
    let mut text: String = headers.map(|name| format!("#include <{name}>\n")).concat();
    for layout in uverbs_compat::layouts().chain(uverbs_compat_cm::layouts()) {
        let name = layout.name;
        let grown = if name == "verbs_context" {
            NEWER.len() * size_of::<usize>()
        } else {
            0
        };
        let size = layout.size - grown;
        let _ = writeln!(
            text,
            "_Static_assert(sizeof(struct {name}) == {size}, \"{name}\");"
        );
        for (field, offset) in layout.fields {
            let field = field.trim_start_matches("r#");
            if grown > 0 && NEWER.contains(&field) {
                continue;
            }
            let _ = writeln!(
                text,
                "_Static_assert(offsetof(struct {name}, {field}) == {}, \"{name}.{field}\");",
                offset - grown
            );
        }
    }
    text
}

#[test]
fn structs_are_those_of_the_headers() {
    let packages = ["libibverbs-dev", "librdmacm-dev", "linux-libc-dev"];
    let packages = Packages::new(SUITE, &packages).alone();
    let headers = packages.folder().unwrap().join("usr/include");
    let text = program();
    let asserted = text.matches("_Static_assert").count();
    assert!(asserted > 500, "only {asserted} facts");
    let folder = workspace().join("target/compat");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("layouts.c");
    fs::write(&file, text).unwrap();
    let output = Command::new("cc")
        .args(["-fsyntax-only", "-I"])
        .arg(headers)
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
