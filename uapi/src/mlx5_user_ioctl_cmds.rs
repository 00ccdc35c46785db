//! `rdma/mlx5_user_ioctl_cmds.h`: mlx5's own objects, methods and attributes of the verbs ioctl.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

kernel_enum! {
    /// mlx5's own attributes of `UVERBS_METHOD_FLOW_ACTION_ESP_CREATE`.
    enum mlx5_ib_create_flow_action_attrs: u16 {
        MLX5_IB_ATTR_CREATE_FLOW_ACTION_FLAGS = 0x1000,
    }
}

kernel_enum! {
    /// mlx5's own methods of `UVERBS_OBJECT_DM`.
    enum mlx5_ib_dm_methods: u16 {
        MLX5_IB_METHOD_DM_MAP_OP_ADDR = 0x1000,
        MLX5_IB_METHOD_DM_QUERY = 0x1001,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DM_MAP_OP_ADDR`].
    enum mlx5_ib_dm_map_op_addr_attrs: u16 {
        MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE = 0x1000,
        MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP = 0x1001,
        MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET = 0x1002,
        MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX = 0x1003,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DM_QUERY`].
    enum mlx5_ib_query_dm_attrs: u16 {
        MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE = 0x1000,
        MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET = 0x1001,
        MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX = 0x1002,
        MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH = 0x1003,
    }
}

kernel_enum! {
    /// mlx5's own attributes of `UVERBS_METHOD_DM_ALLOC`.
    enum mlx5_ib_alloc_dm_attrs: u16 {
        MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET = 0x1000,
        MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX = 0x1001,
        MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE = 0x1002,
    }
}

