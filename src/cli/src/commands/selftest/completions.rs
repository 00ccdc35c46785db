//! `completions`: completion queues: wrapping around, resizing under load, events on every vector,
//! timestamps, other entry formats.

use std::time::{Duration, Instant};

use uverbs::completion::Timestamps;
use uverbs::mlx5::{Entries, EntrySize, Results};
use uverbs::owned;
use uverbs::owned::Work;
use uverbs::{
    CompletionChannel, CompletionQueue, CompletionQueueBuilder, Notify, ProtectionDomain, QpType,
    SendFlags,
};

use super::check::{Check, Found, Outcome, Trouble, ensure};
use super::pair::{Exchange as _, PATIENCE, connect, ended, prepare, take};
use super::subject::Subject;

/// An event that takes longer counts as lost.
const EVENT: Duration = Duration::from_secs(1);
/// How long to wait to see that nothing happens.
const SILENCE: Duration = Duration::from_millis(50);
/// How many messages are outstanding at a time.
const WINDOW: u64 = 32;
const RESIZES: u32 = 100;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new("laps", "three times around, in order", laps),
        Check::optional("resize under load", "100 times, nothing lost", resizes),
        Check::new("event on every vector", "within 1 s", vectors),
        Check::new(
            "solicited only",
            "events only for solicited messages",
            solicited,
        ),
        Check::new("late arm", "an event, or a completion at once", late_arm),
        Check::new("armed twice", "one event", armed_twice),
        Check::optional("timestamps", "none goes backwards", |subject| {
            stamps(subject, Timestamps::Raw)
        }),
        Check::optional(
            "timestamps, time of day",
            "current, none goes backwards",
            |subject| stamps(subject, Timestamps::WallClock),
        ),
        Check::optional("entries of 128 bytes", "like the others", |subject| {
            entries(subject, EntrySize::Long, None)
        }),
        Check::optional("padded entries", "like the others", |subject| {
            entries(subject, EntrySize::Padded, None)
        }),
        Check::optional("compressed entries, hash", "like the others", |subject| {
            entries(subject, EntrySize::Short, Some(Results::Hash))
        }),
        Check::optional(
            "compressed entries, checksum",
            "like the others",
            |subject| entries(subject, EntrySize::Short, Some(Results::Checksum)),
        ),
    ]
}

/// A queue pair that sends and one that receives; receives complete in the completion queue under
/// test.
#[derive(Debug)]
struct Rig {
    sent: CompletionQueue,
    cq: CompletionQueue,
    sender: owned::QueuePair,
    receiver: owned::QueuePair,
}

impl Rig {
    fn new(subject: &Subject, cq: &CompletionQueueBuilder<'_>) -> Outcome<Self> {
        let pd: ProtectionDomain = subject.context.alloc_pd()?;
        let sent = subject.context.create_cq(128)?;
        let cq = cq.build()?;
        let sender = prepare(subject, &pd, QpType::Rc, (&sent, &sent), |builder| builder)?;
        let receiver = prepare(subject, &pd, QpType::Rc, (&sent, &cq), |builder| builder)?;
        let (sender, receiver) = connect(sender, receiver)?;
        Ok(Self {
            sent,
            cq,
            sender: owned::QueuePair::new(sender),
            receiver: owned::QueuePair::new(receiver),
        })
    }

    /// One with events.
    fn with_channel(subject: &Subject, vector: u32) -> Outcome<(Self, CompletionChannel)> {
        let channel = subject.context.create_completion_channel()?;
        let builder = subject.context.completion_queue(64);
        let rig = Self::new(subject, &builder.channel(&channel).vector(vector))?;
        Ok((rig, channel))
    }

    fn post(&mut self, number: u64, flags: SendFlags) -> Outcome<()> {
        self.receiver.recv_empty(number)?;
        Ok(self
            .sender
            .post(Work::send().flags(flags).user_data(number))?)
    }

