//! Every command without a list in its reply: the struct that the kernel gets, each field by a
//! value of its own.

use std::net::SocketAddr;
use std::time::Duration;

use uverbs_uapi::ib_user_sa::ib_path_rec_data;
use uverbs_uapi::rdma_user_cm::{
    rdma_ucm_accept, rdma_ucm_bind, rdma_ucm_bind_ip, rdma_ucm_connect, rdma_ucm_create_id,
    rdma_ucm_destroy_id, rdma_ucm_disconnect, rdma_ucm_join_ip_mcast, rdma_ucm_join_mcast,
    rdma_ucm_listen, rdma_ucm_migrate_id, rdma_ucm_notify, rdma_ucm_reject, rdma_ucm_resolve_addr,
    rdma_ucm_resolve_ib_service, rdma_ucm_resolve_ip, rdma_ucm_resolve_route, rdma_ucm_set_option,
    rdma_ucm_write_cm_event,
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::script::Manager;
use crate::cm::*;
use crate::error::{Errno, ErrorKind, Op};
use crate::types::{AckTimeout, AsyncEventType, Ece, QpType};

const ID: u32 = 0x51;
const UID: u64 = 0x6162_6364_6566;

fn number(value: u32) -> Result<Vec<u8>, Errno> {
    Ok(value.to_ne_bytes().to_vec())
}

fn address(last: u8) -> CmAddress {
    SocketAddr::from(([10, 0, 0, last], 7471)).into()
}

#[test]
fn ids_are_created_moved_and_destroyed() {
    let (manager, file) = Manager::new([number(7), number(8), number(9), number(10)]);
    assert_eq!(
        create_id(&file, UID, PortSpace::Udp, QpType::Ud).unwrap(),
        7
    );
    let (command, request) = manager.one::<rdma_ucm_create_id>();
    assert_eq!(command, 0);
    assert_eq!((request.uid, request.ps, request.qp_type), (UID, 0x111, 4));

    assert_eq!(destroy_id(&file, ID).unwrap(), 8);
    let (command, request) = manager.one::<rdma_ucm_destroy_id>();
    assert_eq!((command, request.id), (1, ID));

    let (_, old) = Manager::new([]);
    assert_eq!(migrate_id(&file, &old, ID).unwrap(), 9);
    let (command, request) = manager.one::<rdma_ucm_migrate_id>();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&old.fd());
    assert_eq!((command, request.id), (18, ID));
    assert_eq!(request.fd, fd.cast_unsigned());

    assert_eq!(leave_multicast(&file, 0x33).unwrap(), 10);
    let (command, request) = manager.one::<rdma_ucm_destroy_id>();
    assert_eq!((command, request.id), (17, 0x33));
}

#[test]
fn a_reply_that_was_not_written_is_bad() {
    let (_, file) = Manager::new([]);
    let refused = [
        create_id(&file, UID, PortSpace::Tcp, QpType::Rc).map(drop),
        destroy_id(&file, ID).map(drop),
        migrate_id(&file, &file, ID).map(drop),
        join_multicast(&file, ID, UID, address(1), MulticastJoin::Full).map(drop),
        join_multicast_ip(&file, ID, UID, address(1)).map(drop),
        leave_multicast(&file, ID).map(drop),
        query_route(&file, ID).map(drop),
        query_addresses(&file, ID).map(drop),
        query_gids(&file, ID).map(drop),
        query_paths(&file, ID).map(drop),
        query_services(&file, ID).map(drop),
        init_qp_attr(&file, ID, crate::types::QpState::Init).map(drop),
        get_event(&file).map(drop),
    ];
    for (at, refused) in refused.into_iter().enumerate() {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::BadReply, "{at}");
    }
}

