//! Every kind of invalid work request: refused before the ring is written.
//!
//! # Safety
//!
//! Requests that are accepted name registered memory of the test, or are never rung.
#![allow(clippy::too_many_lines, reason = "a list of cases is as long as it is")]
#![allow(unsafe_code, reason = "posts raw requests")]

use uverbs::attr::QpAttr;
use uverbs::memory::{MwType, RemoteKey};
use uverbs::owned::{self, Memory, Work};
use uverbs::request::WindowBinding;
use uverbs::{
    Operation, Payload, PostError, QpState, QpType, RecvRequest, Remote, SendFlags, SendRequest,
    Sge, WcStatus,
};
use verbs_tests::{Pair, Registered, drain};

use crate::support::kernel_log::{FAILED_REQUEST, KernelLog, excuse};
use crate::support::looped::Looped;
use crate::support::objects::Objects;

fn remote(address: u64) -> Remote {
    Remote {
        address,
        key: RemoteKey::from_raw(0x1234),
    }
}

#[test]
fn f21_raw_sends() {
    let before = Objects::now();
    let mut log = KernelLog::from_now();
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut pair = Pair::with(kind, |builder| builder.max_inline_data(64).max_send_sge(2));
        let memory = Registered::remote_all(&pair.a.pd, 4096);
        let caps = pair.a.qp.caps();
        let item = memory.sge(0, 8);
        let huge = Sge {
            length: u32::MAX,
            ..item
        };
        let half = Sge {
            length: 1 << 31,
            ..item
        };
        let too_many =
            vec![Sge { length: 0, ..item }; usize::try_from(caps.max_send_sge).expect("few") + 1];
        let inline = vec![7; usize::try_from(caps.max_inline_data).expect("few") + 1];
        let halves: [&[u8]; 2] = [&inline[1..], &inline[1..]];
        let connected = kind != QpType::Ud;
        let binding = WindowBinding {
            kind: MwType::Type2,
            window_key: RemoteKey::from_raw(1),
            new_key: RemoteKey::from_raw(2),
            region_key: memory.mr().lkey(),
            address: 0,
            length: 8,
            access: uverbs::AccessFlags::empty(),
        };
        let gather = |operation, sges| SendRequest::new(operation, Payload::Gather(sges));
        let one = [item];
        let (too_long, too_long_in_sum, too_long_by_one) = ([huge], [half, half], [half, item]);
        let too_much: [&[u8]; 1] = [&inline];
        let short = [Sge { length: 4, ..item }];
        let cases = [
            ("too many pieces", gather(Operation::Send, &too_many[..])),
            ("too long", gather(Operation::Send, &too_long)),
            ("too long in sum", gather(Operation::Send, &too_long_in_sum)),
            ("too long by one", gather(Operation::Send, &too_long_by_one)),
            (
                "too much inline",
                SendRequest::new(Operation::Send, Payload::Inline(&too_much)),
            ),
            (
                "too much inline in sum",
                SendRequest::new(Operation::Send, Payload::Inline(&halves)),
            ),
            (
                "inline read",
                SendRequest::new(Operation::Read(remote(0)), Payload::Inline(&[&[0]])),
            ),
            (
                "inline atomic",
                SendRequest::new(
                    Operation::FetchAdd {
                        remote: remote(0),
                        add: 1,
                    },
                    Payload::Inline(&[&[0; 8]]),
                ),
            ),
            (
                "atomic of 4 bytes",
                gather(
                    Operation::FetchAdd {
                        remote: remote(0),
                        add: 1,
                    },
                    &short,
                ),
            ),
            (
                "atomic of nothing",
                gather(
                    Operation::FetchAdd {
                        remote: remote(0),
                        add: 1,
                    },
                    &[][..],
                ),
            ),
            (
                "misaligned atomic",
                gather(
                    Operation::CompareSwap {
                        remote: remote(4),
                        compare: 0,
                        swap: 1,
                    },
                    &one[..],
                ),
            ),
            (
                "misaligned atomic write",
                gather(
                    Operation::AtomicWrite {
                        remote: remote(1),
                        value: [0; 8],
                    },
                    &[][..],
                ),
            ),
            (
                "atomic write with pieces",
                gather(
                    Operation::AtomicWrite {
                        remote: remote(0),
                        value: [0; 8],
                    },
                    &one[..],
                ),
            ),
            (
                "bind with pieces",
                gather(Operation::BindWindow(&binding), &one[..]),
            ),
            (
                "invalidate with pieces",
                gather(Operation::LocalInvalidate(RemoteKey::from_raw(1)), &one[..]),
            ),
        ];
        for (call, request) in cases {
            // Datagrams without a destination are refused for that, and for the rest elsewhere.
            // SAFETY: the batch is dropped, nothing is rung.
            let refused = unsafe { pair.a.qp.send_batch().push(&request.wr_id(1).signaled()) };
            let refused = refused.expect_err(call);
            assert!(
                !matches!(
                    refused,
                    PostError::Doorbell(_) | PostError::Poisoned | PostError::QueueFull
                ),
                "{kind} {call}: {refused}"
            );
            println!("{kind} {call}: {refused}");
        }
        if !connected {
            for operation in [
                Operation::Write(remote(0)),
                Operation::WriteImm(remote(0), 1),
                Operation::Read(remote(0)),
                Operation::SendInvalidate(RemoteKey::from_raw(1)),
                Operation::FetchAdd {
                    remote: remote(0),
                    add: 1,
                },
                Operation::LocalInvalidate(RemoteKey::from_raw(1)),
                Operation::BindWindow(&binding),
            ] {
                // SAFETY: as above.
                let refused = unsafe { pair.a.qp.send_batch().push(&gather(operation, &[])) };
                assert_eq!(
                    refused,
                    Err(PostError::UnsupportedOperation),
                    "{operation:?}"
                );
            }
            // SAFETY: as above.
            let refused = unsafe { pair.a.qp.send_batch().push(&gather(Operation::Send, &one)) };
            assert_eq!(
                refused,
                Err(PostError::InvalidRequest),
                "a datagram to nobody"
            );
        }
        log.silent("requests that were refused");
        drop((pair, memory));
    }
    before.same_now();
}

