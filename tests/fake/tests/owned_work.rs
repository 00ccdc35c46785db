//! Lists of memory, inline data, batches and unsignaled requests of owned queue pairs, and what
//! becomes of their memory, whatever a safe program does.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::mem_forget,
    reason = "a test fails by panicking, and forgets batches"
)]

use fake_tests::{Bench, Loopback};
use uverbs::kernel::CommandPath;
use uverbs::owned::{self, Memory, Work};
use uverbs::{AccessFlags, Context, Operation, PostError, QpState, QpType, SendFlags, WcStatus};
use uverbs_core::Errno;
use uverbs_fake::{Effect, Profile, When};
use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_POST_SEND;

const ALL: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);

/// A queue pair with room for lists and inline data, connected to itself.
fn looped(context: &Context) -> Loopback {
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(64).unwrap();
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .gid_index(1)
        .access(ALL)
        .max_send_wr(8)
        .max_recv_wr(8)
        .max_send_sge(4)
        .max_recv_sge(4)
        .max_inline_data(64)
        .build()
        .unwrap();
    let endpoint = prepared.endpoint();
    let qp = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
    Loopback { qp, cq, pd }
}

fn opened() -> (Bench, Context) {
    let bench = Bench::new(Profile::v7_2(), CommandPath::Auto);
    let context = bench.context().unwrap();
    (bench, context)
}

/// The numbers of everything that was released.
fn released(qp: &mut owned::QueuePair) -> Vec<(u64, bool)> {
    std::iter::from_fn(|| qp.released())
        .map(|one| (one.user_data, one.carried_out))
        .collect()
}

#[test]
fn a_list_is_gathered_and_scattered_and_comes_back() {
    let (_bench, context) = opened();
    let mut all = looped(&context);
    let [mut one, mut two, three, four] = all.buffers::<4>(8).unwrap();
    one.copy_from_slice(b"abcdefgh");
    two.copy_from_slice(b"ijklmnop");
    let exposed = all.pd.expose(64, ALL).unwrap();
    assert!(exposed.write(8, b"qrst"));
    let room = vec![(three, 6).into(), Memory::None, four.into()];
    all.qp.recv_into(room, 1).unwrap();
    let list: Vec<Memory> = vec![(one, 3).into(), (exposed, 8..12).into(), (two, 7).into()];
    let place = list.as_ptr();
    all.qp
        .post(Work::send_imm(5).memory(list).user_data(2))
        .unwrap();
    let done = all.finish(2).unwrap();
    for done in done {
        assert_eq!(done.status(), WcStatus::Success);
        let (user_data, len) = (done.user_data(), done.len());
        let Memory::List(list) = done.into_memory() else {
            panic!("no list");
        };
        assert_eq!(list.len(), 3);
        if user_data == 2 {
            assert_eq!(list.as_ptr(), place, "it is the same list");
            continue;
        }
        assert_eq!(len, 14);
        let bytes: Vec<u8> = list
            .into_iter()
            .filter_map(Memory::into_buffer)
            .flat_map(|buffer| buffer.to_vec())
            .collect();
        assert_eq!(&bytes, b"abcqrs\0\0tijklmno");
    }
}

#[test]
fn a_list_that_cannot_be_posted_comes_back() {
    let (_bench, context) = opened();
    let mut all = looped(&context);
    let stranger = context.alloc_pd().unwrap();
    let list = |count: usize| -> Memory {
        let buffers = all.pd.buffer_list(count, 8).unwrap();
        buffers
            .into_iter()
            .map(Memory::from)
            .collect::<Vec<_>>()
            .into()
    };
    let foreign = stranger.buffer_list(1, 8).unwrap();
    let foreign: Vec<Memory> = foreign.into_iter().map(Memory::from).collect();
    let (too_many, far_too_many) = (list(5), list(33));
    let nested = Memory::List(vec![list(1)]);
    for (memory, expected) in [
        (
            too_many,
            PostError::TooManySges {
                requested: 5,
                max: 4,
            },
        ),
        (
            far_too_many,
            PostError::TooManySges {
                requested: 33,
                max: 32,
            },
        ),
        (nested, PostError::InvalidRequest),
        (foreign.into(), PostError::InvalidRequest),
    ] {
        let (len, count) = (memory.len(), all.qp.sends_posted());
        let refused = all.qp.post(Work::send().memory(memory)).unwrap_err();
        assert_eq!(refused.error, expected);
        let memory = refused.work.unwrap().take_memory();
        let refused = all.qp.recv_into(memory, 1).unwrap_err();
        assert_eq!(refused.error, expected);
        assert_eq!((refused.memory.len(), all.qp.sends_posted()), (len, count));
    }
}

