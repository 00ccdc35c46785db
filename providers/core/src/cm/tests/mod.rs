//! Addresses, events and the node: what needs no kernel.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(clippy::unnecessary_wraps, reason = "answers are beside refusals")]

mod answers;
mod commands;
mod script;

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use uverbs_uapi::linux_socket::{__kernel_sockaddr_storage, sockaddr_in6};
use uverbs_uapi::rdma_netlink::{
    RDMA_NLDEV_ATTR_CHARDEV, RDMA_NLDEV_ATTR_CHARDEV_ABI, RDMA_NLDEV_ATTR_CHARDEV_NAME,
    RDMA_NLDEV_ATTR_CHARDEV_TYPE, RDMA_NLDEV_CMD_GET_CHARDEV,
};
use uverbs_uapi::rdma_user_cm::rdma_ucm_event_resp;
use zerocopy::IntoBytes;

use super::node::find_with;
use super::*;
use crate::discover::netlink::Client;
use crate::discover::netlink::tests::script::{Script, answer, attr, error, text};
use crate::discover::tests::tree::Tree;
use crate::discover::{CharDevice, Options, Source};
use crate::error::{Errno, Error, ErrorKind, Op, Result};
use crate::types::Gid;

#[test]
fn addresses_go_there_and_back() {
    let scoped = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7, 0x000a_bcde, 3);
    let ib = IbAddress {
        pkey: 0x8001,
        flow_info: 5,
        gid: Gid::from_bytes(*b"0123456789abcdef"),
        service_id: 0x0106_1d2f,
        service_mask: u64::MAX,
        scope_id: 9,
    };
    for (address, family, len) in [
        (
            CmAddress::from(SocketAddr::from(([10, 0, 0, 1], 7471))),
            2,
            16,
        ),
        (SocketAddr::V6(scoped).into(), 10, 28),
        (ib.into(), 27, 48),
    ] {
        let (storage, size) = address.to_storage();
        assert_eq!((storage.ss_family, size), (family, len));
        assert_eq!(CmAddress::from_storage(&storage), Some(address));
        assert!(!address.is_wildcard());
        let short = address.to_in6(Op::CmBind);
        match short {
            Ok(short) => assert_eq!(CmAddress::from_in6(&short), Some(address)),
            Err(error) => assert!(error.is_unsupported() && family == 27),
        }
    }
    // Port 7471, in network byte order.
    let (storage, _) = CmAddress::from(SocketAddr::from(([10, 0, 0, 1], 7471))).to_storage();
    assert_eq!(storage.__data[..6], [0x1d, 0x2f, 10, 0, 0, 1]);
    let strange = __kernel_sockaddr_storage {
        ss_family: 99,
        ..__kernel_sockaddr_storage::default()
    };
    assert_eq!(CmAddress::from_storage(&strange), None);
}

#[test]
fn a_port_without_ip_belongs_to_a_space() {
    let gid = Gid::from_bytes(*b"0123456789abcdef");
    let port = IbAddress::new(gid, 7471);
    assert_eq!(
        (port.service_id, port.pkey, port.port()),
        (7471, 0xffff, 7471)
    );
    let connections = port.in_space(PortSpace::Tcp);
    assert_eq!(
        (connections.service_id, connections.port()),
        (0x0106_1d2f, 7471)
    );
    let datagrams = port.in_space(PortSpace::Udp);
    assert_eq!(datagrams.service_id, 0x0111_1d2f);
    // A service that is given stays.
    assert_eq!(datagrams.in_space(PortSpace::Tcp), datagrams);
    let socket = CmAddress::from(connections).to_socket_addr();
    let ip = Ipv6Addr::from(*b"0123456789abcdef");
    assert_eq!(socket, SocketAddr::from((ip, 7471)));
    // The kernel puts the beginning of one into the room of an IP address.
    let (storage, _) = CmAddress::from(connections).to_storage();
    let mut short = sockaddr_in6::default();
    let bytes = short.as_mut_bytes();
    let length = bytes.len();
    bytes.copy_from_slice(&storage.as_bytes()[..length]);
    assert_eq!(CmAddress::from_in6(&short), None);
}

fn event(kind: u32, status: i32) -> Event {
    let raw = rdma_ucm_event_resp {
        event: kind,
        status: status.cast_unsigned(),
        ..rdma_ucm_event_resp::default()
    };
    decode_event(&raw).unwrap()
}

