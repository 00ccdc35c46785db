//! Queue pairs through their states: what is set is what a query returns, and an invalid transition
//! is explained.

use uverbs::attr::{Psn, QpAttr, QpAttrMask, QpCaps};
use uverbs::link::Mtu;
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::transition::is_legal;
use uverbs::{
    AccessFlags, AddressVector, ErrorKind, QpState, QpType, QueuePair, SendRequest, WcStatus,
};
use verbs_tests::{
    Driver, Pair, Registered, Side, drain, driver, next, nothing, open, own_address, raw,
};

const STATES: [QpState; 7] = [
    QpState::Reset,
    QpState::Init,
    QpState::ReadyToReceive,
    QpState::ReadyToSend,
    QpState::SendQueueDrained,
    QpState::SendQueueError,
    QpState::Error,
];

fn raw_qp(kind: QpType) -> (uverbs::ProtectionDomain, uverbs::CompletionQueue, QueuePair) {
    let (pd, cq, prepared) = Side::prepare(&open(), kind, |builder| builder);
    (pd, cq, prepared.into_raw())
}

/// A query returns at least what creation granted; before 6.3 it returns more.
fn holds(queried: QpCaps, granted: QpCaps) {
    assert!(
        queried.max_send_wr >= granted.max_send_wr && queried.max_recv_wr >= granted.max_recv_wr,
        "{queried:?} for {granted:?}"
    );
    let rest = |caps: QpCaps| (caps.max_send_sge, caps.max_recv_sge, caps.max_inline_data);
    assert_eq!(rest(queried), rest(granted));
}

/// A path to the queue pair itself.
fn own_path(qp: &QueuePair) -> AddressVector {
    own_address(qp.pd().context(), qp)
}

fn init(kind: QpType) -> QpAttr {
    let attr = QpAttr::to(QpState::Init).pkey_index(0).port(1);
    if kind == QpType::Ud {
        attr.qkey(0x1234)
    } else {
        attr.access(AccessFlags::REMOTE_READ)
    }
}

fn rtr(qp: &QueuePair) -> QpAttr {
    let attr = QpAttr::to(QpState::ReadyToReceive);
    if qp.kind() == QpType::Ud {
        return attr;
    }
    let attr = attr
        .av(own_path(qp))
        .path_mtu(Mtu::B512)
        .dest_qpn(qp.qp_num())
        .rq_psn(Psn::new(0x00ab_cdef).unwrap());
    if qp.kind() == QpType::Rc {
        attr.max_dest_rd_atomic(4)
            .min_rnr_timer(RnrTimer::code(7).unwrap())
    } else {
        attr
    }
}

fn rts(qp: &QueuePair) -> QpAttr {
    let attr = QpAttr::to(QpState::ReadyToSend).sq_psn(Psn::new(0x00ab_cdef).unwrap());
    if qp.kind() == QpType::Rc {
        attr.timeout(AckTimeout::code(18).unwrap())
            .retry_count(RetryCount::new(3).unwrap())
            .rnr_retry(RnrRetry::new(2).unwrap())
            .max_rd_atomic(2)
    } else {
        attr
    }
}

/// Brings a queue pair in RESET to `state`.
fn bring(qp: &mut QueuePair, state: QpState) {
    if state == QpState::Reset {
        return;
    }
    let to = |qp: &mut QueuePair, attr: QpAttr| qp.modify(&attr).unwrap();
    to(qp, init(qp.kind()));
    if state == QpState::Init {
        return;
    }
    let attr = rtr(qp);
    to(qp, attr);
    if state == QpState::ReadyToReceive {
        return;
    }
    let attr = rts(qp);
    to(qp, attr);
    match state {
        QpState::ReadyToSend => {}
        QpState::SendQueueDrained => drain_sends(qp),
        other => to(qp, QpAttr::to(other)),
    }
}

/// Moves to SQD, and waits until the requests under way are done.
fn drain_sends(qp: &mut QueuePair) {
    qp.modify(&QpAttr::to(QpState::SendQueueDrained)).unwrap();
    verbs_tests::until("a drained send queue", || {
        (!qp.query().unwrap().sq_draining).then_some(())
    });
}

