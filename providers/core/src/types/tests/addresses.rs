//! GIDs, GUIDs, address vectors, network headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use crate::types::{
    AddressVector, FirmwareVersion, FlowLabel, Gid, GidType, GlobalRoute, Grh, Guid, IpVersion,
    LinkLayer, LinkSpeed, LinkWidth, PortAttr, PortFlags, Rate, WcFlags, WorkCompletion,
};

#[test]
fn gid_reads_and_prints() {
    let gid: Gid = "fe80:0000:0000:0000:0211:22ff:fe33:4455".parse().unwrap();
    assert_eq!(gid.to_string(), "fe80::211:22ff:fe33:4455");
    assert_eq!(
        format!("{gid:#}"),
        "fe80:0000:0000:0000:0211:22ff:fe33:4455"
    );
    assert_eq!(format!("{gid:?}"), "Gid(fe80::211:22ff:fe33:4455)");
    assert_eq!(gid.subnet_prefix(), 0xfe80_0000_0000_0000);
    assert_eq!(gid.interface_id().to_string(), "0211:22ff:fe33:4455");
    assert_eq!(
        Gid::from_parts(gid.subnet_prefix(), gid.interface_id()),
        gid
    );
    assert!(gid.is_link_local() && !gid.is_multicast() && !gid.is_zero());
    assert!(Gid::ZERO.is_zero());
    assert!("fe80:0:0".parse::<Gid>().is_err());
}

#[test]
fn gid_of_an_ipv4_address() {
    let gid = Gid::from(Ipv4Addr::new(192, 0, 2, 1));
    assert_eq!(gid.to_string(), "::ffff:192.0.2.1");
    assert_eq!(
        format!("{gid:#}"),
        "0000:0000:0000:0000:0000:ffff:c000:0201"
    );
    assert_eq!(gid.ipv4_mapped(), Some(Ipv4Addr::new(192, 0, 2, 1)));
    assert_eq!(gid.to_ip(), IpAddr::from([192, 0, 2, 1]));
    assert_eq!(Gid::from(Ipv6Addr::LOCALHOST).ipv4_mapped(), None);
}

#[test]
fn multicast_groups() {
    let v6: Gid = "ff0e::ffff:e001:203".parse().unwrap();
    assert!(v6.is_multicast());
    assert_eq!(
        v6.multicast_mac(),
        Some([0x33, 0x33, 0xe0, 0x01, 0x02, 0x03])
    );
    let v4 = Gid::from(Ipv4Addr::new(224, 129, 2, 3));
    assert!(v4.is_multicast());
    assert_eq!(
        v4.multicast_mac(),
        Some([0x01, 0x00, 0x5e, 0x01, 0x02, 0x03])
    );
    let unicast = Gid::from(Ipv4Addr::new(10, 0, 0, 1));
    assert!(!unicast.is_multicast());
    assert_eq!(unicast.multicast_mac(), None);
}

#[test]
fn gid_types_of_sysfs() {
    let read = GidType::from_sysfs;
    assert_eq!(
        read("IB/RoCE v1\n", LinkLayer::Ethernet),
        Some(GidType::RoceV1)
    );
    assert_eq!(
        read("IB/RoCE v1\n", LinkLayer::InfiniBand),
        Some(GidType::Ib)
    );
    assert_eq!(
        read("RoCE v2\n", LinkLayer::Ethernet),
        Some(GidType::RoceV2)
    );
    assert_eq!(read("RoCE v3\n", LinkLayer::Ethernet), None);
}

#[test]
fn guid_reads_and_prints() {
    let guid = Guid::from_bytes([0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77]);
    assert_eq!(guid.to_string(), "0011:2233:4455:6677");
    assert_eq!("0011:2233:4455:6677".parse(), Ok(guid));
    assert_eq!("0x0011223344556677".parse(), Ok(guid));
    assert_eq!("0:0:0:1".parse(), Ok(Guid::from_u64(1)));
    for wrong in [
        "",
        "0011:2233:4455",
        "0011:2233:4455:6677:8899",
        "+011:2233:4455:6677",
        "0x",
        "00112:0:0:0",
        "::::",
    ] {
        assert!(wrong.parse::<Guid>().is_err(), "{wrong:?}");
    }
}

