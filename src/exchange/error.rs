//! Why an exchange failed.

use std::time::Duration;
use std::{fmt, io};

/// A step of an exchange.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Step {
    /// Endpoints and memory.
    Offer,
    /// The ready mark.
    Ready,
}

impl Step {
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Offer => 1,
            Self::Ready => 2,
        }
    }

    pub(super) const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Offer),
            2 => Some(Self::Ready),
            _ => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Offer => "an offer",
            Self::Ready => "a ready mark",
        })
    }
}

/// An exchange failed. Its stream cannot be used for another.
///
/// `{:?}` is the line that `{}` prints.
#[non_exhaustive]
pub enum ExchangeError {
    /// The stream failed.
    Io(io::Error),
    /// The peer ended the connection.
    Ended,
    /// The step took longer than its limit.
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// The peer does not speak this protocol.
    NotAnExchange,
    /// The peer speaks another version.
    Version {
        /// This side's version.
        own: u16,
        /// The peer's.
        peer: u16,
    },
    /// The peer is in another step.
    Unexpected {
        /// What this side waited for.
        expected: Step,
        /// What the peer sent.
        got: Step,
    },
    /// More than an offer may have.
    TooMany {
        /// Endpoints or memories.
        what: &'static str,
        /// How many there are.
        requested: usize,
        /// How many there may be.
        max: usize,
    },
    /// The peer's offer has none of what was requested.
    Missing(&'static str),
    /// The named part of the peer's message is impossible.
    Malformed(&'static str),
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("exchange: ")?;
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Ended => f.write_str("the peer ended the connection; its own output may say why"),
            Self::TimedOut { limit } => write!(
                f,
                "not done after {limit:?}; both sides must be in the same step"
            ),
            Self::NotAnExchange => f.write_str("the peer is another kind of program"),
            Self::Version { own, peer } => {
                write!(f, "the peer speaks version {peer}, this side version {own}")
            }
            Self::Unexpected { expected, got } => {
                write!(f, "the peer sent {got} instead of {expected}")
            }
            Self::TooMany {
                what,
                requested,
                max,
            } => write!(f, "{requested} {what}, at most {max}"),
            Self::Missing(what) => write!(f, "the peer offers no {what}"),
            Self::Malformed(what) => write!(f, "the peer's {what} is impossible"),
        }
    }
}

/// An error that `main` returns is printed this way.
impl fmt::Debug for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ExchangeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}
