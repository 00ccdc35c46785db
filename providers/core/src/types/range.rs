//! The error for a number outside the range of its field.

use std::fmt;

use crate::error::{Error, Op};

/// A number does not fit its field.
///
/// `{:?}` prints the same line as `{}`; `{:#?}` shows the fields.
#[derive(Clone, Copy, Eq, Hash, PartialEq, thiserror::Error)]
#[error("{what} {requested} is out of range (at most {max})")]
#[non_exhaustive]
pub struct OutOfRange {
    /// Which field, with its unit where it has one.
    pub what: &'static str,
    /// The requested value.
    pub requested: u64,
    /// The largest value allowed.
    pub max: u64,
}

impl OutOfRange {
    /// An error saying that `requested` is above `max`.
    pub const fn new(what: &'static str, requested: u64, max: u64) -> Self {
        Self {
            what,
            requested,
            max,
        }
    }

    /// `value` if it is at most `max`.
    ///
    /// # Errors
    /// The value itself, its name and the limit.
    pub const fn check(what: &'static str, value: u64, max: u64) -> Result<(), Self> {
        if value > max {
            Err(Self::new(what, value, max))
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        f.debug_struct("OutOfRange")
            .field("what", &self.what)
            .field("requested", &self.requested)
            .field("max", &self.max)
            .finish()
    }
}

/// Lets a value that already has the right type pass where a number would be checked.
impl From<std::convert::Infallible> for OutOfRange {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// So that values of narrow fields are made with `?` where commands are issued.
impl From<OutOfRange> for Error {
    fn from(error: OutOfRange) -> Self {
        Self::limit(Op::CheckValue, error.what, error.requested, error.max)
    }
}
