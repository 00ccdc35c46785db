//! Every enum and flag set keeps every number.

use std::{collections::HashSet, fmt::Write as _};

use proptest::prelude::*;

use crate::types::{
    AccessFlags, AsyncEventType, AtomicCap, CqCreateFlags, DeviceCaps, DriverId, EventObject,
    GidType, LinkLayer, LinkSpeed, LinkWidth, MigrationState, MrAdvice, Mtu, MwType, NodeType,
    PhysicalState, PortCaps, PortState, QpAttrMask, QpState, QpType, Rate, SigMode, SrqType,
    TransportType, VirtualLanes, WcFlags, WcOpcode, WcStatus,
};

/// For each enum: every raw number survives, names are unique, unknown numbers are marked as such.
macro_rules! total {
    ($($test:ident: $type:ident, $repr:ty;)+) => {
        proptest! {
            $(
                #[test]
                fn $test(raw in any::<$repr>()) {
                    let value = $type::from_raw(raw);
                    prop_assert_eq!(value.raw(), raw);
                    prop_assert_eq!($type::from_raw(value.raw()), value);
                    let known = $type::ALL.contains(&value);
                    prop_assert_eq!(matches!(value, $type::Unknown(_)), !known);
                    prop_assert_eq!(value.c_name().is_some(), known);
                    prop_assert_eq!(value.to_string().contains("unknown"), !known);
                }
            )+
        }

        #[test]
        fn named_values_are_distinct() {
            $(
                let raws: HashSet<$repr> = $type::ALL.iter().map(|value| value.raw()).collect();
                assert_eq!(raws.len(), $type::ALL.len(), stringify!($type));
                let names: HashSet<_> = $type::ALL.iter().map(|value| value.c_name()).collect();
                assert_eq!(names.len(), $type::ALL.len(), stringify!($type));
                let words: HashSet<_> = $type::ALL.iter().map(ToString::to_string).collect();
                assert_eq!(words.len(), $type::ALL.len(), stringify!($type));
                for value in $type::ALL {
                    assert_eq!($type::from_raw(value.raw()), *value, stringify!($type));
                }
            )+
        }
    };
}

total! {
    async_event_type: AsyncEventType, u32;
    atomic_cap: AtomicCap, u32;
    driver_id: DriverId, u32;
    gid_type: GidType, u32;
    link_layer: LinkLayer, u8;
    link_speed: LinkSpeed, u32;
    link_width: LinkWidth, u8;
    migration_state: MigrationState, u8;
    mr_advice: MrAdvice, u32;
    mtu: Mtu, u8;
    mw_type: MwType, u8;
    node_type: NodeType, u8;
    physical_state: PhysicalState, u8;
    port_state: PortState, u8;
    qp_state: QpState, u8;
    qp_type: QpType, u32;
    rate: Rate, u8;
    srq_type: SrqType, u32;
    transport_type: TransportType, u8;
    virtual_lanes: VirtualLanes, u8;
    wc_opcode: WcOpcode, u32;
    wc_status: WcStatus, u32;
}

proptest! {
    #[test]
    fn flags_keep_unnamed_bits(raw in any::<u64>(), low in any::<u32>()) {
        prop_assert_eq!(DeviceCaps::from_bits_retain(raw).bits(), raw);
        prop_assert_eq!(DeviceCaps::from_bits_truncate(raw).bits(), raw);
        prop_assert_eq!(AccessFlags::from_bits_truncate(low).bits(), low);
        prop_assert_eq!(PortCaps::from_bits_truncate(low).bits(), low);
        prop_assert_eq!(QpAttrMask::from_bits_truncate(low).bits(), low);
        prop_assert_eq!(WcFlags::from_bits_truncate(low).bits(), low);
        prop_assert_eq!(CqCreateFlags::from_bits_truncate(low).bits(), low);
    }

    #[test]
    fn optional_access_is_bits_20_to_29(raw in any::<u32>()) {
        let required = AccessFlags::from_bits_retain(raw).without_optional();
        prop_assert_eq!(required.bits(), raw & 0xc00f_ffff);
    }
}

#[test]
fn flags_print_as_words() {
    assert_eq!(AccessFlags::empty().to_string(), "none");
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ;
    assert_eq!(access.to_string(), "local write, remote read");
    let odd = access | AccessFlags::from_bits_retain(1 << 31);
    assert_eq!(odd.to_string(), "local write, remote read, 0x80000000");
    assert_eq!(
        AccessFlags::from_bits_retain(1 << 30).to_string(),
        "0x40000000"
    );
}

