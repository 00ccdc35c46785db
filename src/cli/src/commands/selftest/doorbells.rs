//! `doorbells`: many queue pairs submit, single requests and batches, from one thread and from
//! eight.
//!
//! An mlx5 context gives the first few queue pairs doorbells of their own, shares some among the
//! next ones, and gives thread domains others: with twenty queue pairs all of them are used.

use std::thread;
use std::time::Instant;

use uverbs::owned::{self, Buffer};
use uverbs::{CompletionQueue, ProtectionDomain, QpType, QueuePair, SendRequest};

use super::check::{Check, Found, Outcome, Trouble, ensure};
use super::open::nothing_left;
use super::pair::{Exchange as _, buffer_of, connect, ended, prepare, take};
use super::subject::Subject;

/// How many queue pairs send; each has another that receives.
const LANES: usize = 20;
const ROUNDS: u64 = 8;
/// How many messages a batch has.
const BATCH: u64 = 8;
const THREADS: usize = 8;

const EXPECTED: &str = "all arrive, in order, as they were sent";

pub(super) fn checks() -> Vec<Check> {
    let shared = |name, batch, threads| {
        Check::new(name, EXPECTED, move |subject| {
            let pd = subject.context.alloc_pd()?;
            play(subject, &pd, batch, threads)
        })
    };
    vec![
        shared("alone, 1 thread", 1, 1),
        shared("batches, 1 thread", BATCH, 1),
        shared("alone, 8 threads", 1, THREADS),
        shared("batches, 8 threads", BATCH, THREADS),
        Check::optional("thread domain, alone", EXPECTED, |subject| {
            in_thread_domain(subject, 1)
        }),
        Check::optional("thread domain, batches", EXPECTED, |subject| {
            in_thread_domain(subject, BATCH)
        }),
    ]
}

fn in_thread_domain(subject: &Subject, batch: u64) -> Outcome {
    let thread = subject.mlx5()?.alloc_thread_domain()?;
    let pd = subject.context.alloc_pd()?.with_thread_domain(&thread)?;
    play(subject, &pd, batch, THREADS)
}

/// A queue pair that sends, and the one it sends to.
#[derive(Debug)]
struct Lane {
    cq: CompletionQueue,
    sender: QueuePair,
    receiver: owned::QueuePair,
    buffers: Vec<Buffer>,
}

fn play(subject: &Subject, pd: &ProtectionDomain, batch: u64, threads: usize) -> Outcome {
    let lane = |_| Lane::new(subject, pd);
    let mut lanes: Vec<Lane> = (0..LANES).map(lane).collect::<Outcome<_>>()?;
    let start = Instant::now();
    let mut shares: Vec<Vec<&mut Lane>> = (0..threads).map(|_| Vec::new()).collect();
    for (at, lane) in lanes.iter_mut().enumerate() {
        if let Some(share) = shares.get_mut(at % threads) {
            share.push(lane);
        }
    }
    thread::scope(|scope| {
        let running: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(move || ring(share, batch)))
            .collect();
        running.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(Trouble::failed("a thread panicked")))
        })
    })?;
    let took = start.elapsed();
    drop(lanes);
    nothing_left(&subject.context)?;
    let messages = LANES as u64 * ROUNDS * batch;
    let each = took.as_nanos() / u128::from(messages);
    Ok(
        Found::new(format_args!("{LANES} queue pairs, {messages} messages"))
            .detail(format_args!("{each} ns each")),
    )
}

/// In each round, sends on every lane before waiting for any.
fn ring(mut lanes: Vec<&mut Lane>, batch: u64) -> Outcome<()> {
    for round in 0..ROUNDS {
        for lane in &mut lanes {
            lane.send(round * batch, batch)?;
        }
        for lane in &mut lanes {
            lane.finish(round * batch, batch)
                .map_err(|trouble| trouble.with(format_args!("round {round}")))?;
        }
    }
    Ok(())
}

impl Lane {
    fn new(subject: &Subject, pd: &ProtectionDomain) -> Outcome<Self> {
        let cq = subject.context.create_cq(64)?;
        let prepared = || {
            prepare(subject, pd, QpType::Rc, (&cq, &cq), |builder| {
                builder.max_inline_data(8)
            })
        };
        let (sender, receiver) = connect(prepared()?, prepared()?)?;
        Ok(Self {
            sender,
            receiver: owned::QueuePair::new(receiver),
            buffers: pd.buffer_list(usize::try_from(BATCH).unwrap_or(8), 8)?,
            cq,
        })
    }

    /// Sends `count` messages, numbered from `first` on, with one doorbell.
    fn send(&mut self, first: u64, count: u64) -> Outcome<()> {
        for number in first..first + count {
            let buffer = self.buffers.pop();
            let buffer = buffer.ok_or_else(|| Trouble::failed("a buffer is missing"))?;
            self.receiver.recv(buffer, number)?;
        }
        let mut batch = self.sender.send_batch();
        for number in first..first + count {
            let bytes = number.to_be_bytes();
            let slices = [&bytes[..]];
            let request = SendRequest::send_inline(&slices).wr_id(number);
            let last = number + 1 == first + count;
            batch.push_inline(&if last { request.signaled() } else { request })?;
        }
        Ok(batch.submit()?)
    }

    /// Waits for them: one completion for all sends, one for each receive.
    fn finish(&mut self, first: u64, count: u64) -> Outcome<()> {
        let (mut next, mut sent) = (first, false);
        while next < first + count || !sent {
            let receiver = &mut self.receiver;
            let last = first + count - 1;
            let arrived = take(&mut self.cq, |done| match receiver.exchange(done) {
                Ok(finished) => Ok(Some(finished)),
                Err(done) if done.is_success() && done.wr_id == last => Ok(None),
                Err(done) => Err(Trouble::failed(format_args!(
                    "send {} of {last} ended: {}, vendor {:#x}",
                    done.wr_id, done.status, done.vendor_err
                ))),
            })??;
            let Some(finished) = arrived else {
                ensure(!sent, || "a send completed twice".to_owned())?;
                sent = true;
                continue;
            };
            ensure(finished.status().is_success(), || ended(&finished))?;
            ensure(finished.user_data() == next, || {
                format!("receive {} before {next}", finished.user_data())
            })?;
            let buffer = buffer_of(finished)?;
            ensure(buffer[..] == next.to_be_bytes(), || {
                format!("message {next} arrived changed")
            })?;
            self.buffers.push(buffer);
            next += 1;
        }
        Ok(())
    }
}
