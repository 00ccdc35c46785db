//! State changes with the attributes that the connection manager hands out.

use uverbs_core::Result;
use uverbs_core::cm::ConnectionParams;
use uverbs_core::types::{QpAttr, QpState};

use super::QueuePair;

impl QueuePair {
    /// What this side of a connection says about itself.
    pub(crate) fn cm_params(&self) -> ConnectionParams {
        ConnectionParams {
            qp_num: self.qp_num(),
            responder_resources: self.settings.max_dest_rd_atomic,
            initiator_depth: self.settings.max_rd_atomic,
            retry_count: self.settings.retry_count.raw(),
            rnr_retry_count: self.settings.rnr_retry.raw(),
            ..ConnectionParams::default()
        }
    }

    /// The queue key that it was built with.
    pub(crate) fn built_with_qkey(&self) -> u32 {
        self.settings.qkey
    }

    /// Goes to INIT with its own access rights: those of the connection manager depend on how far
    /// the handshake has come.
    pub(crate) fn initialize_at(&mut self, port: u8, pkey_index: u16) -> Result<()> {
        let init = QpAttr::to(QpState::Init)
            .port(port)
            .pkey_index(pkey_index)
            .access(self.settings.access);
        self.modify(&init)
    }

    /// Goes to RTR, and serves at most `most` reads and atomics at a time.
    pub(crate) fn ready_to_receive(&mut self, mut attr: QpAttr, most: u8) -> Result<()> {
        // The connection manager has no such timer: its 0 is the longest.
        if attr.min_rnr_timer.is_some() {
            attr.min_rnr_timer = Some(self.settings.min_rnr_timer);
        }
        attr.max_dest_rd_atomic = attr.max_dest_rd_atomic.map(|count| count.min(most));
        self.modify(&attr)
    }

    /// Goes to RTS, and sends at most `most` reads and atomics at a time.
    pub(crate) fn ready_to_send(&mut self, mut attr: QpAttr, most: u8) -> Result<()> {
        attr.max_rd_atomic = attr.max_rd_atomic.map(|count| count.min(most));
        self.modify(&attr)
    }
}
