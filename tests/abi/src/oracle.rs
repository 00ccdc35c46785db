//! Determines with the compiler what a set of headers defines.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use uverbs_uapi::tables;

use crate::compile::Compiler;
use crate::model::{Abi, Header};
use crate::{dwarf, macros};

/// What [`read`] has to look for.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Headers that are read completely: `rdma/ib_user_verbs.h`.
    pub headers: Vec<&'a str>,
    /// Structs of other headers, and the header to file them under.
    pub structs: Vec<(&'a str, &'a str)>,
}

impl Wanted<'static> {
    /// Everything that `uverbs-uapi` mirrors: the headers of `rdma/` completely, and those structs
    /// of `linux/` that they embed.
    pub fn by_rust() -> Self {
        let (whole, parts): (Vec<&tables::Header>, Vec<_>) = tables::HEADERS
            .iter()
            .partition(|header| header.path.starts_with("rdma/"));
        Self {
            headers: whole.iter().map(|header| header.path).collect(),
            structs: parts
                .iter()
                .flat_map(|header| header.structs.iter().map(|s| (s.rust, header.path)))
                .collect(),
        }
    }
}

/// Reads the headers below `root`. Mirrored headers that do not exist there are left out.
///
/// # Errors
/// If the compiler cannot be run, refuses the headers, or a macro has no value and is not listed as
/// such.
pub fn read(root: &Path, wanted: &Wanted<'_>) -> Result<Abi> {
    let present: Vec<&str> = wanted
        .headers
        .iter()
        .copied()
        .filter(|header| root.join(header).is_file())
        .collect();
    if present.is_empty() {
        bail!(
            "no RDMA headers below {}: apt install linux-libc-dev",
            root.display()
        );
    }
    let compiler = Compiler::new(root)?;
    let mut source = String::new();
    for header in &present {
        let _ = writeln!(source, "#include <{header}>");
    }

    let mut defines = Vec::new();
    let mut skipped = Vec::new();
    for found in macros::find(&compiler.preprocess(&source)?, &present) {
        match (found.valueless, macros::is_skipped(&found.name)) {
            (false, false) => defines.push(found),
            (true, false) => bail!(
                "{}: macro {} has no value to compare: mirror it by hand and list it in \
                 exceptions.rs",
                found.header,
                found.name
            ),
            (_, true) => skipped.push(found),
        }
    }
    let mut found = dwarf::read(
        &compiler.object("types", &source)?,
        &present,
        &wanted.structs,
    )?;

    // The values: macros that need `linux/netlink.h` get it; alignments are not part of DWARF.
    let mut values = format!("{source}#include <linux/netlink.h>\n");
    for define in &defines {
        let name = &define.name;
        let _ = writeln!(
            values,
            "const long long value_{name} = (long long)({name});"
        );
    }
    for (index, one) in found.types.iter().enumerate() {
        let c = &one.c_expression;
        let _ = writeln!(values, "const long long align_{index} = _Alignof({c});");
    }
    let values = compiler.object("values", &values).context(
        "cannot compute the macros; one that is no number must be listed in exceptions.rs",
    )?;
    let values = Values::new(values);

    for (index, one) in found.types.iter_mut().enumerate() {
        one.definition.align = u64::try_from(values.get(&format!("align_{index}"))?)?;
    }
    let mut abi = Abi::default();
    for header in present {
        abi.headers.insert(header.to_owned(), Header::default());
    }
    for one in found.types {
        abi.headers
            .entry(one.header)
            .or_default()
            .structs
            .push(one.definition);
    }
    for (header, definition) in found.enums {
        abi.headers
            .entry(header)
            .or_default()
            .enums
            .push(definition);
    }
    for one in skipped {
        abi.headers
            .entry(one.header)
            .or_default()
            .skipped
            .push(one.name);
    }
    for define in defines {
        let value = values.get(&format!("value_{}", define.name))?;
        abi.headers
            .entry(define.header)
            .or_default()
            .defines
            .push((define.name, value));
    }
    Ok(abi)
}

/// The constants of a compiled file.
struct Values {
    object: Vec<u8>,
}

impl Values {
    fn new(object: Vec<u8>) -> Self {
        Self { object }
    }

    fn get(&self, name: &str) -> Result<i64> {
        let file = object::File::parse(&*self.object).context("the compiler's output")?;
        let symbol = file
            .symbol_by_name(name)
            .with_context(|| format!("no symbol {name}"))?;
        let section = file.section_by_index(symbol.section_index().context("undefined symbol")?)?;
        let bytes = section
            .data_range(symbol.address(), 8)?
            .and_then(|bytes| <[u8; 8]>::try_from(bytes).ok())
            .with_context(|| format!("no value of {name}"))?;
        Ok(i64::from_ne_bytes(bytes))
    }
}
