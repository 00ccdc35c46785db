//! Every state transition of a queue pair with invalid arguments.
#![allow(clippy::too_many_lines, reason = "a list of cases is as long as it is")]

use uverbs::ErrorKind::{
    InvalidInput, LimitExceeded, NotFound, Other, OutOfResources, TimedOut, Unsupported,
};
use uverbs::address::GlobalRoute;
use uverbs::attr::{Psn, QpAttr};
use uverbs::link::Mtu;
use uverbs::{
    AccessFlags, AddressVector, Gid, QpState, QpType, QueuePairBuilder, QueuePairEndpoint,
};
use verbs_tests::until;

use crate::support::refusal::Refusals;

/// Changes a setting.
type Set = fn(QueuePairBuilder<'_>) -> QueuePairBuilder<'_>;

#[test]
fn handshakes() {
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let cq = context.create_cq(8).expect("a queue");
    let build = |kind| pd.queue_pair(kind, &cq, &cq).build().expect("a queue pair");
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
        ("max_rd_atomic 255", |b| b.max_rd_atomic(255)),
        ("an unknown mtu", |b| b.path_mtu(Mtu::from_raw(77))),
        ("mtu 0", |b| b.path_mtu(Mtu::from_raw(0))),
        ("pkey index 65535", |b| b.pkey_index(u16::MAX)),
        ("unknown access", |b| {
            b.access(AccessFlags::from_bits_retain(1 << 19))
        }),
    ];
    for (call, set) in sets {
        let builder = set(pd.queue_pair(QpType::Rc, &cq, &cq));
        let prepared = match builder.build() {
            Ok(prepared) => prepared,
            Err(error) => {
                refusals.check(call, Err::<(), _>(error), &refused);
                refusals.forgive();
                continue;
            }
        };
        refusals.forgive();
        let remote = prepared.endpoint();
        let prepared = prepared
            .handshake(remote)
            .map_err(|failed| (failed.error, failed.prepared));
        match prepared {
            Ok(qp) => refusals.hold(
                &format!("{call} is fine for queue pair {}", qp.qp_num()),
                call == "unknown access",
            ),
            Err((error, prepared)) => {
                refusals.check(call, Err::<(), _>(error), &refused);
                drop(prepared);
            }
        }
        refusals.forgive();
    }
    let datagram = build(QpType::Ud);
    refusals.forgive();
    let failed = datagram.handshake(own).expect_err("datagrams have no peer");
    refusals.check(
        "a datagram's handshake",
        Err::<(), _>(failed.error),
        &[Unsupported],
    );
    drop(failed.prepared);
    refusals.forgive();
    let connection = build(QpType::Rc);
    refusals.forgive();
    let failed = connection
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

/// From every state to every state, without any of the required attributes, and with all of them.
#[test]
fn modifications() {
    let context = verbs_tests::open();
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

/// A queue pair in a state that users can bring it to.
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
    let prepared = pd.queue_pair(kind, &cq, &cq).build().expect("a queue pair");
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
            until("the send queue is drained", || {
                (!qp.query().expect("its state").sq_draining).then_some(())
            });
            qp
        }
    };
    Some((pd, cq, qp))
}

/// One attribute after another, each of them invalid.
#[test]
fn attributes() {
    let context = verbs_tests::open();
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
        .min_rnr_timer(uverbs::time::RnrTimer::default());
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
    // rxe accepts every index in its table of one key.
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
    // Multicast groups are for datagrams, and their addresses must be multicast.
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
