//! The queue pair context `qpc` (232 bytes), its address paths `ads` (44 bytes) and its extension
//! `qpc_ext`.

use super::{Field, Wide, bit, field, word};

pub(crate) const LEN: usize = 232;
pub(crate) const STATE: Field = field(0x00, 31, 28);
pub(crate) const SERVICE: Field = field(0x00, 23, 16);
pub(crate) const PATH_MIGRATION: Field = field(0x00, 12, 11);
pub(crate) const SIGNATURE: Field = bit(0x04, 31);
pub(crate) const BLOCK_LOOPBACK: Field = bit(0x04, 30);
/// A wrong signature drains the send queue.
pub(crate) const DRAINS: Field = bit(0x04, 26);
pub(crate) const PD: Field = field(0x04, 23, 0);
pub(crate) const MTU: Field = field(0x08, 31, 29);
pub(crate) const LOG_MSG_MAX: Field = field(0x08, 28, 24);
pub(crate) const LOG_RQ_SIZE: Field = field(0x08, 22, 19);
pub(crate) const LOG_RQ_STRIDE: Field = field(0x08, 18, 16);
pub(crate) const NO_SQ: Field = bit(0x08, 15);
pub(crate) const LOG_SQ_SIZE: Field = field(0x08, 14, 11);
pub(crate) const COUNTER_SET: Field = field(0x0c, 31, 24);
pub(crate) const UAR: Field = field(0x0c, 23, 0);
pub(crate) const USER_INDEX: Field = field(0x10, 23, 0);
pub(crate) const LOG_PAGE: Field = field(0x14, 28, 24);
pub(crate) const REMOTE_QPN: Field = field(0x14, 23, 0);
pub(crate) const PRIMARY: usize = 0x18;
pub(crate) const SECONDARY: usize = 0x44;
pub(crate) const LOG_SRA_MAX: Field = field(0x70, 23, 21);
pub(crate) const LOG_ACK_FREQ: Field = field(0x70, 31, 28);
pub(crate) const RETRY_COUNT: Field = field(0x70, 18, 16);
pub(crate) const RNR_RETRY: Field = field(0x70, 15, 13);
pub(crate) const PACING_INDEX: Field = field(0x74, 15, 0);
pub(crate) const SEND_PSN: Field = field(0x78, 23, 0);
/// Log2 of the streams of a DC initiator, and of how many may be in error before it stops.
pub(crate) const LOG_STREAMS: Field = field(0x7c, 28, 24);
pub(crate) const CQN_SEND: Field = field(0x7c, 23, 0);
pub(crate) const LOG_FAILED_STREAMS: Field = field(0x80, 28, 24);
pub(crate) const LOG_RRA_MAX: Field = field(0x90, 23, 21);
pub(crate) const ATOMIC_MODE: Field = field(0x90, 19, 16);
pub(crate) const READ_ENABLE: Field = bit(0x90, 15);
pub(crate) const WRITE_ENABLE: Field = bit(0x90, 14);
pub(crate) const ATOMIC_ENABLE: Field = bit(0x90, 13);
pub(crate) const PAGE_OFFSET: Field = field(0x90, 11, 6);
pub(crate) const MIN_RNR_NAK: Field = field(0x94, 28, 24);
pub(crate) const RECV_PSN: Field = field(0x94, 23, 0);
pub(crate) const XRCD: Field = field(0x98, 23, 0);
pub(crate) const CQN_RECV: Field = field(0x9c, 23, 0);
pub(crate) const DBR_ADDR: Wide = Wide(0xa0);
pub(crate) const QKEY: Field = word(0xa8);
pub(crate) const RQ_TYPE: Field = field(0xac, 26, 24);
pub(crate) const SRQN: Field = field(0xac, 23, 0);
pub(crate) const HW_SQ_COUNTER: Field = field(0xb4, 31, 16);
pub(crate) const SW_SQ_COUNTER: Field = field(0xb4, 15, 0);
pub(crate) const HW_RQ_COUNTER: Field = word(0xb8);
pub(crate) const SW_RQ_COUNTER: Field = word(0xbc);
/// Which messages are written into completions: those of up to 32 bytes (1) or 64 (2).
pub(crate) const SCATTER_RECEIVED: Field = field(0xc4, 7, 0);
pub(crate) const DBR_UMEM_VALID: Field = bit(0xd0, 28);
pub(crate) const DBR_UMEM_ID: Field = word(0xe4);

/// One address path, relative to [`PRIMARY`] or [`SECONDARY`].
pub(crate) mod path {
    use super::{Field, field};
    pub(crate) const LEN: usize = 44;
    pub(crate) const PKEY_INDEX: Field = field(0x00, 15, 0);
    pub(crate) const LID: Field = field(0x04, 15, 0);
    pub(crate) const GID: usize = 0x10;
    pub(crate) const ACK_TIMEOUT: Field = field(0x08, 31, 27);
    pub(crate) const UDP_SOURCE_PORT: Field = field(0x20, 15, 0);
    pub(crate) const SERVICE_LEVEL: Field = field(0x24, 27, 24);
    pub(crate) const PORT: Field = field(0x24, 23, 16);
}

/// `qpc_ext`, relative to its start: the queue groups that schedule the two sides of a queue pair.
pub(crate) mod ext {
    use super::{Field, bit, field, word};
    pub(crate) const LEN: usize = 192;
    pub(crate) const GROUP_REQUESTER: Field = word(0x04);
    pub(crate) const GROUP_RESPONDER: Field = word(0x08);
    /// A stream of a DC initiator whose error is over.
    pub(crate) const STREAM: Field = field(0x00, 15, 0);
    /// Whether the queue pair makes copies.
    pub(crate) const COPIES: Field = bit(0x00, 29);
    /// Bit of the extended mask that selects the stream.
    pub(crate) const MASK_STREAM: u32 = 1 << 0;
    /// The one that selects the queue groups.
    pub(crate) const MASK_QUEUE_GROUP: u32 = 1 << 1;
    /// The one that selects the source port of UDP, which is in the primary path.
    pub(crate) const MASK_SOURCE_PORT: u32 = 1 << 2;
    /// The one that selects whether it makes copies.
    pub(crate) const MASK_COPIES: u32 = 1 << 3;
}
