//! The kind of function that is modelled, and the capability pages that define it.

use std::str::FromStr;
use std::sync::Arc;

use crate::adapter::Adapter;
use crate::cmd::LOG_MAX_ALIGNMENT;
use crate::device_memory::{BAR_OFFSET, SIZE};
use crate::engine::compress::MOST;
use crate::layout::caps::{
    Setting, atomic, device_memory, encryption, ethernet, flow, general, paging, qos, roce,
};
use crate::layout::transport::nic_vport;
use crate::memory_key::MAX_DEPTH;
use crate::memory_operation::{NUMBERS, WIDTHS};
use crate::steering_memory::{GRANULE, LOG_SIZE, STARTS};

/// Length of one capability page.
pub(crate) const PAGE: usize = 4096;

/// Capability types of QUERY_HCA_CAP that have content here.
pub(crate) mod cap_type {
    pub(crate) const GENERAL: u16 = 0x00;
    pub(crate) const ETHERNET: u16 = 0x01;
    pub(crate) const PAGING: u16 = 0x02;
    pub(crate) const ATOMIC: u16 = 0x03;
    pub(crate) const ROCE: u16 = 0x04;
    pub(crate) const FLOW_TABLE: u16 = 0x07;
    pub(crate) const QOS: u16 = 0x0c;
    pub(crate) const DEVICE_MEMORY: u16 = 0x0f;
    pub(crate) const ENCRYPTION: u16 = 0x1a;
}

/// The link of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// InfiniBand: LIDs, no network device.
    InfiniBand,
    /// Ethernet with raw packet queues only: no network device and no RoCE.
    EthernetRaw,
    /// Ethernet with a network device and RoCE.
    Roce,
}

impl FunctionKind {
    /// Whether the link is Ethernet.
    pub(crate) fn is_ethernet(self) -> bool {
        self != Self::InfiniBand
    }
}

impl FromStr for FunctionKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "ib" => Ok(Self::InfiniBand),
            "eth-raw" => Ok(Self::EthernetRaw),
            "roce" => Ok(Self::Roce),
            _ => Err("it is none of ib, roce, eth-raw".to_owned()),
        }
    }
}

/// The identity of one function.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an ability of its own"
)]
pub struct FunctionConfig {
    /// The link type.
    pub kind: FunctionKind,
    /// Port, node and system image GUID in one; unique in the fabric.
    pub guid: u64,
    /// Local identifier on an InfiniBand fabric.
    pub lid: u16,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// PCI device id; 0x1017 is the ConnectX-5.
    pub device_id: u16,
    /// Whether work requests may be copied through doorbell pages (BlueFlame).
    pub blueflame: bool,
    /// Whether work requests may load the pages of memory keys (UMR), which is how the kernel then
    /// registers memory.
    pub umr: bool,
    /// Whether pages of memory keys may be absent and are requested when needed (on-demand paging).
    /// The kernel does not use it without [`umr`](Self::umr).
    pub paging: bool,
    /// Whether memory keys may have signatures: integrity fields behind blocks of data.
    pub signatures: bool,
    /// Whether what passes through memory keys may be encrypted.
    pub encryption: bool,
    /// Whether device memory has operations, and there is memory for steering by programs.
    pub extended_memory: bool,
    /// Whether DC initiators have streams, which fail one by one.
    pub streams: bool,
    /// Whether queue pairs copy local memory.
    pub copies: bool,
    /// Whether the first bytes of each frame have to be in the work request itself, as a ConnectX-4
    /// requires.
    pub inline_headers: bool,
    /// The connection establishment (ECE) options that it offers beyond the standard; 0: none.
    pub ece: u32,
    /// The adapter that it is modelled on; it claims no more than that one.
    pub adapter: Option<Arc<Adapter>>,
}

/// The version of the connection establishment options, and the options that every other function
/// has.
const ECE_VERSION: u32 = 0x1000_0000;
const ECE_OPTIONS: [u32; 2] = [0b0111, 0b1101];

