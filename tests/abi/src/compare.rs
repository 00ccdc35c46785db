//! Finds where headers and Rust differ.

use std::collections::{BTreeMap, BTreeSet};

use crate::exceptions::{CHANGED, RENAMED, SKIPPED};
use crate::model::{Abi, Enum, Field, Header, PADDING, Struct};

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Differences: each is one line that names the item and both values.
    pub errors: Vec<String>,
    /// Remarks that are not errors.
    pub notes: Vec<String>,
}

/// Compares headers with Rust in both directions: nothing missing, nothing extra, nothing
/// different.
pub fn newest(headers: &Abi, rust: &Abi) -> Report {
    let mut report = Report::default();
    let empty = Header::default();
    for path in headers
        .headers
        .keys()
        .chain(rust.headers.keys())
        .collect::<BTreeSet<_>>()
    {
        let c = headers.headers.get(path).unwrap_or(&empty);
        let ours = rust.headers.get(path).unwrap_or(&empty);
        let mut errors = Vec::new();
        values(&c.defines, &ours.defines, "#define", &mut errors);
        both(
            &enums(c),
            &enums(ours),
            "enum",
            &mut errors,
            |key, c, ours, errors| {
                values(
                    &c.members,
                    &ours.members,
                    &format!("enum {key}: member"),
                    errors,
                );
            },
        );
        both(&structs(c), &structs(ours), "struct", &mut errors, layout);
        report
            .errors
            .extend(errors.into_iter().map(|error| format!("{path}: {error}")));
    }
    report
}

/// Names in the list of skipped macros that the newest headers do not have.
pub fn stale_skips(headers: &Abi) -> Vec<String> {
    let seen: BTreeSet<&str> = headers
        .headers
        .values()
        .flat_map(|h| &h.skipped)
        .map(String::as_str)
        .collect();
    let stale = SKIPPED
        .iter()
        .filter(|skipped| !seen.contains(skipped.name));
    stale
        .map(|s| format!("{}: no such macro: take it out of exceptions.rs", s.name))
        .collect()
}

/// Compares older headers with Rust: everything in them must exist with the same values, but
/// structs may have grown at their end, and reviewed changes are permitted.
pub fn older(headers: &Abi, rust: &Abi) -> Report {
    let mut report = Report::default();
    for (path, c) in &headers.headers {
        let Some(ours) = rust.headers.get(path) else {
            report.errors.push(format!("{path}: not in Rust"));
            continue;
        };
        let known: BTreeMap<&str, i64> = all_values(ours).collect();
        for (name, value) in all_values(c) {
            match known.get(name) {
                Some(same) if *same == value => {}
                Some(other) => differs(
                    &mut report,
                    name,
                    &format!("{path}: {name}: {value} in the headers, {other} in Rust"),
                ),
                None => differs(&mut report, name, &format!("{path}: {name} is not in Rust")),
            }
        }
        let known: BTreeMap<&str, &Struct> = rust
            .headers
            .values()
            .flat_map(|h| &h.structs)
            .map(|s| (s.name.as_str(), s))
            .collect();
        for c in &c.structs {
            let renamed = RENAMED.iter().find(|(old, _)| *old == c.name);
            let name = renamed.map_or(c.name.as_str(), |(_, new)| new);
            match known.get(name) {
                Some(ours) => prefix(path, c, ours, &mut report),
                None => differs(
                    &mut report,
                    name,
                    &format!("{path}: struct {name} is not in Rust"),
                ),
            }
        }
    }
    report
}

/// Reports a difference, as a note if it was reviewed.
fn differs(report: &mut Report, name: &str, what: &str) {
    match CHANGED.iter().find(|changed| changed.name == name) {
        Some(changed) => report.notes.push(format!("{what} ({})", changed.reason)),
        None => report.errors.push(what.to_owned()),
    }
}