kernel_enum! {
    /// Methods of [`MLX5_IB_OBJECT_DEVX`].
    enum mlx5_ib_devx_methods: u16 {
        MLX5_IB_METHOD_DEVX_OTHER = 0x1000,
        MLX5_IB_METHOD_DEVX_QUERY_UAR = 0x1001,
        MLX5_IB_METHOD_DEVX_QUERY_EQN = 0x1002,
        MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT = 0x1003,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_OTHER`].
    enum mlx5_ib_devx_other_attrs: u16 {
        MLX5_IB_ATTR_DEVX_OTHER_CMD_IN = 0x1000,
        MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT = 0x1001,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_OBJ_CREATE`].
    enum mlx5_ib_devx_obj_create_attrs: u16 {
        MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE = 0x1000,
        MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN = 0x1001,
        MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT = 0x1002,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_QUERY_UAR`].
    enum mlx5_ib_devx_query_uar_attrs: u16 {
        MLX5_IB_ATTR_DEVX_QUERY_UAR_USER_IDX = 0x1000,
        MLX5_IB_ATTR_DEVX_QUERY_UAR_DEV_IDX = 0x1001,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_OBJ_DESTROY`].
    enum mlx5_ib_devx_obj_destroy_attrs: u16 {
        MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE = 0x1000,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_OBJ_MODIFY`].
    enum mlx5_ib_devx_obj_modify_attrs: u16 {
        MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE = 0x1000,
        MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN = 0x1001,
        MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT = 0x1002,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_OBJ_QUERY`].
    enum mlx5_ib_devx_obj_query_attrs: u16 {
        MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE = 0x1000,
        MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN = 0x1001,
        MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT = 0x1002,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY`].
    enum mlx5_ib_devx_obj_query_async_attrs: u16 {
        MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE = 0x1000,
        MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN = 0x1001,
        MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD = 0x1002,
        MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID = 0x1003,
        MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN = 0x1004,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT`].
    enum mlx5_ib_devx_subscribe_event_attrs: u16 {
        MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE = 0x1000,
        MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE = 0x1001,
        MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST = 0x1002,
        MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM = 0x1003,
        MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE = 0x1004,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_QUERY_EQN`].
    enum mlx5_ib_devx_query_eqn_attrs: u16 {
        MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC = 0x1000,
        MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN = 0x1001,
    }
}

kernel_enum! {
    /// Methods of [`MLX5_IB_OBJECT_DEVX_OBJ`].
    enum mlx5_ib_devx_obj_methods: u16 {
        MLX5_IB_METHOD_DEVX_OBJ_CREATE = 0x1000,
        MLX5_IB_METHOD_DEVX_OBJ_DESTROY = 0x1001,
        MLX5_IB_METHOD_DEVX_OBJ_MODIFY = 0x1002,
        MLX5_IB_METHOD_DEVX_OBJ_QUERY = 0x1003,
        MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY = 0x1004,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_VAR_OBJ_ALLOC`].
    enum mlx5_ib_var_alloc_attrs: u16 {
        MLX5_IB_ATTR_VAR_OBJ_ALLOC_HANDLE = 0x1000,
        MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_OFFSET = 0x1001,
        MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_LENGTH = 0x1002,
        MLX5_IB_ATTR_VAR_OBJ_ALLOC_PAGE_ID = 0x1003,
        MLX5_IB_ATTR_VAR_OBJ_ALLOC_FLAGS = 0x1004,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_VAR_OBJ_DESTROY`].
    enum mlx5_ib_var_obj_destroy_attrs: u16 {
        MLX5_IB_ATTR_VAR_OBJ_DESTROY_HANDLE = 0x1000,
    }
}

kernel_enum! {
    /// Methods of [`MLX5_IB_OBJECT_VAR`].
    enum mlx5_ib_var_obj_methods: u16 {
        MLX5_IB_METHOD_VAR_OBJ_ALLOC = 0x1000,
        MLX5_IB_METHOD_VAR_OBJ_DESTROY = 0x1001,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_UAR_OBJ_ALLOC`].
    enum mlx5_ib_uar_alloc_attrs: u16 {
        MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE = 0x1000,
        MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE = 0x1001,
        MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET = 0x1002,
        MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH = 0x1003,
        MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID = 0x1004,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_UAR_OBJ_DESTROY`].
    enum mlx5_ib_uar_obj_destroy_attrs: u16 {
        MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE = 0x1000,
    }
}

kernel_enum! {
    /// Methods of [`MLX5_IB_OBJECT_UAR`].
    enum mlx5_ib_uar_obj_methods: u16 {
        MLX5_IB_METHOD_UAR_OBJ_ALLOC = 0x1000,
        MLX5_IB_METHOD_UAR_OBJ_DESTROY = 0x1001,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_UMEM_REG`].
    enum mlx5_ib_devx_umem_reg_attrs: u16 {
        MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE = 0x1000,
        MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR = 0x1001,
        MLX5_IB_ATTR_DEVX_UMEM_REG_LEN = 0x1002,
        MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS = 0x1003,
        MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID = 0x1004,
        MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP = 0x1005,
        MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD = 0x1006,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_UMEM_DEREG`].
    enum mlx5_ib_devx_umem_dereg_attrs: u16 {
        MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE = 0x1000,
    }
}

kernel_enum! {
    /// Methods of [`MLX5_IB_OBJECT_PP`].
    enum mlx5_ib_pp_obj_methods: u16 {
        MLX5_IB_METHOD_PP_OBJ_ALLOC = 0x1000,
        MLX5_IB_METHOD_PP_OBJ_DESTROY = 0x1001,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_PP_OBJ_ALLOC`].
    enum mlx5_ib_pp_alloc_attrs: u16 {
        MLX5_IB_ATTR_PP_OBJ_ALLOC_HANDLE = 0x1000,
        MLX5_IB_ATTR_PP_OBJ_ALLOC_CTX = 0x1001,
        MLX5_IB_ATTR_PP_OBJ_ALLOC_FLAGS = 0x1002,
        MLX5_IB_ATTR_PP_OBJ_ALLOC_INDEX = 0x1003,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_PP_OBJ_DESTROY`].
    enum mlx5_ib_pp_obj_destroy_attrs: u16 {
        MLX5_IB_ATTR_PP_OBJ_DESTROY_HANDLE = 0x1000,
    }
}

kernel_enum! {
    /// Methods of [`MLX5_IB_OBJECT_DEVX_UMEM`].
    enum mlx5_ib_devx_umem_methods: u16 {
        MLX5_IB_METHOD_DEVX_UMEM_REG = 0x1000,
        MLX5_IB_METHOD_DEVX_UMEM_DEREG = 0x1001,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC`].
    enum mlx5_ib_devx_async_cmd_fd_alloc_attrs: u16 {
        MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE = 0x1000,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC`].
    enum mlx5_ib_devx_async_event_fd_alloc_attrs: u16 {
        MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE = 0x1000,
        MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS = 0x1001,
    }
}

kernel_enum! {
    /// Methods of [`MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD`].
    enum mlx5_ib_devx_async_cmd_fd_methods: u16 {
        MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC = 0x1000,
    }
}

kernel_enum! {
    /// Methods of [`MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD`].
    enum mlx5_ib_devx_async_event_fd_methods: u16 {
        MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC = 0x1000,
    }
}

kernel_enum! {
    /// mlx5's own objects.
    enum mlx5_ib_objects: u16 {
        MLX5_IB_OBJECT_DEVX = 0x1000,
        MLX5_IB_OBJECT_DEVX_OBJ = 0x1001,
        MLX5_IB_OBJECT_DEVX_UMEM = 0x1002,
        MLX5_IB_OBJECT_FLOW_MATCHER = 0x1003,
        MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD = 0x1004,
        MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD = 0x1005,
        MLX5_IB_OBJECT_VAR = 0x1006,
        MLX5_IB_OBJECT_PP = 0x1007,
        MLX5_IB_OBJECT_UAR = 0x1008,
        MLX5_IB_OBJECT_STEERING_ANCHOR = 0x1009,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_FLOW_MATCHER_CREATE`].
    enum mlx5_ib_flow_matcher_create_attrs: u16 {
        MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE = 0x1000,
        MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK = 0x1001,
        MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE = 0x1002,
        MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA = 0x1003,
        MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS = 0x1004,
        MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE = 0x1005,
        MLX5_IB_ATTR_FLOW_MATCHER_IB_PORT = 0x1006,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_FLOW_MATCHER_DESTROY`].
    enum mlx5_ib_flow_matcher_destroy_attrs: u16 {
        MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE = 0x1000,
    }
}

kernel_enum! {
    /// Methods of [`MLX5_IB_OBJECT_FLOW_MATCHER`].
    enum mlx5_ib_flow_matcher_methods: u16 {
        MLX5_IB_METHOD_FLOW_MATCHER_CREATE = 0x1000,
        MLX5_IB_METHOD_FLOW_MATCHER_DESTROY = 0x1001,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_STEERING_ANCHOR_CREATE`].
    enum mlx5_ib_flow_steering_anchor_create_attrs: u16 {
        MLX5_IB_ATTR_STEERING_ANCHOR_CREATE_HANDLE = 0x1000,
        MLX5_IB_ATTR_STEERING_ANCHOR_FT_TYPE = 0x1001,
        MLX5_IB_ATTR_STEERING_ANCHOR_PRIORITY = 0x1002,
        MLX5_IB_ATTR_STEERING_ANCHOR_FT_ID = 0x1003,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_STEERING_ANCHOR_DESTROY`].
    enum mlx5_ib_flow_steering_anchor_destroy_attrs: u16 {
        MLX5_IB_ATTR_STEERING_ANCHOR_DESTROY_HANDLE = 0x1000,
    }
}

kernel_enum! {
    /// Methods of [`MLX5_IB_OBJECT_STEERING_ANCHOR`].
    enum mlx5_ib_steering_anchor_methods: u16 {
        MLX5_IB_METHOD_STEERING_ANCHOR_CREATE = 0x1000,
        MLX5_IB_METHOD_STEERING_ANCHOR_DESTROY = 0x1001,
    }
}

kernel_enum! {
    /// mlx5's own attributes of `UVERBS_METHOD_QUERY_CONTEXT`.
    enum mlx5_ib_device_query_context_attrs: u16 {
        MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX = 0x1000,
    }
}

kernel_enum! {
    /// mlx5's own attributes of `UVERBS_METHOD_CQ_CREATE`.
    enum mlx5_ib_create_cq_attrs: u16 {
        MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX = 0x1002,
        MLX5_IB_ATTR_CREATE_CQ_DBR_BUF_UMEM = 0x1003,
    }
}

kernel_enum! {
    /// mlx5's own attributes of `UVERBS_METHOD_QP_CREATE`.
    enum mlx5_ib_create_qp_attrs: u16 {
        MLX5_IB_ATTR_CREATE_QP_DBR_BUF_UMEM = 0x1002,
    }
}

kernel_enum! {
    /// mlx5's own attributes of `UVERBS_METHOD_SRQ_CREATE`.
    enum mlx5_ib_create_srq_attrs: u16 {
        MLX5_IB_ATTR_CREATE_SRQ_DBR_BUF_UMEM = 0x1002,
    }
}

kernel_enum! {
    /// mlx5's own attributes of `UVERBS_METHOD_REG_DMABUF_MR`.
    enum mlx5_ib_reg_dmabuf_mr_attrs: u16 {
        MLX5_IB_ATTR_REG_DMABUF_MR_ACCESS_FLAGS = 0x1000,
    }
}

/// Words of a match value or mask.
pub const MLX5_IB_DW_MATCH_PARAM: usize = 0xA0;

/// A match value or mask, in the layout of the device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct mlx5_ib_match_params {
    pub match_params: [u32; MLX5_IB_DW_MATCH_PARAM],
}
assert_layout!(mlx5_ib_match_params, size 640, align 4, { match_params @ 0 });
default_zeroed!(mlx5_ib_match_params);

kernel_enum! {
    /// Kinds of flow matcher.
    enum mlx5_ib_flow_type: u32 {
        MLX5_IB_FLOW_TYPE_NORMAL = 0,
        MLX5_IB_FLOW_TYPE_SNIFFER = 1,
        MLX5_IB_FLOW_TYPE_ALL_DEFAULT = 2,
        MLX5_IB_FLOW_TYPE_MC_DEFAULT = 3,
    }
}

kernel_enum! {
    /// Flags of flow creation.
    enum mlx5_ib_create_flow_flags: u32 {
        MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS = 1 << 0,
        MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP = 1 << 1,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_CREATE_FLOW`].
    enum mlx5_ib_create_flow_attrs: u16 {
        MLX5_IB_ATTR_CREATE_FLOW_HANDLE = 0x1000,
        MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE = 0x1001,
        MLX5_IB_ATTR_CREATE_FLOW_DEST_QP = 0x1002,
        MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX = 0x1003,
        MLX5_IB_ATTR_CREATE_FLOW_MATCHER = 0x1004,
        MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS = 0x1005,
        MLX5_IB_ATTR_CREATE_FLOW_TAG = 0x1006,
        MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX = 0x1007,
        MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET = 0x1008,
        MLX5_IB_ATTR_CREATE_FLOW_FLAGS = 0x1009,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_DESTROY_FLOW`].
    enum mlx5_ib_destroy_flow_attrs: u16 {
        MLX5_IB_ATTR_DESTROY_FLOW_HANDLE = 0x1000,
    }
}

kernel_enum! {
    /// mlx5's own methods of `UVERBS_OBJECT_FLOW`.
    enum mlx5_ib_flow_methods: u16 {
        MLX5_IB_METHOD_CREATE_FLOW = 0x1000,
        MLX5_IB_METHOD_DESTROY_FLOW = 0x1001,
    }
}

kernel_enum! {
    /// mlx5's own methods of `UVERBS_OBJECT_FLOW_ACTION`.
    enum mlx5_ib_flow_action_methods: u16 {
        MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER = 0x1000,
        MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT = 0x1001,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER`].
    enum mlx5_ib_create_flow_action_create_modify_header_attrs: u16 {
        MLX5_IB_ATTR_CREATE_MODIFY_HEADER_HANDLE = 0x1000,
        MLX5_IB_ATTR_CREATE_MODIFY_HEADER_ACTIONS_PRM = 0x1001,
        MLX5_IB_ATTR_CREATE_MODIFY_HEADER_FT_TYPE = 0x1002,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT`].
    enum mlx5_ib_create_flow_action_create_packet_reformat_attrs: u16 {
        MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_HANDLE = 0x1000,
        MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_TYPE = 0x1001,
        MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_FT_TYPE = 0x1002,
        MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_DATA_BUF = 0x1003,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_PD_QUERY`].
    enum mlx5_ib_query_pd_attrs: u16 {
        MLX5_IB_ATTR_QUERY_PD_HANDLE = 0x1000,
        MLX5_IB_ATTR_QUERY_PD_RESP_PDN = 0x1001,
    }
}

