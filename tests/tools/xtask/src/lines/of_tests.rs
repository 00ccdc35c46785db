//! Which lines of a source belong to tests.

use crate::coverage::scan::is_for_tests;
use std::ops::RangeInclusive;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// The lines of items that exist only for tests.
pub(super) fn lines(text: &str) -> anyhow::Result<Vec<RangeInclusive<usize>>> {
    let file = syn::parse_file(text)?;
    if file.attrs.iter().any(is_for_tests) {
        return Ok(vec![1..=usize::MAX]);
    }
    let mut finder = Finder { found: Vec::new() };
    finder.visit_file(&file);
    Ok(finder.found)
}

struct Finder {
    found: Vec<RangeInclusive<usize>>,
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item(&mut self, node: &'ast syn::Item) {
        let attributes = match node {
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            _ => return visit::visit_item(self, node),
        };
        if attributes.iter().any(is_for_tests) {
            let span = node.span();
            self.found.push(span.start().line..=span.end().line);
        } else {
            visit::visit_item(self, node);
        }
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        if node.attrs.iter().any(is_for_tests) {
            let span = node.span();
            self.found.push(span.start().line..=span.end().line);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::lines;

    #[test]
    fn what_only_tests_have_is_found_by_its_lines() {
        let text = "fn own() {}\n\n#[cfg(test)]\nmod tests {\n    fn one() {}\n}\nimpl A {\n    #[cfg(test)]\n    fn two() {}\n    fn three() {}\n}\n";
        assert_eq!(lines(text).unwrap(), [3..=6, 8..=9]);
        assert_eq!(lines("#![cfg(test)]\nfn a() {}").unwrap(), [1..=usize::MAX]);
    }
}
