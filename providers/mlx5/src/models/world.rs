//! The parts of models: completion queues with their device, pollers, queue pairs.

use std::sync::Arc;

use uverbs_core::types::{RecvRequest, WcOpcode, WorkCompletion};
use uverbs_core::{Op, PollError};

use crate::cq::poll::{Consumer, Left, Own, Usual};
use crate::cqe::CqShared;
use crate::cqe::Results;
use crate::cqe::ring::CqRing;
use crate::cqe::{format, opcode};
use crate::srq::ring::SharedRing;
use crate::srq::ring::tests::ring;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, barrier};
use crate::tracker::registration::{Registered, Reports};
use crate::tracker::table::{DeviceNumber, Owner, Trackers};
use crate::tracker::{QueuePairTracker, Receives, RecvTracker, SrqTracker};

pub(super) const OP: Op = Op::CreateQueuePair;

/// A completion queue, and the device that writes into it.
#[derive(Debug)]
pub(super) struct Cq {
    pub(super) shared: Arc<CqShared>,
    ring: Arc<CqRing>,
    trackers: Arc<Trackers>,
    by_device: bool,
    /// Entries that the device has written, or is writing. Nothing is ordered by it: relaxed.
    produced: AtomicU64,
}

impl Cq {
    /// A completion queue of `1 << log` entries. `by_device`: they carry only the device's numbers.
    pub(super) fn new(trackers: &Arc<Trackers>, log: u32, by_device: bool) -> Arc<Self> {
        Self::over(trackers, CqRing::alone(log, 64, 0).unwrap(), by_device)
    }

    /// A completion queue in which completions may be compressed.
    pub(super) fn compressed(trackers: &Arc<Trackers>, log: u32) -> Arc<Self> {
        let ring = CqRing::alone(log, 64, 0).unwrap();
        Self::over(trackers, ring.compressed(Some(Results::Checksum)), false)
    }

    fn over(trackers: &Arc<Trackers>, ring: CqRing, by_device: bool) -> Arc<Self> {
        let ring = Arc::new(ring);
        Arc::new(Self {
            shared: CqShared::new(&ring),
            ring,
            trackers: Arc::clone(trackers),
            by_device,
            produced: AtomicU64::new(0),
        })
    }

    pub(super) fn poller(&self) -> Poller {
        Poller {
            consumer: Consumer::new(&self.shared, &self.trackers, self.by_device),
            shared: Arc::clone(&self.shared),
        }
    }

    /// The remaining entries when it is destroyed.
    pub(super) fn left(&self) -> Left<()> {
        Left::new(&self.shared, &self.trackers, self.by_device, ())
    }

    pub(super) fn reports(&self) -> Reports {
        Reports {
            sends: Some(Arc::clone(&self.shared)),
            receives: Some(Arc::clone(&self.shared)),
        }
    }

    /// The device writes an entry: the word that makes it valid is written last.
    pub(super) fn write(&self, kind: u32, pair: &Pair, counter: u32) {
        let position = self.produced.fetch_add(1, Ordering::Relaxed);
        assert!(
            position < u64::from(self.ring.entries()),
            "the ring is too small"
        );
        self.write_at(position, kind << 4, pair, counter);
    }

    /// The device reports that a receive met a page fault.
    pub(super) fn write_fault(&self, pair: &Pair, counter: u32) {
        let first = self.ring.first(self.produced.load(Ordering::Relaxed));
        self.ring.units.set_word(first + 3, 0, 0x9322_u64.to_be());
        self.write(opcode::RECEIVE_ERROR, pair, counter);
    }

    /// The same where the ring may wrap around: does nothing if there is no room.
    pub(super) fn write_round(&self, kind: u32, pair: &Pair, counter: u32) -> bool {
        let position = self.produced.load(Ordering::Relaxed);
        // The device reads from a doorbell record how many entries were given back; it is written
        // after the entries were read.
        if position >= self.shared.taken() + u64::from(self.ring.entries()) {
            return false;
        }
        self.produced.store(position + 1, Ordering::Relaxed);
        self.write_at(position, kind << 4, pair, counter);
        true
    }

    /// `what`: kind and format.
    fn write_at(&self, position: u64, what: u32, pair: &Pair, counter: u32) {
        let ring = &self.ring;
        let index = if self.by_device { 0 } else { pair.index };
        let first = ring.first(position);
        let number = u64::from(index) << 32;
        ring.units.set_word(first + 2, 0, number.to_be());
        barrier::to_device();
        let owner = u64::from(ring.owner(ring.place(position)));
        let tail =
            u64::from(pair.qpn) << 32 | u64::from(counter & 0xffff) << 16 | u64::from(what) | owner;
        ring.units.set_word(first + 3, 1, tail.to_be());
    }

