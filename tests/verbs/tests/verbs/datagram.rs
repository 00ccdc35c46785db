//! Datagrams: addressed, received with their network header, answered.

use uverbs::address::{FlowLabel, GlobalRoute, Grh, IpVersion};
use uverbs::completion::{WcFlags, WcOpcode};
use uverbs::gid::GidType;
use uverbs::{
    AddressHandle, AddressVector, ErrorKind, Gid, Operation, Payload, PostError, QpType, SendFlags,
    SendRequest, WcStatus,
};
use verbs_tests::{Driver, Pair, Registered, driver, gid_entry, next, nothing, own_address, raw};

const QKEY: u32 = 0x1111_1111;

fn pair() -> Pair {
    Pair::with(QpType::Ud, |builder| builder.qkey(QKEY))
}

/// The path from a to b, which have the same address here.
fn to_b(pair: &Pair) -> AddressHandle {
    let mut vector = own_address(&pair.a.context, &pair.a.qp);
    if let Some(route) = &mut vector.grh {
        route.traffic_class = 0x28;
        route.hop_limit = 33;
    }
    pair.a.pd.create_ah(&vector).unwrap()
}

fn message(pair: &mut Pair, address: &AddressHandle, qkey: u32, text: &[u8]) {
    let bytes = [text];
    let request = SendRequest::send_inline(&bytes).signaled();
    let request = request.to(address.to(pair.b.qp.qp_num(), qkey));
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    let done = next(&mut pair.a.cq);
    assert_eq!(
        (done.status, done.opcode),
        (WcStatus::Success, WcOpcode::Send)
    );
}

#[test]
fn roce_a_datagram_arrives_behind_its_network_header() {
    let mut pair = pair();
    let address = to_b(&pair);
    let to = Registered::local(&pair.b.pd, 256);
    raw::recv(&mut pair.b.qp, 3, &[to.sge(0, 256)]).unwrap();
    message(&mut pair, &address, QKEY, b"datagram");
    let got = next(&mut pair.b.cq);
    assert_eq!(
        (got.wr_id, got.status, got.byte_len),
        (3, WcStatus::Success, 48)
    );
    assert_eq!(got.src_qp, pair.a.qp.qp_num());
    assert_eq!(got.qp_num, pair.b.qp.qp_num());
    assert!(got.has_grh() && got.flags.contains(WcFlags::GRH));
    assert_eq!(to.get(40, 8), b"datagram");

    let header = Grh::parse(&to.get(0, 40)).expect("a network header");
    let gid = pair.a.qp.endpoint().gid.unwrap();
    assert_eq!(header.sgid(), gid);
    assert_eq!(header.dgid(), gid);
    assert_eq!(header.version(), IpVersion::V4);
    assert_eq!(header.next_header(), 17, "UDP");
    // Kernels that number address handles use the route's, others the address vector's.
    assert!([64, 33].contains(&header.hop_limit()), "{header:?}");
    // The two low bits belong to the network (ECN).
    assert_eq!(header.traffic_class() & 0xfc, 0x28);
}

#[test]
fn ib_a_datagram_within_the_subnet_has_no_network_header() {
    let mut pair = pair();
    let address = to_b(&pair);
    let to = Registered::local(&pair.b.pd, 256);
    raw::recv(&mut pair.b.qp, 3, &[to.sge(0, 256)]).unwrap();
    message(&mut pair, &address, QKEY, b"datagram");
    let got = next(&mut pair.b.cq);
    // The space of the header stays reserved.
    assert_eq!((got.wr_id, got.byte_len), (3, 48));
    assert!(!got.has_grh());
    assert_eq!(got.src_qp, pair.a.qp.qp_num());
    assert_eq!(got.slid, pair.a.context.query_port(1).unwrap().lid);
    assert_eq!(to.get(40, 8), b"datagram");
}

#[test]
fn with_immediate_and_in_several_sges() {
    let mut pair = pair();
    let address = to_b(&pair);
    let to = Registered::local(&pair.b.pd, 256);
    // The header and the message are received into separate places.
    raw::recv(&mut pair.b.qp, 1, &[to.sge(200, 40), to.sge(0, 100)]).unwrap();
    let from = Registered::local(&pair.a.pd, 64);
    from.put(0, b"one two three");
    let sges = [from.sge(0, 4), from.sge(4, 9)];
    let request = SendRequest::new(Operation::SendImm(0xabcd), Payload::Gather(&sges))
        .signaled()
        .to(address.to(pair.b.qp.qp_num(), QKEY));
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert!(next(&mut pair.a.cq).is_success());
    let got = next(&mut pair.b.cq);
    assert_eq!((got.imm, got.byte_len), (Some(0xabcd), 53));
    assert_eq!(to.get(0, 13), b"one two three");
    assert_eq!(Grh::parse(&to.get(200, 40)).is_some(), got.has_grh());
}

