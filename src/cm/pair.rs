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

/// The queue pair, or what ends it by its drop.
#[derive(Debug)]
pub(crate) struct Pair<S: HasId, Q: Send + 'static = owned::QueuePair<Rc>> {
    queue: ManuallyDrop<Q>,
    side: ManuallyDrop<S>,
}

/// The end of both, which comes with its drop.
struct Last<S, Q, F: FnOnce(Q)> {
    both: Option<(S, Q, F)>,
}

impl<S: HasId, Q: Send + 'static> Pair<S, Q> {
    pub(crate) fn new(queue: Q, side: S) -> Self {
        Self {
            queue: ManuallyDrop::new(queue),
            side: ManuallyDrop::new(side),
        }
    }

    pub(super) fn queue(&mut self) -> &mut Q {
        &mut self.queue
    }

    pub(super) fn side(&self) -> &S {
        &self.side
    }

    pub(crate) fn both(&mut self) -> (&mut Q, &mut S) {
        (&mut self.queue, &mut self.side)
    }

    /// Ends it as its drop does, and then has `last` end the queue pair.
    pub(super) fn end_with(self, last: impl FnOnce(Q) + Send + 'static) {
        let (queue, side) = self.into_parts();
        end(queue, side, last);
    }

    pub(crate) fn into_parts(self) -> (Q, S) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used or dropped afterwards.
        let queue = unsafe { ManuallyDrop::take(&mut this.queue) };
        // SAFETY: as above.
        let side = unsafe { ManuallyDrop::take(&mut this.side) };
        (queue, side)
    }
}

impl<S: HasId, Q: Send + 'static> Drop for Pair<S, Q> {
    fn drop(&mut self) {
        // SAFETY: the pair is being dropped, and its fields are not used afterwards.
        let queue = unsafe { ManuallyDrop::take(&mut self.queue) };
        // SAFETY: as above.
        let side = unsafe { ManuallyDrop::take(&mut self.side) };
        end(queue, side, drop);
    }
}

/// Ends both, the id first.
fn end<S: HasId, Q: Send + 'static, F: FnOnce(Q) + Send + 'static>(queue: Q, side: S, last: F) {
    let channel = side.handle().elsewhere();
    let last = Last {
        both: Some((side, queue, last)),
    };
    match channel {
        Some(channel) => channel.drop_elsewhere(Box::new(last)),
        None => drop(last),
    }
}

impl<S, Q, F: FnOnce(Q)> Drop for Last<S, Q, F> {
    fn drop(&mut self) {
        if let Some((side, queue, last)) = self.both.take() {
            drop(side);
            last(queue);
        }
    }
}
