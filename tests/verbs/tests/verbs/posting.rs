//! How requests get into queues: batches, signals, inline data, full queues.

use std::sync::Arc;

use uverbs::recorder::{Body, Collector, Record};
use uverbs::time::{RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    Operation, Payload, PostError, QpState, QpType, RecvRequest, SendFlags, SendRequest, WcStatus,
};
use verbs_tests::{Driver, Pair, Registered, drain, driver, next, nothing, options, raw};

fn receives(pair: &mut Pair, to: &Registered, count: u64) {
    for wr_id in 0..count {
        raw::recv(&mut pair.b.qp, wr_id, &[to.sge(0, 64)]).unwrap();
    }
}

fn is_doorbell(record: &Record) -> bool {
    matches!(&record.body, Body::Command { command, .. }
        if command.full() == Some("IB_USER_VERBS_CMD_POST_SEND"))
}

#[test]
fn a_batch_is_rung_once_and_polling_rings_nothing() {
    let collector = Arc::new(Collector::new());
    let context = options()
        .record(collector.clone())
        .open(&verbs_tests::device_name())
        .unwrap();
    let mut pair = Pair::between(&context, &context, QpType::Rc, |builder| builder);
    let to = Registered::local(&pair.b.pd, 64);
    collector.take();
    receives(&mut pair, &to, 32);
    assert_eq!(collector.take(), [], "receives need no system call");

    let bytes: [&[u8]; 1] = [b"batched"];
    let requests: Vec<_> = (0..16)
        .map(|wr_id| SendRequest::send_inline(&bytes).wr_id(wr_id).signaled())
        .collect();
    raw::send(&mut pair.a.qp, &requests).unwrap();
    let mut batch = pair.a.qp.send_batch();
    for request in &requests {
        batch.push_inline(request).unwrap();
    }
    batch.submit().unwrap();
    let records = collector.take();
    // rxe's doorbell is a system call, a ConnectX's a store.
    let calls = match driver() {
        Driver::Rxe => 2,
        Driver::Mlx5 => 0,
    };
    assert_eq!(records.len(), calls, "{records:?}");
    assert!(records.iter().all(is_doorbell), "{records:?}");

    let done = drain(&mut pair.a.cq, 32);
    let ids: Vec<_> = done.iter().map(|done| done.wr_id).collect();
    assert_eq!(ids, (0..16).chain(0..16).collect::<Vec<_>>());
    drain(&mut pair.b.cq, 32);
    assert_eq!(collector.take(), [], "polling needs no system call");
    pair.a.qp.send_batch().submit().unwrap();
    assert_eq!(collector.take(), [], "nothing is rung for nothing");
}

#[test]
fn f27_a_batch_that_is_dropped_or_forgotten_sends_nothing() {
    let mut pair = Pair::new(QpType::Rc);
    let to = Registered::local(&pair.b.pd, 64);
    receives(&mut pair, &to, 4);
    let bytes: [&[u8]; 1] = [b"never"];
    let request = SendRequest::send_inline(&bytes).wr_id(1).signaled();
    let mut dropped = pair.a.qp.send_batch();
    dropped.push_inline(&request).unwrap();
    drop(dropped);
    let mut forgotten = pair.a.qp.send_batch();
    forgotten.push_inline(&request).unwrap();
    #[expect(clippy::mem_forget, reason = "what is tested")]
    std::mem::forget(forgotten);
    let bytes: [&[u8]; 1] = [b"sent"];
    let request = SendRequest::send_inline(&bytes).wr_id(2).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert_eq!(next(&mut pair.a.cq).wr_id, 2);
    assert_eq!(next(&mut pair.b.cq).byte_len, 4);
    assert_eq!(to.get(0, 4), b"sent");
    nothing(&mut pair.b.cq);
}

#[test]
fn a_batch_of_receives_appears_when_it_is_submitted() {
    let mut pair = Pair::with(QpType::Rc, |builder| {
        builder
            .rnr_retry(RnrRetry::new(7).unwrap())
            .min_rnr_timer(RnrTimer::code(1).unwrap())
            .retry_count(RetryCount::new(7).unwrap())
    });
    let to = Registered::local(&pair.b.pd, 64);
    let mut dropped = pair.b.qp.recv_batch();
    let scatter = [to.sge(0, 64)];
    raw::push_recv(
        &mut dropped,
        &RecvRequest {
            wr_id: 1,
            scatter: &scatter,
        },
    )
    .unwrap();
    drop(dropped);
    let bytes: [&[u8]; 1] = [b"late"];
    let request = SendRequest::send_inline(&bytes).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    nothing(&mut pair.a.cq);
    let mut batch = pair.b.qp.recv_batch();
    for wr_id in [2, 3] {
        raw::push_recv(
            &mut batch,
            &RecvRequest {
                wr_id,
                scatter: &scatter,
            },
        )
        .unwrap();
    }
    batch.submit().unwrap();
    assert_eq!(next(&mut pair.b.cq).wr_id, 2);
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
}

