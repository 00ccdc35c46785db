//! The items that a program can use, with what they take and return.

use anyhow::Context as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::document::{Documented, Id, Item};
use super::mentions::{Mentions, Scope, Way};

/// A safe function, field, constant or associated type.
#[derive(Debug, Default)]
pub(super) struct Use {
    /// Its path.
    pub(super) path: String,
    /// Types that it names, by the direction in which values move.
    pub(super) mentions: Mentions,
    /// Types of which a user must already have a value.
    pub(super) needs: BTreeSet<String>,
}

/// What others can read from a type, and construct it from: the types of its public fields.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// Types that its public fields name.
    pub(super) shows: BTreeSet<String>,
    /// For each of its variants, or for the struct: types that a value of it is constructed from.
    pub(super) made_of: Vec<BTreeSet<String>>,
}

/// The public items of several crates.
#[derive(Debug, Default)]
pub(super) struct Surface {
    /// The safe ones.
    pub(super) items: Vec<Use>,
    /// The number of unsafe functions besides.
    pub(super) unsafe_functions: usize,
    /// Public types with public fields, and type aliases.
    pub(super) open: BTreeMap<String, Open>,
    /// All types and traits.
    pub(super) types: BTreeSet<String>,
}

impl Surface {
    pub(super) fn of(crates: &[Documented]) -> anyhow::Result<Self> {
        let mut surface = Self::default();
        for documented in crates {
            let mut reader = Reader {
                documented,
                names: HashMap::new(),
                surface: &mut surface,
            };
            let root = reader.item(&documented.root).context("no root")?;
            let name = root.name.clone().context("a crate without a name")?;
            reader.module(root, &name);
            reader.impls();
        }
        Ok(surface)
    }
}

struct Reader<'a> {
    documented: &'a Documented,
    /// Types of this crate that others can obtain, by id.
    names: HashMap<Id, bool>,
    surface: &'a mut Surface,
}

