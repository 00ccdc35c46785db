//! Offers one completion to a queue twice, the second time for another request, which is under way;
//! holds one while others are polled.
#![forbid(unsafe_code)]

use uverbs::owned::{QueuePair, SharedReceiveQueue};
use uverbs::{Completion, CompletionQueue};

fn to_a_queue_pair(qp: &mut QueuePair, done: Completion<'_>) {
    let first = qp.complete(done);
    drop(qp.complete(done)); //~ E0382
    println!("{first:?}");
}

fn to_a_shared_queue(srq: &mut SharedReceiveQueue, done: Completion<'_>) {
    let first = srq.complete(done);
    drop(srq.complete(done)); //~ E0382
    println!("{first:?}");
}

fn held(qp: &mut QueuePair, cq: &mut CompletionQueue) {
    let held = cq.poll().unwrap().unwrap();
    drop(cq.poll()); //~ E0499
    println!("{:?}", qp.complete(held));
}

fn main() {
    let _: fn(&mut QueuePair, Completion<'_>) = to_a_queue_pair;
    let _: fn(&mut SharedReceiveQueue, Completion<'_>) = to_a_shared_queue;
    let _: fn(&mut QueuePair, &mut CompletionQueue) = held;
}
