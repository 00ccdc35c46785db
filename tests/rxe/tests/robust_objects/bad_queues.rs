//! Every call that makes, changes and ends queues with arguments that are wrong.
#![allow(clippy::too_many_lines, reason = "a list of cases is as long as it is")]

use std::time::Duration;

use uverbs::ErrorKind::{
    Busy, InvalidInput, LimitExceeded, NotFound, Other, OutOfResources, PermissionDenied, TimedOut,
    Unsupported,
};
use uverbs::{
    AccessFlags, AddressVector, Gid, GlobalRoute, Mtu, Notify, Psn, QpAttr, QpCreateFlags, QpState,
    QpType, QueuePairEndpoint, SharedReceiveQueue, SrqAttr, SrqModify,
};

use crate::support::looped::Looped;
use crate::support::refusal::Refusals;

#[test]
fn completion_queues() {
    let context = rxe_tests::open();
    let other = rxe_tests::open();
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
    // Two entries wait; there is no room for them in a queue of one.
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
            looped.finished().status.is_success(),
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
fn shared_receive_queues() {
    let context = rxe_tests::open();
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
        let attr = SrqAttr {
            max_wr: 8,
            max_sge: 1,
            limit,
        };
        refusals.check(
            &format!("limit {limit} of 8"),
            SharedReceiveQueue::create(&pd, attr, 0),
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
        .create_qp(QpType::Rc, &cq, &cq)
        .srq(shared.queue().expect("the queue"))
        .build()
        .expect("a queue pair");
    refusals.forgive();
    refusals.check("end of a queue in use", shared.destroy(), &[Busy]);
    drop((qp, cq));
    refusals.forgive();
    refusals.end();
}

#[test]
fn new_queue_pairs() {
    let context = rxe_tests::open();
    let other = rxe_tests::open();
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
    let build = |kind: QpType, set: &dyn Fn(&mut uverbs::QueuePairBuilder<'_>)| {
        let mut builder = pd.create_qp(kind, &cq, &cq);
        set(&mut builder);
        builder.build()
    };
    for wr in [max_wr + 1, 1 << 24, 1 << 31, u32::MAX] {
        refusals.check(
            &format!("{wr} sends"),
            build(QpType::Rc, &|b| {
                b.max_send_wr(wr);
            }),
            &[LimitExceeded],
        );
        refusals.check(
            &format!("{wr} receives"),
            build(QpType::Rc, &|b| {
                b.max_recv_wr(wr);
            }),
            &[LimitExceeded],
        );
    }
    for sge in [max_sge + 1, 1 << 16, u32::MAX] {
        refusals.check(
            &format!("{sge} pieces to send"),
            build(QpType::Rc, &|b| {
                b.max_send_sge(sge);
            }),
            &[LimitExceeded],
        );
        refusals.check(
            &format!("{sge} pieces to receive"),
            build(QpType::Rc, &|b| {
                b.max_recv_sge(sge);
            }),
            &[LimitExceeded],
        );
    }
    for bytes in [513, 1 << 16, u32::MAX] {
        refusals.check(
            &format!("{bytes} inline"),
            build(QpType::Rc, &|b| {
                b.max_inline_data(bytes);
            }),
            &[LimitExceeded],
        );
    }
    refusals.any(
        "nothing at all",
        build(QpType::Rc, &|b| {
            b.max_send_wr(0)
                .max_recv_wr(0)
                .max_send_sge(0)
                .max_recv_sge(0);
        }),
    );
    for kind in [0, 1, 5, 6, 7, 8, 9, 10, 11, 77, 255, u32::MAX] {
        let kind = QpType::from_raw(kind);
        refusals.check(
            &format!("{kind:?}"),
            build(kind, &|_| {}),
            &[Unsupported, InvalidInput],
        );
    }
    for bit in 0..32 {
        let flags = QpCreateFlags::from_bits_retain(1 << bit);
        let call = format!("creation flag {bit}");
        if flags.bits() == 1 << 12 {
            refusals.any(
                &call,
                build(QpType::Rc, &|b| {
                    b.create_flags(flags);
                }),
            );
        } else {
            refusals.check(
                &call,
                build(QpType::Rc, &|b| {
                    b.create_flags(flags);
                }),
                &[Unsupported, InvalidInput, PermissionDenied],
            );
        }
    }
    for port in [0, 2, 255] {
        refusals.check(
            &format!("port {port}"),
            build(QpType::Rc, &|b| {
                b.port(port);
            }),
            &[InvalidInput],
        );
    }
    refusals.check(
        "gid index 255",
        build(QpType::Rc, &|b| {
            b.gid_index(255);
        }),
        &[InvalidInput, NotFound],
    );
    for level in [16, 255] {
        refusals.check(
            &format!("service level {level}"),
            build(QpType::Rc, &|b| {
                b.service_level(level);
            }),
            &[LimitExceeded],
        );
    }
    for (call, (send, recv)) in [
        ("send", (&strange_cq, &cq)),
        ("receive", (&cq, &strange_cq)),
    ] {
        refusals.check(
            &format!("another context's {call} queue"),
            pd.create_qp(QpType::Rc, send, recv).build(),
            &[InvalidInput],
        );
    }
    refusals.check(
        "another context's shared queue",
        pd.create_qp(QpType::Rc, &cq, &cq).srq(&strange_srq).build(),
        &[InvalidInput],
    );
    let mut builder = pd.create_qp(QpType::Rc, &cq, &cq);
    for count in [8_u8, 9, 255] {
        refusals.check(
            &format!("retry_count {count}"),
            builder.retry_count(count).map(drop),
            &[LimitExceeded],
        );
        refusals.check(
            &format!("rnr_retry {count}"),
            builder.rnr_retry(count).map(drop),
            &[LimitExceeded],
        );
    }
    for code in [32_u8, 255] {
        refusals.check(
            &format!("timeout {code}"),
            builder.timeout(code).map(drop),
            &[LimitExceeded],
        );
        refusals.check(
            &format!("min_rnr_timer {code}"),
            builder.min_rnr_timer(code).map(drop),
            &[LimitExceeded],
        );
    }
    refusals.check(
        "an endless timeout",
        builder.timeout(Duration::MAX).map(drop),
        &[LimitExceeded],
    );
    refusals.check(
        "an endless delay",
        builder.min_rnr_timer(Duration::MAX).map(drop),
        &[LimitExceeded],
    );
    refusals.end();
}

/// Changes a setting.
type Set = fn(&mut uverbs::QueuePairBuilder<'_>);

#[test]
fn handshakes() {
    let context = rxe_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let cq = context.create_cq(8).expect("a queue");
    let build = |kind| pd.create_qp(kind, &cq, &cq).build().expect("a queue pair");
    let mut refusals = Refusals::on(&context);
    let mut prepared = build(QpType::Rc);
    let own = prepared.endpoint();
    refusals.forgive();
    let refused = [
        Unsupported,
        InvalidInput,
        NotFound,
        Other,
        TimedOut,
        OutOfResources,
        LimitExceeded,
    ];
    let zero = Gid::from_bytes([0; 16]);
    for (call, remote) in [
        ("no gid", QueuePairEndpoint { gid: None, ..own }),
        (
            "the zero gid",
            QueuePairEndpoint {
                gid: Some(zero),
                ..own
            },
        ),
        (
            "a number above 24 bits",
            QueuePairEndpoint {
                qp_num: 1 << 24,
                ..own
            },
        ),
        (
            "the highest number",
            QueuePairEndpoint {
                qp_num: u32::MAX,
                ..own
            },
        ),
        (
            "nowhere",
            QueuePairEndpoint {
                gid: Some("::ffff:203.0.113.7".parse().expect("a gid")),
                ..own
            },
        ),
    ] {
        match prepared.handshake(remote) {
            Ok(qp) => panic!("{call}: connected {qp:?}"),
            Err(failed) => {
                refusals.check(call, Err::<(), _>(failed.error), &refused);
                prepared = *failed.prepared;
            }
        }
    }
    // It can still be connected.
    let qp = prepared
        .handshake(own)
        .expect("connected after five refusals");
    drop(qp);
    refusals.forgive();
    let sets: [(&str, Set); 5] = [
        ("max_rd_atomic 255", |b| {
            b.max_rd_atomic(255);
        }),
        ("an unknown mtu", |b| {
            b.path_mtu(Mtu::from_raw(77));
        }),
        ("mtu 0", |b| {
            b.path_mtu(Mtu::from_raw(0));
        }),
        ("pkey index 65535", |b| {
            b.pkey_index(u16::MAX);
        }),
        ("unknown access", |b| {
            b.access(AccessFlags::from_bits_retain(1 << 19));
        }),
    ];
    for (call, set) in sets {
        let mut builder = pd.create_qp(QpType::Rc, &cq, &cq);
        set(&mut builder);
        let prepared = builder.build().expect("a queue pair");
        refusals.forgive();
        let remote = prepared.endpoint();
        let prepared = prepared
            .handshake(remote)
            .map_err(|failed| (failed.error, failed.prepared));
        match prepared {
            Ok(qp) => refusals.hold(
                &format!("{call} is fine for queue pair {}", qp.qp_num()),
                ["unknown access", "pkey index 65535"].contains(&call),
            ),
            Err((error, prepared)) => {
                refusals.check(call, Err::<(), _>(error), &refused);
                drop(prepared);
            }
        }
        refusals.forgive();
    }
    let datagram = build(QpType::Ud);
    let failed = datagram.handshake(own).expect_err("datagrams have no peer");
    refusals.check(
        "a datagram's handshake",
        Err::<(), _>(failed.error),
        &[Unsupported],
    );
    drop(failed.prepared);
    refusals.forgive();
    let failed = build(QpType::Rc)
        .activate()
        .expect_err("a connection needs a peer");
    refusals.check(
        "a connection's activation",
        Err::<(), _>(failed.error),
        &[Unsupported],
    );
    drop(failed.prepared);
    refusals.forgive();
    refusals.end();
}

const STATES: [QpState; 7] = [
    QpState::Reset,
    QpState::Init,
    QpState::ReadyToReceive,
    QpState::ReadyToSend,
    QpState::SendQueueDrained,
    QpState::SendQueueError,
    QpState::Error,
];

/// From every state to every state, with nothing of what that needs, and with everything at once.
#[test]
fn modifications() {
    let context = rxe_tests::open();
    let mut refusals = Refusals::on(&context);
    let gid = context.gid_table().expect("the table")[0];
    let path = AddressVector {
        grh: Some(GlobalRoute::new(
            gid.gid,
            u8::try_from(gid.index).expect("small"),
        )),
        ..AddressVector::default()
    };
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        for from in STATES {
            for to in STATES
                .into_iter()
                .chain([QpState::from_raw(7), QpState::from_raw(255)])
            {
                let everything = QpAttr::to(to)
                    .pkey_index(0)
                    .port(1)
                    .qkey(7)
                    .access(AccessFlags::LOCAL_WRITE)
                    .av(path)
                    .path_mtu(Mtu::B1024)
                    .dest_qpn(17)
                    .rq_psn(Psn::from_raw(1))
                    .sq_psn(Psn::from_raw(2))
                    .max_rd_atomic(1)
                    .max_dest_rd_atomic(1);
                for attr in [QpAttr::to(to), everything] {
                    let Some((pd, cq, mut qp)) = in_state(&context, kind, from) else {
                        continue;
                    };
                    refusals.forgive();
                    let call = format!("{kind} from {from} to {to} with {:?}", attr.mask());
                    match qp.modify(&attr) {
                        Ok(()) => refusals.hold(&call, true),
                        Err(error) => refusals.check(&call, Err::<(), _>(error), &[InvalidInput]),
                    }
                    drop((qp, cq, pd));
                    refusals.forgive();
                }
            }
        }
    }
    refusals.end();
}

/// A queue pair in a state that a user can put it into.
fn in_state(
    context: &uverbs::Context,
    kind: QpType,
    state: QpState,
) -> Option<(
    uverbs::ProtectionDomain,
    uverbs::CompletionQueue,
    uverbs::QueuePair,
)> {
    let pd = context.alloc_pd().expect("a domain");
    let cq = context.create_cq(8).expect("a queue");
    let prepared = pd.create_qp(kind, &cq, &cq).build().expect("a queue pair");
    let endpoint = prepared.endpoint();
    let qp = match state {
        QpState::Reset => prepared.into_raw(),
        QpState::Init => {
            let mut qp = prepared.into_raw();
            let attr = QpAttr::to(QpState::Init).pkey_index(0).port(1);
            let attr = if kind == QpType::Ud {
                attr.qkey(1)
            } else {
                attr.access(AccessFlags::LOCAL_WRITE)
            };
            qp.modify(&attr).expect("to INIT");
            qp
        }
        QpState::SendQueueError | QpState::ReadyToReceive => return None,
        other => {
            let connected = if kind == QpType::Ud {
                prepared.activate()
            } else {
                prepared.handshake(endpoint)
            };
            let mut qp = connected.expect("connected");
            if other == QpState::Error || other == QpState::SendQueueDrained {
                qp.modify(&QpAttr::to(other)).expect("out of RTS");
            }
            qp
        }
    };
    Some((pd, cq, qp))
}

/// One attribute after the other, each of which is impossible.
#[test]
fn attributes() {
    let context = rxe_tests::open();
    let mut refusals = Refusals::on(&context);
    let gid = context.gid_table().expect("the table")[0];
    let path = AddressVector {
        grh: Some(GlobalRoute::new(gid.gid, 0)),
        ..AddressVector::default()
    };
    let init = QpAttr::to(QpState::Init)
        .pkey_index(0)
        .port(1)
        .access(AccessFlags::LOCAL_WRITE);
    let rtr = QpAttr::to(QpState::ReadyToReceive)
        .av(path)
        .path_mtu(Mtu::B1024)
        .dest_qpn(17)
        .rq_psn(Psn::from_raw(1))
        .max_dest_rd_atomic(1)
        .min_rnr_timer(uverbs::RnrTimer::default());
    let no_route = AddressVector { grh: None, ..path };
    let wrong_gid = AddressVector {
        grh: Some(GlobalRoute::new(gid.gid, 255)),
        ..path
    };
    let cases = [
        (QpState::Reset, "port 0", init.port(0)),
        (QpState::Reset, "port 2", init.port(2)),
        (QpState::Reset, "port 255", init.port(255)),
        (
            QpState::Init,
            "an unknown mtu",
            rtr.path_mtu(Mtu::from_raw(77)),
        ),
        (QpState::Init, "no route", rtr.av(no_route)),
        (QpState::Init, "gid index 255", rtr.av(wrong_gid)),
        (
            QpState::Init,
            "port 2 of the path",
            rtr.av(AddressVector { port: 2, ..path }),
        ),
        (
            QpState::Init,
            "a number above 24 bits",
            rtr.dest_qpn(u32::MAX),
        ),
    ];
    for (from, call, attr) in cases {
        let (pd, cq, mut qp) = in_state(&context, QpType::Rc, from).expect("a state of its own");
        refusals.forgive();
        refusals.check(
            call,
            qp.modify(&attr),
            &[InvalidInput, LimitExceeded, NotFound],
        );
        drop((qp, cq, pd));
        refusals.forgive();
    }
    // rxe accepts every place in its table of one key.
    for index in [9, u16::MAX] {
        let (pd, cq, mut qp) =
            in_state(&context, QpType::Rc, QpState::Reset).expect("a state of its own");
        refusals.forgive();
        refusals.any(
            &format!("pkey index {index}"),
            qp.modify(&init.pkey_index(index)),
        );
        drop((qp, cq, pd));
        refusals.forgive();
    }
    // Multicast groups are for datagrams, and must be multicast.
    let group: Gid = "ff0e::ffff:e000:1".parse().expect("a group");
    for (call, kind, group) in [
        ("a connection's group", QpType::Rc, group),
        ("no group", QpType::Ud, gid.gid),
    ] {
        let (pd, cq, mut qp) =
            in_state(&context, kind, QpState::ReadyToSend).expect("a state of its own");
        refusals.forgive();
        refusals.check(call, qp.attach_multicast(&group, 0), &[InvalidInput]);
        refusals.check(
            &format!("{call}, left"),
            qp.detach_multicast(&group, 0),
            &[InvalidInput, NotFound],
        );
        drop((qp, cq, pd));
        refusals.forgive();
    }
    refusals.end();
}
