//! Which types a type names, and in which direction values of them move.

use serde_json::Value;
use std::collections::BTreeSet;

use super::document::{Documented, Id};

/// Types that are equivalent to their contents.
const WRAPPERS: [&str; 5] = [
    "alloc::sync::Arc",
    "alloc::boxed::Box",
    "alloc::rc::Rc",
    "core::pin::Pin",
    "core::mem::manually_drop::ManuallyDrop",
];

/// Represents a raw pointer among the names of types.
pub(super) const POINTER: &str = "a raw pointer";

/// Names of types, by the direction in which their values move.
#[derive(Clone, Debug, Default)]
pub(super) struct Mentions {
    /// Into the library.
    pub(super) takes: BTreeSet<String>,
    /// Out of the library.
    pub(super) gives: BTreeSet<String>,
}

/// The direction of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Way {
    In,
    Out,
}

impl Way {
    fn back(self) -> Self {
        match self {
            Self::In => Self::Out,
            Self::Out => Self::In,
        }
    }
}

/// The meaning of `Self` and of an item's generic parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// The type that `Self` stands for, or the trait that it implements.
    pub(super) itself: Option<String>,
    /// Parameters with their bounds: the generics of the item and of its container.
    pub(super) generics: Vec<Value>,
}

impl Documented {
    /// The path of a type or trait, as defined.
    pub(super) fn path_of(&self, id: &Value) -> Option<String> {
        let named = self.paths.get(&Id::from(id.clone()))?;
        Some(named.path.join("::"))
    }

    /// Records all that `ty` names, for a value that moves in direction `way`.
    pub(super) fn mentions(&self, ty: &Value, way: Way, scope: &Scope, found: &mut Mentions) {
        match ty {
            Value::Array(parts) => {
                for part in parts {
                    self.mentions(part, way, scope, found);
                }
            }
            Value::Object(fields) => {
                for (key, part) in fields {
                    self.part(key, part, way, scope, found);
                }
            }
            _ => {}
        }
    }

    fn part(&self, key: &str, part: &Value, way: Way, scope: &Scope, found: &mut Mentions) {
        match key {
            // A type by its path, or a trait in a bound: its arguments move in the same direction.
            "id" => found.note(way, self.path_of(part)),
            "generic" if part == "Self" => found.note(way, scope.itself.clone()),
            "borrowed_ref" if part["is_mutable"] == true => {
                // A mutable reference moves values in both directions.
                self.mentions(&part["type"], way, scope, found);
                self.mentions(&part["type"], way.back(), scope, found);
            }
            "raw_pointer" => {
                found.note(way, Some(POINTER.to_owned()));
                self.mentions(part, way, scope, found);
            }
            // For functions: their arguments come from the caller.
            "inputs" => self.mentions(part, way.back(), scope, found),
            _ => self.mentions(part, way, scope, found),
        }
    }

    /// The types of which a caller must have a value to construct one of `ty`.
    pub(super) fn needed(&self, ty: &Value, scope: &Scope, found: &mut BTreeSet<String>) {
        let Some((kind, inner)) = ty.as_object().and_then(|fields| fields.iter().next()) else {
            return;
        };
        match kind.as_str() {
            "borrowed_ref" => self.needed(&inner["type"], scope, found),
            "tuple" => {
                for part in inner.as_array().into_iter().flatten() {
                    self.needed(part, scope, found);
                }
            }
            "resolved_path" => {
                let path = self.path_of(&inner["id"]).unwrap_or_default();
                if WRAPPERS.contains(&path.as_str()) {
                    let arguments = inner["args"]["angle_bracketed"]["args"].as_array();
                    for argument in arguments.into_iter().flatten().take(1) {
                        self.needed(&argument["type"], scope, found);
                    }
                } else {
                    found.insert(path);
                }
            }
            // An associated type: only its owner can have created a value of it.
            "qualified_path" => self.needed(&inner["self_type"], scope, found),
            "dyn_trait" => self.traits(&inner["traits"], found),
            "impl_trait" => self.traits(inner, found),
            "generic" if inner == "Self" => found.extend(scope.itself.clone()),
            "generic" => {
                for bounds in scope.bounds_of(inner) {
                    self.traits(bounds, found);
                }
            }
            _ => {}
        }
    }

    /// The traits in a list of bounds.
    fn traits(&self, bounds: &Value, found: &mut BTreeSet<String>) {
        for bound in bounds.as_array().into_iter().flatten() {
            let named = match bound.get("trait_bound") {
                Some(bound) => &bound["trait"],
                None => &bound["trait"],
            };
            found.extend(self.path_of(&named["id"]));
        }
    }
}

impl Scope {
    /// The bounds of a parameter.
    fn bounds_of<'a>(&'a self, name: &'a Value) -> impl Iterator<Item = &'a Value> {
        let parameters = self
            .generics
            .iter()
            .flat_map(|generics| generics["params"].as_array().into_iter().flatten());
        let of_parameters = parameters
            .filter(move |parameter| parameter["name"] == *name)
            .map(|parameter| &parameter["kind"]["type"]["bounds"]);
        let predicates = self.generics.iter().flat_map(|generics| {
            generics["where_predicates"]
                .as_array()
                .into_iter()
                .flatten()
        });
        let of_predicates = predicates
            .map(|predicate| &predicate["bound_predicate"])
            .filter(move |predicate| predicate["type"]["generic"] == *name)
            .map(|predicate| &predicate["bounds"]);
        of_parameters.chain(of_predicates)
    }
}

impl Mentions {
    fn note(&mut self, way: Way, name: Option<String>) {
        match way {
            Way::In => self.takes.extend(name),
            Way::Out => self.gives.extend(name),
        }
    }
}