#[test]
fn the_kernel_discards_events_of_uid_0_so_it_is_refused() {
    let (manager, file) = Manager::new([]);
    for refused in [
        create_id(&file, 0, PortSpace::Tcp, QpType::Rc).map(drop),
        accept(&file, ID, 0, &ConnectionParams::default(), Ece::default()),
        join_multicast(&file, ID, 0, address(1), MulticastJoin::Full).map(drop),
        join_multicast_ip(&file, ID, 0, address(1)).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert!(manager.sent().is_empty());
}

#[test]
fn addresses_are_bound_and_listened_on() {
    let (manager, file) = Manager::new([]);
    bind(&file, ID, address(1)).unwrap();
    let (command, request) = manager.one::<rdma_ucm_bind>();
    let (storage, size) = address(1).to_storage();
    assert_eq!((command, request.id, request.addr_size), (20, ID, size));
    assert_eq!(request.addr, storage);

    bind_ip(&file, ID, address(1)).unwrap();
    let (command, request) = manager.one::<rdma_ucm_bind_ip>();
    assert_eq!((command, request.id), (2, ID));
    assert_eq!(CmAddress::from_in6(&request.addr), Some(address(1)));

    listen(&file, ID, 99).unwrap();
    let (command, request) = manager.one::<rdma_ucm_listen>();
    assert_eq!((command, request.id, request.backlog), (7, ID, 99));
}

#[test]
fn addresses_and_routes_are_resolved() {
    let (manager, file) = Manager::new([]);
    let time = Duration::from_millis(1234);
    for source in [None, Some(address(2))] {
        let (storage, size) = source.map(CmAddress::to_storage).unwrap_or_default();
        resolve_address(&file, ID, source, address(1), time).unwrap();
        let (command, request) = manager.one::<rdma_ucm_resolve_addr>();
        assert_eq!((command, request.id, request.timeout_ms), (21, ID, 1234));
        assert_eq!((request.src_addr, request.src_size), (storage, size));
        assert_eq!(
            (request.dst_addr, request.dst_size),
            address(1).to_storage()
        );

        resolve_ip(&file, ID, source, address(1), time).unwrap();
        let (command, request) = manager.one::<rdma_ucm_resolve_ip>();
        assert_eq!((command, request.id, request.timeout_ms), (3, ID, 1234));
        assert_eq!(CmAddress::from_in6(&request.src_addr), source);
        assert_eq!(CmAddress::from_in6(&request.dst_addr), Some(address(1)));
    }
    resolve_route(&file, ID, time).unwrap();
    let (command, request) = manager.one::<rdma_ucm_resolve_route>();
    assert_eq!((command, request.id, request.timeout_ms), (4, ID, 1234));
}

#[test]
fn unreachable_networks_have_a_hint() {
    for (errno, hinted) in [
        (Errno::NETUNREACH, true),
        (Errno::HOSTUNREACH, true),
        (Errno::INVAL, false),
    ] {
        let (_, file) = Manager::new([Err(errno)]);
        let error = resolve_address(&file, ID, None, address(1), Duration::ZERO).unwrap_err();
        let hint = error.known_hint().unwrap_or_default();
        assert_eq!(hint.contains("no route"), hinted, "{errno}");
        assert!(error.to_string().contains("10.0.0.1:7471"), "{error}");
    }
}

fn params() -> ConnectionParams {
    ConnectionParams {
        qp_num: 0x11,
        qkey: 0x22,
        private_data: PrivateData::new(Op::CmConnect, b"hello", PrivateData::CONNECT).unwrap(),
        srq: true,
        responder_resources: 3,
        initiator_depth: 4,
        flow_control: false,
        retry_count: 5,
        rnr_retry_count: 6,
    }
}

const ECE: Ece = Ece {
    vendor_id: 0x71,
    options: 0x72,
    comp_mask: 0x73,
};

#[test]
fn commands_of_the_handshake_encode_their_parameters() {
    let (manager, file) = Manager::new([]);
    connect(&file, ID, &params(), ECE).unwrap();
    let (command, request) = manager.one::<rdma_ucm_connect>();
    assert_eq!((command, request.id), (6, ID));
    assert_eq!((request.ece.vendor_id, request.ece.attr_mod), (0x71, 0x72));
    let raw = request.conn_param;
    assert_eq!((raw.qp_num, raw.qkey), (0x11, 0x22));
    assert_eq!(
        (&raw.private_data[..6], raw.private_data_len),
        (&b"hello\0"[..], 5)
    );
    assert_eq!((raw.srq, raw.flow_control, raw.valid), (1, 0, 1));
    assert_eq!((raw.responder_resources, raw.initiator_depth), (3, 4));
    assert_eq!((raw.retry_count, raw.rnr_retry_count), (5, 6));

    accept(&file, ID, UID, &params(), ECE).unwrap();
    let (command, request) = manager.one::<rdma_ucm_accept>();
    assert_eq!((command, request.id, request.uid), (8, ID, UID));
    assert_eq!(request.conn_param, raw);
    assert_eq!((request.ece.vendor_id, request.ece.attr_mod), (0x71, 0x72));

    // Without a peer's answer to accept, and without parameters.
    establish(&file, ID).unwrap();
    let (command, request) = manager.one::<rdma_ucm_accept>();
    assert_eq!((command, request.id, request.uid), (8, ID, 0));
    assert_eq!(request.conn_param.valid, 0);

    disconnect(&file, ID).unwrap();
    let (command, request) = manager.one::<rdma_ucm_disconnect>();
    assert_eq!((command, request.id), (10, ID));

    notify(&file, ID, AsyncEventType::CommunicationEstablished).unwrap();
    let (command, request) = manager.one::<rdma_ucm_notify>();
    assert_eq!((command, request.id, request.event), (15, ID, 4));
}

#[test]
fn reject_accepts_only_reasons_of_the_consumer() {
    let (manager, file) = Manager::new([]);
    let data = params().private_data;
    reject(&file, ID, RejectReason::VendorOption, &data).unwrap();
    let (command, request) = manager.one::<rdma_ucm_reject>();
    assert_eq!((command, request.id, request.reason), (9, ID, 35));
    assert_eq!(
        (&request.private_data[..6], request.private_data_len),
        (&b"hello\0"[..], 5)
    );
    let refused = reject(&file, ID, RejectReason::Timeout, &data).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(manager.sent().is_empty());
}

#[test]
fn groups_are_joined() {
    let (manager, file) = Manager::new([number(3), number(4), number(5)]);
    for (join, flags, found) in [(MulticastJoin::Full, 0, 3), (MulticastJoin::SendOnly, 1, 4)] {
        assert_eq!(
            join_multicast(&file, ID, UID, address(9), join).unwrap(),
            found
        );
        let (command, request) = manager.one::<rdma_ucm_join_mcast>();
        assert_eq!((command, request.id, request.uid), (22, ID, UID));
        assert_eq!(request.join_flags, flags);
        assert_eq!((request.addr, request.addr_size), address(9).to_storage());
    }
    assert_eq!(join_multicast_ip(&file, ID, UID, address(9)).unwrap(), 5);
    let (command, request) = manager.one::<rdma_ucm_join_ip_mcast>();
    assert_eq!((command, request.id, request.uid), (16, ID, UID));
    assert_eq!(CmAddress::from_in6(&request.addr), Some(address(9)));
}

#[test]
fn options_are_values_at_a_level() {
    let (manager, file) = Manager::new([]);
    let path = PathRecord {
        flags: 0x35,
        record: [0x5a; 64],
    };
    let raw = ib_path_rec_data {
        flags: 0x35,
        reserved: 0,
        path_rec: [0x5a5a_5a5a; 16],
    };
    set_type_of_service(&file, ID, 0x68).unwrap();
    set_reuse_address(&file, ID, true).unwrap();
    set_address_family_only(&file, ID, true).unwrap();
    set_ack_timeout(&file, ID, AckTimeout::code(15).unwrap()).unwrap();
    set_paths(&file, ID, &[path]).unwrap();
    let one = 1_i32.to_ne_bytes();
    let expected: [(u32, u32, &[u8]); 5] = [
        (0, 0, &[0x68]),
        (0, 1, &one),
        (0, 2, &one),
        (0, 3, &[15]),
        (1, 1, raw.as_bytes()),
    ];
    for (sent, (level, option, value)) in manager.sent().iter().zip(expected) {
        let request = rdma_ucm_set_option::read_from_bytes(&sent.request).unwrap();
        assert_eq!((sent.number, request.id), (14, ID));
        assert_eq!((request.level, request.optname), (level, option));
        assert_eq!(request.optlen as usize, value.len());
        assert_eq!(sent.value, value, "{level} {option}");
    }
}

#[test]
fn services_are_named_by_number_or_text() {
    let (manager, file) = Manager::new([]);
    for (service_id, name, flags) in [
        (Some(0x99), None, 1),
        (None, Some("storage"), 2),
        (Some(0x99), Some("storage"), 3),
    ] {
        resolve_service(&file, ID, service_id, name).unwrap();
        let (command, request) = manager.one::<rdma_ucm_resolve_ib_service>();
        assert_eq!((command, request.id), (23, ID));
        assert_eq!(request.ibs.service_id, service_id.unwrap_or(0));
        let text = name.unwrap_or_default().as_bytes();
        assert!(request.ibs.service_name.starts_with(text));
        assert_eq!(request.ibs.service_name[text.len()], 0);
        assert_eq!(request.ibs.flags, flags);
    }
    let nameless = resolve_service(&file, ID, None, None).unwrap_err();
    assert_eq!(nameless.kind(), ErrorKind::InvalidInput);
    let long = "x".repeat(64);
    let long = resolve_service(&file, ID, None, Some(&long)).unwrap_err();
    assert_eq!(long.kind(), ErrorKind::LimitExceeded);
    resolve_service(&file, ID, None, Some(&"x".repeat(63))).unwrap();
}

#[test]
fn write_event_tells_an_older_kernel_from_an_unknown_id() {
    let (manager, file) = Manager::new([]);
    write_event(&file, ID, EventKind::User, -5, 0x1234_5678_9abc).unwrap();
    let (command, request) = manager.one::<rdma_ucm_write_cm_event>();
    assert_eq!((command, request.id, request.event), (24, ID, 18));
    assert_eq!(request.status.cast_signed(), -5);
    assert_eq!(
        request.param.as_bytes()[..8],
        0x1234_5678_9abc_u64.to_ne_bytes()
    );
    let refused = write_event(&file, ID, EventKind::Established, 0, 0).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);

    // Every kernel that has the command answers ENOENT for an id that nobody has.
    for (answers, unsupported) in [
        ([Err(Errno::INVAL), Err(Errno::INVAL)], true),
        ([Err(Errno::INVAL), Err(Errno::NOENT)], false),
        ([Err(Errno::INVAL), number(0)], false),
        ([Err(Errno::NOENT), Err(Errno::INVAL)], false),
    ] {
        let (_, file) = Manager::new(answers);
        let error = write_event(&file, ID, EventKind::Internal, 0, 0).unwrap_err();
        assert_eq!(error.is_unsupported(), unsupported, "{error}");
    }
}
