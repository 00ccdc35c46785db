//! Every reply, each field by a value of its own.

use std::net::SocketAddr;

use uverbs_uapi::ib_user_sa::{ib_path_rec_data, ib_user_path_rec, ib_user_service_rec};
use uverbs_uapi::ib_user_verbs::ib_uverbs_qp_attr;
use uverbs_uapi::rdma_user_cm::{
    rdma_ucm_conn_param, rdma_ucm_event_resp, rdma_ucm_init_qp_attr, rdma_ucm_query,
    rdma_ucm_query_addr_resp, rdma_ucm_query_route_resp, rdma_ucm_ud_param,
};
use zerocopy::{FromBytes as _, IntoBytes};

use super::script::Manager;
use crate::cm::*;
use crate::error::{Errno, ErrorKind, Op};
use crate::types::{
    AckTimeout, Gid, Mtu, Psn, QpAttrMask, QpState, Rate, RetryCount, RnrRetry, RnrTimer,
};

const ID: u32 = 0x51;

fn bytes(reply: &(impl IntoBytes + zerocopy::Immutable)) -> Result<Vec<u8>, Errno> {
    Ok(reply.as_bytes().to_vec())
}

/// A number for each byte, so that neighbours differ.
fn pattern(length: usize) -> Vec<u8> {
    (1..)
        .map(|at: u32| u8::try_from(at % 251).unwrap())
        .take(length)
        .collect()
}

fn address(last: u8) -> CmAddress {
    SocketAddr::from(([10, 0, 0, last], 7471)).into()
}

#[test]
fn fields_of_a_route_are_decoded() {
    let raw = ib_user_path_rec::read_from_bytes(&pattern(64)).unwrap();
    let reply = rdma_ucm_query_route_resp {
        node_guid: u64::from_ne_bytes(*b"nodeguid"),
        ib_route: [raw, ib_user_path_rec { mtu: 3, ..raw }],
        src_addr: address(1).to_in6(Op::CmQuery).unwrap(),
        dst_addr: address(2).to_in6(Op::CmQuery).unwrap(),
        num_paths: 2,
        port_num: 5,
        ibdev_index: 6,
        ..rdma_ucm_query_route_resp::default()
    };
    let (manager, file) = Manager::new([bytes(&reply)]);
    let route = query_route(&file, ID).unwrap();
    let (command, request) = manager.one::<rdma_ucm_query>();
    assert_eq!((command, request.id, request.option), (5, ID, 0));
    let device = route.device.unwrap();
    assert_eq!(device.node_guid.to_bytes(), *b"nodeguid");
    assert_eq!((device.port, device.index), (5, 6));
    assert_eq!(route.source, Some(address(1)));
    assert_eq!(route.destination, Some(address(2)));
    assert_eq!(route.path_count, 2);
    let [path, other] = route.paths;
    assert_eq!(path.destination.to_bytes(), raw.dgid);
    assert_eq!(path.source.to_bytes(), raw.sgid);
    assert_eq!((path.dlid, path.slid), (0x2122, 0x2324));
    assert_eq!(path.flow_label.raw(), raw.flow_label.get() & 0xf_ffff);
    assert_eq!(
        (path.mtu, other.mtu),
        (Mtu::from_raw(255), Mtu::from_raw(3))
    );
    assert_eq!(path.pkey, 0x3536);
    assert_eq!((path.hop_limit, path.traffic_class), (0x37, 0x38));
    assert_eq!((path.sl, path.rate), (raw.sl, Rate::from_raw(raw.rate)));
    assert_eq!(path.packet_life_time, raw.packet_life_time);

    // More paths than there is room for, and no device.
    let many = rdma_ucm_query_route_resp {
        num_paths: 9,
        port_num: 0,
        ..reply
    };
    let (_, file) = Manager::new([bytes(&many)]);
    let route = query_route(&file, ID).unwrap();
    assert_eq!((route.path_count, route.device), (2, None));
}

