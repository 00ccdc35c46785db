//! Each field of a request or a reply, by a value that no other field has.

use uverbs_uapi::ib_user_verbs::{
    ib_uverbs_create_flow, ib_uverbs_ex_modify_wq, ib_uverbs_ex_query_device_resp,
    ib_uverbs_poll_cq_resp, ib_uverbs_query_device_resp, ib_uverbs_wc,
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::{Bench, Script};
use crate::cmd::{cq, device, flow, wq};
use crate::error::ErrorKind;
use crate::sys::Uhw;

/// A number for each byte, so that neighbours differ.
fn pattern<const N: usize>() -> [u8; N] {
    std::array::from_fn(|at| u8::try_from(at % 251).unwrap() + 1)
}

#[test]
fn every_attribute_of_a_device_is_read() {
    let bytes = pattern::<{ size_of::<ib_uverbs_query_device_resp>() }>();
    let base = ib_uverbs_query_device_resp::read_from_bytes(&bytes).unwrap();
    let reply = ib_uverbs_ex_query_device_resp {
        base,
        response_length: 304,
        ..ib_uverbs_ex_query_device_resp::default()
    };
    let bench = Bench::new(Script::new().replying("x1", reply.as_bytes()));
    let attr = device::query(&bench.file, &Uhw::NONE).unwrap();
    macro_rules! equal {
        ($($field:ident)*) => { $(assert_eq!(attr.$field, base.$field, stringify!($field));)* };
    }
    equal! {
        max_mr_size
        page_size_cap
        vendor_id
        vendor_part_id
        hw_ver
        max_qp
        max_qp_wr
        max_sge
        max_sge_rd
        max_cq
        max_cqe
        max_mr
        max_pd
        max_qp_rd_atom
        max_ee_rd_atom
        max_res_rd_atom
        max_qp_init_rd_atom
        max_ee_init_rd_atom
        max_ee
        max_rdd
        max_mw
        max_raw_ipv6_qp
        max_raw_ethy_qp
        max_mcast_grp
        max_mcast_qp_attach
        max_total_mcast_qp_attach
        max_ah
        max_fmr
        max_map_per_fmr
        max_srq
        max_srq_wr
        max_srq_sge
        max_pkeys
        local_ca_ack_delay
        phys_port_cnt
    }
    assert_eq!(attr.fw_ver.raw(), base.fw_ver);
    assert_eq!(attr.node_guid.to_u64(), base.node_guid.get());
    assert_eq!(attr.sys_image_guid.to_u64(), base.sys_image_guid.get());
    assert_eq!(attr.atomic_cap.raw(), base.atomic_cap);
}

#[test]
fn every_attribute_that_only_the_extended_query_has_is_read() {
    let bytes = pattern::<{ size_of::<ib_uverbs_ex_query_device_resp>() }>();
    let reply = ib_uverbs_ex_query_device_resp::read_from_bytes(&bytes).unwrap();
    let reply = ib_uverbs_ex_query_device_resp {
        response_length: u32::try_from(bytes.len()).unwrap(),
        ..reply
    };
    let bench = Bench::new(Script::new().replying("x1", reply.as_bytes()));
    let attr = device::query(&bench.file, &Uhw::NONE).unwrap();
    let odp = &reply.odp_caps.per_transport_caps;
    let (rss, tags) = (&reply.rss_caps, &reply.tm_caps);
    let moderation = &reply.cq_moderation_caps;
    macro_rules! equal {
        ($($found:expr => $sent:expr;)*) => {
            $(assert_eq!($found, $sent, stringify!($sent));)*
        };
    }
    equal! {
        attr.caps.bits() => reply.device_cap_flags_ex;
        attr.odp.general.bits() => reply.odp_caps.general_caps;
        attr.odp.rc.bits() => odp.rc_odp_caps;
        attr.odp.uc.bits() => odp.uc_odp_caps;
        attr.odp.ud.bits() => odp.ud_odp_caps;
        attr.odp.xrc.bits() => reply.xrc_odp_caps;
        attr.completion_timestamp_mask => reply.timestamp_mask;
        attr.hca_core_clock_khz => reply.hca_core_clock;
        attr.rss.supported_qp_types => rss.supported_qpts;
        attr.rss.max_indirection_tables => rss.max_rwq_indirection_tables;
        attr.rss.max_indirection_table_size => rss.max_rwq_indirection_table_size;
        attr.max_wq_type_rq => reply.max_wq_type_rq;
        attr.raw_packet.bits() => reply.raw_packet_caps;
        attr.tag_matching.max_rndv_hdr_size => tags.max_rndv_hdr_size;
        attr.tag_matching.max_num_tags => tags.max_num_tags;
        attr.tag_matching.flags.bits() => tags.flags;
        attr.tag_matching.max_ops => tags.max_ops;
        attr.tag_matching.max_sge => tags.max_sge;
        attr.cq_moderation.max_count => moderation.max_cq_moderation_count;
        attr.cq_moderation.max_period_us => moderation.max_cq_moderation_period;
        attr.max_dm_size => reply.max_dm_size;
    }
}

#[test]
fn as_many_completions_are_asked_for_as_a_reply_can_have() {
    let bytes = |completions: usize| {
        size_of::<ib_uverbs_poll_cq_resp>() + completions * size_of::<ib_uverbs_wc>()
    };
    assert!(u16::try_from(bytes(cq::MAX_POLLED)).is_ok());
    assert!(u16::try_from(bytes(cq::MAX_POLLED + 1)).is_err());
}

#[test]
fn a_work_queues_change_names_what_it_changes() {
    let scatter = wq::Flags::SCATTER_FCS;
    for (request, mask) in [
        (
            wq::Modify {
                state: Some(wq::State::Ready),
                ..wq::Modify::default()
            },
            1,
        ),
        (
            wq::Modify {
                current: Some(wq::State::Reset),
                ..wq::Modify::default()
            },
            2,
        ),
        (
            wq::Modify {
                flags: Some((scatter, scatter)),
                ..wq::Modify::default()
            },
            4,
        ),
        (
            wq::Modify {
                state: Some(wq::State::Error),
                current: Some(wq::State::Ready),
                flags: Some((wq::Flags::empty(), scatter)),
            },
            7,
        ),
    ] {
        let bench = Bench::new(Script::new());
        wq::modify(&bench.file, 5, &request, &Uhw::NONE).unwrap();
        let command = ib_uverbs_ex_modify_wq::read_from_bytes(&bench.request()).unwrap();
        assert_eq!(command.wq_handle, 5);
        assert_eq!(command.attr_mask, mask, "{request:?}");
        let (flags, flags_mask) = request.flags.unwrap_or_default();
        assert_eq!(
            (command.flags, command.flags_mask),
            (flags.bits(), flags_mask.bits())
        );
    }
}

#[test]
fn a_rule_says_how_many_specifications_it_has() {
    /// A specification of `words` times 8 bytes.
    fn spec(words: u16) -> Vec<u8> {
        let mut bytes = vec![0x20, 0, 0, 0];
        bytes.extend((words * 8).to_ne_bytes());
        bytes.resize(usize::from(words) * 8, 0x5a);
        bytes
    }
    let create = |bench: &Bench, specs: &[u8]| {
        let request = flow::Create {
            qp: 0x51,
            kind: flow::Kind::MulticastDefault,
            priority: 0x52,
            port: 3,
            flags: flow::Flags::from_bits_retain(2),
            specs,
        };
        flow::create(&bench.file, &request, &Uhw::NONE)
    };
    for count in [0, 1, 2, 9, 10] {
        let specs: Vec<u8> = (0..count).flat_map(|at| spec(at + 1)).collect();
        let bench = Bench::new(Script::new().with_zeros());
        create(&bench, &specs).unwrap();
        let (head, rest) = ib_uverbs_create_flow::read_from_prefix(&bench.request())
            .map(|(head, rest)| (head, rest.to_vec()))
            .unwrap();
        assert_eq!((head.comp_mask, head.qp_handle), (0, 0x51));
        let attr = head.flow_attr;
        assert_eq!((attr.r#type, attr.priority, attr.port), (2, 0x52, 3));
        assert_eq!(u16::from(attr.num_of_specs), count);
        assert_eq!((usize::from(attr.size), attr.flags), (specs.len(), 2));
        assert_eq!(rest, specs);
    }
    let bench = Bench::new(Script::new().with_zeros());
    for count in [11, 12, 255] {
        let many = create(&bench, &spec(1).repeat(count)).unwrap_err();
        assert_eq!(many.kind(), ErrorKind::LimitExceeded, "{count}");
    }
    let mut cut = spec(2);
    cut.truncate(8);
    let mut odd = spec(2);
    odd[4] = 12;
    for wrong in [cut, odd, vec![0; 8], vec![1; 3]] {
        let refused = create(&bench, &wrong).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{wrong:?}");
    }
    assert!(bench.lines().is_empty());
}
