//! Encoded requests, and the answers of Linux 6.12 for an rxe device on `v0`.
//!
//! The bytes are those of a little-endian machine.
#![cfg(target_endian = "little")]

use super::script::{Script, hex};
use crate::discover::CharDevice;
use crate::discover::netlink::{Client, NetnsMode, Owner, ResourceKind};
use crate::error::{Errno, ErrorKind};
use crate::types::{DriverId, NodeType, PhysicalState, PortState};

const DONE: &str = "1400000003000200010000009500000000000000";
const DEVICE: &str = "\
    080001000000000009000200727865300000000008000300010000000c000400763c2201c00100000c0006007aab08feff3faf34\
    0c0007007aab08feff3faf3405000e00010000000500540000000000050065000100000009004300726f636500000000";
const PORT: &str = "\
    0800010000000000090002007278653000000000080003000100000005000c000400000005000d0005000000080032000400000007003300\
    76300000";

/// Runs a query, and compares the request with `sent`.
fn query<A>(sent: &str, answers: &[&str], question: impl FnOnce(&mut Client<Script>) -> A) -> A {
    let script = Script::new(answers.iter().map(|answer| hex(answer)));
    let answer = question(&mut script.client());
    assert_eq!(script.sent(), [hex(sent)], "request");
    assert_eq!(script.unread(), 0);
    answer
}

#[test]
fn devices() {
    let part = format!("7400000001140200 01000000 95000000 {DEVICE}");
    let devices = query(
        "10000000011401030100000000000000",
        &[&part, DONE],
        Client::devices,
    )
    .unwrap();
    let [device] = &devices[..] else {
        panic!("{devices:?}")
    };
    assert_eq!(
        (device.index, device.name.as_str(), device.ports),
        (0, "rxe0", Some(1))
    );
    assert_eq!(device.node_guid.unwrap().to_string(), "34af:3fff:fe08:ab7a");
    assert_eq!(device.sys_image_guid, device.node_guid);
    assert_eq!(device.node_type, Some(NodeType::ChannelAdapter));
    assert_eq!(device.caps, Some(0x1c0_0122_3c76));
    assert_eq!(
        (device.protocol.as_deref(), device.fw_version.as_deref()),
        (Some("roce"), None)
    );
}

#[test]
fn one_device() {
    let whole = format!("7400000001140000 01000000 95000000 {DEVICE}");
    let sent = "18000000011401000100000000000000 0800010000000000";
    let device = query(sent, &[&whole], |client| client.device(0)).unwrap();
    assert_eq!(device.name, "rxe0");
}

#[test]
fn a_character_device() {
    let uverbs = query(
        "240000000f1401000100000000000000 0800010000000000 0b0045007576657262730000",
        &[
            "3c0000000f1400000100000095000000 080049000e000000 0c004800c0e7000000000000 \
           0c0047000200000000000000 0c0046007576657262733000",
        ],
        |client| client.char_device(0),
    )
    .unwrap();
    assert_eq!(uverbs.name, "uverbs0");
    assert_eq!(
        uverbs.number,
        CharDevice {
            major: 231,
            minor: 192
        }
    );
    assert_eq!(
        (uverbs.abi_version, uverbs.driver_id),
        (2, Some(DriverId::Rxe))
    );
}

#[test]
fn a_device_that_is_not_there() {
    let error = query(
        "240000000f1401000100000000000000 080001004d000000 0b0045007576657262730000",
        &["38000000020000000100000095000000 eaffffff \
           240000000f1401000100000000000000 080001004d000000 0b0045007576657262730000"],
        |client| client.char_device(77),
    )
    .unwrap_err();
    assert_eq!(
        (error.kind(), error.errno()),
        (ErrorKind::InvalidInput, Some(Errno::INVAL))
    );
}

#[test]
fn ports() {
    let listed = format!("4c00000005140200 01000000 95000000 {PORT}");
    let sent = "18000000051401030100000000000000 0800010000000000";
    let ports = query(sent, &[&listed, DONE], |client| client.ports(0)).unwrap();
    let [port] = &ports[..] else {
        panic!("{ports:?}")
    };
    assert_eq!((port.device, port.number), (0, 1));
    assert_eq!(
        (port.state, port.physical_state),
        (Some(PortState::Active), Some(PhysicalState::LinkUp))
    );
    assert_eq!(
        (port.netdev_index, port.netdev.as_deref()),
        (Some(4), Some("v0"))
    );
    assert_eq!(port.lid, None);

    // The kernel answers this one with the number of another command.
    let whole = format!("4c00000001140000 01000000 95000000 {PORT}");
    let sent = "20000000051401000100000000000000 0800010000000000 0800030001000000";
    assert_eq!(
        query(sent, &[&whole], |client| client.port(0, 1)).unwrap(),
        *port
    );
}

#[test]
fn settings() {
    let system = query(
        "10000000061401000100000000000000",
        &["30000000061400000100000095000000 0500420001000000 0500600000000000 0500670001000000 05005d0001000000"],
        Client::system,
    )
    .unwrap();
    assert_eq!(system.netns_mode, Some(NetnsMode::Shared));
    assert!(system.copy_on_fork && system.monitor);
    assert_eq!(system.privileged_qkey, Some(false));
}

#[test]
fn settings_of_an_old_kernel() {
    let system = query(
        "10000000061401000100000000000000",
        &["18000000061400000100000095000000 0500420001000000"],
        Client::system,
    )
    .unwrap();
    assert!(!system.copy_on_fork);
    assert_eq!(system.privileged_qkey, None);
}

