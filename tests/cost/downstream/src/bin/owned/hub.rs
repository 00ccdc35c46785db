//! Loops over connections of a hub.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use adversary::device::Device as _;
use adversary::mlx5::Cards;
use cost_downstream::{MANY, Outcome, Times, run};
use uverbs::ProtectionDomain;
use uverbs::hub::{Connection, Hub, Request};

use crate::{MESSAGE, hub};

/// Requests of a hub's connection that are under way.
type UnderWay<'c> = Vec<Request<'c>>;

#[inline(never)]
pub fn counted_send<'c>(hub: &Hub, from: &'c Connection, under_way: &mut UnderWay<'c>) -> Outcome {
    for _ in 0..MANY {
        let buffer = hub.buffer()?;
        under_way.push(from.send(buffer, MESSAGE));
    }
    Ok(())
}

/// All completions there are, at most one for each operation.
#[inline(never)]
pub fn counted_turn(hub: &Hub) -> Outcome {
    if hub.turn()? != MANY as usize {
        return Err("another number of completions".into());
    }
    Ok(())
}

/// The same, of messages.
#[inline(never)]
pub fn counted_turn_received(hub: &Hub) -> Outcome {
    // Otherwise the compiler merges both into one function.
    let expected = std::hint::black_box(MANY as usize);
    if hub.turn()? != expected {
        return Err("another number of messages".into());
    }
    Ok(())
}

/// Each has ended; its buffer goes back to the hub.
#[inline(never)]
pub fn counted_finish(under_way: &mut UnderWay<'_>) -> Outcome {
    let mut cx = TaskContext::from_waker(Waker::noop());
    for mut request in under_way.drain(..) {
        let Poll::Ready(ended) = Pin::new(&mut request).poll(&mut cx) else {
            return Err("not ended".into());
        };
        drop(ended?);
    }
    Ok(())
}

/// Takes messages, whose buffers go back to the hub; each is replaced by another receive.
#[inline(never)]
pub fn counted_receive(to: &Connection, sum: &mut u64) -> Outcome {
    let mut cx = TaskContext::from_waker(Waker::noop());
    for _ in 0..MANY {
        let mut receive = to.recv();
        let Poll::Ready(message) = Pin::new(&mut receive).poll(&mut cx) else {
            return Err("no message".into());
        };
        *sum += message?.len() as u64;
    }
    Ok(())
}

/// Runs them: hubs of two connections each, so that a completion's has to be found.
pub fn run(cards: &Cards, pd: &ProtectionDomain, rounds: u32, times: &mut Times) -> Outcome<u64> {
    let hub = || {
        let plain = pd.hub().connections(2).buffer_size(MESSAGE);
        plain
            .sends(MANY)
            .receives(MANY)
            .spin(Duration::ZERO)
            .build()
    };
    let (a, b) = (hub()?, hub()?);
    let mut pairs = Vec::new();
    for _ in 0..2 {
        let (here, there) = (a.prepare()?, b.prepare()?);
        let (to_here, to_there) = (here.endpoint(), there.endpoint());
        pairs.push((here.connect(to_there)?, there.connect(to_here)?));
    }
    let mut under_way = Vec::with_capacity(MANY as usize);
    let mut sum = 0;
    for (here, there) in pairs.iter().cycle().take(rounds as usize) {
        run!(times, hub::counted_send(&a, here, &mut under_way));
        cards.run();
        run!(times, hub::counted_turn(&a));
        run!(times, hub::counted_finish(&mut under_way));
        run!(times, hub::counted_turn_received(&b));
        run!(times, hub::counted_receive(there, &mut sum));
    }
    Ok(sum)
}
