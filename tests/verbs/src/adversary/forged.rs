//! Completions of other requests, which must not finish anything.

use uverbs::owned::{Memory, SharedReceiveQueue, Work};
use uverbs::{Operation, Payload, QueuePair, SendRequest};

use super::named::Reader;
use super::{Ground, Stage};

/// Ids that may follow one that was seen.
fn near(seen: u64) -> Vec<u64> {
    let tables = (0..8_u64).map(|more| seen.wrapping_add(more << 32));
    let uses = (0..8_u64).map(|more| seen.wrapping_add(more << 24));
    let places = (0..8_u64).map(|less| seen.wrapping_sub(less));
    let first = (1..8_u64).map(|table| table << 32 | 1 << 24 | seen & 0xff_ffff);
    tables.chain(uses).chain(places).chain(first).collect()
}

/// Posts writes without memory of this process under ids of the program's choice; returns how many
/// were accepted.
fn post_under(qp: &mut QueuePair, ids: &[u64], remote: uverbs::Remote) -> usize {
    let bytes: &[&[u8]] = &[&[0xee; 16]];
    ids.iter()
        .filter(|id| {
            let request = SendRequest::new(Operation::Write(remote), Payload::Inline(bytes));
            let mut batch = qp.send_batch();
            let put = batch.push_inline(&request.wr_id(**id).signaled());
            put.and(batch.submit()).is_ok()
        })
        .count()
}

/// Requests that the program posted itself under the ids of an owned queue, before that existed.
pub fn by_an_id(stage: &dyn Stage) {
    let mut ground = Ground::new(stage);
    let target = ground.exposed();
    let mut known = ground.owned();
    let room = ground.buffer(0);
    known.recv(room, 1).expect("a receive");
    known.send_inline(b"8 bytes.", 2).expect("a message");
    let mut seen = 0;
    for _ in 0..2 {
        let done = ground.until("a request that ends", |done| {
            let reported = *done;
            known.complete(done).ok().map(|_| reported)
        });
        if done.is_receive() {
            seen = done.wr_id;
        }
    }
    let mut raw = ground.looped(None);
    let mut left = post_under(&mut raw, &near(seen), target.remote().start());
    let mut qp = uverbs::owned::QueuePair::new(raw);
    let room = ground.buffer(0);
    qp.recv(room, 3).expect("a receive");
    while left > 0 {
        left -= 1;
        let forged = ground.until("a forged completion", |done| Some(qp.complete(done).ok()));
        assert!(forged.is_none(), "{forged:?} is posted");
    }
}

/// The same for a shared queue, by a queue pair of another context, and of another device.
pub fn from_elsewhere(stage: &dyn Stage) {
    for context in [stage.open(None), stage.open_elsewhere()] {
        let mut elsewhere = Ground::on(stage, &context);
        let target = elsewhere.exposed();
        let mut raw = elsewhere.looped(None);
        let mut ground = Ground::new(stage);
        let made = ground.pd.create_srq(15, 1).expect("a shared queue");
        let mut srq = SharedReceiveQueue::new(made);
        let mut sender = uverbs::owned::QueuePair::new(ground.looped(Some(&srq)));
        let room = ground.buffer(0);
        srq.recv(room, 1).expect("a receive");
        sender.send_inline(b"8 bytes.", 2).expect("a message");
        let seen = ground.until("a message", |done| {
            let wr_id = done.wr_id;
            srq.complete(done).ok().map(|_| wr_id)
        });
        let room = ground.buffer(0);
        srq.recv(room, 3).expect("a receive");
        let mut left = post_under(&mut raw, &near(seen), target.remote().start());
        while left > 0 {
            left -= 1;
            let forged =
                elsewhere.until("a forged completion", |done| Some(srq.complete(done).ok()));
            assert!(forged.is_none(), "{forged:?} is posted");
        }
    }
}

/// How often something is refused while a completion is held: 8-bit counters wrap meanwhile,
/// exactly or not.
const REFUSALS: [usize; 6] = [0, 1, 254, 255, 256, 300];

/// A completion that is held while its request is taken back by a reset, and its slot is reused
/// again and again.
pub fn held_over_posts(stage: &dyn Stage) {
    for refusals in REFUSALS {
        held_over(stage, refusals);
    }
}

fn held_over(stage: &dyn Stage, refusals: usize) {
    let mut ground = Ground::new(stage);
    let mut reader = Reader::new(&mut ground);
    let target = reader.source.remote().start();
    let mut spare = ground.buffer(0);
    let read = |buffer, number| Work::read(target).memory((buffer, 16)).user_data(number);
    let (first, second) = (ground.buffer(0), ground.buffer(0));
    reader.qp.post(read(first, 1)).expect("a read");
    let held = loop {
        stage.work();
        if let Some(done) = ground.cq.poll().expect("a ring of completions") {
            break done;
        }
    };
    let back = reader.qp.reset().expect("a reset");
    assert_eq!(back.len(), 1, "the request that was not finished");
    reader.connect().expect("another life");
    for _ in 0..refusals {
        let add = Operation::FetchAdd {
            remote: target,
            add: 1,
        };
        let refused = reader.qp.post(Work::new(add).memory((spare, 64)));
        let work = refused.expect_err("64 bytes are no word").work;
        let back = work.map(Work::take_memory).and_then(Memory::into_buffer);
        spare = back.expect("a refused request is given back");
    }
    reader.qp.post(read(second, 2)).expect("a read");
    let again = reader.qp.complete(held);
    assert!(again.is_err(), "{again:?} is posted");
    drop(again);
    assert_eq!(ground.finish(&mut reader.qp).user_data(), 2);
}
