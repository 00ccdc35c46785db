//! The queue pair builder: its defaults as the kernel reports them, its setters, its refusals.

use std::time::Duration;

use uverbs::attr::{Ece, Psn};
use uverbs::error::Op;
use uverbs::gid::GidType;
use uverbs::link::Mtu;
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AccessFlags, Context, ErrorKind, ProtectionDomain, QpState, QpType, QueuePairBuilder,
    QueuePairEndpoint, SendRequest, WcStatus,
};
use verbs_tests::{Registered, is_infiniband, next, open, raw};

fn parts() -> (Context, ProtectionDomain, uverbs::CompletionQueue) {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(64).unwrap();
    (context, pd, cq)
}

/// Builds, connects to itself, and queries the kernel.
fn connected(
    set: impl Fn(QueuePairBuilder<'_>) -> QueuePairBuilder<'_>,
) -> (uverbs::QueuePair, uverbs::attr::QpInfo) {
    let (_context, pd, cq) = parts();
    let builder = set(pd.queue_pair(QpType::Rc, &cq, &cq));
    let prepared = builder.build().unwrap();
    let own = prepared.endpoint();
    let mut qp = prepared.handshake(own).unwrap();
    let info = qp.query().unwrap();
    (qp, info)
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let (qp, info) = connected(|builder| builder);
    assert_eq!(info.state, QpState::ReadyToSend);
    assert_eq!(
        info.access.difference(AccessFlags::LOCAL_WRITE),
        AccessFlags::empty()
    );
    assert_eq!(info.min_rnr_timer.raw(), 16);
    assert_eq!(info.timeout.raw(), 14);
    assert_eq!(info.retry_count.raw(), 6);
    assert_eq!(info.rnr_retry.raw(), 6);
    assert_eq!((info.max_rd_atomic, info.max_dest_rd_atomic), (1, 1));
    assert_eq!((info.port, info.pkey_index), (1, 0));
    assert!(info.caps.max_send_wr >= 16 && info.caps.max_recv_wr >= 16);
    assert_eq!(info.sig_mode, uverbs::attr::SigMode::Requested);
    let endpoint = qp.endpoint();
    assert_eq!(info.sq_psn, endpoint.psn);
    assert_eq!(info.rq_psn, endpoint.psn);
    assert_eq!(endpoint.qp_num, qp.qp_num());
    let port = qp.pd().context().query_port(1).unwrap();
    assert_eq!(info.path_mtu, port.active_mtu);
}

#[test]
fn roce_the_gid_is_a_routable_one_of_roce_v2() {
    let (context, pd, cq) = parts();
    let prepared = pd.queue_pair(QpType::Rc, &cq, &cq).build().unwrap();
    let gid = prepared.endpoint().gid.unwrap();
    let table = context.gid_table().unwrap();
    assert!(!gid.is_link_local());
    assert!(
        table
            .iter()
            .any(|entry| entry.gid == gid && entry.gid_type == GidType::RoceV2),
        "{gid} in {table:?}"
    );
    // Another one on request.
    for entry in &table {
        let builder = pd.queue_pair(QpType::Rc, &cq, &cq);
        let prepared = builder.gid_index(entry.index as u8).build().unwrap();
        assert_eq!(prepared.endpoint().gid, Some(entry.gid));
    }
    let empty = (0..=255).find(|index| table.iter().all(|entry| entry.index != u32::from(*index)));
    let builder = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .gid_index(empty.unwrap());
    let error = builder.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let error = builder.port(2).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn what_is_set_is_what_the_kernel_has() {
    let (qp, info) = connected(|builder| {
        builder
            .allow_remote_rw()
            .min_rnr_timer(RnrTimer::code(31).unwrap())
            .timeout(AckTimeout::code(14).unwrap())
            .retry_count(RetryCount::new(7).unwrap())
            .rnr_retry(RnrRetry::new(0).unwrap())
            .max_rd_atomic(4)
            .max_dest_rd_atomic(16)
            .path_mtu(Mtu::B256)
            .psn(Psn::new(0x12_3456).unwrap())
            .traffic_class(0x20)
            .hop_limit(3)
            .signal_all()
    });
    let expected = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
    // Local access is not an attribute of queue pairs; some drivers return it all the same.
    assert_eq!(info.access.difference(AccessFlags::LOCAL_WRITE), expected);
    assert_eq!((info.min_rnr_timer.raw(), info.timeout.raw()), (31, 14));
    assert_eq!((info.retry_count.raw(), info.rnr_retry.raw()), (7, 0));
    assert_eq!((info.max_rd_atomic, info.max_dest_rd_atomic), (4, 16));
    assert_eq!(info.path_mtu, Mtu::B256);
    assert_eq!(qp.endpoint().psn.raw(), 0x12_3456);
    if !is_infiniband(qp.pd().context()) {
        let route = info.av.grh.unwrap();
        assert_eq!(route.traffic_class, 0x20);
        // The kernel uses the route's (ib_resolve_unicast_gid_dmac).
        assert_eq!(route.hop_limit, 64);
    }
    assert_eq!(info.sig_mode, uverbs::attr::SigMode::All);
}

#[test]
fn times_can_be_given_as_durations() {
    let (_, info) = connected(|builder| {
        builder
            .timeout(AckTimeout::from_duration(Duration::from_millis(67)))
            .min_rnr_timer(RnrTimer::from_duration(Duration::from_micros(2560)).unwrap())
    });
    // 4.096 µs · 2^14 = 67.1 ms.
    assert_eq!(info.timeout.raw(), 14);
    assert_eq!(info.min_rnr_timer.raw(), 16);
    let (_, info) = connected(|builder| {
        builder
            .timeout(AckTimeout::INFINITE)
            .min_rnr_timer(RnrTimer::LONGEST)
            .retry_count(RetryCount::new(0).unwrap())
    });
    assert_eq!((info.timeout.raw(), info.min_rnr_timer.raw()), (0, 0));
    assert_eq!(info.retry_count.raw(), 0);
}

#[test]
fn numbers_that_do_not_exist_are_refused_where_they_are_made() {
    let (_context, pd, cq) = parts();
    let refused = [
        RetryCount::new(8).unwrap_err(),
        RnrRetry::new(8).unwrap_err(),
        AckTimeout::code(32).unwrap_err(),
        RnrTimer::code(32).unwrap_err(),
        RnrTimer::from_duration(Duration::from_secs(1)).unwrap_err(),
    ];
    // What a program that builds them with `?` returns.
    let kinds = refused.map(|error| uverbs::Error::from(error).kind());
    assert_eq!(kinds, [ErrorKind::LimitExceeded; 5]);
    let prepared = pd.queue_pair(QpType::Rc, &cq, &cq).build().unwrap();
    let own = prepared.endpoint();
    let info = prepared.handshake(own).unwrap().query().unwrap();
    assert_eq!((info.retry_count.raw(), info.rnr_retry.raw()), (6, 6));
}

#[test]
fn roce_a_failed_handshake_leaves_a_queue_pair_that_can_be_tried_again() {
    let (_context, pd, mut cq) = parts();
    let builder = pd.queue_pair(QpType::Rc, &cq, &cq);
    let prepared = builder
        .timeout(AckTimeout::code(14).unwrap())
        .max_inline_data(16)
        .build()
        .unwrap();
    let own = prepared.endpoint();
    let without_gid = QueuePairEndpoint { gid: None, ..own };
    let failed = prepared.handshake(without_gid).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput, "{failed}");
    // There is no such address, and the kernel finds that out.
    let far_away = QueuePairEndpoint {
        gid: Some("::ffff:10.250.0.1".parse().unwrap()),
        ..own
    };
    let failed = failed.prepared.handshake(far_away).unwrap_err();
    assert!(failed.error.errno().is_some(), "{failed}");
    assert_eq!(failed.prepared.endpoint(), own);
    let mut qp = failed.prepared.handshake(own).unwrap();
    let memory = Registered::local(&pd, 64);
    raw::recv(&mut qp, 1, &[memory.sge(0, 64)]).unwrap();
    let bytes: [&[u8]; 1] = [b"third try"];
    raw::send(&mut qp, &[SendRequest::send_inline(&bytes)]).unwrap();
    assert_eq!(next(&mut cq).status, WcStatus::Success);
    assert_eq!(memory.get(0, 9), b"third try");
}

#[test]
fn handshake_and_activation_are_for_their_transports() {
    let (_context, pd, cq) = parts();
    let datagrams = pd.queue_pair(QpType::Ud, &cq, &cq).build().unwrap();
    let own = datagrams.endpoint();
    let failed = datagrams.handshake(own).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Unsupported);
    let mut qp = failed.prepared.activate().unwrap();
    assert_eq!(qp.query().unwrap().state, QpState::ReadyToSend);
    let connected = pd.queue_pair(QpType::Uc, &cq, &cq).build().unwrap();
    let failed = connected.activate().unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Unsupported);
}