/// As many requests as the queue was created for, and no more; the refused one leaves no trace.
#[test]
fn f22_full_queues() {
    let mut pair = Pair::with(QpType::Rc, |builder| builder.max_send_wr(8).max_recv_wr(8));
    let memory = Registered::local(&pair.b.pd, 64);
    let sge = [memory.sge(0, 64)];
    let room = pair.b.qp.caps().max_recv_wr;
    let mut posted = 0;
    loop {
        // SAFETY: the memory outlives the queue pair, and nobody reads it.
        match unsafe {
            pair.b.qp.post_recv(&[RecvRequest {
                wr_id: posted,
                scatter: &sge,
            }])
        } {
            Ok(()) => posted += 1,
            Err(failed) => {
                assert_eq!((failed.error, failed.posted), (PostError::QueueFull, 0));
                break;
            }
        }
        assert!(posted < 1000, "the queue never fills");
    }
    println!("FIGURE: {posted} receives fit, {room} were granted");
    assert!(posted >= room.into(), "{posted} fit");
    let sges =
        vec![memory.sge(0, 1); usize::try_from(pair.b.qp.caps().max_recv_sge).expect("few") + 1];
    // SAFETY: it is refused.
    let failed = unsafe {
        pair.b.qp.post_recv(&[RecvRequest {
            wr_id: 0,
            scatter: &sges,
        }])
    };
    assert!(matches!(
        failed.expect_err("too many pieces").error,
        PostError::TooManySges { .. }
    ));

    let caps = pair.a.qp.caps().max_send_wr;
    let mut batch = pair.a.qp.send_batch();
    let mut sent = 0;
    loop {
        match batch.push_inline(&SendRequest::send_inline(&[]).wr_id(sent).signaled()) {
            Ok(()) => sent += 1,
            Err(error) => {
                assert_eq!(error, PostError::QueueFull);
                break;
            }
        }
        assert!(sent < 1000, "the queue never fills");
    }
    assert!(sent >= u64::from(caps), "{sent} fit");
}