#[test]
fn a_status_means_what_its_event_says() {
    let stale = EventStatus::Rejected(RejectReason::StaleConnection);
    let time = EventStatus::Failed(Errno::TIMEDOUT);
    for (kind, status, outcome) in [
        (0, 0, EventStatus::Success),
        (8, 10, stale),
        (8, 99, EventStatus::Rejected(RejectReason::from_raw(99))),
        (8, 0x1_0000, EventStatus::Other(0x1_0000)),
        // iWARP says why by an errno.
        (8, -110, time),
        (7, -110, time),
        (7, 2, EventStatus::Refused(2)),
        (3, 5, EventStatus::Other(5)),
        (1, i32::MIN, EventStatus::Other(i32::MIN)),
        (1, -4096, EventStatus::Other(-4096)),
        (77, 0, EventStatus::Success),
    ] {
        assert_eq!(event(kind, status).outcome(), outcome, "{kind} {status}");
    }
}

#[test]
fn any_bytes_are_an_event() {
    for byte in [0, 1, 0x4d, 0x80, 0xfe] {
        let mut raw = rdma_ucm_event_resp::default();
        raw.as_mut_bytes().fill(byte);
        let event = decode_event(&raw).unwrap();
        assert_eq!(
            event.connection().private_data.as_bytes().len(),
            usize::from(byte)
        );
        assert_eq!(
            event.datagram().private_data.as_bytes().len(),
            usize::from(byte)
        );
    }
    let mut raw = rdma_ucm_event_resp::default();
    raw.as_mut_bytes().fill(0xff);
    assert_eq!(decode_event(&raw).unwrap_err().kind(), ErrorKind::BadReply);
}

#[test]
fn private_data_is_measured_before_it_is_sent() {
    let longest = [7; PrivateData::CONNECT];
    let data = PrivateData::new(Op::CmConnect, &longest, PrivateData::CONNECT).unwrap();
    assert_eq!(data.as_bytes(), longest);
    for (len, most) in [(57, PrivateData::CONNECT), (256, usize::MAX), (300, 400)] {
        let error = PrivateData::new(Op::CmConnect, &vec![0; len], most).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{len}");
    }
    // What comes after the end does not count.
    assert_eq!(PrivateData::from_parts([9; 256], 0), PrivateData::EMPTY);
}

#[test]
fn times_are_rounded_up() {
    use super::issue::milliseconds;
    use std::time::Duration;
    for (time, raw) in [
        (Duration::ZERO, 0),
        (Duration::from_nanos(1), 1),
        (Duration::from_millis(5), 5),
        (Duration::from_micros(5001), 6),
        (Duration::MAX, i32::MAX.unsigned_abs()),
    ] {
        assert_eq!(milliseconds(time), raw, "{time:?}");
    }
}

const NUMBER: CharDevice = CharDevice {
    major: 10,
    minor: 120,
};

#[test]
fn netlink_knows_the_node() {
    let attributes = [
        attr(RDMA_NLDEV_ATTR_CHARDEV, &0x0a78_u64.to_ne_bytes()),
        attr(RDMA_NLDEV_ATTR_CHARDEV_ABI, &4_u64.to_ne_bytes()),
        text(RDMA_NLDEV_ATTR_CHARDEV_NAME, "rdma_cm"),
    ];
    let script = Script::new([answer(RDMA_NLDEV_CMD_GET_CHARDEV, false, 1, &attributes)]);
    let node = find_with(Some(Ok(script.client())), &Options::default()).unwrap();
    assert_eq!(node.source, Source::Netlink);
    assert_eq!((node.number, node.abi_version), (Some(NUMBER), 4));
    assert_eq!(node.path.to_str(), Some("/dev/infiniband/rdma_cm"));
    // It asks for the type, and names no device.
    let sent = &script.sent()[0];
    assert_eq!(sent[16..], text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "rdma_cm"));
}

#[test]
fn f17_the_node_is_found_by_sysfs_or_by_its_default_path() {
    let tree = Tree::new();
    let refuse = || Some(Ok(Script::new([error(1, Errno::OPNOTSUPP)]).client()));
    let node = find_with(refuse(), &tree.options()).unwrap();
    assert_eq!(node.source, Source::DevOnly);
    assert_eq!((node.number, node.abi_version), (None, 4));
    tree.write("infiniband_ucma/abi_version", "3\n");
    let node = find_with(None::<Result<Client<Script>>>, &tree.options()).unwrap();
    assert_eq!((node.source, node.number), (Source::Sysfs, None));
    assert_eq!(node.abi_version, 3);
    tree.write("misc/rdma_cm/abi_version", "4\n");
    tree.write("misc/rdma_cm/dev", "10:120\n");
    let node = find_with(refuse(), &tree.options()).unwrap();
    assert_eq!((node.number, node.abi_version), (Some(NUMBER), 4));
    assert!(node.path.ends_with("dev/infiniband/rdma_cm"));
}

