//! Fields of the capability pages that this model sets (reply of QUERY_HCA_CAP from byte 0x10 on).

use super::{Field, Wide, bit, field, word};

/// One capability with the value a profile gives it.
pub(crate) type Setting = (Field, u32);

/// General device capabilities, `cmd_hca_cap`.
pub(crate) mod general {
    use super::{Field, bit, field, word};
    pub(crate) const PAGE_REQUEST_DISABLE: Field = bit(0x00, 25);
    pub(crate) const VHCA_ID: Field = field(0x04, 15, 0);
    pub(crate) const LOG_MAX_SRQ_SIZE: Field = field(0x10, 31, 24);
    pub(crate) const LOG_MAX_QP_SIZE: Field = field(0x10, 23, 16);
    pub(crate) const LOG_MAX_QP: Field = field(0x10, 4, 0);
    pub(crate) const ECE: Field = bit(0x14, 28);
    pub(crate) const LOG_MAX_SRQ: Field = field(0x14, 20, 16);
    pub(crate) const LOG_MAX_CQ_SIZE: Field = field(0x18, 23, 16);
    pub(crate) const LOG_MAX_CQ: Field = field(0x18, 4, 0);
    pub(crate) const LOG_MAX_EQ_SIZE: Field = field(0x1c, 31, 24);
    pub(crate) const LOG_MAX_MKEY: Field = field(0x1c, 21, 16);
    pub(crate) const DUMP_FILL_MKEY: Field = bit(0x1c, 7);
    pub(crate) const LOG_MAX_EQ: Field = field(0x1c, 3, 0);
    pub(crate) const LOG_MAX_MRW_SIZE: Field = field(0x20, 22, 16);
    pub(crate) const MAX_INDIRECTION: Field = field(0x20, 31, 24);
    pub(crate) const FIXED_BUFFER: Field = bit(0x20, 23);
    pub(crate) const LOG_MAX_BSF_LIST: Field = field(0x20, 13, 8);
    pub(crate) const EXTENDED_OFFSET: Field = bit(0x20, 7);
    pub(crate) const NULL_KEY: Field = bit(0x20, 6);
    pub(crate) const LOG_MAX_KLM_LIST: Field = field(0x20, 5, 0);
    pub(crate) const QPC_EXTENSION: Field = bit(0x24, 29);
    pub(crate) const LOG_MAX_RA_REQ_DC: Field = field(0x24, 21, 16);
    pub(crate) const LOG_MAX_RA_RES_DC: Field = field(0x24, 5, 0);
    pub(crate) const SIGNATURE_CRC64: Field = bit(0x28, 24);
    pub(crate) const SIGNATURE_CRC32C: Field = bit(0x28, 23);
    pub(crate) const RTS2RTS_SOURCE_PORT: Field = bit(0x28, 14);
    pub(crate) const COPIES: Field = bit(0xe8, 23);
    pub(crate) const LOG_MAX_COPY: Field = field(0x0c, 20, 16);
    pub(crate) const LOG_MAX_RA_REQ_QP: Field = field(0x28, 21, 16);
    pub(crate) const LOG_MAX_RA_RES_QP: Field = field(0x28, 5, 0);
    pub(crate) const NIC_FLOW_TABLE: Field = bit(0x34, 25);
    pub(crate) const MAX_TC: Field = field(0x38, 19, 16);
    pub(crate) const ETH_OFFLOADS: Field = bit(0x40, 3);
    pub(crate) const ROCE: Field = bit(0x40, 2);
    pub(crate) const LOG_MAX_VLAN_LIST: Field = field(0x7c, 20, 16);
    pub(crate) const ENCRYPTS_SEVERAL: Field = bit(0x7c, 13);
    pub(crate) const KEYS_OF_DATA: Field = bit(0x84, 12);
    pub(crate) const STEERING_MEMORY: Field = bit(0x84, 8);
    pub(crate) const ENCRYPTION: Field = bit(0x8c, 22);
    pub(crate) const LOG_MAX_MC_LIST: Field = field(0x7c, 12, 8);
    pub(crate) const LOG_MAX_UC_LIST: Field = field(0x7c, 4, 0);
    pub(crate) const IB_VIRT: Field = bit(0x34, 29);
    pub(crate) const DEVICE_MEMORY: Field = bit(0x34, 23);
    pub(crate) const ACK_DELAY: Field = field(0x34, 20, 16);
    pub(crate) const PORT_TYPE: Field = field(0x34, 9, 8);
    pub(crate) const NUM_PORTS: Field = field(0x34, 7, 0);
    pub(crate) const LOG_MAX_MSG: Field = field(0x38, 28, 24);
    pub(crate) const BLOCKS_OF_4048: Field = bit(0x3c, 15);
    pub(crate) const CQE_VERSION: Field = field(0x3c, 3, 0);
    pub(crate) const UMR_SIZE_DISABLED: Field = bit(0x40, 24);
    pub(crate) const DRAINS: Field = bit(0x40, 16);
    pub(crate) const SCATTER_TO_CQE: Field = bit(0x40, 10);
    pub(crate) const SIGNATURE_ERROR_ENTRY: Field = bit(0x40, 13);
    pub(crate) const SIGNATURES: Field = bit(0x40, 8);
    pub(crate) const DCT: Field = bit(0x40, 5);
    pub(crate) const QOS: Field = bit(0x40, 4);
    pub(crate) const ATOMIC: Field = bit(0x40, 1);
    pub(crate) const CQ_IGNORE_OVERRUN: Field = bit(0x44, 31);
    pub(crate) const CQ_RESIZE: Field = bit(0x44, 30);
    pub(crate) const CQ_MODERATION: Field = bit(0x44, 29);
    pub(crate) const PAGING: Field = bit(0x44, 24);
    pub(crate) const BLOCK_LOOPBACK_MC: Field = bit(0x44, 23);
    pub(crate) const MEMORY_WINDOWS: Field = bit(0x44, 14);
    pub(crate) const QKEY_VIOLATIONS: Field = bit(0x44, 9);
    pub(crate) const PKEY_VIOLATIONS: Field = bit(0x44, 8);
    pub(crate) const XRC: Field = bit(0x44, 3);
    pub(crate) const UD: Field = bit(0x44, 2);
    pub(crate) const UC: Field = bit(0x44, 1);
    pub(crate) const RC: Field = bit(0x44, 0);
    pub(crate) const LOG_PAGE_SIZE: Field = field(0x48, 7, 0);
    pub(crate) const BLUEFLAME: Field = bit(0x4c, 31);
    pub(crate) const LOG_BF_REG_SIZE: Field = field(0x4c, 20, 16);
    pub(crate) const MAX_WQE_SQ: Field = field(0x50, 15, 0);
    pub(crate) const MAX_WQE_RQ: Field = field(0x54, 15, 0);
    pub(crate) const MAX_WQE_SQ_DC: Field = field(0x58, 15, 0);
    pub(crate) const MAX_QP_MCG: Field = field(0x5c, 24, 0);
    pub(crate) const LOG_MAX_MCG: Field = field(0x60, 7, 0);
    pub(crate) const LOG_MAX_TD: Field = field(0x64, 28, 24);
    pub(crate) const LOG_MAX_PD: Field = field(0x64, 20, 16);
    pub(crate) const LOG_MAX_XRCD: Field = field(0x64, 4, 0);
    pub(crate) const LOG_MAX_RQ: Field = field(0x6c, 28, 24);
    pub(crate) const LOG_MAX_SQ: Field = field(0x6c, 20, 16);
    pub(crate) const LOG_MAX_TIR: Field = field(0x6c, 12, 8);
    pub(crate) const LOG_MAX_TIS: Field = field(0x6c, 4, 0);
    pub(crate) const LOG_MAX_RMP: Field = field(0x70, 28, 24);
    pub(crate) const LOG_MAX_RQT: Field = field(0x70, 20, 16);
    pub(crate) const LOG_MAX_RQT_SIZE: Field = field(0x70, 12, 8);
    pub(crate) const LOG_MAX_WQ_SIZE: Field = field(0x78, 4, 0);
    pub(crate) const LOG_MAX_UCTX: Field = field(0x8c, 28, 24);
    pub(crate) const LOG_MAX_UMEM: Field = field(0x8c, 20, 16);
    pub(crate) const MAX_EQS: Field = field(0x8c, 15, 0);
    pub(crate) const SIGNATURE_ERROR_SIDE: Field = bit(0x90, 31);
    pub(crate) const FREQUENCY_MHZ: Field = word(0x98);
    pub(crate) const FREQUENCY_KHZ: Field = word(0x9c);
    pub(crate) const UARS_PER_PAGE: Field = word(0xa4);
    pub(crate) const LOG_MAX_STREAMS: Field = field(0xb0, 20, 16);
    pub(crate) const LOG_MAX_FAILED_STREAMS: Field = field(0xb0, 12, 8);
    pub(crate) const LONG_CQE_ALWAYS: Field = bit(0xb4, 2);
    pub(crate) const LONG_COMPRESSION: Field = bit(0xb4, 1);
    pub(crate) const COMPRESSION: Field = bit(0xb4, 0);
    pub(crate) const MAX_COMPRESSED: Field = field(0xb8, 15, 0);
    pub(crate) const NATIVE_PORT: Field = field(0xc0, 23, 16);
    pub(crate) const UCTX_CAP: Field = word(0xd4);
}

