//! Why a stream was not made, or is over.

use std::{fmt, io};

use uverbs_core::Error;

use super::wire::{Mismatch, VERSION};
use crate::cm::CmError;
use crate::hub::ConnectionError;

/// Why a stream was not made, or nothing can be read or written.
///
/// As an [`io::Error`] it is that error's source, and its kind is in the table of
/// [the module](crate::stream).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StreamError {
    /// It could not be connected.
    Connect(CmError),
    /// The peer speaks another protocol.
    NotAStream,
    /// The peer speaks this version of the protocol, and this library another.
    Version(u8),
    /// The connection is lost: bytes that were written may not have arrived. What had arrived can
    /// be read before this is returned.
    Lost(ConnectionError),
    /// The peer broke the rules. The connection was ended.
    Violation(Violation),
    /// This side was [shut down](super::Stream::shutdown): nothing can be written.
    ShutDown,
    /// The time is up. What was written is on its way, and nothing that was read is lost.
    TimedOut,
    /// More bytes than the peer takes in one message.
    TooLong {
        /// How many there are.
        bytes: usize,
        /// How many it takes, or how many the buffer has.
        most: usize,
    },
    /// No buffer, thread or queue pair could be obtained, or a buffer is of other
    /// [`Streams`](super::Streams). The stream goes on, if there is one.
    Failed(Error),
}

/// A rule that a peer broke.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Violation {
    /// A message without immediate value, or with one that has no meaning.
    Header,
    /// A message with bytes that it had no credit for.
    Credit,
    /// More credits than messages were sent to it.
    Grant,
    /// Bytes, or an end, after the end.
    AfterEnd,
    /// A message without bytes, credits or an end.
    Empty,
}

impl From<Mismatch> for StreamError {
    fn from(mismatch: Mismatch) -> Self {
        match mismatch {
            Mismatch::NotAStream => Self::NotAStream,
            Mismatch::Version(version) => Self::Version(version),
        }
    }
}

impl From<CmError> for StreamError {
    fn from(error: CmError) -> Self {
        Self::Connect(error)
    }
}

impl From<Error> for StreamError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> Self {
        let kind = match &error {
            StreamError::Connect(CmError::TimedOut(_) | CmError::Unreachable(_))
            | StreamError::TimedOut => io::ErrorKind::TimedOut,
            StreamError::Connect(CmError::Rejected(_)) => io::ErrorKind::ConnectionRefused,
            StreamError::Connect(CmError::GaveUp | CmError::Disconnected)
            | StreamError::Lost(_) => io::ErrorKind::ConnectionReset,
            StreamError::NotAStream | StreamError::Version(_) | StreamError::Violation(_) => {
                io::ErrorKind::InvalidData
            }
            StreamError::ShutDown => io::ErrorKind::BrokenPipe,
            StreamError::TooLong { .. } => io::ErrorKind::InvalidInput,
            StreamError::Connect(_) | StreamError::Failed(_) => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::NotAStream => f.write_str("the peer does not speak the protocol of streams"),
            Self::Version(theirs) => write!(
                f,
                "the peer speaks version {theirs} of the protocol of streams, not {VERSION}"
            ),
            Self::Lost(error) => error.fmt(f),
            Self::Violation(violation) => write!(f, "the peer broke the protocol: {violation}"),
            Self::ShutDown => f.write_str("this side was shut down"),
            Self::TimedOut => f.write_str("timed out"),
            Self::TooLong { bytes, most } => {
                write!(f, "{bytes} bytes are too many for a message of {most}")
            }
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "a message without a header that has a meaning",
            Self::Credit => "a message without a credit for it",
            Self::Grant => "more credits than it was sent messages",
            Self::AfterEnd => "a message after the end",
            Self::Empty => "a message that says nothing",
        })
    }
}

impl std::error::Error for StreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect(error) => Some(error),
            Self::Lost(error) => Some(error),
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}