#[test]
fn every_operation_with_inline_data_has_it() {
    let (_bench, context) = opened();
    let mut all = looped(&context);
    let target = all.pd.expose(64, ALL).unwrap();
    let to = target.remote();
    for (n, work) in [
        Work::send().untyped(),
        Work::send_imm(1).untyped(),
        Work::write(to).untyped(),
        Work::write_imm(to, 2).untyped(),
    ]
    .into_iter()
    .enumerate()
    {
        let [room] = all.buffers::<1>(64).unwrap();
        let receives = n != 2;
        if receives {
            all.qp.recv(room, 1).unwrap();
        }
        let work = work.user_data(2).flags(SendFlags::SOLICITED);
        all.qp.post_inline(work, &[b"in", b"line"]).unwrap();
        let done = all.finish(1 + usize::from(receives)).unwrap();
        assert!(
            done.iter().all(|done| done.status().is_success()),
            "{done:?}"
        );
        if n >= 2 {
            let mut bytes = [0; 6];
            assert!(target.read(0, &mut bytes) && target.write(0, &[0; 6]));
            assert_eq!(&bytes, b"inline");
        }
    }
    let [buffer] = all.buffers::<1>(8).unwrap();
    let refused = all.qp.post_inline(Work::send().memory(buffer), &[b"x"]);
    let refused = refused.unwrap_err();
    assert_eq!(refused.error, PostError::InvalidRequest);
    assert_eq!(refused.work.unwrap().take_memory().len(), 8);
    let refused = all.qp.post_inline(Work::read(to), &[b"x"]).unwrap_err();
    assert!(refused.work.is_some());
    assert_eq!(all.qp.sends_posted(), 0);
}

#[test]
fn atomics_return_the_old_value() {
    let (_bench, context) = opened();
    let mut all = looped(&context);
    let target = all.pd.expose(8, ALL).unwrap();
    assert!(target.store(0, 7));
    for (work, old) in [
        (Work::fetch_add(target.remote(), 3), 7_u64),
        (Work::compare_swap(target.remote(), 10, 99), 10),
        (Work::compare_swap(target.remote(), 10, 5), 99),
    ] {
        let [result] = all.buffers::<1>(8).unwrap();
        all.qp.post(work.memory(result)).unwrap();
        let done = all.finish(1).unwrap().remove(0);
        assert_eq!(done.bytes(), Some(&old.to_ne_bytes()[..]));
    }
    assert_eq!(target.load(0), Some(99));
}

#[test]
fn memory_of_unsignaled_requests_comes_back_after_a_later_completion() {
    let (bench, context) = opened();
    let mut all = looped(&context);
    let target = all.pd.expose(64, ALL).unwrap();
    for round in 0..5 {
        let buffers = all.buffers::<4>(8).unwrap();
        bench.fake.freeze(true);
        let mut batch = all.qp.batch();
        for (n, buffer) in (0..).zip(buffers) {
            let work = Work::write(target.remote()).memory(buffer).user_data(n);
            batch
                .push(if n == 3 { work } else { work.unsignaled() })
                .unwrap();
        }
        let no_memory = Work::write(target.remote()).unsignaled().user_data(9);
        batch.push_inline(no_memory, &[b"behind"]).unwrap();
        assert_eq!(batch.len(), 5);
        batch.submit().unwrap();
        assert!(released(&mut all.qp).is_empty(), "nothing is over");
        bench.fake.freeze(false);
        let done = all.finish(1).unwrap().remove(0);
        assert_eq!((done.user_data(), done.status()), (3, WcStatus::Success));
        // Released ones keep their places until they are taken.
        assert_eq!(all.qp.sends_posted(), 4);
        assert_eq!(
            released(&mut all.qp),
            [(0, true), (1, true), (2, true)],
            "round {round}"
        );
        // The one behind is not known to be over; the next completion tells.
        assert_eq!(all.qp.sends_posted(), 1);
    }
    assert!(
        all.qp.into_raw().is_err(),
        "one is under way, for all it knows"
    );
}

