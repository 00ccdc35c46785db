//! The modules at the root of mlx5, and which of them refer to which.

use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const MLX5: &str = "providers/mlx5/src/";
/// Modules that are no rooms.
const OUTSIDE: [&str; 3] = ["lib", "models", "tests"];

/// Each room, with those that it refers to.
#[derive(Debug)]
pub(super) struct Rooms(BTreeMap<String, BTreeSet<String>>);

impl Rooms {
    pub(super) fn of(tree: &Tree) -> anyhow::Result<Self> {
        let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (path, text) in tree.files() {
            let Some(inside) = path.strip_prefix(MLX5) else {
                continue;
            };
            let first = inside.split('/').next().unwrap_or(inside);
            let room = first.trim_end_matches(".rs");
            // Tests refer to anything.
            if !OUTSIDE.contains(&room) && !inside.contains("test") {
                let named = rooms.entry(room.to_owned()).or_default();
                named.extend(referred(text));
            }
        }
        anyhow::ensure!(!rooms.is_empty(), "{MLX5} has no modules");
        let names: BTreeSet<_> = rooms.keys().cloned().collect();
        for (room, others) in &mut rooms {
            others.retain(|other| other != room && names.contains(other));
        }
        Ok(Self(rooms))
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn arrows(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    /// How many arrows are between rooms that can be reached from each other: wherever the floors
    /// are, one of each circle goes up.
    pub(super) fn in_circles(&self) -> usize {
        let arrows = self.0.iter();
        let all = arrows.flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
        all.filter(|(from, to)| self.reached(to).contains(from.as_str()))
            .count()
    }

    /// The rooms of each circle, as the end of a sentence.
    pub(super) fn circles(&self) -> String {
        let mut text = String::new();
        let mut seen = BTreeSet::new();
        for room in self.0.keys() {
            let with = self.reached(room);
            if !with.contains(room.as_str()) || !seen.insert(room.as_str()) {
                continue;
            }
            let mut circle = vec![room.as_str()];
            for other in with {
                if self.reached(other).contains(room.as_str()) && seen.insert(other) {
                    circle.push(other);
                }
            }
            let mark = if text.is_empty() { ": " } else { "; " };
            // Writing to a String does not fail.
            let _ = write!(text, "{mark}{}", circle.join(", "));
        }
        text
    }

    /// The rooms that are referred to from a room, directly or not.
    fn reached<'r>(&'r self, room: &str) -> BTreeSet<&'r str> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&str> = self
            .0
            .get(room)
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        while let Some(other) = next.pop() {
            if reached.insert(other) {
                next.extend(self.0.get(other).into_iter().flatten().map(String::as_str));
            }
        }
        reached
    }
}

/// The modules behind `crate::` in code, up to its tests.
fn referred(text: &str) -> impl Iterator<Item = String> {
    let code = text
        .lines()
        .take_while(|line| *line != "mod tests {")
        .filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("crate::").skip(1))
        .map(|path| {
            let end = path.find(|c: char| !c.is_alphanumeric() && c != '_');
            path.get(..end.unwrap_or(path.len()))
                .unwrap_or(path)
                .to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found() {
        let to = |others: &[&str]| others.iter().map(|&other| other.to_owned()).collect();
        let rooms = Rooms(BTreeMap::from([
            ("a".to_owned(), to(&["b"])),
            ("b".to_owned(), to(&["a", "c"])),
            ("c".to_owned(), to(&[])),
        ]));
        assert_eq!(
            (rooms.count(), rooms.arrows(), rooms.in_circles()),
            (3, 3, 2)
        );
        assert_eq!(rooms.circles(), ": a, b");
    }

    #[test]
    fn comments_and_tests_refer_to_nothing() {
        let text = "use crate::wqe::X;\n/// crate::sq\nmod tests {\nuse crate::cq;";
        assert_eq!(referred(text).collect::<Vec<_>>(), ["wqe"]);
    }
}
