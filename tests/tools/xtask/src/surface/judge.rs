//! The violations among the public items.

use std::collections::BTreeSet;

use super::items::{Surface, Use};
use super::mentions::POINTER;

/// Which types are power, and what may have to do with them.
#[derive(Debug)]
pub(super) struct Lists {
    /// Types whose values are power over the kernel, or are only meaningful with it.
    pub(super) powers: &'static [&'static str],
    /// Types that describe commands. Constructing them is harmless; a safe function that takes them
    /// may have them carried out.
    pub(super) words: &'static [&'static str],
    /// Descriptors, to which commands may be written.
    pub(super) descriptors: &'static [&'static str],
    /// Items that need power, and why they do. A `*` stands for any text.
    pub(super) needing: &'static [(&'static str, &'static str)],
    /// Single items that return something, or take commands or pointers, and need no power; and why
    /// that is harmless.
    pub(super) harmless: &'static [(&'static str, &'static str)],
}

impl Lists {
    pub(super) fn reasons(&self) -> usize {
        self.needing.len() + self.harmless.len()
    }
}

/// The findings.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Items that have to do with power, for display.
    pub(super) concerned: Vec<String>,
    /// The violations.
    pub(super) findings: Vec<String>,
}

pub(super) fn judge(surface: &Surface, lists: &Lists) -> Verdict {
    let named = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    let (powers, proofs) = (
        shown(surface, named(lists.powers)),
        proving(surface, named(lists.powers)),
    );
    let descriptors = shown(surface, named(lists.descriptors));
    let mut verdict = Verdict::default();
    let mut used = BTreeSet::new();
    for item in &surface.items {
        let concern = Concern::of(item, lists, &powers, &proofs, &descriptors);
        if concern.is_none() {
            continue;
        }
        verdict.concerned.push(concern.line(item));
        let listed = |list: &'static [(&'static str, &'static str)]| {
            let mut rows = list.iter().map(|(pattern, _)| *pattern);
            rows.find(|pattern| covers(pattern, &item.path))
        };
        let pattern = if concern.has_power {
            listed(lists.needing).or_else(|| listed(lists.harmless))
        } else {
            listed(lists.harmless)
        };
        match pattern {
            Some(pattern) => drop(used.insert(pattern)),
            None => verdict
                .findings
                .push(format!("{}, and is not listed", concern.line(item))),
        }
    }
    verdict.concerned.sort();
    verdict.findings.sort();
    let rows = lists.needing.iter().chain(lists.harmless);
    for (pattern, _) in rows.filter(|(pattern, _)| !used.contains(pattern)) {
        verdict
            .findings
            .push(format!("listed, and matches nothing: {pattern}"));
    }
    let ours = |name: &&&str| !name.starts_with("std::") && !name.starts_with("core::");
    for name in lists.powers.iter().chain(lists.words).filter(ours) {
        if !surface.types.contains(*name) {
            verdict
                .findings
                .push(format!("listed as power, and is no type: {name}"));
        }
    }
    verdict
}

/// The reasons to examine an item.
#[derive(Debug, Default)]
struct Concern<'a> {
    /// Its user must already have power.
    has_power: bool,
    takes: BTreeSet<&'a str>,
    gives: BTreeSet<&'a str>,
}

impl<'a> Concern<'a> {
    fn of(
        item: &'a Use,
        lists: &Lists,
        powers: &BTreeSet<String>,
        proofs: &BTreeSet<String>,
        descriptors: &BTreeSet<String>,
    ) -> Self {
        let has_power = item.needs.iter().any(|name| proofs.contains(name));
        let among = |names: &'a BTreeSet<String>, set: &BTreeSet<String>| {
            let found = names.iter().filter(|name| set.contains(*name));
            found.map(String::as_str).collect::<BTreeSet<_>>()
        };
        let is_of = |name: &str| {
            let rest = item.path.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with("::"))
        };
        let mut takes = among(&item.mentions.takes, powers);
        let mut gives = among(&item.mentions.gives, powers);
        if !has_power {
            // A type that only sometimes contains power does not use it in its own methods.
            takes.retain(|name| !is_of(name));
            // A request with room for descriptors can be constructed without any.
            let lent = among(&item.mentions.gives, descriptors);
            gives.extend(lent.into_iter().filter(|name| !is_of(name)));
            let spoken = item.mentions.takes.iter().map(String::as_str);
            takes.extend(
                spoken.filter(|name| {
                    (lists.words.contains(name) && !is_of(name)) || *name == POINTER
                }),
            );
            // A user who already has the power gains nothing.
            gives.retain(|name| !item.needs.contains(*name));
        }
        Self {
            has_power,
            takes,
            gives,
        }
    }

    fn is_none(&self) -> bool {
        self.takes.is_empty() && self.gives.is_empty()
    }

    fn line(&self, item: &Use) -> String {
        let list = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
        let mut line = vec![item.path.clone()];
        for (verb, names) in [("takes", &self.takes), ("gives", &self.gives)] {
            if !names.is_empty() {
                line.push(format!("{verb} {};", list(names)));
            }
        }
        let to = if self.has_power {
            "to who has power"
        } else {
            "to anybody"
        };
        line.push(to.to_owned());
        line.join(" ")
    }
}

fn covers(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => path.starts_with(start) && path.ends_with(end),
        None => path == pattern,
    }
}

/// `types`, and those whose public fields expose one of them.
fn shown(surface: &Surface, types: BTreeSet<String>) -> BTreeSet<String> {
    grow(surface, types, |open, known| {
        open.shows.iter().any(|name| known.contains(name))
    })
}

/// `types`, and those of which no value can be constructed without one of them.
fn proving(surface: &Surface, types: BTreeSet<String>) -> BTreeSet<String> {
    grow(surface, types, |open, known| {
        let mut ways = open.made_of.iter();
        !open.made_of.is_empty() && ways.all(|parts| parts.iter().any(|name| known.contains(name)))
    })
}

fn grow(
    surface: &Surface,
    mut known: BTreeSet<String>,
    joins: impl Fn(&super::items::Open, &BTreeSet<String>) -> bool,
) -> BTreeSet<String> {
    loop {
        let more: Vec<_> = surface
            .open
            .iter()
            .filter(|(name, open)| !known.contains(*name) && joins(open, &known))
            .map(|(name, _)| name.clone())
            .collect();
        if more.is_empty() {
            return known;
        }
        known.extend(more);
    }
}