#[test]
fn summaries() {
    let part = "d4000000091402000100000095000000 0800010000000000 090002007278653000000000 b0000f00\
        1800100007001100706400000c0012000100000000000000 1800100007001100637100000c0012000100000000000000\
        1800100007001100717000000c0012000100000000000000 1c0010000a001100636d5f69640000000c0012000000000000000000\
        18001000070011006d7200000c0012000000000000000000 1800100008001100637478000c0012000000000000000000\
        1800100008001100737271000c0012000000000000000000";
    let all = query(
        "10000000091401030100000000000000",
        &[part, DONE],
        Client::summaries,
    )
    .unwrap();
    let [summary] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(summary.name, "rxe0");
    let counts: Vec<_> = ResourceKind::ALL
        .iter()
        .map(|kind| summary.count(*kind))
        .collect();
    assert_eq!(counts, [1, 1, 1, 0, 0, 0, 0]);
    let names: Vec<_> = summary
        .counts
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["pd", "cq", "qp", "cm_id", "mr", "ctx", "srq"]);
}

#[test]
fn queue_pairs() {
    let list = query(
        "180000000a1401030100000000000000 0800010000000000",
        &["600000000a1402000100000095000000 0800010000000000 090002007278653000000000 3c001300 38001400\
           0800030001000000 0800150001000000 0c001d0069625f636f726500 0800180000000000 05001a0001000000 05001b0003000000",
          DONE],
        |client| client.resources(0, ResourceKind::QueuePair),
    )
    .unwrap();
    let [qp] = &list[..] else { panic!("{list:?}") };
    assert_eq!(qp.id, Some(1));
    assert_eq!(qp.owner, Owner::Kernel("ib_core".into()));
    assert_eq!(
        (qp.port, qp.kind, qp.sq_psn, qp.remote_qpn),
        (Some(1), Some(1), Some(0), None)
    );
    assert_eq!(qp.qp_state().unwrap().c_name(), Some("IBV_QPS_RTS"));
}

#[test]
fn completion_queues() {
    let list = query(
        "180000000c1401030100000000000000 0800010000000000",
        &["640000000c1402000100000095000000 0800010000000000 090002007278653000000000 40002300 3c002400\
           08002500ff030000 0c0026000200000000000000 0500270002000000 0500540000000000 08003d0000000000\
           0c001d0069625f636f726500",
          DONE],
        |client| client.resources(0, ResourceKind::CompletionQueue),
    )
    .unwrap();
    assert_eq!(
        (list.len(), list[0].id, list[0].cqe, list[0].users),
        (1, Some(0), Some(1023), Some(2))
    );
}

#[test]
fn a_list_of_nothing() {
    let sent = "180000000d1401030100000000000000 0800010000000000";
    let list = query(sent, &[DONE], |client| {
        client.resources(0, ResourceKind::MemoryRegion)
    });
    assert_eq!(list.unwrap(), []);
}

#[test]
fn a_list_that_fails() {
    let sent = "180000000a1401030100000000000000 0800010009000000";
    let end = "14000000030002000100000095000000 eaffffff";
    let error = query(sent, &[end], |client| {
        client.resources(9, ResourceKind::QueuePair)
    })
    .unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INVAL));
    assert_eq!(error.to_string(), "resource: EINVAL (kind qp)");
}

#[test]
fn counters() {
    let counters = query(
        "20000000111401000100000000000000 0800010000000000 0800030001000000",
        &["70000000111400000100000095000000 0800010000000000 090002007278653000000000 0800030001000000 44005080\
           200051800e00520073656e745f706b74730000000c0053000700000000000000\
           20005180100052006c696e6b5f646f776e6564000c005300ffffffffffffffff"],
        |client| client.statistics(0, 1),
    )
    .unwrap();
    let counters: Vec<_> = counters
        .iter()
        .map(|counter| (counter.name.as_str(), counter.value))
        .collect();
    assert_eq!(counters, [("sent_pkts", 7), ("link_downed", u64::MAX)]);
}

#[test]
fn links() {
    let sent =
        "2c000000031405000100000000000000 0900020072786537000000000800410072786500070033006c6f0000";
    let acknowledged = "240000000200000101000000950000000000000 02c000000031405000100000000000000";
    query(sent, &[acknowledged], |client| {
        client.add_link("rxe7", "rxe", "lo")
    })
    .unwrap();

    let sent = "34000000031405000100000000000000 090002007278653700000000080041007278650 00d0033006e6f6e657869737400000000";
    let refused = "24000000020000000100000095000000edffffff34000000031405000100000000000000";
    let error = query(sent, &[refused], |client| {
        client.add_link("rxe7", "rxe", "nonexist")
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "newlink: ENODEV (name rxe7, type rxe, netdev nonexist); there is no such network device here (ip link)"
    );

    let sent = "18000000041405000100000000000000 0800010001000000";
    let acknowledged = "24000000020000010100000095000000 0000000018000000041405000100000000000000";
    query(sent, &[acknowledged], |client| client.delete_link(1)).unwrap();

    let sent = "18000000071405000100000000000000 0500420000000000";
    let acknowledged = "24000000020000010100000095000000 0000000018000000071405000100000000000000";
    query(sent, &[acknowledged], |client| {
        client.set_netns_mode(NetnsMode::Exclusive)
    })
    .unwrap();
}

#[test]
fn names_that_do_not_fit_are_refused_before_any_system_call() {
    let script = Script::default();
    for name in ["x".repeat(256), "x".repeat(70_000), "a\0b".into()] {
        let error = script.client().add_link(&name, "rxe", "lo").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(script.sent(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_mode_without_a_name_is_refused_before_any_system_call() {
    let script = Script::default();
    for raw in 2..=u8::MAX {
        let mode = NetnsMode::from_raw(raw);
        assert_eq!(mode.raw(), raw);
        let error = script.client().set_netns_mode(mode).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert_eq!(script.sent(), Vec::<Vec<u8>>::new());
}
