//! The error for a number outside the range of its field.

use crate::error::{Error, Op};

/// A number does not fit its field.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
#[error("{what} {asked} is out of range (at most {max})")]
#[non_exhaustive]
pub struct OutOfRange {
    /// Which field, with its unit where it has one.
    pub what: &'static str,
    /// The requested value.
    pub asked: u64,
    /// The largest value allowed.
    pub max: u64,
}

impl OutOfRange {
    /// An error saying that `asked` is above `max`.
    pub const fn new(what: &'static str, asked: u64, max: u64) -> Self {
        Self { what, asked, max }
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

/// Lets a value that already has the right type pass where a number would be checked.
impl From<std::convert::Infallible> for OutOfRange {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// So that values of narrow fields are made with `?` where commands are issued.
impl From<OutOfRange> for Error {
    fn from(error: OutOfRange) -> Self {
        Self::limit(Op::CheckValue, error.what, error.asked, error.max)
    }
}
