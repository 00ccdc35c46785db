//! The names of a command's object, method and attributes, for printing commands.
//!
//! Every function returns `None` for a number without a name.

#![allow(clippy::wildcard_imports, reason = "nearly every name of two modules")]

use crate::ib_user_ioctl_cmds as core_ids;
use crate::ib_user_ioctl_verbs::{RDMA_DRIVER_MLX5, rdma_driver_id};
use crate::ib_user_verbs::{ib_uverbs_ex_write_cmds, ib_uverbs_write_cmds};
use crate::rdma_user_cm::rdma_ucm_cmd;

mod mlx5;

/// The name of an object; ids of the driver namespace are looked up for `driver_id`.
pub fn object(id: u16, driver_id: u32) -> Option<&'static str> {
    core_ids::uverbs_default_objects::name(id).or_else(|| match driver_id {
        RDMA_DRIVER_MLX5 => mlx5::object(id),
        _ => None,
    })
}

/// The name of a method of an object.
pub fn method(object: u16, method: u16, driver_id: u32) -> Option<&'static str> {
    core_method(object, method).or_else(|| match driver_id {
        RDMA_DRIVER_MLX5 => mlx5::method(object, method),
        _ => None,
    })
}

/// The name of an attribute of a method.
///
/// In the driver namespace the driver's own attribute comes before
/// [`UVERBS_ATTR_UHW_IN`](core_ids::UVERBS_ATTR_UHW_IN) and
/// [`UVERBS_ATTR_UHW_OUT`](core_ids::UVERBS_ATTR_UHW_OUT): no method has both under one id.
pub fn attribute(object: u16, method: u16, attribute: u16, driver_id: u32) -> Option<&'static str> {
    core_attribute(object, method, attribute)
        .or_else(|| match driver_id {
            RDMA_DRIVER_MLX5 => mlx5::attribute(object, method, attribute),
            _ => None,
        })
        .or(match attribute {
            core_ids::UVERBS_ATTR_UHW_IN => Some("UVERBS_ATTR_UHW_IN"),
            core_ids::UVERBS_ATTR_UHW_OUT => Some("UVERBS_ATTR_UHW_OUT"),
            _ => None,
        })
}

/// The name of a write command, by its number without flags.
pub fn write_command(command: u32, extended: bool) -> Option<&'static str> {
    if extended {
        ib_uverbs_ex_write_cmds::name(command)
    } else {
        ib_uverbs_write_cmds::name(command)
    }
}

/// The name of a command of the connection manager.
pub fn cm_command(command: u32) -> Option<&'static str> {
    rdma_ucm_cmd::name(command)
}

/// The name of a driver.
pub fn driver(id: u32) -> Option<&'static str> {
    rdma_driver_id::name(id)
}

fn core_method(object: u16, method: u16) -> Option<&'static str> {
    use core_ids::*;
    match object {
        UVERBS_OBJECT_DEVICE => uverbs_methods_device::name(method),
        UVERBS_OBJECT_PD => uverbs_methods_pd::name(method),
        UVERBS_OBJECT_CQ => uverbs_methods_cq::name(method),
        UVERBS_OBJECT_QP => uverbs_methods_qp::name(method),
        UVERBS_OBJECT_SRQ => uverbs_methods_srq::name(method),
        UVERBS_OBJECT_AH => uverbs_methods_ah::name(method),
        UVERBS_OBJECT_MR => uverbs_methods_mr::name(method),
        UVERBS_OBJECT_MW => uverbs_methods_mw::name(method),
        UVERBS_OBJECT_FLOW => uverbs_methods_flow::name(method),
        UVERBS_OBJECT_XRCD => uverbs_methods_xrcd::name(method),
        UVERBS_OBJECT_RWQ_IND_TBL => uverbs_methods_rwq_ind_tbl::name(method),
        UVERBS_OBJECT_WQ => uverbs_methods_wq::name(method),
        UVERBS_OBJECT_FLOW_ACTION => uverbs_methods_actions_flow_action_ops::name(method),
        UVERBS_OBJECT_DM => uverbs_methods_dm::name(method),
        UVERBS_OBJECT_COUNTERS => uverbs_methods_actions_counters_ops::name(method),
        UVERBS_OBJECT_ASYNC_EVENT => uverbs_method_async_event::name(method),
        UVERBS_OBJECT_DMAH => uverbs_methods_dmah::name(method),
        UVERBS_OBJECT_DMABUF => uverbs_methods_dmabuf::name(method),
        UVERBS_OBJECT_COMP_CNTR => uverbs_methods_comp_cntr::name(method),
        _ => None,
    }
}

