//! Contexts of event queues, completion queues, work queues, shared receive queues and memory keys.

use super::{Field, Wide, bit, field, word};

/// `eqc`, 64 bytes.
pub(crate) mod eq {
    use super::{Field, field};
    pub(crate) const LEN: usize = 64;
    pub(crate) const STATE: Field = field(0x00, 11, 8);
    pub(crate) const PAGE_OFFSET: Field = field(0x08, 11, 6);
    pub(crate) const LOG_SIZE: Field = field(0x0c, 28, 24);
    pub(crate) const UAR: Field = field(0x0c, 23, 0);
    pub(crate) const VECTOR: Field = field(0x14, 11, 0);
    pub(crate) const LOG_PAGE: Field = field(0x18, 28, 24);
    pub(crate) const CONSUMER: Field = field(0x28, 23, 0);
    pub(crate) const PRODUCER: Field = field(0x2c, 23, 0);
}

/// `cqc`, 64 bytes.
pub(crate) mod cq {
    use super::{Field, Wide, bit, field, word};
    pub(crate) const LEN: usize = 64;
    pub(crate) const STATUS: Field = field(0x00, 31, 28);
    pub(crate) const DBR_UMEM_VALID: Field = bit(0x00, 25);
    pub(crate) const CQE_SIZE: Field = field(0x00, 23, 21);
    pub(crate) const IGNORE_OVERRUN: Field = bit(0x00, 17);
    pub(crate) const COMPRESSED: Field = bit(0x00, 14);
    pub(crate) const MINI_FORMAT: Field = field(0x00, 13, 12);
    pub(crate) const COMPRESSION_LAYOUT: Field = field(0x00, 1, 0);
    pub(crate) const STATE: Field = field(0x00, 11, 8);
    pub(crate) const DBR_UMEM_ID: Field = word(0x04);
    pub(crate) const PAGE_OFFSET: Field = field(0x08, 11, 6);
    pub(crate) const LOG_SIZE: Field = field(0x0c, 28, 24);
    pub(crate) const UAR: Field = field(0x0c, 23, 0);
    pub(crate) const PERIOD: Field = field(0x10, 27, 16);
    pub(crate) const MAX_COUNT: Field = field(0x10, 15, 0);
    pub(crate) const EQN: Field = word(0x14);
    pub(crate) const LOG_PAGE: Field = field(0x18, 28, 24);
    pub(crate) const LAST_SOLICITED: Field = field(0x24, 23, 0);
    pub(crate) const CONSUMER: Field = field(0x28, 23, 0);
    pub(crate) const PRODUCER: Field = field(0x2c, 23, 0);
    pub(crate) const DBR_ADDR: Wide = Wide(0x38);
}

/// `wq`, 192 bytes, followed by the page list.
pub(crate) mod wq {
    use super::{Field, Wide, bit, field, word};
    pub(crate) const TYPE: Field = field(0x00, 31, 28);
    pub(crate) const PAGE_OFFSET: Field = field(0x04, 20, 16);
    pub(crate) const LIMIT: Field = field(0x04, 15, 0);
    pub(crate) const PD: Field = field(0x08, 23, 0);
    pub(crate) const UAR: Field = field(0x0c, 23, 0);
    pub(crate) const DBR_ADDR: Wide = Wide(0x10);
    pub(crate) const LOG_STRIDE: Field = field(0x20, 19, 16);
    pub(crate) const LOG_PAGE: Field = field(0x20, 12, 8);
    pub(crate) const LOG_SIZE: Field = field(0x20, 4, 0);
    pub(crate) const DBR_UMEM_VALID: Field = bit(0x24, 31);
    pub(crate) const UMEM_VALID: Field = bit(0x24, 30);
    pub(crate) const DBR_UMEM_ID: Field = word(0x28);
    pub(crate) const UMEM_ID: Field = word(0x2c);
    pub(crate) const UMEM_OFFSET: Wide = Wide(0x30);
    pub(crate) const PAS: usize = 0xc0;
}

/// `rmpc`, `sqc` and `rqc`: 48 bytes, followed by the work queue.
pub(crate) mod ring {
    use super::{Field, bit, field};
    pub(crate) const LEN: usize = 0xf0;
    pub(crate) const STATE: Field = field(0x00, 23, 20);
    pub(crate) const USER_INDEX: Field = field(0x04, 23, 0);
    pub(crate) const CQN: Field = field(0x08, 23, 0);
    pub(crate) const PACING_INDEX: Field = field(0x1c, 15, 0);
    pub(crate) const TIS_LIST_SIZE: Field = field(0x20, 31, 16);
    pub(crate) const QUEUE_GROUP: Field = field(0x20, 15, 0);
    pub(crate) const TIS: Field = field(0x2c, 23, 0);
    pub(crate) const MEM_RQ_TYPE: Field = field(0x00, 27, 24);
    /// Frames keep their VLAN tags.
    pub(crate) const KEEPS_VLAN: Field = bit(0x00, 28);
    pub(crate) const WQ: usize = 0x30;
}

