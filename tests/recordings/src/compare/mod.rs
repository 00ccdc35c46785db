//! Two recordings of one scenario, compared object by object.

mod reasons;

use std::collections::BTreeSet;
use std::fmt;

use crate::normal::{Life, Recording, Step};
pub use reasons::Reasons;

/// A difference between two recordings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    /// The object: `PD1`.
    pub object: String,
    /// The command.
    pub command: String,
    /// The field; empty if the whole call is missing on one side.
    pub field: String,
    /// What rdma-core has; `-` for nothing.
    pub theirs: String,
    /// What this library has; `-` for nothing.
    pub ours: String,
}

impl Difference {
    /// The difference, regardless of the object.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self {
            command,
            field,
            theirs,
            ours,
            ..
        } = self;
        let field = if field.is_empty() { "call" } else { field };
        format!("{command} {field}: theirs {theirs}, ours {ours}")
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.describe())
    }
}

/// All differences, in the order of objects and their calls.
#[must_use]
pub fn differences(theirs: &Recording, ours: &Recording) -> Vec<Difference> {
    let names: BTreeSet<&String> = theirs.lives.keys().chain(ours.lives.keys()).collect();
    let nothing = Life::default();
    let mut found = Vec::new();
    for name in names {
        let their_life = theirs.lives.get(name).unwrap_or(&nothing);
        let our_life = ours.lives.get(name).unwrap_or(&nothing);
        let pairs = if name == "CONTEXT" {
            by_name(&their_life.steps, &our_life.steps)
        } else {
            in_order(&their_life.steps, &our_life.steps)
        };
        for (one, other) in pairs {
            found.extend(of_steps(name, one, other));
        }
    }
    found
}

type Pair<'a> = (Option<&'a Step>, Option<&'a Step>);

/// Queries of the device may come in any order: each is paired with an identical one, otherwise
/// with the most similar one that is left.
fn by_name<'a>(theirs: &'a [Step], ours: &'a [Step]) -> Vec<Pair<'a>> {
    let mut left: Vec<&Step> = ours.iter().collect();
    let mut pairs = Vec::new();
    let mut alone = Vec::new();
    for one in theirs {
        match left.iter().position(|other| *other == one) {
            Some(at) => pairs.push((Some(one), Some(left.remove(at)))),
            None => alone.push(one),
        }
    }
    for one in alone {
        let similar = left
            .iter()
            .enumerate()
            .filter(|(_, other)| other.name == one.name)
            .min_by_key(|(_, other)| of_steps("", Some(one), Some(other)).len())
            .map(|(at, _)| at);
        pairs.push((Some(one), similar.map(|at| left.remove(at))));
    }
    pairs.extend(left.into_iter().map(|other| (None, Some(other))));
    pairs
}

