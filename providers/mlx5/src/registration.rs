//! A queue's number in the table that completions are looked up in, for as long as the device has the queue.

use std::sync::Arc;

use uverbs_driver::{Error, ErrorKind, Op, Result};

use crate::table::{NO_NUMBER, Owner, Trackers};

/// Given back when this is dropped, which its kernel object does when the queue is gone for sure.
#[derive(Debug)]
pub(crate) struct Registered {
    trackers: Arc<Trackers>,
    number: Number,
}

#[derive(Clone, Copy, Debug)]
enum Number {
    /// Ours, which the device puts into completions.
    Own(u32),
    /// The device's own.
    Device(u32),
}

impl Registered {
    /// Takes a number for a queue that is about to be created.
    pub(crate) fn new(op: Op, trackers: &Arc<Trackers>, owner: Owner) -> Result<Self> {
        let number = trackers
            .add(owner)
            .ok_or_else(|| Error::new(op, ErrorKind::OutOfResources).fact("max", NO_NUMBER))?;
        Ok(Self {
            trackers: Arc::clone(trackers),
            number: Number::Own(number),
        })
    }

    /// Notes a queue that was created with the device's number.
    pub(crate) fn by_device(trackers: &Arc<Trackers>, number: u32, owner: Owner) -> Self {
        trackers.add_device_number(number, owner);
        Self {
            trackers: Arc::clone(trackers),
            number: Number::Device(number),
        }
    }

    /// What the device is told.
    pub(crate) fn user_index(&self) -> u32 {
        match self.number {
            Number::Own(number) => number,
            Number::Device(_) => NO_NUMBER,
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        match self.number {
            Number::Own(number) => self.trackers.remove(number),
            Number::Device(number) => self.trackers.remove_device_number(number),
        }
    }
}
