//! Whatever fails, the tree is unchanged.

use proptest::prelude::*;

use super::fake::device;
use crate::sched::{Element, Kind, Tree};

/// Trees of up to three levels over few names, so that two of them have some in common.
fn trees() -> impl Strategy<Value = Tree> {
    let attr = (
        prop::option::of(0_u32..4),
        prop::option::of(prop::sample::select(vec![0_u32, 100, 4096])),
    );
    // A level for each name, or 0 to leave it out; whether it is a node; attributes.
    prop::collection::vec((0_usize..4, any::<bool>(), attr), 8).prop_map(|rows| {
        let mut tree = Tree::default();
        for (at, (level, leaf, (share, cap))) in rows.into_iter().enumerate() {
            let mut element = if leaf {
                Element::leaf(format!("e{at}"))
            } else {
                Element::node(format!("e{at}"), [])
            };
            element.attr.share = share;
            element.attr.max_mbps = cap;
            if level > 0 {
                place(&mut tree.children, level, element);
            }
        }
        tree
    })
}

/// Inserts `element` at the depth of `level`, or below the deepest last node.
fn place(children: &mut Vec<Element>, level: usize, element: Element) {
    if level > 1 {
        let node = children
            .iter_mut()
            .rev()
            .find_map(|child| match &mut child.kind {
                Kind::Node(below) => Some(below),
                Kind::Leaf => None,
            });
        if let Some(below) = node {
            return place(below, level - 1, element);
        }
    }
    children.push(element);
}

proptest! {
    #[test]
    fn a_plan_makes_the_tree_that_was_meant(before in trees(), after in trees()) {
        let (device, mut applied) = device();
        applied.apply(&before).unwrap();
        let plan = applied.apply(&after).unwrap();
        let meant: Vec<_> = after
            .walk()
            .map(|(element, place)| (
                element.name.clone(),
                place.parent.map(|parent| parent.name.clone()),
                element.is_leaf(),
                element.attr.share.unwrap_or(0),
                element.attr.max_mbps.unwrap_or(0),
            ))
            .collect();
        prop_assert_eq!(device.shape(&applied, &after), meant);
        prop_assert_eq!(device.len(), after.walk().count() + 1);
        prop_assert!(plan.steps().len() <= before.walk().count() + after.walk().count());
        prop_assert!(applied.plan(Some(&after)).unwrap().is_empty());
        applied.clear().unwrap();
        prop_assert_eq!(device.len(), 0);
    }

    #[test]
    fn a_refusal_at_any_step_leaves_the_tree_as_it_was(before in trees(), after in trees()) {
        let steps = {
            let (_, mut applied) = device();
            applied.apply(&before).unwrap();
            applied.plan(Some(&after)).unwrap().steps().len()
        };
        for refused in 1..=steps {
            let (device, mut applied) = device();
            applied.apply(&before).unwrap();
            let shape = device.shape(&applied, &before);
            device.refuse([u32::try_from(refused).unwrap()]);
            let error = applied.apply(&after).unwrap_err();
            prop_assert!(error.not_undone.is_empty(), "{error}");
            prop_assert_eq!(applied.tree(), Some(&before));
            prop_assert_eq!(device.shape(&applied, &before), shape);
            prop_assert_eq!(device.len(), before.walk().count() + 1);
            device.refuse([]);
            applied.apply(&after).unwrap();
        }
    }

    #[test]
    fn a_tree_that_cannot_be_built_leaves_nothing(tree in trees()) {
        let steps = tree.walk().count() + 1;
        for refused in 1..=steps {
            let (device, mut applied) = device();
            device.refuse([u32::try_from(refused).unwrap()]);
            applied.apply(&tree).unwrap_err();
            prop_assert_eq!((device.len(), applied.tree()), (0, None));
        }
    }
}

#[test]
fn what_could_not_be_undone_is_reported_and_ends_the_changes() {
    let (device, mut applied) = device();
    let before = Tree::new([Element::leaf("a").share(1)]);
    applied.apply(&before).unwrap();
    // The modify fails, then the destroy of the element that was created before it.
    device.refuse([2, 3]);
    let after = Tree::new([Element::leaf("a").share(2), Element::leaf("b")]);
    let error = applied.apply(&after).unwrap_err();
    assert_eq!(error.not_undone.len(), 1);
    assert!(
        error.to_string().contains("not undone: create  b"),
        "{error}"
    );
    let again = applied.apply(&after).unwrap_err();
    assert!(again.step.is_none(), "{again}");
}

#[test]
fn an_element_that_may_be_gone_is_not_destroyed_again() {
    let (device, mut applied) = device();
    let before = Tree::new([Element::leaf("a"), Element::leaf("b")]);
    applied.apply(&before).unwrap();
    device.time_out([1]);
    let error = applied.apply(&Tree::new([Element::leaf("a")])).unwrap_err();
    assert!(error.error.outcome_is_unknown(), "{error}");
    assert!(error.not_undone.is_empty(), "{error}");
    assert!(applied.get("a").is_some() && applied.get("b").is_none());
    let again = applied.apply(&before).unwrap_err();
    assert!(again.step.is_none(), "the tree is torn: {again}");
    assert_eq!(device.commands(), 1);
}