/// Calls on one object in order: the longest common sequence of names is paired.
fn in_order<'a>(theirs: &'a [Step], ours: &'a [Step]) -> Vec<Pair<'a>> {
    let (rows, columns) = (theirs.len(), ours.len());
    let mut common = vec![vec![0_usize; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            common[row][column] = if theirs[row].name == ours[column].name {
                common[row + 1][column + 1] + 1
            } else {
                common[row + 1][column].max(common[row][column + 1])
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    let mut pairs = Vec::new();
    while row < rows || column < columns {
        if row < rows && column < columns && theirs[row].name == ours[column].name {
            pairs.push((Some(&theirs[row]), Some(&ours[column])));
            (row, column) = (row + 1, column + 1);
        } else if column == columns
            || (row < rows && common[row + 1][column] >= common[row][column + 1])
        {
            pairs.push((Some(&theirs[row]), None));
            row += 1;
        } else {
            pairs.push((None, Some(&ours[column])));
            column += 1;
        }
    }
    pairs
}

fn of_steps(object: &str, theirs: Option<&Step>, ours: Option<&Step>) -> Vec<Difference> {
    let difference = |command: &str, field: &str, theirs: &str, ours: &str| Difference {
        object: object.to_owned(),
        command: command.to_owned(),
        field: field.to_owned(),
        theirs: theirs.to_owned(),
        ours: ours.to_owned(),
    };
    let (one, other) = match (theirs, ours) {
        (Some(one), Some(other)) => (one, other),
        (Some(one), None) => return vec![difference(&one.name, "", "made", "-")],
        (None, Some(other)) => return vec![difference(&other.name, "", "-", "made")],
        (None, None) => return Vec::new(),
    };
    let names: BTreeSet<&String> = [one, other]
        .iter()
        .flat_map(|step| step.fields.iter().map(|(name, _)| name))
        .collect();
    // Nested structs have fields of the same name.
    let value = |step: &Step, name: &str| {
        let fields = step.fields.iter().filter(|(known, _)| known == name);
        let values: Vec<&str> = fields.map(|(_, value)| value.as_str()).collect();
        if values.is_empty() {
            "-".to_owned()
        } else {
            values.join(",")
        }
    };
    let mut found: Vec<Difference> = names
        .into_iter()
        .map(|name| difference(&one.name, name, &value(one, name), &value(other, name)))
        .filter(|difference| difference.theirs != difference.ours)
        .collect();
    if one.errno != other.errno {
        let [theirs, ours] = [one, other].map(|step| step.errno.to_string());
        found.insert(0, difference(&one.name, "errno", &theirs, &ours));
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn recording(life: &str, steps: &[(&str, &[(&str, &str)])]) -> Recording {
        let steps = steps
            .iter()
            .map(|(name, fields)| Step {
                name: (*name).to_owned(),
                fields: fields
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                errno: 0,
            })
            .collect();
        let life = (
            life.to_owned(),
            Life {
                kind: "CQ".to_owned(),
                steps,
            },
        );
        Recording {
            lives: [life].into(),
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        let theirs = recording(
            "CQ1",
            &[
                ("CQ_CREATE", &[("CQE", "15")]),
                ("mmap", &[]),
                ("CQ_DESTROY", &[]),
            ],
        );
        let ours = recording(
            "CQ1",
            &[
                ("CQ_CREATE", &[("CQE", "16"), ("FLAGS", "0x0")]),
                ("CQ_DESTROY", &[]),
            ],
        );
        let found: Vec<String> = differences(&theirs, &ours)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "CQ1: CQ_CREATE CQE: theirs 15, ours 16",
                "CQ1: CQ_CREATE FLAGS: theirs -, ours 0x0",
                "CQ1: mmap call: theirs made, ours -",
            ]
        );
        assert!(differences(&theirs, &theirs).is_empty());
    }

    #[test]
    fn questions_may_come_in_any_order() {
        let one = [
            ("QUERY_PORT", &[("port", "1")][..]),
            ("QUERY_PORT", &[("port", "2")]),
        ];
        // An identical call is not paired with a merely similar one.
        let theirs = recording("CONTEXT", &one);
        let ours = recording("CONTEXT", &one[1..]);
        let found = differences(&theirs, &ours);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].describe(), "QUERY_PORT call: theirs made, ours -");
        let theirs = recording("CONTEXT", &one);
        let ours = recording("CONTEXT", &[one[1], one[0]]);
        assert!(differences(&theirs, &ours).is_empty());
    }

    #[test]
    fn reasons_are_looked_up_and_must_be_needed() {
        let theirs = recording("CQ1", &[("CQ_CREATE", &[("CQE", "15")])]);
        let ours = recording("CQ1", &[("CQ_CREATE", &[("CQE", "16")])]);
        let found = differences(&theirs, &ours);
        let mut reasons =
            Reasons::read("# why\nCQ_CREATE CQE 1* 16 a place is kept\nPOLL_CQ call * * never\n")
                .unwrap();
        assert!(reasons.covers(&found[0]));
        assert_eq!(reasons.unused(), ["POLL_CQ call * *"]);
        assert!(Reasons::read("CQ_CREATE CQE 15 16\n").is_err());
    }
}
