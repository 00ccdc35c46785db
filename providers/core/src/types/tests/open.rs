//! Every enum and flag set keeps every number that it receives, and sends none without a name.

use std::{collections::HashSet, fmt::Write as _};

use proptest::prelude::*;

use crate::cmd::comp_cntr::Operations;
use crate::cmd::flow::Flags as FlowFlags;
use crate::cmd::wq::Flags as WqFlags;
use crate::types::{
    AccessFlags, AddressVector, AsyncEventType, AtomicCap, CqCreateFlags, DeviceCaps, DriverId,
    EventObject, GidType, LinkLayer, LinkSpeed, LinkWidth, LocalKey, MigrationState, MrAdvice,
    MrAdviceFlags, Mtu, MwType, NodeType, PhysicalState, Placement, PortCaps, PortState,
    QpAttrMask, QpCreateFlags, QpState, QpType, Rate, RemoteKey, ReregFlags, SendFlags, SigMode,
    SrqAttrMask, SrqType, TransportType, VirtualLanes, WcFlags, WcOpcode, WcStatus, WindowBinding,
};
use crate::{ErrorKind, Op, PostError};

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
                    let requested = value.checked(Op::ModifyQueuePair, "it");
                    prop_assert_eq!(requested.map_err(|error| error.kind()), if known { Ok(raw) } else { Err(ErrorKind::InvalidInput) });
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
        prop_assert_eq!(WcFlags::from_bits_truncate(low).bits(), low);
    }

    #[test]
    fn request_flags_know_only_named_bits(low in any::<u32>()) {
        for all in [QpAttrMask::from_bits_truncate(low), !QpAttrMask::from_bits_retain(low), QpAttrMask::all()] {
            prop_assert!(all.checked(Op::QueryQueuePair, "attributes").is_ok(), "{}", all);
        }
        prop_assert_eq!(QpAttrMask::from_bits_truncate(low).bits(), low & 0x021f_ffff);
        prop_assert_eq!(CqCreateFlags::from_bits_truncate(low).bits(), low & 3);
        prop_assert_eq!(SendFlags::from_bits_truncate(low).bits(), low & 0x17);
    }

    #[test]
    fn an_address_vector_is_requested_as_it_fits(sl in any::<u8>(), bits in any::<u8>(), rate in any::<u8>()) {
        let vector = AddressVector {
            sl,
            src_path_bits: bits,
            static_rate: Rate::from_raw(rate),
            ..AddressVector::default()
        };
        let expected = if Rate::from_raw(rate).c_name().is_none() {
            Err(ErrorKind::InvalidInput)
        } else if sl > 15 || bits > 127 {
            Err(ErrorKind::LimitExceeded)
        } else {
            Ok(())
        };
        let checked = vector.check(Op::CreateAddressHandle);
        prop_assert_eq!(checked.map_err(|error| error.kind()), expected);
    }

    #[test]
    fn optional_access_is_bits_20_to_29(raw in any::<u32>()) {
        let required = AccessFlags::from_bits_retain(raw).without_optional();
        prop_assert_eq!(required.bits(), raw & 0xc00f_ffff);
    }
}

/// For each flag set: named bits, and ignored ones, are accepted in requests; all others are
/// refused.
macro_rules! requested {
    ($($type:ident, $named:literal;)+) => {
        #[test]
        fn bits_without_a_name_are_not_requested() {
            $(
                let named = u64::from($type::from_bits_retain($named).bits());
                for at in 0..u64::from($type::empty().bits().leading_zeros()) {
                    let bit = 1 << at;
                    let requested = $type::from_bits_retain(bit).checked(Op::CreateQueuePair, "flags");
                    let what = concat!(stringify!($type), " bit");
                    if named & 1 << at != 0 {
                        assert_eq!(requested.unwrap(), bit, "{what} {at}");
                    } else {
                        let error = requested.unwrap_err();
                        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what} {at}");
                        let text = error.to_string();
                        assert!(text.contains(&format!("flags, unnamed_bits {bit:#x}")), "{text}");
                        // Also together with a named bit; the error reports only the unnamed one.
                        let lowest = $type::from_bits_retain(1 << named.trailing_zeros());
                        let both = lowest | $type::from_bits_retain(bit);
                        let error = both.checked(Op::CreateQueuePair, "flags").unwrap_err();
                        assert_eq!(error.to_string(), text);
                    }
                }
            )+
        }
    };
}

