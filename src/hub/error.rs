//! Why a connection's request or wait ended without success.

use std::fmt;

use uverbs_core::types::WcStatus;
use uverbs_core::{ErrorKind, PostError};

/// Why a request, or a wait, of a [`Connection`](super::Connection) did not succeed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The queue pair is in its error state: a request failed with this status, usually
    /// [`RetryExceeded`](WcStatus::RetryExceeded) because the peer does not answer. Every wait of
    /// the connection ends with it; connect again.
    Disconnected(WcStatus),
    /// The connection or its hub was closed on this side.
    Closed,
    /// The peer's program disconnected, or went away. Only connections that were made [by
    /// address](super::Prepared::connect_to) learn of that.
    PeerLeft,
    /// More messages waited to be taken than the hub's [backlog](super::HubBuilder::backlog). Those
    /// that arrived before can still be received; connect again.
    Backlog,
    /// The hub can no longer be driven, for example because the device was removed.
    Failed(ErrorKind),
    /// The time of a [`wait`](super::Request::wait) is up. What was posted goes on.
    TimedOut,
    /// This request was not posted. The connection is as good as before.
    Refused(PostError),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected(status) => write!(f, "the connection is lost: {status}"),
            Self::Closed => f.write_str("the connection was closed"),
            Self::PeerLeft => f.write_str("the peer disconnected, or went away"),
            Self::Backlog => f.write_str("too many messages of the connection were not taken"),
            Self::Failed(kind) => write!(f, "the hub cannot be driven any more: {kind}"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Refused(error) => write!(f, "not posted: {error}"),
        }
    }
}

impl std::error::Error for ConnectionError {}
