//! The committed table, and how another differs from it.

use anyhow::{Context as _, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use super::executed::Executed;

/// Where it is.
pub(super) const TABLE: &str = "tests/cost/hot.txt";

/// What each function executes, for one operation.
#[derive(Debug, PartialEq)]
pub(super) struct Golden {
    compiler: String,
    functions: BTreeMap<String, Executed>,
}

/// A difference that is one for each operation is at least this. What is done once in a loop of 64
/// operations may vary with the order in which the compiler looks at functions.
const MATTERS: f64 = 0.5;

const COMPILER: &str = "# Compiler: ";

const LOCKS: &str = "locks";

/// A figure that is kept, and its name in the table.
type Figure = (&'static str, fn(&mut Executed) -> &mut f64);

const FIGURES: [Figure; 4] = [
    ("stores", |it| &mut it.stores),
    ("stack", |it| &mut it.stack_stores),
    ("branches", |it| &mut it.branches),
    (LOCKS, |it| &mut it.locks),
];

impl Golden {
    pub(super) fn new(compiler: String, functions: BTreeMap<String, Executed>) -> Self {
        Self {
            compiler,
            functions,
        }
    }

    pub(super) fn has(&self, function: &str) -> bool {
        self.functions.contains_key(function)
    }

    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let compiler = text.lines().find_map(|line| line.strip_prefix(COMPILER));
        let compiler = compiler.context("no compiler")?.to_owned();
        let mut golden = Self::new(compiler, BTreeMap::new());
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, executed) = function(line).with_context(|| line.to_owned())?;
            golden.functions.insert(name, executed);
        }
        Ok(golden)
    }

    /// How `found` differs, each with the function's name.
    pub(super) fn differences(&self, found: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        let names: BTreeSet<_> = self
            .functions
            .keys()
            .chain(found.functions.keys())
            .collect();
        for name in names {
            match (self.functions.get(name), found.functions.get(name)) {
                (Some(kept), Some(found)) => {
                    let each = differences_of(kept, found).into_iter();
                    differences.extend(each.map(|difference| format!("{name}: {difference}")));
                }
                (None, _) => differences.push(format!("{name}: not in {TABLE}")),
                (_, None) => differences.push(format!("{name}: only in {TABLE}")),
            }
        }
        if !differences.is_empty() && self.compiler != found.compiler {
            let (kept, found) = (&self.compiler, &found.compiler);
            differences.push(format!("The compiler is another one: {kept}, now {found}"));
        }
        differences
    }
}

fn differences_of(kept: &Executed, found: &Executed) -> Vec<String> {
    let (mut kept, mut found) = (kept.clone(), found.clone());
    let mut differences = Vec::new();
    for (name, figure) in FIGURES {
        let (before, after) = (*figure(&mut kept), *figure(&mut found));
        if name != LOCKS && (before - after).abs() > MATTERS {
            differences.push(format!("{name} {before:.2}, now {after:.2}"));
        }
    }
    // However rare they are, and whatever the table says.
    if found.locks > 0.0 {
        differences.push(format!("{:.2} locks, none are allowed", found.locks));
    }
    let calls: BTreeSet<_> = kept.calls.keys().chain(found.calls.keys()).collect();
    for name in calls {
        match (kept.calls.get(name), found.calls.get(name)) {
            (Some(before), Some(after)) if (before - after).abs() > MATTERS => {
                differences.push(format!("calls {name} {before:.2} times, now {after:.2}"));
            }
            (None, Some(after)) => differences.push(format!("now calls {name} {after:.2} times")),
            (Some(_), None) => differences.push(format!("no longer calls {name}")),
            _ => {}
        }
    }
    differences
}

/// The name and the figures of a line.
fn function(line: &str) -> anyhow::Result<(String, Executed)> {
    let mut words = line.split_whitespace();
    let name = words.next().context("no function")?.to_owned();
    let mut executed = Executed::default();
    for (expected, figure) in FIGURES {
        if words.next() != Some(expected) {
            bail!("no {expected}");
        }
        *figure(&mut executed) = words.next().context("no number")?.parse()?;
    }
    if let Some("calls") = words.next() {
        while let Some(name) = words.next() {
            let count = words.next().context("no number")?.parse()?;
            executed.calls.insert(name.to_owned(), count);
        }
    }
    Ok((name, executed))
}

impl Display for Golden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# What the loops of tests/cost/downstream execute for one operation, in a release build without\n\
             # link-time optimisation, and other hot functions for one call: stores to memory and to the stack,\n\
             # conditional branches, instructions that lock the bus, and calls. Written by\n\
             # `cargo xtask bench --hot --write`, compared by `cargo xtask bench --hot`.\n\
             {COMPILER}{}\n",
            self.compiler
        )?;
        for (name, executed) in &self.functions {
            write!(f, "{name:<34}")?;
            let mut executed = executed.clone();
            for (name, figure) in FIGURES {
                write!(f, " {name} {:>6.2}", figure(&mut executed))?;
            }
            if !executed.calls.is_empty() {
                f.write_str(" calls")?;
            }
            for (name, count) in &executed.calls {
                write!(f, " {name} {count:.2}")?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(stores: f64, locks: f64, calls: &[(&str, f64)]) -> Golden {
        let calls = calls
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        let executed = Executed {
            stores,
            locks,
            branches: 3.25,
            calls: calls.collect(),
            ..Executed::default()
        };
        let function = "any::counted_poll".to_owned();
        Golden::new("rustc 1".to_owned(), BTreeMap::from([(function, executed)]))
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let table = golden(12.5, 0.0, &[("a::b", 0.25), ("c", 1.0)]);
        let read = Golden::read(&table.to_string()).ok();
        assert_eq!(read.as_ref(), Some(&table));
    }

    #[test]
    fn a_difference_names_the_function_and_the_figure() {
        let kept = golden(12.0, 0.0, &[]);
        assert!(kept.differences(&golden(12.1, 0.0, &[])).is_empty());
        let worse = kept.differences(&golden(13.0, 0.98, &[("apart", 1.0)]));
        let expected = [
            "any::counted_poll: stores 12.00, now 13.00",
            "any::counted_poll: 0.98 locks, none are allowed",
            "any::counted_poll: now calls apart 1.00 times",
        ];
        assert_eq!(worse, expected);
        let gone = Golden::new("rustc 2".to_owned(), BTreeMap::new());
        let expected = [
            "any::counted_poll: only in tests/cost/hot.txt",
            "The compiler is another one: rustc 1, now rustc 2",
        ];
        assert_eq!(kept.differences(&gone), expected);
    }
}
