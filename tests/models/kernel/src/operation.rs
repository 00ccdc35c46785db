//! Which operation a user asked for when the kernel saw a call.
#![allow(
    clippy::wildcard_imports,
    reason = "the kernel's names tell where they are from"
)]

use uverbs_core::Op;
use uverbs_uapi::ib_user_ioctl_cmds::*;
use uverbs_uapi::ib_user_verbs::*;
use uverbs_uapi::rdma_user_cm::*;

use crate::CallKind;

impl CallKind {
    /// The operation that an error of this call names. `None` for calls of other commands: flows,
    /// counters, what one vendor has.
    pub fn operation(self) -> Option<Op> {
        match self {
            Self::Method(object, method) => of_method(object, method),
            Self::Invoked(number) | Self::Written(number) => of_command(number),
            Self::Cm(number) => of_cm(number),
            Self::Map { .. } => Some(Op::MapDeviceMemory),
            // The sizes of the structs that such descriptors are read by.
            Self::Read(8) => Some(Op::GetCompletionEvent),
            Self::Read(16) => Some(Op::GetAsyncEvent),
            Self::Read(_) => None,
        }
    }

    /// Whether the call ends an object.
    pub fn is_destroy(self) -> bool {
        matches!(
            self.operation(),
            Some(
                Op::DeallocProtectionDomain
                    | Op::DeregisterMemory
                    | Op::DestroyCompletionQueue
                    | Op::DestroyQueuePair
                    | Op::DestroySharedReceiveQueue
            )
        )
    }
}

fn of_method(object: u16, method: u16) -> Option<Op> {
    Some(match (object, method) {
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT) => Op::GetContext,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT) => Op::QueryPort,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY) => Op::QueryGid,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE) => Op::QueryGidTable,
        (UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC) => Op::AsyncEvent,
        (UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY) => Op::DeallocProtectionDomain,
        (UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY) => Op::DeregisterMemory,
        (UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY) => Op::DeallocMemoryWindow,
        (UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY) => Op::DestroyAddressHandle,
        (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE) => Op::CreateCompletionQueue,
        (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY) => Op::DestroyCompletionQueue,
        (UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE) => Op::CreateSharedReceiveQueue,
        (UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY) => Op::DestroySharedReceiveQueue,
        (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE) => Op::CreateQueuePair,
        (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY) => Op::DestroyQueuePair,
        _ => return None,
    })
}

fn of_command(number: u32) -> Option<Op> {
    Some(match number & !IB_USER_VERBS_CMD_FLAG_EXTENDED {
        IB_USER_VERBS_CMD_GET_CONTEXT => Op::GetContext,
        IB_USER_VERBS_CMD_QUERY_DEVICE => Op::QueryDevice,
        IB_USER_VERBS_CMD_QUERY_PORT => Op::QueryPort,
        IB_USER_VERBS_CMD_ALLOC_PD => Op::AllocProtectionDomain,
        IB_USER_VERBS_CMD_DEALLOC_PD => Op::DeallocProtectionDomain,
        IB_USER_VERBS_CMD_REG_MR => Op::RegisterMemory,
        IB_USER_VERBS_CMD_DEREG_MR => Op::DeregisterMemory,
        IB_USER_VERBS_CMD_ALLOC_MW => Op::AllocMemoryWindow,
        IB_USER_VERBS_CMD_DEALLOC_MW => Op::DeallocMemoryWindow,
        IB_USER_VERBS_CMD_CREATE_AH => Op::CreateAddressHandle,
        IB_USER_VERBS_CMD_DESTROY_AH => Op::DestroyAddressHandle,
        IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL => Op::CreateCompletionChannel,
        IB_USER_VERBS_CMD_CREATE_CQ => Op::CreateCompletionQueue,
        IB_USER_VERBS_CMD_RESIZE_CQ => Op::ResizeCompletionQueue,
        IB_USER_VERBS_CMD_REQ_NOTIFY_CQ => Op::RequestNotification,
        IB_USER_VERBS_CMD_DESTROY_CQ => Op::DestroyCompletionQueue,
        IB_USER_VERBS_CMD_CREATE_SRQ => Op::CreateSharedReceiveQueue,
        IB_USER_VERBS_CMD_MODIFY_SRQ => Op::ModifySharedReceiveQueue,
        IB_USER_VERBS_CMD_QUERY_SRQ => Op::QuerySharedReceiveQueue,
        IB_USER_VERBS_CMD_DESTROY_SRQ => Op::DestroySharedReceiveQueue,
        IB_USER_VERBS_CMD_CREATE_QP => Op::CreateQueuePair,
        IB_USER_VERBS_CMD_MODIFY_QP => Op::ModifyQueuePair,
        IB_USER_VERBS_CMD_QUERY_QP => Op::QueryQueuePair,
        IB_USER_VERBS_CMD_DESTROY_QP => Op::DestroyQueuePair,
        IB_USER_VERBS_CMD_POST_SEND => Op::PostSend,
        _ => return None,
    })
}

fn of_cm(number: u32) -> Option<Op> {
    Some(match number {
        RDMA_USER_CM_CMD_CREATE_ID => Op::CmCreateId,
        RDMA_USER_CM_CMD_DESTROY_ID => Op::CmDestroyId,
        RDMA_USER_CM_CMD_BIND_IP | RDMA_USER_CM_CMD_BIND => Op::CmBind,
        RDMA_USER_CM_CMD_RESOLVE_IP | RDMA_USER_CM_CMD_RESOLVE_ADDR => Op::CmResolveAddress,
        RDMA_USER_CM_CMD_RESOLVE_ROUTE => Op::CmResolveRoute,
        RDMA_USER_CM_CMD_QUERY_ROUTE | RDMA_USER_CM_CMD_QUERY => Op::CmQuery,
        RDMA_USER_CM_CMD_CONNECT => Op::CmConnect,
        RDMA_USER_CM_CMD_LISTEN => Op::CmListen,
        RDMA_USER_CM_CMD_ACCEPT => Op::CmAccept,
        RDMA_USER_CM_CMD_REJECT => Op::CmReject,
        RDMA_USER_CM_CMD_DISCONNECT => Op::CmDisconnect,
        RDMA_USER_CM_CMD_INIT_QP_ATTR => Op::CmInitQpAttr,
        RDMA_USER_CM_CMD_GET_EVENT => Op::CmGetEvent,
        RDMA_USER_CM_CMD_SET_OPTION => Op::CmSetOption,
        RDMA_USER_CM_CMD_NOTIFY => Op::CmNotify,
        RDMA_USER_CM_CMD_JOIN_IP_MCAST | RDMA_USER_CM_CMD_JOIN_MCAST => Op::CmJoinMulticast,
        RDMA_USER_CM_CMD_LEAVE_MCAST => Op::CmLeaveMulticast,
        RDMA_USER_CM_CMD_MIGRATE_ID => Op::CmMigrateId,
        RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE => Op::CmResolveService,
        RDMA_USER_CM_CMD_WRITE_CM_EVENT => Op::CmWriteEvent,
        _ => return None,
    })
}
