//! The rules for the public interface of `uverbs`: one path for each name, names for everything
//! that its items take and return, and one style of builders.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

use crate::surface::document::{Documented, Id, Item};

/// The largest number of names at the root; modules do not count.
const AT_THE_ROOT: usize = 45;

/// Findings that are intended, each by how it begins, with the reason.
const MEANT: [(&str, &str); 1] = [(
    "uverbs::ProtectionDomain::create_qp ",
    "the name that the `ibverbs` crate has for `queue_pair`, kept for those who know it",
)];

/// Crates whose types users may name. bitflags contributes iterators over flags, zerocopy what
/// values of the kernel's structs have.
const EVERYBODYS: [&str; 6] = ["alloc", "bitflags", "core", "std", "tokio", "zerocopy"];

/// The rule violations of `root`, which may re-export what the others have.
///
/// # Errors
/// A document without a root.
pub(super) fn findings(root: &str, crates: &BTreeMap<String, Documented>) -> Vec<String> {
    let mut found = Face::of(root, crates).findings();
    for (beginning, reason) in MEANT {
        let before = found.len();
        found.retain(|finding| !finding.starts_with(beginning));
        if found.len() == before && root == "uverbs" {
            found.push(format!("{beginning}: nothing to except ({reason})"));
        }
    }
    found
}

/// The names that a crate exports.
struct Face<'a> {
    crates: &'a BTreeMap<String, Documented>,
    /// For each item, by where it is defined, its public paths.
    paths: BTreeMap<String, Vec<String>>,
    /// What was found on the way.
    found: Vec<String>,
    at_the_root: usize,
}

impl<'a> Face<'a> {
    fn of(root: &str, crates: &'a BTreeMap<String, Documented>) -> Self {
        let mut face = Self {
            crates,
            paths: BTreeMap::new(),
            found: Vec::new(),
            at_the_root: 0,
        };
        if let Some(documented) = crates.get(root)
            && let Some(module) = documented.index.get(&documented.root)
        {
            face.module(documented, module, root);
            let prefix = format!("{root}::");
            let is_at_root = |path: &&String| {
                let rest = path.strip_prefix(&prefix);
                rest.is_some_and(|rest| !rest.contains("::"))
            };
            face.at_the_root = face.paths.values().flatten().filter(is_at_root).count();
        } else {
            face.found.push(format!("{root}: nothing was written down"));
        }
        face
    }

    /// Records the public names of a module that users know as `path`.
    fn module(&mut self, of: &'a Documented, module: &'a Item, path: &str) {
        for id in ids(&module.inner["module"]["items"]) {
            let Some(item) = of.index.get(&id) else {
                continue;
            };
            if item.visibility != "public" {
                continue;
            }
            let used = &item.inner["use"];
            if used.is_null() {
                let name = item.name.as_deref().unwrap_or_default();
                self.name(of, &id, format!("{path}::{name}"));
            } else if used["is_glob"] == true {
                let source = used["source"].as_str().unwrap_or_default();
                let finding = format!("{path} re-exports all of {source}");
                self.found.push(finding);
            } else {
                let name = used["name"].as_str().unwrap_or_default();
                let id = Id::from(used["id"].clone());
                self.name(of, &id, format!("{path}::{name}"));
            }
        }
    }

    /// Records that users know an item as `path`.
    fn name(&mut self, of: &'a Documented, id: &Id, path: String) {
        let defined = defined(of, id);
        if let Some((of, item)) = self.item(of, id)
            && !item.inner["module"].is_null()
        {
            self.module(of, item, &path);
        } else {
            self.paths.entry(defined).or_default().push(path);
        }
    }

    /// An item of this document, or of that of the crate that defines it.
    fn item(&self, of: &'a Documented, id: &Id) -> Option<(&'a Documented, &'a Item)> {
        if let Some(item) = of.index.get(id) {
            return Some((of, item));
        }
        let path = &of.paths.get(id)?.path;
        let of = self.crates.get(path.first()?)?;
        let mut same = of.paths.iter().filter(|(_, named)| named.path == *path);
        same.find_map(|(id, _)| Some((of, of.index.get(id)?)))
    }

