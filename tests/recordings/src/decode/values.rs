//! Values of fields.

use uverbs::recorder::{self, Attribute, Direction};

use super::Field;
use crate::raw::Attr;

/// `UVERBS_ATTR_F_VALID_OUTPUT`.
const WRITTEN: u16 = 2;
/// Up to this many bytes an input is in the attribute itself.
const INLINE: u16 = 8;

/// The value of a field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Value {
    /// Up to 64 bits.
    Number(u64),
    /// An object's handle.
    Handle(u32),
    /// A descriptor.
    Fd(i32),
    /// Anything longer.
    Bytes(Vec<u8>),
    /// An output that the kernel did not write.
    Unwritten,
}

impl Value {
    /// A number if the size is that of one.
    fn of(bytes: &[u8]) -> Self {
        match bytes.len() {
            1 | 2 | 4 | 8 => {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                Self::Number(u64::from_le_bytes(word))
            }
            _ => Self::Bytes(bytes.to_vec()),
        }
    }

    fn is_zero(&self) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Bytes(bytes) => bytes.iter().all(|byte| *byte == 0),
            _ => false,
        }
    }
}

/// The bytes of an input, wherever they are.
pub(super) fn sent(attr: &Attr) -> Vec<u8> {
    if attr.len > INLINE {
        return attr.before.0.clone();
    }
    attr.data.to_ne_bytes()[..usize::from(attr.len)].to_vec()
}

fn is_fd(name: &str) -> bool {
    let marks = ["CHANNEL", "FD_HANDLE", "FD_ALLOC_HANDLE"];
    name.ends_with("_FD") || marks.iter().any(|mark| name.contains(mark))
}

/// Whether an attribute without bytes carries a handle.
fn has_handle(name: &str) -> bool {
    let ends = ["_DEST_QP", "_DEST_DEVX", "_FLOW_MATCHER"];
    name.contains("HANDLE") || ends.iter().any(|end| name.ends_with(end))
}

/// Whether the kernel writes an attribute if the command succeeds.
fn is_answer(name: &str) -> bool {
    let ends = [
        "_OUT",
        "_OUT_ID",
        "_DEV_EQN",
        "_MMAP_OFFSET",
        "_MMAP_LENGTH",
        "_PAGE_ID",
        "_PP_OBJ_ALLOC_INDEX",
    ];
    name.contains("RESP") || ends.iter().any(|end| name.ends_with(end))
}

/// Attributes that hold the handles of several objects.
const HANDLES: [&str; 2] = ["_ARR_COUNTERS_DEVX", "_ARR_FLOW_ACTIONS"];

fn handles(name: &str, bytes: &[u8]) -> Vec<Field> {
    let words = bytes.chunks_exact(4).enumerate();
    words
        .map(|(at, word)| Field {
            name: format!("{name}[{at}]"),
            out: false,
            value: Value::Handle(u32::from_ne_bytes([word[0], word[1], word[2], word[3]])),
        })
        .collect()
}

/// What follows a legacy command's struct and belongs to it: specifications of rules, queues of
/// tables.
pub(super) fn of_list(command: &str, tail: &[u8]) -> Option<Vec<Field>> {
    match command {
        "EX_CREATE_FLOW" => Some(vec![Field {
            name: "specifications".to_owned(),
            out: false,
            value: Value::Bytes(tail.to_vec()),
        }]),
        "EX_CREATE_RWQ_IND_TBL" => Some(handles("queues", tail)),
        _ => None,
    }
}

/// Whether an attribute names an object by its handle or its descriptor.
pub(super) fn is_handle(attr: &Attr, name: &str) -> bool {
    attr.len == 0 && (is_fd(name) || has_handle(name))
}

/// An attribute; one that holds a struct becomes its fields. `new` is for a handle that the kernel
/// returned, `firmware` is the opcode of a firmware command or of the command that this is the
/// reply to.
pub(super) fn of_attr(
    attr: &Attr,
    full: Option<&'static str>,
    name: &str,
    new: bool,
    firmware: Option<&str>,
) -> Vec<Field> {
    let one = |out, value| {
        vec![Field {
            name: name.to_owned(),
            out,
            value,
        }]
    };
    if attr.len == 0 {
        let low = attr.data_after & u64::from(u32::MAX);
        let low = u32::try_from(low).unwrap_or(u32::MAX);
        return one(
            new,
            if is_fd(name) {
                Value::Fd(low.cast_signed())
            } else if has_handle(name) {
                Value::Handle(low)
            } else {
                // An enumeration element may have no bytes.
                Value::Number(attr.data | u64::from(attr.element))
            },
        );
    }
    let written = attr.flags_after & WRITTEN != 0;
    let out = written || is_answer(name);
    if out && !written {
        return one(true, Value::Unwritten);
    }
    let bytes = if out {
        attr.after.0.clone()
    } else {
        sent(attr)
    };
    if HANDLES.iter().any(|end| name.ends_with(end)) {
        return handles(name, &bytes);
    }
    if name == "QUERY_GID_TABLE_RESP_ENTRIES" {
        return gid_entries(&bytes);
    }
    if let Some(opcode) = firmware {
        return super::firmware::fields(name, opcode, out, &bytes);
    }
    let direction = if out { Direction::Out } else { Direction::In };
    let inner = full.and_then(|full| recorder::attribute_fields(full, &bytes, direction));
    match inner {
        Some(inner) => of_attributes(inner, out)
            .into_iter()
            .map(|field| Field {
                name: format!("{name}.{}", field.name),
                ..field
            })
            .collect(),
        None => one(out, Value::of(&bytes)),
    }
}

/// A table with as many entries as the caller had room for.
fn gid_entries(bytes: &[u8]) -> Vec<Field> {
    let size = size_of::<uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_gid_entry>();
    let mut fields = Vec::new();
    for (at, entry) in bytes.chunks_exact(size).enumerate() {
        let inner = of_struct("ib_uverbs_gid_entry", entry, true).unwrap_or_default();
        fields.extend(inner.into_iter().map(|field| Field {
            name: format!("entries[{at}].{}", field.name),
            ..field
        }));
    }
    fields
}

/// The fields of a struct of the kernel's headers.
pub(crate) fn of_struct(layout: &str, bytes: &[u8], out: bool) -> Option<Vec<Field>> {
    let direction = if out { Direction::Out } else { Direction::In };
    let attributes = recorder::struct_fields(layout, bytes, direction)?;
    let mut fields = Vec::new();
    for field in of_attributes(attributes, out) {
        // The offset that rxe's rings are mapped from.
        match &field.value {
            Value::Bytes(bytes) if field.name.ends_with("mi") => {
                let inner = of_struct("mminfo", bytes, out).unwrap_or_default();
                fields.extend(inner.into_iter().map(|inner| Field {
                    name: format!("{}.{}", field.name, inner.name),
                    ..inner
                }));
            }
            _ => fields.push(field),
        }
    }
    Some(fields)
}

/// Fields as decoded by the library's recorder, without those that are zero.
pub(super) fn of_attributes(attributes: Vec<Attribute>, out: bool) -> Vec<Field> {
    attributes
        .into_iter()
        .map(|attribute| Field {
            name: attribute.name.to_string(),
            out,
            value: match attribute.value {
                recorder::Value::Number(number) => Value::Number(number),
                recorder::Value::Bytes(bytes) => Value::Bytes(bytes),
                recorder::Value::Handle(handle) => Value::Handle(handle),
                _ => Value::Unwritten,
            },
        })
        .filter(|field| !field.value.is_zero() || field.name.ends_with("_handle"))
        .collect()
}