#[expect(clippy::too_many_lines, reason = "a table, one line per method")]
fn core_attribute(object: u16, method: u16, attribute: u16) -> Option<&'static str> {
    use core_ids::*;
    let name = match (object, method) {
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE) => {
            uverbs_attrs_invoke_write_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES) => uverbs_attrs_info_handles_id::name,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT) => {
            uverbs_attrs_query_port_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT) => {
            uverbs_attrs_get_context_attr_ids::name
        }
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT) => {
            uverbs_attrs_query_context_attr_ids::name
        }
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE) => {
            uverbs_attrs_query_gid_table_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY) => {
            uverbs_attrs_query_gid_entry_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT_SPEED) => {
            uverbs_attrs_query_port_speed_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY) => uverbs_attrs_pd_destroy_ids::name,
        (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE) => uverbs_attrs_create_cq_cmd_attr_ids::name,
        (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY) => uverbs_attrs_destroy_cq_cmd_attr_ids::name,
        (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE) => uverbs_attrs_create_qp_cmd_attr_ids::name,
        (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY) => uverbs_attrs_destroy_qp_cmd_attr_ids::name,
        (UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE) => uverbs_attrs_create_srq_cmd_attr_ids::name,
        (UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY) => {
            uverbs_attrs_destroy_srq_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY) => uverbs_attrs_ah_destroy_ids::name,
        (UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG) => uverbs_attrs_reg_dm_mr_cmd_attr_ids::name,
        (UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY) => uverbs_attrs_mr_destroy_ids::name,
        (UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR) => uverbs_attrs_advise_mr_cmd_attr_ids::name,
        (UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR) => uverbs_attrs_query_mr_cmd_attr_ids::name,
        (UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR) => {
            uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_MR, UVERBS_METHOD_REG_MR) => uverbs_attrs_reg_mr_cmd_attr_ids::name,
        (UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY) => uverbs_attrs_mw_destroy_ids::name,
        (UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY) => uverbs_attrs_flow_destroy_ids::name,
        (UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY) => uverbs_attrs_xrcd_destroy_ids::name,
        (UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_METHOD_RWQ_IND_TBL_DESTROY) => {
            uverbs_attrs_rwq_ind_tbl_destroy_ids::name
        }
        (UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE) => uverbs_attrs_create_wq_cmd_attr_ids::name,
        (UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY) => uverbs_attrs_destroy_wq_cmd_attr_ids::name,
        (UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_ESP_CREATE) => {
            uverbs_attrs_create_flow_action_esp::name
        }
        (UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY) => {
            uverbs_attrs_destroy_flow_action_esp::name
        }
        // All but the handle are those of the create method.
        (UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY) => {
            return uverbs_attrs_modify_flow_action_esp::name(attribute)
                .or_else(|| uverbs_attrs_create_flow_action_esp::name(attribute));
        }
        (UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC) => uverbs_attrs_alloc_dm_cmd_attr_ids::name,
        (UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE) => uverbs_attrs_free_dm_cmd_attr_ids::name,
        (UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE) => {
            uverbs_attrs_create_counters_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY) => {
            uverbs_attrs_destroy_counters_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ) => {
            uverbs_attrs_read_counters_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC) => {
            uverbs_attrs_async_event_create::name
        }
        (UVERBS_OBJECT_DMAH, UVERBS_METHOD_DMAH_ALLOC) => {
            uverbs_attrs_alloc_dmah_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_DMAH, UVERBS_METHOD_DMAH_FREE) => uverbs_attrs_free_dmah_cmd_attr_ids::name,
        (UVERBS_OBJECT_DMABUF, UVERBS_METHOD_DMABUF_ALLOC) => {
            uverbs_attrs_alloc_dmabuf_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_COMP_CNTR_CAPS) => {
            uverbs_attrs_query_comp_cntr_caps_attr_ids::name
        }
        (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_ATTACH_COMP_CNTR) => {
            uverbs_attrs_qp_attach_comp_cntr_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_CREATE) => {
            uverbs_attrs_create_comp_cntr_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_DESTROY) => {
            uverbs_attrs_destroy_comp_cntr_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_MODIFY) => {
            uverbs_attrs_modify_comp_cntr_cmd_attr_ids::name
        }
        (UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_READ) => {
            uverbs_attrs_read_comp_cntr_cmd_attr_ids::name
        }
        _ => return None,
    };
    name(attribute)
}