    /// The device writes two completions of requests as one compressed entry.
    pub(super) fn write_as_one(&self, pair: &Pair, counters: [u32; 2]) {
        let ring = &self.ring;
        let position = self.produced.fetch_add(2, Ordering::Relaxed);
        let array = ring.first(position + 1);
        ring.units.put(
            array,
            counters.map(|counter| (u64::from(counter) << 48).to_be()),
        );
        ring.units
            .set_word(ring.first(position) + 2, 1, 2_u64.to_be());
        self.write_at(
            position,
            opcode::REQUEST << 4 | format::COMPRESSED << 2,
            pair,
            0,
        );
    }
}

/// A poller of a completion queue.
pub(super) struct Poller {
    consumer: Consumer,
    shared: Arc<CqShared>,
}

/// How it polls.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// One by one, by the fast path where possible.
    Short,
    /// One by one, by the slow path.
    Long,
    /// Two at once.
    Many,
}

impl Poller {
    fn give_back(&self) {
        self.shared.take(self.consumer.position());
    }

    /// As `CompletionQueue::poll` and `poll_into`.
    fn try_poll(&mut self, way: Way) -> Result<Vec<WorkCompletion>, PollError> {
        let done = match way {
            Way::Short => match self.consumer.take_usual() {
                Usual::Taken(done) => Ok(vec![done]),
                Usual::None => return Ok(Vec::new()),
                Usual::Other => self.consumer.next().map(|done| done.into_iter().collect()),
            },
            Way::Long => self.consumer.next().map(|done| done.into_iter().collect()),
            Way::Many => {
                let mut out = vec![WorkCompletion::default(); 2];
                self.consumer.fill::<Own, _>(&mut out).map(|count| {
                    out.truncate(count);
                    out
                })
            }
        };
        self.give_back();
        done
    }

    /// Polls `times` times. The device writes no impossible entry.
    pub(super) fn poll(&mut self, times: usize, way: Way) -> Vec<WorkCompletion> {
        (0..times)
            .flat_map(|_| self.try_poll(way).unwrap())
            .collect()
    }

    /// The same for a device that may write impossible entries.
    pub(super) fn poll_anything(&mut self, times: usize) -> Vec<WorkCompletion> {
        (0..times)
            .flat_map(|_| self.try_poll(Way::Short).unwrap_or_default())
            .collect()
    }

    /// Polls the remaining entries.
    pub(super) fn rest(&mut self) -> Vec<WorkCompletion> {
        let mut all = Vec::new();
        loop {
            let before = self.consumer.position();
            all.extend(self.try_poll(Way::Short).unwrap());
            if self.consumer.position() == before {
                return all;
            }
        }
    }
}

/// A queue pair.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) tracker: Arc<QueuePairTracker>,
    pub(super) registered: Option<Registered>,
    pub(super) index: u32,
    pub(super) qpn: u32,
    reports: Reports,
    posted: u32,
    received: u32,
}

/// Blocks of its send queue, and requests of its receive queue.
pub(super) const BLOCKS: u32 = 2;

impl Pair {
    /// A queue pair that reports to `cq`, whose entries carry our numbers.
    pub(super) fn new(cq: &Cq, qpn: u32, recv: Receives) -> Self {
        Self::reporting(cq, cq.reports(), qpn, recv)
    }

    /// The same, with these completion queues.
    pub(super) fn reporting(cq: &Cq, reports: Reports, qpn: u32, recv: Receives) -> Self {
        let tracker = Arc::new(QueuePairTracker::new(BLOCKS, recv));
        let owner = Owner::QueuePair(Arc::clone(&tracker));
        let registered = if cq.by_device {
            let number = DeviceNumber::QueuePair(qpn);
            Registered::by_device(OP, &cq.trackers, number, owner, reports.clone()).unwrap()
        } else {
            let registered = Registered::new(OP, &cq.trackers, owner).unwrap();
            registered.created(reports.clone())
        };
        let mut pair = Self {
            index: registered.user_index(),
            tracker,
            registered: Some(registered),
            qpn,
            reports,
            posted: 0,
            received: 0,
        };
        pair.tracker.set_number(qpn);
        pair.reset();
        pair
    }

    /// After the kernel has reset it.
    pub(super) fn reset(&mut self) {
        let produced = |cq: &Option<Arc<CqShared>>| cq.as_ref().map_or(0, |cq| cq.produced());
        self.tracker.restart(
            produced(&self.reports.sends),
            produced(&self.reports.receives),
        );
        self.posted = 0;
        self.received = 0;
    }

    /// Posts a request, which the device carries out, if there is room.
    pub(super) fn send(&mut self, cq: &Cq, wr_id: u64) -> bool {
        if self.posted.wrapping_sub(self.tracker.sent_tail()) >= BLOCKS {
            return false;
        }
        let index = self.post(wr_id);
        cq.write(opcode::REQUEST, self, index);
        true
    }