#[test]
fn what_was_set_on_a_reliable_connection_is_what_a_query_returns() {
    let (_pd, _cq, mut qp) = raw_qp(QpType::Rc);
    assert_eq!(qp.query().unwrap().state, QpState::Reset);
    bring(&mut qp, QpState::ReadyToSend);
    let info = qp.query().unwrap();
    assert_eq!(info.state, QpState::ReadyToSend);
    assert_eq!((info.port, info.pkey_index), (1, 0));
    assert_eq!(
        info.access & AccessFlags::REMOTE_READ,
        AccessFlags::REMOTE_READ
    );
    assert!(!info.access.contains(AccessFlags::REMOTE_WRITE));
    assert_eq!(info.path_mtu, Mtu::B512);
    assert_eq!(info.dest_qpn, qp.qp_num());
    assert_eq!(info.rq_psn.raw(), 0x00ab_cdef);
    assert_eq!(info.sq_psn.raw(), 0x00ab_cdef);
    assert_eq!(info.timeout.raw(), 18);
    assert_eq!(info.retry_count.raw(), 3);
    assert_eq!(info.rnr_retry.raw(), 2);
    assert_eq!(info.min_rnr_timer.raw(), 7);
    assert_eq!((info.max_rd_atomic, info.max_dest_rd_atomic), (2, 4));
    holds(info.caps, qp.caps());
    assert!(!info.sq_draining);
    let ours = own_path(&qp);
    if let Some(ours) = ours.grh {
        let route = info.av.grh.expect("RoCE has a global route");
        assert_eq!((route.dgid, route.sgid_index), (ours.dgid, ours.sgid_index));
        assert_eq!(route.hop_limit, 64);
    } else {
        assert_eq!(info.av.dlid, ours.dlid);
    }
    assert_eq!(info.av.port, 1);
}

#[test]
fn what_was_set_on_datagrams_is_what_a_query_returns() {
    let (_pd, _cq, mut qp) = raw_qp(QpType::Ud);
    bring(&mut qp, QpState::ReadyToSend);
    let info = qp.query().unwrap();
    assert_eq!((info.state, info.qkey), (QpState::ReadyToSend, 0x1234));
    qp.modify(&QpAttr::to(QpState::ReadyToSend).qkey(0x77))
        .unwrap();
    assert_eq!(qp.query().unwrap().qkey, 0x77);
}

#[test]
fn settings_of_a_running_connection_can_be_changed() {
    let (_pd, _cq, mut qp) = raw_qp(QpType::Rc);
    bring(&mut qp, QpState::ReadyToSend);
    let more = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
    let change = QpAttr::to(QpState::ReadyToSend)
        .access(more)
        .min_rnr_timer(RnrTimer::code(12).unwrap());
    qp.modify(&change).unwrap();
    let info = qp.query().unwrap();
    assert!(info.access.contains(more));
    assert_eq!(info.min_rnr_timer.raw(), 12);
    // No kernel's driver drains the queue of a ConnectX (up to Linux 7.2).
    if driver() == Driver::Mlx5 {
        return;
    }
    // And while it is drained, the path as well.
    drain_sends(&mut qp);
    let change = QpAttr::to(QpState::SendQueueDrained).timeout(AckTimeout::code(9).unwrap());
    qp.modify(&change).unwrap();
    assert_eq!(qp.query().unwrap().timeout.raw(), 9);
}

/// Whether the state exists: no kernel's driver drains the queue of a ConnectX (up to Linux 7.2).
fn is_there(state: QpState) -> bool {
    driver() == Driver::Rxe || state != QpState::SendQueueDrained
}

