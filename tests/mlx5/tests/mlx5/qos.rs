//! Rates, and the tree of scheduling elements.

use mlx5_tests::Model;
use uverbs::attr::QpAttr;
use uverbs::mlx5::pacing::RateLimit;
use uverbs::mlx5::sched::{Applied, Element, ElementAttr, Leaves, Scheduler, Tree};
use uverbs::{Context, ErrorKind, QpState, QpType};
use verbs_tests::{Pair, Side, is_infiniband, open};

fn scheduler(context: &Context) -> Scheduler {
    context.mlx5().unwrap().scheduling().unwrap()
}

/// The manual's own example: two groups, seven to three, the second with a cap.
fn groups() -> Tree {
    Tree::new([
        Element::leaf("g1").share(7),
        Element::leaf("g2").share(3).max_mbps(4096),
    ])
}

fn requests_of(leaf: &uverbs::mlx5::sched::Leaf) -> Leaves<'_> {
    Leaves {
        requestor: Some(leaf),
        responder: None,
    }
}

#[test]
fn a_tree_is_created_changed_and_destroyed() {
    let (mut model, context) = (Model::open(), open());
    let nothing = model.ask("census 0");
    let scheduler = scheduler(&context);
    assert!(scheduler.caps().nic_bw_share && scheduler.caps().nic_rate_limit);
    let mut applied = Applied::new(scheduler);
    assert_eq!(applied.apply(&groups()).unwrap().steps().len(), 3);
    assert!(applied.plan(Some(&groups())).unwrap().is_empty());
    let two = model.ask("census 0");
    let deeper = Tree::new([
        Element::leaf("g1").share(5),
        Element::node("n", [Element::leaf("x").max_mbps(10), Element::leaf("y")]).share(5),
    ]);
    applied.apply(&deeper).unwrap();
    applied.apply(&groups()).unwrap();
    assert_eq!(model.ask("census 0"), two);
    applied.clear().unwrap();
    assert_eq!(model.ask("census 0"), nothing);
}

#[test]
fn a_step_that_the_device_refuses_leaves_the_tree_as_it_was() {
    let (mut model, context) = (Model::open(), open());
    let mut applied = Applied::new(scheduler(&context));
    applied.apply(&groups()).unwrap();
    let before = model.ask("census 0");
    let other = Tree::new([
        Element::leaf("g1").share(1),
        Element::node("n", [Element::leaf("x"), Element::leaf("y")]),
    ]);
    // Creating, modifying and destroying objects, each refused in turn.
    for (opcode, skip) in [("a00", 0), ("a00", 1), ("a00", 2), ("a01", 0), ("a03", 0)] {
        model.make(&format!("fail 0 {opcode} 1 {skip} 6"));
        let error = applied.apply(&other).unwrap_err();
        assert!(
            error.step.is_some() && error.not_undone.is_empty(),
            "{error}"
        );
        assert!(error.to_string().contains("EBUSY"), "{error}");
        assert_eq!(applied.tree(), Some(&groups()));
        assert_eq!(model.ask("census 0"), before, "{error}");
        assert!(applied.plan(Some(&groups())).unwrap().is_empty());
    }
    applied.apply(&other).unwrap();
}

#[test]
fn a_tree_deeper_than_the_device_allows_is_taken_back() {
    let (mut model, context) = (Model::open(), open());
    let mut applied = Applied::new(scheduler(&context));
    let before = model.ask("census 0");
    let mut element = Element::leaf("leaf");
    for depth in 0..12 {
        element = Element::node(format!("level {depth}"), [element]);
    }
    let error = applied.apply(&Tree::new([element])).unwrap_err();
    assert!(error.to_string().contains("BAD_PARAM"), "{error}");
    assert_eq!(model.ask("census 0"), before);
}

