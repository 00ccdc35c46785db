//! The texts of values, as in the C library and its tools.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::types::{
    AckTimeout, AsyncEventType, AtomicCap, Gid, Guid, LinkLayer, LinkSpeed, LinkWidth, NodeType,
    Operation, OutOfRange, Payload, PhysicalState, PortState, QpType, Remote, RemoteKey,
    RemoteMemory, RetryCount, RnrTimer, SendRequest, Sge, SigMode, TransportType, WcStatus,
};

/// Each known value has its own text, an unknown one the library's text for it.
macro_rules! texts {
    ($($type:ident::$text:ident, $unknown:literal, besides $same:literal;)+) => { $(
        let texts: HashSet<_> = $type::ALL.iter().map(|value| value.$text()).collect();
        assert_eq!(texts.len() + $same, $type::ALL.len(), stringify!($type::$text));
        assert_eq!($type::from_raw(0xee).$text(), $unknown);
    )+ };
}

#[test]
fn texts_of_the_c_library() {
    texts! {
        AsyncEventType::ibv_str, "unknown", besides 0;
        AtomicCap::devinfo_name, "invalid atomic capability", besides 0;
        LinkLayer::devinfo_name, "Unknown", besides 1;
        NodeType::ibv_str, "unknown", besides 0;
        PhysicalState::devinfo_name, "invalid physical state", besides 0;
        PortState::devinfo_name, "invalid state", besides 1;
        PortState::ibv_str, "unknown", besides 0;
        WcStatus::ibv_str, "unknown", besides 0;
    }
    assert_eq!(WcStatus::Flushed.ibv_str(), "Work Request Flushed Error");
    assert_eq!(
        AsyncEventType::QpFatal.ibv_str(),
        "local work queue catastrophic error"
    );
    assert_eq!(PhysicalState::LinkUp.devinfo_name(), "LINK_UP");
    assert_eq!(PortState::Active.devinfo_name(), "PORT_ACTIVE");
    assert_eq!(AtomicCap::Device.devinfo_name(), "ATOMIC_HCA");
    assert_eq!(
        NodeType::ChannelAdapter.ibv_str(),
        "InfiniBand channel adapter"
    );
}

#[test]
fn a_node_says_its_transport() {
    let transports: Vec<_> = NodeType::ALL.iter().map(|node| node.transport()).collect();
    assert!(transports.iter().all(Option::is_some));
    assert_eq!(
        NodeType::Router.transport(),
        Some(TransportType::InfiniBand)
    );
    assert_eq!(NodeType::Rnic.transport(), Some(TransportType::Iwarp));
    assert_eq!(
        NodeType::UsNicUdp.transport(),
        Some(TransportType::UsNicUdp)
    );
    assert_eq!(NodeType::from_raw(0xee).transport(), None);
}

#[test]
fn lanes_and_their_speeds_grow() {
    let lanes: Vec<_> = [
        LinkWidth::X1,
        LinkWidth::X2,
        LinkWidth::X4,
        LinkWidth::X8,
        LinkWidth::X12,
    ]
    .map(LinkWidth::lanes)
    .to_vec();
    assert_eq!(lanes, [1, 2, 4, 8, 12].map(Some));
    let mut speeds: Vec<_> = LinkSpeed::ALL.to_vec();
    speeds.sort_by_key(|speed| speed.raw());
    let mbps: Vec<_> = speeds
        .iter()
        .map(|speed| speed.lane_mbps().unwrap())
        .collect();
    assert!(mbps.is_sorted(), "{mbps:?}");
    assert_eq!((mbps.first(), mbps.last()), (Some(&2_500), Some(&200_000)));
    assert_eq!(LinkWidth::default().lanes(), None);
    assert_eq!(LinkSpeed::from_raw(3).lane_mbps(), None);
}