/// States that accept no requests, and queues of other types.
#[test]
fn wrong_states_and_queues() {
    let mut log = KernelLog::from_now();
    let mut looped = Looped::new();
    let (pd, cq) = (looped.pd.clone(), &looped.cq);
    let mut fresh = owned::QueuePair::new(
        pd.queue_pair(QpType::Rc, cq, cq)
            .build()
            .expect("a queue pair")
            .into_raw(),
    );
    let refused = fresh.post(Work::send()).expect_err("in RESET");
    assert_eq!(refused.error, PostError::WrongState);
    assert_eq!(fresh.recv_empty(0), Err(PostError::WrongState));
    let attr = QpAttr::to(QpState::Init)
        .pkey_index(0)
        .port(1)
        .access(uverbs::AccessFlags::LOCAL_WRITE);
    fresh.modify(&attr).expect("to INIT");
    assert_eq!(
        fresh.post(Work::send()).expect_err("in INIT").error,
        PostError::WrongState
    );
    assert_eq!(fresh.recv_empty(0), Ok(()));
    let state = fresh
        .modify(&QpAttr::to(QpState::Reset))
        .expect_err("reset has a call of its own");
    assert_eq!(state.kind(), uverbs::ErrorKind::InvalidInput);

    // Memory of another domain, and ranges outside the region.
    let other = looped.context.alloc_pd().expect("a domain");
    let [strange] = other.buffers::<1>(64).expect("a buffer");
    let refused = looped
        .qp
        .send(strange, 64, 0)
        .expect_err("another domain's buffer");
    assert_eq!(refused.error, PostError::InvalidRequest);
    let strange = refused
        .work
        .expect("it comes back")
        .take_memory()
        .into_buffer()
        .expect("the buffer");
    let refused = looped
        .qp
        .recv(strange, 0)
        .expect_err("another domain's buffer");
    assert_eq!(refused.error, PostError::InvalidRequest);
    let exposed = pd
        .expose(64, uverbs::AccessFlags::REMOTE_READ)
        .expect("memory");
    #[expect(clippy::reversed_empty_ranges, reason = "one of the wrong ranges")]
    for range in [0..65, 64..65, 1..usize::MAX, usize::MAX..usize::MAX, 5..4] {
        let refused = looped
            .qp
            .post(Work::send().memory((exposed.clone(), range.clone())))
            .expect_err("outside");
        assert_eq!(refused.error, PostError::InvalidRequest, "{range:?}");
    }
    let own = looped.buffers.pop().expect("a buffer");
    for len in [4097, usize::MAX] {
        let [short] = pd.buffers::<1>(4096).expect("a buffer");
        let refused = looped
            .qp
            .send(short, len, 0)
            .expect_err("longer than the buffer");
        assert_eq!(refused.error, PostError::InvalidRequest);
        assert!(
            matches!(
                refused.work.map(Work::take_memory),
                Some(Memory::Buffer(..))
            ),
            "the buffer comes back"
        );
    }
    for operation in [
        Operation::LocalInvalidate(RemoteKey::from_raw(1)),
        Operation::CompareSwap {
            remote: remote(0),
            compare: 1,
            swap: 2,
        },
        Operation::FetchAdd {
            remote: remote(3),
            add: 2,
        },
    ] {
        let refused = looped
            .qp
            .post(Work::new(operation))
            .expect_err("no such request");
        assert!(refused.work.is_some(), "{operation:?} comes back");
    }
    let refused = looped
        .qp
        .send_inline(&[0; 4096], 0)
        .expect_err("more than it was made for");
    assert!(
        matches!(
            refused,
            PostError::InlineTooLong {
                requested: 4096,
                ..
            }
        ),
        "{refused}"
    );
    looped.buffers.push(own);

    // A queue pair with a shared queue accepts no receives of its own.
    let srq = pd.create_srq(4, 1).expect("a shared queue");
    let prepared = pd
        .queue_pair(QpType::Rc, &looped.cq, &looped.cq)
        .srq(&srq)
        .build()
        .expect("a queue pair");
    let endpoint = prepared.endpoint();
    let mut shared = owned::QueuePair::new(prepared.handshake(endpoint).expect("connected"));
    assert!(shared.recv_empty(0).is_err(), "it has a shared queue");
    let [buffer] = pd.buffers::<1>(64).expect("a buffer");
    shared.recv(buffer, 0).expect_err("it has a shared queue");
    looped.round_trip(3);
    log.silent("requests that were refused");
}

