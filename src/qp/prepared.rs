//! A queue pair that exists but is not yet connected.

use std::fmt;

#[cfg(doc)]
use uverbs_core::ErrorKind;
use uverbs_core::contract::Qp as _;
use uverbs_core::types::{AddressVector, Ece, QpType};
use uverbs_core::{Error, Result};

use super::{GidChoice, QueuePair, QueuePairEndpoint};
use crate::transport::{Connected, Transport, Unconnected};

/// A queue pair in RESET that knows its endpoint.
///
/// [`handshake`](Self::handshake) connects it to a peer; a datagram queue pair has no peer and is
/// [activated](Self::activate) instead. [`into_raw`](Self::into_raw) leaves every step to the
/// caller.
#[derive(Debug)]
#[must_use = "a queue pair does nothing before the handshake"]
pub struct PreparedQueuePair<T: Transport = QpType> {
    qp: QueuePair<T>,
}

/// A handshake that failed. The queue pair is back in RESET and can be tried again.
///
/// It prints as its [`error`](Self::error), by `{:?}` too.
pub struct HandshakeError<T: Transport = QpType> {
    /// What the kernel refused.
    pub error: Error,
    /// The queue pair.
    pub prepared: Box<PreparedQueuePair<T>>,
}

/// How a queue pair becomes ready after it was created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum After {
    /// As its transport requires: by a handshake with its peer, or by itself if the transport has
    /// no connections.
    Handshake,
    /// By itself, because its requests name the peer.
    Activate {
        /// Whether it only sends; otherwise it only receives.
        sends: bool,
    },
}

impl<T: Transport> PreparedQueuePair<T> {
    pub(crate) fn new(qp: QueuePair<T>) -> Self {
        Self { qp }
    }

    pub(crate) fn raw(&self) -> &QueuePair<T> {
        &self.qp
    }

    /// What the peer needs to know to connect to it.
    pub fn endpoint(&self) -> QueuePairEndpoint {
        self.qp.endpoint
    }

    /// Its number on the wire, 24 bits.
    pub fn qp_num(&self) -> u32 {
        self.qp.qp_num()
    }

    /// The GID of its port that it uses, and why; `None` on InfiniBand without one, for raw
    /// packets, and where the [connection manager](crate::cm) chose the path, which the
    /// [endpoint](Self::endpoint) then has the GID of.
    pub fn gid(&self) -> Option<GidChoice> {
        let kept = self.qp.gid.as_ref()?;
        Some(kept.with(self.qp.settings.port, self.qp.endpoint.gid?))
    }

    /// `ibv_query_ece`—the options its device offers beyond the standard, to be sent to a peer that
    /// is to agree to them. No system call.
    ///
    /// # Errors
    /// As [`QueuePair::ece`].
    #[doc(alias = "ibv_query_ece")]
    pub fn ece(&self) -> Result<Ece> {
        self.qp.ece()
    }

    /// `ibv_set_ece`—sets the options of the peer's device, for [`handshake`](Self::handshake) (or
    /// [`activate`](Self::activate)) to agree to in the change to RTR. [`QueuePair::ece`] reports
    /// the outcome afterwards. No system call.
    ///
    /// # Errors
    /// As [`QueuePair::set_ece`].
    #[doc(alias = "ibv_set_ece")]
    pub fn set_ece(&mut self, ece: &Ece) -> Result<()> {
        self.qp.queue.check_ece(ece)?;
        self.qp.settings.ece = Some(*ece);
        Ok(())
    }

    /// The path to a peer from the port and GID that the queue pair was built with, as
    /// [`create_ah`](crate::ProtectionDomain::create_ah) takes it. No system call; one where the
    /// connection manager chose the path, to find the GID in the port's table.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) if only one side has a GID.
    pub fn path_to(&self, remote: &QueuePairEndpoint) -> Result<AddressVector> {
        self.qp.path_to(remote)
    }

    /// Connects it to the peer that `remote` describes: INIT, RTR, RTS. Three system calls; none
    /// waits for the peer, which must do the same before traffic flows.
    ///
    /// Receive requests can be posted afterwards; a peer that sends earlier has to wait and retry
    /// (RC).
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | a transport without connections |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | a GID on one side only; values the kernel refuses (EINVAL) |
    /// | [`Other`](ErrorKind::Other) | no route to the peer (ENETUNREACH, EHOSTUNREACH, ETIMEDOUT) |
    pub fn handshake(mut self, remote: QueuePairEndpoint) -> Result<QueuePair<T>, HandshakeError<T>>
    where
        T: Connected,
    {
        match self.qp.connect(&remote) {
            Ok(()) => Ok(self.qp),
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Makes a queue pair that has no peer of its own ready to send and receive: INIT, RTR, RTS.
    /// Three system calls, two for a DC target.
    ///
    /// These are datagram queue pairs, raw packet queue pairs, and both ends of dynamic
    /// connections. A DC target gets its number now, which [`QueuePair::endpoint`] returns from
    /// then on, and stays in RTR.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for a transport with connections; EPERM for a queue
    /// key with bit 31 set.
    pub fn activate(mut self) -> Result<QueuePair<T>, HandshakeError<T>>
    where
        T: Unconnected,
    {
        match self.qp.activate_unconnected() {
            Ok(()) => Ok(self.qp),
            Err(error) => Err(self.refused(error)),
        }
    }

    /// The queue pair in RESET, to be taken through its states by hand.
    pub fn into_raw(self) -> QueuePair<T> {
        self.qp
    }

    /// The same queue pair, with its transport checked at run time. No system call.
    pub fn untyped(self) -> PreparedQueuePair {
        PreparedQueuePair::new(self.qp.untyped())
    }

    /// Moves the queue pair back to RESET.
    fn refused(mut self, error: Error) -> HandshakeError<T> {
        self.qp.back_to_reset();
        HandshakeError {
            error,
            prepared: Box::new(self),
        }
    }
}

impl<T: Transport> fmt::Display for HandshakeError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: Transport> fmt::Debug for HandshakeError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        // Of the queue pair its number only: it has large tables.
        f.debug_struct("HandshakeError")
            .field("error", &self.error)
            .field("qp_num", &self.prepared.qp_num())
            .finish_non_exhaustive()
    }
}

impl<T: Transport> std::error::Error for HandshakeError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<T: Transport> From<HandshakeError<T>> for Error {
    fn from(refused: HandshakeError<T>) -> Self {
        refused.error
    }
}
