//! Multicast groups: joining, receiving, leaving.

use std::net::{Ipv4Addr, UdpSocket};

use uverbs::address::{GlobalRoute, MULTICAST_QPN};
use uverbs::{AddressHandle, AddressVector, ErrorKind, Gid, QpType, SendRequest};
use verbs_tests::{Pair, Registered, gid_entry, next, nothing, raw};

const QKEY: u32 = 0x2222;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 7, 8, 9);

fn pair() -> Pair {
    Pair::with(QpType::Ud, |builder| builder.qkey(QKEY))
}

/// The path to the group. The network group is joined by an ordinary socket, which must be kept.
fn to_group(pair: &Pair) -> (AddressHandle, UdpSocket) {
    let entry = gid_entry(&pair.a.context, &pair.a.qp);
    let own = entry.gid.ipv4_mapped().expect("an IPv4 address");
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    socket.join_multicast_v4(&GROUP, &own).unwrap();
    let route = GlobalRoute::new(Gid::from(GROUP), entry.index as u8);
    let address = pair
        .a
        .pd
        .create_ah(&AddressVector::global(1, route))
        .unwrap();
    (address, socket)
}

fn shout(pair: &mut Pair, address: &AddressHandle, text: &[u8]) {
    let bytes = [text];
    let request = SendRequest::send_inline(&bytes).signaled();
    let request = request.to(address.to(MULTICAST_QPN, QKEY));
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert!(next(&mut pair.a.cq).is_success());
}

#[test]
fn roce_every_member_hears_a_datagram_to_the_group() {
    let mut pair = pair();
    let mut other = Pair::between(&pair.a.context, &pair.a.context, QpType::Ud, |builder| {
        builder.qkey(QKEY)
    });
    let (address, _socket) = to_group(&pair);
    let group = Gid::from(GROUP);
    pair.b.qp.attach_multicast(&group, 0).unwrap();
    other.b.qp.attach_multicast(&group, 0).unwrap();
    let to = Registered::local(&pair.b.pd, 256);
    let others = Registered::local(&other.b.pd, 256);
    raw::recv(&mut pair.b.qp, 1, &[to.sge(0, 256)]).unwrap();
    raw::recv(&mut other.b.qp, 2, &[others.sge(0, 256)]).unwrap();
    shout(&mut pair, &address, b"everybody");
    let (one, two) = (next(&mut pair.b.cq), next(&mut other.b.cq));
    assert_eq!((one.wr_id, one.byte_len), (1, 49));
    assert_eq!((two.wr_id, two.byte_len), (2, 49));
    assert_eq!(one.src_qp, pair.a.qp.qp_num());
    assert_eq!(to.get(40, 9), b"everybody");
    assert_eq!(others.get(40, 9), b"everybody");
    // A queue pair that is not a member received nothing.
    raw::recv(&mut other.a.qp, 3, &[others.sge(0, 256)]).unwrap();
    nothing(&mut other.a.cq);
}

#[test]
fn roce_a_queue_pair_that_left_its_group_receives_nothing() {
    let mut pair = pair();
    let (address, _socket) = to_group(&pair);
    let group = Gid::from(GROUP);
    let to = Registered::local(&pair.b.pd, 256);
    raw::recv(&mut pair.b.qp, 1, &[to.sge(0, 256)]).unwrap();
    pair.b.qp.attach_multicast(&group, 0).unwrap();
    pair.b.qp.detach_multicast(&group, 0).unwrap();
    shout(&mut pair, &address, b"gone");
    nothing(&mut pair.b.cq);
    pair.b.qp.attach_multicast(&group, 0).unwrap();
    shout(&mut pair, &address, b"back");
    assert!(next(&mut pair.b.cq).is_success());
    assert_eq!(to.get(40, 4), b"back");
}

#[test]
fn roce_groups_that_cannot_be_joined_or_left() {
    let mut pair = pair();
    let unicast: Gid = "::ffff:10.1.0.1".parse().unwrap();
    let error = pair.b.qp.attach_multicast(&unicast, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let group = Gid::from(GROUP);
    let error = pair.b.qp.detach_multicast(&group, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let mut connected = Pair::new(QpType::Rc);
    let error = connected.b.qp.attach_multicast(&group, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn roce_a_member_can_be_destroyed() {
    let mut pair = pair();
    let context = pair.a.context.clone();
    let groups = [1, 2, 3].map(|last| Gid::from(Ipv4Addr::new(239, 1, 1, last)));
    for group in &groups {
        pair.a.qp.attach_multicast(group, 0).unwrap();
        pair.b.qp.attach_multicast(group, 0).unwrap();
    }
    pair.a.qp.detach_multicast(&groups[1], 0).unwrap();
    pair.a.qp.destroy().unwrap();
    drop(pair.b.qp);
    assert_eq!(context.leaked(), 0);
}
