//! Numbers that are reused, and what had them before.

use uverbs::owned::{self, SharedReceiveQueue};

use super::{Ground, Stage};

/// How many numbers stay unused before one of them is reused, on devices where the library chooses
/// them.
const RESTING: usize = 4096;

fn shared(ground: &Ground<'_>) -> SharedReceiveQueue {
    SharedReceiveQueue::new(ground.pd.create_srq(15, 1).expect("a shared queue"))
}

fn looped(ground: &Ground<'_>, srq: &SharedReceiveQueue) -> owned::QueuePair {
    owned::QueuePair::new(ground.looped(Some(srq)))
}

/// A message from a queue pair to itself: both its completions are in the queue.
fn message(
    ground: &Ground<'_>,
    qp: &mut owned::QueuePair,
    srq: &mut SharedReceiveQueue,
    number: u64,
) {
    let room = ground.buffer(0);
    srq.recv(room, number).expect("a receive");
    qp.send_inline(b"8 bytes.", number).expect("a message");
    for _ in 0..50 {
        ground.stage.work();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// A queue pair whose number was that of an earlier one that left completions behind: its own are
/// reported.
pub fn numbers_come_again(stage: &dyn Stage) {
    let mut ground = Ground::new(stage);
    let mut srq = shared(&ground);
    let mut gone = looped(&ground, &srq);
    message(&ground, &mut gone, &mut srq, 1);
    drop(gone);
    for _ in 0..RESTING {
        let builder = ground
            .pd
            .queue_pair(uverbs::QpType::Rc, &ground.cq, &ground.cq);
        drop(
            builder
                .max_send_wr(1)
                .max_recv_wr(1)
                .build()
                .expect("a queue pair"),
        );
    }
    // Everything about the destroyed one is reported before there is another.
    stage.work();
    while let Some(done) = ground.cq.poll().expect("a ring of completions") {
        drop(srq.complete(done));
    }
    let mut next = looped(&ground, &srq);
    message(&ground, &mut next, &mut srq, 2);
    let (mut sent, mut received) = (false, false);
    while !(sent && received) {
        ground.until("a message's completions", |done| {
            match next.complete(done) {
                Ok(done) => sent |= done.user_data() == 2,
                Err(done) => received |= srq.complete(done).is_ok_and(|done| done.user_data() == 2),
            }
            Some(())
        });
    }
}

/// A shared queue whose receives were used by queue pairs that were destroyed without being polled:
/// it accepts as many again.
pub fn shared_receives_come_back(stage: &dyn Stage) {
    let mut ground = Ground::new(stage);
    let mut srq = shared(&ground);
    let room = srq.queue().size().max_wr;
    let mut ended = Vec::new();
    for number in 0..u64::from(room) {
        let mut gone = looped(&ground, &srq);
        message(&ground, &mut gone, &mut srq, number);
        drop(gone);
    }
    while let Some(done) = ground.cq.poll().expect("a ring of completions") {
        if let Ok(done) = srq.complete(done) {
            ended.push(done.user_data());
        }
    }
    while let Some(done) = srq.unpolled() {
        ended.push(done.user_data());
    }
    ended.sort_unstable();
    assert!(ended.into_iter().eq(0..u64::from(room)), "each once");
    for number in 0..u64::from(room) {
        let buffer = ground.buffer(0);
        let posted = srq.recv(buffer, 100 + number);
        assert!(posted.is_ok(), "{number} of {room} fit: {posted:?}");
    }
}

/// Completion queues of two contexts are distinguished.
pub fn completion_queues_are_distinguished(stage: &dyn Stage) {
    let contexts = [stage.open(None), stage.open(None), stage.open_elsewhere()];
    let mut ids = Vec::new();
    for context in &contexts {
        for _ in 0..4 {
            let cq = context.create_cq(4).expect("a completion queue");
            assert!(!ids.contains(&cq.id()), "{:?} comes twice", cq.id());
            ids.push(cq.id());
        }
    }
}
