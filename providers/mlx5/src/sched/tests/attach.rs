//! Queue pairs attached to leaves, on a kernel that answers by a script.

use std::sync::Arc;

use uverbs_core::types::{QpState, QpType};
use uverbs_core::{Errno, ErrorKind, Object, Op, cmd};
use uverbs_uapi::mlx5_user_ioctl_cmds::MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN;

use super::elements::{NONE, all, number};
use crate::devx::Devx;
use crate::prm::{GeneralCaps, QosCaps};
use crate::sched::{Attachable, Leaves, Scheduler};
use crate::tests::scripted::Scripted;

/// A device that schedules what `qos` says, and a queue pair of it.
fn device(qos: QosCaps) -> (Arc<Scripted>, Scheduler, Object) {
    let (kernel, file) = Scripted::new();
    let general = GeneralCaps {
        qos: true,
        qpc_extension: true,
        ..GeneralCaps::default()
    };
    let qp = Object::new(&file, &cmd::qp::KIND, 0x9b, []);
    let scheduler = Scheduler::with_caps(Devx::new(&file), general, qos);
    (kernel, scheduler, qp)
}

fn both() -> QosCaps {
    QosCaps {
        nic_qp_scheduling: true,
        nic_sq_scheduling: true,
        ..all()
    }
}

fn of(object: &Object, kind: QpType, state: QpState) -> Attachable<'_> {
    Attachable {
        object,
        kind,
        state,
        number: 0x123,
        send_queue: (kind == QpType::RawPacket).then_some(0x45),
    }
}

#[test]
fn a_queue_pair_keeps_its_leaves_until_it_gets_others() {
    let (kernel, scheduler, qp) = device(both());
    let root = scheduler.create_root().unwrap();
    number(&kernel, 0x0102_0304);
    let [first, second] = [0, 1].map(|_| root.create_leaf(&NONE).unwrap());
    let sending = of(&qp, QpType::Rc, QpState::ReadyToSend);
    let leaves = |requestor, responder| Leaves {
        requestor,
        responder,
    };
    kernel.take_inputs(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN);
    scheduler
        .attach(&sending, leaves(Some(&first), Some(&second)))
        .unwrap();
    assert_eq!((first.is_used(), second.is_used()), (true, true));
    let [command]: [Vec<u8>; 1] = kernel
        .take_inputs(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN)
        .try_into()
        .unwrap();
    let names = |id: u32| {
        command
            .windows(4)
            .filter(|at| **at == id.to_be_bytes())
            .count()
    };
    assert_eq!(names(0x0102_0304), 2, "both leaves have this number");
    kernel.refuse("", Errno::INVAL);
    let error = scheduler.attach(&sending, Leaves::default()).unwrap_err();
    assert_eq!(error.op(), Op::AttachSchedElement);
    assert_eq!((first.is_used(), second.is_used()), (true, true));
    kernel.accept();
    scheduler
        .attach(&sending, leaves(Some(&second), None))
        .unwrap();
    assert_eq!((first.is_used(), second.is_used()), (false, true));
    scheduler.attach(&sending, Leaves::default()).unwrap();
    assert_eq!((first.is_used(), second.is_used()), (false, false));
}

#[test]
fn transports_and_states_that_can_be_attached() {
    let (kernel, scheduler, qp) = device(both());
    let leaf = scheduler.create_root().unwrap().create_leaf(&NONE).unwrap();
    let requests = Leaves {
        requestor: Some(&leaf),
        responder: None,
    };
    let responses = Leaves {
        responder: Some(&leaf),
        ..requests
    };
    let tried = |kind, state, leaves| {
        kernel.take_calls();
        let outcome = scheduler.attach(&of(&qp, kind, state), leaves);
        let calls = kernel.take_calls().len();
        assert_eq!(calls, usize::from(outcome.is_ok()), "{kind} {state}");
        outcome.err().map(|error| error.kind())
    };
    let (init, sending) = (QpState::Init, QpState::ReadyToSend);
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        assert_eq!(tried(kind, init, requests), None);
        assert_eq!(tried(kind, sending, requests), None);
        for state in [QpState::Reset, QpState::ReadyToReceive, QpState::Error] {
            assert_eq!(tried(kind, state, requests), Some(ErrorKind::InvalidState));
        }
    }
    assert_eq!(tried(QpType::RawPacket, sending, requests), None);
    let early = tried(QpType::RawPacket, init, requests);
    assert_eq!(early, Some(ErrorKind::InvalidState));
    let other = tried(QpType::XrcInitiator, sending, requests);
    assert_eq!(other, Some(ErrorKind::Unsupported));
    assert_eq!(tried(QpType::Rc, sending, responses), None);
    for kind in [QpType::Uc, QpType::Ud, QpType::RawPacket] {
        let refused = tried(kind, sending, responses);
        assert_eq!(refused, Some(ErrorKind::InvalidInput));
    }
}

#[test]
fn what_a_device_does_not_schedule_is_refused() {
    let sending = |kind, qos, foreign| {
        let (kernel, scheduler, qp) = device(qos);
        let (_other, elsewhere, _) = device(qos);
        let of_leaf = if foreign { &elsewhere } else { &scheduler };
        let leaf = of_leaf.create_root().unwrap().create_leaf(&NONE).unwrap();
        let leaves = Leaves {
            requestor: Some(&leaf),
            responder: None,
        };
        kernel.take_calls();
        let outcome = scheduler.attach(&of(&qp, kind, QpState::ReadyToSend), leaves);
        assert_eq!(kernel.take_calls().len(), usize::from(outcome.is_ok()));
        outcome.err().map(|error| error.kind())
    };
    let only = |nic_qp_scheduling, nic_sq_scheduling| QosCaps {
        nic_sq_scheduling,
        nic_qp_scheduling,
        ..all()
    };
    let unsupported = Some(ErrorKind::Unsupported);
    assert_eq!(sending(QpType::Rc, only(true, false), false), None);
    assert_eq!(sending(QpType::Rc, only(false, true), false), unsupported);
    assert_eq!(sending(QpType::RawPacket, only(false, true), false), None);
    let lacking = sending(QpType::RawPacket, only(true, false), false);
    assert_eq!(lacking, unsupported);
    let foreign = sending(QpType::Rc, both(), true);
    assert_eq!(foreign, Some(ErrorKind::InvalidInput));
}