/// On-demand paging, `odp_cap`: which operations of each transport may meet an absent page. Later
/// kernels call these words the scheme of the transports; the scheme of the memory, after them, is
/// left zero.
pub(crate) mod paging {
    use super::{Field, field};
    /// The operations of a transport, from the highest bit on: send, receive, write, read, atomic,
    /// receive from a shared queue.
    pub(crate) const RC: Field = field(0x10, 31, 26);
    pub(crate) const UD: Field = field(0x18, 31, 26);
    pub(crate) const XRC: Field = field(0x1c, 31, 26);
    pub(crate) const DC: Field = field(0x20, 31, 26);
}

/// Device memory capabilities, `device_mem_cap`.
pub(crate) mod device_memory {
    use super::{Field, Wide, bit, field, word};
    pub(crate) const MEMIC: Field = bit(0x00, 31);
    pub(crate) const INCREMENT_WIDTHS: Field = field(0x04, 31, 24);
    pub(crate) const LOG_MIN_SIZE: Field = field(0x04, 20, 16);
    pub(crate) const TEST_AND_SET_WIDTHS: Field = field(0x04, 15, 8);
    pub(crate) const LOG_MAX_ALIGNMENT: Field = field(0x04, 7, 0);
    pub(crate) const BAR_START: Wide = Wide(0x08);
    pub(crate) const BAR_SIZE: Field = word(0x10);
    pub(crate) const MAX_SIZE: Field = word(0x14);
    pub(crate) const LOG_CHANGES_SIZE: Field = field(0x20, 23, 16);
    pub(crate) const LOG_GRANULE: Field = field(0x20, 13, 8);
    pub(crate) const LOG_ENTRIES_SIZE: Field = field(0x20, 7, 0);
    pub(crate) const LOG_ENCAPSULATIONS_SIZE: Field = field(0x24, 31, 24);
    pub(crate) const LOG_PATTERNS_SIZE: Field = field(0x24, 7, 0);
    /// Addresses of memory for steering: entries, changes, patterns, encapsulations.
    pub(crate) const STEERING: [Wide; 4] = [Wide(0x18), Wide(0x28), Wide(0x38), Wide(0x48)];
    pub(crate) const OPERATIONS: Field = word(0x40);
}