/// The kernel and the library's table agree on every pair of states, with the attributes that each
/// transition requires.
#[test]
fn every_transition_is_what_the_table_says() {
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        for from in STATES {
            // Only a failed datagram or unreliable send leads to SQE.
            if from == QpState::SendQueueError || !is_there(from) {
                continue;
            }
            for to in STATES.into_iter().filter(|to| is_there(*to)) {
                let (_pd, _cq, mut qp) = raw_qp(kind);
                bring(&mut qp, from);
                let attr = match to {
                    QpState::Init => init(kind),
                    QpState::ReadyToReceive => rtr(&qp),
                    QpState::ReadyToSend if from == QpState::ReadyToReceive => rts(&qp),
                    other => QpAttr::to(other),
                };
                let expected = is_legal(from, to, kind, attr.mask());
                let result = qp.modify(&attr);
                assert_eq!(
                    result.is_ok(),
                    expected,
                    "{kind} {from} to {to}: {result:?}"
                );
                let now = if expected { to } else { from };
                assert_eq!(qp.query().unwrap().state, now, "{kind} {from} to {to}");
                if let Err(error) = result {
                    assert_eq!(
                        error.kind(),
                        ErrorKind::InvalidInput,
                        "{kind} {from} to {to}: {error}"
                    );
                    let text = error.to_string();
                    assert!(
                        text.contains("no transition"),
                        "{kind} {from} to {to}: {text}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_missing_or_superfluous_attribute_is_named() {
    let (_pd, _cq, mut qp) = raw_qp(QpType::Rc);
    let error = qp.modify(&QpAttr::to(QpState::Init).port(1)).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(text.contains(&QpAttrMask::PKEY_INDEX.to_string()), "{text}");
    assert!(
        text.contains(&QpAttrMask::ACCESS_FLAGS.to_string()),
        "{text}"
    );
    let error = qp.modify(&init(QpType::Rc).qkey(1)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("not allowed"), "{text}");
    assert!(text.contains(&QpAttrMask::QKEY.to_string()), "{text}");
    assert_eq!(qp.query().unwrap().state, QpState::Reset);
}

#[test]
fn values_that_the_device_does_not_have_are_refused() {
    let (_pd, _cq, mut qp) = raw_qp(QpType::Rc);
    let error = qp.modify(&init(QpType::Rc).port(9)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    bring(&mut qp, QpState::ReadyToReceive);
    let many = rts(&qp).max_rd_atomic(255);
    let error = qp.modify(&many).unwrap_err();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::InvalidInput | ErrorKind::LimitExceeded
        ),
        "{error}"
    );
    assert_eq!(qp.query().unwrap().state, QpState::ReadyToReceive);
}

#[test]
fn rxe_a_drained_queue_sends_again() {
    let mut pair = Pair::new(QpType::Rc);
    let to = Registered::local(&pair.b.pd, 64);
    for wr_id in 0..8 {
        raw::recv(&mut pair.b.qp, wr_id, &[to.sge(0, 64)]).unwrap();
    }
    let bytes: [&[u8]; 1] = [b"before"];
    let requests = [1, 2].map(|wr_id| SendRequest::send_inline(&bytes).wr_id(wr_id).signaled());
    raw::send(&mut pair.a.qp, &requests).unwrap();
    // Requests that were not begun when the queue is drained wait in it.
    assert_eq!(drain(&mut pair.a.cq, 2).len(), 2);
    drain_sends(&mut pair.a.qp);
    assert_eq!(pair.a.qp.state(), QpState::SendQueueDrained);
    // Posted while drained: waits.
    let bytes: [&[u8]; 1] = [b"after"];
    let request = SendRequest::send_inline(&bytes).wr_id(3).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    nothing(&mut pair.a.cq);
    pair.a.qp.modify(&QpAttr::to(QpState::ReadyToSend)).unwrap();
    // The next doorbell starts the queue again.
    raw::send(&mut pair.a.qp, &[request.wr_id(4)]).unwrap();
    let ids: Vec<_> = drain(&mut pair.a.cq, 2)
        .iter()
        .map(|done| done.wr_id)
        .collect();
    assert_eq!(ids, [3, 4]);
    assert_eq!(drain(&mut pair.b.cq, 4).len(), 4);
}

#[test]
fn an_error_flushes_both_queues_in_order() {
    let mut pair = Pair::with(QpType::Rc, |builder| {
        builder
            .rnr_retry(RnrRetry::new(7).unwrap())
            .retry_count(RetryCount::new(7).unwrap())
    });
    for wr_id in 10..15 {
        raw::recv(&mut pair.a.qp, wr_id, &[]).unwrap();
    }
    // b has no receives, so these stay.
    let requests = [1, 2, 3].map(|wr_id| SendRequest::send(&[]).wr_id(wr_id));
    raw::send(&mut pair.a.qp, &requests).unwrap();
    pair.a.qp.modify(&QpAttr::to(QpState::Error)).unwrap();
    let done = drain(&mut pair.a.cq, 8);
    assert!(
        done.iter().all(|done| done.status == WcStatus::Flushed),
        "{done:?}"
    );
    let ids = |from: u64, to: u64| {
        let of = done.iter().map(|done| done.wr_id);
        of.filter(|id| (from..to).contains(id)).collect::<Vec<_>>()
    };
    assert_eq!(ids(1, 4), [1, 2, 3]);
    assert_eq!(ids(10, 15), [10, 11, 12, 13, 14]);
    assert_eq!(pair.a.qp.query().unwrap().state, QpState::Error);
}

#[test]
fn a_reset_queue_pair_starts_again() {
    let mut pair = Pair::with(QpType::Rc, |builder| {
        builder
            .rnr_retry(RnrRetry::new(7).unwrap())
            .retry_count(RetryCount::new(7).unwrap())
    });
    let to = Registered::local(&pair.b.pd, 64);
    let (one, two) = (pair.a.qp.qp_num(), pair.b.qp.qp_num());
    for round in 0..5 {
        // Work that is discarded: sends without receives, receives without sends.
        let bytes: [&[u8]; 1] = [b"discarded"];
        let request = SendRequest::send_inline(&bytes).wr_id(1);
        raw::send(&mut pair.a.qp, &[request, request]).unwrap();
        raw::recv(&mut pair.a.qp, 2, &[]).unwrap();
        for side in [&mut pair.a, &mut pair.b] {
            side.qp.modify(&QpAttr::to(QpState::Reset)).unwrap();
            assert_eq!(side.qp.state(), QpState::Reset);
            nothing(&mut side.cq);
        }
        for (side, peer) in [(&mut pair.a, two), (&mut pair.b, one)] {
            side.qp.modify(&init(QpType::Rc)).unwrap();
            // Different numbers than before: packets of the former incarnation may still be under
            // way.
            let psn = Psn::new(0x1000 * (round + 1)).unwrap();
            let attr = rtr(&side.qp).dest_qpn(peer).rq_psn(psn);
            side.qp.modify(&attr).unwrap();
            let attr = rts(&side.qp).sq_psn(psn);
            side.qp.modify(&attr).unwrap();
        }
        let bytes: [&[u8]; 1] = [b"again"];
        raw::recv(&mut pair.b.qp, 5, &[to.sge(0, 64)]).unwrap();
        let request = SendRequest::send_inline(&bytes).wr_id(7).signaled();
        raw::send(&mut pair.a.qp, &[request]).unwrap();
        let sent = next(&mut pair.a.cq);
        assert_eq!(
            (sent.wr_id, sent.status),
            (7, WcStatus::Success),
            "round {round}"
        );
        let got = next(&mut pair.b.cq);
        assert_eq!((got.wr_id, got.byte_len), (5, 5), "round {round}");
        assert_eq!(to.get(0, 5), b"again");
    }
}

#[test]
fn sizes_are_granted_at_least() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(8).unwrap();
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let most = context.device_attr().max_sge;
        for (wr, sge, inline) in [(1, 1, 0), (5, 3, 64), (1000, most, 512), (16, 0, 0)] {
            let builder = pd
                .queue_pair(kind, &cq, &cq)
                .max_send_wr(wr)
                .max_recv_wr(wr)
                .max_send_sge(sge)
                .max_recv_sge(sge)
                .max_inline_data(inline);
            let mut qp = builder.build().unwrap().into_raw();
            let caps = qp.caps();
            assert!(caps.max_send_wr >= wr && caps.max_recv_wr >= wr, "{caps:?}");
            assert!(
                caps.max_send_sge >= sge && caps.max_recv_sge >= sge,
                "{caps:?}"
            );
            assert!(caps.max_inline_data >= inline, "{caps:?}");
            holds(qp.query().unwrap().caps, caps);
            assert_eq!(qp.kind(), kind);
        }
    }
}

type Set<'a> = &'a dyn Fn(uverbs::QueuePairBuilder<'_>) -> uverbs::QueuePairBuilder<'_>;

#[test]
fn rxe_has_three_transports() {
    let context = open();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    for kind in [QpType::RawPacket, QpType::XrcInitiator] {
        let error = pd.queue_pair(kind, &cq, &cq).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{kind}: {error}");
    }
}

#[test]
fn sizes_beyond_the_device_are_refused() {
    let context = open();
    let attr = context.device_attr();
    let (max_wr, max_sge) = (attr.max_qp_wr, attr.max_sge);
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(8).unwrap();
    let refused = |set: Set<'_>| {
        let builder = set(pd.queue_pair(QpType::Rc, &cq, &cq));
        builder.build().unwrap_err().kind()
    };
    let sets: [Set<'_>; 7] = [
        &|b| b.max_send_wr(max_wr + 1),
        &|b| b.max_recv_wr(u32::MAX),
        &|b| b.max_send_sge(max_sge + 1),
        &|b| b.max_recv_sge(max_sge + 1),
        &|b| b.max_inline_data(100_000),
        &|b| b.max_rd_atomic(255),
        &|b| b.max_dest_rd_atomic(255),
    ];
    for set in sets {
        assert_eq!(refused(set), ErrorKind::LimitExceeded);
    }
    for (kind, expected) in [
        (QpType::Driver, ErrorKind::Unsupported),
        (QpType::from_raw(99), ErrorKind::InvalidInput),
    ] {
        let error = pd.queue_pair(kind, &cq, &cq).build().unwrap_err();
        assert_eq!(error.kind(), expected, "{kind}: {error}");
    }
}

#[test]
fn queues_of_another_context_are_refused() {
    let (one, two) = (open(), open());
    let pd = one.alloc_pd().unwrap();
    let (own, foreign) = (one.create_cq(8).unwrap(), two.create_cq(8).unwrap());
    for (send, recv) in [(&own, &foreign), (&foreign, &own)] {
        let error = pd.queue_pair(QpType::Rc, send, recv).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}
