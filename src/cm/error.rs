//! How connecting can fail.

use std::fmt;

use uverbs_core::Error;
use uverbs_core::cm::{Event, EventKind, EventStatus, PrivateData, RejectReason};
use uverbs_core::error::Errno;

use crate::PreparedQueuePair;
use crate::owned::Memory;
use crate::transport::Rc;

/// A step that takes time, and has a limit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// Finding the device and the peer's link address.
    Address,
    /// Finding the path.
    Route,
    /// Waiting for the peer's answer.
    Connect,
    /// Waiting until the peer has the answer.
    Accept,
    /// Waiting until the peer disconnects, too.
    Disconnect,
    /// Joining a multicast group.
    Join,
}

/// Why there is no connection, or none any more.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CmError {
    /// A command was refused, or an address or a route could not be found; the operation says
    /// which.
    Failed(Error),
    /// The peer refused, or its kernel did: no program listens there, or it went away.
    Rejected(Box<Rejection>),
    /// This side's time limit passed in this step. The peer is told.
    TimedOut(Step),
    /// The kernel gave up, after about 74 seconds without an answer.
    Unreachable(EventStatus),
    /// The peer gave up before it was answered.
    GaveUp,
    /// The connection is over.
    Disconnected,
    /// The device was removed.
    DeviceRemoved,
}

/// How a peer refused.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Rejection {
    /// The reason, as far as the peer gave it. Of a datagram service
    /// [`Refused`](EventStatus::Refused): 1, nobody listens there; 2, the program refused.
    pub status: EventStatus,
    data: PrivateData,
}

/// A connection that was not made.
///
/// It prints as its [`cause`](Self::cause), by `{:?}` too.
pub struct ConnectError {
    /// Why.
    pub cause: CmError,
    /// The queue pair, back in RESET: it can be used for another try. `None` if it could not be
    /// moved back; then it was destroyed.
    pub prepared: Option<Box<PreparedQueuePair<Rc>>>,
    /// The memory of receives that were posted to it.
    pub memory: Vec<Memory>,
}

impl Rejection {
    pub(super) fn of(event: &Event) -> Self {
        Self {
            status: event.outcome(),
            data: event.connection().private_data,
        }
    }

    /// Of a datagram service.
    fn of_datagrams(event: &Event) -> Self {
        Self {
            status: event.outcome(),
            data: event.datagram().private_data,
        }
    }

    /// Why, on InfiniBand and RoCE.
    pub fn reason(&self) -> Option<RejectReason> {
        match self.status {
            EventStatus::Rejected(reason) => Some(reason),
            _ => None,
        }
    }

    /// What the peer gave to [`Request::reject`](super::Request::reject), or
    /// [`DatagramRequest::reject`](super::DatagramRequest::reject), padded with zeros.
    pub fn private_data(&self) -> &[u8] {
        self.data.as_bytes()
    }
}

impl CmError {
    /// Why the peer refused, if it did.
    pub fn reason(&self) -> Option<RejectReason> {
        match self {
            Self::Rejected(rejection) => rejection.reason(),
            _ => None,
        }
    }

    /// What an event means to a caller that waits for a different one; `None` if nothing.
    pub(super) fn of(event: &Event) -> Option<Self> {
        Some(match event.kind {
            EventKind::Rejected => Self::Rejected(Box::new(Rejection::of(event))),
            EventKind::Unreachable => Self::Unreachable(event.outcome()),
            EventKind::ConnectError => Self::Failed(failure(event, uverbs_core::Op::CmConnect)),
            EventKind::DeviceRemoval => Self::DeviceRemoved,
            EventKind::Disconnected | EventKind::TimewaitExit => Self::Disconnected,
            _ => return None,
        })
    }
}

impl CmError {
    /// The same for a caller that asked for a datagram service.
    pub(super) fn of_datagrams(event: &Event) -> Option<Self> {
        match (event.kind, event.outcome()) {
            (EventKind::Unreachable, EventStatus::Refused(_)) => {
                Some(Self::Rejected(Box::new(Rejection::of_datagrams(event))))
            }
            _ => Self::of(event),
        }
    }
}

/// The error of a command whose outcome came as an event.
pub(super) fn failure(event: &Event, op: uverbs_core::Op) -> Error {
    match event.outcome() {
        EventStatus::Failed(errno) => Error::os(op, errno),
        _ => Error::new(op, uverbs_core::ErrorKind::Other)
            .fact("status", i64::from(event.status).to_string()),
    }
}

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Self::Address => "resolving the address",
            Self::Route => "resolving the route",
            Self::Connect => "waiting for the peer's answer",
            Self::Accept => "waiting for the peer's confirmation",
            Self::Disconnect => "waiting for the peer to disconnect",
            Self::Join => "joining the group",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for CmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Rejected(rejection) => match rejection.status {
                EventStatus::Rejected(RejectReason::InvalidServiceId) => {
                    f.write_str("rejected: nobody listens at this address and port")
                }
                EventStatus::Rejected(reason) => write!(f, "rejected: {reason}"),
                EventStatus::Failed(errno) => {
                    write!(f, "rejected: {}", errno_text(errno))
                }
                EventStatus::Refused(code) => {
                    write!(f, "the service refused with code {code}")
                }
                _ => f.write_str("rejected"),
            },
            Self::TimedOut(step) => write!(f, "timed out {step}"),
            Self::Unreachable(_) => f.write_str("the peer does not answer"),
            Self::GaveUp => f.write_str("the peer gave up before it was answered"),
            Self::Disconnected => f.write_str("disconnected"),
            Self::DeviceRemoved => f.write_str("the device was removed"),
        }
    }
}

fn errno_text(errno: Errno) -> String {
    std::io::Error::from(errno).to_string()
}

impl std::error::Error for CmError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for CmError {
    fn from(error: Error) -> Self {
        if error.kind() == uverbs_core::ErrorKind::DeviceRemoved {
            return Self::DeviceRemoved;
        }
        Self::Failed(error)
    }
}

impl ConnectError {
    /// Of a queue pair that was destroyed, or is left to its holder.
    pub(crate) fn without_queue(cause: impl Into<CmError>) -> Self {
        Self {
            cause: cause.into(),
            prepared: None,
            memory: Vec::new(),
        }
    }

    pub(crate) fn new(cause: impl Into<CmError>, prepared: PreparedQueuePair<Rc>) -> Self {
        Self {
            cause: cause.into(),
            prepared: Some(Box::new(prepared)),
            memory: Vec::new(),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl fmt::Debug for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        // Of the queue pair its number only: it has large tables.
        f.debug_struct("ConnectError")
            .field("cause", &self.cause)
            .field(
                "qp_num",
                &self.prepared.as_ref().map(|prepared| prepared.qp_num()),
            )
            .field("memory", &self.memory.len())
            .finish()
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

impl From<ConnectError> for CmError {
    fn from(failed: ConnectError) -> Self {
        failed.cause
    }
}
