//! The checker must detect differences. Each test changes one thing and expects the one complaint
//! about it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test")]

use std::fs;
use std::path::Path;

use abi_check::compare::{self, Report};
use abi_check::exceptions::SKIPPED;
use abi_check::model::{Abi, Enum, Field, Header, Struct};
use abi_check::table;

/// The table in `uapi/abi`.
fn committed() -> Abi {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../uapi/abi");
    let mut files = fs::read_dir(&folder).unwrap();
    let (Some(file), None) = (files.next(), files.next()) else {
        panic!("not one table in {}", folder.display());
    };
    table::parse(&fs::read_to_string(file.unwrap().path()).unwrap()).unwrap()
}

fn the_struct<'a>(abi: &'a mut Abi, name: &str) -> &'a mut Struct {
    abi.headers
        .values_mut()
        .flat_map(|h| &mut h.structs)
        .find(|s| s.name == name)
        .unwrap()
}

fn the_enum<'a>(abi: &'a mut Abi, key: &str) -> &'a mut Enum {
    abi.headers
        .values_mut()
        .flat_map(|h| &mut h.enums)
        .find(|e| e.key() == key)
        .unwrap()
}

/// Compares the table with Rust after `change`, and returns the one difference found.
fn one_difference(change: impl FnOnce(&mut Abi)) -> String {
    let mut rust = Abi::of_rust();
    change(&mut rust);
    let Report { errors, .. } = compare::newest(&committed(), &rust);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors.into_iter().next().unwrap()
}

#[test]
fn rust_definitions_match_the_committed_table() {
    let report = compare::newest(&committed(), &Abi::of_rust());
    assert_eq!(report.errors, Vec::<String>::new());
}

#[test]
fn a_table_reads_back() {
    let abi = committed();
    assert_eq!(table::parse(&table::render(&abi, "title")).unwrap(), abi);
    assert!(table::parse("  field 0 4\n").is_err());
    assert!(table::parse("header rdma/a.h\nstruct x size y align 4\n").is_err());
}

#[test]
fn a_wrong_offset() {
    let error = one_difference(|abi| the_struct(abi, "ib_uverbs_attr").fields[4].offset = 4);
    assert_eq!(
        error,
        "rdma/rdma_user_ioctl_cmds.h: struct ib_uverbs_attr: field data: \
         offset 8 size 8 in the headers, offset 4 size 8 in Rust"
    );
}

#[test]
fn a_wrong_field_size() {
    let error = one_difference(|abi| the_struct(abi, "ib_uverbs_wc").fields[1].size = 8);
    assert!(error.contains("ib_uverbs_wc: field status"), "{error}");
}

#[test]
fn a_missing_field() {
    let error = one_difference(|abi| {
        the_struct(abi, "rxe_send_wqe")
            .fields
            .retain(|field| field.name != "ssn");
    });
    assert_eq!(
        error,
        "rdma/rdma_user_rxe.h: struct rxe_send_wqe: field ssn is missing in Rust"
    );
}

#[test]
fn a_missing_flexible_array() {
    let error = one_difference(|abi| {
        the_struct(abi, "rxe_queue_buf")
            .fields
            .retain(|field| field.name != "data");
    });
    assert!(error.contains("field data is missing"), "{error}");
}

#[test]
fn an_invented_field() {
    let error = one_difference(|abi| {
        let field = Field {
            name: "more".into(),
            offset: 0,
            size: 4,
        };
        the_struct(abi, "mminfo").fields.push(field);
    });
    assert!(
        error.contains("struct mminfo: field more is in Rust"),
        "{error}"
    );
}

#[test]
fn padding_over_a_real_field() {
    let error = one_difference(|abi| {
        let field = Field {
            name: "implicit_padding".into(),
            offset: 12,
            size: 4,
        };
        the_struct(abi, "mminfo").fields.push(field);
    });
    assert!(
        error.contains("implicit_padding in Rust covers pad"),
        "{error}"
    );
}

#[test]
fn a_wrong_size_and_a_wrong_alignment() {
    let error = one_difference(|abi| the_struct(abi, "ib_uverbs_create_qp").size = 60);
    assert!(
        error.ends_with("size 56 in the headers, 60 in Rust"),
        "{error}"
    );
    let error = one_difference(|abi| the_struct(abi, "rxe_dma_info").align = 4);
    assert!(
        error.ends_with("alignment 8 in the headers, 4 in Rust"),
        "{error}"
    );
}

#[test]
fn a_missing_struct_and_an_invented_one() {
    let error = one_difference(|abi| {
        let header = abi.headers.get_mut("rdma/mlx5-abi.h").unwrap();
        header.structs.retain(|s| s.name != "mlx5_ib_create_cq");
    });
    assert_eq!(
        error,
        "rdma/mlx5-abi.h: struct mlx5_ib_create_cq is missing in Rust"
    );
    let error = one_difference(|abi| {
        let copy = the_struct(abi, "mlx5_ib_create_cq").clone();
        let header = abi.headers.get_mut("rdma/mlx5-abi.h").unwrap();
        header.structs.push(Struct {
            name: "mlx5_ib_invented".into(),
            ..copy
        });
    });
    assert!(
        error.contains("mlx5_ib_invented is in Rust, not in the headers"),
        "{error}"
    );
}

