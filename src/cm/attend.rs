//! A thread that reads the events of a channel, for users that do not wait for its file themselves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use uverbs_core::Op;
use uverbs_core::cm::CmFile;
use uverbs_core::sys::Bell;

use super::channel::Channel;
use crate::waiters::wake_all;

/// The thread of one channel. It ends with the channel, or when events can no longer be read.
#[derive(Debug, Default)]
pub(super) struct Attendant {
    bell: Mutex<Option<Arc<Bell>>>,
    later: Arc<Later>,
}

/// What the thread wakes at a time, and not for an event.
#[derive(Debug, Default)]
struct Later {
    state: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    all: Vec<(Instant, Waker)>,
    /// There is no thread any more.
    is_over: bool,
}

impl Attendant {
    /// Starts the thread, if it is not running. Without it (no more threads can be started), events
    /// reach only those that wait for the file.
    pub(super) fn start(&self, channel: &Arc<Channel>, file: &Arc<CmFile>) {
        let mut place = self.bell.lock().unwrap_or_else(PoisonError::into_inner);
        if place.is_some() {
            return;
        }
        let Ok(bell) = Bell::new(Op::CmGetEvent) else {
            return;
        };
        let bell = Arc::new(bell);
        let (channel, file) = (Arc::downgrade(channel), Arc::clone(file));
        let (ours, later) = (Arc::clone(&bell), Arc::clone(&self.later));
        let started = thread::Builder::new()
            .name("uverbs-cm-events".into())
            .spawn(move || run(&channel, &file, &ours, &later));
        *place = started.is_ok().then_some(bell);
    }

    /// Has the thread wake `waker` at this time. False if there is no thread.
    pub(super) fn wake_at(&self, at: Instant, waker: Waker) -> bool {
        let place = self.bell.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bell) = place.clone() else {
            return false;
        };
        drop(place);
        let is_taken = self.later.push(at, waker);
        bell.ring();
        is_taken
    }
}

impl Later {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, at: Instant, waker: Waker) -> bool {
        let mut state = self.lock();
        if state.is_over {
            // Another's code may run in its drop.
            drop(state);
            return false;
        }
        state.all.push((at, waker));
        true
    }

    /// How long until the next is due.
    fn left(&self) -> Option<Duration> {
        let next = self.lock().all.iter().map(|(at, _)| *at).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Wakes those that are due.
    fn wake(&self) {
        let now = Instant::now();
        let mut due: Vec<_> = (self.lock().all)
            .extract_if(.., |(at, _)| *at <= now)
            .map(|(_, waker)| waker)
            .collect();
        wake_all(&mut due);
    }

    /// There is nobody to wake any later: all are woken now.
    fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        let all = std::mem::take(&mut state.all);
        drop(state);
        wake_all(&mut all.into_iter().map(|(_, waker)| waker).collect());
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        let bell = self.bell.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bell {
            bell.ring();
        }
    }
}

fn run(channel: &Weak<Channel>, file: &CmFile, bell: &Bell, later: &Later) {
    match channel.upgrade() {
        Some(channel) => channel.take_over(),
        None => return,
    }
    loop {
        let woken = file.wait_event_or(Some(bell), later.left());
        let Some(channel) = channel.upgrade() else {
            return;
        };
        // A child that drops its copy of the channel rings, too.
        bell.silence();
        let read = match woken {
            Ok(true) => read_all(&channel),
            Ok(false) => true,
            Err(_) => false,
        };
        if !read {
            // Whoever waits next gets the reason.
            channel.give_up();
            return later.end();
        }
        later.wake();
    }
}

/// False when the file can no longer be read.
fn read_all(channel: &Channel) -> bool {
    loop {
        match channel.read() {
            Ok(true) => {}
            Ok(false) => return true,
            Err(_) => return false,
        }
    }
}