#[test]
fn fields_of_addresses_are_decoded() {
    let reply = rdma_ucm_query_addr_resp {
        node_guid: u64::from_ne_bytes(*b"nodeguid"),
        port_num: 2,
        pkey: 0x8123_u16.to_be(),
        src_addr: address(1).to_storage().0,
        dst_addr: address(2).to_storage().0,
        ibdev_index: 7,
        ..rdma_ucm_query_addr_resp::default()
    };
    let (manager, file) = Manager::new([bytes(&reply), bytes(&reply)]);
    for (option, found) in [(0, query_addresses(&file, ID)), (2, query_gids(&file, ID))] {
        let found = found.unwrap();
        assert_eq!(
            (found.device.unwrap().port, found.pkey),
            (2, 0x8123),
            "{option}"
        );
        assert_eq!(found.device.unwrap().index, 7);
        assert_eq!(
            (found.source, found.destination),
            (Some(address(1)), Some(address(2)))
        );
    }
    let sent = manager.sent();
    let options = sent.iter().map(|sent| {
        let request = rdma_ucm_query::read_from_bytes(&sent.request).unwrap();
        (sent.number, request.id, request.option)
    });
    assert_eq!(options.collect::<Vec<_>>(), [(19, ID, 0), (19, ID, 2)]);
}

/// A reply of `count` records, of which `there` follow.
fn list(count: u32, there: usize, record: &impl IntoBytesRef) -> Result<Vec<u8>, Errno> {
    let mut reply = count.to_ne_bytes().to_vec();
    reply.extend([0; 4]);
    for _ in 0..there {
        reply.extend(record.raw());
    }
    Ok(reply)
}

trait IntoBytesRef {
    fn raw(&self) -> &[u8];
}

impl<T: IntoBytes + zerocopy::Immutable> IntoBytesRef for T {
    fn raw(&self) -> &[u8] {
        self.as_bytes()
    }
}

#[test]
fn lists_are_requested_again_with_more_room_but_not_endlessly() {
    let path = ib_path_rec_data {
        flags: 0x35,
        reserved: 0,
        path_rec: [0x5a5a_5a5a; 16],
    };
    let ours = PathRecord {
        flags: 0x35,
        record: [0x5a; 64],
    };
    for (first, second, found, rooms) in [
        (list(0, 0, &path), None, 0, vec![4]),
        (list(4, 4, &path), None, 4, vec![4]),
        (list(6, 4, &path), Some(list(6, 6, &path)), 6, vec![4, 6]),
        // It grew meanwhile, once more; and a number beyond reason.
        (
            list(9, 4, &path),
            Some(list(256, 9, &path)),
            9,
            vec![4, 9, 256],
        ),
        (
            list(1 << 30, 4, &path),
            Some(list(1 << 30, 256, &path)),
            256,
            vec![4, 256],
        ),
    ] {
        let third = list(9, 9, &path);
        let answers = [Some(first), second, Some(third)];
        let (manager, file) = Manager::new(answers.into_iter().flatten());
        assert_eq!(query_paths(&file, ID).unwrap(), vec![ours; found]);
        let sent = manager.sent();
        let room = |sent: &super::script::Sent| (sent.room - 8) / size_of::<ib_path_rec_data>();
        assert_eq!(sent.iter().map(room).collect::<Vec<_>>(), rooms);
        let request = rdma_ucm_query::read_from_bytes(&sent[0].request).unwrap();
        assert_eq!((sent[0].number, request.id, request.option), (19, ID, 1));
    }
}

#[test]
fn fields_of_services_are_decoded() {
    let raw = ib_user_service_rec::read_from_bytes(&pattern(176)).unwrap();
    let (manager, file) = Manager::new([list(1, 1, &raw)]);
    let services = query_services(&file, ID).unwrap();
    let (command, request) = manager.one::<rdma_ucm_query>();
    assert_eq!((command, request.id, request.option), (19, ID, 3));
    let [service] = services[..] else {
        panic!("one: {services:?}");
    };
    assert_eq!(service.service_id, raw.id.get());
    assert_eq!(service.gid, Gid::from_bytes(raw.gid));
    assert_eq!(service.pkey, raw.pkey.get());
    assert_eq!(
        (service.lease_seconds, service.name),
        (raw.lease.get(), raw.name)
    );
}

