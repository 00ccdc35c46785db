//! All public names of `rdma-sys` 0.3.0: what bindgen makes of Debian's headers by its build
//! script's options, and what its sources declare. Those inside modules come from the same options
//! as here.
#![allow(unused_imports, reason = "that they are there is what is tested")]

use rdma_sys::{
    ___ibv_query_port, __be16, __be32, __be64, __ibv_get_device_list, __ibv_reg_mr,
    __ibv_reg_mr_iova, __u16, __u32, __u64, _compat_ibv_port_attr, _ibv_device_ops,
    IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM, IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP,
    IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE, IBV_DM_MASK_HANDLE, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR,
    IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE, IBV_FORK_DISABLED, IBV_FORK_ENABLED, IBV_FORK_UNNEEDED,
    IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2,
    IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES, IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS,
    IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG, RAI_FAMILY, RAI_NOROUTE, RAI_NUMERICHOST, RAI_PASSIVE,
    RDMA_IB_IP_PORT_MASK, RDMA_IB_IP_PS_MASK, RDMA_IB_IP_PS_TCP, RDMA_IB_IP_PS_UDP, RDMA_IB_PS_IB,
    RDMA_UDP_QKEY, add_t, addr_union_t, atomic_t, bind_mw_t, bind_mw_tso_union_t, dst_addr_union_t,
    hdr_t, ib_uverbs_access_flags, ib_uverbs_advise_mr_advice, ib_uverbs_flow_action_esp,
    ib_uverbs_flow_action_esp_encap, ib_uverbs_flow_action_esp_encap__bindgen_ty_1,
    ib_uverbs_flow_action_esp_encap__bindgen_ty_2, ib_uverbs_flow_action_esp_keymat,
    ib_uverbs_flow_action_esp_replay, ibv_access_flags, ibv_ack_async_event, ibv_ack_cq_events,
    ibv_advise_mr, ibv_advise_mr_advice, ibv_ah, ibv_ah_attr, ibv_alloc_dm, ibv_alloc_dm_attr,
    ibv_alloc_mw, ibv_alloc_null_mr, ibv_alloc_parent_domain, ibv_alloc_pd, ibv_alloc_td,
    ibv_async_event, ibv_async_event__bindgen_ty_1, ibv_async_event_element_t, ibv_atomic_cap,
    ibv_attach_counters_point_flow, ibv_attach_mcast, ibv_bind_mw, ibv_close_device,
    ibv_close_xrcd, ibv_comp_channel, ibv_context, ibv_context_ops, ibv_counter_attach_attr,
    ibv_counter_description, ibv_counters, ibv_counters_init_attr, ibv_cq, ibv_cq_attr_mask,
    ibv_cq_ex, ibv_cq_ex_to_cq, ibv_cq_init_attr_ex, ibv_cq_init_attr_mask, ibv_cq_moderation_caps,
    ibv_create_ah, ibv_create_ah_from_wc, ibv_create_comp_channel, ibv_create_counters,
    ibv_create_cq, ibv_create_cq_attr_flags, ibv_create_cq_ex, ibv_create_cq_wc_flags,
    ibv_create_flow, ibv_create_flow_action_esp, ibv_create_qp, ibv_create_qp_ex,
    ibv_create_rwq_ind_table, ibv_create_srq, ibv_create_srq_ex, ibv_create_wq, ibv_data_buf,
    ibv_dealloc_mw, ibv_dealloc_pd, ibv_dealloc_td, ibv_dereg_mr, ibv_destroy_ah,
    ibv_destroy_comp_channel, ibv_destroy_counters, ibv_destroy_cq, ibv_destroy_flow,
    ibv_destroy_flow_action, ibv_destroy_qp, ibv_destroy_rwq_ind_table, ibv_destroy_srq,
    ibv_destroy_wq, ibv_detach_mcast, ibv_device, ibv_device_attr, ibv_device_attr_ex,
    ibv_device_cap_flags, ibv_dm, ibv_dm_mask, ibv_ece, ibv_end_poll, ibv_event_type,
    ibv_event_type_str, ibv_flow, ibv_flow_action, ibv_flow_action_esp_attr,
    ibv_flow_action_esp_mask, ibv_flow_attr, ibv_flow_attr_type, ibv_flow_esp_filter,
    ibv_flow_eth_filter, ibv_flow_flags, ibv_flow_gre_filter, ibv_flow_ipv4_ext_filter,
    ibv_flow_ipv4_filter, ibv_flow_ipv6_filter, ibv_flow_mpls_filter, ibv_flow_spec,
    ibv_flow_spec__bindgen_ty_1, ibv_flow_spec__bindgen_ty_1__bindgen_ty_1,
    ibv_flow_spec_action_drop, ibv_flow_spec_action_handle, ibv_flow_spec_action_tag,
    ibv_flow_spec_counter_action, ibv_flow_spec_esp, ibv_flow_spec_eth, ibv_flow_spec_gre,
    ibv_flow_spec_ipv4, ibv_flow_spec_ipv4_ext, ibv_flow_spec_ipv6, ibv_flow_spec_mpls,
    ibv_flow_spec_tcp_udp, ibv_flow_spec_tunnel, ibv_flow_spec_type, ibv_flow_spec_union_t,
    ibv_flow_tcp_udp_filter, ibv_flow_tunnel_filter, ibv_fork_init, ibv_fork_status,
    ibv_free_device_list, ibv_free_dm, ibv_get_async_event, ibv_get_cq_event, ibv_get_device_guid,
    ibv_get_device_index, ibv_get_device_list, ibv_get_device_name, ibv_get_pkey_index,
    ibv_get_srq_num, ibv_gid, ibv_gid__bindgen_ty_1, ibv_gid_entry, ibv_gid_global_t, ibv_gid_type,
    ibv_global_route, ibv_grh, ibv_import_device, ibv_import_dm, ibv_import_mr, ibv_import_pd,
    ibv_inc_rkey, ibv_ind_table_init_attr_mask, ibv_init_ah_from_wc, ibv_is_fork_initialized,
    ibv_is_qpt_supported, ibv_memcpy_from_dm, ibv_memcpy_to_dm, ibv_mig_state, ibv_moderate_cq,
    ibv_modify_cq, ibv_modify_cq_attr, ibv_modify_flow_action_esp, ibv_modify_qp,
    ibv_modify_qp_rate_limit, ibv_modify_srq, ibv_modify_wq, ibv_mr, ibv_mtu, ibv_mw, ibv_mw_bind,
    ibv_mw_bind_info, ibv_mw_type, ibv_next_poll, ibv_node_type, ibv_node_type_str, ibv_odp_caps,
    ibv_odp_caps__bindgen_ty_1, ibv_odp_general_caps, ibv_odp_transport_cap_bits, ibv_opcode,
    ibv_open_device, ibv_open_qp, ibv_open_xrcd, ibv_ops_flags, ibv_ops_wr,
    ibv_ops_wr__bindgen_ty_1, ibv_ops_wr__bindgen_ty_1__bindgen_ty_1, ibv_ops_wr_opcode,
    ibv_packet_pacing_caps, ibv_parent_domain_init_attr, ibv_parent_domain_init_attr_mask,
    ibv_path_data, ibv_path_record, ibv_pci_atomic_caps, ibv_pci_atomic_op_size, ibv_pd,
    ibv_placement_type, ibv_poll_cq, ibv_poll_cq_attr, ibv_port_attr, ibv_port_cap_flags,
    ibv_port_cap_flags2, ibv_port_state, ibv_port_state_str, ibv_post_recv, ibv_post_send,
    ibv_post_srq_ops, ibv_post_srq_recv, ibv_post_wq_recv, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask,
    ibv_qp_cap, ibv_qp_create_flags, ibv_qp_create_send_ops_flags, ibv_qp_ex, ibv_qp_init_attr,
    ibv_qp_init_attr_ex, ibv_qp_init_attr_mask, ibv_qp_open_attr, ibv_qp_open_attr_mask,
    ibv_qp_rate_limit_attr, ibv_qp_state, ibv_qp_to_qp_ex, ibv_qp_type, ibv_query_device,
    ibv_query_device_ex, ibv_query_device_ex_input, ibv_query_ece, ibv_query_gid, ibv_query_pkey,
    ibv_query_port, ibv_query_qp, ibv_query_qp_data_in_order, ibv_query_qp_data_in_order_caps,
    ibv_query_qp_data_in_order_flags, ibv_query_rt_values_ex, ibv_query_srq, ibv_rate,
    ibv_rate_to_mbps, ibv_rate_to_mult, ibv_raw_packet_caps, ibv_read_counters,
    ibv_read_counters_flags, ibv_recv_wr, ibv_reg_dm_mr, ibv_reg_dmabuf_mr, ibv_reg_mr,
    ibv_reg_mr_iova, ibv_reg_mr_iova2, ibv_req_notify_cq, ibv_rereg_mr, ibv_rereg_mr_err_code,
    ibv_rereg_mr_flags, ibv_resize_cq, ibv_resolve_eth_l2_from_gid, ibv_rss_caps,
    ibv_rwq_ind_table, ibv_rwq_ind_table_init_attr, ibv_rx_hash_conf, ibv_rx_hash_fields,
    ibv_rx_hash_function_flags, ibv_sa_mcmember_rec, ibv_sa_path_rec, ibv_sa_service_rec,
    ibv_selectivity_level, ibv_send_flags, ibv_send_wr, ibv_send_wr__bindgen_ty_1,
    ibv_send_wr__bindgen_ty_2, ibv_send_wr__bindgen_ty_2__bindgen_ty_1,
    ibv_send_wr__bindgen_ty_2__bindgen_ty_2, ibv_send_wr__bindgen_ty_2__bindgen_ty_3,
    ibv_send_wr__bindgen_ty_3, ibv_send_wr__bindgen_ty_3__bindgen_ty_1, ibv_send_wr__bindgen_ty_4,
    ibv_send_wr__bindgen_ty_4__bindgen_ty_1, ibv_send_wr__bindgen_ty_4__bindgen_ty_2, ibv_set_ece,
    ibv_sge, ibv_srq, ibv_srq_attr, ibv_srq_attr_mask, ibv_srq_init_attr, ibv_srq_init_attr_ex,
    ibv_srq_init_attr_mask, ibv_srq_type, ibv_start_poll, ibv_td, ibv_td_init_attr, ibv_tm_cap,
    ibv_tm_cap_flags, ibv_tm_caps, ibv_transport_type, ibv_tso_caps, ibv_unimport_dm,
    ibv_unimport_mr, ibv_unimport_pd, ibv_values_ex, ibv_values_mask, ibv_wc, ibv_wc__bindgen_ty_1,
    ibv_wc_flags, ibv_wc_opcode, ibv_wc_read_byte_len, ibv_wc_read_completion_ts,
    ibv_wc_read_completion_wallclock_ns, ibv_wc_read_cvlan, ibv_wc_read_dlid_path_bits,
    ibv_wc_read_flow_tag, ibv_wc_read_imm_data, ibv_wc_read_invalidated_rkey, ibv_wc_read_opcode,
    ibv_wc_read_qp_num, ibv_wc_read_sl, ibv_wc_read_slid, ibv_wc_read_src_qp, ibv_wc_read_tm_info,
    ibv_wc_read_vendor_err, ibv_wc_read_wc_flags, ibv_wc_status, ibv_wc_status_str, ibv_wc_tm_info,
    ibv_wq, ibv_wq_attr, ibv_wq_attr_mask, ibv_wq_flags, ibv_wq_init_attr, ibv_wq_init_attr_mask,
    ibv_wq_state, ibv_wq_type, ibv_wr_abort, ibv_wr_atomic_cmp_swp, ibv_wr_atomic_fetch_add,
    ibv_wr_bind_mw, ibv_wr_complete, ibv_wr_local_inv, ibv_wr_opcode, ibv_wr_opcode_str,
    ibv_wr_rdma_read, ibv_wr_rdma_write, ibv_wr_rdma_write_imm, ibv_wr_send, ibv_wr_send_imm,
    ibv_wr_send_inv, ibv_wr_send_tso, ibv_wr_set_inline_data, ibv_wr_set_inline_data_list,
    ibv_wr_set_sge, ibv_wr_set_sge_list, ibv_wr_set_ud_addr, ibv_wr_set_xrc_srqn, ibv_wr_start,
    ibv_xrcd, ibv_xrcd_init_attr, ibv_xrcd_init_attr_mask, imm_data_invalidated_rkey_union_t,
    in_addr, in_addr_t, in_port_t, in6_addr__bindgen_ty_1, param_t, qp_type_t, rdma_accept,
    rdma_ack_cm_event, rdma_addr, rdma_addr__bindgen_ty_1, rdma_addr__bindgen_ty_2,
    rdma_addr__bindgen_ty_3, rdma_addrinfo, rdma_bind_addr, rdma_cm_event,
    rdma_cm_event__bindgen_ty_1, rdma_cm_event_type, rdma_cm_id, rdma_cm_join_mc_attr_ex,
    rdma_cm_join_mc_attr_mask, rdma_cm_mc_join_flags, rdma_conn_param, rdma_connect,
    rdma_create_ep, rdma_create_event_channel, rdma_create_id, rdma_create_qp, rdma_create_qp_ex,
    rdma_create_srq, rdma_create_srq_ex, rdma_dereg_mr, rdma_destroy_ep,
    rdma_destroy_event_channel, rdma_destroy_id, rdma_destroy_qp, rdma_destroy_srq,
    rdma_disconnect, rdma_driver_id, rdma_establish, rdma_event_channel, rdma_event_str,
    rdma_free_devices, rdma_freeaddrinfo, rdma_get_cm_event, rdma_get_devices, rdma_get_dst_port,
    rdma_get_local_addr, rdma_get_peer_addr, rdma_get_recv_comp, rdma_get_remote_ece,
    rdma_get_request, rdma_get_send_comp, rdma_get_src_port, rdma_getaddrinfo, rdma_ib_addr,
    rdma_init_qp_attr, rdma_join_multicast, rdma_join_multicast_ex, rdma_leave_multicast,
    rdma_listen, rdma_migrate_id, rdma_notify, rdma_port_space, rdma_post_read, rdma_post_readv,
    rdma_post_recv, rdma_post_recvv, rdma_post_send, rdma_post_sendv, rdma_post_ud_send,
    rdma_post_write, rdma_post_writev, rdma_reg_msgs, rdma_reg_read, rdma_reg_write, rdma_reject,
    rdma_reject_ece, rdma_resolve_addr, rdma_resolve_route, rdma_route, rdma_set_local_ece,
    rdma_set_option, rdma_seterrno, rdma_t, rdma_ud_param, sa_family_t, socklen_t,
    src_addr_union_t, time_t, tm_t, tso_t, ud_t, verbs_context, verbs_ex_private, wr_t, xrc_t,
};

/// The functions that are not those of `rdma-mummy-sys` have the types of the other crate.
#[test]
fn functions_have_the_types_of_the_other_crate() {
    let _: unsafe fn(*mut ibv_pd, ibv_mw_type::Type) -> Option<*mut ibv_mw> = ibv_alloc_mw;
    let _: unsafe fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> Option<*mut ibv_cq_ex> =
        ibv_create_cq_ex;
    let _: unsafe fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> Option<*mut ibv_qp> =
        ibv_create_qp_ex;
    let _: unsafe extern "C" fn(*mut ibv_context, u8, *mut _compat_ibv_port_attr) -> i32 =
        ibv_query_port;
    let _: unsafe fn(*mut ibv_context, u8, *mut ibv_port_attr) -> i32 = ___ibv_query_port;
}

/// As over bindgen 0.59, whose pthread types were arrays of numbers.
#[test]
fn objects_can_be_copied() {
    fn copied<T: Copy>() {}
    copied::<ibv_cq_ex>();
    copied::<ibv_qp_ex>();
    copied::<ibv_srq>();
    copied::<ibv_wq>();
    copied::<verbs_context>();
}
