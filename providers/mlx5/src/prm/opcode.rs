//! Opcodes of commands (`MLX5_CMD_OP_*`) and types of general objects (`MLX5_OBJ_TYPE_*`).

/// Queries the device's capabilities.
pub const QUERY_HCA_CAP: u16 = 0x100;
/// Creates a memory key.
pub const CREATE_MKEY: u16 = 0x200;
/// Creates a completion queue.
pub const CREATE_CQ: u16 = 0x400;
/// Queries a completion queue.
pub const QUERY_CQ: u16 = 0x402;
/// Modifies a completion queue.
pub const MODIFY_CQ: u16 = 0x403;
/// Creates a queue pair.
pub const CREATE_QP: u16 = 0x500;
/// INIT to INIT.
pub const INIT2INIT_QP: u16 = 0x50e;
/// RTS to RTS.
pub const RTS2RTS_QP: u16 = 0x505;
/// Queries a queue pair.
pub const QUERY_QP: u16 = 0x50b;
/// Allocates a protection domain.
pub const ALLOC_PD: u16 = 0x800;
/// Allocates a transport domain.
pub const ALLOC_TRANSPORT_DOMAIN: u16 = 0x816;
/// Creates an element of the scheduling tree, by the kernel's command.
pub const CREATE_SCHEDULING_ELEMENT: u16 = 0x782;
/// Creates protected sequences of values.
pub const CREATE_PSV: u16 = 0x600;
/// Queries the bond of a device's ports.
pub const QUERY_LAG: u16 = 0x842;
/// Modifies a transport interface of sends.
pub const MODIFY_TIS: u16 = 0x913;
/// Queries a transport interface of sends.
pub const QUERY_TIS: u16 = 0x915;
/// Modifies a raw send queue.
pub const MODIFY_SQ: u16 = 0x905;
/// Creates a general object.
pub const CREATE_GENERAL_OBJECT: u16 = 0xa00;
/// Modifies a general object.
pub const MODIFY_GENERAL_OBJECT: u16 = 0xa01;
/// Queries a general object.
pub const QUERY_GENERAL_OBJECT: u16 = 0xa02;

/// The general object that is a key of data.
pub const DATA_KEY: u16 = 0x0c;
/// The general object that is a login to encryption.
pub const CRYPTO_LOGIN: u16 = 0x1f;
/// The general object that is an element of the scheduling tree.
pub const SCHEDULING_ELEMENT: u16 = 0x26;
/// The general object that reserves numbers of queue pairs.
pub const RESERVED_NUMBERS: u16 = 0x2c;
/// The general object that ties an address to a queue pair.
pub const ADDRESS_MAPPING: u16 = 0x3a;