    /// Waits until the oldest message has been sent.
    fn sent(&mut self) -> Outcome<()> {
        let sender = &mut self.sender;
        let finished = take(&mut self.sent, |done| {
            sender.exchange(done).map_err(|_| foreign())
        })??;
        ensure(finished.status().is_success(), || ended(&finished))
    }

    /// Takes the next message from the queue under test, which must be this one.
    fn received(&mut self, number: u64) -> Outcome<()> {
        let receiver = &mut self.receiver;
        let finished = take(&mut self.cq, |done| {
            receiver.exchange(done).map_err(|_| foreign())
        })??;
        ensure(finished.status().is_success(), || ended(&finished))?;
        ensure(finished.user_data() == number, || {
            format!("completion {} instead of {number}", finished.user_data())
        })
    }

    /// Sends a message, whose completion is in the queue when this returns.
    fn message(&mut self, number: u64, flags: SendFlags) -> Outcome<()> {
        self.post(number, flags)?;
        self.sent()
    }

    /// Sends `count` messages, as many at a time as there is room for, and does something between
    /// them.
    fn stream(
        &mut self,
        count: u64,
        mut meanwhile: impl FnMut(&mut Self, u64) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut posted = 0;
        for number in 0..count {
            while posted < count && posted < number + WINDOW {
                self.post(posted, SendFlags::empty())?;
                posted += 1;
            }
            meanwhile(self, number)?;
            self.sent()?;
            self.received(number)?;
        }
        Ok(())
    }
}

fn foreign() -> Trouble {
    Trouble::failed("a completion of another request")
}

fn laps(subject: &Subject) -> Outcome {
    let mut rig = Rig::new(subject, &subject.context.completion_queue(33))?;
    let entries = rig.cq.entries();
    let count = 3 * u64::from(entries) + 7;
    rig.stream(count, |_, _| Ok(()))?;
    Ok(Found::new(format_args!(
        "{count} completions, {entries} entries"
    )))
}

fn resizes(subject: &Subject) -> Outcome {
    let mut rig = Rig::new(subject, &subject.context.completion_queue(64))?;
    let sizes = [64, 1024, 40, 300, 4095];
    let mut done = 0_u32;
    rig.stream(u64::from(RESIZES) * 4, |rig, number| {
        if number % 4 == 0 {
            let size = sizes[done as usize % sizes.len()];
            rig.cq.resize(size)?;
            done += 1;
            ensure(rig.cq.entries() >= size, || {
                format!("{} entries instead of {size}", rig.cq.entries())
            })?;
        }
        Ok(())
    })?;
    Ok(Found::new(format_args!(
        "{done} times, {} completions",
        done * 4
    )))
}

fn vectors(subject: &Subject) -> Outcome {
    let vectors = subject.context.completion_vectors().max(1);
    let mut slowest = Duration::ZERO;
    let mut missing = Vec::new();
    for vector in 0..vectors {
        let (mut rig, channel) = Rig::with_channel(subject, vector)?;
        rig.cq.request_notification(Notify::Any)?;
        let start = Instant::now();
        rig.message(1, SendFlags::empty())?;
        match channel.event(Some(EVENT))? {
            Some(event) => {
                ensure(event.queue() == rig.cq.id(), || {
                    "an event of another queue".into()
                })?;
                slowest = slowest.max(start.elapsed());
            }
            None => missing.push(vector),
        }
        rig.received(1)?;
    }
    ensure(missing.is_empty(), || {
        format!("no event on vectors {missing:?} of {vectors}")
    })?;
    Ok(Found::new(format_args!(
        "{vectors} vectors, the slowest after {} µs",
        slowest.as_micros()
    )))
}

fn solicited(subject: &Subject) -> Outcome {
    let (mut rig, channel) = Rig::with_channel(subject, 0)?;
    rig.cq.request_notification(Notify::SolicitedOnly)?;
    rig.message(1, SendFlags::empty())?;
    let event = channel.event(Some(SILENCE))?;
    ensure(event.is_none(), || {
        "an event for a message that is not solicited".into()
    })?;
    rig.message(2, SendFlags::SOLICITED)?;
    let event = channel.event(Some(EVENT))?;
    ensure(event.is_some(), || {
        "no event for a solicited message".into()
    })?;
    rig.received(1)?;
    rig.received(2)?;
    Ok(Found::new("none, then one"))
}

