//! The macros that mirrored headers define.

use crate::exceptions::SKIPPED;

/// A macro as defined in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Macro {
    /// The mirrored header, as named by the caller.
    pub header: String,
    /// The name.
    pub name: String,
    /// Whether it takes arguments or is empty: then it has no value.
    pub valueless: bool,
}

/// Finds the macros of `headers` in preprocessed text.
pub fn find(preprocessed: &str, headers: &[&str]) -> Vec<Macro> {
    let mut found = Vec::new();
    let mut current = None;
    for line in preprocessed.lines() {
        if let Some(marker) = line.strip_prefix("# ") {
            let file = marker.split('"').nth(1).unwrap_or_default();
            current = headers.iter().find(|header| is_header(file, header));
        } else if let (Some(header), Some(define)) = (current, line.strip_prefix("#define ")) {
            let end = define
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(define.len());
            let (name, rest) = define.split_at(end);
            found.push(Macro {
                header: (*header).to_owned(),
                name: name.to_owned(),
                valueless: rest.starts_with('(') || rest.trim().is_empty(),
            });
        }
    }
    found
}

/// Whether `file` is `header` in some include folder.
pub fn is_header(file: &str, header: &str) -> bool {
    file.strip_suffix(header)
        .is_some_and(|folder| folder.ends_with('/'))
}

/// Whether a macro was reviewed and is not to be mirrored.
pub fn is_skipped(name: &str) -> bool {
    SKIPPED.iter().any(|skipped| skipped.name == name)
}