/// Encryption capabilities, `crypto_caps`.
pub(crate) mod encryption {
    use super::{Field, field};
    pub(crate) const LOG_MAX_KEYS: Field = field(0x04, 20, 16);
}

/// Atomic capabilities, `atomic_caps`.
pub(crate) mod atomic {
    use super::{Field, bit, field};
    pub(crate) const ENDIANNESS: Field = field(0x08, 31, 30);
    pub(crate) const ENDIANNESS_MODE_1: Field = bit(0x08, 25);
    pub(crate) const OPERATIONS: Field = field(0x10, 15, 0);
    pub(crate) const SIZE_QP: Field = field(0x14, 15, 0);
    pub(crate) const SIZE_DC: Field = field(0x18, 15, 0);
}

/// Quality of service capabilities, `qos_cap`.
pub(crate) mod qos {
    use super::{Field, bit, field, word};
    pub(crate) const PACKET_PACING: Field = bit(0x00, 31);
    pub(crate) const BURST_BOUND: Field = bit(0x00, 26);
    pub(crate) const TYPICAL_SIZE: Field = bit(0x00, 25);
    pub(crate) const NIC_SQ_SCHEDULING: Field = bit(0x00, 23);
    pub(crate) const NIC_BW_SHARE: Field = bit(0x00, 22);
    pub(crate) const NIC_RATE_LIMIT: Field = bit(0x00, 21);
    pub(crate) const PACKET_PACING_UID: Field = bit(0x00, 20);
    pub(crate) const NIC_QP_SCHEDULING: Field = bit(0x04, 30);
    pub(crate) const PACKET_PACING_UD: Field = bit(0x04, 29);
    pub(crate) const PACKET_PACING_UC: Field = bit(0x04, 28);
    pub(crate) const LOG_MAX_QUEUE_GROUP: Field = field(0x04, 20, 16);
    pub(crate) const MAX_RATE: Field = word(0x08);
    pub(crate) const MIN_RATE: Field = word(0x0c);
    pub(crate) const RATE_TABLE_SIZE: Field = field(0x10, 15, 0);
    pub(crate) const MAX_BW_SHARE: Field = word(0x1c);
    pub(crate) const NIC_ELEMENT_TYPES: Field = field(0x20, 31, 16);
    pub(crate) const NIC_TSAR_TYPES: Field = field(0x20, 15, 0);
}