/// What only the device can detect ends the request with an error status, and has no other effect.
#[test]
fn f21_keys_that_are_wrong() {
    excuse(FAILED_REQUEST);
    let before = Objects::now();
    let mut log = KernelLog::from_now();
    let windowless = |pair: &Pair| pair.a.pd.alloc_mw(MwType::Type2).expect("a window");
    let strange_context = verbs_tests::open();
    let strange = Registered::remote_all(&strange_context.alloc_pd().expect("a domain"), 4096);
    for case in 0..7 {
        let mut pair = Pair::new(QpType::Rc);
        let window = windowless(&pair);
        let (source, target) = (
            Registered::remote_all(&pair.a.pd, 4096),
            Registered::remote_all(&pair.b.pd, 4096),
        );
        let read_only = Registered::new(&pair.b.pd, 4096, uverbs::AccessFlags::REMOTE_READ);
        let sge = source.sge(0, 64);
        let (sge, to, status) = match case {
            0 => (
                Sge {
                    key: strange.mr().lkey(),
                    ..sge
                },
                target.remote(0),
                WcStatus::LocalProtection,
            ),
            1 => (
                Sge { address: 0, ..sge },
                target.remote(0),
                WcStatus::LocalProtection,
            ),
            2 => (
                Sge {
                    length: 8192,
                    ..sge
                },
                target.remote(0),
                WcStatus::LocalProtection,
            ),
            3 => (
                sge,
                Remote {
                    key: strange.mr().rkey(),
                    ..target.remote(0)
                },
                WcStatus::RemoteAccess,
            ),
            4 => (sge, target.remote(4096 - 63), WcStatus::RemoteAccess),
            5 => (sge, read_only.remote(0), WcStatus::RemoteAccess),
            _ => (
                sge,
                target.remote_by(0, window.key()),
                WcStatus::RemoteAccess,
            ),
        };
        let sges = [sge];
        let request = SendRequest::write(&sges, to)
            .wr_id(5)
            .with(SendFlags::SIGNALED);
        // SAFETY: the request names no memory that it can reach, or memory of the test that
        // outlives it.
        unsafe { pair.a.qp.post_send(&[request]) }.expect("posted");
        let done = drain(&mut pair.a.cq, 1);
        println!("case {case}: {}", done[0].status);
        assert!(!done[0].status.is_success(), "case {case} worked");
        assert!(
            done[0].status == status
                || matches!(
                    done[0].status,
                    WcStatus::Flushed
                        | WcStatus::LocalQpOperation
                        | WcStatus::LocalProtection
                        | WcStatus::RemoteAccess
                        | WcStatus::RemoteInvalidRequest
                ),
            "case {case}: {} instead of {status}",
            done[0].status
        );
        assert_eq!(target.all(), [0; 4096], "case {case} wrote");
    }
    drop((strange, strange_context));
    before.same_now();
    // rxe logs requests that failed, since 6.4.
    let lines = log.lines();
    assert!(
        lines
            .iter()
            .all(|line| line.contains("non-flush error status")),
        "{lines:#?}"
    );
}
