//! Single elements, on a kernel that answers by a script.

use std::sync::Arc;

use uverbs_core::{Errno, ErrorKind, Op};
use uverbs_uapi::mlx5_user_ioctl_cmds::*;

use crate::devx::Devx;
use crate::prm::{ElementAttr, ElementKind, GeneralCaps, Mailbox, QosCaps};
use crate::sched::{Node, Scheduler};
use crate::tests::scripted::Scripted;

/// A device that lets elements have shares of 100 at most, and rates.
fn scheduler(qos: QosCaps) -> (Arc<Scripted>, Scheduler) {
    let (kernel, file) = Scripted::new();
    let general = GeneralCaps {
        qos: true,
        ..GeneralCaps::default()
    };
    let devx = Devx::new(&file);
    (kernel, Scheduler::with_caps(devx, general, qos))
}

pub(super) fn all() -> QosCaps {
    QosCaps {
        nic_bw_share: true,
        nic_rate_limit: true,
        max_share: 100,
        element_types: u16::MAX,
        tsar_types: u16::MAX,
        ..QosCaps::default()
    }
}

/// The device gives the next objects this number.
pub(super) fn number(kernel: &Scripted, id: u32) {
    let reply = [[0; 4], [0; 4], id.to_be_bytes(), [0; 4]].concat();
    kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, &reply);
}

fn bytes<const N: usize>(commands: [Mailbox; N]) -> Vec<Vec<u8>> {
    commands.map(|command| command.as_bytes().to_vec()).into()
}

pub(super) const NONE: ElementAttr = ElementAttr::new();

#[test]
fn elements_are_created_changed_and_destroyed() {
    let (kernel, scheduler) = scheduler(all());
    number(&kernel, 7);
    let root = scheduler.create_root().unwrap();
    number(&kernel, 8);
    let node = root.create_node(&NONE.share(7)).unwrap();
    number(&kernel, 9);
    let leaf = node.create_leaf(&NONE.share(3).max_mbps(4096)).unwrap();
    assert_eq!((root.id(), node.id(), leaf.id()), (7, 8, 9));
    assert_eq!((root.is_root(), node.is_root()), (true, false));
    assert_eq!(
        kernel.take_inputs(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN),
        bytes([
            NONE.create(ElementKind::Tsar, 0),
            NONE.share(7).create(ElementKind::Tsar, 7),
            NONE.share(3)
                .max_mbps(4096)
                .create(ElementKind::QueueGroup, 8),
        ])
    );

    leaf.modify(&NONE.share(4)).unwrap();
    node.modify(&NONE.max_mbps(10)).unwrap();
    root.modify(&NONE).unwrap();
    let error = root.modify(&NONE.share(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(
        kernel.take_inputs(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN),
        bytes([
            NONE.share(4).modify(ElementKind::QueueGroup, 9),
            NONE.max_mbps(10).modify(ElementKind::Tsar, 8),
            NONE.modify(ElementKind::Tsar, 7),
        ])
    );

    kernel.take_calls();
    let refused = node.destroy().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Busy, "{refused}");
    assert_eq!(refused.error.op(), Op::DestroySchedElement);
    let node: Node = *refused.handle.unwrap();
    assert!(!leaf.is_used());
    let clone = leaf.clone();
    assert!(leaf.is_used());
    let refused = leaf.destroy().unwrap_err();
    assert_eq!(refused.error.op(), Op::DestroySchedElement);
    drop(clone);
    assert_eq!(kernel.take_calls(), [""; 0], "each is in use");
    refused.handle.unwrap().destroy().unwrap();
    node.destroy().unwrap();
    root.destroy().unwrap();
    assert_eq!(kernel.take_calls().len(), 3);
}

#[test]
fn what_a_device_cannot_do_is_not_requested() {
    let (kernel, full) = scheduler(all());
    let root = full.create_root().unwrap();
    kernel.take_calls();
    for error in [
        root.create_node(&NONE.share(101)).unwrap_err(),
        root.create_leaf(&NONE.share(101)).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
    let (_, shares) = scheduler(QosCaps {
        nic_rate_limit: false,
        ..all()
    });
    let limited = shares.create_root().unwrap();
    let error = limited.create_leaf(&NONE.max_mbps(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let (nothing, none) = scheduler(QosCaps::default());
    let error = none.create_root().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(nothing.take_calls(), [""; 0]);
    assert_eq!(kernel.take_calls(), [""; 0]);
    assert!(full.caps().nic_rate_limit && !shares.caps().nic_rate_limit);
}

#[test]
fn a_refusal_names_the_element() {
    let (kernel, scheduler) = scheduler(all());
    number(&kernel, 7);
    let root = scheduler.create_root().unwrap();
    let leaf = root.create_leaf(&NONE).unwrap();
    kernel.refuse("", Errno::INVAL);
    let error = root.create_leaf(&NONE.share(3).max_mbps(5)).unwrap_err();
    assert_eq!(error.op(), Op::CreateSchedElement);
    for fact in ["share 3", "max_mbps 5", "parent 7"] {
        assert!(error.to_string().contains(fact), "{error}");
    }
    let error = leaf.modify(&NONE.share(4)).unwrap_err();
    assert_eq!(error.op(), Op::ModifySchedElement);
    for fact in ["share 4", "id 7"] {
        assert!(error.to_string().contains(fact), "{error}");
    }
    kernel.accept();
}
