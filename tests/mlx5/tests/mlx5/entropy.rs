//! What spreads packets over links: source ports of UDP, and ports of bonds, which the software
//! ConnectX does not have.

use uverbs::mlx5::devx::Devx;
use uverbs::mlx5::prm::{Mailbox, field, opcode, word};
use uverbs::{ErrorKind, QpType, QueuePair};
use verbs_tests::Pair;

/// The source port that the device has for a queue pair.
fn source_port(qp: &QueuePair) -> u32 {
    let mut query = Mailbox::command(opcode::QUERY_QP, 0, 16);
    query.set(word(0x08), qp.qp_num());
    let adapter = qp.pd().context().mlx5().unwrap();
    let reply = adapter.query_queue(qp, &query, 0x110).unwrap();
    reply.get(field(0x50, 15, 0))
}

#[test]
fn roce_a_connection_gets_another_source_port() {
    for kind in [QpType::Rc, QpType::Uc] {
        let mut pair = Pair::new(kind);
        let before = source_port(&pair.b.qp);
        pair.a.qp.set_udp_source_port(0xc123).unwrap();
        assert_eq!(source_port(&pair.a.qp), 0xc123);
        assert_eq!(source_port(&pair.b.qp), before);
        pair.a.qp.set_udp_source_port(0xffff).unwrap();
        assert_eq!(source_port(&pair.a.qp), 0xffff);
    }
    let error = Pair::new(QpType::Ud).a.qp.set_udp_source_port(0xc123);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn ib_packets_have_no_source_port() {
    let error = Pair::new(QpType::Rc).a.qp.set_udp_source_port(0xc123);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_single_port_is_no_bond() {
    let mut pair = Pair::new(QpType::Rc);
    for error in [
        pair.a.qp.lag_port().map(drop).unwrap_err(),
        pair.a.qp.set_lag_port(1).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

#[test]
fn numbers_of_queue_pairs_are_reserved_where_the_device_does() {
    let context = verbs_tests::open();
    let devx: Devx = context.mlx5().unwrap().devx().unwrap();
    let error = devx.reserve_numbers().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