/// A completion that is already there when an event is requested is found by polling once more,
/// whether or not it causes an event.
fn late_arm(subject: &Subject) -> Outcome {
    let (mut rig, channel) = Rig::with_channel(subject, 0)?;
    rig.message(1, SendFlags::empty())?;
    rig.cq.request_notification(Notify::Any)?;
    rig.received(1)?;
    let early = channel.event(Some(SILENCE))?.is_some();
    if early {
        rig.cq.request_notification(Notify::Any)?;
    }
    rig.message(2, SendFlags::empty())?;
    let event = channel.event(Some(EVENT))?;
    ensure(event.is_some(), || "no event for the next one".into())?;
    rig.received(2)?;
    Ok(Found::new(if early {
        "an event for what was there, and for the next one"
    } else {
        "no event for what was there, one for the next"
    }))
}

fn armed_twice(subject: &Subject) -> Outcome {
    let (mut rig, channel) = Rig::with_channel(subject, 0)?;
    for round in 0..3 {
        rig.cq.request_notification(Notify::Any)?;
        rig.cq.request_notification(Notify::Any)?;
        rig.message(2 * round, SendFlags::empty())?;
        rig.message(2 * round + 1, SendFlags::empty())?;
        let event = channel.event(Some(EVENT))?;
        ensure(event.is_some(), || format!("no event in round {round}"))?;
        // When both messages are there, a second event would be on its way.
        rig.received(2 * round)?;
        rig.received(2 * round + 1)?;
        let more = channel.event(Some(SILENCE))?;
        ensure(more.is_none(), || format!("two events in round {round}"))?;
    }
    Ok(Found::new("one event, 3 times"))
}

fn stamps(subject: &Subject, kind: Timestamps) -> Outcome {
    const COUNT: u64 = 100;
    let builder = subject.context.completion_queue(64).timestamps(kind);
    let mut rig = Rig::new(subject, &builder)?;
    let (mut first, mut last) = (None, 0);
    for number in 0..COUNT {
        rig.message(number, SendFlags::empty())?;
        let end = Instant::now() + PATIENCE;
        let stamp = loop {
            if let Some((done, stamp)) = rig.cq.poll_stamped()? {
                ensure(done.is_success(), || done.status.to_string())?;
                let _ = rig.receiver.complete(done);
                break stamp;
            }
            ensure(Instant::now() < end, || "no completion".into())?;
        };
        let stamp = stamp.ok_or_else(|| Trouble::failed("a completion without a stamp"))?;
        ensure(stamp >= last, || format!("stamp {number} goes backwards"))?;
        first.get_or_insert(stamp);
        last = stamp;
    }
    let span = last - first.unwrap_or(last);
    ensure(span > 0, || "all stamps are the same".into())?;
    if kind == Timestamps::WallClock {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_err(Trouble::failed)?.as_nanos();
        let apart = now.abs_diff(u128::from(last));
        ensure(apart < 1_000_000_000, || {
            format!("{} ms away from the system's clock", apart / 1_000_000)
        })?;
    }
    let unit = match kind {
        Timestamps::WallClock => "ns",
        _ => "counts",
    };
    Ok(Found::new(format_args!(
        "{COUNT} stamps over {span} {unit}"
    )))
}

fn entries(subject: &Subject, size: EntrySize, compressed: Option<Results>) -> Outcome {
    subject.mlx5()?;
    let written = Entries { compressed, size };
    let builder = subject.context.completion_queue(64);
    let mut rig = Rig::new(subject, &builder.entries_of_mlx5(written))?;
    let count = 4 * u64::from(rig.cq.entries());
    rig.stream(count, |_, _| Ok(()))?;
    Ok(Found::new(format_args!("{count} completions")))
}