#[test]
fn an_unsignaled_request_that_fails_releases_those_before_it() {
    let (_bench, context) = opened();
    let mut all = looped(&context);
    let target = all.pd.expose(64, ALL).unwrap();
    let mut wrong = target.remote();
    wrong.address += 4096;
    let buffers = all.buffers::<4>(8).unwrap();
    let mut batch = all.qp.batch();
    for (n, buffer) in (0..).zip(buffers) {
        let to = if n == 1 { wrong } else { target.remote() };
        let work = Work::write(to).memory(buffer).user_data(n).unsignaled();
        batch.push(work).unwrap();
    }
    batch.submit().unwrap();
    let done = all.finish(3).unwrap();
    assert!(
        done.iter().all(|done| !done.status().is_success()),
        "{done:?}"
    );
    let ended: Vec<_> = done.iter().map(owned::Finished::user_data).collect();
    assert_eq!(ended, [1, 2, 3]);
    assert_eq!(released(&mut all.qp), [(0, true)]);
    assert_eq!(all.qp.sends_posted(), 0);
}

#[test]
fn a_batch_that_is_dropped_or_forgotten_posts_nothing_and_loses_nothing() {
    let (_bench, context) = opened();
    let mut all = looped(&context);
    for forget in [false, true] {
        let [room, one, other, message] = all.buffers::<4>(8).unwrap();
        all.qp.recv(room, 1).unwrap();
        let mut batch = all.qp.batch();
        batch.push(Work::send().memory(one).user_data(2)).unwrap();
        let unsignaled = Work::send().memory(other).user_data(3).unsignaled();
        batch.push(unsignaled).unwrap();
        if forget {
            std::mem::forget(batch);
        } else {
            drop(batch);
        }
        all.qp.send(message, 4, 4).unwrap();
        let mut ended: Vec<_> = all.finish(2).unwrap();
        ended.sort_by_key(owned::Finished::user_data);
        let ended: Vec<_> = ended
            .iter()
            .map(|done| (done.user_data(), done.len()))
            .collect();
        assert_eq!(ended[0], (1, 4), "the message that was posted");
        assert_eq!(ended[1].0, 4);
        assert_eq!(released(&mut all.qp), [(2, false), (3, false)]);
        assert!(all.cq.poll().unwrap().is_none());
        assert_eq!(all.qp.sends_posted(), 0);
    }
}

#[test]
fn a_batch_whose_doorbell_fails_keeps_its_memory_until_the_end() {
    let (bench, context) = opened();
    let mut all = looped(&context);
    let [one, two] = all.buffers::<2>(8).unwrap();
    let mut batch = all.qp.batch();
    batch.push(Work::send().memory(one).unsignaled()).unwrap();
    batch.push(Work::send().memory(two)).unwrap();
    bench.inject(
        When::Command(IB_USER_VERBS_CMD_POST_SEND),
        Effect::Fail(Errno::ACCESS),
    );
    assert_eq!(batch.submit(), Err(PostError::Doorbell(Errno::ACCESS)));
    bench.fake.clear_faults();
    assert!(all.qp.released().is_none());
    assert_eq!(all.qp.sends_posted(), 2);
    assert_eq!(all.qp.destroy().unwrap().len(), 2);
}

#[test]
fn windows_are_refused_in_batches_too() {
    let (_bench, context) = opened();
    let mut all = looped(&context);
    let key = all.pd.expose(8, ALL).unwrap().rkey();
    let mut batch = all.qp.batch();
    let refused = batch.push(Work::new(Operation::LocalInvalidate(key)));
    assert_eq!(refused.unwrap_err().error, PostError::UnsupportedOperation);
    assert!(batch.is_empty());
}