#[test]
fn single_elements_own_their_parents() {
    let context = open();
    let root = scheduler(&context).create_root().unwrap();
    let error = root.modify(&ElementAttr::new().share(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let leaf = root
        .create_node(&ElementAttr::new().share(2))
        .unwrap()
        .create_leaf(&ElementAttr::new().max_mbps(100))
        .unwrap();
    let refused = root.destroy().unwrap_err();
    let (root, error) = (*refused.handle.unwrap(), refused.error);
    assert_eq!(error.kind(), ErrorKind::Busy);
    leaf.modify(&ElementAttr::new().max_mbps(0).share(9))
        .unwrap();
    let error = leaf
        .modify(&ElementAttr::new().share(1_000_000))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    drop(root);
    leaf.destroy().unwrap();
    assert_eq!(context.leaked(), 0);
}

#[test]
fn reliable_connections_are_attached_for_requests_and_for_responses() {
    let context = open();
    let scheduler = scheduler(&context);
    let mut applied = Applied::new(scheduler.clone());
    applied.apply(&groups()).unwrap();
    let (one, two) = (applied.leaf("g1").unwrap(), applied.leaf("g2").unwrap());
    let both = Leaves {
        requestor: Some(one),
        responder: Some(two),
    };
    let mut pair = pair_of(&context, QpType::Rc);
    pair.a.qp.attach_to(&scheduler, both).unwrap();
    assert!(one.is_used() && two.is_used());
    // To another leaf, and off.
    pair.a.qp.attach_to(&scheduler, requests_of(two)).unwrap();
    pair.a.qp.attach_to(&scheduler, Leaves::default()).unwrap();
    assert!(!one.is_used() && !two.is_used());
}

/// Both ends in the context that has the tree.
fn pair_of(context: &Context, kind: QpType) -> Pair {
    Pair::between(context, context, kind, |builder| builder)
}

#[test]
fn queue_pairs_of_every_kind_keep_their_leaf() {
    let context = open();
    let scheduler = scheduler(&context);
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut applied = Applied::new(scheduler.clone());
        applied.apply(&groups()).unwrap();
        let mut pair = pair_of(&context, kind);
        let leaf = applied.leaf("g2").unwrap();
        pair.a.qp.attach_to(&scheduler, requests_of(leaf)).unwrap();
        assert!(leaf.is_used());
        // The leaf cannot be destroyed, and nothing is changed.
        let error = applied.clear().unwrap_err();
        assert!(
            error.step.is_none() && error.error.kind() == ErrorKind::Busy,
            "{error}"
        );
        // Dropped first, it is destroyed with its last user.
        drop(applied);
        assert_eq!(context.leaked(), 0);
        drop(pair);
    }
    assert_eq!(context.leaked(), 0);
}

#[test]
fn states_and_transports_that_cannot_are_distinguished() {
    let context = open();
    let scheduler = scheduler(&context);
    let root = scheduler.create_root().unwrap();
    let leaf = root.create_leaf(&ElementAttr::new()).unwrap();
    let responses = Leaves {
        requestor: None,
        responder: Some(&leaf),
    };
    let mut datagrams = pair_of(&context, QpType::Ud);
    let error = datagrams.a.qp.attach_to(&scheduler, responses).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");

    let mut pair = pair_of(&context, QpType::Rc);
    pair.a.qp.modify(&QpAttr::to(QpState::Error)).unwrap();
    let error = pair
        .a
        .qp
        .attach_to(&scheduler, requests_of(&leaf))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
    // A leaf of another context.
    let other = open();
    let mut stranger = pair_of(&other, QpType::Rc);
    let error = stranger
        .a
        .qp
        .attach_to(&scheduler, requests_of(&leaf))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn a_queue_pair_is_attached_before_it_is_connected() {
    let context = open();
    let scheduler = scheduler(&context);
    let root = scheduler.create_root().unwrap();
    let leaf = root.create_leaf(&ElementAttr::new().share(1)).unwrap();
    let (_pd, _cq, prepared) = Side::prepare(&context, QpType::Rc, |builder| builder);
    let mut qp = prepared.into_raw();
    let error = qp.attach_to(&scheduler, requests_of(&leaf)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
    let init = QpAttr::to(QpState::Init)
        .port(1)
        .pkey_index(0)
        .access(uverbs::AccessFlags::empty());
    qp.modify(&init).unwrap();
    qp.attach_to(&scheduler, requests_of(&leaf)).unwrap();
    assert!(leaf.is_used());
    drop(qp);
    assert!(!leaf.is_used());
    leaf.destroy().unwrap();
}

#[test]
fn rates_are_refused_before_any_system_call() {
    let context = open();
    let pacing = context.mlx5().unwrap().caps().pacing;
    let mut pair = pair_of(&context, QpType::Rc);
    let error = pair
        .a
        .qp
        .modify_rate_limit(&RateLimit::kbps(1000))
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.errno()),
        (ErrorKind::Unsupported, None),
        "{error}"
    );
    // Kernels differ in what they support on InfiniBand.
    if !is_infiniband(&context) {
        assert!(pacing.qp_types.contains(QpType::RawPacket) && pacing.max_rate > 0);
    }
}

#[test]
fn places_in_the_table_of_rates_are_shared_unless_they_are_dedicated() {
    let context = open();
    let devx = context.mlx5().unwrap().devx().unwrap();
    let limit = RateLimit::kbps(100_000)
        .max_burst(20_000)
        .typical_packet(1024);
    let (one, same) = (
        devx.pace(&limit, false).unwrap(),
        devx.pace(&limit, false).unwrap(),
    );
    assert_eq!(one.index(), same.index());
    let other = devx.pace(&limit, true).unwrap();
    assert_ne!(other.index(), one.index());
    one.free().unwrap();
    drop((same, other));
    assert_eq!(context.leaked(), 0);
}