#[test]
fn firmware_versions() {
    let version = FirmwareVersion::from_raw(0x0000_0010_0023_0fa0);
    assert_eq!(version.parts(), (16, 35, 4000));
    assert_eq!(version.to_string(), "16.35.4000");
    assert_eq!(
        format!("{:#}", FirmwareVersion::from_raw(0x0000_0001_0002_0003)),
        "1.2.0003"
    );
    assert_eq!(FirmwareVersion::default().to_string(), "0.0.0");
}

/// By the kernel's formula (`include/rdma/ib_verbs.h`), computed elsewhere.
#[test]
fn labels_are_those_that_the_kernel_derives() {
    for (one, other, label) in [
        (1, 1, 1),
        (0x11, 0x12, 0x132),
        (0xff_ffff, 0xff_fffe, 0xf_ff2d),
        (0x1_2345, 0xab_cdef, 0x9_19fd),
        (0x80_0000, 0x80_0000, 0x40),
    ] {
        assert_eq!(
            FlowLabel::for_qps(one, other).raw(),
            label,
            "{one:#x} {other:#x}"
        );
    }
}

#[test]
fn udp_ports_of_flow_labels() {
    let port = |label| FlowLabel::new(label).unwrap().udp_source_port();
    assert_eq!(port(0), 0xc000);
    assert_eq!(port(0x3fff), 0xffff);
    assert_eq!(port(0x4000), 0xc001);
    assert_eq!(port(0xf_ffff), 0xc000 | (0x3fff ^ 0x3f));
}

#[test]
fn link_speeds() {
    let with = |width, speed| PortAttr {
        active_width: LinkWidth::from_raw(width),
        active_speed: LinkSpeed::from_raw(speed),
        ..PortAttr::default()
    };
    assert_eq!(with(1, 1).link_gbps(), Some(2.5));
    assert_eq!(with(2, 32).link_mbps(), Some(100_000));
    assert_eq!(with(2, 256).link_mbps(), Some(800_000));
    assert_eq!(with(8, 256).link_mbps(), Some(2_400_000));
    assert_eq!(with(16, 64).link_mbps(), Some(100_000));
    assert_eq!(with(0, 32).link_mbps(), None);
    assert_eq!(with(2, 3).link_gbps(), None);
}

#[test]
fn ports_that_need_a_global_route() {
    let mut port = PortAttr::default();
    assert!(!port.needs_grh());
    port.flags = PortFlags::GRH_REQUIRED;
    assert!(port.needs_grh());
    port.flags = PortFlags::empty();
    port.link_layer = LinkLayer::Ethernet;
    assert!(port.needs_grh());
}

/// A RoCE v2 packet from 10.0.0.1 to 10.0.0.2, as in front of a message: 20 arbitrary bytes and an
/// IPv4 header.
fn ipv4_header(before: u8) -> [u8; 40] {
    let mut bytes = [before; 40];
    bytes[20..].copy_from_slice(&[
        0x45, 0x20, 0x00, 0x5c, 0x00, 0x00, 0x40, 0x00, 0x3f, 0x11, 0x27, 0x6f, 10, 0, 0, 1, 10, 0,
        0, 2,
    ]);
    bytes
}

