//! The kernel's structs of what C programs read themselves: events, and the attributes of a queue
//! pair.

pub use uverbs_uapi::ib_user_verbs::{ib_uverbs_ah_attr, ib_uverbs_qp_attr};
pub use uverbs_uapi::rdma_user_cm::{
    RDMA_MAX_PRIVATE_DATA, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_cmd_hdr, rdma_ucm_conn_param,
    rdma_ucm_event_resp, rdma_ucm_get_event, rdma_ucm_ud_param,
};
