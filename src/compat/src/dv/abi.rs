//! The structs of `infiniband/mlx5dv.h`, with their names there.
#![allow(
    clippy::struct_field_names,
    non_camel_case_types,
    reason = "the names of the header"
)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use crate::abi::{
    Slot, ibv_ah, ibv_context, ibv_cq, ibv_dm, ibv_pd, ibv_qp, ibv_srq, ibv_wq, structs,
};

structs! {
    pub(crate) const VENDOR;
    struct mlx5dv_cqe_comp_caps {
        max_num: u32,
        supported_format: u32,
    }
    struct mlx5dv_sw_parsing_caps {
        sw_parsing_offloads: u32,
        supported_qpts: u32,
    }
    struct mlx5dv_striding_rq_caps {
        min_single_stride_log_num_of_bytes: u32,
        max_single_stride_log_num_of_bytes: u32,
        min_single_wqe_log_num_of_strides: u32,
        max_single_wqe_log_num_of_strides: u32,
        supported_qpts: u32,
    }
    struct mlx5dv_sig_caps {
        block_size: u64,
        block_prot: u32,
        t10dif_bg: u16,
        crc_type: u16,
    }
    struct mlx5dv_dci_streams_caps {
        max_log_num_concurent: u8,
        max_log_num_errored: u8,
    }
    struct mlx5dv_crypto_caps {
        failed_selftests: u16,
        crypto_engines: u8,
        wrapped_import_method: u8,
        log_max_num_deks: u8,
        flags: u32,
    }
    struct mlx5dv_crypto_login_attr {
        credential_id: u32,
        import_kek_id: u32,
        credential: [u8; 48],
        comp_mask: u64,
    }
    struct mlx5dv_crypto_login_attr_ex {
        credential_id: u32,
        import_kek_id: u32,
        credential: *const c_void,
        credential_len: usize,
        comp_mask: u64,
    }
    struct mlx5dv_crypto_login_query_attr {
        state: u32,
        comp_mask: u64,
    }
    /// With the login that C knows the address of only.
    struct mlx5dv_dek_init_attr {
        key_size: u32,
        has_keytag: u8,
        key_purpose: u32,
        pd: *mut ibv_pd,
        opaque: [u8; 8],
        key: [u8; 128],
        comp_mask: u64,
        crypto_login: *mut mlx5dv_crypto_login_obj,
    }
    struct mlx5dv_dek_attr {
        state: u32,
        opaque: [u8; 8],
        comp_mask: u64,
    }
    struct mlx5dv_reg {
        value: u32,
        mask: u32,
    }
    struct mlx5dv_ooo_recv_wrs_caps {
        max_rc: u32,
        max_xrc: u32,
        max_dct: u32,
        max_ud: u32,
        max_uc: u32,
    }
    struct ibv_flow_action {
        context: *mut ibv_context,
    }
    struct mlx5dv_context_attr {
        flags: u32,
        comp_mask: u64,
    }
    struct mlx5dv_mkey {
        lkey: Cell<u32>,
        rkey: Cell<u32>,
    }
    struct mlx5dv_mkey_init_attr {
        pd: *mut ibv_pd,
        create_flags: u32,
        max_entries: u16,
    }
    struct mlx5dv_mkey_conf_attr {
        conf_flags: u32,
        comp_mask: u64,
    }
    struct mlx5dv_mr_interleaved {
        addr: u64,
        bytes_count: u32,
        bytes_skip: u32,
        lkey: u32,
    }
    struct mlx5dv_sig_t10dif {
        bg_type: u32,
        bg: u16,
        app_tag: u16,
        ref_tag: u32,
        flags: u16,
    }
    struct mlx5dv_sig_crc {
        r#type: u32,
        seed: u64,
    }
    /// With the struct of its type.
    struct mlx5dv_sig_block_domain {
        sig_type: u32,
        sig: *const c_void,
        block_size: u32,
        comp_mask: u64,
    }
    struct mlx5dv_sig_block_attr {
        mem: *const mlx5dv_sig_block_domain,
        wire: *const mlx5dv_sig_block_domain,
        flags: u32,
        check_mask: u8,
        copy_mask: u8,
        comp_mask: u64,
    }
    struct mlx5dv_crypto_attr {
        crypto_standard: u32,
        encrypt_on_tx: u8,
        signature_crypto_order: u32,
        data_unit_size: u32,
        initial_tweak: [u8; 16],
        dek: *mut mlx5dv_dek,
        keytag: [u8; 8],
        comp_mask: u64,
    }
    struct mlx5dv_sig_err {
        actual_value: u64,
        expected_value: u64,
        offset: u64,
    }
    struct mlx5dv_mkey_err {
        err_type: u32,
        err: mlx5dv_sig_err,
    }
    struct mlx5dv_devx_umem {
        umem_id: u32,
    }
    struct mlx5dv_devx_umem_in {
        addr: *mut c_void,
        size: usize,
        access: u32,
        pgsz_bitmap: u64,
        comp_mask: u64,
        dmabuf_fd: c_int,
    }
    struct mlx5dv_devx_uar {
        reg_addr: *mut c_void,
        base_addr: *mut c_void,
        page_id: u32,
        mmap_off: i64,
        comp_mask: u64,
    }
    struct mlx5dv_flow_matcher_attr {
        r#type: u32,
        flags: u32,
        priority: u16,
        match_criteria_enable: u8,
        match_mask: *mut c_void,
        comp_mask: u64,
        ft_type: u32,
    }
    struct mlx5dv_steering_anchor_attr {
        ft_type: u32,
        priority: u16,
        comp_mask: u64,
    }
    struct mlx5dv_steering_anchor {
        id: u32,
    }
    struct mlx5dv_devx_cmd_comp {
        fd: c_int,
    }
    struct mlx5dv_devx_event_channel {
        fd: c_int,
    }
    struct mlx5dv_var {
        page_id: u32,
        length: u32,
        mmap_off: i64,
        comp_mask: u64,
    }
    struct mlx5dv_pp {
        index: u16,
    }
    struct mlx5dv_pd {
        pdn: u32,
        comp_mask: u64,
    }
    struct mlx5dv_devx {
        handle: u32,
    }
    struct mlx5dv_qp {
        dbrec: *mut c_void,
        sq: Ring,
        rq: Ring,
        bf: Doorbell,
        comp_mask: u64,
        uar_mmap_offset: i64,
        tirn: u32,
        tisn: u32,
        rqn: u32,
        sqn: u32,
        tir_icm_addr: u64,
    }
    struct mlx5dv_cq {
        buf: *mut c_void,
        dbrec: *mut c_void,
        cqe_cnt: u32,
        cqe_size: u32,
        cq_uar: *mut c_void,
        cqn: u32,
        comp_mask: u64,
    }
    struct mlx5dv_srq {
        buf: *mut c_void,
        dbrec: *mut c_void,
        stride: u32,
        head: u32,
        tail: u32,
        comp_mask: u64,
        srqn: u32,
    }
    struct mlx5dv_rwq {
        buf: *mut c_void,
        dbrec: *mut c_void,
        wqe_cnt: u32,
        stride: u32,
        comp_mask: u64,
    }
    struct mlx5dv_dm {
        buf: *mut c_void,
        length: u64,
        comp_mask: u64,
        remote_va: u64,
    }
    struct mlx5dv_alloc_dm_attr {
        r#type: u32,
        comp_mask: u64,
    }
    struct mlx5dv_ah {
        av: *mut c_void,
        comp_mask: u64,
    }
    struct mlx5dv_obj {
        qp: Asked<ibv_qp, mlx5dv_qp>,
        cq: Asked<ibv_cq, mlx5dv_cq>,
        srq: Asked<ibv_srq, mlx5dv_srq>,
        rwq: Asked<ibv_wq, mlx5dv_rwq>,
        dm: Asked<ibv_dm, mlx5dv_dm>,
        ah: Asked<ibv_ah, mlx5dv_ah>,
        pd: Asked<ibv_pd, mlx5dv_pd>,
        devx: Asked<mlx5dv_devx_obj, mlx5dv_devx>,
    }
    #[derive(Clone, Copy)]
    struct mlx5dv_qp_ex {
        comp_mask: u64,
        wr_set_dc_addr: Slot,
        wr_mr_interleaved: Slot,
        wr_mr_list: Slot,
        wr_mkey_configure: Slot,
        wr_set_mkey_access_flags: Slot,
        wr_set_mkey_layout_list: Slot,
        wr_set_mkey_layout_interleaved: Slot,
        wr_set_mkey_sig_block: Slot,
        wr_raw_wqe: Slot,
        wr_set_dc_addr_stream: Slot,
        wr_memcpy: Slot,
        wr_set_mkey_crypto: Slot,
    }
    struct mlx5dv_dc_init_attr {
        dc_type: u32,
        dct_access_key: u64,
    }
    struct mlx5dv_qp_init_attr {
        comp_mask: u64,
        create_flags: u32,
        dc_init_attr: mlx5dv_dc_init_attr,
        send_ops_flags: u64,
    }
    #[derive(Default)]
    struct mlx5dv_cq_init_attr {
        comp_mask: u64,
        cqe_comp_res_format: u8,
        flags: u32,
        cqe_size: u16,
    }
    struct mlx5dv_sched_attr {
        parent: *mut mlx5dv_sched_node,
        flags: u32,
        bw_share: u32,
        max_avg_bw: u32,
        comp_mask: u64,
    }
    struct mlx5dv_port {
        flags: u64,
        vport: u16,
        vport_vhca_id: u16,
        esw_owner_vhca_id: u16,
        rsvd0: u16,
        vport_steering_icm_rx: u64,
        vport_steering_icm_tx: u64,
        reg_c0: mlx5dv_reg,
    }
    struct mlx5dv_clock_info {
        nsec: u64,
        last_cycles: u64,
        frac: u64,
        mult: u32,
        shift: u32,
        mask: u64,
    }
    struct mlx5dv_context {
        version: u8,
        flags: u64,
        comp_mask: u64,
        cqe_comp_caps: mlx5dv_cqe_comp_caps,
        sw_parsing_caps: mlx5dv_sw_parsing_caps,
        striding_rq_caps: mlx5dv_striding_rq_caps,
        tunnel_offloads_caps: u32,
        max_dynamic_bfregs: u32,
        max_clock_info_update_nsec: u64,
        flow_action_flags: u32,
        dc_odp_caps: u32,
        hca_core_clock: *mut c_void,
        num_lag_ports: u8,
        sig_caps: mlx5dv_sig_caps,
        dci_streams_caps: mlx5dv_dci_streams_caps,
        max_wr_memcpy_length: usize,
        crypto_caps: mlx5dv_crypto_caps,
        max_dc_rd_atom: u64,
        max_dc_init_rd_atom: u64,
        reg_c0: mlx5dv_reg,
        ooo_recv_wrs_caps: mlx5dv_ooo_recv_wrs_caps,
    }
}

/// The unnamed struct of a ring.
#[repr(C)]
pub(crate) struct Ring {
    pub(crate) buf: *mut c_void,
    pub(crate) wqe_cnt: u32,
    pub(crate) stride: u32,
}

/// The unnamed struct of a doorbell.
#[repr(C)]
pub(crate) struct Doorbell {
    pub(crate) reg: *mut c_void,
    pub(crate) size: u32,
}

/// The unnamed struct of an object, and of what is asked about it.
#[repr(C)]
pub(crate) struct Asked<O, A> {
    pub(crate) r#in: *mut O,
    pub(crate) out: *mut A,
}

/// Defines what C knows only by its address.
macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[derive(Default)]
        #[repr(C)]
        pub(crate) struct $name {
            opaque: u8,
        }
    )*};
}

opaque! {
    mlx5dv_crypto_login_obj
    mlx5dv_dek
    mlx5dv_devx_obj
    mlx5dv_flow_matcher
    mlx5dv_sched_node
    mlx5dv_sched_leaf
}
