//! The limits of a device, under the names that C programs use.

use uverbs::attr::DeviceAttr;

use super::report::Limit;

pub(in crate::commands) fn of(attr: &DeviceAttr) -> Vec<Limit> {
    let plain = |name, value: u32| Limit {
        name,
        value: value.into(),
        unit: None,
    };
    let bytes = |name, value: u64| Limit {
        name,
        value,
        unit: Some("bytes"),
    };
    vec![
        bytes("max_mr_size", attr.max_mr_size),
        Limit {
            name: "page_size_cap",
            value: attr.page_size_cap,
            unit: Some("bit set of sizes"),
        },
        plain("max_qp", attr.max_qp),
        plain("max_qp_wr", attr.max_qp_wr),
        plain("max_sge", attr.max_sge),
        plain("max_sge_rd", attr.max_sge_rd),
        plain("max_cq", attr.max_cq),
        plain("max_cqe", attr.max_cqe),
        plain("max_mr", attr.max_mr),
        plain("max_mw", attr.max_mw),
        plain("max_pd", attr.max_pd),
        plain("max_ah", attr.max_ah),
        plain("max_srq", attr.max_srq),
        plain("max_srq_wr", attr.max_srq_wr),
        plain("max_srq_sge", attr.max_srq_sge),
        plain("max_qp_rd_atom", attr.max_qp_rd_atom),
        plain("max_res_rd_atom", attr.max_res_rd_atom),
        plain("max_qp_init_rd_atom", attr.max_qp_init_rd_atom),
        plain("max_ee", attr.max_ee),
        plain("max_ee_rd_atom", attr.max_ee_rd_atom),
        plain("max_ee_init_rd_atom", attr.max_ee_init_rd_atom),
        plain("max_rdd", attr.max_rdd),
        plain("max_raw_ipv6_qp", attr.max_raw_ipv6_qp),
        plain("max_raw_ethy_qp", attr.max_raw_ethy_qp),
        plain("max_mcast_grp", attr.max_mcast_grp),
        plain("max_mcast_qp_attach", attr.max_mcast_qp_attach),
        plain("max_total_mcast_qp_attach", attr.max_total_mcast_qp_attach),
        plain("max_fmr", attr.max_fmr),
        plain("max_map_per_fmr", attr.max_map_per_fmr),
        plain("max_pkeys", attr.max_pkeys.into()),
        Limit {
            name: "local_ca_ack_delay",
            value: attr.local_ca_ack_delay.into(),
            unit: Some("4.096 µs · 2^n"),
        },
        Limit {
            name: "completion_timestamp_mask",
            value: attr.completion_timestamp_mask,
            unit: Some("bit mask"),
        },
        Limit {
            name: "hca_core_clock",
            value: attr.hca_core_clock_khz,
            unit: Some("kHz"),
        },
        bytes("max_dm_size", attr.max_dm_size),
        plain("max_wq_type_rq", attr.max_wq_type_rq),
        plain("rss_supported_qp_types", attr.rss.supported_qp_types),
        plain(
            "rss_max_indirection_tables",
            attr.rss.max_indirection_tables,
        ),
        plain(
            "rss_max_indirection_table_size",
            attr.rss.max_indirection_table_size,
        ),
        plain("raw_packet_caps", attr.raw_packet.bits()),
        bytes(
            "tm_max_rndv_hdr_size",
            attr.tag_matching.max_rndv_hdr_size.into(),
        ),
        plain("tm_max_num_tags", attr.tag_matching.max_num_tags),
        plain("tm_max_ops", attr.tag_matching.max_ops),
        plain("tm_max_sge", attr.tag_matching.max_sge),
        plain("max_cq_count", attr.cq_moderation.max_count.into()),
        Limit {
            name: "max_cq_period",
            value: attr.cq_moderation.max_period_us.into(),
            unit: Some("µs"),
        },
        plain("phys_port_cnt", attr.phys_port_cnt.into()),
    ]
}
