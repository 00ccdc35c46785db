//! Every attribute of an answer, by a value that no other has.

use uverbs_uapi::rdma_netlink::*;

use super::super::{
    Attributes, Device, Malformed, NetnsMode, Owner, Port, Resource, ResourceKind, Summary, System,
    Uverbs, parse_counters,
};
use super::script::{attr, text, word};
use crate::discover::CharDevice;
use crate::types::{DriverId, Guid, LocalKey, NodeType, PhysicalState, PortState, RemoteKey};

fn wide(kind: u16, value: u64) -> Vec<u8> {
    attr(kind, &value.to_ne_bytes())
}

fn byte(kind: u16, value: u8) -> Vec<u8> {
    attr(kind, &[value])
}

fn parse<T>(
    attributes: &[Vec<u8>],
    parse: impl FnOnce(Attributes<'_>) -> Result<T, Malformed>,
) -> Result<T, Malformed> {
    parse(Attributes::new(&attributes.concat()))
}

#[test]
fn a_device() {
    let all = [
        word(RDMA_NLDEV_ATTR_DEV_INDEX, 11),
        text(RDMA_NLDEV_ATTR_DEV_NAME, "rxe7"),
        word(RDMA_NLDEV_ATTR_PORT_INDEX, 2),
        wide(RDMA_NLDEV_ATTR_CAP_FLAGS, 0x0102_0304_0506),
        text(RDMA_NLDEV_ATTR_FW_VERSION, "1.2.3"),
        wide(RDMA_NLDEV_ATTR_NODE_GUID, 0xa1),
        wide(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, 0xa2),
        byte(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, 1),
        text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce"),
        text(RDMA_NLDEV_ATTR_PARENT_NAME, "parent"),
    ];
    let device = parse(&all, Device::parse).unwrap();
    let expected = Device {
        index: 11,
        name: "rxe7".to_owned(),
        ports: Some(2),
        caps: Some(0x0102_0304_0506),
        fw_version: Some("1.2.3".to_owned()),
        node_guid: Some(Guid::from_u64(0xa1)),
        sys_image_guid: Some(Guid::from_u64(0xa2)),
        node_type: Some(NodeType::from_raw(1)),
        protocol: Some("roce".to_owned()),
        parent: Some("parent".to_owned()),
    };
    assert_eq!(device, expected);
    // Without an index or a name it is none.
    for missing in [0, 1] {
        let mut less = all.to_vec();
        less.remove(missing);
        assert!(parse(&less, Device::parse).is_err(), "{missing}");
    }
}

#[test]
fn a_character_device() {
    let all = [
        text(RDMA_NLDEV_ATTR_CHARDEV_NAME, "uverbs3"),
        wide(RDMA_NLDEV_ATTR_CHARDEV, 0x0a78),
        wide(RDMA_NLDEV_ATTR_CHARDEV_ABI, 9),
        word(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, 1),
    ];
    let expected = Uverbs {
        name: "uverbs3".to_owned(),
        number: CharDevice {
            major: 10,
            minor: 120,
        },
        abi_version: 9,
        driver_id: Some(DriverId::from_raw(1)),
    };
    assert_eq!(parse(&all, Uverbs::parse), Ok(expected));
    for missing in 0..3 {
        let mut less = all.to_vec();
        less.remove(missing);
        assert!(parse(&less, Uverbs::parse).is_err(), "{missing}");
    }
    assert!(parse(&all[..3], Uverbs::parse).is_ok());
}

#[test]
fn a_port() {
    let all = [
        word(RDMA_NLDEV_ATTR_PORT_INDEX, 2),
        word(RDMA_NLDEV_ATTR_DEV_INDEX, 11),
        wide(RDMA_NLDEV_ATTR_CAP_FLAGS, 0x0102_0304_0506),
        wide(RDMA_NLDEV_ATTR_SUBNET_PREFIX, 0xfe80),
        word(RDMA_NLDEV_ATTR_LID, 12),
        word(RDMA_NLDEV_ATTR_SM_LID, 13),
        byte(RDMA_NLDEV_ATTR_LMC, 3),
        byte(RDMA_NLDEV_ATTR_PORT_STATE, 4),
        byte(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, 5),
        word(RDMA_NLDEV_ATTR_NDEV_INDEX, 14),
        text(RDMA_NLDEV_ATTR_NDEV_NAME, "eth1"),
    ];
    let expected = Port {
        device: 11,
        number: 2,
        caps: Some(0x0102_0304_0506),
        subnet_prefix: Some(0xfe80),
        lid: Some(12),
        sm_lid: Some(13),
        lmc: Some(3),
        state: Some(PortState::from_raw(4)),
        physical_state: Some(PhysicalState::from_raw(5)),
        netdev_index: Some(14),
        netdev: Some("eth1".to_owned()),
    };
    assert_eq!(parse(&all, Port::parse), Ok(expected));
    assert!(parse(&all[1..], Port::parse).is_err());
}

/// The kinds, with what `rdma resource` and the header call them.
const KINDS: [(ResourceKind, &str, u16, u16, u16); 7] = [
    (
        ResourceKind::ProtectionDomain,
        "pd",
        RDMA_NLDEV_ATTR_RES_PD,
        RDMA_NLDEV_ATTR_RES_PD_ENTRY,
        RDMA_NLDEV_ATTR_RES_PDN,
    ),
    (
        ResourceKind::CompletionQueue,
        "cq",
        RDMA_NLDEV_ATTR_RES_CQ,
        RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
        RDMA_NLDEV_ATTR_RES_CQN,
    ),
    (
        ResourceKind::QueuePair,
        "qp",
        RDMA_NLDEV_ATTR_RES_QP,
        RDMA_NLDEV_ATTR_RES_QP_ENTRY,
        RDMA_NLDEV_ATTR_RES_LQPN,
    ),
    (
        ResourceKind::ConnectionId,
        "cm_id",
        RDMA_NLDEV_ATTR_RES_CM_ID,
        RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
        RDMA_NLDEV_ATTR_RES_CM_IDN,
    ),
    (
        ResourceKind::MemoryRegion,
        "mr",
        RDMA_NLDEV_ATTR_RES_MR,
        RDMA_NLDEV_ATTR_RES_MR_ENTRY,
        RDMA_NLDEV_ATTR_RES_MRN,
    ),
    (
        ResourceKind::Context,
        "ctx",
        RDMA_NLDEV_ATTR_RES_CTX,
        RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
        RDMA_NLDEV_ATTR_RES_CTXN,
    ),
    (
        ResourceKind::SharedReceiveQueue,
        "srq",
        RDMA_NLDEV_ATTR_RES_SRQ,
        RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
        RDMA_NLDEV_ATTR_RES_SRQN,
    ),
];

#[test]
fn resources_of_every_kind() {
    assert_eq!(KINDS.map(|(kind, ..)| kind), ResourceKind::ALL);
    for (kind, name, table, entry, id) in KINDS {
        assert_eq!(format!("{kind:>6}"), format!("{name:>6}"));
        let mut own = [
            word(RDMA_NLDEV_ATTR_RES_PID, 1),
            word(RDMA_NLDEV_ATTR_PORT_INDEX, 2),
            word(RDMA_NLDEV_ATTR_RES_RQPN, 6),
            word(RDMA_NLDEV_ATTR_RES_RQ_PSN, 7),
            word(RDMA_NLDEV_ATTR_RES_SQ_PSN, 8),
            byte(RDMA_NLDEV_ATTR_RES_TYPE, 9),
            byte(RDMA_NLDEV_ATTR_RES_STATE, 3),
            word(RDMA_NLDEV_ATTR_RES_CQE, 11),
            wide(RDMA_NLDEV_ATTR_RES_USECNT, 12),
            wide(RDMA_NLDEV_ATTR_RES_MRLEN, 13),
            word(RDMA_NLDEV_ATTR_RES_LKEY, 14),
            word(RDMA_NLDEV_ATTR_RES_RKEY, 15),
        ]
        .concat();
        for (number, attribute) in [
            (3, RDMA_NLDEV_ATTR_RES_PDN),
            (4, RDMA_NLDEV_ATTR_RES_CQN),
            (5, RDMA_NLDEV_ATTR_RES_CTXN),
        ] {
            if attribute != id {
                own.extend(word(attribute, number));
            }
        }
        own.extend(word(id, 16));
        let of_kernel = text(RDMA_NLDEV_ATTR_RES_KERN_NAME, "ib_core");
        let list = attr(
            table,
            &[attr(entry, &own), attr(entry, &of_kernel)].concat(),
        );
        let mut found = Vec::new();
        parse(&[list], |attributes| {
            Resource::parse_list(kind, attributes, &mut found)
        })
        .unwrap();
        let other = |number, attribute| (attribute != id).then_some(number);
        let first = Resource {
            id: Some(16),
            owner: Owner::Process(1),
            port: Some(2),
            pd: other(3, RDMA_NLDEV_ATTR_RES_PDN),
            cq: other(4, RDMA_NLDEV_ATTR_RES_CQN),
            context: other(5, RDMA_NLDEV_ATTR_RES_CTXN),
            remote_qpn: Some(6),
            rq_psn: Some(7),
            sq_psn: Some(8),
            kind: Some(9),
            state: Some(3),
            cqe: Some(11),
            users: Some(12),
            length: Some(13),
            lkey: Some(LocalKey::from_raw(14)),
            rkey: Some(RemoteKey::from_raw(15)),
        };
        let second = Resource {
            owner: Owner::Kernel("ib_core".to_owned()),
            ..Resource::default()
        };
        assert_eq!(first.qp_state(), Some(crate::types::QpState::ReadyToSend));
        assert_eq!(found, [first, second], "{name}");
    }
}

#[test]
fn summaries_and_counters() {
    let entry = |name: &str, count| {
        let fields = [
            text(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, name),
            wide(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, count),
        ];
        attr(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY, &fields.concat())
    };
    let all = [
        word(RDMA_NLDEV_ATTR_DEV_INDEX, 11),
        text(RDMA_NLDEV_ATTR_DEV_NAME, "rxe7"),
        attr(
            RDMA_NLDEV_ATTR_RES_SUMMARY,
            &[entry("qp", 5), entry("mr", 6)].concat(),
        ),
    ];
    let summary = parse(&all, Summary::parse).unwrap();
    assert_eq!((summary.index, summary.name.as_str()), (11, "rxe7"));
    assert_eq!(summary.count(ResourceKind::QueuePair), 5);
    assert_eq!(summary.count(ResourceKind::MemoryRegion), 6);
    assert_eq!(summary.count(ResourceKind::Context), 0);

    let counter = |fields: &[Vec<u8>]| {
        let entry = attr(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, &fields.concat());
        parse(
            &[attr(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, &entry)],
            parse_counters,
        )
    };
    let fields = [
        text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, "sent_pkts"),
        wide(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, 77),
    ];
    let counters = counter(&fields).unwrap();
    assert_eq!(
        (counters[0].name.as_str(), counters[0].value),
        ("sent_pkts", 77)
    );
    assert!(counter(&fields[..1]).is_err());
    assert!(counter(&fields[1..]).is_err());
}

#[test]
fn the_system() {
    let all = [
        byte(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1),
        byte(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1),
        byte(RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, 1),
        byte(RDMA_NLDEV_SYS_ATTR_MONITOR_MODE, 1),
    ];
    let none = System::default();
    for (at, expected) in [
        System {
            netns_mode: Some(NetnsMode::Shared),
            ..none
        },
        System {
            copy_on_fork: true,
            ..none
        },
        System {
            privileged_qkey: Some(true),
            ..none
        },
        System {
            monitor: true,
            ..none
        },
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(parse(&all[at..=at], System::parse), Ok(expected));
    }
    for raw in [0, 1, 2, 255] {
        assert_eq!(NetnsMode::from_raw(raw).raw(), raw);
    }
    assert_eq!(NetnsMode::from_raw(0), NetnsMode::Exclusive);
}