/// `srqc` and `xrc_srqc`, 64 bytes.
pub(crate) mod srq {
    use super::{Field, Wide, bit, field, word};
    pub(crate) const LEN: usize = 64;
    pub(crate) const STATE: Field = field(0x00, 31, 28);
    pub(crate) const LOG_SIZE: Field = field(0x00, 27, 24);
    pub(crate) const LOG_STRIDE: Field = field(0x04, 26, 24);
    pub(crate) const XRCD: Field = field(0x04, 23, 0);
    pub(crate) const PAGE_OFFSET: Field = field(0x08, 31, 26);
    pub(crate) const DBR_UMEM_VALID: Field = bit(0x08, 24);
    pub(crate) const CQN: Field = field(0x08, 23, 0);
    pub(crate) const DBR_UMEM_ID: Field = word(0x0c);
    pub(crate) const LOG_PAGE: Field = field(0x10, 29, 24);
    pub(crate) const USER_INDEX: Field = field(0x10, 23, 0);
    pub(crate) const PD: Field = field(0x18, 23, 0);
    pub(crate) const LIMIT: Field = field(0x1c, 31, 16);
    pub(crate) const COUNT: Field = field(0x1c, 15, 0);
    pub(crate) const DBR_ADDR: Wide = Wide(0x28);
}

/// `dctc`, 64 bytes.
pub(crate) mod dct {
    use super::{Field, Wide, bit, field, word};
    pub(crate) const LEN: usize = 64;
    pub(crate) const STATE: Field = field(0x00, 27, 24);
    pub(crate) const USER_INDEX: Field = field(0x04, 23, 0);
    pub(crate) const CQN: Field = field(0x08, 23, 0);
    pub(crate) const READ: Field = bit(0x0c, 19);
    pub(crate) const WRITE: Field = bit(0x0c, 18);
    pub(crate) const ATOMIC: Field = bit(0x0c, 17);
    pub(crate) const MIN_RNR_NAK: Field = field(0x10, 12, 8);
    pub(crate) const SRQN: Field = field(0x14, 23, 0);
    pub(crate) const PD: Field = field(0x18, 23, 0);
    pub(crate) const ACCESS_KEY: Wide = Wide(0x20);
    pub(crate) const ECE: Field = word(0x3c);
}

/// `mkc`, 64 bytes.
pub(crate) mod mkey {
    use super::{Field, Wide, bit, field, word};
    pub(crate) const LEN: usize = 64;
    pub(crate) const FREE: Field = bit(0x00, 30);
    pub(crate) const MODE_HIGH: Field = field(0x00, 28, 26);
    pub(crate) const ATOMIC: Field = bit(0x00, 14);
    pub(crate) const REMOTE_WRITE: Field = bit(0x00, 13);
    pub(crate) const REMOTE_READ: Field = bit(0x00, 12);
    pub(crate) const LOCAL_WRITE: Field = bit(0x00, 11);
    pub(crate) const LOCAL_READ: Field = bit(0x00, 10);
    pub(crate) const MODE_LOW: Field = field(0x00, 9, 8);
    pub(crate) const RELAXED_WRITE: Field = bit(0x00, 18);
    pub(crate) const QPN: Field = field(0x04, 31, 8);
    pub(crate) const KEY: Field = field(0x04, 7, 0);
    pub(crate) const LENGTH64: Field = bit(0x0c, 31);
    /// What passes is checked and changed as the byte stream format says.
    pub(crate) const SIGNED: Field = bit(0x0c, 30);
    /// The lowest bit of the number of signature errors with the next one.
    pub(crate) const SIGNATURE_ERRORS: Field = bit(0x0c, 26);
    pub(crate) const REMOTE_INVALIDATE: Field = bit(0x0c, 24);
    pub(crate) const PD: Field = field(0x0c, 23, 0);
    pub(crate) const START: Wide = Wide(0x10);
    pub(crate) const LENGTH: Wide = Wide(0x18);
    /// Size of the byte stream formats in 16-byte units.
    pub(crate) const BSF_OCTOWORDS: Field = word(0x20);
    pub(crate) const RELAXED_READ: Field = bit(0x38, 6);
    pub(crate) const ENCRYPTED: Field = field(0x3c, 28, 27);
    /// Size of the key's translation in 16-byte units.
    pub(crate) const OCTOWORDS: Field = field(0x34, 31, 0);
    pub(crate) const LOG_PAGE: Field = field(0x38, 5, 0);
    pub(crate) const LOG_PAGE_OLD: Field = field(0x38, 4, 0);
    pub(crate) const LOG_PAGE_BIT5: Field = bit(0x38, 5);
}

/// `umem`, 32 bytes, followed by the translation entries.
pub(crate) mod umem {
    use super::{Field, Wide, field, word};
    pub(crate) const LOG_PAGE: Field = field(0x10, 4, 0);
    pub(crate) const PAGE_OFFSET: Field = word(0x14);
    pub(crate) const COUNT: Wide = Wide(0x18);
    pub(crate) const MTT: usize = 0x20;
}