requested! {
    AccessFlags, 0x3ff0_03ff;
    CqCreateFlags, 0x3;
    FlowFlags, 0x6;
    MrAdviceFlags, 0x1;
    Operations, 0x3f;
    Placement, 0x3;
    QpAttrMask, 0x021f_ffff;
    QpCreateFlags, 0x1f02;
    ReregFlags, 0x7;
    SendFlags, 0x17;
    SrqAttrMask, 0x3;
    WqFlags, 0xf;
}

#[test]
fn known_numbers_are_never_unknown_variants() {
    for raw in 0..=u8::MAX {
        let state = QpState::from_raw(raw);
        assert_eq!(state == QpState::Reset, raw == 0, "{state:?}");
        if let QpState::Unknown(other) = state {
            assert_eq!(other.raw(), raw);
            assert_eq!(
                format!("{state:?} {other:?}"),
                format!("Unknown({raw}) {raw}")
            );
            let error = state.checked(Op::ModifyQueuePair, "state").unwrap_err();
            let text = format!("modify_qp: invalid argument (argument state, unknown {raw})");
            assert_eq!(error.to_string(), text);
        }
    }
}

#[test]
fn only_access_that_a_window_can_grant_is_bound() {
    let binding = |kind, access| WindowBinding {
        kind: MwType::from_raw(kind),
        window_key: RemoteKey::from_raw(1),
        new_key: RemoteKey::from_raw(2),
        region_key: LocalKey::from_raw(3),
        address: 4096,
        length: 4096,
        access: AccessFlags::from_bits_retain(access),
    };
    for at in 0..32_u32 {
        let requested = binding(2, 1 << at).checked();
        let expected = match at {
            0..=3 | 5 | 8 | 9 => Ok(AccessFlags::from_bits_retain(1 << at)),
            20..=29 => Ok(AccessFlags::empty()),
            _ => Err(PostError::InvalidRequest),
        };
        assert_eq!(requested, expected, "bit {at}");
    }
    for kind in 0..=u8::MAX {
        let known = kind == 1 || kind == 2;
        assert_eq!(binding(kind, 2).checked().is_ok(), known, "type {kind}");
    }
}

#[test]
fn only_placements_with_a_name_are_known() {
    for bits in 0..16 {
        let placement = Placement::from_bits_retain(bits);
        assert_eq!(placement.is_known(), (1..4).contains(&bits), "{placement}");
    }
    assert!(!Placement::from_bits_retain(1 << 31 | 1).is_known());
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
fn names_of_values_are_padded() {
    let mut text = String::new();
    write!(text, "[{:>8}] [{:<8}]", PortState::Active, SigMode::All).unwrap();
    assert_eq!(text, "[  active] [all     ]");
}

#[test]
fn texts_of_the_c_library() {
    assert_eq!(PortState::Active.ibv_str(), "active");
    assert_eq!(PortState::Active.c_name(), Some("IBV_PORT_ACTIVE"));
    assert_eq!(PortState::Active.devinfo_name(), "PORT_ACTIVE");
    assert_eq!(PortState::from_raw(9).devinfo_name(), "invalid state");
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
    assert_eq!(AsyncEventType::from_raw(99).ibv_str(), "unknown");
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
    assert_eq!(AsyncEventType::from_raw(21).object(), None);
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
fn receives_are_distinguished_from_sends() {
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