#[test]
fn a_missing_netlink_falls_back_but_lack_of_resources_is_an_error() {
    let tree = Tree::new();
    for (errno, found) in [
        (Errno::MFILE, false),
        (Errno::NFILE, false),
        (Errno::NOMEM, false),
        (Errno::PROTONOSUPPORT, true),
        (Errno::ACCESS, true),
    ] {
        let refused = Err::<Client<Script>, _>(Error::os(Op::ListDevices, errno));
        match find_with(Some(refused), &tree.options()) {
            Ok(node) => assert!(found && node.source == Source::DevOnly, "{errno}"),
            Err(error) => {
                let found = found.then_some(errno);
                assert_eq!((error.op(), found), (Op::OpenConnectionManager, None));
                assert_eq!(error.errno(), Some(errno));
                let hint = error.known_hint().unwrap_or_default();
                assert_eq!(hint.contains("ulimit"), errno == Errno::MFILE);
            }
        }
    }
}

#[test]
fn f16_a_node_that_is_missing_or_another_device_is_not_opened() {
    let tree = Tree::new();
    let missing = open(&tree.options()).unwrap_err();
    assert_eq!(
        (missing.op(), missing.errno()),
        (Op::OpenConnectionManager, Some(Errno::NOENT))
    );
    assert!(missing.known_hint().unwrap().contains("modprobe rdma_ucm"));
    // Nobody knows its number, and it is not the connection manager.
    tree.link("rdma_cm", "/dev/null");
    let other = open(&tree.options()).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::InvalidInput, "{other}");
    tree.write("misc/rdma_cm/abi_version", "4\n");
    tree.write("misc/rdma_cm/dev", "10:120\n");
    let stale = open(&tree.options()).unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::InvalidInput, "{stale}");
}

#[test]
fn f04_another_version_is_refused() {
    let tree = Tree::new();
    tree.write("misc/rdma_cm/abi_version", "5\n");
    let error = open(&tree.options()).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    assert!(
        error.to_string().contains("abi_version 5, known 4"),
        "{error}"
    );
}

#[test]
fn an_event_without_an_id_or_a_kind_is_a_bad_reply() {
    for (id, event) in [(u32::MAX, 3), (3, u32::MAX)] {
        let raw = rdma_ucm_event_resp {
            id,
            event,
            ..rdma_ucm_event_resp::default()
        };
        let error = decode_event(&raw).unwrap_err();
        assert_eq!(
            (error.op(), error.kind()),
            (Op::CmGetEvent, ErrorKind::BadReply)
        );
    }
}

#[test]
fn refusals_of_the_connection_manager_are_explained() {
    for (errno, kind, words) in [
        (
            Errno::ACCESS,
            ErrorKind::PermissionDenied,
            "changed its user",
        ),
        (Errno::NXIO, ErrorKind::DeviceRemoved, "destroy the id"),
        (Errno::NOTRECOVERABLE, ErrorKind::Panicked, "panicked"),
        (Errno::INVAL, ErrorKind::InvalidInput, ""),
    ] {
        let (_, file) = script::Manager::new([Err(errno)]);
        let error = destroy_id(&file, 7).unwrap_err();
        assert_eq!((error.errno(), error.kind()), (Some(errno), kind));
        let hint = error.known_hint().unwrap_or_default();
        assert!(hint.contains(words), "{error}");
        assert_eq!(hint.is_empty(), words.is_empty(), "{error}");
    }
    let (_, file) = script::Manager::new([Err(Errno::AGAIN), Err(Errno::AGAIN)]);
    assert_eq!(get_event(&file).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_ne!(
        destroy_id(&file, 7).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

#[test]
fn an_event_is_waited_for_no_longer_than_asked() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let (manager, _) = script::Manager::new([]);
    let file = script::file_over(manager, reader.into());
    let wait = || file.wait_event(Some(std::time::Duration::ZERO)).unwrap();
    assert!(!wait());
    file.set_nonblocking().unwrap();
    let read = std::io::Read::read(
        &mut std::fs::File::from(file.fd().try_clone_to_owned().unwrap()),
        &mut [0],
    );
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    std::io::Write::write_all(&mut writer, b"x").unwrap();
    assert!(wait());
    let bell = crate::sys::Bell::new(Op::CmGetEvent).unwrap();
    bell.ring();
    assert!(file.wait_event_or(Some(&bell), None).unwrap());
}