#[test]
fn roce_a_datagram_is_answered_by_its_header_and_completion() {
    let mut pair = pair();
    let address = to_b(&pair);
    let to = Registered::local(&pair.b.pd, 256);
    raw::recv(&mut pair.b.qp, 1, &[to.sge(0, 256)]).unwrap();
    message(&mut pair, &address, QKEY, b"question");
    let got = next(&mut pair.b.cq);
    let header = Grh::parse(&to.get(0, 40)).unwrap();
    let entry = gid_entry(&pair.b.context, &pair.b.qp);
    let vector = AddressVector::reply_to(1, &got, Some(&header), entry.index as u8);
    let back = pair.b.pd.create_ah(&vector).unwrap();
    let at_a = Registered::local(&pair.a.pd, 256);
    raw::recv(&mut pair.a.qp, 2, &[at_a.sge(0, 256)]).unwrap();
    let bytes: [&[u8]; 1] = [b"answer"];
    let request = SendRequest::send_inline(&bytes).to(back.to(got.src_qp, QKEY));
    raw::send(&mut pair.b.qp, &[request]).unwrap();
    let answer = next(&mut pair.a.cq);
    assert_eq!((answer.wr_id, answer.byte_len), (2, 46));
    assert_eq!(answer.src_qp, pair.b.qp.qp_num());
    assert_eq!(at_a.get(40, 6), b"answer");
}

#[test]
fn roce_datagrams_arrive_over_ipv6() {
    let mut pair = pair();
    let table = pair.a.context.gid_table().unwrap();
    let v6 = |entry: &&uverbs::gid::GidEntry| {
        entry.gid_type == GidType::RoceV2 && entry.gid.ipv4_mapped().is_none()
    };
    let entry = *table.iter().find(v6).expect("a GID of an IPv6 address");
    let route = GlobalRoute {
        flow_label: FlowLabel::new(0x12345).unwrap(),
        traffic_class: 0x1c,
        ..GlobalRoute::new(entry.gid, entry.index as u8)
    };
    let address = pair
        .a
        .pd
        .create_ah(&AddressVector::global(1, route))
        .unwrap();
    let to = Registered::local(&pair.b.pd, 256);
    raw::recv(&mut pair.b.qp, 1, &[to.sge(0, 256)]).unwrap();
    message(&mut pair, &address, QKEY, b"six");
    assert!(next(&mut pair.b.cq).is_success());
    let header = Grh::parse(&to.get(0, 40)).unwrap();
    assert_eq!(header.version(), IpVersion::V6);
    assert_eq!(header.next_header(), 17, "UDP");
    assert_eq!((header.sgid(), header.dgid()), (entry.gid, entry.gid));
    // rxe sends no flow labels (prepare6_hdr).
    if driver() == Driver::Rxe {
        assert_eq!(header.flow_label().raw(), 0);
    }
    assert_eq!(header.traffic_class() & 0xfc, 0x1c);
    assert_eq!(to.get(40, 3), b"six");
}

#[test]
fn datagrams_with_a_wrong_qkey_are_dropped() {
    verbs_tests::kernel_may_say("bad qkey");
    let mut pair = pair();
    let address = to_b(&pair);
    let to = Registered::local(&pair.b.pd, 256);
    raw::recv(&mut pair.b.qp, 1, &[to.sge(0, 256)]).unwrap();
    message(&mut pair, &address, QKEY + 1, b"wrong");
    nothing(&mut pair.b.cq);
    message(&mut pair, &address, QKEY, b"right");
    assert_eq!(next(&mut pair.b.cq).byte_len, 45);
    assert_eq!(to.get(40, 5), b"right");
}