#[test]
fn a_missing_union_arm() {
    let error = one_difference(|abi| {
        the_struct(abi, "rxe_send_wr.wr")
            .fields
            .retain(|field| field.name != "mw");
    });
    assert!(
        error.contains("struct rxe_send_wr.wr: field mw is missing"),
        "{error}"
    );
}

#[test]
fn a_missing_enum_member() {
    let error = one_difference(|abi| {
        let members = &mut the_enum(abi, "uverbs_default_objects").members;
        members.retain(|(name, _)| name != "UVERBS_OBJECT_SRQ");
    });
    assert_eq!(
        error,
        "rdma/ib_user_ioctl_cmds.h: enum uverbs_default_objects: \
         member UVERBS_OBJECT_SRQ is missing in Rust"
    );
}

#[test]
fn a_changed_value() {
    let error = one_difference(|abi| {
        the_enum(abi, "(enum of RDMA_USER_CM_CMD_CREATE_ID)").members[5].1 = 50;
    });
    assert!(
        error.contains("RDMA_USER_CM_CMD_QUERY_ROUTE: 5 in the headers, 50 in Rust"),
        "{error}"
    );
    let error = one_difference(|abi| {
        abi.headers
            .get_mut("rdma/rdma_user_ioctl_cmds.h")
            .unwrap()
            .defines[1]
            .1 = 7;
    });
    assert!(
        error.contains("#define RDMA_VERBS_IOCTL: 3222805249 in the headers, 7 in"),
        "{error}"
    );
}

#[test]
fn a_skipped_macro_that_is_gone() {
    let stale = compare::stale_skips(&Abi::default());
    assert_eq!(stale.len(), SKIPPED.len());
    assert!(stale[0].starts_with(SKIPPED[0].name), "{stale:?}");
}

#[test]
fn a_missing_enum_and_a_missing_header() {
    let error = one_difference(|abi| {
        let header = abi.headers.get_mut("rdma/ib_user_verbs.h").unwrap();
        header.enums.retain(|e| e.key() != "ib_uverbs_wc_opcode");
    });
    assert_eq!(
        error,
        "rdma/ib_user_verbs.h: enum ib_uverbs_wc_opcode is missing in Rust"
    );

    let mut rust = Abi::of_rust();
    rust.headers.remove("rdma/ib_user_sa.h");
    let report = compare::newest(&committed(), &rust);
    assert!(
        report
            .errors
            .iter()
            .any(|e| e.contains("struct ib_user_path_rec is missing"))
    );
}

/// A header with one struct and one value, as an older kernel might have it.
fn old_header(fields: &[(&str, u64, u64)], size: u64) -> Header {
    let field = |&(name, offset, size): &(&str, u64, u64)| Field {
        name: name.into(),
        offset,
        size,
    };
    Header {
        structs: vec![Struct {
            name: "s".into(),
            size,
            align: 4,
            fields: fields.iter().map(field).collect(),
        }],
        enums: vec![Enum {
            tag: None,
            members: vec![("A".into(), 1)],
        }],
        ..Header::default()
    }
}

fn older(then: Header, now: Header) -> Report {
    let abi = |header| Abi {
        headers: [(String::from("rdma/a.h"), header)].into(),
    };
    compare::older(&abi(then), &abi(now))
}

#[test]
fn an_older_struct_may_grow_at_its_end() {
    let now = old_header(&[("a", 0, 4), ("b", 4, 4)], 8);
    let report = older(old_header(&[("a", 0, 4)], 4), now.clone());
    assert_eq!(
        (report.errors.len(), report.notes.len()),
        (0, 1),
        "{report:?}"
    );
    // A flexible array stays at the end.
    let open = old_header(&[("a", 0, 4), ("b", 4, 4), ("open", 8, 0)], 8);
    let report = older(old_header(&[("a", 0, 4), ("open", 4, 0)], 4), open);
    assert_eq!(
        (report.errors.len(), report.notes.len()),
        (0, 1),
        "{report:?}"
    );
    // The same without growth.
    assert_eq!(older(now.clone(), now), Report::default());
}

#[test]
fn an_older_struct_may_not_change_otherwise() {
    let now = old_header(&[("a", 0, 4), ("b", 4, 4)], 8);
    for then in [
        old_header(&[("b", 0, 4)], 4),
        old_header(&[("a", 0, 2)], 8),
        old_header(&[("a", 0, 4), ("b", 4, 4), ("c", 8, 4)], 12),
        old_header(&[("gone", 0, 4)], 4),
    ] {
        assert!(
            !older(then.clone(), now.clone()).errors.is_empty(),
            "{then:?}"
        );
    }
}

#[test]
fn an_older_value_must_be_there_unchanged() {
    let now = old_header(&[("a", 0, 4)], 4);
    let mut then = now.clone();
    then.enums[0].members[0].1 = 2;
    assert_eq!(
        older(then, now.clone()).errors,
        ["rdma/a.h: A: 2 in the headers, 1 in Rust"]
    );
    let mut then = now.clone();
    then.defines.push(("B".into(), 1));
    assert_eq!(
        older(then, now.clone()).errors,
        ["rdma/a.h: B is not in Rust"]
    );
    let mut then = now.clone();
    then.enums[0]
        .members
        .push(("RDMA_NLDEV_ATTR_MAX".into(), 5));
    let report = older(then, now);
    assert_eq!(
        (report.errors.len(), report.notes.len()),
        (0, 1),
        "a reviewed change is a note"
    );
}
