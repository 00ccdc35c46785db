//! What a queue pair accepts in each state, and how its state is known.

use uverbs_core::types::QpAttrMask;
use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_ATTR_CORE_OUT;
use uverbs_uapi::ib_user_verbs::ib_uverbs_query_qp_resp;

use super::*;

const STATES: [QpState; 7] = [
    QpState::Reset,
    QpState::Init,
    QpState::ReadyToReceive,
    QpState::ReadyToSend,
    QpState::SendQueueDrained,
    QpState::SendQueueError,
    QpState::Error,
];

/// The kernel answers queries with this state.
fn found(bench: &Bench, state: QpState) {
    let reply = ib_uverbs_query_qp_resp {
        qp_state: state.raw(),
        ..ib_uverbs_query_qp_resp::default()
    };
    bench.kernel.answer(UVERBS_ATTR_CORE_OUT, reply.as_bytes());
}

fn plain(bench: &Bench, kind: QpType) -> QueuePair {
    let init = bench.init(kind);
    bench.create(&QpExtra::default(), &init).unwrap()
}

fn is_unnumbered(target: &QueuePair) -> bool {
    let rare = target.rare.as_ref();
    rare.is_some_and(|rare| rare.unnumbered.is_some())
}

#[test]
fn requests_are_accepted_in_the_states_that_carry_them_out() {
    let bench = Bench::new();
    let mut qp = plain(&bench, QpType::Rc);
    for (at, state) in STATES.into_iter().enumerate() {
        qp.entered(state);
        assert_eq!(put(&mut qp).is_ok(), at >= 3, "{state}");
        qp.abort_send();
        assert_eq!(posting::put_receive(&mut qp, 1).is_ok(), at >= 1, "{state}");
        qp.abort_recv();
    }
}

#[test]
fn a_state_that_is_queried_becomes_the_known_one() {
    let bench = Bench::new();
    let mut qp = plain(&bench, QpType::Rc);
    let caps = qp.base().caps;
    for state in STATES.into_iter().rev().take(6) {
        found(&bench, state);
        let info = qp.query(QpAttrMask::STATE).unwrap();
        assert_eq!((info.state, qp.base().state), (state, state));
        assert_eq!(info.caps, caps);
        let sends = !matches!(state, QpState::Init | QpState::ReadyToReceive);
        assert_eq!(put(&mut qp).is_ok(), sends, "{state}");
        qp.abort_send();
    }
    bench.kernel.refuse("", Errno::INVAL);
    qp.query(QpAttrMask::STATE).unwrap_err();
}

#[test]
fn a_reset_that_another_made_is_repeated_before_anything_else() {
    let bench = Bench::new();
    let mut qp = sending(plain(&bench, QpType::Rc));
    found(&bench, QpState::Reset);
    qp.query(QpAttrMask::STATE).unwrap();
    assert_eq!(qp.base().state, QpState::Reset);
    bench.kernel.take_calls();
    let error = qp.modify(&initialised()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
    assert!(error.known_hint().unwrap().contains("reset or destroy"));
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
    qp.modify(&QpAttr::to(QpState::Reset)).unwrap();
    qp.modify(&initialised()).unwrap();
    assert_eq!(qp.base().state, QpState::Init);
}

#[test]
fn a_transition_that_no_kernel_makes_is_refused_with_its_reason() {
    let bench = Bench::new();
    let mut qp = plain(&bench, QpType::Rc);
    bench.kernel.take_calls();
    let error = qp.modify(&QpAttr::to(QpState::ReadyToSend)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    for fact in ["from ", "to ", "reason "] {
        assert!(error.to_string().contains(fact), "{error}");
    }
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
    assert_eq!(qp.base().state, QpState::Reset);
    // From the state that the caller names.
    let attr = QpAttr::to(QpState::Init).cur_state(QpState::ReadyToSend);
    let error = qp.modify(&attr).unwrap_err();
    let named = format!("from {}, to {}", QpState::ReadyToSend, QpState::Init);
    assert!(error.to_string().contains(&named), "{error}");
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
}

#[test]
fn outstanding_reads_are_limited_by_the_device() {
    let bench = Bench::with(|replies| replies.device.base.max_qp_rd_atom = 16);
    let mut qp = plain(&bench, QpType::Rc);
    qp.modify(&initialised()).unwrap();
    qp.entered(QpState::ReadyToReceive);
    let sending = |reads| {
        QpAttr::to(QpState::ReadyToSend)
            .sq_psn(Psn::default())
            .timeout(uverbs_core::types::AckTimeout::default())
            .retry_count(uverbs_core::types::RetryCount::default())
            .rnr_retry(uverbs_core::types::RnrRetry::default())
            .max_rd_atomic(reads)
    };
    bench.kernel.take_calls();
    let error = qp.modify(&sending(17)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
    qp.modify(&sending(16)).unwrap();
    assert_eq!(qp.base().state, QpState::ReadyToSend);
}

#[test]
fn a_raw_packet_queue_pair_whose_reset_failed_may_be_half_reset() {
    let bench = Bench::new();
    let mut qp = sending(plain(&bench, QpType::RawPacket));
    bench.kernel.refuse("", Errno::INVAL);
    let reset = QpAttr::to(QpState::Reset);
    qp.modify(&reset).unwrap_err();
    bench.kernel.accept();
    let error = qp.modify(&QpAttr::to(QpState::Error)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
    qp.modify(&reset).unwrap();
    assert_eq!(qp.base().state, QpState::Reset);
}

#[test]
fn a_targets_number_is_registered_once_it_is_known() {
    let bench = Bench::with(|replies| replies.opened.cqe_version = 0);
    let init = QpInit {
        srq: Some(Link::new(&bench.srq, &bench.receives)),
        ..bench.init(QpType::Driver)
    };
    let mut target = bench.create(&QpExtra::dc_target(1), &init).unwrap();
    assert_eq!(bench.told().uidx, crate::tracker::table::NO_NUMBER);
    assert!(is_unnumbered(&target));
    target.modify(&QpAttr::to(QpState::Init)).unwrap();
    assert!(is_unnumbered(&target));
    let reply = mlx5_ib_modify_qp_resp {
        response_length: 8,
        dctn: 0x55,
        ..mlx5_ib_modify_qp_resp::default()
    };
    bench.kernel.answer_by_driver(reply.as_bytes());
    target.modify(&QpAttr::to(QpState::ReadyToReceive)).unwrap();
    assert!(!is_unnumbered(&target));
    assert_eq!(
        (target.base().number, target.base().state),
        (0x55, QpState::ReadyToReceive)
    );
}
