//! Destroying ids that may block, on a thread of their own.
//!
//! The kernel destroys an id only once its messages are no longer repeated: usually microseconds,
//! sometimes a minute, and nothing interrupts it. Closing the file destroys all ids, one after the
//! other. So neither happens on the thread that drops.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use uverbs_core::cm::{self, CmFile};
use uverbs_core::error::Errno;

/// The thread of one channel; started by the first id that needs it. It ends, and closes the file,
/// when the channel is gone and all ids are destroyed.
#[derive(Debug, Default)]
pub(super) struct Reaper {
    sender: Mutex<Option<Sender<Job>>>,
    failed: Arc<AtomicU64>,
}

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
        match &*sender {
            Some(sender) => sender.send(job).err().map(|refused| refused.0),
            None => Some(job),
        }
    }

    /// Destroys an id on this thread.
    pub(super) fn destroy(&self, file: &CmFile, id: u32) {
        destroy(file, id, &self.failed);
    }

    /// How many ids the kernel refused to destroy. They go when the file is closed.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    fn start(&self, file: &Arc<CmFile>) -> Option<Sender<Job>> {
        let (sender, receiver) = channel();
        let (file, failed) = (Arc::clone(file), Arc::clone(&self.failed));
        thread::Builder::new()
            .name("uverbs-cm".into())
            .spawn(move || run(&receiver, &file, &failed))
            .ok()
            .map(|_| sender)
    }
}

fn run(jobs: &Receiver<Job>, file: &CmFile, failed: &AtomicU64) {
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Destroy(id) => destroy(file, id, failed),
            Job::Drop(what) => drop(what),
        }
    }
}

fn destroy(file: &CmFile, id: u32, failed: &AtomicU64) {
    match cm::destroy_id(file, id) {
        // EFAULT, and replies that cannot be used: it is destroyed nevertheless.
        Err(error) if !error.outcome_is_unknown() && error.errno() != Some(Errno::FAULT) => {
            failed.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    }
}
