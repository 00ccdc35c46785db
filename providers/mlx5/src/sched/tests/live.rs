//! Elements of a device as those of a tree.

use std::sync::Arc;

use uverbs_core::{ErrorKind, Op, UverbsFile};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN,
};

use super::elements::{NONE, all, number};
use crate::devx::Devx;
use crate::prm::{ElementKind, GeneralCaps};
use crate::sched::{Elements, LiveElement, Scheduler};
use crate::tests::scripted::Scripted;

fn scheduler(file: &Arc<UverbsFile>) -> Scheduler {
    let general = GeneralCaps {
        qos: true,
        ..GeneralCaps::default()
    };
    Scheduler::with_caps(Devx::new(file), general, all())
}

#[test]
fn nodes_have_elements_below_them_and_leaves_have_none() {
    let (kernel, file) = Scripted::new();
    let scheduler = scheduler(&file);
    number(&kernel, 7);
    let root = Elements::create_root(&scheduler).unwrap();
    number(&kernel, 8);
    let node = Elements::create(&scheduler, &root, false, &NONE.share(2)).unwrap();
    number(&kernel, 9);
    let leaf = Elements::create(&scheduler, &node, true, &NONE.share(3)).unwrap();
    assert_eq!((root.id(), node.id(), leaf.id()), (7, 8, 9));
    assert!(matches!(
        (&root, &node, &leaf),
        (
            LiveElement::Node(_),
            LiveElement::Node(_),
            LiveElement::Leaf(_)
        )
    ));
    let created = [
        NONE.create(ElementKind::Tsar, 0),
        NONE.share(2).create(ElementKind::Tsar, 7),
        NONE.share(3).create(ElementKind::QueueGroup, 8),
    ];
    assert_eq!(
        kernel.take_inputs(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN),
        created.map(|command| command.as_bytes().to_vec())
    );
    kernel.take_calls();
    for is_leaf in [false, true] {
        let error = Elements::create(&scheduler, &leaf, is_leaf, &NONE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert_eq!(error.op(), Op::CreateSchedElement);
        assert!(error.to_string().contains("parent a leaf"), "{error}");
    }
    assert_eq!(kernel.take_calls(), [""; 0]);
}

#[test]
fn elements_are_changed_and_destroyed_unless_they_are_in_use() {
    let (kernel, file) = Scripted::new();
    let scheduler = scheduler(&file);
    number(&kernel, 7);
    let root = Elements::create_root(&scheduler).unwrap();
    let node = Elements::create(&scheduler, &root, false, &NONE).unwrap();
    let leaf = Elements::create(&scheduler, &node, true, &NONE).unwrap();
    kernel.take_inputs(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN);
    Elements::modify(&scheduler, &node, &NONE.share(4)).unwrap();
    Elements::modify(&scheduler, &leaf, &NONE.share(5)).unwrap();
    let changed = [
        NONE.share(4).modify(ElementKind::Tsar, 7),
        NONE.share(5).modify(ElementKind::QueueGroup, 7),
    ];
    assert_eq!(
        kernel.take_inputs(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN),
        changed.map(|command| command.as_bytes().to_vec())
    );
    let user = leaf.clone();
    assert!(scheduler.is_used(&leaf) && !scheduler.is_used(&node));
    kernel.take_calls();
    let refused = Elements::destroy(&scheduler, leaf).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Busy, "{refused}");
    let leaf = *refused.handle.unwrap();
    assert!(matches!(leaf, LiveElement::Leaf(_)));
    let refused = Elements::destroy(&scheduler, node).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Busy, "{refused}");
    let node = *refused.handle.unwrap();
    assert!(matches!(node, LiveElement::Node(_)));
    assert_eq!(kernel.take_calls(), [""; 0]);
    drop(user);
    assert!(!scheduler.is_used(&leaf));
    for element in [leaf, node, root] {
        Elements::destroy(&scheduler, element).unwrap();
        assert_eq!(kernel.take_calls().len(), 1);
    }
}
