//! Command input and output fields that several commands use, and the opcodes.

use super::{Field, Wide, bit, field, word};

/// Command opcode.
pub(crate) const OPCODE: Field = field(0x00, 31, 16);
/// User context in whose name the command runs.
pub(crate) const UID: Field = field(0x00, 15, 0);
/// Opcode modifier.
pub(crate) const OP_MOD: Field = field(0x04, 15, 0);
/// Reply status.
pub(crate) const STATUS: Field = field(0x00, 31, 24);
/// Reply syndrome.
pub(crate) const SYNDROME: Field = word(0x04);
/// The object number that most commands carry at the same place, in input and output.
pub(crate) const NUMBER: Field = field(0x08, 23, 0);
/// As [`NUMBER`], for objects with 32-bit identifiers.
pub(crate) const NUMBER32: Field = word(0x08);
/// Connection establishment options in the replies of CREATE_QP, CREATE_DCT and the transitions.
pub(crate) const REPLY_ECE: Field = word(0x0c);
/// Second parameter word.
pub(crate) const PARAM: Field = word(0x0c);
/// State that a modify command expects the ring to be in.
pub(crate) const CURRENT_STATE: Field = field(0x08, 31, 28);
/// Selection mask of MODIFY_SQ, MODIFY_RQ and MODIFY_RMP.
pub(crate) const MODIFY_MASK: Wide = Wide(0x10);
/// Whether the buffer of a CQ or XRC SRQ is in a umem.
pub(crate) const CTX_UMEM_VALID: Field = bit(0x5c, 31);
/// Umem offset and id of a CQ or XRC SRQ buffer.
pub(crate) const CTX_UMEM_OFFSET: Wide = Wide(0x50);
/// See [`CTX_UMEM_OFFSET`].
pub(crate) const CTX_UMEM_ID: Field = word(0x58);
/// Where the 64-byte context of EQ, CQ, SRQ, DCT and MKEY commands starts.
pub(crate) const CTX: usize = 0x10;
/// Where the context of RMP, SQ, RQ, TIR, TIS and RQT commands starts.
pub(crate) const RING_CTX: usize = 0x20;
/// Where a page list follows the context.
pub(crate) const PAS: usize = 0x110;

/// CREATE_MKEY.
pub(crate) mod mkey {
    use super::{Field, Wide, bit, word};
    /// The entries of the page list carry the access rights of each page.
    pub(crate) const PAGE_ACCESS: Field = bit(0x0c, 31);
    pub(crate) const UMEM_VALID: Field = bit(0x0c, 30);
    pub(crate) const ACTUAL_OCTOWORDS: Field = word(0x60);
    pub(crate) const UMEM_ID: Field = word(0x64);
    pub(crate) const UMEM_OFFSET: Wide = Wide(0x68);
}

/// CREATE_QP and the QP transitions.
pub(crate) mod qp {
    use super::{Field, Wide, bit, word};
    pub(crate) const EXT: Field = bit(0x08, 31);
    pub(crate) const OPT_MASK: Field = word(0x10);
    /// Connection establishment options, in the command and in QUERY_QP's reply.
    pub(crate) const ECE: Field = word(0x14);
    pub(crate) const QPC: usize = 0x18;
    pub(crate) const UMEM_OFFSET: Wide = Wide(0x100);
    pub(crate) const UMEM_ID: Field = word(0x108);
    pub(crate) const UMEM_VALID: Field = bit(0x10c, 31);
    pub(crate) const EXT_MASK_LOW: Field = word(0x10c);
    pub(crate) const EXT_CTX: usize = 0x110;
}