    fn findings(mut self) -> Vec<String> {
        if self.at_the_root > AT_THE_ROOT {
            let (count, most) = (self.at_the_root, AT_THE_ROOT);
            self.found
                .push(format!("{count} names at the root, where {most} fit"));
        }
        let mut found = std::mem::take(&mut self.found);
        for paths in self.paths.values().filter(|paths| paths.len() > 1) {
            found.push(format!("{} are one item", paths.join(" and ")));
        }
        for (defined, paths) in &self.paths {
            let Some(path) = paths.first() else { continue };
            for (of, item) in self.defining(defined) {
                self.look(of, item, path, &mut found);
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// The items with this path of definition.
    fn defining(&self, defined: &str) -> Vec<(&'a Documented, &'a Item)> {
        let krate = defined.split("::").next().unwrap_or_default();
        let Some(of) = self.crates.get(krate) else {
            return Vec::new();
        };
        let here = of
            .index
            .keys()
            .filter(|id| of.paths.contains_key(id) && self::defined(of, id) == defined);
        here.filter_map(|id| Some((of, of.index.get(id)?)))
            .collect()
    }

    /// Checks what an item takes and returns.
    fn look(&self, of: &Documented, item: &Item, path: &str, found: &mut Vec<String>) {
        let Some((kind, inner)) = kind(item) else {
            return;
        };
        match kind {
            "function" => self.function(of, inner, path, path, found),
            "trait" => self.parts(of, &inner["items"], path, found),
            "struct" | "enum" | "union" => {
                self.fields(of, &inner["kind"], true, path, found);
                for (_, variant) in items(of, &inner["variants"]) {
                    self.fields(of, &variant.inner["variant"]["kind"], false, path, found);
                }
                for (_, part) in items(of, &inner["impls"]) {
                    let part = &part.inner["impl"];
                    if part["trait"].is_null() {
                        self.parts(of, &part["items"], path, found);
                    }
                }
            }
            _ => self.nameable(of, inner, path, found),
        }
    }

    /// Checks fields; those of a struct if they are public.
    fn fields(
        &self,
        of: &Documented,
        kind: &Value,
        of_struct: bool,
        path: &str,
        found: &mut Vec<String>,
    ) {
        let lists = [
            &kind["plain"]["fields"],
            &kind["struct"]["fields"],
            &kind["tuple"],
        ];
        for (_, field) in lists.into_iter().flat_map(|list| items(of, list)) {
            if of_struct && field.visibility != "public" {
                continue;
            }
            let name = field.name.as_deref().unwrap_or_default();
            let ty = &field.inner["struct_field"];
            let path = format!("{path}::{name}");
            self.nameable(of, ty, &path, found);
            if is_users_number(name, ty) {
                found.push(format!("{path} is a number of the user's: `user_data`"));
            }
        }
    }

    /// Checks the items of an impl or a trait.
    fn parts(&self, of: &Documented, list: &Value, path: &str, found: &mut Vec<String>) {
        for (_, part) in items(of, list) {
            let (Some(name), Some((kind, inner))) = (&part.name, kind(part)) else {
                continue;
            };
            // Items of traits have the visibility of the trait.
            if part.visibility != "public" && part.visibility != "default" {
                continue;
            }
            let full = format!("{path}::{name}");
            match kind {
                "function" => self.function(of, inner, &full, path, found),
                _ => self.nameable(of, inner, &full, found),
            }
        }
    }

    fn function(
        &self,
        of: &Documented,
        inner: &Value,
        path: &str,
        owner: &str,
        found: &mut Vec<String>,
    ) {
        let signature = &inner["sig"];
        self.nameable(of, signature, path, found);
        self.nameable(of, &inner["generics"], path, found);
        for input in signature["inputs"].as_array().into_iter().flatten() {
            let name = input[0].as_str().unwrap_or_default();
            if is_users_number(name, &input[1]) {
                found.push(format!("{path} takes a number of the user's: `user_data`"));
            }
        }
        let (name, output) = (
            path.rsplit("::").next().unwrap_or_default(),
            &signature["output"],
        );
        let gives = output["resolved_path"]["path"].as_str().unwrap_or_default();
        if name.starts_with("create_") && gives.ends_with("Builder") {
            found.push(format!(
                "{path} only describes: what creates is called `create_`"
            ));
        }
        if !owner.ends_with("Builder") || name == "build" {
            return;
        }
        let itself = serde_json::json!({ "generic": "Self" });
        let takes = &signature["inputs"][0];
        if takes[0] == "self" && takes[1] != itself {
            found.push(format!("{path} takes the builder by reference"));
        }
        // Under another type, where a parameter says what it describes.
        let same = gives.rsplit("::").next() == owner.rsplit("::").next();
        if takes[0] == "self" && *output != itself && !same {
            found.push(format!("{path} gives something else than the builder"));
        }
    }

    /// Checks that all types mentioned have a public path.
    fn nameable(&self, of: &Documented, value: &Value, path: &str, found: &mut Vec<String>) {
        let mut mentioned = BTreeSet::new();
        mentions(value, &mut mentioned);
        for (id, written) in mentioned {
            let defined = of.paths.get(&id).map_or(written, |of| of.path.join("::"));
            let krate = defined.split("::").next().unwrap_or_default();
            if !EVERYBODYS.contains(&krate) && !self.paths.contains_key(&defined) {
                found.push(format!(
                    "{path} mentions {defined}, which users cannot name"
                ));
            }
        }
    }
}

/// Where an item is defined.
fn defined(of: &Documented, id: &Id) -> String {
    let path = of.paths.get(id).map(|named| named.path.join("::"));
    path.unwrap_or_else(|| format!("without a path: {}", id.0))
}

/// Paths in a signature: the id and how the path is written.
fn mentions(value: &Value, found: &mut BTreeSet<(Id, String)>) {
    match value {
        Value::Array(parts) => parts.iter().for_each(|part| mentions(part, found)),
        Value::Object(fields) => {
            if let (Some(path), Some(id)) = (fields.get("path"), fields.get("id")) {
                let path = path.as_str().unwrap_or_default().to_owned();
                found.insert((Id::from(id.clone()), path));
            }
            fields.values().for_each(|part| mentions(part, found));
        }
        _ => {}
    }
}

/// A plain number that has the name of a handle.
fn is_users_number(name: &str, ty: &Value) -> bool {
    ["context", "cookie"].contains(&name) && !ty["primitive"].is_null()
}

fn ids(list: &Value) -> impl Iterator<Item = Id> {
    let list = list.as_array().into_iter().flatten();
    list.filter(|id| !id.is_null()).cloned().map(Id::from)
}

fn items<'a>(of: &'a Documented, list: &'a Value) -> impl Iterator<Item = (Id, &'a Item)> {
    ids(list).filter_map(|id| of.index.get(&id).map(|item| (id, item)))
}

/// The kind of an item, and its content.
fn kind(item: &Item) -> Option<(&str, &Value)> {
    let (kind, inner) = item.inner.as_object()?.iter().next()?;
    Some((kind, inner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surface::document::of_source;

    #[test]
    fn a_public_face_that_breaks_every_rule_has_each_reported() {
        let source = "
            mod hidden { pub struct Nameless; }
            mod all { pub struct One; }
            pub use all::*;
            pub mod twice { pub use super::Handle; }
            pub struct Handle { pub context: u64 }
            pub struct ThingBuilder;
            impl Handle {
                pub fn create_thing(&self) -> ThingBuilder { ThingBuilder }
                pub fn nameless(&self) -> Option<hidden::Nameless> { None }
                pub fn number(&self, cookie: u32) {}
            }
            impl ThingBuilder {
                pub fn reference(&mut self) -> &mut Self { self }
                pub fn fallible(self) -> Result<Self, ()> { Ok(self) }
                pub fn right(self) -> Self { self }
                pub fn build(&self) -> Handle { Handle { context: 0 } }
            }";
        let folder = std::env::temp_dir().join(format!("face-{}", std::process::id()));
        let crates = BTreeMap::from([(
            "faulty".to_owned(),
            of_source("faulty", source, &folder).unwrap(),
        )]);
        std::fs::remove_dir_all(folder).unwrap();
        let expected = [
            "faulty re-exports all of all",
            "faulty::Handle and faulty::twice::Handle are one item",
            "faulty::Handle::context is a number of the user's: `user_data`",
            "faulty::Handle::create_thing only describes: what creates is called `create_`",
            "faulty::Handle::nameless mentions faulty::hidden::Nameless, which users cannot name",
            "faulty::Handle::number takes a number of the user's: `user_data`",
            "faulty::ThingBuilder::fallible gives something else than the builder",
            "faulty::ThingBuilder::reference gives something else than the builder",
            "faulty::ThingBuilder::reference takes the builder by reference",
        ];
        let mut found = findings("faulty", &crates);
        for finding in &mut found {
            // Which of two paths comes first is up to the compiler.
            *finding = finding.replace(
                "faulty::twice::Handle and faulty::Handle",
                "faulty::Handle and faulty::twice::Handle",
            );
            *finding = finding.replace("faulty::twice::Handle::", "faulty::Handle::");
        }
        found.sort();
        assert_eq!(found, expected);
    }
}