#[test]
fn one_builder_builds_many() {
    let (_context, pd, cq) = parts();
    let builder = pd.queue_pair(QpType::Rc, &cq, &cq).max_send_wr(3);
    let all: Vec<_> = (0..5).map(|_| builder.build().unwrap()).collect();
    for (at, one) in all.iter().enumerate() {
        assert!(all[..at].iter().all(|other| other.qp_num() != one.qp_num()));
    }
    let psns: Vec<_> = all.iter().map(|one| one.endpoint().psn).collect();
    assert!(psns.iter().any(|psn| *psn != psns[0]), "random: {psns:?}");
}

#[test]
fn an_endpoint_travels_as_text_and_as_bytes() {
    let (_context, pd, cq) = parts();
    let own = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .build()
        .unwrap()
        .endpoint();
    assert_eq!(own.to_string().parse(), Ok(own));
    assert_eq!(QueuePairEndpoint::from_bytes(&own.to_bytes()), Some(own));
}

#[test]
fn rxe_has_nothing_beyond_the_standard_to_agree_to() {
    let (_context, pd, cq) = parts();
    let mut prepared = pd.queue_pair(QpType::Rc, &cq, &cq).build().unwrap();
    let error = prepared.ece().unwrap_err();
    assert_eq!(
        (error.kind(), error.op()),
        (ErrorKind::Unsupported, Op::QueryEce)
    );
    let peer = Ece {
        vendor_id: Ece::MELLANOX,
        options: 0x1000_0001,
        comp_mask: 0,
    };
    let error = prepared.set_ece(&peer).unwrap_err();
    assert_eq!(
        (error.kind(), error.op()),
        (ErrorKind::Unsupported, Op::SetEce)
    );
    let builder = pd.queue_pair(QpType::Rc, &cq, &cq);
    let error = builder.ece(peer).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
