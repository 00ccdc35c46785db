//! What a new program meets first: refusals where they belong, errors that read as one line, and
//! two sides that find each other.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use fake_tests::{Bench, PATIENCE};
use uverbs::address::{FlowLabel, PathBits, ServiceLevel};
use uverbs::attr::Ece;
use uverbs::exchange::{Exchange, Offer};
use uverbs::gid::GidReason;
use uverbs::rate::Rate;
use uverbs::time::AckTimeout;
use uverbs::{ErrorKind, QpState, QpType, QueuePairBuilder};

type Set = fn(QueuePairBuilder<'_>) -> QueuePairBuilder<'_>;

#[test]
fn what_the_device_does_not_have_is_refused_by_build_before_any_command() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    let before = bench.fake.objects().total();
    let reads = context.device_attr().max_qp_rd_atom;
    let sets: [(Set, ErrorKind, String); 6] = [
        (
            |b| b.port(9),
            ErrorKind::InvalidInput,
            "(argument port, port 9, ports 1)".into(),
        ),
        (
            |b| b.port(0),
            ErrorKind::InvalidInput,
            "(argument port, port 0, ports 1)".into(),
        ),
        (
            |b| b.max_rd_atomic(255),
            ErrorKind::LimitExceeded,
            format!("(max_rd_atomic 255, max {reads})"),
        ),
        (
            |b| b.max_dest_rd_atomic(255),
            ErrorKind::LimitExceeded,
            format!("(max_dest_rd_atomic 255, max {reads})"),
        ),
        (
            |b| b.pkey_index(999),
            ErrorKind::InvalidInput,
            "(argument pkey_index, pkey_index 999, entries ".into(),
        ),
        (
            |b| b.static_rate(Rate::from_raw(99)),
            ErrorKind::InvalidInput,
            "static_rate".into(),
        ),
    ];
    for (set, kind, said) in sets {
        let builder = set(pd.queue_pair(QpType::Rc, &cq, &cq).gid_index(1));
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.errno(), None, "the kernel was not asked: {error}");
        assert!(error.to_string().contains(&said), "{error}");
    }
    let error = ServiceLevel::new(16).unwrap_err();
    assert_eq!(
        error.to_string(),
        "service level 16 is out of range (at most 15)"
    );
    assert_eq!(bench.fake.objects().total(), before);
}

#[test]
fn a_shared_receive_queue_is_for_reliable_connections_and_datagrams() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    let srq = pd.create_srq(8, 1).unwrap();
    let build = |kind| pd.queue_pair(kind, &cq, &cq).gid_index(1).srq(&srq).build();
    for kind in [QpType::Rc, QpType::Ud] {
        drop(build(kind).unwrap());
    }
    let error = build(QpType::Uc).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    assert!(error.to_string().contains("RC, UD"), "{error}");
}

#[test]
fn the_path_has_what_was_set() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .gid_index(1)
        .static_rate(Rate::Gbps10)
        .flow_label(FlowLabel::new(0x1_2345).unwrap())
        .src_path_bits(PathBits::new(3).unwrap())
        .service_level(ServiceLevel::new(5).unwrap())
        .build()
        .unwrap();
    let path = prepared.path_to(&prepared.endpoint()).unwrap();
    assert_eq!(path.static_rate, Rate::Gbps10);
    assert_eq!((path.sl, path.src_path_bits), (5, 3));
    assert_eq!(path.grh.unwrap().flow_label.raw(), 0x1_2345);
    let endpoint = prepared.endpoint();
    let mut qp = prepared.handshake(endpoint).unwrap();
    let info = qp.query().unwrap();
    assert_eq!(info.timeout, AckTimeout::code(14).unwrap());
    assert_eq!(info.av.sl, 5);
}

#[test]
fn the_choice_of_the_gid_is_explained() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    let builder = || pd.queue_pair(QpType::Rc, &cq, &cq);
    let chosen = |builder: QueuePairBuilder<'_>| builder.build().unwrap().gid().unwrap();
    assert_eq!(chosen(builder().gid_index(1)).reason, GidReason::Index);
    let preferred = chosen(builder());
    assert_eq!(preferred.reason, GidReason::Preferred);
    // The port has no GID for this host's way to itself.
    let peer: IpAddr = "127.0.0.1".parse().unwrap();
    let off = chosen(builder().gid_index(1).peer(peer));
    assert_eq!(off.entry, preferred.entry);
    assert!(
        matches!(off.reason, GidReason::OffRoute { peer: named, .. } if named == peer),
        "{}",
        off.reason
    );
}

#[test]
fn a_refused_handshake_prints_one_line_and_no_tables() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .gid_index(1)
        .build()
        .unwrap();
    let mut elsewhere = prepared.endpoint();
    elsewhere.gid = None;
    let refused = prepared.handshake(elsewhere).unwrap_err();
    let line = format!("{refused:?}");
    assert_eq!(line, refused.to_string());
    assert!(line.starts_with("handshake: invalid argument ("), "{line}");
    let parts = format!("{refused:#?}");
    assert!(parts.starts_with("HandshakeError {"), "{parts}");
    assert!(parts.len() < 1000, "{parts}");
}

#[test]
fn rxe_does_not_moderate_completion_events() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let mut cq = context.create_cq(8).unwrap();
    let error = cq.moderate(16, Duration::from_micros(8)).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
}

#[test]
#[cfg_attr(miri, ignore = "sockets with time limits")]
fn two_sides_connect_by_an_exchange() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (one, other) = UnixStream::pair().unwrap();
    let side = |stream| {
        let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
        let prepared = pd
            .queue_pair(QpType::Rc, &cq, &cq)
            .gid_index(1)
            .build()
            .unwrap();
        let mut exchange = Exchange::new(stream, PATIENCE);
        let own = prepared.endpoint();
        let peer = exchange.offer(&Offer::of(own)).unwrap().endpoint().unwrap();
        let mut qp = prepared.handshake(peer).unwrap();
        exchange.ready().unwrap();
        let info = qp.query().unwrap();
        assert_eq!(
            (info.state, info.dest_qpn),
            (QpState::ReadyToSend, peer.qp_num)
        );
        own.qp_num
    };
    let (a, b) = std::thread::scope(|scope| {
        let peer = scope.spawn(|| side(other));
        (side(one), peer.join().unwrap())
    });
    assert_ne!(a, b);
}

/// ECE is asked for before the handshake, so that a refusal costs no connection.
#[test]
fn rxe_has_no_options_beyond_the_standard() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    let mut prepared = pd.queue_pair(QpType::Rc, &cq, &cq).build().unwrap();
    let options = Ece {
        vendor_id: Ece::MELLANOX,
        options: 1,
        comp_mask: 0,
    };
    let error = prepared.set_ece(&options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let own = prepared.endpoint();
    let qp = prepared.handshake(own).unwrap();
    assert_eq!(qp.state(), QpState::ReadyToSend);
}