#[test]
fn a_queue_pair_is_connected_again_after_a_reset() {
    let (_bench, context) = opened();
    let mut all = looped(&context);
    let endpoint = all.qp.endpoint();
    assert!(all.qp.reconnect(endpoint).is_err(), "it is connected");
    for _ in 0..3 {
        let [room, message, stale] = all.buffers::<3>(8).unwrap();
        let mut batch = all.qp.batch();
        batch.push(Work::send().memory(stale).unsignaled()).unwrap();
        std::mem::forget(batch);
        all.qp.recv(room, 1).unwrap();
        let mut back = all.qp.reset().unwrap();
        assert_eq!((back.len(), all.qp.state()), (2, QpState::Reset));
        assert!(all.qp.released().is_none(), "it was returned by the reset");
        all.qp.reconnect(endpoint).unwrap();
        let room = back.pop().and_then(Memory::into_buffer).unwrap();
        all.qp.recv(room, 3).unwrap();
        all.qp.send(message, 8, 4).unwrap();
        let done = all.finish(2).unwrap();
        assert!(
            done.iter().all(|done| done.status().is_success()),
            "{done:?}"
        );
    }
    let wrong = QpType::Ud;
    assert_ne!(all.qp.kind(), wrong);
    all.qp.reset().unwrap();
    assert!(all.qp.reactivate().is_err(), "it needs a peer");
    assert_eq!(all.qp.state(), QpState::Reset);
    all.qp.reconnect(endpoint).unwrap();
}

#[test]
fn only_a_queue_pair_with_nothing_posted_becomes_raw() {
    let (bench, context) = opened();
    let mut all = looped(&context);
    let [room, message] = all.buffers::<2>(8).unwrap();
    all.qp.recv(room, 1).unwrap();
    all.qp = all.qp.into_raw().unwrap_err();
    all.qp.send(message, 8, 2).unwrap();
    assert_eq!(all.finish(2).unwrap().len(), 2);
    let raw = all.qp.into_raw().unwrap();
    let number = raw.qp_num();
    let again = owned::QueuePair::new(raw);
    assert_eq!(again.qp_num(), number);
    drop((again, all.cq, all.pd));
    drop(context);
    assert_eq!(bench.fake.objects().total(), 0);
}

#[test]
fn what_names_another_vendors_queues_is_refused_and_comes_back() {
    let (_bench, context) = opened();
    let mut all = looped(&context);
    let [one, two] = all.buffers::<2>(8).unwrap();
    let work = Work::send().memory((one, 5)).user_data(7);
    let refused = all.qp.post_to_srq(work, 1).unwrap_err();
    assert_eq!(refused.error, PostError::UnsupportedOperation);
    let memory = refused.work.unwrap().take_memory();
    assert_eq!((memory.len(), all.qp.sends_posted()), (5, 0));

    let inline = [&b"bytes"[..]];
    let refused = all.qp.post_inline_to_srq(Work::send(), &inline, 1);
    assert_eq!(refused.unwrap_err().error, PostError::UnsupportedOperation);
    let both = Work::send().memory(two);
    let refused = all.qp.post_inline_to_srq(both, &inline, 1).unwrap_err();
    assert_eq!(refused.error, PostError::InvalidRequest);
    let two = refused.work.unwrap().take_memory();

    // In a batch, the others are posted all the same.
    all.qp.recv_into(two, 2).unwrap();
    let mut batch = all.qp.batch();
    batch
        .push_inline(Work::send().user_data(1), &inline)
        .unwrap();
    let refused = batch
        .push_to_srq(Work::send().memory(memory), 1)
        .unwrap_err();
    assert_eq!(refused.error, PostError::UnsupportedOperation);
    assert_eq!(batch.len(), 1);
    batch.submit().unwrap();
    let done = all.finish(2).unwrap();
    assert_eq!(done.len(), 2);
    assert!(
        done.iter().all(|done| done.status().is_success()),
        "{done:?}"
    );
    assert_eq!((all.qp.sends_posted(), released(&mut all.qp)), (0, vec![]));
}
