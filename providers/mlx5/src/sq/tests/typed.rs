//! The typed end writes what the ring does, and leaves nothing behind that was not submitted.

use std::mem::ManuallyDrop;

use uverbs_core::contract::{SendBatch as _, Sender as _};
use uverbs_core::types::{Posting, Template};

use super::*;

/// Puts one of the script's requests wherever `put` does.
pub(super) fn ask<T>(
    kind: QpType,
    wr_id: u64,
    asked: &Asked,
    put: impl FnOnce(&SendRequest<'_>) -> T,
) -> T {
    let (_, file) = Scripted::new();
    let address = Address::new(&file, None, 0, [0x5a; 88]);
    let binding = binding();
    let key = LocalKey::from_raw(asked.numbers.2);
    let sge = |(length, at): (&u32, u64)| Sge {
        address: at << 32,
        length: *length,
        key,
    };
    let sges: Vec<Sge> = asked.lengths.iter().zip(1..).map(sge).collect();
    let slices: Vec<&[u8]> = asked.inline.iter().flatten().map(Vec::as_slice).collect();
    let payload = match asked.inline {
        Some(_) => Payload::Inline(&slices),
        None => Payload::Gather(&sges),
    };
    let mut request = SendRequest::new(operation(asked, &binding), payload)
        .wr_id(wr_id)
        .with(SendFlags::from_bits_retain(asked.flags));
    // Sometimes a datagram has no destination, or a connection's request has one.
    if (kind == QpType::Ud) != (asked.numbers.2 % 16 == 3) {
        request = request.to(Destination {
            address: &address,
            qp_num: 0x1234,
            qkey: 0x1111_1111,
        });
    }
    put(&request)
}

/// What is visible of a queue.
pub(super) fn seen(queue: &Queue) -> (Vec<u8>, u32, Vec<u8>, (u32, Number, u32)) {
    let end = queue.ring.end;
    (
        queue.bytes(),
        queue.record.load(1),
        queue.registers(0x800, 512),
        (end.block, end.requests, end.flags),
    )
}

#[expect(unsafe_code, reason = "posts requests to a ring that no device reads")]
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
        let is_taken_back = last.flags == 6;
        let is_any_put = results.iter().any(Result::is_ok);
        let mut sender = Sender::new(&mut other.ring);
        if let ([asked], [result], false) = (group, &*results, is_taken_back) {
            let put = ask(kind, first, asked, |request| {
                // SAFETY: no device reads the ring.
                unsafe { sender.post(request) }
            });
            assert_eq!(put, *result, "{asked:?}");
            one.ring.submit().unwrap();
        } else {
            let mut batch = sender.batch();
            for ((wr_id, asked), result) in (first..).zip(group).zip(results) {
                let put = ask(kind, wr_id, asked, |request| {
                    // SAFETY: no device reads the ring.
                    unsafe { batch.push(request) }
                });
                assert_eq!(put, result, "{asked:?}");
            }
            if !is_taken_back {
                batch.submit().unwrap();
                one.ring.submit().unwrap();
            } else if last.completes {
                drop(batch);
                one.ring.abort();
            } else {
                let _forgotten = ManuallyDrop::new(batch);
                one.ring.abort();
            }
        }
        assert_eq!(seen(&one), seen(&other));
        // The numbers of a batch that was forgotten are still recorded.
        if last.completes && is_any_put && !is_taken_back {
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

    #[test]
    fn datagrams(script in prop::collection::vec(asked(), 1..shorter(60))) {
        play(QpType::Ud, 1, &script);
    }
}

/// A batch that was not submitted completes nothing, and the next one begins where it did.
#[test]
#[expect(unsafe_code, reason = "posts requests to a ring that no device reads")]
fn a_dropped_batch_completes_nothing() {
    let mut queue = queue(QpType::Rc, 7, 0);
    let sge = [Sge {
        address: 0x1000,
        length: 64,
        key: LocalKey::from_raw(7),
    }];
    let request = |wr_id| SendRequest::send(&sge).wr_id(wr_id).signaled();
    let before = seen(&queue);
    let mut sender = Sender::new(&mut queue.ring);
    let mut batch = sender.batch();
    for wr_id in 0..3 {
        // SAFETY: no device reads the ring.
        unsafe { batch.push(&request(wr_id)) }.unwrap();
    }
    drop(batch);
    for counter in 0..3 {
        assert_eq!(queue.tracker.sent(0, counter), Request::Unknown);
    }
    let after = seen(&queue);
    assert_eq!((after.1, after.2, after.3), (before.1, before.2, before.3));
    let mut sender = Sender::new(&mut queue.ring);
    // SAFETY: as above.
    unsafe { sender.post(&request(9)) }.unwrap();
    assert_eq!(queue.record.load(1), 1);
    assert!(matches!(queue.tracker.sent(0, 0), Request::Of(sent) if sent.wr_id == 9));
    // One that was begun by the ring's own functions, and forgotten, is taken back.
    queue.put(&request(10)).unwrap();
    let mut sender = Sender::new(&mut queue.ring);
    sender.batch().submit().unwrap();
    assert_eq!(queue.record.load(1), 1);
    assert_eq!(queue.tracker.sent(0, 1), Request::Unknown);
}

#[test]
#[expect(unsafe_code, reason = "posts requests to a ring that no device reads")]
fn a_batch_is_refused_what_the_queue_has_no_room_for() {
    let mut queue = queue(QpType::Rc, 2, 0);
    let most = queue.sizes.max_post;
    let request = SendRequest::send_inline(&[&[7; 32]]);
    queue.ring.set_ready(false);
    let mut sender = Sender::new(&mut queue.ring);
    // SAFETY: no device reads the ring, and no memory is named; so below.
    let put = unsafe { sender.post(&request) };
    assert_eq!(put, Err(PostError::WrongState));
    queue.ring.set_ready(true);
    let mut sender = Sender::new(&mut queue.ring);
    let mut batch = sender.batch();
    for _ in 0..most {
        // SAFETY: as above.
        unsafe { batch.push(&request) }.unwrap();
    }
    // SAFETY: as above.
    let put = unsafe { batch.push(&request) };
    assert_eq!(put, Err(PostError::QueueFull));
    batch.submit().unwrap();
    assert!(matches!(queue.tracker.sent(0, 1), Request::Of(_)));
    let mut sender = Sender::new(&mut queue.ring);
    let mut batch = sender.batch();
    for _ in 0..2 {
        // SAFETY: as above.
        unsafe { batch.push(&request) }.unwrap();
    }
    // SAFETY: as above.
    let put = unsafe { batch.push(&request) };
    assert_eq!(put, Err(PostError::QueueFull));
}

/// Templates are what their requests are: all kinds, flags and lengths, after each of two others.
#[test]
#[expect(unsafe_code, reason = "posts requests to a ring that no device reads")]
fn postings_equal_the_requests_of_their_templates() {
    let (key, remote) = (LocalKey::from_raw(0x1234), RemoteKey::from_raw(0x5678));
    let templates = [
        Template::send(key),
        Template::send_imm(key, 0x9abc),
        Template::write(key, remote),
        Template::write_imm(key, remote, 0xdef0),
        Template::read(key, remote),
    ];
    let lengths = [0, 1, 4096, (1 << 31) - 1, 1 << 31, u32::MAX];
    // The interpreter takes long for each of the flags, and for each look at the whole ring.
    let (step, requests) = if cfg!(miri) { (7, 12) } else { (1, 60) };
    let is_looked_at = |length| !cfg!(miri) || Some(&length) == lengths.last();
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        for (template, flags) in templates
            .iter()
            .flat_map(|kind| (0..8).step_by(step).map(move |bits| (kind, bits)))
        {
            let template = template.flags(SendFlags::from_bits_retain(flags));
            let (mut one, mut other) = (queue(kind, requests, 0), queue(kind, requests, 0));
            let fence = SendRequest::new(Operation::LocalInvalidate(remote), Payload::Gather(&[]));
            for (length, wr_id) in lengths.into_iter().zip(7..) {
                let posting = Posting {
                    wr_id,
                    address: 0x1_0000_0000 + u64::from(length),
                    length,
                    remote: 0x7000 + u64::from(length),
                };
                let mut sender = Sender::new(&mut other.ring);
                let prepared = sender.prepare(&template);
                // SAFETY: no device reads the ring; so below.
                let put = unsafe { sender.post_prepared(&prepared, &posting) };
                let asked = template.with(&posting, |request| one.put(request));
                assert_eq!(put, asked, "{template:?} {posting:?} {kind}");
                one.ring.submit().unwrap();
                let mut sender = Sender::new(&mut other.ring);
                // SAFETY: as above.
                let put = unsafe { sender.post(&fence) };
                assert_eq!(put, one.put(&fence));
                one.ring.submit().unwrap();
                if is_looked_at(length) {
                    assert_eq!(seen(&one), seen(&other), "{template:?} {posting:?} {kind}");
                }
            }
        }
    }
}