    /// Posts a request.
    pub(super) fn post(&mut self, wr_id: u64) -> u32 {
        let index = self.posted & (BLOCKS - 1);
        self.posted += 1;
        let opcode = WcOpcode::RdmaWrite;
        self.tracker.send.posted(index, wr_id, self.posted, opcode);
        barrier::to_device();
        index
    }

    /// Posts a receive request, for which a message arrives, if there is room.
    pub(super) fn receive(&mut self, cq: &Cq, wr_id: u64) -> bool {
        let Receives::Own(queue) = &self.tracker.recv else {
            panic!("a queue of its own");
        };
        if self.received.wrapping_sub(self.tracker.received_tail()) >= BLOCKS {
            return false;
        }
        queue.posted(self.received & (BLOCKS - 1), wr_id);
        barrier::to_device();
        cq.write(opcode::RECEIVE, self, self.received);
        self.received += 1;
        true
    }

    /// After the kernel has destroyed it.
    pub(super) fn gone(mut self) {
        drop(self.registered.take());
    }
}

/// A receive queue of its own.
pub(super) fn own() -> Receives {
    Receives::Own(RecvTracker::new(BLOCKS))
}

/// The number of requests that are only posted to count the room.
const NO_OWNER: u64 = u64::MAX;

/// A shared receive queue, to which one thread posts, and the device, which takes requests in the
/// order of the list.
pub(super) struct Srq {
    ring: SharedRing,
    pub(super) tracker: Arc<SrqTracker>,
    /// Indexes that were submitted and are not used, in order.
    pub(super) list: Vec<u32>,
    /// How many links of the list the device has followed, and to which request.
    taken: (u32, u32),
}

impl Srq {
    /// A queue of `max_wr` requests, one less than a power of two.
    pub(super) fn new(max_wr: u32) -> Self {
        Self::over(ring(max_wr, 0, None))
    }

    /// The same, where requests may meet page faults.
    pub(super) fn paged(max_wr: u32) -> Self {
        Self::over(ring(max_wr, 0, Some(64)))
    }

    fn over(ring: SharedRing) -> Self {
        Self {
            tracker: Arc::clone(ring.tracker()),
            ring,
            list: Vec::new(),
            taken: (0, 0),
        }
    }

    pub(super) fn receives(&self) -> Receives {
        Receives::Shared(Arc::clone(&self.tracker))
    }

    /// Posts a request if there is room.
    pub(super) fn post(&mut self, wr_id: u64) -> bool {
        let request = RecvRequest {
            wr_id,
            scatter: &[],
        };
        if self.ring.put(&request).is_err() {
            return false;
        }
        let index = self.ring.last_put();
        if wr_id != NO_OWNER {
            self.list.push(index);
        }
        self.ring.submit().unwrap();
        barrier::to_device();
        true
    }

    /// A message for `pair` arrives, which uses up the next request.
    pub(super) fn message(&mut self, cq: &Cq, pair: &Pair) {
        let index = self.list.remove(0);
        cq.write(opcode::RECEIVE, pair, index);
    }

    /// Puts a request, and takes it back.
    pub(super) fn put_and_abort(&mut self) {
        let request = RecvRequest {
            wr_id: NO_OWNER,
            scatter: &[],
        };
        let _ = self.ring.put(&request);
        self.ring.abort();
    }

    /// The device takes what was submitted, by the list in the ring. Not while others submit.
    pub(super) fn take(&mut self) -> Vec<u32> {
        let (count, mut at) = self.taken;
        let all = self.ring.handed_over();
        let mut taken = Vec::new();
        for _ in count..all {
            taken.push(at);
            at = self.ring.behind(at);
        }
        self.taken = (all, at);
        taken
    }

    /// The numbers of requests that are not reported otherwise.
    pub(super) fn unreported(&mut self) -> Vec<u64> {
        let mut reported = Vec::new();
        self.ring.take_unreported(&mut |wr_id| reported.push(wr_id));
        reported
    }

    /// The number of requests that can be posted.
    pub(super) fn room(&mut self) -> usize {
        (0..64).take_while(|_| self.post(NO_OWNER)).count()
    }
}

/// A kernel's table of the numbers that it has allocated: the only thing that otherwise unrelated
/// threads wait for.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    used: Mutex<bool>,
}

impl Kernel {
    /// Takes the only number, if it is free.
    pub(super) fn create(&self) -> bool {
        let mut used = self.used.lock().unwrap();
        !std::mem::replace(&mut *used, true)
    }

    /// Releases the number.
    pub(super) fn destroy(&self) {
        *self.used.lock().unwrap() = false;
    }
}

/// The numbers of completions, in order.
pub(super) fn numbers(done: &[WorkCompletion]) -> Vec<u64> {
    done.iter().map(|done| done.wr_id).collect()
}
