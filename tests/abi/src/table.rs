//! The committed table: an ABI as text, one item per line.
//!
//! ```text
//! header rdma/ib_user_verbs.h
//! define IB_USER_VERBS_ABI_VERSION 6
//! enum ib_uverbs_write_cmds
//!   IB_USER_VERBS_CMD_GET_CONTEXT 0
//! struct ib_uverbs_cmd_hdr size 8 align 4
//!   command 0 4
//! ```
//!
//! A member line is a name and a value, a field line a name, an offset and a size. An enum without
//! a tag is `enum -`. A line that begins with `#` is a comment.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};

use crate::model::{Abi, Enum, Field, Header, Struct};

/// Writes the table.
pub fn render(abi: &Abi, title: &str) -> String {
    let mut text = format!("# {title}\n");
    for (path, header) in &abi.headers {
        let _ = writeln!(text, "\nheader {path}");
        for (name, value) in &header.defines {
            let _ = writeln!(text, "define {name} {value}");
        }
        for e in &header.enums {
            let _ = writeln!(text, "enum {}", e.tag.as_deref().unwrap_or("-"));
            for (name, value) in &e.members {
                let _ = writeln!(text, "  {name} {value}");
            }
        }
        for s in &header.structs {
            let _ = writeln!(text, "struct {} size {} align {}", s.name, s.size, s.align);
            for f in &s.fields {
                let _ = writeln!(text, "  {} {} {}", f.name, f.offset, f.size);
            }
        }
    }
    text
}

/// Parses the table.
///
/// # Errors
/// Names the first line that is not as [`render`] writes it.
pub fn parse(text: &str) -> Result<Abi> {
    let mut abi = Abi::default();
    let mut path = None;
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["header", name] = words[..] {
            abi.headers.insert(name.to_owned(), Header::default());
            path = Some(name.to_owned());
            continue;
        }
        path.as_ref()
            .and_then(|path| abi.headers.get_mut(path))
            .context("no header yet")
            .and_then(|header| add(header, line.starts_with(' '), &words))
            .with_context(|| format!("line {}: {line:?}", number + 1))?;
    }
    Ok(abi)
}

/// Adds one line to a header: it starts a new item, or belongs to the last one.
fn add(header: &mut Header, inner: bool, words: &[&str]) -> Result<()> {
    match (inner, words) {
        (false, ["define", name, value]) => {
            header.defines.push(((*name).to_owned(), value.parse()?));
        }
        (false, ["enum", tag]) => header.enums.push(Enum {
            tag: (*tag != "-").then(|| (*tag).to_owned()),
            members: Vec::new(),
        }),
        (false, ["struct", name, "size", size, "align", align]) => header.structs.push(Struct {
            name: (*name).to_owned(),
            size: size.parse()?,
            align: align.parse()?,
            fields: Vec::new(),
        }),
        (true, [name, value]) => {
            let last = header
                .enums
                .last_mut()
                .context("a member outside an enum")?;
            last.members.push(((*name).to_owned(), value.parse()?));
        }
        (true, [name, offset, size]) => {
            let last = header
                .structs
                .last_mut()
                .context("a field outside a struct")?;
            let (offset, size) = (offset.parse()?, size.parse()?);
            last.fields.push(Field {
                name: (*name).to_owned(),
                offset,
                size,
            });
        }
        _ => bail!("not understood"),
    }
    Ok(())
}