impl FunctionConfig {
    /// The `index`th function of a fabric, with identifiers made from the index.
    #[must_use]
    pub fn numbered(kind: FunctionKind, index: u16) -> Self {
        let [high, low] = index.to_be_bytes();
        Self {
            kind,
            guid: 0x0002_c903_00c0_0000 | u64::from(index) << 8,
            lid: index.saturating_add(1),
            mac: [0x02, 0xc9, 0x03, 0xc0, high, low],
            device_id: 0x1017,
            blueflame: false,
            umr: false,
            paging: false,
            signatures: false,
            encryption: false,
            extended_memory: false,
            streams: false,
            copies: false,
            inline_headers: false,
            ece: ECE_VERSION | ECE_OPTIONS[usize::from(index % 2)],
            adapter: None,
        }
    }

    /// The options that both sides of a connection support, if this side requests `requested`: none
    /// for another version.
    pub(crate) fn agree(&self, requested: u32) -> u32 {
        const VERSION: u32 = 0xf000_0000;
        if requested == 0 || (requested ^ self.ece) & VERSION != 0 {
            return 0;
        }
        // The version alone requests every option.
        match requested & !VERSION {
            0 => self.ece,
            _ => requested & self.ece,
        }
    }

    /// The advertised ("maximum") capability page of a type; that of an unknown type is all zero.
    pub(crate) fn capabilities(&self, kind: u16) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        let settings: &[Setting] = match kind {
            cap_type::GENERAL => GENERAL,
            cap_type::ATOMIC => ATOMIC,
            cap_type::PAGING if self.paging => PAGING,
            cap_type::QOS => QOS,
            cap_type::ENCRYPTION if self.encryption => ENCRYPTION,
            cap_type::DEVICE_MEMORY => DEVICE_MEMORY,
            cap_type::ETHERNET if self.kind == FunctionKind::Roce => ETHERNET,
            cap_type::ROCE if self.kind == FunctionKind::Roce => ROCE,
            cap_type::FLOW_TABLE if self.kind.is_ethernet() => FLOW_TABLE,
            _ => &[],
        };
        for (field, value) in settings {
            field.set(&mut page, *value);
        }
        if kind == cap_type::ATOMIC && self.masked_atomics() {
            atomic::OPERATIONS.set(&mut page, 0b1111);
        }
        if kind == cap_type::ETHERNET && self.kind == FunctionKind::Roce {
            let mode = if self.inline_headers {
                ethernet::INLINE_LINK_LAYER
            } else {
                ethernet::INLINE_NOTHING
            };
            ethernet::INLINE_MODE.set(&mut page, mode);
        }
        if kind == cap_type::DEVICE_MEMORY {
            device_memory::BAR_START.set(&mut page, BAR_OFFSET);
            if self.extended_memory {
                for (field, value) in EXTENDED_MEMORY {
                    field.set(&mut page, *value);
                }
                for (field, start) in device_memory::STEERING.into_iter().zip(STARTS) {
                    field.set(&mut page, start);
                }
            }
        }
        if kind == cap_type::FLOW_TABLE && self.kind.is_ethernet() && self.extended_memory {
            for field in [flow::OWNED, flow::OWNED_V2, flow::SENT_OWNED_V2] {
                field.set(&mut page, 1);
            }
        }
        if kind == cap_type::FLOW_TABLE && self.kind.is_ethernet() {
            // Every header field can be matched, with any mask.
            for field in flow::FIELDS {
                field.set(&mut page, u32::MAX);
            }
        }
        if kind == cap_type::GENERAL {
            general::VHCA_ID.set(&mut page, u32::from(self.lid));
            general::BLUEFLAME.set(&mut page, u32::from(self.blueflame));
            general::ECE.set(&mut page, u32::from(self.ece != 0));
            general::UMR_SIZE_DISABLED.set(&mut page, u32::from(!self.umr));
            if self.paging {
                for (field, value) in WITH_PAGING {
                    field.set(&mut page, *value);
                }
            }
            if self.signatures {
                for (field, value) in WITH_SIGNATURES {
                    field.set(&mut page, *value);
                }
            }
            if self.encryption {
                for (field, value) in WITH_ENCRYPTION {
                    field.set(&mut page, *value);
                }
            }
            if self.streams {
                general::LOG_MAX_STREAMS.set(&mut page, limit::LOG_STREAMS);
                general::LOG_MAX_FAILED_STREAMS.set(&mut page, limit::LOG_STREAMS);
            }
            if self.copies {
                general::COPIES.set(&mut page, 1);
                general::LOG_MAX_COPY.set(&mut page, limit::LOG_COPY);
            }
            general::STEERING_MEMORY.set(&mut page, u32::from(self.extended_memory));
            match self.kind {
                FunctionKind::InfiniBand => general::IB_VIRT.set(&mut page, 1),
                FunctionKind::EthernetRaw => {
                    for (field, value) in ETHERNET_LINK {
                        field.set(&mut page, *value);
                    }
                }
                FunctionKind::Roce => {
                    for (field, value) in ETHERNET_LINK.iter().chain(NETWORK_DEVICE) {
                        field.set(&mut page, *value);
                    }
                }
            }
        }
        if let Some(adapter) = &self.adapter {
            adapter.bound(kind, &mut page);
        }
        page
    }

    /// Whether masked atomics are supported.
    pub(crate) fn masked_atomics(&self) -> bool {
        self.kind == FunctionKind::InfiniBand
    }

    /// The initial NIC vport context.
    pub(crate) fn nic_vport(&self) -> Vec<u8> {
        let mut context = vec![0; nic_vport::LEN];
        nic_vport::MTU.set(&mut context, 9216);
        nic_vport::SYSTEM_GUID.set(&mut context, self.guid);
        nic_vport::PORT_GUID.set(&mut context, self.guid);
        nic_vport::NODE_GUID.set(&mut context, self.guid);
        nic_vport::MAC.set(
            &mut context,
            self.mac
                .iter()
                .fold(0, |mac, byte| mac << 8 | u64::from(*byte)),
        );
        context
    }

    /// The port's default GID.
    pub(crate) fn gid(&self) -> [u8; 16] {
        let mut gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        gid[8..].copy_from_slice(&self.guid.to_be_bytes());
        gid
    }
}

