//! Many queue pairs of one process on one completion queue: the cost of creating one, and of
//! polling a completion, does not depend on their number.

use std::thread::sleep;
use std::time::{Duration, Instant};

use uverbs::{
    AccessFlags, CompletionQueue, Operation, Payload, ProtectionDomain, QpType, QueuePair,
    SendRequest,
};
use verbs_tests::{Registered, open, raw, until};

/// Number of requests that a queue pair holds at a time.
const DEPTH: usize = 64;

/// How often each group is measured. The best measurement counts, because an emulated processor is
/// interrupted occasionally.
const ROUNDS: usize = 10;

/// How much more the last may cost than the first. A cost proportional to the number of queue pairs
/// would be a thousand times higher.
const NOISE: u32 = 5;

/// A queue pair connected to itself, and how long it took to create, and to connect.
fn queue_pair(pd: &ProtectionDomain, cq: &CompletionQueue) -> (QueuePair, Duration, Duration) {
    let since = Instant::now();
    let builder = pd
        .queue_pair(QpType::Rc, cq, cq)
        .max_send_wr(u32::try_from(DEPTH).unwrap())
        .max_inline_data(8)
        .max_recv_wr(1)
        .access(AccessFlags::REMOTE_WRITE);
    let prepared = builder.build().unwrap();
    let (made, since) = (since.elapsed(), Instant::now());
    let own = prepared.endpoint();
    let qp = prepared.handshake(own).unwrap();
    (qp, made, since.elapsed())
}

/// Makes each of these write its share of a round, and polls all completions once they are there:
/// the time per completion, or `None` if they came late.
fn round(qps: &mut [QueuePair], cq: &mut CompletionQueue, there: &Registered) -> Option<Duration> {
    let share = (DEPTH / qps.len()).max(1);
    let total = share * qps.len();
    for (number, qp) in (0_u64..).zip(qps.iter_mut()) {
        let bytes: [&[u8]; 1] = [b"8 bytes."];
        let request = SendRequest::new(Operation::Write(there.remote(0)), Payload::Inline(&bytes))
            .wr_id(number)
            .signaled();
        for _ in 0..share {
            raw::send(qp, &[request]).unwrap();
        }
    }
    sleep(Duration::from_millis(20));
    let mut reported = vec![0; qps.len()];
    let (mut taken, mut late) = (0, false);
    let since = Instant::now();
    while taken < total {
        match cq.poll().unwrap() {
            Some(done) => {
                assert!(done.is_success(), "{:?}", *done);
                reported[usize::try_from(done.wr_id).unwrap()] += 1;
                taken += 1;
            }
            None => late = true,
        }
        assert!(
            since.elapsed() < verbs_tests::DEADLINE,
            "completions are lost"
        );
    }
    let each = since.elapsed() / u32::try_from(total).unwrap();
    assert!(reported.iter().all(|count| *count == share), "{reported:?}");
    (!late).then_some(each)
}

/// The 10th percentile.
fn low(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 10]
}

/// Creates this many queue pairs in each group, one group after another, and measures each group.
fn crowds(crowds: &[usize]) {
    let context = open();
    let (pd, mut cq) = (
        context.alloc_pd().unwrap(),
        context.create_cq(4096).unwrap(),
    );
    let there = Registered::remote_all(&pd, 64);
    let (mut qps, mut made, mut connected) = (Vec::new(), Vec::new(), Vec::new());
    let mut polls = Vec::new();
    for crowd in crowds {
        while qps.len() < *crowd {
            let (qp, one, other) = queue_pair(&pd, &cq);
            qps.push(qp);
            made.push(one);
            connected.push(other);
        }
        let mut measured = 0;
        let mut best = Duration::MAX;
        until("completions in time", || {
            if let Some(each) = round(&mut qps, &mut cq, &there) {
                best = best.min(each);
                measured += 1;
            }
            (measured == ROUNDS).then_some(())
        });
        polls.push(best);
    }
    let some = qps.len() / 10;
    let first = (low(&made[..some]), low(&connected[..some]));
    let last = (
        low(&made[made.len() - some..]),
        low(&connected[made.len() - some..]),
    );
    println!("FIGURE: {crowds:?} queue pairs: {polls:?} for each completion");
    println!(
        "FIGURE: made in {:?} each at first and {:?} at last, connected in {:?} and {:?}",
        first.0, last.0, first.1, last.1
    );
    assert!(
        polls[polls.len() - 1] < polls[0] * NOISE,
        "polling became slower: {polls:?}"
    );
    assert!(last.0 < first.0 * NOISE, "{last:?}");
    assert!(last.1 < first.1 * NOISE, "{last:?}");
    let since = Instant::now();
    drop(qps);
    println!("FIGURE: all destroyed in {:?}", since.elapsed());
    assert_eq!(context.leaked(), 0);
}

#[test]
fn a_hundred_queue_pairs_cost_no_more_each_than_one() {
    crowds(&[1, 10, 100]);
}

#[test]
#[ignore = "takes up to a minute; run by: cargo xtask test --level mlx5 --include-ignored"]
fn a_thousand_queue_pairs_cost_no_more_each_than_one() {
    crowds(&[1, 10, 100, 1000]);
}
