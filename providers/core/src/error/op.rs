//! The operations that can fail, by their names in the verbs API.

use std::fmt;

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident = $verb:literal,)*) => {
        /// An operation, named as the verbs API names it.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Op {
            $($(#[$doc])* #[doc = concat!("`", $verb, "`.")] $name,)*
        }

        impl Op {
            /// Every operation, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The verbs name, without the `ibv_` prefix, or the connection manager's.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $verb,)*
                }
            }
        }
    };
}

ops! {
    ListDevices = "get_device_list",
    OpenDevice = "open_device",
    GetContext = "get_context",
    QueryContext = "query_context",
    QueryDevice = "query_device",
    QueryPort = "query_port",
    QueryPortSpeed = "query_port_speed",
    QueryGid = "query_gid",
    QueryGidTable = "query_gid_table",
    QueryPkey = "query_pkey",
    QueryHandles = "info_handles",
    QueryStatistics = "statistics",
    QueryResources = "resource",
    AsyncEvent = "async_event",
    GetAsyncEvent = "get_async_event",
    AllocProtectionDomain = "alloc_pd",
    DeallocProtectionDomain = "dealloc_pd",
    RegisterMemory = "reg_mr",
    ReregisterMemory = "rereg_mr",
    DeregisterMemory = "dereg_mr",
    RegisterDmabuf = "reg_dmabuf_mr",
    RegisterDeviceMemory = "reg_dm_mr",
    QueryMemory = "query_mr",
    AdviseMemory = "advise_mr",
    AllocMemoryWindow = "alloc_mw",
    DeallocMemoryWindow = "dealloc_mw",
    AllocDeviceMemory = "alloc_dm",
    FreeDeviceMemory = "free_dm",
    AllocDmaHandle = "alloc_dmah",
    FreeDmaHandle = "free_dmah",
    ExportDmabuf = "export_dmabuf",
    CreateCompletionChannel = "create_comp_channel",
    GetCompletionEvent = "get_cq_event",
    CreateCompletionQueue = "create_cq",
    ResizeCompletionQueue = "resize_cq",
    ModifyCompletionQueue = "modify_cq",
    PollCompletionQueue = "poll_cq",
    RequestNotification = "req_notify_cq",
    DestroyCompletionQueue = "destroy_cq",
    CreateQueuePair = "create_qp",
    OpenQueuePair = "open_qp",
    ModifyQueuePair = "modify_qp",
    QueryQueuePair = "query_qp",
    SetEce = "set_ece",
    QueryEce = "query_ece",
    DestroyQueuePair = "destroy_qp",
    AttachMulticast = "attach_mcast",
    DetachMulticast = "detach_mcast",
    PostSend = "post_send",
    PostReceive = "post_recv",
    PostSharedReceive = "post_srq_recv",
    CreateSharedReceiveQueue = "create_srq",
    ModifySharedReceiveQueue = "modify_srq",
    QuerySharedReceiveQueue = "query_srq",
    DestroySharedReceiveQueue = "destroy_srq",
    OpenXrcDomain = "open_xrcd",
    CloseXrcDomain = "close_xrcd",
    CreateAddressHandle = "create_ah",
    DestroyAddressHandle = "destroy_ah",
    CreateWorkQueue = "create_wq",
    ModifyWorkQueue = "modify_wq",
    DestroyWorkQueue = "destroy_wq",
    CreateIndirectionTable = "create_rwq_ind_table",
    DestroyIndirectionTable = "destroy_rwq_ind_table",
    CreateFlow = "create_flow",
    DestroyFlow = "destroy_flow",
    CreateFlowAction = "create_flow_action",
    ModifyFlowAction = "modify_flow_action",
    DestroyFlowAction = "destroy_flow_action",
    CreateCounters = "create_counters",
    ReadCounters = "read_counters",
    DestroyCounters = "destroy_counters",
    QueryCompletionCounterCaps = "query_comp_cntr_caps",
    CreateCompletionCounter = "create_comp_cntr",
    ModifyCompletionCounter = "modify_comp_cntr",
    ReadCompletionCounter = "read_comp_cntr",
    DestroyCompletionCounter = "destroy_comp_cntr",
    AttachCompletionCounter = "qp_attach_comp_cntr",
    MapDeviceMemory = "mmap",
    ForkSupport = "fork_init",
    QuerySystem = "sys_get",
    SetSystem = "sys_set",
    AddLink = "newlink",
    DeleteLink = "dellink",
    Handshake = "handshake",
    ModifyRateLimit = "modify_qp_rate_limit",
    AccessDeviceMemory = "memcpy_to_dm",
    MapDeviceMemoryOperation = "dm_map_op_addr",
    QueryDeviceMemory = "query_dm",
    AllocNullRegion = "alloc_null_mr",
    MapClock = "query_rt_values_ex",
    ReadClock = "get_clock_info",
    AllocParentDomain = "alloc_parent_domain",
    AllocUar = "devx_alloc_uar",
    FreeUar = "devx_free_uar",
    AllocPacing = "pp_alloc",
    FreePacing = "pp_free",
    DevxCommand = "devx_general_cmd",
    DevxCreate = "devx_obj_create",
    DevxQuery = "devx_obj_query",
    DevxQueryAsync = "devx_obj_query_async",
    DevxReply = "devx_get_async_cmd_comp",
    DevxModify = "devx_obj_modify",
    DevxDestroy = "devx_obj_destroy",
    DevxRegisterMemory = "devx_umem_reg",
    DevxDeregisterMemory = "devx_umem_dereg",
    DevxQueryUar = "devx_query_uar",
    DevxQueryEventQueue = "devx_query_eqn",
    DevxEventChannel = "devx_create_event_channel",
    DevxSubscribe = "devx_subscribe_devx_event",
    DevxEvent = "devx_get_event",
    CreateSchedElement = "sched_create",
    ModifySchedElement = "sched_modify",
    DestroySchedElement = "sched_destroy",
    AttachSchedElement = "modify_qp_sched_elem",
    CreateFlowMatcher = "create_flow_matcher",
    DestroyFlowMatcher = "destroy_flow_matcher",
    CreateMatchedFlow = "create_flow by a matcher",
    CreateModifyHeader = "create_flow_action_modify_header",
    CreatePacketReformat = "create_flow_action_packet_reformat",
    CreateSteeringAnchor = "create_steering_anchor",
    DestroySteeringAnchor = "destroy_steering_anchor",
    AllocVar = "alloc_var",
    FreeVar = "free_var",
    QuerySwitchPort = "query_port of the switch",
    DataDirectPath = "get_data_direct_sysfs_path",
    Provider = "provider command",
    CheckValue = "value",
    OpenConnectionManager = "rdma_create_event_channel",
    CmCreateId = "rdma_create_id",
    CmDestroyId = "rdma_destroy_id",
    CmMigrateId = "rdma_migrate_id",
    CmBind = "rdma_bind_addr",
    CmResolveAddress = "rdma_resolve_addr",
    CmResolveRoute = "rdma_resolve_route",
    CmResolveService = "rdma_resolve_addrinfo",
    CmQuery = "rdma_query",
    CmListen = "rdma_listen",
    CmConnect = "rdma_connect",
    CmAccept = "rdma_accept",
    CmReject = "rdma_reject",
    CmDisconnect = "rdma_disconnect",
    CmInitQpAttr = "rdma_init_qp_attr",
    CmNotify = "rdma_notify",
    CmSetOption = "rdma_set_option",
    CmGetEvent = "rdma_get_cm_event",
    CmWriteEvent = "rdma_write_cm_event",
    CmJoinMulticast = "rdma_join_multicast",
    CmLeaveMulticast = "rdma_leave_multicast",
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// The opened file keeps one bit per operation in three 64-bit words.
const _: () = assert!(Op::ALL.len() <= 192);
