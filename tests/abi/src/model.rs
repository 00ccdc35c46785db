//! An ABI as a value.

use std::collections::BTreeMap;

use uverbs_uapi::tables;

/// What a set of headers defines, by path (`rdma/ib_user_verbs.h`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abi {
    /// The headers.
    pub headers: BTreeMap<String, Header>,
}

/// What one header defines, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Structs and unions; those without a tag are named by the path to them.
    pub structs: Vec<Struct>,
    /// Enums.
    pub enums: Vec<Enum>,
    /// Macros that have a value.
    pub defines: Vec<(String, i64)>,
    /// Macros that were left out because they are in the list of skipped ones.
    pub skipped: Vec<String>,
}

/// A struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// The tag, or the path to a type without one: `rxe_send_wr.wr.rdma`.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// Its fields, including members of unnamed unions and structs.
    pub fields: Vec<Field>,
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name.
    pub name: String,
    /// Offset in bytes.
    pub offset: u64,
    /// Size in bytes; 0 for a flexible array.
    pub size: u64,
}

/// An enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enum {
    /// The tag, if it has one.
    pub tag: Option<String>,
    /// The members.
    pub members: Vec<(String, i64)>,
}

impl Enum {
    /// Its key: the tag, or the first member.
    pub fn key(&self) -> String {
        match (&self.tag, self.members.first()) {
            (Some(tag), _) => tag.clone(),
            (None, Some((first, _))) => format!("(enum of {first})"),
            (None, None) => String::from("(empty enum)"),
        }
    }
}

/// The field that represents padding without a name in C.
pub const PADDING: &str = "implicit_padding";

impl Abi {
    /// What `uverbs-uapi` defines.
    pub fn of_rust() -> Self {
        let headers = tables::HEADERS.iter();
        Self {
            headers: headers
                .map(|h| (h.path.to_owned(), Header::of_rust(h)))
                .collect(),
        }
    }
}

impl Header {
    fn of_rust(header: &tables::Header) -> Self {
        let named = |&(name, value): &(&str, i64)| (name.to_owned(), value);
        Self {
            structs: header.structs.iter().flat_map(Struct::of_rust).collect(),
            enums: header
                .enums
                .iter()
                .map(|e| Enum {
                    tag: (!e.anonymous).then(|| e.name.to_owned()),
                    members: e.members.iter().map(named).collect(),
                })
                .collect(),
            defines: header.constants.iter().map(named).collect(),
            skipped: Vec::new(),
        }
    }
}

impl Struct {
    fn of_rust(layout: &tables::Struct) -> impl Iterator<Item = Self> {
        layout.names.iter().map(move |&name| Self {
            name: name.to_owned(),
            size: layout.size as u64,
            align: layout.align as u64,
            fields: layout
                .fields
                .iter()
                .map(|field| Field {
                    name: field.name.to_owned(),
                    offset: field.offset as u64,
                    size: field.size as u64,
                })
                .collect(),
        })
    }
}