#[test]
fn gids_convert_from_and_to_ip_addresses() {
    let v4 = Ipv4Addr::new(10, 1, 0, 2);
    let mapped = Gid::from(v4);
    assert_eq!(mapped.to_string(), "::ffff:10.1.0.2");
    assert_eq!(Gid::from(IpAddr::V4(v4)), mapped);
    let v6 = Ipv6Addr::new(0xfe80, 0, 0, 0, 1, 2, 3, 4);
    let gid = Gid::from(IpAddr::V6(v6));
    assert_eq!(Ipv6Addr::from(gid), v6);
    assert_eq!(<[u8; 16]>::from(gid), v6.octets());
    assert_eq!(gid.as_bytes(), &v6.octets());
    assert!(Guid::from_u64(0).is_zero());
    assert!(!Guid::from_u64(1 << 63).is_zero());
}

#[test]
fn durations_convert_to_fields_and_out_of_range_is_an_error() {
    assert_eq!(
        AckTimeout::from(Duration::from_secs(1)),
        AckTimeout::from_duration(Duration::from_secs(1))
    );
    let longest = RnrTimer::try_from(Duration::from_micros(491_520)).unwrap();
    assert!(longest.duration() >= Duration::from_micros(491_520));
    let error = RnrTimer::try_from(Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().contains("out of range"), "{error}");
    assert_eq!(format!("{:>3}", RetryCount::default()), "  6");
    assert_eq!(OutOfRange::check("hops", 3, 3), Ok(()));
    let error = OutOfRange::check("hops", 4, 3).unwrap_err();
    assert_eq!(error.to_string(), "hops 4 is out of range (at most 3)");
}

#[test]
fn kinds_of_queue_pairs() {
    let connected = QpType::ALL.iter().filter(|kind| kind.is_connected());
    assert_eq!(connected.count(), 4);
    assert!(!QpType::Ud.is_connected() && !QpType::Driver.is_connected());
    assert_eq!(
        format!("{:<4}|{}", SigMode::All, SigMode::Requested),
        "all |requested"
    );
}

#[test]
fn constructors_of_requests_set_operation_and_payload() {
    let sges = [Sge::default()];
    let remote = Remote {
        address: 0x1000,
        key: RemoteKey::from_raw(7),
    };
    let write = SendRequest::write(&sges, remote);
    assert!(matches!(write.operation, Operation::Write(to) if to == remote));
    let read = SendRequest::read(&sges, remote);
    assert!(matches!(read.operation, Operation::Read(from) if from == remote));
    for request in [write, read] {
        assert!(matches!(request.payload, Payload::Gather(gather) if gather.len() == 1));
    }
    let bytes: [&[u8]; 2] = [b"ab", b"c"];
    let request = SendRequest::send_inline(&bytes);
    assert!(matches!(request.operation, Operation::Send));
    assert!(matches!(request.payload, Payload::Inline(parts) if parts.concat() == b"abc"));
}

#[test]
fn remote_addresses_beyond_the_memory_are_refused() {
    let memory = RemoteMemory {
        address: 0x1000,
        length: 64,
        key: RemoteKey::from_raw(7),
    };
    for offset in [0, 1, 63, 64] {
        let at = memory.at(offset).unwrap();
        assert_eq!((at.address, at.key), (0x1000 + offset, memory.key));
    }
    for offset in [65, u64::MAX] {
        assert!(memory.at(offset).is_err(), "{offset}");
    }
    for (range, fits) in [
        (0..64, true),
        (64..64, true),
        (5..9, true),
        (0..65, false),
        (65..65, false),
        #[expect(clippy::reversed_empty_ranges, reason = "is refused")]
        (9..5, false),
    ] {
        let part = memory.part(range.clone());
        assert_eq!(part.is_ok(), fits, "{range:?}");
        if let Ok(part) = part {
            let (from, length) = (range.start, range.end - range.start);
            assert_eq!((part.address, part.length), (0x1000 + from, length));
        }
    }
}
