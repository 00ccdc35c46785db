//! What most checks need: two connected queue pairs of the port, waits with time limits, and
//! recognisable data.

use std::ops::Deref;
use std::time::{Duration, Instant};

use uverbs::owned::{self, Buffer, Finished};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::transport::Transport;
use uverbs::{
    AccessFlags, Completion, CompletionQueue, PreparedQueuePair, ProtectionDomain, QpType,
    QueuePair, QueuePairBuilder, SharedReceiveQueue, WorkCompletion,
};

use super::check::{Outcome, Trouble, ensure};
use super::subject::Subject;

/// How long anything that should happen immediately may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A request that ended, and all that its completion reported.
pub(super) struct Ended {
    pub(super) finished: Finished,
    pub(super) reported: WorkCompletion,
}

/// Empty polls before yielding: on few processors the network stack may be waiting to run.
const SPINS: u32 = 256;

/// What peers may do by default.
pub(super) const REMOTE: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC);

/// One of two connected queue pairs, with a completion queue of its own.
#[derive(Debug)]
pub(super) struct End {
    pub(super) cq: CompletionQueue,
    pub(super) qp: owned::QueuePair,
}

/// Two connected queue pairs.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) pd: ProtectionDomain,
    pub(super) a: End,
    pub(super) b: End,
}

/// Leaves the settings as they are.
pub(super) fn usual(builder: QueuePairBuilder<'_>) -> QueuePairBuilder<'_> {
    builder
}

/// A queue pair that is not yet connected, with the settings that most checks need, changed by
/// `set`.
pub(super) fn prepare(
    subject: &Subject,
    pd: &ProtectionDomain,
    kind: QpType,
    (send, receive): (&CompletionQueue, &CompletionQueue),
    set: impl Fn(QueuePairBuilder<'_>) -> QueuePairBuilder<'_>,
) -> Outcome<PreparedQueuePair> {
    let builder = as_usual(subject, kind, pd.queue_pair(kind, send, receive))?;
    Ok(set(builder).build()?)
}

/// A reliable queue pair that receives from a shared receive queue.
pub(super) fn prepare_shared(
    subject: &Subject,
    pd: &ProtectionDomain,
    (send, receive): (&CompletionQueue, &CompletionQueue),
    srq: &SharedReceiveQueue,
) -> Outcome<PreparedQueuePair> {
    let builder = pd.queue_pair(QpType::Rc, send, receive);
    let builder = as_usual(subject, QpType::Rc, builder)?;
    Ok(builder.srq(srq).build()?)
}

fn as_usual<'a>(
    subject: &Subject,
    kind: QpType,
    builder: QueuePairBuilder<'a>,
) -> uverbs::Result<QueuePairBuilder<'a>> {
    let mut builder = builder.port(subject.port).max_send_wr(64).max_recv_wr(64);
    if kind == QpType::Rc {
        let atomics = subject.context.device_attr().max_qp_rd_atom.clamp(1, 8);
        let atomics = u8::try_from(atomics).unwrap_or(1);
        // The usual timeout of 65 µs is short for an emulated device.
        builder = builder
            .max_rd_atomic(atomics)
            .max_dest_rd_atomic(atomics)
            .timeout(AckTimeout::code(16)?)
            .retry_count(RetryCount::new(7)?)
            .rnr_retry(RnrRetry::new(7)?)
            .min_rnr_timer(RnrTimer::code(1)?);
    }
    if kind != QpType::Ud {
        builder = builder.access(REMOTE);
    }
    Ok(builder)
}

/// Connects two queue pairs to each other.
pub(super) fn connect(
    a: PreparedQueuePair,
    b: PreparedQueuePair,
) -> Outcome<(QueuePair, QueuePair)> {
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    Ok((a.handshake(to_b)?, b.handshake(to_a)?))
}

impl Pair {
    pub(super) fn new(
        subject: &Subject,
        kind: QpType,
        set: impl Fn(QueuePairBuilder<'_>) -> QueuePairBuilder<'_>,
    ) -> Outcome<Self> {
        let pd = subject.context.alloc_pd()?;
        Self::within(subject, &pd, kind, set)
    }

    /// In an existing protection domain.
    pub(super) fn within(
        subject: &Subject,
        pd: &ProtectionDomain,
        kind: QpType,
        set: impl Fn(QueuePairBuilder<'_>) -> QueuePairBuilder<'_>,
    ) -> Outcome<Self> {
        let (cq_a, cq_b) = (
            subject.context.create_cq(256)?,
            subject.context.create_cq(256)?,
        );
        let a = prepare(subject, pd, kind, (&cq_a, &cq_a), &set)?;
        let b = prepare(subject, pd, kind, (&cq_b, &cq_b), &set)?;
        let (a, b) = connect(a, b)?;
        Ok(Self {
            pd: pd.clone(),
            a: End::new(cq_a, a),
            b: End::new(cq_b, b),
        })
    }
}

/// A queue that gives a request for its completion.
pub(super) trait Exchange {
    /// As `complete`, but keeps what the completion reported.
    fn exchange<'cq>(&mut self, completion: Completion<'cq>) -> Result<Ended, Completion<'cq>>;
}

impl<T: Transport> Exchange for owned::QueuePair<T> {
    fn exchange<'cq>(&mut self, completion: Completion<'cq>) -> Result<Ended, Completion<'cq>> {
        let reported = *completion;
        let finished = self.complete(completion)?;
        Ok(Ended { finished, reported })
    }
}