/// Largest log2 sizes, against which the commands check.
pub(crate) mod limit {
    pub(crate) const LOG_CQ: u32 = 22;
    pub(crate) const LOG_EQ: u32 = 22;
    pub(crate) const LOG_WQ: u32 = 16;
    pub(crate) const LOG_SRQ: u32 = 15;
    pub(crate) const LOG_MSG: u32 = 30;
    pub(crate) const LOG_STREAMS: u32 = 10;
    pub(crate) const LOG_COPY: u32 = 24;
    pub(crate) const WQE: usize = 1024;
    pub(crate) const RATES: u32 = 128;
    pub(crate) const ROCE_ADDRESSES: u32 = 128;
    pub(crate) const GROUPS: usize = 1 << 10;
    pub(crate) const CAP_TYPES: u16 = 0x40;
    pub(crate) const QP_PER_GROUP: usize = 240;
    pub(crate) const MAX_SHARE: u32 = 100;
}

const GENERAL: &[Setting] = &[
    (general::PAGE_REQUEST_DISABLE, 1),
    (general::LOG_MAX_SRQ_SIZE, limit::LOG_SRQ),
    (general::LOG_MAX_QP_SIZE, 15),
    (general::LOG_MAX_QP, 17),
    (general::LOG_MAX_SRQ, 16),
    (general::LOG_MAX_CQ_SIZE, limit::LOG_CQ),
    (general::LOG_MAX_CQ, 16),
    (general::LOG_MAX_EQ_SIZE, limit::LOG_EQ),
    (general::LOG_MAX_MKEY, 20),
    (general::DUMP_FILL_MKEY, 1),
    (general::LOG_MAX_EQ, 6),
    (general::LOG_MAX_MRW_SIZE, 63),
    (general::LOG_MAX_KLM_LIST, 16),
    (general::QPC_EXTENSION, 1),
    (general::LOG_MAX_RA_REQ_DC, 4),
    (general::LOG_MAX_RA_RES_DC, 4),
    (general::LOG_MAX_RA_REQ_QP, 4),
    (general::LOG_MAX_RA_RES_QP, 4),
    (general::ACK_DELAY, 16),
    (general::NUM_PORTS, 1),
    (general::LOG_MAX_MSG, limit::LOG_MSG),
    (general::CQE_VERSION, 1),
    (general::SCATTER_TO_CQE, 1),
    (general::DCT, 1),
    (general::QOS, 1),
    (general::DEVICE_MEMORY, 1),
    (general::ATOMIC, 1),
    (general::CQ_IGNORE_OVERRUN, 1),
    (general::CQ_RESIZE, 1),
    (general::CQ_MODERATION, 1),
    (general::BLOCK_LOOPBACK_MC, 1),
    (general::MEMORY_WINDOWS, 1),
    (general::QKEY_VIOLATIONS, 1),
    (general::PKEY_VIOLATIONS, 1),
    (general::XRC, 1),
    (general::UD, 1),
    (general::UC, 1),
    (general::RC, 1),
    (general::LOG_PAGE_SIZE, 12),
    (general::LOG_BF_REG_SIZE, 9),
    (general::MAX_WQE_SQ, limit::WQE as u32),
    (general::MAX_WQE_RQ, 512),
    (general::MAX_WQE_SQ_DC, limit::WQE as u32),
    (general::MAX_QP_MCG, limit::QP_PER_GROUP as u32),
    (general::LOG_MAX_MCG, 10),
    (general::LOG_MAX_TD, 8),
    (general::LOG_MAX_PD, 12),
    (general::LOG_MAX_XRCD, 10),
    (general::LOG_MAX_RQ, 12),
    (general::LOG_MAX_SQ, 12),
    (general::LOG_MAX_TIR, 12),
    (general::LOG_MAX_TIS, 12),
    (general::LOG_MAX_RMP, 16),
    (general::LOG_MAX_RQT, 8),
    (general::LOG_MAX_RQT_SIZE, 8),
    (general::LOG_MAX_WQ_SIZE, limit::LOG_WQ),
    (general::LOG_MAX_UCTX, 10),
    (general::LOG_MAX_UMEM, 16),
    (general::MAX_EQS, 64),
    (general::FREQUENCY_MHZ, 1000),
    (general::FREQUENCY_KHZ, 1_000_000),
    (general::UARS_PER_PAGE, 1),
    (general::LONG_CQE_ALWAYS, 1),
    (general::LONG_COMPRESSION, 1),
    (general::COMPRESSION, 1),
    (general::MAX_COMPRESSED, MOST),
    (general::NATIVE_PORT, 1),
    (general::UCTX_CAP, 3),
];

