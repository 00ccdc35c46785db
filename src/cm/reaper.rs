//! Destroying ids that may block, on a thread of their own.
//!
//! The kernel destroys an id only once its messages are no longer repeated: usually microseconds,
//! sometimes a minute, and nothing interrupts it. Closing the file destroys all ids, one after the
//! other. So neither happens on the thread that drops.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use uverbs_core::cm::{self, CmFile};
use uverbs_core::error::Errno;

/// The thread of one channel; started by the first id that needs it. It ends, and closes the file,
/// when the channel is gone and all ids are destroyed.
#[derive(Debug, Default)]
pub(super) struct Reaper {
    sender: Mutex<Option<Sender<Job>>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Jobs that the thread has not done yet.
    left: AtomicU64,
    /// Ids that the kernel refused to destroy.
    failed: AtomicU64,
}

/// How long the thread waits for more before it begins, and how often at most.
const PAUSE: Duration = Duration::from_millis(1);
const MOST_PAUSES: u32 = 20;

/// What the thread does.
enum Job {
    Destroy(u32),
    /// Destroys an id, and then what depends on it.
    Drop(Box<dyn Send>),
}

impl Reaper {
    /// Destroys an id on the thread; here, if no thread can be started.
    pub(super) fn take(&self, file: &Arc<CmFile>, id: u32) {
        if self.send(file, Job::Destroy(id)).is_some() {
            self.destroy(file, id);
        }
    }

    /// Drops something on the thread; here, if no thread can be started.
    pub(super) fn drop(&self, file: &Arc<CmFile>, what: Box<dyn Send>) {
        drop(self.send(file, Job::Drop(what)));
    }

    /// Returns the job if nobody does it.
    fn send(&self, file: &Arc<CmFile>, job: Job) -> Option<Job> {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.is_none() {
            *sender = self.start(file);
        }
        let Some(sender) = &*sender else {
            return Some(job);
        };
        // Before the thread may be done with it.
        self.counts.left.fetch_add(1, Ordering::AcqRel);
        let refused = sender.send(job).err()?;
        self.counts.left.fetch_sub(1, Ordering::AcqRel);
        Some(refused.0)
    }

    /// Destroys an id on this thread.
    pub(super) fn destroy(&self, file: &CmFile, id: u32) {
        destroy(file, id, &self.counts);
    }

    /// How many ids the thread has not destroyed yet.
    pub(super) fn left(&self) -> u64 {
        self.counts.left.load(Ordering::Acquire)
    }

    /// How many ids the kernel refused to destroy. They go when the file is closed.
    pub(super) fn failed(&self) -> u64 {
        self.counts.failed.load(Ordering::Relaxed)
    }

    fn start(&self, file: &Arc<CmFile>) -> Option<Sender<Job>> {
        let (sender, receiver) = channel();
        let (file, counts) = (Arc::clone(file), Arc::clone(&self.counts));
        thread::Builder::new()
            .name("uverbs-cm".into())
            .spawn(move || run(&receiver, &file, &counts))
            .ok()
            .map(|_| sender)
    }
}

fn run(jobs: &Receiver<Job>, file: &CmFile, counts: &Counts) {
    while let Ok(first) = jobs.recv() {
        wait_for_more(counts);
        for job in std::iter::once(first).chain(jobs.try_iter()) {
            match job {
                Job::Destroy(id) => destroy(file, id, counts),
                Job::Drop(what) => drop(what),
            }
            counts.left.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A thread that drops one id often drops many. Destroying keeps this thread and some of the
/// kernel's busy, which would compete with the thread that drops; so it begins when that is done,
/// or after a few milliseconds.
fn wait_for_more(counts: &Counts) {
    let mut left = counts.left.load(Ordering::Acquire);
    for _ in 0..MOST_PAUSES {
        thread::sleep(PAUSE);
        let now = counts.left.load(Ordering::Acquire);
        if now == left {
            return;
        }
        left = now;
    }
}

fn destroy(file: &CmFile, id: u32, counts: &Counts) {
    match cm::destroy_id(file, id) {
        // EFAULT, and replies that cannot be used: it is destroyed nevertheless.
        Err(error) if !error.outcome_is_unknown() && error.errno() != Some(Errno::FAULT) => {
            counts.failed.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    }
}
