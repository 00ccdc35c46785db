//! Changes to devices, their refusals, and sums.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _};

use netlink_packet_core::NLMSG_ERROR;
use uverbs_uapi::rdma_netlink::*;

use super::script::{Script, attr, device, done, error, message, text, word};
use crate::discover::netlink::{Attributes, Client, NetnsMode, Usage};
use crate::error::{Errno, Error, ErrorKind, Op, Result};

fn refused(errno: Errno, order: impl FnOnce(&mut Client<Script>) -> Result<()>) -> Error {
    order(&mut Script::new([error(1, errno)]).client()).unwrap_err()
}

/// The answer to the first request if it was carried out.
fn acknowledged() -> Vec<u8> {
    message(NLMSG_ERROR, 0, 1, &[0; 20])
}

/// The attributes of the one request.
fn attributes(script: &Script) -> Vec<u8> {
    let sent = script.sent();
    assert_eq!(sent.len(), 1);
    sent[0][16..].to_vec()
}

#[test]
fn a_device_is_moved_by_its_index_and_a_descriptor() {
    let netns = File::open("/dev/null").unwrap();
    let script = Script::new([acknowledged()]);
    script.client().move_to_netns(7, netns.as_fd()).unwrap();
    let fd = netns.as_raw_fd().cast_unsigned();
    let expected = [
        word(RDMA_NLDEV_ATTR_DEV_INDEX, 7),
        word(RDMA_NLDEV_NET_NS_FD, fd),
    ];
    assert_eq!(attributes(&script), expected.concat());
    let error = refused(Errno::OPNOTSUPP, |client| {
        client.move_to_netns(7, netns.as_fd())
    });
    assert_eq!(
        (error.op(), error.errno()),
        (Op::SetSystem, Some(Errno::OPNOTSUPP))
    );
}

#[test]
fn a_link_that_cannot_be_added_is_explained() {
    for (errno, words) in [
        (Errno::PERM, "CAP_NET_ADMIN"),
        (Errno::NODEV, "no such network device"),
        (Errno::INVAL, "modprobe rdma_rxe"),
        (Errno::NOENT, "modprobe crc32_generic"),
        (Errno::EXIST, ""),
    ] {
        let error = refused(errno, |client| client.add_link("rxe7", "rxe", "eth0"));
        assert_eq!((error.op(), error.errno()), (Op::AddLink, Some(errno)));
        let hint = error.known_hint().unwrap_or_default();
        assert!(hint.contains(words), "{error}");
        assert_eq!(hint.is_empty(), words.is_empty(), "{error}");
        let facts = "name rxe7, type rxe, netdev eth0";
        assert!(error.to_string().contains(facts), "{error}");
    }
}

#[test]
fn other_orders_are_refused_with_the_errno() {
    let error = refused(Errno::INVAL, |client| client.delete_link(7));
    assert_eq!(
        (error.op(), error.errno()),
        (Op::DeleteLink, Some(Errno::INVAL))
    );
    let error = refused(Errno::BUSY, |client| {
        client.set_netns_mode(NetnsMode::Shared)
    });
    assert_eq!(
        (error.op(), error.errno()),
        (Op::SetSystem, Some(Errno::BUSY))
    );
}

#[test]
fn a_name_has_up_to_255_bytes() {
    let longest = "x".repeat(255);
    let script = Script::new([acknowledged()]);
    script.client().add_link(&longest, "rxe", "lo").unwrap();
    assert!(attributes(&script).starts_with(&text(RDMA_NLDEV_ATTR_DEV_NAME, &longest)));
    let too_long = "x".repeat(256);
    let error = Script::default().client().add_link(&too_long, "rxe", "lo");
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_total_counts_objects_of_every_kind() {
    let usage = Usage {
        pd: 1,
        cq: 20,
        qp: 300,
        cm_id: 4_000,
        mr: 50_000,
        ctx: 600_000,
        srq: 7_000_000,
    };
    assert_eq!(usage.total(), 7_654_321);
    assert_eq!(Usage::default().total(), 0);
}

#[test]
fn numbers_of_every_width_are_read() {
    for (bytes, number) in [
        (vec![7], Some(7)),
        (0x102_u16.to_ne_bytes().to_vec(), Some(0x102)),
        (0x1_0203_u32.to_ne_bytes().to_vec(), Some(0x1_0203)),
        (u64::MAX.to_ne_bytes().to_vec(), Some(u64::MAX)),
        (vec![], None),
        (vec![0; 3], None),
        (vec![0; 16], None),
    ] {
        let message = attr(5, &bytes);
        let all: Vec<_> = Attributes::new(&message).iter().collect();
        let [Ok((5, value))] = all[..] else {
            panic!("{all:?}")
        };
        assert_eq!(value.number().ok(), number, "{bytes:?}");
        assert_eq!(value.flag().ok(), number.map(|number| number != 0));
        let fits = number.and_then(|number| u16::try_from(number).ok());
        assert_eq!(value.fit::<u16>().ok(), fits);
    }
    let zero = attr(5, &[0]);
    let value = Attributes::new(&zero).iter().next().unwrap().unwrap().1;
    assert_eq!(value.flag(), Ok(false));
}

#[test]
fn attributes_of_one_type_are_found_among_others() {
    let message = [word(1, 10), word(2, 20), word(1, 11), word(3, 30)].concat();
    let of = |kind| -> Vec<u64> {
        let values = Attributes::new(&message).all(kind);
        values
            .map(|value| value.unwrap().number().unwrap())
            .collect()
    };
    assert_eq!((of(1), of(2), of(4)), (vec![10, 11], vec![20], vec![]));
    // What does not fit is an error of every type.
    let cut = &message[..message.len() - 2];
    let results: Vec<_> = Attributes::new(cut).all(1).collect();
    assert_eq!(results.len(), 3);
    assert!(results[2].is_err());
}

#[test]
fn a_name_that_cannot_be_a_file_s_is_refused() {
    for (name, valid) in [
        ("rxe0", true),
        ("...", true),
        ("", false),
        (".", false),
        ("..", false),
        ("a/b", false),
    ] {
        let script = Script::new([device(true, 1, 0, name), done(1)]);
        assert_eq!(script.client().devices().is_ok(), valid, "{name}");
        assert_eq!(crate::discover::netlink::is_file_name(name), valid);
    }
    let is = |len: usize| crate::discover::netlink::is_file_name(&"x".repeat(len));
    assert!(is(255) && !is(256));
}
