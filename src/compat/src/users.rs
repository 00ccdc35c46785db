//! How many objects use another one, which cannot be destroyed before them.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::answer::Answer;
use crate::errno::Code;

/// A count of users.
#[derive(Debug, Default)]
pub(crate) struct Users(AtomicU32);

/// The bit that says that it has ended.
const ENDED: u32 = 1 << 31;

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

    /// Removes one. Whether it was the last one of something that has [ended](Self::end).
    pub(crate) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == ENDED | 1
    }

    /// From now on the last user to [leave](Self::leave) is told. Whether there are none already.
    ///
    /// # Errors
    /// EINVAL: it has ended before.
    pub(crate) fn end(&self) -> Answer<bool> {
        match self.0.fetch_or(ENDED, Ordering::AcqRel) {
            0 => Ok(true),
            before if before & ENDED != 0 => Err(Code::INVALID),
            _ => Ok(false),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_to_leave_is_told() {
        let users = Users::new();
        users.add();
        users.add();
        assert_eq!(users.none(), Err(Code::BUSY));
        assert!(!users.leave());
        assert_eq!(users.end(), Ok(false));
        assert_eq!(users.end(), Err(Code::INVALID));
        assert!(users.leave());
        assert_eq!(Users::new().end(), Ok(true));
    }
}