kernel_enum! {
    /// mlx5's own methods of `UVERBS_OBJECT_PD`.
    enum mlx5_ib_pd_methods: u16 {
        MLX5_IB_METHOD_PD_QUERY = 0x1000,
    }
}

kernel_enum! {
    /// mlx5's own methods of `UVERBS_OBJECT_DEVICE`.
    enum mlx5_ib_device_methods: u16 {
        MLX5_IB_METHOD_QUERY_PORT = 0x1000,
        MLX5_IB_METHOD_GET_DATA_DIRECT_SYSFS_PATH = 0x1001,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_QUERY_PORT`].
    enum mlx5_ib_query_port_attrs: u16 {
        MLX5_IB_ATTR_QUERY_PORT_PORT_NUM = 0x1000,
        MLX5_IB_ATTR_QUERY_PORT = 0x1001,
    }
}

kernel_enum! {
    /// Attributes of [`MLX5_IB_METHOD_GET_DATA_DIRECT_SYSFS_PATH`].
    enum mlx5_ib_get_data_direct_sysfs_path_attrs: u16 {
        MLX5_IB_ATTR_GET_DATA_DIRECT_SYSFS_PATH = 0x1000,
    }
}

kernel_header! {
    "rdma/mlx5_user_ioctl_cmds.h",
    structs: [mlx5_ib_match_params],
    enums: [
        mlx5_ib_create_flow_action_attrs, mlx5_ib_dm_methods, mlx5_ib_dm_map_op_addr_attrs,
        mlx5_ib_query_dm_attrs, mlx5_ib_alloc_dm_attrs, mlx5_ib_devx_methods,
        mlx5_ib_devx_other_attrs, mlx5_ib_devx_obj_create_attrs, mlx5_ib_devx_query_uar_attrs,
        mlx5_ib_devx_obj_destroy_attrs, mlx5_ib_devx_obj_modify_attrs,
        mlx5_ib_devx_obj_query_attrs, mlx5_ib_devx_obj_query_async_attrs,
        mlx5_ib_devx_subscribe_event_attrs, mlx5_ib_devx_query_eqn_attrs,
        mlx5_ib_devx_obj_methods, mlx5_ib_var_alloc_attrs, mlx5_ib_var_obj_destroy_attrs,
        mlx5_ib_var_obj_methods, mlx5_ib_uar_alloc_attrs, mlx5_ib_uar_obj_destroy_attrs,
        mlx5_ib_uar_obj_methods, mlx5_ib_devx_umem_reg_attrs, mlx5_ib_devx_umem_dereg_attrs,
        mlx5_ib_pp_obj_methods, mlx5_ib_pp_alloc_attrs, mlx5_ib_pp_obj_destroy_attrs,
        mlx5_ib_devx_umem_methods, mlx5_ib_devx_async_cmd_fd_alloc_attrs,
        mlx5_ib_devx_async_event_fd_alloc_attrs, mlx5_ib_devx_async_cmd_fd_methods,
        mlx5_ib_devx_async_event_fd_methods, mlx5_ib_objects,
        mlx5_ib_flow_matcher_create_attrs, mlx5_ib_flow_matcher_destroy_attrs,
        mlx5_ib_flow_matcher_methods, mlx5_ib_flow_steering_anchor_create_attrs,
        mlx5_ib_flow_steering_anchor_destroy_attrs, mlx5_ib_steering_anchor_methods,
        mlx5_ib_device_query_context_attrs, mlx5_ib_create_cq_attrs, mlx5_ib_create_qp_attrs,
        mlx5_ib_create_srq_attrs, mlx5_ib_reg_dmabuf_mr_attrs, mlx5_ib_flow_type, mlx5_ib_create_flow_flags,
        mlx5_ib_create_flow_attrs, mlx5_ib_destroy_flow_attrs, mlx5_ib_flow_methods,
        mlx5_ib_flow_action_methods, mlx5_ib_create_flow_action_create_modify_header_attrs,
        mlx5_ib_create_flow_action_create_packet_reformat_attrs, mlx5_ib_query_pd_attrs,
        mlx5_ib_pd_methods, mlx5_ib_device_methods, mlx5_ib_query_port_attrs,
        mlx5_ib_get_data_direct_sysfs_path_attrs,
    ],
    constants: [MLX5_IB_DW_MATCH_PARAM],
}