/// What on-demand paging adds to the general page.
const WITH_PAGING: &[Setting] = &[
    (general::PAGING, 1),
    // Regions of a whole address space: lists of keys of one size each, which are loaded in parts
    // and initially hold the null key.
    (general::FIXED_BUFFER, 1),
    (general::EXTENDED_OFFSET, 1),
    (general::NULL_KEY, 1),
    (general::MAX_INDIRECTION, MAX_DEPTH),
];

/// What signatures add to the general page.
const WITH_SIGNATURES: &[Setting] = &[
    (general::SIGNATURES, 1),
    (general::SIGNATURE_ERROR_ENTRY, 1),
    (general::SIGNATURE_ERROR_SIDE, 1),
    (general::SIGNATURE_CRC32C, 1),
    (general::SIGNATURE_CRC64, 1),
    (general::BLOCKS_OF_4048, 1),
    (general::DRAINS, 1),
    (general::LOG_MAX_BSF_LIST, 0),
];

/// What encryption adds to the general page.
const WITH_ENCRYPTION: &[Setting] = &[
    (general::ENCRYPTION, 1),
    (general::ENCRYPTS_SEVERAL, 1),
    (general::KEYS_OF_DATA, 1),
];

const ENCRYPTION: &[Setting] = &[(encryption::LOG_MAX_KEYS, 10)];

const PAGING: &[Setting] = &[
    (paging::RC, 0b11_1111),
    (paging::UD, 0b10_0001),
    (paging::XRC, 0b11_1111),
    (paging::DC, 0b11_1111),
];

const DEVICE_MEMORY: &[Setting] = &[
    (device_memory::MEMIC, 1),
    (device_memory::LOG_MIN_SIZE, 6),
    (device_memory::LOG_MAX_ALIGNMENT, LOG_MAX_ALIGNMENT),
    (device_memory::BAR_SIZE, SIZE as u32),
    (device_memory::MAX_SIZE, SIZE as u32),
];