impl<'a> Reader<'a> {
    fn item(&self, id: &Id) -> Option<&'a Item> {
        self.documented.index.get(id)
    }

    fn children(&self, list: &Value) -> impl Iterator<Item = (Id, &'a Item)> + use<'a> {
        let documented = self.documented;
        let ids: Vec<Id> = list
            .as_array()
            .map(|list| list.iter().cloned().map(Id::from).collect())
            .unwrap_or_default();
        ids.into_iter()
            .filter_map(|id| documented.index.get(&id).map(|item| (id, item)))
    }

    /// Everything below a module, regardless of that module's own visibility: what is public in a
    /// private one may be reachable nevertheless.
    fn module(&mut self, module: &Item, path: &str) {
        for (id, item) in self.children(&module.inner["module"]["items"]) {
            let Some(name) = &item.name else { continue };
            let path = format!("{path}::{name}");
            let Some((kind, inner)) = kind(item) else {
                continue;
            };
            let public = item.visibility == "public";
            match kind {
                "module" => self.module(item, &path),
                "function" if public => self.function(inner, path, &Scope::default()),
                "static" | "constant" if public => self.value(&inner["type"], path),
                "struct" | "union" | "enum" | "type_alias" => {
                    self.names.insert(id, public);
                    self.surface.types.insert(path.clone());
                    if public {
                        self.fields(kind, inner, &path);
                    }
                }
                "trait" => {
                    self.surface.types.insert(path.clone());
                    if public {
                        self.declared(inner, &path);
                    }
                }
                _ => {}
            }
        }
    }

    /// A value that any program can read.
    fn value(&mut self, ty: &Value, path: String) {
        let mut found = Use {
            path,
            ..Use::default()
        };
        let scope = Scope::default();
        self.documented
            .mentions(ty, Way::Out, &scope, &mut found.mentions);
        self.surface.items.push(found);
    }

    fn fields(&mut self, kind: &str, inner: &Value, path: &str) {
        let mut open = Open::default();
        match kind {
            "enum" => {
                for (_, variant) in self.children(&inner["variants"]) {
                    let made_of = self.parts(&variant.inner["variant"]["kind"], true, &mut open);
                    open.made_of.push(made_of);
                }
            }
            "type_alias" => {
                let scope = Scope::default();
                let mut found = Mentions::default();
                self.documented
                    .mentions(&inner["type"], Way::Out, &scope, &mut found);
                open.shows = found.gives;
                let mut needed = BTreeSet::new();
                self.documented.needed(&inner["type"], &scope, &mut needed);
                open.made_of.push(needed);
            }
            _ => {
                let made_of = self.parts(&inner["kind"], false, &mut open);
                let made_of_fields = self.parts(inner, false, &mut open);
                open.made_of
                    .push(made_of.into_iter().chain(made_of_fields).collect());
            }
        }
        self.surface.open.insert(path.to_owned(), open);
    }

    /// The fields of a struct or a variant. A variant's fields are as public as its enum.
    fn parts(&mut self, kind: &Value, of_variant: bool, open: &mut Open) -> BTreeSet<String> {
        let lists = [
            &kind["plain"]["fields"],
            &kind["struct"]["fields"],
            &kind["tuple"],
            &kind["fields"],
        ];
        let mut made_of = BTreeSet::new();
        let scope = Scope::default();
        let fields: Vec<_> = lists
            .into_iter()
            .flat_map(|list| self.children(list))
            .collect();
        for (_, field) in fields {
            if !of_variant && field.visibility != "public" {
                continue;
            }
            let ty = &field.inner["struct_field"];
            let mut found = Mentions::default();
            self.documented.mentions(ty, Way::Out, &scope, &mut found);
            open.shows.extend(found.gives);
            self.documented.needed(ty, &scope, &mut made_of);
        }
        made_of
    }

    /// What a trait declares. The implementor of a safe one receives the arguments that its
    /// functions are called with.
    fn declared(&mut self, inner: &Value, path: &str) {
        let scope = Scope {
            itself: Some(path.to_owned()),
            generics: vec![inner["generics"].clone()],
        };
        for (_, item) in self.children(&inner["items"]) {
            let (Some(name), Some(("function", function))) = (&item.name, kind(item)) else {
                continue;
            };
            if inner["is_unsafe"] != true {
                let mut given = Use {
                    path: format!("{path}::{name} (implemented)"),
                    needs: BTreeSet::from([path.to_owned()]),
                    ..Use::default()
                };
                let inputs = &function["sig"]["inputs"];
                self.documented
                    .mentions(inputs, Way::Out, &scope, &mut given.mentions);
                given.mentions.takes.clear();
                self.surface.items.push(given);
            }
            self.function(function, format!("{path}::{name}"), &scope);
        }
    }

    fn impls(&mut self) {
        for item in self.documented.index.values() {
            let Some(("impl", inner)) = kind(item) else {
                continue;
            };
            if inner["is_synthetic"] == true || !inner["blanket_impl"].is_null() {
                continue;
            }
            self.implemented(inner);
        }
    }

    fn implemented(&mut self, inner: &Value) {
        let documented = self.documented;
        let mut of = BTreeSet::new();
        documented.needed(&inner["for"], &Scope::default(), &mut of);
        let head = inner["for"]["resolved_path"]["id"].clone();
        // Others cannot obtain a value of a type that is not public.
        if self.names.get(&Id::from(head)) == Some(&false) {
            return;
        }
        let itself = of.into_iter().next();
        let named = itself.clone().unwrap_or_else(|| "_".to_owned());
        let of_trait = inner["trait"]["path"].as_str();
        let path = match of_trait.and_then(|path| path.rsplit("::").next()) {
            Some(of_trait) => format!("{named}::{of_trait}"),
            None => named,
        };
        let scope = Scope {
            itself,
            generics: vec![inner["generics"].clone()],
        };
        for (_, item) in self.children(&inner["items"]) {
            let (Some(name), Some((kind, part))) = (&item.name, kind(item)) else {
                continue;
            };
            // Items of traits are as public as the trait.
            if of_trait.is_none() && item.visibility != "public" {
                continue;
            }
            let path = format!("{path}::{name}");
            match kind {
                "function" => self.function(part, path, &scope),
                "assoc_const" => self.value(&part["type"], path),
                "assoc_type" => {
                    let mut found = Use {
                        path,
                        needs: scope.itself.iter().cloned().collect(),
                        ..Use::default()
                    };
                    documented.mentions(&part["type"], Way::Out, &scope, &mut found.mentions);
                    self.surface.items.push(found);
                }
                _ => {}
            }
        }
    }

    fn function(&mut self, function: &Value, path: String, scope: &Scope) {
        if function["header"]["is_unsafe"] == true {
            self.surface.unsafe_functions += 1;
            return;
        }
        let mut scope = scope.clone();
        scope.generics.push(function["generics"].clone());
        let mut found = Use {
            path,
            ..Use::default()
        };
        let documented = self.documented;
        let signature = &function["sig"];
        for input in signature["inputs"].as_array().into_iter().flatten() {
            documented.mentions(&input[1], Way::In, &scope, &mut found.mentions);
            documented.needed(&input[1], &scope, &mut found.needs);
        }
        for generics in &scope.generics {
            documented.mentions(generics, Way::In, &scope, &mut found.mentions);
        }
        documented.mentions(&signature["output"], Way::Out, &scope, &mut found.mentions);
        self.surface.items.push(found);
    }
}

/// The kind of an item, and its content.
fn kind(item: &Item) -> Option<(&str, &Value)> {
    let (kind, inner) = item.inner.as_object()?.iter().next()?;
    Some((kind, inner))
}
