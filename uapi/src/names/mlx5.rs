//! The driver namespace of mlx5.

use crate::ib_user_ioctl_cmds::*;
use crate::mlx5_user_ioctl_cmds::*;

pub(super) fn object(id: u16) -> Option<&'static str> {
    mlx5_ib_objects::name(id)
}

pub(super) fn method(object: u16, method: u16) -> Option<&'static str> {
    let name = match object {
        MLX5_IB_OBJECT_DEVX => mlx5_ib_devx_methods::name,
        MLX5_IB_OBJECT_DEVX_OBJ => mlx5_ib_devx_obj_methods::name,
        MLX5_IB_OBJECT_DEVX_UMEM => mlx5_ib_devx_umem_methods::name,
        MLX5_IB_OBJECT_FLOW_MATCHER => mlx5_ib_flow_matcher_methods::name,
        MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD => mlx5_ib_devx_async_cmd_fd_methods::name,
        MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD => mlx5_ib_devx_async_event_fd_methods::name,
        MLX5_IB_OBJECT_VAR => mlx5_ib_var_obj_methods::name,
        MLX5_IB_OBJECT_PP => mlx5_ib_pp_obj_methods::name,
        MLX5_IB_OBJECT_UAR => mlx5_ib_uar_obj_methods::name,
        MLX5_IB_OBJECT_STEERING_ANCHOR => mlx5_ib_steering_anchor_methods::name,
        UVERBS_OBJECT_DEVICE => mlx5_ib_device_methods::name,
        UVERBS_OBJECT_PD => mlx5_ib_pd_methods::name,
        UVERBS_OBJECT_DM => mlx5_ib_dm_methods::name,
        UVERBS_OBJECT_FLOW => mlx5_ib_flow_methods::name,
        UVERBS_OBJECT_FLOW_ACTION => mlx5_ib_flow_action_methods::name,
        _ => return None,
    };
    name(method)
}

pub(super) fn attribute(object: u16, method: u16, attribute: u16) -> Option<&'static str> {
    let name = match (object, method) {
        (MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER) => mlx5_ib_devx_other_attrs::name,
        (MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_UAR) => mlx5_ib_devx_query_uar_attrs::name,
        (MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_EQN) => mlx5_ib_devx_query_eqn_attrs::name,
        (MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT) => {
            mlx5_ib_devx_subscribe_event_attrs::name
        }
        (MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE) => {
            mlx5_ib_devx_obj_create_attrs::name
        }
        (MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY) => {
            mlx5_ib_devx_obj_destroy_attrs::name
        }
        (MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY) => {
            mlx5_ib_devx_obj_modify_attrs::name
        }
        (MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY) => {
            mlx5_ib_devx_obj_query_attrs::name
        }
        (MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY) => {
            mlx5_ib_devx_obj_query_async_attrs::name
        }
        (MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG) => {
            mlx5_ib_devx_umem_reg_attrs::name
        }
        (MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG) => {
            mlx5_ib_devx_umem_dereg_attrs::name
        }
        (MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE) => {
            mlx5_ib_flow_matcher_create_attrs::name
        }
        (MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY) => {
            mlx5_ib_flow_matcher_destroy_attrs::name
        }
        (MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD, MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC) => {
            mlx5_ib_devx_async_cmd_fd_alloc_attrs::name
        }
        (MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC) => {
            mlx5_ib_devx_async_event_fd_alloc_attrs::name
        }
        (MLX5_IB_OBJECT_VAR, MLX5_IB_METHOD_VAR_OBJ_ALLOC) => mlx5_ib_var_alloc_attrs::name,
        (MLX5_IB_OBJECT_VAR, MLX5_IB_METHOD_VAR_OBJ_DESTROY) => mlx5_ib_var_obj_destroy_attrs::name,
        (MLX5_IB_OBJECT_PP, MLX5_IB_METHOD_PP_OBJ_ALLOC) => mlx5_ib_pp_alloc_attrs::name,
        (MLX5_IB_OBJECT_PP, MLX5_IB_METHOD_PP_OBJ_DESTROY) => mlx5_ib_pp_obj_destroy_attrs::name,
        (MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC) => mlx5_ib_uar_alloc_attrs::name,
        (MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY) => mlx5_ib_uar_obj_destroy_attrs::name,
        (MLX5_IB_OBJECT_STEERING_ANCHOR, MLX5_IB_METHOD_STEERING_ANCHOR_CREATE) => {
            mlx5_ib_flow_steering_anchor_create_attrs::name
        }
        (MLX5_IB_OBJECT_STEERING_ANCHOR, MLX5_IB_METHOD_STEERING_ANCHOR_DESTROY) => {
            mlx5_ib_flow_steering_anchor_destroy_attrs::name
        }
        (UVERBS_OBJECT_DEVICE, MLX5_IB_METHOD_QUERY_PORT) => mlx5_ib_query_port_attrs::name,
        (UVERBS_OBJECT_DEVICE, MLX5_IB_METHOD_GET_DATA_DIRECT_SYSFS_PATH) => {
            mlx5_ib_get_data_direct_sysfs_path_attrs::name
        }
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT) => {
            mlx5_ib_device_query_context_attrs::name
        }
        (UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY) => mlx5_ib_query_pd_attrs::name,
        (UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_MAP_OP_ADDR) => mlx5_ib_dm_map_op_addr_attrs::name,
        (UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_QUERY) => mlx5_ib_query_dm_attrs::name,
        (UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC) => mlx5_ib_alloc_dm_attrs::name,
        (UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW) => mlx5_ib_create_flow_attrs::name,
        (UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_DESTROY_FLOW) => mlx5_ib_destroy_flow_attrs::name,
        (UVERBS_OBJECT_FLOW_ACTION, MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER) => {
            mlx5_ib_create_flow_action_create_modify_header_attrs::name
        }
        (UVERBS_OBJECT_FLOW_ACTION, MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT) => {
            mlx5_ib_create_flow_action_create_packet_reformat_attrs::name
        }
        (UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_ESP_CREATE) => {
            mlx5_ib_create_flow_action_attrs::name
        }
        (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE) => mlx5_ib_create_cq_attrs::name,
        (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE) => mlx5_ib_create_qp_attrs::name,
        (UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE) => mlx5_ib_create_srq_attrs::name,
        (UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR) => mlx5_ib_reg_dmabuf_mr_attrs::name,
        _ => return None,
    };
    name(attribute)
}
