//! A queue pair that exists but is not yet connected.

use std::fmt;

use uverbs_core::contract::Qp as _;
use uverbs_core::types::{AddressVector, Ece, FlowLabel, GlobalRoute, QpAttr, QpState, QpType};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::builder::Settings;
use super::{QueuePair, QueuePairEndpoint, modify};

/// A queue pair in RESET that knows its endpoint.
///
/// [`handshake`](Self::handshake) connects it to a peer; a datagram queue pair has no peer and is
/// [activated](Self::activate) instead. [`into_raw`](Self::into_raw) leaves every step to the
/// caller.
#[derive(Debug)]
#[must_use = "a queue pair does nothing before the handshake"]
pub struct PreparedQueuePair {
    qp: QueuePair,
    settings: Settings,
}

/// A handshake that failed. The queue pair is back in RESET and can be tried again.
#[derive(Debug)]
pub struct HandshakeError {
    /// What the kernel refused.
    pub error: Error,
    /// The queue pair.
    pub prepared: Box<PreparedQueuePair>,
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

impl PreparedQueuePair {
    pub(super) fn new(qp: QueuePair, settings: Settings) -> Self {
        Self { qp, settings }
    }

    /// What the peer needs to know to connect to it.
    pub fn endpoint(&self) -> QueuePairEndpoint {
        self.qp.endpoint
    }

    /// Its number on the wire, 24 bits.
    pub fn qp_num(&self) -> u32 {
        self.qp.qp_num()
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
        self.settings.ece = Some(*ece);
        Ok(())
    }

