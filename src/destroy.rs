//! Destroys that failed.

use std::fmt;

use uverbs_core::{Error, EventCounts, Object, Result};

/// A destroy that failed. What was to be destroyed can be tried again.
#[derive(Debug)]
pub struct DestroyError<T> {
    /// Why.
    pub error: Error,
    /// What lives on, whole. `None` where nobody knows whether it does
    /// ([`outcome_is_unknown`](Error::outcome_is_unknown)): its number in the kernel may be another's by now, so it was
    /// given up with its memory, see [`Context::leaked`](crate::Context::leaked).
    pub handle: Option<Box<T>>,
}

impl<T> DestroyError<T> {
    pub(crate) fn new(error: Error, handle: T) -> Self {
        let lives_on = !error.outcome_is_unknown();
        Self {
            error,
            handle: lives_on.then(|| Box::new(handle)),
        }
    }
}

impl<T> fmt::Display for DestroyError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: fmt::Debug> std::error::Error for DestroyError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<T> From<DestroyError<T>> for Error {
    fn from(refused: DestroyError<T>) -> Self {
        refused.error
    }
}

/// What becomes of an object whose destroy fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Failing {
    /// It is left as it was, for another try.
    Left,
    /// It is given up, and counted.
    GivenUp,
}

impl Failing {
    /// Destroys `object` in its place.
    pub(crate) fn destroy(self, object: &mut Object) -> Result<EventCounts> {
        match self {
            Self::Left => object.try_destroy(),
            Self::GivenUp => object.end(),
        }
    }
}
