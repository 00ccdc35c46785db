//! Reading headers, tested on headers written for it. Needs the C compiler `cc`.

#![allow(clippy::unwrap_used, reason = "test")]

use std::fs;
use std::path::Path;

use abi_check::model::{Abi, Field, Struct};
use abi_check::oracle::{self, Wanted};

const SAMPLE: &str = "\
#ifndef IB_USER_SA_H
#define IB_USER_SA_H
#include <linux/other.h>
#define SAMPLE_FLAG (1U << 31)
#define SAMPLE_NEGATIVE -5
#define RDMA_NL_GET_OP(x) ((x) & 1)
enum { SAMPLE_A = 7, SAMPLE_B, SAMPLE_WIDE = 1ULL << 40 };
enum sample_tag { SAMPLE_NONE = -1, SAMPLE_ALL = 255 };
typedef unsigned int word;
struct sample {
    word plain;
    unsigned char bytes[3];
    union {
        unsigned long long number;
        struct { word low, high; };
    };
    struct { word inner; union { word x; short y; } deep; } named;
    struct other embedded;
    struct { struct {} __empty_open; word open[]; };
};
#endif
";

const OTHER: &str = "struct other { short s; }; struct unwanted { int i; };\n#define NOT_OURS 1\n";

/// Writes a header and reads it.
fn read(sample: &str) -> anyhow::Result<Abi> {
    let root = tempfile::tempdir()?;
    for (path, text) in [
        ("rdma/sample.h", sample),
        ("linux/other.h", OTHER),
        ("linux/netlink.h", ""),
    ] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        fs::write(path, text)?;
    }
    let wanted = Wanted {
        headers: vec!["rdma/sample.h", "rdma/absent.h"],
        structs: vec![("other", "linux/parts.h")],
    };
    oracle::read(root.path(), &wanted)
}

fn layout(name: &str, size: u64, align: u64, fields: &[(&str, u64, u64)]) -> Struct {
    let field = |&(name, offset, size): &(&str, u64, u64)| Field {
        name: name.into(),
        offset,
        size,
    };
    Struct {
        name: name.into(),
        size,
        align,
        fields: fields.iter().map(field).collect(),
    }
}

#[test]
fn all_definitions_of_a_header_are_read() {
    let abi = read(SAMPLE).unwrap();
    assert_eq!(
        abi.headers.keys().collect::<Vec<_>>(),
        ["linux/parts.h", "rdma/sample.h"]
    );
    let sample = &abi.headers["rdma/sample.h"];
    assert_eq!(
        sample.defines,
        [
            ("SAMPLE_FLAG".into(), 1 << 31),
            ("SAMPLE_NEGATIVE".into(), -5)
        ],
        "no guard, no macro with arguments, none of another header"
    );
    let members: Vec<_> = sample
        .enums
        .iter()
        .map(|e| (e.tag.as_deref(), &e.members[..]))
        .collect();
    assert_eq!(
        members,
        [
            (
                None,
                &[
                    ("SAMPLE_A".into(), 7),
                    ("SAMPLE_B".into(), 8),
                    ("SAMPLE_WIDE".into(), 1 << 40)
                ][..]
            ),
            (
                Some("sample_tag"),
                &[("SAMPLE_NONE".into(), -1), ("SAMPLE_ALL".into(), 255)][..]
            ),
        ]
    );
    assert_eq!(
        sample.structs,
        [
            layout("sample.named.deep", 4, 4, &[("x", 0, 4), ("y", 0, 2)]),
            layout("sample.named", 8, 4, &[("inner", 0, 4), ("deep", 4, 4)]),
            layout(
                "sample",
                32,
                8,
                &[
                    ("plain", 0, 4),
                    ("bytes", 4, 3),
                    ("number", 8, 8),
                    ("low", 8, 4),
                    ("high", 12, 4),
                    ("named", 16, 8),
                    ("embedded", 24, 2),
                    ("open", 28, 0),
                ]
            ),
        ]
    );
    assert_eq!(
        abi.headers["linux/parts.h"].structs,
        [layout("other", 2, 2, &[("s", 0, 2)])]
    );
}

#[test]
fn an_unreviewed_macro_is_an_error() {
    let error = read(&format!("{SAMPLE}#define SURPRISE(x) x\n")).unwrap_err();
    assert!(format!("{error:#}").contains("SURPRISE"), "{error:#}");
    let error = read(&format!("{SAMPLE}#define TEXT sample\n")).unwrap_err();
    assert!(format!("{error:#}").contains("exceptions.rs"), "{error:#}");
}

#[test]
fn missing_headers_are_named() {
    let empty = tempfile::tempdir().unwrap();
    let error = oracle::read(empty.path(), &Wanted::by_rust()).unwrap_err();
    assert!(
        format!("{error:#}").contains("apt install linux-libc-dev"),
        "{error:#}"
    );
}
