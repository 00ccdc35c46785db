//! A thread that reads the events of a channel, for users that do not wait for its file themselves.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use uverbs_core::Op;
use uverbs_core::cm::CmFile;
use uverbs_core::sys::Bell;

use super::channel::Channel;

/// The thread of one channel. It ends with the channel, or when events can no longer be read.
#[derive(Debug, Default)]
pub(super) struct Attendant {
    bell: Mutex<Option<Arc<Bell>>>,
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
        let ours = Arc::clone(&bell);
        let started = thread::Builder::new()
            .name("uverbs-cm-events".into())
            .spawn(move || run(&channel, &file, &ours));
        *place = started.is_ok().then_some(bell);
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

fn run(channel: &Weak<Channel>, file: &CmFile, bell: &Bell) {
    match channel.upgrade() {
        Some(channel) => channel.take_over(),
        None => return,
    }
    loop {
        let woken = file.wait_event_or(Some(bell), None);
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
            return channel.give_up();
        }
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
