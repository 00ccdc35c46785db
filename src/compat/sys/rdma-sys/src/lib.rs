//! The declarations of libibverbs and librdmacm that the crate `async-rdma` 0.5 is built with,
//! under the names of `rdma-sys` 0.3 and without C: their functions are those of `uverbs-compat`
//! and `uverbs-compat-cm`.
//!
//! ```toml
//! [patch.crates-io]
//! rdma-sys = { git = "https://github.com/uverbs/uverbs" }
//! ```
//!
//! `docs/guide/sys-crates.md` says what works.
//!
//! `rdma-mummy-sys` is newer and has the same declarations, from the same headers. Here is what it
//! has otherwise.

mod functions;

pub use rdma_mummy_sys::*;
// What is named here comes before what `*` has.
pub use functions::{
    __ibv_reg_mr, __ibv_reg_mr_iova, ibv_alloc_dm, ibv_alloc_mw, ibv_alloc_null_mr,
    ibv_alloc_parent_domain, ibv_alloc_td, ibv_create_counters, ibv_create_cq_ex, ibv_create_flow,
    ibv_create_flow_action_esp, ibv_create_qp_ex, ibv_create_rwq_ind_table, ibv_create_srq_ex,
    ibv_create_wq, ibv_open_qp, ibv_open_xrcd, ibv_reg_dm_mr, rdma_create_srq, rdma_create_srq_ex,
    rdma_destroy_srq,
};
pub use rdma_mummy_sys::{
    ibv_get_device_list as __ibv_get_device_list, ibv_query_port as ___ibv_query_port,
    ibv_query_port_compat as ibv_query_port,
};