#[test]
fn a_list_stops_at_the_request_that_is_refused() {
    let mut pair = Pair::new(QpType::Rc);
    let to = Registered::local(&pair.b.pd, 64);
    receives(&mut pair, &to, 4);
    let bytes: [&[u8]; 1] = [b"good"];
    let good = SendRequest::send_inline(&bytes).signaled();
    let long = [0; 1000];
    let too_long: [&[u8]; 1] = [&long];
    let bad = SendRequest::send_inline(&too_long).signaled();
    let failed = raw::send(&mut pair.a.qp, &[good.wr_id(1), good.wr_id(2), bad, good]).unwrap_err();
    assert_eq!(failed.posted, 2);
    assert!(matches!(
        failed.error,
        PostError::InlineTooLong {
            requested: 1000,
            ..
        }
    ));
    let done = drain(&mut pair.a.cq, 2);
    assert_eq!([done[0].wr_id, done[1].wr_id], [1, 2]);
    nothing(&mut pair.a.cq);
}

#[test]
fn only_what_is_signaled_completes() {
    let mut pair = Pair::new(QpType::Rc);
    let to = Registered::local(&pair.b.pd, 64);
    let bytes: [&[u8]; 1] = [b"quiet"];
    let quiet = SendRequest::send_inline(&bytes);
    // Several times around the ring.
    for round in 0..40 {
        receives(&mut pair, &to, 8);
        let mut requests = vec![quiet; 7];
        requests.push(quiet.wr_id(round).signaled());
        raw::send(&mut pair.a.qp, &requests).unwrap();
        assert_eq!(next(&mut pair.a.cq).wr_id, round);
        drain(&mut pair.b.cq, 8);
    }
    nothing(&mut pair.a.cq);
}

#[test]
fn a_queue_that_signals_all_signals_all() {
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method's path is not general enough in its lifetime"
    )]
    let mut pair = Pair::with(QpType::Rc, |builder| builder.signal_all());
    assert_eq!(
        pair.a.qp.query().unwrap().sig_mode,
        uverbs::attr::SigMode::All
    );
    let to = Registered::local(&pair.b.pd, 64);
    receives(&mut pair, &to, 3);
    let bytes: [&[u8]; 1] = [b"loud"];
    let requests = [1, 2, 3].map(|wr_id| SendRequest::send_inline(&bytes).wr_id(wr_id));
    raw::send(&mut pair.a.qp, &requests).unwrap();
    let ids: Vec<_> = drain(&mut pair.a.cq, 3)
        .iter()
        .map(|done| done.wr_id)
        .collect();
    assert_eq!(ids, [1, 2, 3]);
}

#[test]
fn inline_data_up_to_the_limit_and_no_further() {
    let mut pair = Pair::with(QpType::Rc, |builder| {
        builder.max_inline_data(200).max_send_sge(1)
    });
    let max = pair.a.qp.caps().max_inline_data;
    assert!(max >= 200);
    let to = Registered::remote_all(&pair.b.pd, 1024);
    let data: Vec<u8> = (0..=max as usize).map(|at| at as u8).collect();
    for length in [0, 1, 63, 200, max as usize] {
        raw::recv(&mut pair.b.qp, 1, &[to.sge(0, 1024)]).unwrap();
        // In several entries, which need no slots of their own.
        let (one, rest) = data[..length].split_at(length / 3);
        let (two, three) = rest.split_at(rest.len() / 2);
        let parts = [one, two, &[], three];
        raw::send(
            &mut pair.a.qp,
            &[SendRequest::send_inline(&parts).signaled()],
        )
        .unwrap();
        assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
        assert_eq!(next(&mut pair.b.cq).byte_len as usize, length);
        assert_eq!(to.get(0, length), data[..length]);

        let write = Operation::Write(to.remote(512));
        let request = SendRequest::new(write, Payload::Inline(&parts)).signaled();
        raw::send(&mut pair.a.qp, &[request]).unwrap();
        assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
        assert_eq!(to.get(512, length), data[..length]);
    }
    let parts: [&[u8]; 1] = [&data];
    let failed = raw::send(&mut pair.a.qp, &[SendRequest::send_inline(&parts)]).unwrap_err();
    let requested = u64::from(max) + 1;
    assert_eq!(failed.error, PostError::InlineTooLong { requested, max });
}

