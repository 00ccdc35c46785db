//! The two functions of the machine.

use mlx5_tests::Model;
use uverbs::{QpType, SendRequest};
use verbs_tests::{Pair, Registered, device_name, next, open_named, peer_name, raw};

/// Sends a message between the functions, in both directions, on each connected transport.
fn between(kind: QpType) {
    let (one, other) = (open_named(&device_name()), open_named(&peer_name()));
    let mut pair = Pair::between(&one, &other, kind, |builder| builder);
    let sent = Registered::local(&pair.a.pd, 4096);
    let got = Registered::local(&pair.b.pd, 4096);
    sent.fill(|at| u8::try_from(at % 251).unwrap());
    raw::recv(&mut pair.b.qp, 7, &[got.sge(0, 4096)]).unwrap();
    raw::send(
        &mut pair.a.qp,
        &[SendRequest::send(&[sent.sge(0, 4096)]).wr_id(3).signaled()],
    )
    .unwrap();
    let done = next(&mut pair.a.cq);
    assert!(done.is_success() && done.wr_id == 3, "{done:?}");
    let done = next(&mut pair.b.cq);
    assert!(
        done.is_success() && done.wr_id == 7 && done.byte_len == 4096,
        "{done:?}"
    );
    assert_eq!(got.all(), sent.all());
}

#[test]
fn reliable_connections_cross_the_switch() {
    between(QpType::Rc);
}

#[test]
fn unreliable_connections_cross_the_switch() {
    between(QpType::Uc);
}

/// The model is reachable, and observes what a test does.
#[test]
fn the_model_counts_what_a_test_makes() {
    let mut model = Model::open();
    let reports = model.ask("reports");
    let before = model.ask("census 0");
    let pair = Pair::new(QpType::Rc);
    let during = model.ask("census 0");
    assert_ne!(before, during, "two queue pairs more");
    drop(pair);
    assert_eq!(model.ask("reports"), reports);
}
