//! What a crate's declarations are generated from: the file `bindgen.txt` beside its manifest.

use anyhow::bail;

/// The contents of that file: one word and its value per line; `#` begins a comment.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Recipe<'a> {
    /// `header`: included, in this order.
    pub(super) headers: Vec<&'a str>,
    /// `use`: what the declarations name and the crate has elsewhere.
    pub(super) imports: Vec<&'a str>,
    /// Options of bindgen, with their values.
    pub(super) options: Vec<&'a str>,
}

impl<'a> Recipe<'a> {
    pub(super) fn read(text: &'a str) -> anyhow::Result<Self> {
        let mut recipe = Self::default();
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once(' ') {
                Some(("header", path)) => recipe.headers.push(path),
                Some(("use", path)) => recipe.imports.push(path),
                _ if line.starts_with("--") => recipe.options.extend(line.split_whitespace()),
                _ => bail!("no header, use or option: {line}"),
            }
        }
        Ok(recipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        let text =
            "# why\nheader a/b.h\n\nuse libc::{c, d}\n--allowlist-type x.*\n--no-doc-comments\n";
        let recipe = Recipe::read(text).unwrap();
        assert_eq!(recipe.headers, ["a/b.h"]);
        assert_eq!(recipe.imports, ["libc::{c, d}"]);
        assert_eq!(
            recipe.options,
            ["--allowlist-type", "x.*", "--no-doc-comments"]
        );
        assert!(Recipe::read("headers a.h").is_err());
    }
}
