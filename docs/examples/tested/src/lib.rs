//! Votes that are counted in one process's memory, where other processes increment the counts over
//! the network.
//!
//! What is worth copying is that the program takes a [`Context`] instead of opening one: its tests
//! (`tests/without_a_device.rs`) give it the device of a fake kernel.

use std::error::Error;
use std::time::{Duration, Instant};

use uverbs::owned::{Buffer, ExposedMemory, QueuePair, Work};
use uverbs::transport::Rc;
use uverbs::{
    AccessFlags, CompletionQueue, Context, Operation, PreparedQueuePair, ProtectionDomain, Remote,
};

/// The size of one candidate's count in bytes.
const COUNT: usize = 8;

/// The longest that a vote may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where votes are counted. Its processor does nothing as they come in.
#[derive(Debug)]
pub struct Tally {
    counts: ExposedMemory,
    pd: ProtectionDomain,
    cq: CompletionQueue,
}

impl Tally {
    /// A tally for that many candidates.
    ///
    /// # Errors
    /// Those of the device and the kernel.
    pub fn new(context: &Context, candidates: usize) -> uverbs::Result<Self> {
        let pd = context.alloc_pd()?;
        Ok(Self {
            counts: pd.expose(candidates * COUNT, AccessFlags::REMOTE_ATOMIC)?,
            pd,
            cq: context.create_cq(1)?,
        })
    }

    /// A queue pair for one more voter.
    ///
    /// # Errors
    /// Those of the device and the kernel.
    pub fn prepare(&self) -> uverbs::Result<PreparedQueuePair<Rc>> {
        self.pd
            .queue_pair(Rc, &self.cq, &self.cq)
            .access(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC)
            .build()
    }

    /// Where the counts are; voters need to know it.
    pub fn counts(&self) -> Remote {
        self.counts.remote().start()
    }

    /// The votes for a candidate so far; `None` if there is no such candidate.
    pub fn votes(&self, candidate: usize) -> Option<u64> {
        self.counts.load(candidate * COUNT)
    }
}

/// A voter, with a connection to a tally.
#[derive(Debug)]
pub struct Voter {
    queue_pair: QueuePair<Rc>,
    cq: CompletionQueue,
    counts: Remote,
    /// The buffer that receives the old count of a candidate. It is in the queue while a vote is
    /// outstanding.
    former: Option<Buffer>,
}

impl Voter {
    /// A queue pair that is not yet connected, and the completion queue that it reports to.
    ///
    /// # Errors
    /// Those of the device and the kernel.
    pub fn prepare(context: &Context) -> uverbs::Result<(PreparedQueuePair<Rc>, CompletionQueue)> {
        let cq = context.create_cq(1)?;
        let pd = context.alloc_pd()?;
        Ok((pd.queue_pair(Rc, &cq, &cq).build()?, cq))
    }

    /// A voter whose queue pair is connected to one that the tally prepared.
    ///
    /// # Errors
    /// Those of the device and the kernel.
    pub fn new(
        queue_pair: uverbs::QueuePair<Rc>,
        cq: CompletionQueue,
        counts: Remote,
    ) -> uverbs::Result<Self> {
        let [former] = queue_pair.pd().buffers(COUNT)?;
        Ok(Self {
            queue_pair: QueuePair::new(queue_pair),
            cq,
            counts,
            former: Some(former),
        })
    }

    /// Votes for a candidate and returns how many did so before.
    ///
    /// # Errors
    /// There is no such candidate, the tally is gone, or the device or kernel refused something.
    pub fn vote(&mut self, candidate: usize) -> Result<u64, Box<dyn Error>> {
        let former = self.former.take().ok_or("a former vote failed")?;
        let add = Operation::FetchAdd {
            remote: Remote {
                address: self.counts.address + (candidate * COUNT) as u64,
                ..self.counts
            },
            add: 1,
        };
        self.queue_pair
            .post(Work::new(add).memory((former, COUNT)))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(completion) = self.cq.poll()?
                && let Ok(finished) = self.queue_pair.complete(completion)
            {
                if !finished.status().is_success() {
                    return Err(format!("the vote does not count: {}", finished.status()).into());
                }
                let former = finished.into_buffer().ok_or("no buffer came back")?;
                let count = former.first_chunk().copied().map(u64::from_ne_bytes);
                self.former = Some(former);
                return count.ok_or_else(|| "a buffer of less than 8 bytes".into());
            }
            if Instant::now() > deadline {
                return Err("nobody knows whether the vote counts: no answer in time".into());
            }
            std::hint::spin_loop();
        }
    }
}
