//! Messages that the network loses, duplicates, or leaves unacknowledged.

use mlx5_tests::Model;
use uverbs::time::{AckTimeout, RetryCount};
use uverbs::{Operation, Payload, QpState, QpType, SendRequest, WcStatus};
use verbs_tests::{Pair, Registered, drain, next, nothing, raw, requests_fail};

fn pair(retries: u8) -> Pair {
    Pair::with(QpType::Rc, |builder| {
        builder
            .retry_count(RetryCount::new(retries).unwrap())
            .timeout(AckTimeout::code(8).unwrap())
    })
}

#[test]
fn f28_what_is_lost_is_sent_again() {
    let mut pair = pair(7);
    let there = Registered::remote_all(&pair.b.pd, 64);
    for (fault, value) in [
        ("drop 0 3", 7_u64),
        ("lose-ack 0 3", 8),
        ("duplicate 0 3", 9),
    ] {
        Model::open().make(fault);
        let bytes = value.to_ne_bytes();
        let sges: [&[u8]; 1] = [&bytes];
        let request = SendRequest::new(Operation::Write(there.remote(0)), Payload::Inline(&sges));
        raw::send(&mut pair.a.qp, &[request.signaled()]).unwrap();
        let done = next(&mut pair.a.cq);
        assert!(done.is_success(), "{fault}: {done:?}");
        nothing(&mut pair.a.cq);
        assert_eq!(there.word(0), value, "{fault}");
    }
}

#[test]
fn f28_a_message_is_received_once_however_often_it_comes() {
    let mut pair = pair(7);
    let to = Registered::local(&pair.b.pd, 64);
    for wr_id in 0..4 {
        raw::recv(&mut pair.b.qp, wr_id, &[to.sge(0, 64)]).unwrap();
    }
    for (at, fault) in ["lose-ack 0 2", "duplicate 0 2", "drop 0 2"]
        .iter()
        .enumerate()
    {
        Model::open().make(fault);
        let bytes: [&[u8]; 1] = [b"once"];
        raw::send(
            &mut pair.a.qp,
            &[SendRequest::send_inline(&bytes).signaled()],
        )
        .unwrap();
        assert!(next(&mut pair.a.cq).is_success(), "{fault}");
        let got = next(&mut pair.b.cq);
        assert_eq!((got.wr_id, got.byte_len), (at as u64, 4), "{fault}");
        nothing(&mut pair.b.cq);
    }
}

#[test]
fn f28_an_atomic_whose_answer_is_lost_happens_once() {
    let mut pair = pair(7);
    let there = Registered::remote_all(&pair.b.pd, 72);
    let place = (8 - there.mr().address() % 8) % 8;
    let here = Registered::local(&pair.a.pd, 8);
    for before in 0..5_u64 {
        Model::open().make("lose-ack 0 2");
        let sges = [here.sge(0, 8)];
        let request = SendRequest::new(
            Operation::FetchAdd {
                remote: there.remote(place),
                add: 1,
            },
            Payload::Gather(&sges),
        );
        raw::send(&mut pair.a.qp, &[request.signaled()]).unwrap();
        let done = next(&mut pair.a.cq);
        assert!(done.is_success(), "{done:?}");
        assert_eq!(here.word(0), before);
    }
}

#[test]
fn f28_a_network_that_loses_everything_exhausts_the_retries() {
    requests_fail();
    for fault in ["drop", "lose-ack"] {
        let mut model = Model::open();
        let mut pair = pair(2);
        let there = Registered::remote_all(&pair.b.pd, 64);
        model.make(&format!("{fault} 0 1000000"));
        let bytes: [&[u8]; 1] = [b"hello?"];
        let request = SendRequest::new(Operation::Write(there.remote(0)), Payload::Inline(&bytes));
        raw::send(&mut pair.a.qp, &[request.wr_id(1), request.wr_id(2)]).unwrap();
        let done = drain(&mut pair.a.cq, 2);
        model.make(&format!("{fault} 0 0"));
        let said: Vec<_> = done.iter().map(|done| (done.wr_id, done.status)).collect();
        let expected = [(1, WcStatus::RetryExceeded), (2, WcStatus::Flushed)];
        assert_eq!(said, expected, "{fault}");
        assert_ne!(done[0].vendor_err, 0);
        assert_eq!(pair.a.qp.query().unwrap().state, QpState::Error);
    }
}
