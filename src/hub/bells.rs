//! Waking whatever sleeps until a hub has something to do: drivers, and the thread that stands in
//! for one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use uverbs_core::sys;
use uverbs_core::{Op, Result};

use crate::waiters::wake_all;

/// The bells of a hub.
#[derive(Debug, Default)]
pub(super) struct Bells {
    all: Mutex<Vec<Arc<Bell>>>,
    /// Wakers that panicked, anybody's.
    panicked: AtomicU64,
}

/// Wakes one sleeper. A bell that is rung before its owner sleeps ends the next sleep.
#[derive(Debug)]
pub(super) struct Bell {
    rung: AtomicBool,
    sleeper: Sleeper,
}

#[derive(Debug)]
enum Sleeper {
    Thread(sys::Bell),
    Task(Mutex<Option<Waker>>),
}

/// A bell that is rung with all others, until it is dropped.
#[derive(Debug)]
pub(super) struct Listed<'b> {
    bells: &'b Bells,
    pub(super) bell: Arc<Bell>,
}

impl Bells {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Bell>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn list(&self, bell: Bell) -> Listed<'_> {
        let bell = self.keep(bell);
        Listed { bells: self, bell }
    }

    /// Lists a bell for as long as the hub exists.
    pub(super) fn keep(&self, bell: Bell) -> Arc<Bell> {
        let bell = Arc::new(bell);
        self.all().push(Arc::clone(&bell));
        bell
    }

    /// Rings them all. Foreign code may run: to be called without a lock.
    pub(super) fn ring(&self) {
        let mut wake: Vec<_> = self.all().iter().filter_map(|bell| bell.ring()).collect();
        self.wake(&mut wake);
    }

    /// Wakes all. To be called without a lock.
    pub(super) fn wake(&self, wakers: &mut Vec<Waker>) {
        if !wakers.is_empty() {
            self.panicked.fetch_add(wake_all(wakers), Ordering::Relaxed);
        }
    }

    /// How many wakers have panicked.
    pub(super) fn panicked(&self) -> u64 {
        self.panicked.load(Ordering::Relaxed)
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.bells
            .all()
            .retain(|other| !Arc::ptr_eq(other, &self.bell));
    }
}

impl Bell {
    pub(super) fn thread() -> Result<Self> {
        sys::Bell::new(Op::GetCompletionEvent).map(|bell| Self::of(Sleeper::Thread(bell)))
    }

    pub(super) fn task() -> Self {
        Self::of(Sleeper::Task(Mutex::default()))
    }

    fn of(sleeper: Sleeper) -> Self {
        Self {
            rung: AtomicBool::new(false),
            sleeper,
        }
    }

    /// Returns the waker of a task, to be woken without a lock.
    fn ring(&self) -> Option<Waker> {
        if self.rung.swap(true, Ordering::AcqRel) {
            return None;
        }
        match &self.sleeper {
            Sleeper::Thread(bell) => {
                bell.ring();
                None
            }
            Sleeper::Task(waker) => lock(waker).take(),
        }
    }

    /// Rings the bell of a thread.
    pub(super) fn ring_thread(&self) {
        // A task has none.
        let _ = self.ring();
    }

    /// What a thread gives the kernel to wait for.
    pub(super) fn descriptor(&self) -> Option<&sys::Bell> {
        match &self.sleeper {
            Sleeper::Thread(bell) => Some(bell),
            Sleeper::Task(_) => None,
        }
    }

    /// After a sleep that ended without an event: what is rung from now on ends the next one.
    pub(super) fn silence(&self) {
        if let Sleeper::Thread(bell) = &self.sleeper {
            // Unconditionally: the flag may have been set long before.
            bell.silence();
        }
        // A thread that found it set, and so does not ring, has already done what the sleeper is to
        // see.
        self.rung.swap(false, Ordering::AcqRel);
    }

    /// Ready once it was rung.
    pub(super) fn poll_rung(&self, cx: &Context<'_>) -> Poll<()> {
        let Sleeper::Task(place) = &self.sleeper else {
            return Poll::Ready(());
        };
        let waker = cx.waker().clone();
        // Dropped without the lock.
        let _old = lock(place).replace(waker);
        if self.rung.swap(false, Ordering::AcqRel) {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

fn lock(place: &Mutex<Option<Waker>>) -> MutexGuard<'_, Option<Waker>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}
