//! What is refused before anything is sent, and the number of commands for a change.

use uverbs_core::ErrorKind;

use super::fake::device;
use crate::prm::{GeneralCaps, QosCaps};
use crate::sched::{Element, Limits, Note, Plan, Tree};

fn limits() -> Limits {
    let general = GeneralCaps {
        qos: true,
        ..GeneralCaps::default()
    };
    let qos = QosCaps {
        nic_bw_share: true,
        nic_rate_limit: true,
        max_share: 100,
        log_max_leaves: 2,
        element_types: 0x11,
        tsar_types: 1,
        ..QosCaps::default()
    };
    Limits::of(&general, &qos)
}

#[test]
fn nodes_need_arbiters_queue_groups_and_round_robin() {
    let general = GeneralCaps {
        qos: true,
        ..GeneralCaps::default()
    };
    // Kind 0 is an arbiter, 4 a queue group; of arbiters 0 is round robin.
    let nodes = |element_types, tsar_types| {
        let qos = QosCaps {
            element_types,
            tsar_types,
            ..QosCaps::default()
        };
        Limits::of(&general, &qos).nodes
    };
    assert!(nodes(0x11, 1) && nodes(0xffff, 0xffff));
    for (element_types, tsar_types) in [
        (0x10, 1),
        (1, 1),
        (0x11, 0),
        (0xfffe, 1),
        (0xffef, 1),
        (0x11, 0xfffe),
    ] {
        assert!(
            !nodes(element_types, tsar_types),
            "{element_types:#x} {tsar_types:#x}"
        );
    }
}

fn refusal(tree: &Tree, limits: &Limits) -> (ErrorKind, String) {
    let error = limits.check(tree).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn names_are_unique_and_not_empty() {
    let twice = Tree::new([Element::leaf("a"), Element::node("b", [Element::leaf("a")])]);
    let (kind, text) = refusal(&twice, &limits());
    assert_eq!(kind, ErrorKind::InvalidInput);
    assert!(text.contains("name a"), "{text}");
    let (_, text) = refusal(&Tree::new([Element::leaf("")]), &limits());
    assert!(text.contains("parent root"), "{text}");
}

#[test]
fn what_the_device_lacks_is_refused_by_name() {
    let tree = Tree::new([Element::leaf("a").share(101)]);
    assert_eq!(
        refusal(&tree, &limits()),
        (
            ErrorKind::LimitExceeded,
            "sched_create: limit exceeded (share 101, max 100, name a)".to_owned()
        )
    );
    let five = Tree::new((0..5).map(|at| Element::leaf(at.to_string())));
    assert!(refusal(&five, &limits()).1.contains("leaves 5, max 4"));
    let no_caps = Limits {
        caps: false,
        ..limits()
    };
    let capped = Tree::new([Element::leaf("a").max_mbps(1)]);
    assert_eq!(refusal(&capped, &no_caps).0, ErrorKind::Unsupported);
    let nothing = Limits::of(&GeneralCaps::default(), &QosCaps::default());
    assert_eq!(
        refusal(&Tree::default(), &nothing).0,
        ErrorKind::Unsupported
    );
    let shallow = Limits {
        max_depth: Some(1),
        ..limits()
    };
    let deep = Tree::new([Element::node("a", [Element::leaf("b")])]);
    assert!(
        refusal(&deep, &shallow)
            .1
            .contains("depth 2, max 1, name b")
    );
}

#[test]
fn the_same_tree_takes_no_command() {
    let tree = Tree::new([Element::leaf("a").share(0), Element::leaf("b")]);
    let same = Tree::new([Element::leaf("b"), Element::leaf("a")]);
    let plan = Plan::between(Some(&tree), Some(&same), &Limits::none()).unwrap();
    assert!(plan.is_empty(), "{plan}");
}

#[test]
fn moved_nodes_are_recreated_with_their_children() {
    let (device, mut applied) = device();
    let before = Tree::new([
        Element::node("n", [Element::leaf("a").share(1)]),
        Element::node("m", []),
    ]);
    let after = Tree::new([Element::node(
        "m",
        [Element::node("n", [Element::leaf("a").share(1)])],
    )]);
    applied.apply(&before).unwrap();
    let plan = applied.apply(&after).unwrap();
    assert_eq!(
        plan.to_string(),
        "create  n  node below m\ncreate  a  leaf below n, share 1\ndestroy a  leaf\ndestroy n  node\n"
    );
    assert_eq!(device.len(), 4);
    let shape = device.shape(&applied, &after);
    assert_eq!(shape[2].1.as_deref(), Some("n"));
}

#[test]
fn a_leaf_in_use_stays_and_nothing_is_sent() {
    let (device, mut applied) = device();
    let tree = Tree::new([Element::leaf("a"), Element::leaf("b")]);
    applied.apply(&tree).unwrap();
    device.attach(*applied.get("b").unwrap());
    device.refuse([]);
    let error = applied.apply(&Tree::new([Element::leaf("c")])).unwrap_err();
    assert_eq!(error.error.kind(), ErrorKind::Busy);
    assert_eq!((error.step.as_ref(), device.commands()), (None, 0));
    assert!(error.to_string().contains("leaf b"), "{error}");
}

#[test]
fn notes_point_out_unlikely_settings() {
    let tree = Tree::new([
        Element::node(
            "a",
            [
                Element::leaf("b").max_mbps(200),
                Element::leaf("c").share(1),
            ],
        )
        .max_mbps(100),
        Element::node("d", []),
    ]);
    let plan = Plan::between(None, Some(&tree), &Limits::none()).unwrap();
    assert_eq!(
        plan.notes(),
        [
            Note::MixedShares {
                name: Some("a".to_owned())
            },
            Note::CapAbove {
                name: "b".to_owned(),
                cap: 200,
                above: "a".to_owned(),
                limit: 100
            },
            Note::Empty {
                name: Some("d".to_owned())
            },
        ]
    );
}

#[test]
fn the_drawing_shows_shares_of_the_parent_and_of_all() {
    let tree = Tree::new([
        Element::node(
            "web",
            [
                Element::leaf("hot").share(1),
                Element::leaf("cold").share(2),
            ],
        )
        .share(3),
        Element::node("bulk", [Element::leaf("x"), Element::leaf("y").share(4)])
            .share(1)
            .max_mbps(4096),
    ]);
    assert_eq!(
        tree.to_string(),
        "root\n\
         ├── web  75%\n\
         │   ├── hot  33.3% (25% of all)\n\
         │   └── cold  66.7% (50% of all)\n\
         └── bulk  25%  at most 4096 Mb/s\n\
        \u{20}   ├── x  default share\n\
        \u{20}   └── y  share 4\n"
    );
}
