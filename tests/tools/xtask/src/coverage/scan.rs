//! Which functions of the providers use which names of the kernel's headers.

use anyhow::Context as _;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// Where commands are issued. The provider common to all devices is first.
const CRATES: [&str; 3] = [
    "providers/core/src",
    "providers/rxe/src",
    "providers/mlx5/src",
];

/// The part of them that only names requests of others.
const NOT_REQUESTING: &str = "providers/core/src/sys/recorder";

/// From a name to the places that use it.
pub(super) struct Uses {
    code: BTreeMap<String, BTreeSet<Place>>,
    tests: BTreeMap<String, BTreeSet<Place>>,
}

/// A function, or another item that is not inside a function.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) item: String,
}

impl Uses {
    /// Reads every source of the providers.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut uses = Self {
            code: BTreeMap::new(),
            tests: BTreeMap::new(),
        };
        for folder in CRATES {
            let mut files = Vec::new();
            sources(&root.join(folder), &mut files)?;
            for path in files {
                let file = path.strip_prefix(root)?.to_string_lossy().into_owned();
                if file.starts_with(NOT_REQUESTING) {
                    continue;
                }
                let text = fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
                uses.add(&file, &text)?;
            }
        }
        Ok(uses)
    }

    fn add(&mut self, file: &str, text: &str) -> anyhow::Result<()> {
        let parsed = syn::parse_file(text).with_context(|| format!("understanding {file}"))?;
        let mut finder = Finder {
            file,
            item: Vec::new(),
            in_tests: is_test_file(file),
            uses: self,
        };
        finder.visit_file(&parsed);
        Ok(())
    }

    /// Where the library itself uses a name.
    pub(super) fn of(&self, name: &str) -> Option<&BTreeSet<Place>> {
        self.code.get(name)
    }

    /// Where its unit tests use a name.
    pub(super) fn in_tests(&self, name: &str) -> Option<&BTreeSet<Place>> {
        self.tests.get(name)
    }
}

pub(crate) fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Tests in a file of their own are declared elsewhere, so only the file name shows it.
pub(crate) fn is_test_file(file: &str) -> bool {
    let parts = Path::new(file).components();
    parts
        .map(|part| part.as_os_str().to_string_lossy())
        .any(|part| {
            part == "tests"
                || part == "tests.rs"
                || part.ends_with("_tests.rs")
                || part.starts_with("test_")
        })
}

struct Finder<'a> {
    file: &'a str,
    item: Vec<String>,
    in_tests: bool,
    uses: &'a mut Uses,
}

impl Finder<'_> {
    fn within(
        &mut self,
        name: &syn::Ident,
        attributes: &[syn::Attribute],
        walk: impl FnOnce(&mut Self),
    ) {
        let outer = self.in_tests;
        self.in_tests |= attributes.iter().any(is_for_tests);
        self.item.push(name.to_string());
        walk(self);
        self.item.pop();
        self.in_tests = outer;
    }

    fn found(&mut self, name: &str) {
        // Names of the headers are constants; the shortest is longer than any other word in
        // capitals.
        let is_constant = name.len() > 8 && !name.contains(|c: char| c.is_ascii_lowercase());
        if !is_constant {
            return;
        }
        let place = Place {
            file: self.file.to_owned(),
            item: self.item.join("::"),
        };
        let map = if self.in_tests {
            &mut self.uses.tests
        } else {
            &mut self.uses.code
        };
        map.entry(name.to_owned()).or_default().insert(place);
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    /// An import does not count as a use.
    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}

    /// Nor does a word in a documentation link.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        let outer = self.in_tests;
        self.in_tests |= node.attrs.iter().any(is_for_tests);
        visit::visit_item_mod(self, node);
        self.in_tests = outer;
    }

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.within(&node.sig.ident, &node.attrs, |this| {
            visit::visit_item_fn(this, node);
        });
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.within(&node.sig.ident, &node.attrs, |this| {
            visit::visit_impl_item_fn(this, node);
        });
    }

    fn visit_item_impl(&mut self, node: &'ast syn::ItemImpl) {
        let name = match &*node.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.clone()),
            _ => None,
        };
        match name {
            Some(name) => self.within(&name, &node.attrs, |this| {
                visit::visit_item_impl(this, node);
            }),
            None => visit::visit_item_impl(self, node),
        }
    }

    fn visit_item_const(&mut self, node: &'ast syn::ItemConst) {
        self.within(&node.ident, &node.attrs, |this| {
            visit::visit_item_const(this, node);
        });
    }

    fn visit_item_enum(&mut self, node: &'ast syn::ItemEnum) {
        self.within(&node.ident, &node.attrs, |this| {
            visit::visit_item_enum(this, node);
        });
    }

    fn visit_item_static(&mut self, node: &'ast syn::ItemStatic) {
        self.within(&node.ident, &node.attrs, |this| {
            visit::visit_item_static(this, node);
        });
    }

    fn visit_item_macro(&mut self, node: &'ast syn::ItemMacro) {
        let ident = node.ident.as_ref().or_else(|| node.mac.path.get_ident());
        match ident {
            Some(ident) => self.within(ident, &node.attrs, |this| {
                visit::visit_item_macro(this, node);
            }),
            None => visit::visit_item_macro(self, node),
        }
    }

    fn visit_ident(&mut self, node: &'ast syn::Ident) {
        self.found(&node.to_string());
    }

    fn visit_macro(&mut self, node: &'ast syn::Macro) {
        let tokens = node.tokens.to_string();
        for word in tokens.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            self.found(word);
        }
    }
}

/// `#[cfg(test)]`, and `#[test]`.
pub(crate) fn is_for_tests(attribute: &syn::Attribute) -> bool {
    match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        syn::Meta::NameValue(_) => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_use_is_neither_an_import_nor_a_word_in_a_comment() {
        let mut uses = Uses {
            code: BTreeMap::new(),
            tests: BTreeMap::new(),
        };
        let text = "
            //! [`KERNEL_COMMENT`]
            use headers::{KERNEL_IMPORT, KERNEL_CALL};
            impl Queue { /// [`KERNEL_COMMENT`]
                fn make() { call(KERNEL_CALL); list![KERNEL_MACRO, 1]; } }
            #[cfg(test)] mod tests { fn it() { assert!(KERNEL_TEST); } }
        ";
        uses.add("a.rs", text).unwrap();
        assert_eq!(
            uses.code.keys().collect::<Vec<_>>(),
            ["KERNEL_CALL", "KERNEL_MACRO"]
        );
        let place = uses.of("KERNEL_CALL").unwrap().first().unwrap();
        assert_eq!(
            (place.file.as_str(), place.item.as_str()),
            ("a.rs", "Queue::make")
        );
        assert!(uses.in_tests("KERNEL_TEST").is_some());
    }
}
