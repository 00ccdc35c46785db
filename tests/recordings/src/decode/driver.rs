//! Driver data: the structs of each driver's header.

use uverbs_uapi::ib_user_ioctl_verbs::{RDMA_DRIVER_MLX5, RDMA_DRIVER_RXE};

use super::Field;
use super::values::{self, Value};

/// The fields of driver data. Data without a known struct is shown as bytes.
pub(super) fn fields(driver: u32, command: &str, out: bool, bytes: &[u8]) -> Vec<Field> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let layout = match driver {
        RDMA_DRIVER_RXE => rxe(command, out),
        RDMA_DRIVER_MLX5 => mlx5(command, out),
        _ => None,
    };
    let Some(mut fields) = layout.and_then(|name| values::of_struct(name, bytes, out)) else {
        return vec![Field {
            name: if out { "UHW_OUT" } else { "UHW_IN" }.to_owned(),
            out,
            value: Value::Bytes(bytes.to_vec()),
        }];
    };
    for field in &mut fields {
        field.name = format!("uhw.{}", field.name);
    }
    fields
}

fn rxe(command: &str, out: bool) -> Option<&'static str> {
    Some(match (command, out) {
        ("CREATE_AH", true) => "rxe_create_ah_resp",
        ("CREATE_CQ" | "EX_CREATE_CQ" | "CQ_CREATE", true) => "rxe_create_cq_resp",
        ("RESIZE_CQ", true) => "rxe_resize_cq_resp",
        ("CREATE_QP" | "EX_CREATE_QP" | "QP_CREATE", true) => "rxe_create_qp_resp",
        ("CREATE_SRQ" | "SRQ_CREATE", true) => "rxe_create_srq_resp",
        ("MODIFY_SRQ", false) => "rxe_modify_srq_cmd",
        _ => return None,
    })
}

fn mlx5(command: &str, out: bool) -> Option<&'static str> {
    Some(match (command, out) {
        ("GET_CONTEXT", false) => "mlx5_ib_alloc_ucontext_req_v2",
        ("GET_CONTEXT" | "QUERY_CONTEXT", true) => "mlx5_ib_alloc_ucontext_resp",
        ("ALLOC_PD", true) => "mlx5_ib_alloc_pd_resp",
        ("CREATE_AH", true) => "mlx5_ib_create_ah_resp",
        ("CREATE_CQ" | "EX_CREATE_CQ" | "CQ_CREATE", false) => "mlx5_ib_create_cq",
        ("CREATE_CQ" | "EX_CREATE_CQ" | "CQ_CREATE", true) => "mlx5_ib_create_cq_resp",
        ("RESIZE_CQ", false) => "mlx5_ib_resize_cq",
        ("CREATE_SRQ" | "SRQ_CREATE", false) => "mlx5_ib_create_srq",
        ("CREATE_SRQ" | "SRQ_CREATE", true) => "mlx5_ib_create_srq_resp",
        ("CREATE_QP" | "EX_CREATE_QP" | "QP_CREATE", false) => "mlx5_ib_create_qp",
        ("CREATE_QP" | "EX_CREATE_QP" | "QP_CREATE" | "QP_CREATE/RSS", true) => {
            "mlx5_ib_create_qp_resp"
        }
        ("QP_CREATE/RSS", false) => "mlx5_ib_create_qp_rss",
        ("EX_MODIFY_QP", false) => "mlx5_ib_modify_qp",
        ("EX_MODIFY_QP", true) => "mlx5_ib_modify_qp_resp",
        ("EX_QUERY_DEVICE", true) => "mlx5_ib_query_device_resp",
        ("EX_CREATE_WQ" | "WQ_CREATE", false) => "mlx5_ib_create_wq",
        ("EX_CREATE_WQ" | "WQ_CREATE", true) => "mlx5_ib_create_wq_resp",
        ("EX_CREATE_RWQ_IND_TBL", true) => "mlx5_ib_create_rwq_ind_tbl_resp",
        ("EX_MODIFY_WQ", false) => "mlx5_ib_modify_wq",
        ("ALLOC_MW", false) => "mlx5_ib_alloc_mw",
        _ => return None,
    })
}
