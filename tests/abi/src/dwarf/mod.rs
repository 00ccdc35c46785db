//! Reads structs and enums from debug information.

mod entries;

use anyhow::{Context as _, Result, bail};
use gimli::constants as dw;

use self::entries::{Entries, Entry};
use crate::exceptions::SKIPPED_FIELDS;
use crate::macros::is_header;
use crate::model::{Enum, Field, Struct};

/// A struct or union whose alignment is not known yet.
#[derive(Debug)]
pub struct Type {
    /// The header that defines it.
    pub header: String,
    /// The C expression for the type, for `_Alignof`.
    pub c_expression: String,
    /// The definition.
    pub definition: Struct,
}

/// The types found, in the headers' order.
#[derive(Debug, Default)]
pub struct Found {
    /// Structs and unions.
    pub types: Vec<Type>,
    /// Enums and their headers.
    pub enums: Vec<(String, Enum)>,
}

/// Reads a compiled file: everything that `headers` define, and the `structs` of other headers,
/// each filed under the header given with it.
///
/// # Errors
/// If the debug information is missing or not as C compilers write it.
pub fn read(object: &[u8], headers: &[&str], structs: &[(&str, &str)]) -> Result<Found> {
    let entries = Entries::parse(object)?;
    let mut order: Vec<&Entry> = entries.roots().filter(|entry| !entry.declaration).collect();
    order.sort_by_key(|entry| entry.line);
    let mut found = Found::default();
    for entry in order {
        let name = entry.name.as_deref();
        let header = headers
            .iter()
            .find(|header| is_header(&entry.file, header))
            .or_else(|| {
                structs
                    .iter()
                    .find(|(s, _)| Some(*s) == name)
                    .map(|(_, header)| header)
            });
        let Some(header) = header else { continue };
        match (entry.tag, name) {
            (dw::DW_TAG_structure_type, Some(name)) => {
                let c_name = format!("struct {name}");
                add_type(&entries, entry, header, name, &c_name, &mut found.types)?;
            }
            (dw::DW_TAG_union_type, Some(name)) => {
                let c_name = format!("union {name}");
                add_type(&entries, entry, header, name, &c_name, &mut found.types)?;
            }
            (dw::DW_TAG_enumeration_type, _) => {
                found
                    .enums
                    .push(((*header).to_owned(), enumeration(&entries, entry)?));
            }
            // Types without a tag are reached through the member of that type.
            _ => {}
        }
    }
    Ok(found)
}

fn enumeration(entries: &Entries, entry: &Entry) -> Result<Enum> {
    let mut members = Vec::new();
    for member in entries.children(entry) {
        let name = member
            .name
            .clone()
            .context("an enum member without a name")?;
        let value = member
            .value
            .with_context(|| format!("{name} has no value"))?;
        members.push((name, value));
    }
    Ok(Enum {
        tag: entry.name.clone(),
        members,
    })
}

/// Adds a type, preceded by every type without a tag inside it, named by the path to it.
fn add_type(
    entries: &Entries,
    entry: &Entry,
    header: &str,
    path: &str,
    c_expression: &str,
    types: &mut Vec<Type>,
) -> Result<()> {
    let mut fields = Vec::new();
    collect(entries, entry, 0, &mut |member, field| {
        let inner = entries.resolve(member.type_ref)?;
        if inner.name.is_none() && is_aggregate(inner.tag) {
            let path = format!("{path}.{}", field.name);
            let c_expression = match c_expression.strip_suffix(')') {
                Some(outer) => format!("{outer}.{})", field.name),
                None => format!("__typeof__((({c_expression} *)0)->{})", field.name),
            };
            add_type(entries, inner, header, &path, &c_expression, types)?;
        }
        fields.push(field);
        Ok(())
    })?;
    let size = entry.size.with_context(|| format!("{path} has no size"))?;
    types.push(Type {
        header: header.to_owned(),
        c_expression: c_expression.to_owned(),
        definition: Struct {
            name: path.to_owned(),
            size,
            align: 0,
            fields,
        },
    });
    Ok(())
}

/// Calls `each` for every member, including those of unnamed structs and unions.
fn collect<'a>(
    entries: &'a Entries,
    entry: &'a Entry,
    base: u64,
    each: &mut impl FnMut(&'a Entry, Field) -> Result<()>,
) -> Result<()> {
    for member in entries
        .children(entry)
        .filter(|child| child.tag == dw::DW_TAG_member)
    {
        let offset = base + member.offset;
        match &member.name {
            Some(name)
                if SKIPPED_FIELDS
                    .iter()
                    .any(|skipped| name.starts_with(skipped)) => {}
            Some(name) => {
                let size = size_of_type(entries, member.type_ref)
                    .with_context(|| format!("the size of {name}"))?;
                each(
                    member,
                    Field {
                        name: name.clone(),
                        offset,
                        size,
                    },
                )?;
            }
            None => collect(entries, entries.resolve(member.type_ref)?, offset, each)?,
        }
    }
    Ok(())
}

fn is_aggregate(tag: gimli::DwTag) -> bool {
    matches!(tag, dw::DW_TAG_structure_type | dw::DW_TAG_union_type)
}

fn size_of_type(entries: &Entries, reference: Option<usize>) -> Result<u64> {
    let entry = entries.resolve(reference)?;
    match (entry.size, entry.tag) {
        (Some(size), _) => Ok(size),
        (None, dw::DW_TAG_array_type) => {
            let counts = entries
                .children(entry)
                .filter(|c| c.tag == dw::DW_TAG_subrange_type);
            let elements: u64 = counts.map(|range| range.count.unwrap_or(0)).product();
            match elements {
                0 => Ok(0),
                elements => Ok(elements * size_of_type(entries, entry.type_ref)?),
            }
        }
        (None, tag) => bail!("a {tag} has no size"),
    }
}
