//! `rdma/rdma_user_ioctl.h`: the ioctl numbers of the MAD and HFI1 devices, which share the magic
//! of the verbs device ([`RDMA_VERBS_IOCTL`](crate::rdma_user_ioctl_cmds::RDMA_VERBS_IOCTL)).
//!
//! Their argument structs belong to headers that this crate does not mirror; only the sizes enter
//! the numbers.

use crate::ioctl::{io, ior, iow, iowr};
use crate::rdma_user_ioctl_cmds::RDMA_IOCTL_MAGIC;

/// Older name of [`RDMA_IOCTL_MAGIC`].
pub const IB_IOCTL_MAGIC: u8 = RDMA_IOCTL_MAGIC;

/// Registers a MAD agent (`ib_user_mad_reg_req`).
pub const IB_USER_MAD_REGISTER_AGENT: u32 = iowr(RDMA_IOCTL_MAGIC, 0x01, 28);
/// Removes a MAD agent by its id.
pub const IB_USER_MAD_UNREGISTER_AGENT: u32 = iow(RDMA_IOCTL_MAGIC, 0x02, 4);
/// Switches a MAD file to headers that carry the P_Key index.
pub const IB_USER_MAD_ENABLE_PKEY: u32 = io(RDMA_IOCTL_MAGIC, 0x03);
/// Registers a MAD agent with flags (`ib_user_mad_reg_req2`).
pub const IB_USER_MAD_REGISTER_AGENT2: u32 = iowr(RDMA_IOCTL_MAGIC, 0x04, 40);

/// Allocates an HFI1 device and context (`hfi1_user_info`).
pub const HFI1_IOCTL_ASSIGN_CTXT: u32 = iowr(RDMA_IOCTL_MAGIC, 0xE1, 28);
/// Reads what the HFI1 context was given (`hfi1_ctxt_info`).
pub const HFI1_IOCTL_CTXT_INFO: u32 = iow(RDMA_IOCTL_MAGIC, 0xE2, 40);
/// Reads the HFI1 context's addresses (`hfi1_base_info`).
pub const HFI1_IOCTL_USER_INFO: u32 = iow(RDMA_IOCTL_MAGIC, 0xE3, 120);
/// Adds expected-receive entries (`hfi1_tid_info`).
pub const HFI1_IOCTL_TID_UPDATE: u32 = iowr(RDMA_IOCTL_MAGIC, 0xE4, 24);
/// Removes expected-receive entries (`hfi1_tid_info`).
pub const HFI1_IOCTL_TID_FREE: u32 = iowr(RDMA_IOCTL_MAGIC, 0xE5, 24);
/// Asks for the send credits to be written back.
pub const HFI1_IOCTL_CREDIT_UPD: u32 = io(RDMA_IOCTL_MAGIC, 0xE6);
/// Starts or stops reception.
pub const HFI1_IOCTL_RECV_CTRL: u32 = iow(RDMA_IOCTL_MAGIC, 0xE8, 4);
/// Chooses what poll waits for.
pub const HFI1_IOCTL_POLL_TYPE: u32 = iow(RDMA_IOCTL_MAGIC, 0xE9, 4);
/// Acknowledges and clears status bits.
pub const HFI1_IOCTL_ACK_EVENT: u32 = iow(RDMA_IOCTL_MAGIC, 0xEA, size_of::<usize>());
/// Sets the context's P_Key.
pub const HFI1_IOCTL_SET_PKEY: u32 = iow(RDMA_IOCTL_MAGIC, 0xEB, 2);
/// Resets the context's send context.
pub const HFI1_IOCTL_CTXT_RESET: u32 = io(RDMA_IOCTL_MAGIC, 0xEC);
/// Reads which expected-receive entries became invalid (`hfi1_tid_info`).
pub const HFI1_IOCTL_TID_INVAL_READ: u32 = iowr(RDMA_IOCTL_MAGIC, 0xED, 24);
/// Reads the version of the HFI1 character device.
pub const HFI1_IOCTL_GET_VERS: u32 = ior(RDMA_IOCTL_MAGIC, 0xEE, 4);

kernel_header! {
    "rdma/rdma_user_ioctl.h",
    structs: [],
    enums: [],
    constants: [
        IB_IOCTL_MAGIC,
        IB_USER_MAD_REGISTER_AGENT, IB_USER_MAD_UNREGISTER_AGENT, IB_USER_MAD_ENABLE_PKEY,
        IB_USER_MAD_REGISTER_AGENT2,
        HFI1_IOCTL_ASSIGN_CTXT, HFI1_IOCTL_CTXT_INFO, HFI1_IOCTL_USER_INFO, HFI1_IOCTL_TID_UPDATE,
        HFI1_IOCTL_TID_FREE, HFI1_IOCTL_CREDIT_UPD, HFI1_IOCTL_RECV_CTRL, HFI1_IOCTL_POLL_TYPE,
        HFI1_IOCTL_ACK_EVENT, HFI1_IOCTL_SET_PKEY, HFI1_IOCTL_CTXT_RESET, HFI1_IOCTL_TID_INVAL_READ,
        HFI1_IOCTL_GET_VERS,
    ],
}
