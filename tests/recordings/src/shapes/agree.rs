//! Requests of rdma-core that this library does not make.

use super::{Shape, Shapes};
use crate::compare::{Difference, Reasons};

/// For each shape of `theirs` that is not among `ours`, its differences from the nearest one: the
/// one with the fewest differences without a reason. Each reason that is needed is counted.
#[must_use]
pub fn without_reason(theirs: &Shapes, ours: &Shapes, reasons: &mut Reasons) -> Vec<Difference> {
    let mut found = Vec::new();
    for shape in &theirs.0 {
        if ours.0.contains(shape) {
            continue;
        }
        let alike = ours.0.iter().filter(|other| other.command == shape.command);
        let apart = |differences: &Vec<Difference>| {
            let open = differences.iter().filter(|one| !reasons.fit(one));
            (open.count(), differences.len())
        };
        let nearest = alike
            .map(|other| differences(shape, other))
            .min_by_key(apart);
        let nearest = nearest.unwrap_or_else(|| vec![difference(shape, "", "made", "-")]);
        for difference in nearest {
            if !reasons.covers(&difference) {
                found.push(difference);
            }
        }
    }
    found
}

fn difference(shape: &Shape, field: &str, theirs: &str, ours: &str) -> Difference {
    Difference {
        object: shape.to_string(),
        command: shape.command.clone(),
        field: field.to_owned(),
        theirs: theirs.to_owned(),
        ours: ours.to_owned(),
    }
}

/// Differences, by attribute and field.
fn differences(theirs: &Shape, ours: &Shape) -> Vec<Difference> {
    let value = |shape: &Shape, name: &str| match shape.parts.get(name) {
        Some(value) => value.clone(),
        None => "-".to_owned(),
    };
    let mut names: Vec<&String> = theirs.parts.keys().chain(ours.parts.keys()).collect();
    names.sort();
    names.dedup();
    let mut found = Vec::new();
    if theirs.answer != ours.answer {
        found.push(difference(theirs, "answer", &theirs.answer, &ours.answer));
    }
    for name in names {
        let (one, other) = (value(theirs, name), value(ours, name));
        if one != other {
            found.push(difference(theirs, name, &one, &other));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn calls_are_compared_with_the_most_similar_one() {
        let theirs = Shapes::parse(
            "CQ_CREATE ok CQE:4 FLAGS:4 FLAGS=0x1\nCQ_CREATE ok CQE:4 FD:0\nPD_ALLOC ok\n",
        );
        let ours = Shapes::parse("CQ_CREATE ok CQE:4\nCQ_CREATE EINVAL CQE:4 FLAGS:4 FLAGS=0x1\n");
        let (theirs, ours) = (theirs.unwrap(), ours.unwrap());
        let list = "CQ_CREATE FD 0 - the context's own\nQP_CREATE call made - never\n";
        let mut reasons = Reasons::read(list).unwrap();
        let found = without_reason(&theirs, &ours, &mut reasons);
        let words: Vec<String> = found.iter().map(Difference::describe).collect();
        let expected = [
            "CQ_CREATE answer: theirs ok, ours EINVAL",
            "PD_ALLOC call: theirs made, ours -",
        ];
        assert_eq!(words, expected);
        assert_eq!(reasons.unused(), ["QP_CREATE call made -"]);
    }
}