fn ipv6_header() -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&[0x6a, 0xb1, 0x23, 0x45, 0x01, 0x02, 0x1b, 0xff]);
    bytes[8..24].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes[24..].copy_from_slice(&[0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    bytes
}

#[test]
fn ipv4_before_a_message() {
    // The header must be found even if the bytes before it look like IPv6.
    for before in [0x00, 0x66, 0xff] {
        let grh = Grh::parse(&ipv4_header(before)).unwrap();
        assert_eq!(grh.version(), IpVersion::V4);
        assert_eq!(grh.sgid().to_string(), "::ffff:10.0.0.1");
        assert_eq!(grh.dgid().to_string(), "::ffff:10.0.0.2");
        assert_eq!(
            (grh.traffic_class(), grh.hop_limit(), grh.next_header()),
            (0x20, 0x3f, 17)
        );
        assert_eq!((grh.payload_len(), grh.flow_label().raw()), (72, 0));
    }
}

#[test]
fn a_broken_ipv4_header_after_an_ipv6_one_is_an_address() {
    let mut bytes = ipv4_header(0x66);
    bytes[31] ^= 1;
    assert_eq!(Grh::parse(&bytes).unwrap().version(), IpVersion::V6);
}

#[test]
fn ipv6_before_a_message() {
    let mut buffer = ipv6_header().to_vec();
    buffer.extend_from_slice(b"message");
    let grh = Grh::parse(&buffer).unwrap();
    assert_eq!(grh.version(), IpVersion::V6);
    assert_eq!(grh.sgid().to_string(), "fe80::1");
    assert_eq!(grh.dgid().to_string(), "ff0e::2");
    assert_eq!(
        (grh.traffic_class(), grh.flow_label().raw()),
        (0xab, 0x12345)
    );
    assert_eq!(
        (grh.payload_len(), grh.next_header(), grh.hop_limit()),
        (0x102, 0x1b, 255)
    );
    assert_eq!(grh.as_bytes(), &ipv6_header());
}

#[test]
fn no_header_before_a_message() {
    assert_eq!(Grh::parse(&[0; 40]), None);
    assert_eq!(Grh::parse(&ipv6_header()[..39]), None);
    assert_eq!(Grh::parse(&[]), None);
}

#[test]
fn answering_a_datagram() {
    let grh = Grh::parse(&ipv6_header()).unwrap();
    let mut wc = WorkCompletion {
        slid: 3,
        sl: 2,
        dlid_path_bits: 1,
        ..WorkCompletion::default()
    };
    let local = AddressVector::reply_to(1, &wc, Some(&grh), 4);
    assert_eq!(local, AddressVector::reply_to(1, &wc, None, 0));
    assert_eq!(
        local,
        AddressVector {
            sl: 2,
            src_path_bits: 1,
            ..AddressVector::local(1, 3)
        }
    );
    wc.flags = WcFlags::GRH;
    let route = AddressVector::reply_to(1, &wc, Some(&grh), 4).grh.unwrap();
    assert_eq!(
        (route.dgid, route.sgid_index, route.hop_limit),
        (grh.sgid(), 4, 255)
    );
    assert_eq!(
        (route.flow_label.raw(), route.traffic_class),
        (0x12345, 0xab)
    );
}

#[test]
fn address_vector_defaults() {
    let av = AddressVector::global(1, GlobalRoute::new(Gid::ZERO, 0));
    assert_eq!((av.static_rate, av.grh.unwrap().hop_limit), (Rate::Max, 64));
    assert_eq!(AddressVector::default(), AddressVector::local(1, 0));
}

proptest! {
    #[test]
    fn any_gid_survives_its_text(bytes in any::<[u8; 16]>()) {
        let gid = Gid::from_bytes(bytes);
        prop_assert_eq!(gid.to_bytes(), bytes);
        prop_assert_eq!(gid.to_string().parse::<Gid>().unwrap(), gid);
        prop_assert_eq!(format!("{gid:#}").parse::<Gid>().unwrap(), gid);
        prop_assert_eq!(Gid::from(gid.to_ip()), gid);
    }

    #[test]
    fn any_guid_survives_its_text(value in any::<u64>()) {
        let guid = Guid::from_u64(value);
        prop_assert_eq!(guid.to_u64(), value);
        prop_assert_eq!(guid.to_string().parse::<Guid>(), Ok(guid));
        prop_assert_eq!(Guid::from_bytes(guid.to_bytes()), guid);
    }

    #[test]
    fn any_bytes_can_stand_before_a_message(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Some(grh) = Grh::parse(&bytes) {
            prop_assert!(bytes.len() >= Grh::LEN);
            let (first, later) = (bytes[0] >> 4, bytes[20] >> 4);
            prop_assert!(first == 6 || (grh.version() == IpVersion::V4 && later == 4));
            let _ = (grh.sgid(), grh.dgid(), grh.payload_len(), grh.flow_label(), grh.hop_limit());
        }
    }

    #[test]
    fn both_ends_derive_one_flow_label(one in 0..1_u32 << 24, other in 0..1_u32 << 24) {
        let label = FlowLabel::for_qps(one, other);
        prop_assert_eq!(label, FlowLabel::for_qps(other, one));
        prop_assert!(label.udp_source_port() >= 0xc000);
    }
}