    /// The path to a peer from the port and GID that the queue pair was built with, as
    /// [`create_ah`](crate::ProtectionDomain::create_ah) takes it. No system call.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) if only one side has a GID.
    pub fn path_to(&self, remote: &QueuePairEndpoint) -> Result<AddressVector> {
        let grh = match (self.settings.gid, remote.gid) {
            (None, None) => None,
            (Some(own), Some(dgid)) => Some(GlobalRoute {
                dgid,
                flow_label: FlowLabel::default(),
                sgid_index: u8::try_from(own.index)
                    .map_err(|_| Error::limit(Op::Handshake, "gid_index", own.index.into(), 255))?,
                hop_limit: self.settings.hop_limit,
                traffic_class: self.settings.traffic_class,
            }),
            (own, _) => {
                let missing = if own.is_none() {
                    "this side's"
                } else {
                    "the peer's"
                };
                return Err(Error::invalid(Op::Handshake, "endpoint").fact("without_gid", missing));
            }
        };
        Ok(AddressVector {
            dlid: remote.lid,
            sl: self.settings.service_level,
            port: self.settings.port,
            grh,
            ..AddressVector::default()
        })
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
    pub fn handshake(mut self, remote: QueuePairEndpoint) -> Result<QueuePair, HandshakeError> {
        match self.connect(&remote) {
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
    pub fn activate(mut self) -> Result<QueuePair, HandshakeError> {
        match self.activate_unconnected() {
            Ok(()) => Ok(self.qp),
            Err(error) => Err(self.refused(error)),
        }
    }

    /// The queue pair in RESET, to be taken through its states by hand.
    pub fn into_raw(self) -> QueuePair {
        self.qp
    }

    fn connect(&mut self, remote: &QueuePairEndpoint) -> Result<()> {
        let (requests, responses) = match self.qp.kind() {
            QpType::Rc => (true, true),
            QpType::XrcInitiator => (true, false),
            QpType::XrcTarget => (false, true),
            QpType::Uc => (false, false),
            other => {
                return Err(Error::new(Op::Handshake, ErrorKind::Unsupported)
                    .fact("transport", other.to_string())
                    .hint("datagram queue pairs are activated"));
            }
        };
        let Settings {
            min_rnr_timer,
            timeout,
            retry_count,
            rnr_retry,
            max_rd_atomic,
            max_dest_rd_atomic,
            access,
            ..
        } = self.settings;
        let mut rtr = QpAttr::to(QpState::ReadyToReceive)
            .av(self.path_to(remote)?)
            .path_mtu(self.settings.path_mtu)
            .dest_qpn(remote.qp_num)
            .rq_psn(remote.psn);
        let mut rts = QpAttr::to(QpState::ReadyToSend).sq_psn(self.qp.endpoint.psn);
        if responses {
            rtr = rtr
                .max_dest_rd_atomic(max_dest_rd_atomic)
                .min_rnr_timer(min_rnr_timer);
            // A target resends its responses, too.
            rts = rts.timeout(timeout);
        }
        if requests {
            rts = rts
                .timeout(timeout)
                .retry_count(retry_count)
                .rnr_retry(rnr_retry)
                .max_rd_atomic(max_rd_atomic);
        }
        self.initialize(self.init().access(access))?;
        self.modify(&rtr)?;
        self.modify(&rts)
    }

    fn activate_unconnected(&mut self) -> Result<()> {
        match (self.qp.kind(), self.settings.after) {
            (QpType::Ud, _) => self.activate_datagrams(),
            (QpType::RawPacket, _) => {
                self.modify(&QpAttr::to(QpState::Init).port(self.settings.port))?;
                self.modify(&QpAttr::to(QpState::ReadyToReceive))?;
                self.modify(&QpAttr::to(QpState::ReadyToSend))
            }
            (_, After::Activate { sends: true }) => self.activate_sender(),
            (_, After::Activate { sends: false }) => self.activate_receiver(),
            (kind, After::Handshake) => Err(Error::new(Op::Handshake, ErrorKind::Unsupported)
                .fact("transport", kind.to_string())
                .hint("connected queue pairs need a handshake")),
        }
    }

    fn activate_sender(&mut self) -> Result<()> {
        let Settings {
            path_mtu,
            timeout,
            retry_count,
            rnr_retry,
            max_rd_atomic,
            ..
        } = self.settings;
        self.initialize(self.init())?;
        self.modify(&QpAttr::to(QpState::ReadyToReceive).path_mtu(path_mtu))?;
        let rts = QpAttr::to(QpState::ReadyToSend)
            .sq_psn(self.qp.endpoint.psn)
            .timeout(timeout)
            .retry_count(retry_count)
            .rnr_retry(rnr_retry)
            .max_rd_atomic(max_rd_atomic);
        self.modify(&rts)
    }

    fn activate_receiver(&mut self) -> Result<()> {
        // What responses look like; where they go is in the requests.
        let answers = self.path_to(&self.qp.endpoint)?;
        self.initialize(self.init().access(self.settings.access))?;
        let rtr = QpAttr::to(QpState::ReadyToReceive)
            .av(answers)
            .path_mtu(self.settings.path_mtu)
            .min_rnr_timer(self.settings.min_rnr_timer);
        self.modify(&rtr)?;
        // A device may assign its number only now.
        self.qp.endpoint.qp_num = self.qp.qp_num();
        Ok(())
    }

    fn activate_datagrams(&mut self) -> Result<()> {
        self.initialize(self.init().qkey(self.settings.qkey))?;
        self.modify(&QpAttr::to(QpState::ReadyToReceive))?;
        self.modify(&QpAttr::to(QpState::ReadyToSend).sq_psn(self.qp.endpoint.psn))
    }

    fn init(&self) -> QpAttr {
        QpAttr::to(QpState::Init)
            .pkey_index(self.settings.pkey_index)
            .port(self.settings.port)
    }

    /// Goes to INIT. The options of the peer's device are for the change after it.
    fn initialize(&mut self, init: QpAttr) -> Result<()> {
        self.modify(&init)?;
        match self.settings.ece {
            Some(ece) => self.qp.set_ece(&ece),
            None => Ok(()),
        }
    }

    fn modify(&mut self, attr: &QpAttr) -> Result<()> {
        modify(&mut self.qp.queue, attr)
    }

    /// Takes the queue pair back to RESET, so that another try starts from the beginning.
    fn refused(mut self, error: Error) -> HandshakeError {
        if self.qp.state() != QpState::Reset {
            // Should this fail too, the next try reports it.
            let _ = self.qp.queue.modify(&QpAttr::to(QpState::Reset));
        }
        HandshakeError {
            error,
            prepared: Box::new(self),
        }
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for HandshakeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<HandshakeError> for Error {
    fn from(refused: HandshakeError) -> Self {
        refused.error
    }
}
