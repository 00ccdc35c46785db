//! What queries return compared with sysfs.

use std::fs;

use uverbs::ErrorKind;
use uverbs::caps::DeviceCaps;
use uverbs::discover::Options;
use uverbs::gid::{GidEntry, GidType, Guid};
use uverbs::link::{LinkLayer, PortState};
use verbs_tests::{Driver, device_name, driver, link, open, options};

fn sysfs(path: &str) -> String {
    let path = format!("/sys/class/infiniband/{}/{path}", device_name());
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.trim().to_owned()
}

#[test]
fn the_device_is_what_sysfs_says() {
    let context = open();
    let attr = context.device_attr();
    let guid = |path| sysfs(path).parse::<Guid>().unwrap();
    assert_eq!(attr.node_guid, guid("node_guid"));
    assert_eq!(attr.sys_image_guid, guid("sys_image_guid"));
    assert!(!attr.node_guid.is_zero());
    assert_eq!(context.info().ports, Some(1));
    for cap in [
        DeviceCaps::MEM_WINDOW,
        DeviceCaps::MEM_WINDOW_TYPE_2B,
        DeviceCaps::PORT_ACTIVE_EVENT,
    ] {
        assert!(attr.caps.contains(cap), "{cap} is missing in {}", attr.caps);
    }
    assert!(context.completion_vectors() >= 1);
}

#[test]
fn rxe_has_the_limits_of_its_headers() {
    let context = open();
    let attr = context.device_attr();
    // rxe_param.h of every kernel from 6.1.
    assert_eq!(attr.max_sge, 32);
    assert_eq!(attr.max_srq_wr, 1 << 20);
    assert_eq!(attr.max_cqe, (1 << 15) - 1);
    assert!(attr.caps.contains(DeviceCaps::SRQ_RESIZE));
    // rxe_param.h: 8 MiB up to 6.2, 2 GiB since.
    let longest = context.query_port(1).unwrap().max_msg_sz;
    assert!([0x80_0000, 1 << 31].contains(&longest), "{longest}");
}

#[test]
fn the_port_is_what_sysfs_says() {
    let context = open();
    let port = context.query_port(1).unwrap();
    let number = |path| {
        sysfs(path)
            .split(':')
            .next()
            .unwrap()
            .parse::<u8>()
            .unwrap()
    };
    assert_eq!(port.state.raw(), number("ports/1/state"));
    assert_eq!(port.state, PortState::Active);
    assert!(port.is_active());
    assert_eq!(port.phys_state.raw(), number("ports/1/phys_state"));
    let (layer, name) = match port.link_layer {
        LinkLayer::InfiniBand => (port.lid != 0, "InfiniBand"),
        _ => (port.lid == 0 && port.pkey_tbl_len == 1, "Ethernet"),
    };
    assert!(layer, "{port:?}");
    assert_eq!(sysfs("ports/1/link_layer"), name);
    let lid = sysfs("ports/1/lid");
    assert_eq!(format!("{:#x}", port.lid), lid);
    assert!(port.active_mtu <= port.max_mtu);
    assert!(port.max_msg_sz >= 0x80_0000, "{}", port.max_msg_sz);
}

#[test]
fn a_port_that_is_not_there_is_invalid() {
    let context = open();
    for port in [0, 2, 255] {
        let error = context.query_port(port).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::InvalidInput,
            "port {port}: {error}"
        );
    }
}

#[test]
fn the_gid_table_is_what_sysfs_says() {
    let context = open();
    let table = context.gid_table().unwrap();
    assert!(!table.is_empty());
    let port = context.query_port(1).unwrap();
    let (len, layer) = (port.gid_tbl_len, port.link_layer);
    let mut seen = 0;
    for index in 0..len {
        let gid = sysfs(&format!("ports/1/gids/{index}"));
        let entry = table.iter().find(|entry| entry.index == index);
        assert_eq!(
            context.gid(1, index).unwrap().as_ref(),
            entry,
            "entry {index}"
        );
        let Some(GidEntry {
            gid: ours,
            gid_type,
            port,
            netdev,
            ..
        }) = entry
        else {
            assert_eq!(gid.replace([':', '0'], ""), "", "entry {index}");
            continue;
        };
        seen += 1;
        assert_eq!(*ours, gid.parse().unwrap());
        assert_eq!(*port, 1);
        let kind = sysfs(&format!("ports/1/gid_attrs/types/{index}"));
        assert_eq!(Some(*gid_type), GidType::from_sysfs(&kind, layer));
        if layer == LinkLayer::InfiniBand {
            assert_eq!(*netdev, None);
            continue;
        }
        let netdev = netdev.expect("a RoCE entry has an interface");
        let name = sysfs(&format!("ports/1/gid_attrs/ndevs/{index}"));
        assert_eq!(netdev.get(), link::index(&name));
    }
    assert_eq!(seen, table.len());
}

#[test]
fn a_gid_beyond_the_table_is_invalid() {
    let context = open();
    let error = context.gid(1, 1 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let error = context.gid(9, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn partition_keys() {
    let context = open();
    let key = context.pkey(1, 0).unwrap();
    let text = sysfs("ports/1/pkeys/0");
    assert_eq!(format!("{key:#06x}"), text);
    assert_eq!(context.pkey_index(1, key).unwrap(), Some(0));
    assert_eq!(context.pkey_index(1, 0x1234).unwrap(), None);
    let len = context.query_port(1).unwrap().pkey_tbl_len;
    let error = context.pkey(1, len).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn the_speed_is_a_number_or_typed_as_unsupported() {
    match open().query_port_speed(1) {
        Ok(speed) => assert!(speed > 0),
        Err(error) => assert!(error.is_unsupported(), "{error}"),
    }
}

#[test]
fn the_firmware_version_is_what_sysfs_says() {
    let context = open();
    // rxe has no firmware and reports zeros, as the C provider prints them.
    if driver() == Driver::Rxe {
        assert_eq!(context.firmware_version(), "0.0.0");
    } else {
        assert_eq!(context.firmware_version(), sysfs("fw_ver"));
    }
    if let Some(version) = &context.info().fw_version {
        assert_eq!(version, &sysfs("fw_ver"));
    }
}

#[test]
fn f17_a_device_that_was_found_without_netlink_is_the_same() {
    let mut discovery = Options::default();
    discovery.netlink = false;
    let context = options().discover(discovery).open(&device_name()).unwrap();
    let usual = open();
    assert_eq!(context.info().number, usual.info().number);
    assert_eq!(context.info().driver_id(), usual.info().driver_id());
    assert_eq!(context.device_attr(), usual.device_attr());
}
