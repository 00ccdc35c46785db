//! How many objects use another one, which cannot be destroyed before them.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::answer::Answer;
use crate::errno::Code;

/// A count of users.
#[derive(Debug, Default)]
pub(crate) struct Users(AtomicU32);

impl Users {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Refuses while there are users.
    ///
    /// # Errors
    /// EBUSY.
    pub(crate) fn none(&self) -> Answer<()> {
        match self.0.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(Code::BUSY),
        }
    }
}