#[test]
fn what_is_longer_than_a_packet_is_never_sent() {
    let mut pair = pair();
    let address = to_b(&pair);
    let port = pair.a.context.query_port(1).unwrap();
    // The kernel gives datagrams of mlx5 the largest packet size (4096), whatever the port's is.
    let mtu = match driver() {
        Driver::Rxe => port.active_mtu.bytes().unwrap(),
        Driver::Mlx5 => port.max_mtu.bytes().unwrap(),
    };
    let from = Registered::local(&pair.a.pd, 8192);
    let to = Registered::local(&pair.b.pd, 16_384);
    raw::recv(&mut pair.b.qp, 1, &[to.sge(0, 16_384)]).unwrap();
    let peer = pair.b.qp.qp_num();
    let mut send = |length| {
        let sges = [from.sge(0, length)];
        let request = SendRequest::send(&sges).signaled();
        raw::send(&mut pair.a.qp, &[request.to(address.to(peer, QKEY))]).unwrap();
        next(&mut pair.a.cq).status
    };
    assert_eq!(send(mtu), WcStatus::Success);
    assert_eq!(next(&mut pair.b.cq).byte_len, mtu + 40);
    raw::recv(&mut pair.b.qp, 2, &[to.sge(0, 16_384)]).unwrap();
    let too_long = send(mtu + 1);
    nothing(&mut pair.b.cq);
    if driver() == Driver::Mlx5 {
        assert_eq!(too_long, WcStatus::LocalLength);
        return;
    }
    assert_eq!(too_long, WcStatus::Success, "rxe loses it in silence");
    assert_eq!(send(1), WcStatus::Success);
    assert_eq!(next(&mut pair.b.cq).byte_len, 41);
}

#[test]
fn what_datagrams_do_not_have_is_refused() {
    let mut pair = pair();
    let address = to_b(&pair);
    let memory = Registered::remote_all(&pair.a.pd, 64);
    let remote = memory.remote(0);
    let operations = [
        Operation::Write(remote),
        Operation::WriteImm(remote, 1),
        Operation::Read(remote),
        Operation::SendInvalidate(remote.key),
        Operation::FetchAdd { remote, add: 1 },
        Operation::LocalInvalidate(remote.key),
    ];
    for operation in operations {
        let request = SendRequest::new(operation, Payload::NONE).to(address.to(1, QKEY));
        let failed = raw::send(&mut pair.a.qp, &[request]).unwrap_err();
        assert_eq!(
            failed.error,
            PostError::UnsupportedOperation,
            "{operation:?}"
        );
    }
    let nowhere = SendRequest::send(&[]).with(SendFlags::SIGNALED);
    let failed = raw::send(&mut pair.a.qp, &[nowhere]).unwrap_err();
    assert_eq!(failed.error, PostError::InvalidRequest);
}

#[test]
fn roce_addresses_that_lead_nowhere_are_refused() {
    verbs_tests::kernel_may_say("invalid sgid index");
    verbs_tests::kernel_may_say("rxe_create_ah");
    let pair = pair();
    let entry = gid_entry(&pair.a.context, &pair.a.qp);
    let create = |vector: &AddressVector| pair.a.pd.create_ah(vector).unwrap_err();
    let index = entry.index as u8;
    let no_port = create(&AddressVector::global(
        7,
        GlobalRoute::new(entry.gid, index),
    ));
    assert_eq!(no_port.kind(), ErrorKind::InvalidInput, "{no_port}");
    let no_source = create(&AddressVector::global(1, GlobalRoute::new(entry.gid, 200)));
    assert!(
        matches!(
            no_source.kind(),
            ErrorKind::InvalidInput | ErrorKind::NotFound
        ),
        "{no_source}"
    );
    let no_route = create(&AddressVector::local(1, 0));
    assert_eq!(
        no_route.kind(),
        ErrorKind::InvalidInput,
        "RoCE needs a GID: {no_route}"
    );
    let unreachable_gid: Gid = "::ffff:10.250.0.1".parse().unwrap();
    let unreachable = create(&AddressVector::global(
        1,
        GlobalRoute::new(unreachable_gid, index),
    ));
    assert!(unreachable.errno().is_some(), "{unreachable}");
    assert_eq!(pair.a.context.leaked(), 0);
}

#[test]
fn an_address_with_clones_is_busy() {
    let pair = pair();
    let address = to_b(&pair);
    let clone = address.clone();
    assert_eq!(address.destroy().unwrap_err().kind(), ErrorKind::Busy);
    assert!(clone.pd().is_same(&pair.a.pd));
    clone.destroy().unwrap();
}