#[test]
fn fields_of_an_event_are_decoded_and_eintr_is_retried() {
    let mut raw = rdma_ucm_event_resp::read_from_bytes(&pattern(336)).unwrap();
    (raw.uid, raw.id, raw.event, raw.status) = (11, 12, 4, 13);
    let (manager, file) = Manager::new([Err(Errno::INTR), bytes(&raw)]);
    let event = get_event(&file).unwrap();
    assert_eq!(manager.sent().len(), 2);
    assert_eq!((event.uid, event.id, event.status), (11, 12, 13));
    assert_eq!(event.kind, EventKind::ConnectRequest);
    assert_eq!(event.ece.vendor_id, raw.ece.vendor_id);
    assert_eq!(event.ece.options, raw.ece.attr_mod);

    let param = raw.param.as_bytes();
    let (raw, _) = rdma_ucm_conn_param::read_from_prefix(param).unwrap();
    let connection = event.connection();
    assert_eq!((connection.qp_num, connection.qkey), (raw.qp_num, raw.qkey));
    let length = usize::from(raw.private_data_len);
    assert_eq!(
        connection.private_data.as_bytes(),
        &raw.private_data[..length]
    );
    assert!(connection.srq && connection.flow_control);
    assert_eq!(connection.responder_resources, raw.responder_resources);
    assert_eq!(connection.initiator_depth, raw.initiator_depth);
    assert_eq!(connection.retry_count, raw.retry_count);
    assert_eq!(connection.rnr_retry_count, raw.rnr_retry_count);

    let (raw, _) = rdma_ucm_ud_param::read_from_prefix(param).unwrap();
    let datagram = event.datagram();
    assert_eq!((datagram.qp_num, datagram.qkey), (raw.qp_num, raw.qkey));
    let (address, ah) = (datagram.address, raw.ah_attr);
    assert_eq!(
        (address.dlid, address.sl, address.port),
        (ah.dlid, ah.sl, ah.port_num)
    );
    assert_eq!(address.src_path_bits, ah.src_path_bits);
    assert_eq!(address.static_rate, Rate::from_raw(ah.static_rate));
    let route = address.grh.unwrap();
    assert_eq!(route.dgid.to_bytes(), ah.grh.dgid);
    assert_eq!(route.flow_label.raw(), ah.grh.flow_label & 0xf_ffff);
    assert_eq!(route.sgid_index, ah.grh.sgid_index);
    assert_eq!(
        (route.hop_limit, route.traffic_class),
        (ah.grh.hop_limit, ah.grh.traffic_class)
    );
    let length = usize::from(raw.private_data_len);
    assert_eq!(
        datagram.private_data.as_bytes(),
        &raw.private_data[..length]
    );
    assert_eq!(event.argument().to_ne_bytes(), param[..8]);
}

/// Attributes of which each field has a value of its own, and which are all said to be there.
fn attributes() -> ib_uverbs_qp_attr {
    ib_uverbs_qp_attr {
        qp_attr_mask: u32::MAX,
        qp_state: 2,
        cur_qp_state: 1,
        path_mtu: 4,
        path_mig_state: 2,
        ..ib_uverbs_qp_attr::read_from_bytes(&pattern(144)).unwrap()
    }
}

