//! Devices and opened devices.

use std::ffi::{c_char, c_int, c_void};

use super::structs;
use crate::wait::Mutex;

/// A pointer to a function that headers call.
pub type Slot = *const c_void;

structs! {
    pub const DEVICES;
    struct ibv_device {
        _ops: [Slot; 2],
        node_type: c_int,
        transport_type: c_int,
        name: [c_char; 64],
        dev_name: [c_char; 64],
        dev_path: [c_char; 256],
        ibdev_path: [c_char; 256],
    }
    struct ibv_context {
        device: *mut ibv_device,
        ops: [Slot; 32],
        cmd_fd: c_int,
        async_fd: c_int,
        num_comp_vectors: c_int,
        mutex: Mutex,
        abi_compat: *mut c_void,
    }
    /// With the slots of the newest header in front of those that older ones know.
    struct verbs_context {
        free_buf: Slot,
        alloc_buf: Slot,
        dm_export_dmabuf_fd: Slot,
        reg_mr_ex: Slot,
        dealloc_dmah: Slot,
        alloc_dmah: Slot,
        query_port: Slot,
        advise_mr: Slot,
        alloc_null_mr: Slot,
        read_counters: Slot,
        attach_counters_point_flow: Slot,
        create_counters: Slot,
        destroy_counters: Slot,
        reg_dm_mr: Slot,
        alloc_dm: Slot,
        free_dm: Slot,
        modify_flow_action_esp: Slot,
        destroy_flow_action: Slot,
        create_flow_action_esp: Slot,
        modify_qp_rate_limit: Slot,
        alloc_parent_domain: Slot,
        dealloc_td: Slot,
        alloc_td: Slot,
        modify_cq: Slot,
        post_srq_ops: Slot,
        destroy_rwq_ind_table: Slot,
        create_rwq_ind_table: Slot,
        destroy_wq: Slot,
        modify_wq: Slot,
        create_wq: Slot,
        query_rt_values: Slot,
        create_cq_ex: Slot,
        r#priv: Slot,
        query_device_ex: Slot,
        ibv_destroy_flow: Slot,
        ABI_placeholder2: Slot,
        ibv_create_flow: Slot,
        ABI_placeholder1: Slot,
        open_qp: Slot,
        create_qp_ex: Slot,
        get_srq_num: Slot,
        create_srq_ex: Slot,
        open_xrcd: Slot,
        close_xrcd: Slot,
        _ABI_placeholder3: u64,
        sz: usize,
        context: ibv_context,
    }
    #[derive(Clone, Copy)]
    struct ibv_device_attr {
        fw_ver: [c_char; 64],
        node_guid: u64,
        sys_image_guid: u64,
        max_mr_size: u64,
        page_size_cap: u64,
        vendor_id: u32,
        vendor_part_id: u32,
        hw_ver: u32,
        max_qp: c_int,
        max_qp_wr: c_int,
        device_cap_flags: u32,
        max_sge: c_int,
        max_sge_rd: c_int,
        max_cq: c_int,
        max_cqe: c_int,
        max_mr: c_int,
        max_pd: c_int,
        max_qp_rd_atom: c_int,
        max_ee_rd_atom: c_int,
        max_res_rd_atom: c_int,
        max_qp_init_rd_atom: c_int,
        max_ee_init_rd_atom: c_int,
        atomic_cap: u32,
        max_ee: c_int,
        max_rdd: c_int,
        max_mw: c_int,
        max_raw_ipv6_qp: c_int,
        max_raw_ethy_qp: c_int,
        max_mcast_grp: c_int,
        max_mcast_qp_attach: c_int,
        max_total_mcast_qp_attach: c_int,
        max_ah: c_int,
        max_fmr: c_int,
        max_map_per_fmr: c_int,
        max_srq: c_int,
        max_srq_wr: c_int,
        max_srq_sge: c_int,
        max_pkeys: u16,
        local_ca_ack_delay: u8,
        phys_port_cnt: u8,
    }
    #[derive(Default)]
    struct ibv_odp_caps {
        general_caps: u64,
        per_transport_caps: [u32; 3],
    }
    #[derive(Default)]
    struct ibv_tso_caps {
        max_tso: u32,
        supported_qpts: u32,
    }
    #[derive(Default)]
    struct ibv_rss_caps {
        supported_qpts: u32,
        max_rwq_indirection_tables: u32,
        max_rwq_indirection_table_size: u32,
        rx_hash_fields_mask: u64,
        rx_hash_function: u8,
    }
    #[derive(Default)]
    struct ibv_packet_pacing_caps {
        qp_rate_limit_min: u32,
        qp_rate_limit_max: u32,
        supported_qpts: u32,
    }
    #[derive(Default)]
    struct ibv_tm_caps {
        max_rndv_hdr_size: u32,
        max_num_tags: u32,
        flags: u32,
        max_ops: u32,
        max_sge: u32,
    }
    #[derive(Default)]
    struct ibv_cq_moderation_caps {
        max_cq_count: u16,
        max_cq_period: u16,
    }
    #[derive(Default)]
    struct ibv_pci_atomic_caps {
        fetch_add: u16,
        swap: u16,
        compare_swap: u16,
    }
    struct ibv_device_attr_ex {
        orig_attr: ibv_device_attr,
        comp_mask: u32,
        odp_caps: ibv_odp_caps,
        completion_timestamp_mask: u64,
        hca_core_clock: u64,
        device_cap_flags_ex: u64,
        tso_caps: ibv_tso_caps,
        rss_caps: ibv_rss_caps,
        max_wq_type_rq: u32,
        packet_pacing_caps: ibv_packet_pacing_caps,
        raw_packet_caps: u32,
        tm_caps: ibv_tm_caps,
        cq_mod_caps: ibv_cq_moderation_caps,
        max_dm_size: u64,
        pci_atomic_caps: ibv_pci_atomic_caps,
        xrc_odp_caps: u32,
        phys_port_cnt_ex: u32,
    }
    struct ibv_port_attr {
        state: u32,
        max_mtu: u32,
        active_mtu: u32,
        gid_tbl_len: c_int,
        port_cap_flags: u32,
        max_msg_sz: u32,
        bad_pkey_cntr: u32,
        qkey_viol_cntr: u32,
        pkey_tbl_len: u16,
        lid: u16,
        sm_lid: u16,
        lmc: u8,
        max_vl_num: u8,
        sm_sl: u8,
        subnet_timeout: u8,
        init_type_reply: u8,
        active_width: u8,
        active_speed: u8,
        phys_state: u8,
        link_layer: u8,
        flags: u8,
        port_cap_flags2: u16,
        active_speed_ex: u32,
    }
    #[derive(Clone, Copy)]
    struct ibv_gid_entry {
        gid: ibv_gid,
        gid_index: u32,
        port_num: u32,
        gid_type: u32,
        ndev_ifindex: u32,
    }
}

/// `union ibv_gid`, which has words of 8 bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C, align(8))]
pub struct ibv_gid {
    pub raw: [u8; 16],
}