impl Exchange for owned::SharedReceiveQueue {
    fn exchange<'cq>(&mut self, completion: Completion<'cq>) -> Result<Ended, Completion<'cq>> {
        let reported = *completion;
        let finished = self.complete(completion)?;
        Ok(Ended { finished, reported })
    }
}

impl Deref for Ended {
    type Target = Finished;

    fn deref(&self) -> &Finished {
        &self.finished
    }
}

impl End {
    pub(super) fn new(cq: CompletionQueue, qp: QueuePair) -> Self {
        let qp = owned::QueuePair::new(qp);
        Self { cq, qp }
    }

    /// The next finished request.
    pub(super) fn next(&mut self) -> Outcome<Ended> {
        let qp = &mut self.qp;
        take(&mut self.cq, |completion| {
            qp.exchange(completion).map_err(|completion| {
                Trouble::failed(format_args!(
                    "a completion of a request that was not posted: {}",
                    completion.status
                ))
            })
        })?
    }

    /// The next request, which must have succeeded.
    pub(super) fn success(&mut self) -> Outcome<Ended> {
        let finished = self.next()?;
        ensure(finished.status().is_success(), || ended(&finished))?;
        Ok(finished)
    }
}

/// How a request ended, with the vendor error.
pub(super) fn ended(request: &Ended) -> String {
    let vendor = request.reported.vendor_err;
    format!("{}, vendor {vendor:#x}", request.status())
}

/// The buffer of a finished request.
pub(super) fn buffer_of(request: Ended) -> Outcome<Buffer> {
    let buffer = request.finished.into_buffer();
    buffer.ok_or_else(|| Trouble::failed("its buffer did not come back"))
}

/// Takes the next completion; fails if it does not arrive in time.
pub(super) fn take<T>(
    cq: &mut CompletionQueue,
    take: impl FnOnce(Completion<'_>) -> T,
) -> Outcome<T> {
    let end = Instant::now() + PATIENCE;
    match take_until(cq, end, take)? {
        Some(taken) => Ok(taken),
        None => Err(Trouble::failed(format_args!(
            "no completion in {PATIENCE:?}"
        ))),
    }
}

/// Takes the next completion, if one arrives before `end`.
pub(super) fn take_until<T>(
    cq: &mut CompletionQueue,
    end: Instant,
    take: impl FnOnce(Completion<'_>) -> T,
) -> Outcome<Option<T>> {
    let mut spins = 0_u32;
    loop {
        if let Some(completion) = cq.poll()? {
            return Ok(Some(take(completion)));
        }
        spins = spins.saturating_add(1);
        if spins > SPINS {
            std::thread::yield_now();
            if Instant::now() > end {
                return Ok(None);
            }
        }
    }
}

/// The byte at offset `at` of message number `seed`: it differs between nearby offsets, and between
/// messages.
fn byte(seed: u64, at: usize) -> u8 {
    let mixed = (at as u64)
        .wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed.to_be_bytes()[1]
}

pub(super) fn fill(bytes: &mut [u8], seed: u64) {
    for (at, place) in bytes.iter_mut().enumerate() {
        *place = byte(seed, at);
    }
}

/// Fails at the first byte that differs from what was sent.
pub(super) fn compare(bytes: &[u8], seed: u64) -> Outcome<()> {
    let wrong = bytes
        .iter()
        .enumerate()
        .find(|(at, found)| **found != byte(seed, *at));
    match wrong {
        None => Ok(()),
        Some((at, found)) => Err(Trouble::failed(format_args!(
            "byte {at} of {} is {found:#04x}, {:#04x} was sent",
            bytes.len(),
            byte(seed, at)
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn compare_accepts_only_the_filled_bytes() {
        let mut bytes = [0; 300];
        fill(&mut bytes, 7);
        compare(&bytes, 7).unwrap();
        assert!(compare(&bytes, 8).is_err());
        assert!(compare(&bytes[1..], 7).is_err());
        bytes[299] ^= 1;
        let Err(Trouble::Failed(why)) = compare(&bytes, 7) else {
            unreachable!("a byte was changed");
        };
        assert!(why.starts_with("byte 299 of 300 is "), "{why}");
    }
}