#[test]
fn the_attributes_of_a_step_are_those_that_the_mask_names() {
    let raw = attributes();
    let ready = QpState::ReadyToReceive;
    // With a peer's address, and without what only the first step has.
    let of_first = QpAttrMask::PORT | QpAttrMask::PKEY_INDEX;
    let masks = (0..32).map(|bit| 1_u32 << bit).chain([u32::MAX]);
    for mask in masks.map(|mask| (mask | 1) & !of_first.bits()) {
        let reply = ib_uverbs_qp_attr {
            qp_attr_mask: mask,
            ..raw
        };
        let (manager, file) = Manager::new([bytes(&reply)]);
        let attr = init_qp_attr(&file, ID, ready).unwrap();
        let (command, request) = manager.one::<rdma_ucm_init_qp_attr>();
        assert_eq!((command, request.id, request.qp_state), (11, ID, 2));
        let known = QpAttrMask::from_bits_truncate(mask) & attr.mask();
        assert_eq!(attr.mask(), known, "{mask:#x}");
        let has = |bit: QpAttrMask| mask & bit.bits() != 0;
        macro_rules! equal {
            ($($field:ident $bit:ident $value:expr;)*) => { $(
                assert_eq!(attr.$field, has(QpAttrMask::$bit).then(|| $value), stringify!($field));
            )* };
        }
        equal! {
            state STATE ready;
            cur_state CUR_STATE QpState::Init;
            sqd_async_notify EN_SQD_ASYNC_NOTIFY true;
            access ACCESS_FLAGS crate::types::AccessFlags::from_bits_retain(raw.qp_access_flags);
            qkey QKEY raw.qkey;
            path_mtu PATH_MTU Mtu::from_raw(4);
            timeout TIMEOUT AckTimeout::from_raw(raw.timeout);
            retry_count RETRY_CNT RetryCount::from_raw(raw.retry_cnt);
            rnr_retry RNR_RETRY RnrRetry::from_raw(raw.rnr_retry);
            rq_psn RQ_PSN Psn::from_raw(raw.rq_psn);
            sq_psn SQ_PSN Psn::from_raw(raw.sq_psn);
            max_rd_atomic MAX_QP_RD_ATOMIC raw.max_rd_atomic;
            max_dest_rd_atomic MAX_DEST_RD_ATOMIC raw.max_dest_rd_atomic;
            min_rnr_timer MIN_RNR_TIMER RnrTimer::from_raw(raw.min_rnr_timer);
            migration PATH_MIG_STATE crate::types::MigrationState::from_raw(2);
            dest_qpn DEST_QPN raw.dest_qp_num;
        }
        assert_eq!(
            attr.av.map(|av| av.dlid),
            has(QpAttrMask::AV).then_some(raw.ah_attr.dlid)
        );
        let other = has(QpAttrMask::ALT_PATH).then_some((
            raw.alt_ah_attr.dlid,
            raw.alt_port_num,
            raw.alt_pkey_index,
            AckTimeout::from_raw(raw.alt_timeout),
        ));
        let found = attr
            .alt_path
            .map(|path| (path.av.dlid, path.av.port, path.pkey_index, path.timeout));
        assert_eq!(found, other);
    }
}

#[test]
fn attributes_of_another_state_are_a_bad_reply() {
    let of_init = ib_uverbs_qp_attr {
        qp_attr_mask: (QpAttrMask::STATE | QpAttrMask::PORT | QpAttrMask::PKEY_INDEX).bits(),
        qp_state: 1,
        ..attributes()
    };
    let (_, file) = Manager::new([bytes(&of_init)]);
    let attr = init_qp_attr(&file, ID, QpState::Init).unwrap();
    assert_eq!(
        (attr.port, attr.pkey_index),
        (Some(of_init.port_num), Some(of_init.pkey_index))
    );
    for (reply, state) in [
        (of_init, QpState::ReadyToReceive),
        // The kernel answers for a handshake that has not begun as if it were the first step.
        (
            ib_uverbs_qp_attr {
                qp_state: 2,
                ..of_init
            },
            QpState::ReadyToReceive,
        ),
        (
            ib_uverbs_qp_attr {
                qp_attr_mask: 0,
                ..of_init
            },
            QpState::Init,
        ),
    ] {
        let (_, file) = Manager::new([bytes(&reply)]);
        let error = init_qp_attr(&file, ID, state).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadReply);
    }
}