/// Ethernet offload capabilities, `per_protocol_networking_offload_caps`.
pub(crate) mod ethernet {
    use super::{Field, bit, field};
    pub(crate) const CHECKSUM: Field = bit(0x00, 31);
    pub(crate) const VLAN: Field = bit(0x00, 30);
    pub(crate) const WQE_VLAN_INSERT: Field = bit(0x00, 24);
    pub(crate) const SELF_LOOPBACK: Field = bit(0x00, 23);
    pub(crate) const MAX_LSO: Field = field(0x00, 20, 16);
    pub(crate) const INLINE_MODE: Field = field(0x00, 13, 12);
    /// A value of `INLINE_MODE`: link layer headers have to be in the request, or none.
    pub(crate) const INLINE_LINK_LAYER: u32 = 0;
    pub(crate) const INLINE_NOTHING: u32 = 2;
    pub(crate) const RSS_TABLE: Field = field(0x00, 11, 8);
}

/// RoCE capabilities, `roce_cap`.
pub(crate) mod roce {
    use super::{Field, field};
    pub(crate) const L3_TYPES: Field = field(0x10, 19, 16);
    pub(crate) const VERSIONS: Field = field(0x10, 7, 0);
    pub(crate) const PORT: Field = field(0x14, 15, 0);
    pub(crate) const MAX_SOURCE_PORT: Field = field(0x18, 31, 16);
    pub(crate) const MIN_SOURCE_PORT: Field = field(0x18, 15, 0);
    pub(crate) const ADDRESSES: Field = field(0x1c, 15, 0);
}

/// Flow table capabilities: the block of tables for received frames.
pub(crate) mod flow {
    use super::{Field, bit, field, word};
    const AT: usize = 0x40;
    /// The block of tables for frames that are sent.
    const SENT: usize = 0x100;
    pub(crate) const SUPPORT: Field = bit(AT, 31);
    pub(crate) const COUNTERS: Field = bit(AT, 29);
    pub(crate) const MODIFY_ENTRY: Field = bit(AT, 28);
    pub(crate) const MODIFY_ROOT: Field = bit(AT, 27);
    pub(crate) const IDENTIFIED_MISS: Field = bit(AT, 26);
    pub(crate) const MODIFY_TABLE: Field = bit(AT, 25);
    /// Programs may own tables, in the format of a ConnectX-5 and of a ConnectX-6 Dx.
    pub(crate) const OWNED: Field = bit(AT, 14);
    pub(crate) const OWNED_V2: Field = bit(AT, 1);
    pub(crate) const SENT_OWNED_V2: Field = bit(SENT, 1);
    pub(crate) const LOG_MAX_SIZE: Field = field(AT + 0x04, 29, 24);
    pub(crate) const MAX_LEVEL: Field = field(AT + 0x04, 7, 0);
    pub(crate) const LOG_MAX_TABLES: Field = field(AT + 0x0c, 7, 0);
    pub(crate) const LOG_MAX_COUNTERS: Field = field(AT + 0x10, 15, 8);
    pub(crate) const LOG_MAX_DESTINATIONS: Field = field(AT + 0x10, 7, 0);
    pub(crate) const LOG_MAX_FLOWS: Field = field(AT + 0x14, 7, 0);
    pub(crate) const FIELDS: [Field; 8] = [
        word(AT + 0x20),
        word(AT + 0x24),
        word(AT + 0x28),
        word(AT + 0x2c),
        word(AT + 0x30),
        word(AT + 0x34),
        word(AT + 0x38),
        word(AT + 0x3c),
    ];
}
