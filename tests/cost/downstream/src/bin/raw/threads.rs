//! One thread posts, another takes the completions, of one queue pair, in turn: what is counted is
//! the same in every run, and the words that both use have to come from the other's cache.

use std::error::Error;
use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use adversary::device::Device as _;
use cost_downstream::{MANY, Outcome};
use uverbs::typed::vendor::Mlx5;
use uverbs::{CompletionQueue, QueuePair, SendRequest};

use crate::setup::{Memory, Setup};
use cost_downstream::Times;

/// The times and the sum of the thread that polls; errors as text, which another thread can have.
type Polled = Result<(Times, u64), String>;

pub fn run(rounds: u32, times: &mut Times, setup: &mut Setup) -> Outcome {
    let (posted, to_poll) = channel();
    let (polled, to_post) = channel();
    let (qp, memory, cards) = (&mut setup.qp, &setup.memory, &setup.cards);
    let cq = &mut setup.send_cq;
    let (others, sum) = thread::scope(|scope| {
        let poller = scope.spawn(move || poll(cq, &to_poll, &polled));
        for _ in 0..rounds {
            times.run("threads::counted_post", || counted_post(qp, memory))?;
            cards.run();
            hand_over(&posted, &to_post);
            times.run("threads::counted_typed_post", || {
                counted_typed_post(qp, memory)
            })?;
            cards.run();
            hand_over(&posted, &to_post);
        }
        drop(posted);
        let polled = poller.join();
        Ok::<_, Box<dyn Error>>(polled.map_err(|_| "the thread that polls panicked")??)
    })?;
    times.extend(others);
    setup.sum += sum;
    Ok(())
}

/// Lets the other thread poll. If it has ended, it says why.
fn hand_over(posted: &Sender<()>, polled: &Receiver<()>) {
    if posted.send(()).is_ok() {
        let _ = polled.recv();
    }
}

/// The thread that polls: by either handle in turn.
fn poll(cq: &mut CompletionQueue, posted: &Receiver<()>, polled: &Sender<()>) -> Polled {
    let (mut times, mut sum) = (Times::default(), 0);
    let text = |error: Box<dyn Error>| error.to_string();
    while posted.recv().is_ok() {
        times
            .run("threads::counted_poll", || counted_poll(cq, &mut sum))
            .map_err(text)?;
        // Nobody waits for it once the other thread has failed.
        let _ = polled.send(());
        if posted.recv().is_err() {
            break;
        }
        times
            .run("threads::counted_typed_poll", || {
                counted_typed_poll(cq, &mut sum)
            })
            .map_err(text)?;
        let _ = polled.send(());
    }
    Ok((times, sum))
}

#[inline(never)]
pub fn counted_post(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    black_box(1_u8); // Otherwise the compiler merges it with one of another module.
    for n in 0..MANY {
        let piece = [memory.piece()];
        let request = SendRequest::write(&piece, memory.remote());
        // SAFETY: see the program's paragraph.
        unsafe { qp.post_send(&[request.wr_id(n.into()).signaled()]) }?;
    }
    Ok(())
}

#[inline(never)]
pub fn counted_typed_post(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    black_box(2_u8); // Otherwise the compiler merges it with one of another module.
    let mut sender = qp.sender::<Mlx5>()?;
    for n in 0..MANY {
        let piece = [memory.piece()];
        let request = SendRequest::write(&piece, memory.remote());
        // SAFETY: see the program's paragraph.
        unsafe { sender.post(&request.wr_id(n.into()).signaled()) }?;
    }
    Ok(())
}

#[inline(never)]
pub fn counted_poll(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
    black_box(3_u8); // Otherwise the compiler merges it with one of another module.
    for _ in 0..MANY {
        match cq.poll()? {
            Some(done) if done.status.is_success() => *sum += done.wr_id,
            _ => return Err("no completion".into()),
        }
    }
    Ok(())
}

#[inline(never)]
pub fn counted_typed_poll(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
    black_box(4_u8); // Otherwise the compiler merges it with one of another module.
    let mut poller = cq.poller::<Mlx5>()?;
    for _ in 0..MANY {
        match poller.poll()? {
            Some(done) if done.status().is_success() => *sum += done.wr_id(),
            _ => return Err("no completion".into()),
        }
    }
    Ok(())
}