/// What operations on device memory, and memory for steering, add to its page.
const EXTENDED_MEMORY: &[Setting] = &[
    (device_memory::INCREMENT_WIDTHS, WIDTHS),
    (device_memory::TEST_AND_SET_WIDTHS, WIDTHS),
    (device_memory::OPERATIONS, NUMBERS),
    (device_memory::LOG_GRANULE, GRANULE),
    (device_memory::LOG_ENTRIES_SIZE, LOG_SIZE),
    (device_memory::LOG_CHANGES_SIZE, LOG_SIZE),
    (device_memory::LOG_PATTERNS_SIZE, LOG_SIZE),
    (device_memory::LOG_ENCAPSULATIONS_SIZE, LOG_SIZE),
];

const ATOMIC: &[Setting] = &[
    (atomic::ENDIANNESS_MODE_1, 1),
    (atomic::OPERATIONS, 0b0011),
    (atomic::SIZE_QP, 8),
    (atomic::SIZE_DC, 8),
];

const QOS: &[Setting] = &[
    (qos::PACKET_PACING, 1),
    (qos::BURST_BOUND, 1),
    (qos::TYPICAL_SIZE, 1),
    (qos::NIC_SQ_SCHEDULING, 1),
    (qos::NIC_BW_SHARE, 1),
    (qos::NIC_RATE_LIMIT, 1),
    (qos::PACKET_PACING_UID, 1),
    (qos::NIC_QP_SCHEDULING, 1),
    (qos::PACKET_PACING_UD, 1),
    (qos::PACKET_PACING_UC, 1),
    (qos::LOG_MAX_QUEUE_GROUP, 10),
    (qos::MAX_RATE, 100_000_000),
    (qos::MIN_RATE, 1),
    (qos::RATE_TABLE_SIZE, limit::RATES),
    (qos::MAX_BW_SHARE, limit::MAX_SHARE),
    (qos::NIC_ELEMENT_TYPES, 1 | 1 << 4),
    (qos::NIC_TSAR_TYPES, 1),
];

/// What an Ethernet link adds to the general page.
const ETHERNET_LINK: &[Setting] = &[
    (general::PORT_TYPE, 1),
    (general::NIC_FLOW_TABLE, 1),
    (general::LOG_MAX_VLAN_LIST, 7),
    (general::LOG_MAX_MC_LIST, 7),
    (general::LOG_MAX_UC_LIST, 7),
];

/// What a network device and RoCE add to the general page.
const NETWORK_DEVICE: &[Setting] = &[
    (general::ETH_OFFLOADS, 1),
    (general::ROCE, 1),
    (general::RTS2RTS_SOURCE_PORT, 1),
    (general::MAX_TC, 8),
];

const ETHERNET: &[Setting] = &[
    (ethernet::CHECKSUM, 1),
    (ethernet::VLAN, 1),
    (ethernet::WQE_VLAN_INSERT, 1),
    (ethernet::SELF_LOOPBACK, 1),
    (ethernet::MAX_LSO, 15),
    (ethernet::RSS_TABLE, 7),
];

const ROCE: &[Setting] = &[
    (roce::L3_TYPES, 6),
    (roce::VERSIONS, 5),
    (roce::PORT, 4791),
    (roce::MAX_SOURCE_PORT, 0xffff),
    (roce::MIN_SOURCE_PORT, 0xc000),
    (roce::ADDRESSES, limit::ROCE_ADDRESSES),
];

const FLOW_TABLE: &[Setting] = &[
    (flow::SUPPORT, 1),
    (flow::COUNTERS, 1),
    (flow::MODIFY_ENTRY, 1),
    (flow::MODIFY_ROOT, 1),
    (flow::IDENTIFIED_MISS, 1),
    (flow::MODIFY_TABLE, 1),
    (flow::LOG_MAX_SIZE, 24),
    (flow::MAX_LEVEL, 200),
    (flow::LOG_MAX_TABLES, 12),
    (flow::LOG_MAX_COUNTERS, 14),
    (flow::LOG_MAX_DESTINATIONS, 5),
    (flow::LOG_MAX_FLOWS, 24),
];
