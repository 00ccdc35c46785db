//! Data-path errors: `Copy`, at most two machine words, without allocation.

use std::fmt;

use super::Errno;

/// Why a work request was not posted. The device sees nothing of the refused request.
///
/// `{:?}` is the line that `{}` prints.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum PostError {
    /// The queue has no free slot: poll completions first (`ENOMEM` of `ibv_post_send`).
    QueueFull,
    /// More scatter/gather entries than the queue was created for.
    TooManySges {
        /// Entries in the request.
        requested: u32,
        /// Entries a request of this queue may have.
        max: u32,
    },
    /// More inline bytes than the queue was created for.
    InlineTooLong {
        /// Bytes in the request.
        requested: u64,
        /// Bytes a request of this queue may carry.
        max: u32,
    },
    /// The message is longer than the device can send.
    MessageTooLong {
        /// Bytes in the request.
        requested: u64,
        /// Bytes a message may have.
        max: u64,
    },
    /// The queue pair has no such stream.
    NoSuchStream {
        /// The stream of the request.
        requested: u32,
        /// How many streams there are, counted from 0.
        streams: u32,
    },
    /// The queue pair's transport, or the device, does not have this operation.
    UnsupportedOperation,
    /// A field of the request is invalid for its operation (alignment, size, missing destination).
    InvalidRequest,
    /// Its `wr_id` is [reserved](crate::types::RESERVED_WR_IDS) for queues that own their memory.
    ReservedId,
    /// The queue pair's state does not allow such requests.
    WrongState,
    /// This process is a forked child of the one that created the queue; the ring was not touched.
    Forked,
    /// The kernel refused the doorbell. If no requests were under way, those of the batch were
    /// removed from the ring; otherwise the kernel may still carry them out.
    Doorbell(Errno),
    /// An earlier failure left the queue unusable; destroy it.
    Poisoned,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull => f.write_str("the queue is full"),
            Self::TooManySges { requested, max } => {
                write!(
                    f,
                    "{requested} scatter/gather entries, this queue takes {max}"
                )
            }
            Self::InlineTooLong { requested, max } => {
                write!(f, "{requested} inline bytes, this queue takes {max}")
            }
            Self::MessageTooLong { requested, max } => {
                write!(f, "a message of {requested} bytes, the device sends {max}")
            }
            Self::NoSuchStream { requested, streams } => {
                write!(f, "stream {requested}, this queue pair has {streams}")
            }
            Self::UnsupportedOperation => f.write_str("the transport does not have this operation"),
            Self::InvalidRequest => f.write_str("the request contradicts its operation"),
            Self::ReservedId => f.write_str("ids with bit 63 set are reserved"),
            Self::WrongState => f.write_str("the queue pair takes no requests in its state"),
            Self::Forked => f.write_str("the queue belongs to the parent of this process"),
            Self::Doorbell(errno) => write!(f, "the doorbell was refused: {errno}"),
            Self::Poisoned => f.write_str("the queue failed earlier; destroy it"),
        }
    }
}

/// An error that `main` returns is printed this way.
impl fmt::Debug for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for PostError {}

/// Why a completion queue can no longer be polled.
///
/// `{:?}` is the line that `{}` prints.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum PollError {
    /// An index of the ring, or an entry, is invalid. The completions before it were delivered.
    Corrupt,
    /// This process is a forked child of the one that created the queue.
    Forked,
    /// The queue failed earlier (an overrun, a failed resize); destroy it.
    Poisoned,
}

impl fmt::Display for PollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Corrupt => "the completion ring holds something impossible",
            Self::Forked => "the queue belongs to the parent of this process",
            Self::Poisoned => "the queue failed earlier; destroy it",
        })
    }
}

/// An error that `main` returns is printed this way.
impl fmt::Debug for PollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for PollError {}

#[cfg(test)]
mod tests {
    use super::{Errno, PollError, PostError};
    use std::collections::HashSet;

    #[test]
    fn each_refusal_names_the_request_and_the_limit() {
        let (requested, max) = (40, 30);
        let words = [
            PostError::QueueFull,
            PostError::TooManySges { requested, max },
            PostError::InlineTooLong {
                requested: requested.into(),
                max,
            },
            PostError::MessageTooLong {
                requested: requested.into(),
                max: max.into(),
            },
            PostError::NoSuchStream {
                requested,
                streams: max,
            },
            PostError::UnsupportedOperation,
            PostError::InvalidRequest,
            PostError::ReservedId,
            PostError::WrongState,
            PostError::Forked,
            PostError::Doorbell(Errno::ACCESS),
            PostError::Poisoned,
        ]
        .map(|error| error.to_string());
        assert_eq!(words.iter().collect::<HashSet<_>>().len(), words.len());
        let limits = words.iter().filter(|text| text.contains("40"));
        assert!(limits.clone().all(|text| text.contains("30")));
        assert_eq!(limits.count(), 4);
        assert_eq!(format!("{:?}", PostError::QueueFull), words[0]);
        let doorbell = PostError::Doorbell(Errno::ACCESS).to_string();
        assert!(doorbell.contains(&Errno::ACCESS.to_string()), "{doorbell}");
    }

    #[test]
    fn a_queue_says_why_it_cannot_be_polled() {
        let words = [PollError::Corrupt, PollError::Forked, PollError::Poisoned]
            .map(|error| error.to_string());
        assert_eq!(format!("{:?}", PollError::Poisoned), words[2]);
        assert_eq!(words.iter().collect::<HashSet<_>>().len(), words.len());
        assert!(words[2].contains("destroy it"), "{}", words[2]);
    }
}
