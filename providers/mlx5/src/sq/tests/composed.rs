//! What is put or posted in few steps is what the ring's other functions put and post.

use super::typed::{ask, seen};
use super::*;

/// Puts a request in few steps, or as any other.
fn put(ring: &mut SendRing, request: &SendRequest<'_>) -> Result<(), PostError> {
    if ring.put_composed(|| *request) || ring.find_room() && ring.put_composed(|| *request) {
        return Ok(());
    }
    ring.put(request)
}

/// Posts a request the short way. Whether there is one.
fn post_usual(ring: &mut SendRing, request: &SendRequest<'_>) -> bool {
    ring.usual_send().is_some() && ring.post_usual(*request)
}

fn play(kind: QpType, blocks: u32, script: &[Asked]) {
    let (mut one, mut other) = (queue(kind, 7, blocks), queue(kind, 7, blocks));
    let mut next = 0;
    for group in script.chunk_by(|before, _| !before.ring) {
        let Some(last) = group.last() else { continue };
        let first = next;
        next += group.len() as u64;
        let results: Vec<_> = (first..)
            .zip(group)
            .map(|(wr_id, asked)| ask(kind, wr_id, asked, |request| one.put(request)))
            .collect();
        if let ([asked], [result]) = (group, &*results) {
            one.ring.submit().unwrap();
            let posted = ask(kind, first, asked, |request| {
                post_usual(&mut other.ring, request)
            });
            if !posted {
                let put = ask(kind, first, asked, |request| other.ring.put(request));
                assert_eq!(put, *result, "{asked:?}");
                other.ring.submit().unwrap();
            }
            assert!(!posted || result.is_ok(), "{asked:?}");
        } else {
            for ((wr_id, asked), result) in (first..).zip(group).zip(&results) {
                let put = ask(kind, wr_id, asked, |request| put(&mut other.ring, request));
                assert_eq!(put, *result, "{asked:?}");
            }
            if last.flags == 6 {
                one.ring.abort();
                other.ring.abort();
            } else {
                let is_any_put = results.iter().any(Result::is_ok);
                one.ring.submit().unwrap();
                assert_eq!(other.ring.submit_composed(), is_any_put);
            }
        }
        assert_eq!(seen(&one), seen(&other));
        if last.completes && last.flags != 6 && results.iter().any(Result::is_ok) {
            let counter = (u64::from_be(one.ring.last) >> 40) as u16;
            let sent = one.tracker.sent(0, counter);
            assert_eq!(other.tracker.sent(0, counter), sent);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reliable_connections(script in prop::collection::vec(asked(), 1..shorter(60))) {
        play(QpType::Rc, 4, &script);
    }

    #[test]
    fn unreliable_connections(script in prop::collection::vec(asked(), 1..shorter(60))) {
        play(QpType::Uc, 0, &script);
    }
}

/// The operations of the peer's memory that are usual, and sends.
fn usual() -> [Operation<'static>; 7] {
    let remote = Remote {
        address: 0x8000,
        key: RemoteKey::from_raw(0x5678),
    };
    [
        Operation::Send,
        Operation::SendImm(7),
        Operation::Write(remote),
        Operation::WriteImm(remote, 8),
        Operation::Read(remote),
        Operation::FetchAdd { remote, add: 9 },
        Operation::CompareSwap {
            remote,
            compare: 10,
            swap: 11,
        },
    ]
}

/// Otherwise the tests above would compare a function with itself.
#[test]
fn usual_requests_take_few_steps() {
    let sge = [Sge {
        address: 0x1000,
        length: 8,
        key: LocalKey::from_raw(7),
    }];
    let data = [&[7_u8; 16][..]];
    for operation in usual() {
        let has_data = !matches!(
            operation,
            Operation::Read(_) | Operation::FetchAdd { .. } | Operation::CompareSwap { .. }
        );
        for payload in [Payload::Gather(&sge), Payload::Inline(&data)] {
            let request = SendRequest::new(operation, payload).signaled();
            let is_usual = has_data || matches!(payload, Payload::Gather(_));
            let mut queue = queue(QpType::Rc, 7, 0);
            assert_eq!(
                post_usual(&mut queue.ring, &request),
                is_usual,
                "{request:?}"
            );
            assert_eq!(queue.record.load(1), u32::from(is_usual));
            assert_eq!(queue.ring.put_composed(|| request), is_usual);
            // Nothing is posted past what is pending.
            assert!(!is_usual || !post_usual(&mut queue.ring, &request));
            assert_eq!(queue.ring.submit_composed(), is_usual);
            assert_eq!(queue.record.load(1), 2 * u32::from(is_usual));
            assert!(!queue.ring.submit_composed(), "nothing is pending");
        }
    }
}

#[test]
fn few_steps_need_room_a_ready_queue_and_the_process_that_made_it() {
    let mut queue = queue(QpType::Rc, 2, 0);
    let sge = [Sge {
        address: 0x1000,
        length: 8,
        key: LocalKey::from_raw(7),
    }];
    let request = SendRequest::send(&sge).signaled();
    let most = queue.sizes.max_post;
    for _ in 0..most {
        assert!(!queue.ring.find_room(), "there is room");
        assert!(queue.ring.put_composed(|| request));
    }
    assert!(!queue.ring.put_composed(|| request));
    assert!(!queue.ring.find_room());
    assert!(queue.ring.submit_composed());
    assert!(!post_usual(&mut queue.ring, &request));
    assert!(matches!(queue.tracker.sent(0, 0), Request::Of(_)));
    assert!(queue.ring.find_room());
    queue.ring.fork = ForkToken::of_no_process();
    assert!(!post_usual(&mut queue.ring, &request));
    assert!(!queue.ring.put_composed(|| request));
    assert_eq!(queue.put(&request), Err(PostError::Forked));
    queue.ring.fork = ForkToken::current();
    queue.ring.set_ready(false);
    assert!(!post_usual(&mut queue.ring, &request));
    assert!(!queue.ring.put_composed(|| request));
}

/// Requests of other kinds of queue pairs have more segments.
#[test]
fn only_connections_have_usual_requests() {
    let sge = [Sge {
        address: 0x1000,
        length: 8,
        key: LocalKey::from_raw(7),
    }];
    let request = SendRequest::send(&sge).signaled();
    for kind in [
        QpType::Ud,
        QpType::XrcInitiator,
        QpType::Driver,
        QpType::RawPacket,
    ] {
        let mut queue = queue(kind, 7, 0);
        assert!(!post_usual(&mut queue.ring, &request), "{kind:?}");
        assert!(!queue.ring.put_composed(|| request), "{kind:?}");
    }
}