#[test]
fn words_pad() {
    let mut text = String::new();
    write!(text, "[{:>8}] [{:<8}]", PortState::Active, SigMode::All).unwrap();
    assert_eq!(text, "[  active] [all     ]");
}

#[test]
fn texts_of_the_c_library() {
    assert_eq!(PortState::Active.ibv_str(), "active");
    assert_eq!(PortState::Active.c_name(), Some("IBV_PORT_ACTIVE"));
    assert_eq!(PortState::Active.devinfo_name(), "PORT_ACTIVE");
    assert_eq!(PortState::Unknown(9).devinfo_name(), "invalid state");
    assert_eq!(PhysicalState::LinkUp.devinfo_name(), "LINK_UP");
    assert_eq!(
        NodeType::ChannelAdapter.ibv_str(),
        "InfiniBand channel adapter"
    );
    assert_eq!(AtomicCap::Device.devinfo_name(), "ATOMIC_HCA");
    assert_eq!(WcStatus::Flushed.ibv_str(), "Work Request Flushed Error");
    assert_eq!(
        WcStatus::RetryExceeded.ibv_str(),
        "transport retry counter exceeded"
    );
    assert_eq!(
        AsyncEventType::SrqLimitReached.ibv_str(),
        "SRQ limit reached"
    );
    assert_eq!(AsyncEventType::Unknown(99).ibv_str(), "unknown");
}

#[test]
fn events_name_their_object() {
    let about = |object| {
        AsyncEventType::ALL
            .iter()
            .filter(|event| event.object() == Some(object))
            .map(|event| event.raw())
            .collect()
    };
    let (qp, srq, cq, wq): (Vec<_>, Vec<_>, Vec<_>, Vec<_>) = (
        about(EventObject::QueuePair),
        about(EventObject::SharedReceiveQueue),
        about(EventObject::CompletionQueue),
        about(EventObject::WorkQueue),
    );
    let (port, device): (Vec<_>, Vec<_>) = (about(EventObject::Port), about(EventObject::Device));
    assert_eq!(qp, [1, 2, 3, 4, 5, 6, 7, 16]);
    assert_eq!(srq, [14, 15]);
    assert_eq!(cq, [0]);
    assert_eq!(wq, [19]);
    assert_eq!(port, [9, 10, 11, 12, 13, 17, 18]);
    assert_eq!(device, [8, 20]);
    assert_eq!(AsyncEventType::Unknown(21).object(), None);
}

#[test]
fn completion_flags_differ_between_kernel_and_library() {
    assert_eq!(WcFlags::GRH.to_ibv(), 1);
    assert_eq!(WcFlags::WITH_IMM.to_ibv(), 2);
    assert_eq!(
        (
            WcFlags::WITH_INVALIDATE.bits(),
            WcFlags::WITH_INVALIDATE.to_ibv()
        ),
        (4, 8)
    );
    assert_eq!(
        (WcFlags::IP_CSUM_OK.bits(), WcFlags::IP_CSUM_OK.to_ibv()),
        (8, 4)
    );
    assert_eq!(WcFlags::WITH_VLAN.to_ibv(), 0);
}

#[test]
fn receives_are_told_from_sends() {
    let receives: Vec<_> = WcOpcode::ALL
        .iter()
        .filter(|opcode| opcode.is_receive())
        .collect();
    let expected = [
        WcOpcode::Recv,
        WcOpcode::RecvRdmaWithImm,
        WcOpcode::TagRecv,
        WcOpcode::TagNone,
    ];
    assert_eq!(receives, expected.iter().collect::<Vec<_>>());
}

#[test]
fn mtu_in_bytes() {
    for (raw, bytes) in [(1, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096)] {
        assert_eq!(Mtu::from_raw(raw).bytes(), Some(bytes));
        assert_eq!(Mtu::from_bytes(bytes), Some(Mtu::from_raw(raw)));
        assert_eq!(Mtu::within(bytes), Some(Mtu::from_raw(raw)));
        assert_eq!(Mtu::within(bytes * 2 - 1), Some(Mtu::from_raw(raw)));
    }
    assert_eq!(Mtu::from_raw(6).bytes(), None);
    assert_eq!(Mtu::from_bytes(1500), None);
    assert_eq!(Mtu::within(255), None);
    assert_eq!(Mtu::within(u32::MAX), Some(Mtu::B4096));
}
