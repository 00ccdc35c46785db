//! A queue pair and the id of its connection, which end together.
//!
//! The number of a queue pair is free again as soon as it is destroyed. While the kernel still
//! knows a connection of that number, it takes the next one for a stale message of it, refuses
//! that, and ends both. So the id is destroyed first; and as that may take long, on another thread,
//! and the queue pair after it.
//!
//! # Safety
//!
//! Both fields are taken out once: by `into_parts`, which forgets the pair, or by its drop.
#![allow(unsafe_code, reason = "moves fields out of a value that has a drop")]

use std::mem::ManuallyDrop;

use super::handle::Handle;
use crate::owned;
use crate::transport::Rc;

/// What has an id.
pub(crate) trait HasId: Send + 'static {
    /// The id.
    fn handle(&self) -> &Handle;
}

#[derive(Debug)]
pub(super) struct Pair<S: HasId> {
    queue: ManuallyDrop<owned::QueuePair<Rc>>,
    side: ManuallyDrop<S>,
}

/// The end of both, which comes with its drop.
struct Last<S, F: FnOnce(owned::QueuePair<Rc>)> {
    both: Option<(S, owned::QueuePair<Rc>, F)>,
}

impl<S: HasId> Pair<S> {
    pub(super) fn new(queue: owned::QueuePair<Rc>, side: S) -> Self {
        Self {
            queue: ManuallyDrop::new(queue),
            side: ManuallyDrop::new(side),
        }
    }

    pub(super) fn queue(&mut self) -> &mut owned::QueuePair<Rc> {
        &mut self.queue
    }

    pub(super) fn side(&self) -> &S {
        &self.side
    }

    pub(super) fn both(&mut self) -> (&mut owned::QueuePair<Rc>, &mut S) {
        (&mut self.queue, &mut self.side)
    }

    /// Ends it as its drop does, and then has `last` end the queue pair.
    pub(super) fn end_with(self, last: impl FnOnce(owned::QueuePair<Rc>) + Send + 'static) {
        let (queue, side) = self.into_parts();
        end(queue, side, last);
    }

    pub(super) fn into_parts(self) -> (owned::QueuePair<Rc>, S) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used or dropped afterwards.
        let queue = unsafe { ManuallyDrop::take(&mut this.queue) };
        // SAFETY: as above.
        let side = unsafe { ManuallyDrop::take(&mut this.side) };
        (queue, side)
    }
}

impl<S: HasId> Drop for Pair<S> {
    fn drop(&mut self) {
        // SAFETY: the pair is being dropped, and its fields are not used afterwards.
        let queue = unsafe { ManuallyDrop::take(&mut self.queue) };
        // SAFETY: as above.
        let side = unsafe { ManuallyDrop::take(&mut self.side) };
        end(queue, side, drop);
    }
}

/// Ends both, the id first.
fn end<S: HasId, F: FnOnce(owned::QueuePair<Rc>) + Send + 'static>(
    queue: owned::QueuePair<Rc>,
    side: S,
    last: F,
) {
    let channel = side.handle().elsewhere();
    let last = Last {
        both: Some((side, queue, last)),
    };
    match channel {
        Some(channel) => channel.drop_elsewhere(Box::new(last)),
        None => drop(last),
    }
}

impl<S, F: FnOnce(owned::QueuePair<Rc>)> Drop for Last<S, F> {
    fn drop(&mut self) {
        if let Some((side, queue, last)) = self.both.take() {
            drop(side);
            last(queue);
        }
    }
}
