//! Every call that creates, modifies and destroys queues, with invalid arguments.
#![allow(clippy::too_many_lines, reason = "a list of cases is as long as it is")]

use std::time::Duration;

use uverbs::ErrorKind::{
    Busy, InvalidInput, LimitExceeded, NotFound, PermissionDenied, Unsupported,
};
use uverbs::attr::{QpCreateFlags, SrqModify};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{Error, Notify, QpType, QueuePairBuilder};

use crate::support::looped::Looped;
use crate::support::refusal::Refusals;

/// Changes a setting.
type Set<'a> = &'a dyn Fn(QueuePairBuilder<'_>) -> QueuePairBuilder<'_>;

#[test]
fn f21_completion_queues() {
    let context = verbs_tests::open();
    let other = verbs_tests::open();
    let channel = context.create_completion_channel().expect("a channel");
    let strangers = other.create_completion_channel().expect("a channel");
    let max = context.device_attr().max_cqe;
    let mut looped = Looped::on(&context);
    let mut refusals = Refusals::on(&context);
    refusals.check("no entries", context.create_cq(0), &[InvalidInput]);
    for entries in [max + 1, 1 << 20, 1 << 31, u32::MAX] {
        refusals.check(
            &format!("{entries} entries"),
            context.create_cq(entries),
            &[LimitExceeded],
        );
    }
    refusals.any("as many as possible", context.create_cq(max));
    for vector in [context.completion_vectors(), 1 << 16, u32::MAX] {
        refusals.check(
            &format!("vector {vector}"),
            context.completion_queue(4).vector(vector).build(),
            &[InvalidInput],
        );
    }
    refusals.check(
        "another context's channel",
        context.completion_queue(4).channel(&strangers).build(),
        &[InvalidInput],
    );

    let mut cq = context
        .completion_queue(8)
        .channel(&channel)
        .build()
        .expect("a queue");
    refusals.forgive();
    refusals.check("resize to nothing", cq.resize(0), &[InvalidInput]);
    for entries in [max + 1, u32::MAX] {
        refusals.check(
            &format!("resize to {entries}"),
            cq.resize(entries),
            &[LimitExceeded],
        );
    }
    refusals.check(
        "events without a channel",
        looped.cq.request_notification(Notify::Any),
        &[InvalidInput],
    );
    refusals.hold(
        "no event at once",
        channel
            .event(Some(Duration::ZERO))
            .is_ok_and(|event| event.is_none()),
    );
    // Two entries are waiting; a queue of one has no room for them.
    for _ in 0..2 {
        looped.qp.recv_empty(0).expect("posted");
        looped.qp.post(uverbs::owned::Work::send()).expect("posted");
    }
    std::thread::sleep(Duration::from_millis(100));
    refusals.check(
        "resize to less than waits",
        looped.cq.resize(1),
        &[InvalidInput, LimitExceeded],
    );
    for _ in 0..4 {
        assert!(
            looped.finished().status().is_success(),
            "what waited is still there"
        );
    }
    let in_use = std::mem::replace(&mut looped.cq, cq);
    refusals.check("end of a queue in use", in_use.destroy(), &[Busy]);
    drop((looped, channel));
    refusals.forgive();
    refusals.end();
}

#[test]
fn f21_shared_receive_queues() {
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let (max_wr, max_sge) = (
        context.device_attr().max_srq_wr,
        context.device_attr().max_srq_sge,
    );
    let mut refusals = Refusals::on(&context);
    for (wr, sge) in [
        (0, 1),
        (1, 0),
        (0, 0),
        (max_wr + 1, 1),
        (1, max_sge + 1),
        (u32::MAX, u32::MAX),
        (1 << 31, 1),
        (1, 1 << 31),
    ] {
        refusals.check(
            &format!("{wr} requests of {sge}"),
            pd.create_srq(wr, sge),
            &[InvalidInput, LimitExceeded],
        );
    }
    for limit in [9, 1 << 20, u32::MAX] {
        refusals.check(
            &format!("limit {limit} of 8"),
            pd.shared_receive_queue(8).limit(limit).build(),
            &[LimitExceeded, InvalidInput],
        );
    }
    let mut srq = pd.create_srq(8, 1).expect("a queue");
    srq.modify(&SrqModify {
        max_wr: None,
        limit: Some(4),
    })
    .expect("armed");
    refusals.forgive();
    let before = srq.query().expect("its sizes");
    let size = srq.size().max_wr;
    for (wr, limit) in [
        (Some(0), None),
        (Some(max_wr + 1), None),
        (Some(u32::MAX), None),
        (Some(3), None),
        (None, Some(size + 1)),
        (None, Some(u32::MAX)),
        (Some(0), Some(2)),
        (Some(u32::MAX), Some(2)),
        (Some(64), Some(u32::MAX)),
        (Some(2), Some(3)),
    ] {
        let change = SrqModify { max_wr: wr, limit };
        refusals.check(
            &format!("{change:?}"),
            srq.modify(&change),
            &[InvalidInput, LimitExceeded],
        );
        let now = srq.query().expect("its sizes");
        refusals.hold(
            &format!("{change:?} changed nothing"),
            now == before && srq.size().max_wr == size,
        );
    }
    let mut shared = uverbs::owned::SharedReceiveQueue::new(srq);
    for buffer in pd.buffer_list(6, 64).expect("buffers") {
        shared.recv(buffer, 0).expect("posted");
    }
    refusals.forgive();
    let fewer = SrqModify {
        max_wr: Some(5),
        limit: None,
    };
    refusals.check(
        "a size below what waits",
        shared.modify(&fewer),
        &[InvalidInput, LimitExceeded],
    );
    let cq = context.create_cq(8).expect("a queue");
    let qp = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .srq(shared.queue())
        .build()
        .expect("a queue pair");
    refusals.forgive();
    refusals.check("end of a queue in use", shared.destroy(), &[Busy]);
    drop((qp, cq));
    refusals.forgive();
    refusals.end();
}

#[test]
fn f21_new_queue_pairs() {
    let context = verbs_tests::open();
    let other = verbs_tests::open();
    let (pd, strange_pd) = (
        context.alloc_pd().expect("a domain"),
        other.alloc_pd().expect("a domain"),
    );
    let (cq, strange_cq) = (
        context.create_cq(8).expect("a queue"),
        other.create_cq(8).expect("a queue"),
    );
    let strange_srq = strange_pd.create_srq(4, 1).expect("a queue");
    let device = context.device_attr();
    let (max_wr, max_sge) = (device.max_qp_wr, device.max_sge);
    let mut refusals = Refusals::on(&context);
    let build = |kind: QpType, set: Set<'_>| set(pd.queue_pair(kind, &cq, &cq)).build();
    for wr in [max_wr + 1, 1 << 24, 1 << 31, u32::MAX] {
        refusals.check(
            &format!("{wr} sends"),
            build(QpType::Rc, &|b| b.max_send_wr(wr)),
            &[LimitExceeded],
        );
        refusals.check(
            &format!("{wr} receives"),
            build(QpType::Rc, &|b| b.max_recv_wr(wr)),
            &[LimitExceeded],
        );
    }
    for sge in [max_sge + 1, 1 << 16, u32::MAX] {
        refusals.check(
            &format!("{sge} pieces to send"),
            build(QpType::Rc, &|b| b.max_send_sge(sge)),
            &[LimitExceeded],
        );
        refusals.check(
            &format!("{sge} pieces to receive"),
            build(QpType::Rc, &|b| b.max_recv_sge(sge)),
            &[LimitExceeded],
        );
    }
    for bytes in [513, 1 << 16, u32::MAX] {
        refusals.check(
            &format!("{bytes} inline"),
            build(QpType::Rc, &|b| b.max_inline_data(bytes)),
            &[LimitExceeded],
        );
    }
    refusals.any(
        "nothing at all",
        build(QpType::Rc, &|b| {
            b.max_send_wr(0)
                .max_recv_wr(0)
                .max_send_sge(0)
                .max_recv_sge(0)
        }),
    );
    for kind in [0, 1, 5, 6, 7, 8, 9, 10, 11, 77, 255, u32::MAX] {
        let kind = QpType::from_raw(kind);
        refusals.check(
            &format!("{kind:?}"),
            build(kind, &|builder| builder),
            &[Unsupported, InvalidInput],
        );
    }
    for bit in 0..32 {
        let flags = QpCreateFlags::from_bits_retain(1 << bit);
        let call = format!("creation flag {bit}");
        if flags.bits() == 1 << 12 {
            refusals.any(&call, build(QpType::Rc, &|b| b.create_flags(flags)));
        } else {
            refusals.check(
                &call,
                build(QpType::Rc, &|b| b.create_flags(flags)),
                &[Unsupported, InvalidInput, PermissionDenied],
            );
        }
    }
    for port in [0, 2, 255] {
        refusals.check(
            &format!("port {port}"),
            build(QpType::Rc, &|b| b.port(port)),
            &[InvalidInput],
        );
    }
    refusals.check(
        "gid index 255",
        build(QpType::Rc, &|b| b.gid_index(255)),
        &[InvalidInput, NotFound],
    );
    for (call, (send, recv)) in [
        ("send", (&strange_cq, &cq)),
        ("receive", (&cq, &strange_cq)),
    ] {
        refusals.check(
            &format!("another context's {call} queue"),
            pd.queue_pair(QpType::Rc, send, recv).build(),
            &[InvalidInput],
        );
    }
    refusals.check(
        "another context's shared queue",
        pd.queue_pair(QpType::Rc, &cq, &cq)
            .srq(&strange_srq)
            .build(),
        &[InvalidInput],
    );
    for count in [8_u8, 9, 255] {
        refusals.check(
            &format!("retry_count {count}"),
            RetryCount::new(count).map_err(Error::from),
            &[LimitExceeded],
        );
        refusals.check(
            &format!("rnr_retry {count}"),
            RnrRetry::new(count).map_err(Error::from),
            &[LimitExceeded],
        );
    }
    for code in [32_u8, 255] {
        refusals.check(
            &format!("timeout {code}"),
            AckTimeout::code(code).map_err(Error::from),
            &[LimitExceeded],
        );
        refusals.check(
            &format!("min_rnr_timer {code}"),
            RnrTimer::code(code).map_err(Error::from),
            &[LimitExceeded],
        );
    }
    refusals.hold(
        "an endless timeout is one",
        AckTimeout::from_duration(Duration::MAX) == AckTimeout::INFINITE,
    );
    refusals.check(
        "an endless delay",
        RnrTimer::from_duration(Duration::MAX).map_err(Error::from),
        &[LimitExceeded],
    );
    refusals.end();
}
