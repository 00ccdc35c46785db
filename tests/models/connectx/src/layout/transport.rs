//! Fields of TIS, TIR and RQ table contexts, of packet pacing, scheduling elements and port
//! contexts.

use super::{Field, Wide, bit, field, word};

/// `tisc`, 160 bytes.
pub(crate) mod tis {
    use super::{Field, field};
    pub(crate) const LEN: usize = 160;
    pub(crate) const TD: Field = field(0x24, 23, 0);
    pub(crate) const PD: Field = field(0x2c, 23, 0);
}

/// `tirc`, 240 bytes.
pub(crate) mod tir {
    use super::{Field, field};
    pub(crate) const LEN: usize = 240;
    pub(crate) const DISPATCH: Field = field(0x04, 31, 28);
    pub(crate) const INLINE_RQN: Field = field(0x1c, 23, 0);
    pub(crate) const TABLE: Field = field(0x20, 23, 0);
    /// Which frames of its own transport domain it accepts: bit 0 unicast, bit 1 multicast.
    pub(crate) const SELF_LOOPBACK: Field = field(0x24, 25, 24);
    pub(crate) const TD: Field = field(0x24, 23, 0);
}

/// `rqtc`, 240 bytes, followed by the list of RQ numbers.
pub(crate) mod rqt {
    use super::{Field, field};
    pub(crate) const LEN: usize = 240;
    pub(crate) const MAX_SIZE: Field = field(0x14, 15, 0);
    pub(crate) const ACTUAL_SIZE: Field = field(0x18, 15, 0);
    pub(crate) const LIST: usize = 0xf0;
}

/// `set_pp_rate_limit_context`.
pub(crate) mod pacing {
    use super::{Field, field, word};
    pub(crate) const RATE: Field = word(0x00);
    pub(crate) const BURST: Field = word(0x04);
    pub(crate) const PACKET_SIZE: Field = field(0x08, 15, 0);
}

/// `scheduling_context`, 64 bytes.
pub(crate) mod sched {
    use super::{Field, field, word};
    pub(crate) const LEN: usize = 64;
    pub(crate) const TYPE: Field = field(0x00, 31, 24);
    pub(crate) const TSAR_TYPE: Field = field(0x04, 23, 16);
    pub(crate) const PARENT: Field = word(0x08);
    pub(crate) const SHARE: Field = word(0x14);
    pub(crate) const MAX_BANDWIDTH: Field = word(0x18);
}

/// `hca_vport_context`.
pub(crate) mod hca_vport {
    use super::{Field, Wide, bit, field, word};
    pub(crate) const FIELD_SELECT: Field = word(0x00);
    pub(crate) const HAS_SMI: Field = bit(0x20, 30);
    pub(crate) const PHYSICAL_STATE: Field = field(0x20, 15, 12);
    pub(crate) const PORT_STATE: Field = field(0x20, 7, 4);
    pub(crate) const VPORT_STATE: Field = field(0x20, 3, 0);
    pub(crate) const SYSTEM_GUID: Wide = Wide(0x28);
    pub(crate) const PORT_GUID: Wide = Wide(0x30);
    pub(crate) const NODE_GUID: Wide = Wide(0x38);
    pub(crate) const CAP_MASK1: Field = word(0x40);
    pub(crate) const CAP_MASK1_SELECT: Field = word(0x44);
    pub(crate) const LID: Field = field(0x60, 31, 16);
    pub(crate) const SUBNET_TIMEOUT: Field = field(0x60, 4, 0);
    pub(crate) const SM_LID: Field = field(0x64, 31, 16);
}

/// `nic_vport_context`.
pub(crate) mod nic_vport {
    use super::{Field, Wide, bit, field};
    pub(crate) const LEN: usize = 0x100;
    pub(crate) const ROCE_ENABLE: Field = bit(0x00, 0);
    pub(crate) const MTU: Field = field(0x24, 15, 0);
    pub(crate) const SYSTEM_GUID: Wide = Wide(0x28);
    pub(crate) const PORT_GUID: Wide = Wide(0x30);
    pub(crate) const NODE_GUID: Wide = Wide(0x38);
    pub(crate) const MAC: Wide = Wide(0xf4);
}

/// `query_adapter_param_block`.
pub(crate) mod adapter {
    use super::{Field, field};
    pub(crate) const VENDOR: Field = field(0x18, 23, 0);
    pub(crate) const PSID: usize = 0xf0;
}