/// Opcodes of the commands that are modelled.
pub(crate) mod op {
    macro_rules! opcodes {
        ($($name:ident = $value:literal),* $(,)?) => {
            $(pub(crate) const $name: u16 = $value;)*

            /// The PRM name of an opcode, for traces.
            pub(crate) fn name(opcode: u16) -> &'static str {
                match opcode {
                    $($value => stringify!($name),)*
                    _ => "UNKNOWN",
                }
            }
        };
    }

    opcodes! {
        QUERY_HCA_CAP = 0x100, QUERY_ADAPTER = 0x101, INIT_HCA = 0x102, TEARDOWN_HCA = 0x103, ENABLE_HCA = 0x104,
        DISABLE_HCA = 0x105, QUERY_PAGES = 0x107, MANAGE_PAGES = 0x108, SET_HCA_CAP = 0x109, QUERY_ISSI = 0x10a,
        SET_ISSI = 0x10b, SET_DRIVER_VERSION = 0x10d,
        CREATE_MKEY = 0x200, QUERY_MKEY = 0x201, DESTROY_MKEY = 0x202, QUERY_SPECIAL_CONTEXTS = 0x203,
        PAGE_FAULT_RESUME = 0x204, ALLOC_MEMIC = 0x205, DEALLOC_MEMIC = 0x206, MODIFY_MEMIC = 0x207,
        CREATE_EQ = 0x301, DESTROY_EQ = 0x302, QUERY_EQ = 0x303,
        CREATE_CQ = 0x400, DESTROY_CQ = 0x401, QUERY_CQ = 0x402, MODIFY_CQ = 0x403,
        CREATE_QP = 0x500, DESTROY_QP = 0x501, RST2INIT_QP = 0x502, INIT2RTR_QP = 0x503, RTR2RTS_QP = 0x504,
        RTS2RTS_QP = 0x505, SQERR2RTS_QP = 0x506, TO_ERR_QP = 0x507, TO_RST_QP = 0x50a, QUERY_QP = 0x50b,
        SQD_RTS_QP = 0x50c, MAD_IFC = 0x50d, INIT2INIT_QP = 0x50e,
        CREATE_PSV = 0x600, DESTROY_PSV = 0x601,
        CREATE_SRQ = 0x700, DESTROY_SRQ = 0x701, QUERY_SRQ = 0x702, ARM_RQ = 0x703,
        CREATE_XRC_SRQ = 0x705, DESTROY_XRC_SRQ = 0x706, QUERY_XRC_SRQ = 0x707, ARM_XRC_SRQ = 0x708,
        CREATE_DCT = 0x710, DESTROY_DCT = 0x711, DRAIN_DCT = 0x712, QUERY_DCT = 0x713,
        QUERY_VPORT_STATE = 0x750, MODIFY_VPORT_STATE = 0x751,
        QUERY_NIC_VPORT_CONTEXT = 0x754, MODIFY_NIC_VPORT_CONTEXT = 0x755,
        QUERY_ROCE_ADDRESS = 0x760, SET_ROCE_ADDRESS = 0x761,
        QUERY_HCA_VPORT_CONTEXT = 0x762, MODIFY_HCA_VPORT_CONTEXT = 0x763, QUERY_HCA_VPORT_GID = 0x764,
        QUERY_HCA_VPORT_PKEY = 0x765, QUERY_VNIC_ENV = 0x76f, QUERY_VPORT_COUNTER = 0x770,
        SET_PP_RATE_LIMIT = 0x780, QUERY_RATE_LIMIT = 0x781,
        CREATE_SCHEDULING_ELEMENT = 0x782, DESTROY_SCHEDULING_ELEMENT = 0x783,
        QUERY_SCHEDULING_ELEMENT = 0x784, MODIFY_SCHEDULING_ELEMENT = 0x785,
        ALLOC_PD = 0x800, DEALLOC_PD = 0x801, ALLOC_UAR = 0x802, DEALLOC_UAR = 0x803, ACCESS_REG = 0x805,
        ATTACH_TO_MCG = 0x806, DETACH_FROM_MCG = 0x807, NOP = 0x80d, ALLOC_XRCD = 0x80e, DEALLOC_XRCD = 0x80f,
        ALLOC_TRANSPORT_DOMAIN = 0x816, DEALLOC_TRANSPORT_DOMAIN = 0x817,
        CREATE_TIR = 0x900, MODIFY_TIR = 0x901, DESTROY_TIR = 0x902, QUERY_TIR = 0x903,
        CREATE_SQ = 0x904, MODIFY_SQ = 0x905, DESTROY_SQ = 0x906, QUERY_SQ = 0x907,
        CREATE_RQ = 0x908, MODIFY_RQ = 0x909, DESTROY_RQ = 0x90a, QUERY_RQ = 0x90b,
        CREATE_RMP = 0x90c, MODIFY_RMP = 0x90d, DESTROY_RMP = 0x90e, QUERY_RMP = 0x90f,
        CREATE_TIS = 0x912, MODIFY_TIS = 0x913, DESTROY_TIS = 0x914, QUERY_TIS = 0x915,
        CREATE_RQT = 0x916, MODIFY_RQT = 0x917, DESTROY_RQT = 0x918, QUERY_RQT = 0x919,
        SET_FLOW_TABLE_ROOT = 0x92f, CREATE_FLOW_TABLE = 0x930, DESTROY_FLOW_TABLE = 0x931,
        CREATE_FLOW_GROUP = 0x933, DESTROY_FLOW_GROUP = 0x934, SET_FLOW_TABLE_ENTRY = 0x936,
        QUERY_FLOW_TABLE_ENTRY = 0x937, DELETE_FLOW_TABLE_ENTRY = 0x938, ALLOC_FLOW_COUNTER = 0x939,
        DEALLOC_FLOW_COUNTER = 0x93a, QUERY_FLOW_COUNTER = 0x93b, MODIFY_FLOW_TABLE = 0x93c,
        ALLOC_Q_COUNTER = 0x771, DEALLOC_Q_COUNTER = 0x772, QUERY_Q_COUNTER = 0x773,
        SET_L2_TABLE_ENTRY = 0x829, DELETE_L2_TABLE_ENTRY = 0x82b, SET_WOL_ROL = 0x830, QUERY_LAG = 0x842,
        CREATE_GENERAL_OBJECT = 0xa00, MODIFY_GENERAL_OBJECT = 0xa01, QUERY_GENERAL_OBJECT = 0xa02,
        DESTROY_GENERAL_OBJECT = 0xa03, CREATE_UCTX = 0xa04, DESTROY_UCTX = 0xa06,
        CREATE_UMEM = 0xa08, DESTROY_UMEM = 0xa0a,
    }
}