#[test]
fn f22_a_full_send_queue_takes_no_more_until_requests_complete() {
    let mut pair = Pair::with(QpType::Rc, |builder| {
        builder
            .max_send_wr(8)
            .rnr_retry(RnrRetry::new(7).unwrap())
            .min_rnr_timer(RnrTimer::code(1).unwrap())
            .retry_count(RetryCount::new(7).unwrap())
    });
    let granted = pair.a.qp.caps().max_send_wr;
    assert!(granted >= 8);
    let bytes: [&[u8]; 1] = [b"full"];
    let request = SendRequest::send_inline(&bytes).signaled();
    // The peer has no receive, so nothing completes.
    let mut posted = 0;
    let error = loop {
        match raw::send(&mut pair.a.qp, &[request.wr_id(posted)]) {
            Ok(()) => posted += 1,
            Err(failed) => break failed.error,
        }
    };
    assert_eq!(error, PostError::QueueFull);
    assert!(posted >= u64::from(granted), "{posted} of {granted}");
    nothing(&mut pair.a.cq);
    let to = Registered::local(&pair.b.pd, 64);
    receives(&mut pair, &to, posted + 1);
    for wr_id in 0..posted {
        let done = next(&mut pair.a.cq);
        assert_eq!((done.wr_id, done.status), (wr_id, WcStatus::Success));
    }
    raw::send(&mut pair.a.qp, &[request.wr_id(99)]).unwrap();
    assert_eq!(next(&mut pair.a.cq).wr_id, 99);
}

#[test]
fn f22_a_full_receive_queue_takes_no_more() {
    let mut pair = Pair::with(QpType::Rc, |builder| builder.max_recv_wr(8));
    let granted = pair.b.qp.caps().max_recv_wr;
    let mut posted = 0;
    while raw::recv(&mut pair.b.qp, posted, &[]).is_ok() {
        posted += 1;
    }
    assert!(posted >= u64::from(granted) && granted >= 8);
    let failed = raw::recv(&mut pair.b.qp, 99, &[]).unwrap_err();
    assert_eq!(failed.error, PostError::QueueFull);
    raw::send(&mut pair.a.qp, &[SendRequest::send(&[]).signaled()]).unwrap();
    next(&mut pair.a.cq);
    assert_eq!(next(&mut pair.b.cq).wr_id, 0);
    raw::recv(&mut pair.b.qp, 99, &[]).unwrap();
}

#[test]
fn f21_requests_that_do_not_fit_are_refused_before_the_ring_is_touched() {
    let mut pair = Pair::with(QpType::Rc, |builder| {
        builder.max_send_sge(2).max_recv_sge(2).max_inline_data(0)
    });
    let memory = Registered::remote_all(&pair.a.pd, 64);
    let max = pair.a.qp.caps().max_send_sge;
    let many = vec![memory.sge(0, 1); max as usize + 1];
    let failed = raw::send(&mut pair.a.qp, &[SendRequest::send(&many)]).unwrap_err();
    assert_eq!(
        failed.error,
        PostError::TooManySges {
            requested: max + 1,
            max
        }
    );
    let max = pair.a.qp.caps().max_recv_sge;
    let many = vec![memory.sge(0, 1); max as usize + 1];
    let failed = raw::recv(&mut pair.a.qp, 0, &many).unwrap_err();
    assert_eq!(
        failed.error,
        PostError::TooManySges {
            requested: max + 1,
            max
        }
    );

    let parts = [memory.sge(0, 8)];
    let short = [memory.sge(0, 7)];
    let atomic = |offset, payload| {
        let remote = memory.remote(offset);
        SendRequest::new(Operation::FetchAdd { remote, add: 1 }, payload)
    };
    let base = memory.mr().address() % 8;
    for request in [
        atomic(8 - base + 4, Payload::Gather(&parts)),
        atomic(8 - base, Payload::Gather(&short)),
    ] {
        let failed = raw::send(&mut pair.a.qp, &[request]).unwrap_err();
        assert_eq!(failed.error, PostError::InvalidRequest);
    }
    // None of all that was sent.
    raw::recv(&mut pair.b.qp, 1, &[]).unwrap();
    raw::send(
        &mut pair.a.qp,
        &[SendRequest::send(&[]).wr_id(5).signaled()],
    )
    .unwrap();
    assert_eq!(next(&mut pair.a.cq).wr_id, 5);
    assert_eq!(next(&mut pair.b.cq).wr_id, 1);
}

#[test]
fn a_queue_pair_that_cannot_send_yet_refuses() {
    let context = verbs_tests::open();
    let (_pd, _cq, prepared) = verbs_tests::Side::prepare(&context, QpType::Rc, |builder| builder);
    let mut qp = prepared.into_raw();
    assert_eq!(qp.state(), QpState::Reset);
    let failed = raw::send(&mut qp, &[SendRequest::send(&[])]).unwrap_err();
    assert_eq!(failed.error, PostError::WrongState);
    let failed = raw::recv(&mut qp, 0, &[]).unwrap_err();
    assert_eq!(failed.error, PostError::WrongState);
}

#[test]
fn a_solicited_send_completes() {
    let mut pair = Pair::new(QpType::Rc);
    raw::recv(&mut pair.b.qp, 1, &[]).unwrap();
    let request = SendRequest::send(&[]).with(SendFlags::SOLICITED).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert!(next(&mut pair.a.cq).is_success());
    assert!(next(&mut pair.b.cq).is_success());
}
