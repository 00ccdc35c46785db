//! The state changes from RESET to ready, for the first time or again.

use uverbs_core::contract::Qp as _;
use uverbs_core::types::{AddressVector, GlobalRoute, QpAttr, QpState, QpType};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::builder::Settings;
use super::prepared::After;
use super::{QueuePair, QueuePairEndpoint, gid};
use crate::transport::{Connected, Transport, Unconnected};

impl<T: Transport> QueuePair<T> {
    /// Connects it once more, after a change to RESET, with the settings that it was built with. It
    /// keeps its endpoint. Three system calls; none waits for the peer, which must do the same.
    ///
    /// Packets of the former connection that are still under way carry the same numbers. A peer
    /// that was destroyed and built again has another [`endpoint`](Self::endpoint).
    ///
    /// # Errors
    /// [`InvalidState`](ErrorKind::InvalidState) for one that is not in RESET; else as
    /// [`handshake`](crate::PreparedQueuePair::handshake). It is back in RESET then.
    pub fn reconnect(&mut self, remote: QueuePairEndpoint) -> Result<()>
    where
        T: Connected,
    {
        self.once_more(|qp| qp.connect(&remote))
    }

    /// Makes it ready once more, after a change to RESET, if it has no peer of its own. Three
    /// system calls, two for a DC target, which gets another number.
    ///
    /// # Errors
    /// [`InvalidState`](ErrorKind::InvalidState) for one that is not in RESET; else as
    /// [`activate`](crate::PreparedQueuePair::activate). It is back in RESET then.
    pub fn reactivate(&mut self) -> Result<()>
    where
        T: Unconnected,
    {
        self.once_more(Self::activate_unconnected)
    }

    fn once_more(&mut self, ready: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.state() != QpState::Reset {
            return Err(Error::new(Op::Handshake, ErrorKind::InvalidState)
                .fact("state", self.state().to_string())
                .hint("move it to RESET first"));
        }
        ready(self).inspect_err(|_| self.back_to_reset())
    }

    /// So that another try starts from the beginning.
    pub(super) fn back_to_reset(&mut self) {
        if self.state() != QpState::Reset {
            // Should this fail too, the next try reports it.
            let _ = self.queue.modify(&QpAttr::to(QpState::Reset));
        }
    }

    /// The path to a peer from the port and GID that it was built with.
    pub(super) fn path_to(&self, remote: &QueuePairEndpoint) -> Result<AddressVector> {
        let own = match (&self.gid, self.endpoint.gid) {
            (None, Some(gid)) => {
                let port = self.settings.port;
                Some(gid::entry_of(self.pd.context(), port, gid)?.index)
            }
            (kept, _) => kept.as_ref().map(|kept| kept.index),
        };
        let grh = match (own, remote.gid) {
            (None, None) => None,
            (Some(index), Some(dgid)) => Some(GlobalRoute {
                dgid,
                flow_label: self.settings.flow_label,
                sgid_index: u8::try_from(index)
                    .map_err(|_| Error::limit(Op::Handshake, "gid_index", index.into(), 255))?,
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
            sl: self.settings.service_level.raw(),
            src_path_bits: self.settings.src_path_bits.raw(),
            static_rate: self.settings.static_rate,
            port: self.settings.port,
            grh,
        })
    }

    pub(super) fn connect(&mut self, remote: &QueuePairEndpoint) -> Result<()> {
        let (requests, responses) = match self.kind() {
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
        let mut rts = QpAttr::to(QpState::ReadyToSend).sq_psn(self.endpoint.psn);
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

    pub(super) fn activate_unconnected(&mut self) -> Result<()> {
        match (self.kind(), self.settings.after) {
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
            .sq_psn(self.endpoint.psn)
            .timeout(timeout)
            .retry_count(retry_count)
            .rnr_retry(rnr_retry)
            .max_rd_atomic(max_rd_atomic);
        self.modify(&rts)
    }

    fn activate_receiver(&mut self) -> Result<()> {
        // What responses look like; where they go is in the requests.
        let answers = self.path_to(&self.endpoint)?;
        self.initialize(self.init().access(self.settings.access))?;
        let rtr = QpAttr::to(QpState::ReadyToReceive)
            .av(answers)
            .path_mtu(self.settings.path_mtu)
            .min_rnr_timer(self.settings.min_rnr_timer);
        self.modify(&rtr)?;
        // A device may assign its number only now.
        self.endpoint.qp_num = self.qp_num();
        Ok(())
    }

    fn activate_datagrams(&mut self) -> Result<()> {
        self.initialize(self.init().qkey(self.settings.qkey))?;
        self.modify(&QpAttr::to(QpState::ReadyToReceive))?;
        self.modify(&QpAttr::to(QpState::ReadyToSend).sq_psn(self.endpoint.psn))
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
            Some(ece) => self.set_ece(&ece),
            None => Ok(()),
        }
    }
}
