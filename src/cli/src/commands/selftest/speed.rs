//! `speed`: how long requests take compared with each other. Nothing here can be wrong, but a
//! feature that is not used makes it slow.

use std::time::{Duration, Instant};

use uverbs::owned::Work;
use uverbs::{
    CompletionQueue, Operation, ProtectionDomain, QpType, QueuePair, Remote, SendRequest,
};

use super::check::{Check, Found, Outcome, ensure};
use super::pair::{Pair, REMOTE, buffer_of, connect, prepare, take, usual};
use super::subject::Subject;

/// How many queue pairs take turns. Only the first few of a context have doorbells of their own.
const PAIRS: usize = 8;
/// How many measurements are made, and the time after which there are enough.
const ROUNDS: usize = 1000;
const ENOUGH: Duration = Duration::from_millis(100);
/// How many requests are submitted with one doorbell.
const BATCH: usize = 32;

/// For something that should take as long as something else, in percent of that.
const AS_LONG: u64 = 150;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new(
            "later queue pairs",
            "as long as the first, half as much again at most",
            later,
        ),
        Check::new(
            "bytes in the request",
            "as long as bytes from memory, half as much again at most",
            inline,
        ),
        Check::new("batches", "less time for each than alone", batches),
    ]
}

/// A queue pair that writes, and its peer.
#[derive(Debug)]
struct Writer {
    cq: CompletionQueue,
    qp: QueuePair,
    _peer: QueuePair,
}

impl Writer {
    fn new(subject: &Subject, pd: &ProtectionDomain) -> Outcome<Self> {
        let cq = subject.context.create_cq(64)?;
        let prepared = || {
            prepare(subject, pd, QpType::Rc, (&cq, &cq), |builder| {
                builder.max_inline_data(8)
            })
        };
        let (qp, peer) = connect(prepared()?, prepared()?)?;
        Ok(Self {
            cq,
            qp,
            _peer: peer,
        })
    }

    /// Writes 8 bytes `count` times, with one doorbell, and waits until all are written.
    fn write(&mut self, to: Remote, count: usize) -> Outcome<()> {
        let bytes = [&[7; 8][..]];
        let mut batch = self.qp.send_batch();
        for number in 1..=count {
            let request = SendRequest::new(Operation::Write(to), uverbs::Payload::Inline(&bytes));
            let last = number == count;
            batch.push_inline(&if last { request.signaled() } else { request })?;
        }
        batch.submit()?;
        take(&mut self.cq, |done| {
            ensure(done.is_success(), || done.status.to_string())
        })?
    }
}

/// The median of many measurements, in nanoseconds.
fn median(mut once: impl FnMut() -> Outcome<()>) -> Outcome<u64> {
    let start = Instant::now();
    let mut times = Vec::with_capacity(ROUNDS);
    while times.is_empty() || times.len() < ROUNDS && start.elapsed() < ENOUGH {
        let start = Instant::now();
        once()?;
        times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

/// One time as a percentage of another.
fn percent(time: u64, of: u64) -> u64 {
    time.saturating_mul(100) / of.max(1)
}

fn later(subject: &Subject) -> Outcome {
    let pd = subject.context.alloc_pd()?;
    let exposed = pd.expose(8, REMOTE)?;
    let writer = |_| Writer::new(subject, &pd);
    let mut writers: Vec<Writer> = (0..PAIRS).map(writer).collect::<Outcome<_>>()?;
    let mut times = Vec::new();
    for writer in &mut writers {
        times.push(median(|| writer.write(exposed.remote().start(), 1))?);
    }
    let first = times.first().copied().unwrap_or_default();
    let slowest = times.iter().max().copied().unwrap_or_default();
    let slowest = percent(slowest, first);
    Ok(
        Found::new(format_args!("{PAIRS} of them, the slowest {slowest} %"))
            .detail(format_args!("{times:?} ns"))
            .slow_if(slowest > AS_LONG),
    )
}

fn inline(subject: &Subject) -> Outcome {
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let exposed = pair.pd.expose(8, REMOTE)?;
    let mut writer = Writer::new(subject, &pair.pd)?;
    let within = median(|| writer.write(exposed.remote().start(), 1))?;
    let [mut buffer] = pair.pd.buffers::<1>(8)?.map(Some);
    let end = &mut pair.a;
    let from_memory = median(|| {
        if let Some(buffer) = buffer.take() {
            end.qp.post(Work::write(exposed.remote()).memory(buffer))?;
        }
        buffer = Some(buffer_of(end.success()?)?);
        Ok(())
    })?;
    let percent = percent(within, from_memory);
    Ok(Found::new(format_args!("{percent} %"))
        .detail(format_args!("{within} ns, from memory {from_memory} ns"))
        .slow_if(percent > AS_LONG))
}

fn batches(subject: &Subject) -> Outcome {
    let pd = subject.context.alloc_pd()?;
    let exposed = pd.expose(8, REMOTE)?;
    let mut writer = Writer::new(subject, &pd)?;
    let alone = median(|| writer.write(exposed.remote().start(), 1))?;
    let together = median(|| writer.write(exposed.remote().start(), BATCH))?;
    let each = together / BATCH as u64;
    let percent = percent(each, alone);
    let rate = 1_000_000_000 / each.max(1);
    Ok(Found::new(format_args!(
        "{percent} % of the time alone, in batches of {BATCH}"
    ))
    .detail(format_args!(
        "{alone} ns, {each} ns, {rate} messages a second"
    ))
    .slow_if(percent >= 100))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn times_are_compared_in_percent() {
        assert_eq!(percent(3, 2), 150);
        assert_eq!(percent(u64::MAX, 0), u64::MAX);
    }

    #[test]
    fn a_median_takes_a_bounded_number_of_rounds() {
        let mut count = 0;
        median(|| {
            count += 1;
            Ok(())
        })
        .unwrap();
        assert!((1..=ROUNDS).contains(&count));
    }
}