/// An older struct must be a prefix of today's.
fn prefix(path: &str, c: &Struct, ours: &Struct, report: &mut Report) {
    let name = &c.name;
    let known: BTreeMap<&str, &Field> = ours.fields.iter().map(|f| (f.name.as_str(), f)).collect();
    let mut grown = c.size != ours.size;
    for field in &c.fields {
        let full = format!("{name}.{}", field.name);
        match known.get(field.name.as_str()) {
            Some(same) if same.offset == field.offset && same.size == field.size => {}
            // A flexible array, a union and an embedded struct move or grow with the struct.
            Some(other) if grown && moves_with(c, field, other) => {}
            Some(other) => differs(
                report,
                &full,
                &format!(
                    "{path}: {full}: offset {} size {} in the headers, offset {} size {} in Rust",
                    field.offset, field.size, other.offset, other.size
                ),
            ),
            None => differs(report, &full, &format!("{path}: {full} is not in Rust")),
        }
    }
    if c.size > ours.size {
        report.errors.push(format!(
            "{path}: struct {name}: {} bytes in the headers, only {} in Rust",
            c.size, ours.size
        ));
        grown = false;
    }
    if grown || ours.fields.iter().filter(|f| f.name != PADDING).count() > c.fields.len() {
        report.notes.push(format!(
            "{path}: struct {name} grew: {} fields in {} bytes then, {} in {} now",
            c.fields.len(),
            c.size,
            ours.fields.len(),
            ours.size
        ));
    }
}

/// Whether a field of a grown struct is at its old end and only moves with that end.
fn moves_with(c: &Struct, field: &Field, now: &Field) -> bool {
    let last = field.offset + field.size == c.size;
    let flexible = field.size == 0 && now.size == 0 && now.offset > field.offset;
    last && (flexible || (now.offset == field.offset && now.size > field.size))
}

/// Compares two sets by name and passes what is in both to `each`.
fn both<T>(
    c: &BTreeMap<String, T>,
    ours: &BTreeMap<String, T>,
    kind: &str,
    errors: &mut Vec<String>,
    each: impl Fn(&str, &T, &T, &mut Vec<String>),
) {
    for (name, one) in c {
        match ours.get(name) {
            Some(other) => each(name, one, other, errors),
            None => errors.push(format!("{kind} {name} is missing in Rust")),
        }
    }
    for name in ours.keys().filter(|name| !c.contains_key(*name)) {
        errors.push(format!("{kind} {name} is in Rust, not in the headers"));
    }
}

fn values(c: &[(String, i64)], ours: &[(String, i64)], kind: &str, errors: &mut Vec<String>) {
    let map = |list: &[(String, i64)]| list.iter().cloned().collect::<BTreeMap<String, i64>>();
    both(
        &map(c),
        &map(ours),
        kind,
        errors,
        |name, c, ours, errors| {
            if c != ours {
                errors.push(format!("{kind} {name}: {c} in the headers, {ours} in Rust"));
            }
        },
    );
}

/// Compares two structs: size, alignment, every field; padding must be padding in C too.
fn layout(name: &str, c: &Struct, ours: &Struct, errors: &mut Vec<String>) {
    for (what, c, ours) in [
        ("size", c.size, ours.size),
        ("alignment", c.align, ours.align),
    ] {
        if c != ours {
            errors.push(format!(
                "struct {name}: {what} {c} in the headers, {ours} in Rust"
            ));
        }
    }
    let fields = |s: &Struct| -> BTreeMap<String, (u64, u64)> {
        let real = s.fields.iter().filter(|field| field.name != PADDING);
        real.map(|field| (field.name.clone(), (field.offset, field.size)))
            .collect()
    };
    let kind = format!("struct {name}: field");
    both(
        &fields(c),
        &fields(ours),
        &kind,
        errors,
        |field, c, ours, errors| {
            if c != ours {
                errors.push(format!(
                    "{kind} {field}: offset {} size {} in the headers, offset {} size {} in Rust",
                    c.0, c.1, ours.0, ours.1
                ));
            }
        },
    );
    for hole in ours.fields.iter().filter(|field| field.name == PADDING) {
        let end = hole.offset + hole.size;
        if let Some(field) = c
            .fields
            .iter()
            .find(|f| f.offset < end && hole.offset < f.offset + f.size)
        {
            errors.push(format!(
                "struct {name}: {PADDING} in Rust covers {}",
                field.name
            ));
        }
    }
}

fn enums(header: &Header) -> BTreeMap<String, Enum> {
    header.enums.iter().map(|e| (e.key(), e.clone())).collect()
}

fn structs(header: &Header) -> BTreeMap<String, Struct> {
    header
        .structs
        .iter()
        .map(|s| (s.name.clone(), s.clone()))
        .collect()
}

fn all_values(header: &Header) -> impl Iterator<Item = (&str, i64)> {
    let members = header.enums.iter().flat_map(|e| &e.members);
    header
        .defines
        .iter()
        .chain(members)
        .map(|(name, value)| (name.as_str(), *value))
}
