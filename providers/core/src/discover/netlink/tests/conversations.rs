//! Partial answers, answers out of order, and no answers.

use netlink_packet_core::{
    NLM_F_DUMP_INTR, NLM_F_MULTIPART, NLMSG_DONE, NLMSG_NOOP, NLMSG_OVERRUN,
};
use uverbs_uapi::rdma_netlink::*;

use super::script::{Script, answer, attr, char_device, device, done, error, message, text, word};
use crate::discover::netlink::{NETLINK_DATAGRAM_MAX, Owner, ResourceKind, messages};
use crate::error::{Errno, ErrorKind};

/// One part of a queue pair list: each with its number and its process.
fn queue_pairs(sequence: u32, qps: &[(u32, u32)]) -> Vec<u8> {
    let entry = |(number, pid): &(u32, u32)| {
        let attributes = [
            word(RDMA_NLDEV_ATTR_RES_LQPN, *number),
            word(RDMA_NLDEV_ATTR_RES_PID, *pid),
        ];
        attr(RDMA_NLDEV_ATTR_RES_QP_ENTRY, &attributes.concat())
    };
    let table: Vec<u8> = qps.iter().flat_map(entry).collect();
    let attributes = [
        word(RDMA_NLDEV_ATTR_DEV_INDEX, 0),
        text(RDMA_NLDEV_ATTR_DEV_NAME, "rxe0"),
        attr(RDMA_NLDEV_ATTR_RES_QP, &table),
    ];
    answer(RDMA_NLDEV_CMD_RES_QP_GET, true, sequence, &attributes)
}

#[test]
fn a_list_spans_datagrams_and_messages() {
    let script = Script::new([
        [
            queue_pairs(1, &[(17, 100), (18, 100)]),
            queue_pairs(1, &[(19, 200)]),
        ]
        .concat(),
        message(NLMSG_NOOP, 0, 1, &[]),
        [queue_pairs(1, &[(20, 100)]), done(1)].concat(),
    ]);
    let list = script
        .client()
        .resources(0, ResourceKind::QueuePair)
        .unwrap();
    let found: Vec<_> = list
        .iter()
        .map(|qp| (qp.id.unwrap(), qp.owner.clone()))
        .collect();
    let of = Owner::Process;
    assert_eq!(
        found,
        [(17, of(100)), (18, of(100)), (19, of(200)), (20, of(100))]
    );
}

#[test]
fn the_end_may_have_no_number() {
    let end = message(NLMSG_DONE, NLM_F_MULTIPART, 1, &[]);
    let script = Script::new([device(true, 1, 3, "mlx5_3"), end]);
    assert_eq!(script.client().devices().unwrap()[0].index, 3);
}

#[test]
fn answers_to_others_are_skipped() {
    let script = Script::new([
        device(true, 77, 9, "stale0"),
        [
            device(true, 1, 0, "rxe0"),
            error(76, Errno::PERM),
            done(2),
            done(0),
        ]
        .concat(),
        done(1),
    ]);
    let devices = script.client().devices().unwrap();
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].name, "rxe0");
}

#[test]
fn messages_of_other_clients_are_skipped() {
    let foreign = message(RDMA_NL_GET_TYPE(RDMA_NL_LS, 0), 0, 1, &[0xff; 12]);
    let script = Script::new([foreign, device(false, 1, 0, "rxe0")]);
    assert_eq!(script.client().device(0).unwrap().name, "rxe0");
}

#[test]
fn a_list_that_changed_is_requested_again() {
    let mut torn = device(true, 1, 0, "rxe0");
    torn[6..8].copy_from_slice(&(NLM_F_MULTIPART | NLM_F_DUMP_INTR).to_ne_bytes());
    let script = Script::new([
        torn,
        done(1),
        device(true, 2, 0, "rxe0"),
        device(true, 2, 1, "rxe1"),
        done(2),
    ]);
    let devices = script.client().devices().unwrap();
    let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["rxe0", "rxe1"]);
    assert_eq!(script.sent().len(), 2);
}

#[test]
fn a_list_that_always_changes_is_given_up() {
    let torn = |sequence| {
        message(
            NLMSG_DONE,
            NLM_F_MULTIPART | NLM_F_DUMP_INTR,
            sequence,
            &[0; 4],
        )
    };
    let script = Script::new((1..100).map(torn));
    let error = script.client().devices().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert_eq!(script.sent().len(), 4);
}

#[test]
fn silence_ends_in_a_timeout() {
    let error = Script::default().client().devices().unwrap_err();
    assert_eq!(
        (error.kind(), error.errno()),
        (ErrorKind::TimedOut, Some(Errno::TIMEDOUT))
    );
}

#[test]
fn lost_or_cut_data_is_an_error() {
    let mut long = device(false, 1, 0, "rxe0");
    long.resize(NETLINK_DATAGRAM_MAX + 1, 0);
    for bytes in [
        long,
        message(NLMSG_OVERRUN, 0, 1, &[]),
        device(false, 1, 0, "rxe0")[..20].to_vec(),
        device(false, 1, 0, "../../etc"),
        device(false, 1, 0, ""),
        answer(
            RDMA_NLDEV_CMD_GET,
            false,
            1,
            &[word(RDMA_NLDEV_ATTR_DEV_INDEX, 0)],
        ),
        answer(
            RDMA_NLDEV_CMD_GET,
            false,
            1,
            &[text(RDMA_NLDEV_ATTR_DEV_NAME, "rxe0")],
        ),
        answer(
            RDMA_NLDEV_CMD_GET,
            false,
            1,
            &[attr(RDMA_NLDEV_ATTR_DEV_INDEX, &[0; 3])],
        ),
        answer(
            RDMA_NLDEV_CMD_GET,
            false,
            1,
            &[attr(RDMA_NLDEV_ATTR_DEV_INDEX, &[0xff; 8])],
        ),
    ] {
        let error = Script::new([bytes]).client().device(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
    }
}

#[test]
fn an_acknowledgement_is_no_answer() {
    let ack = message(2, 0, 1, &[0; 20]);
    let error = Script::new([ack]).client().device(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply);
}

#[test]
fn wider_and_repeated_numbers_are_read() {
    let attributes = [
        attr(RDMA_NLDEV_ATTR_DEV_INDEX, &1_u64.to_ne_bytes()),
        word(RDMA_NLDEV_ATTR_DEV_INDEX, 2),
        attr(RDMA_NLDEV_ATTR_PORT_INDEX, &[3]),
        text(RDMA_NLDEV_ATTR_DEV_NAME, "a"),
        attr(0x3fff, &[1, 2, 3]),
    ];
    let script = Script::new([answer(RDMA_NLDEV_CMD_GET, false, 1, &attributes)]);
    let device = script.client().device(2).unwrap();
    assert_eq!((device.index, device.ports), (2, Some(3)));
}

#[test]
fn a_right_guess_reads_two_datagrams() {
    let script = Script::new([
        device(false, 1, 3, "mlx5_3"),
        char_device(2, 231, 195, "uverbs3"),
        device(true, 3, 0, "mlx5_0"),
        done(3),
    ]);
    let (found, system) = script.client().find("mlx5_3", false).unwrap();
    let found = found.unwrap();
    assert_eq!(
        (found.device.index, found.uverbs.unwrap().name.as_str()),
        (3, "uverbs3")
    );
    assert_eq!(system, None);
    assert_eq!((script.sent().len(), script.unread()), (1, 2));
    assert_eq!(messages(&script.sent()[0]).count(), 3);
}

#[test]
fn a_wrong_guess_reads_the_list() {
    let script = Script::new([
        device(false, 1, 0, "mlx5_bond_0"),
        char_device(2, 231, 192, "uverbs0"),
        device(true, 3, 0, "mlx5_bond_0"),
        device(true, 3, 5, "rxe0"),
        // The end of the list comes before the answer to the next request.
        done(3),
        char_device(4, 231, 197, "uverbs5"),
    ]);
    let found = script.client().find("rxe0", false).unwrap().0.unwrap();
    assert_eq!(
        (found.device.index, found.uverbs.unwrap().name.as_str()),
        (5, "uverbs5")
    );
    assert_eq!((script.sent().len(), script.unread()), (2, 0));
}

#[test]
fn a_guess_at_nothing_reads_the_list() {
    let script = Script::new([
        error(1, Errno::INVAL),
        error(2, Errno::INVAL),
        device(true, 3, 1, "rxe0"),
        done(3),
        char_device(4, 231, 193, "uverbs1"),
    ]);
    let found = script.client().find("rxe0", false).unwrap().0.unwrap();
    assert_eq!(found.device.index, 1);
    assert_eq!(found.uverbs.unwrap().number.minor, 193);
}

#[test]
fn settings_are_learned_along() {
    let settings = answer(
        RDMA_NLDEV_CMD_SYS_GET,
        false,
        3,
        &[attr(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, &[1])],
    );
    let script = Script::new([
        device(false, 1, 0, "rxe0"),
        char_device(2, 231, 192, "uverbs0"),
        settings,
    ]);
    let (found, system) = script.client().find("rxe0", true).unwrap();
    assert!(found.is_some());
    assert!(system.unwrap().copy_on_fork);
    assert_eq!(script.sent().len(), 1);
    assert_eq!(script.receives.get(), 1, "three answers come together");
}

/// Unread datagrams of an earlier list may be larger than an answer's part of the buffer.
#[test]
fn what_an_earlier_search_left_unread_is_received_one_by_one() {
    let many: Vec<_> = (0..100).map(|at| device(true, 3, at, "mlx5_x")).collect();
    let script = Script::new([
        device(false, 1, 0, "rxe0"),
        char_device(2, 231, 192, "uverbs0"),
        many.concat().repeat(5),
        done(3),
        device(false, 4, 1, "rxe1"),
        char_device(5, 231, 193, "uverbs1"),
    ]);
    let mut client = script.client();
    assert!(client.find("rxe0", false).unwrap().0.is_some());
    let found = client.find("rxe1", false).unwrap().0.unwrap();
    assert_eq!(found.device.index, 1);
    assert_eq!(script.receives.get(), 5);
}

#[test]
fn an_unknown_name_reads_the_whole_list() {
    let script = Script::new([
        device(false, 1, 0, "rxe0"),
        char_device(2, 231, 192, "uverbs0"),
        device(true, 3, 0, "rxe0"),
        done(3),
    ]);
    assert!(script.client().find("rxe", false).unwrap().0.is_none());
    assert_eq!(script.unread(), 0);
}

#[test]
fn a_device_is_found_by_its_index_with_one_datagram() {
    let script = Script::new([
        device(false, 1, 7, "rxe3"),
        char_device(2, 231, 192, "uverbs0"),
        error(3, Errno::INVAL),
    ]);
    let (found, system) = script.client().at(7, true).unwrap();
    let found = found.unwrap();
    assert_eq!((found.device.index, &*found.device.name), (7, "rxe3"));
    assert_eq!(found.uverbs.unwrap().name, "uverbs0");
    assert_eq!(system, None);
    assert_eq!((script.sent().len(), script.receives.get()), (1, 1));
    assert_eq!(script.unread(), 0);
}

#[test]
fn the_connection_manager_and_a_device_are_found_with_one_datagram() {
    let script = Script::new([
        device(false, 1, 0, "rxe0"),
        char_device(2, 231, 192, "uverbs0"),
        char_device(3, 10, 120, "rdma_cm"),
        error(4, Errno::INVAL),
    ]);
    let (node, found, system) = script.client().connection_manager_and(0, true).unwrap();
    assert_eq!(node.name, "rdma_cm");
    let found = found.unwrap();
    assert_eq!((found.device.index, &*found.device.name), (0, "rxe0"));
    assert_eq!(found.uverbs.unwrap().name, "uverbs0");
    assert_eq!(system, None);
    assert_eq!((script.sent().len(), script.receives.get()), (1, 1));
    assert_eq!(script.unread(), 0);
}

#[test]
fn the_connection_manager_is_found_without_a_device() {
    for errno in [Errno::INVAL, Errno::PERM] {
        let script = Script::new([
            error(1, errno),
            error(2, errno),
            char_device(3, 10, 120, "rdma_cm"),
        ]);
        let (node, found, _) = script.client().connection_manager_and(0, false).unwrap();
        assert_eq!((node.name.as_str(), found.is_some()), ("rdma_cm", false));
    }
    let refused = Script::new([
        device(false, 1, 0, "rxe0"),
        char_device(2, 231, 192, "uverbs0"),
        error(3, Errno::OPNOTSUPP),
    ]);
    let error = refused.client().connection_manager_and(0, false);
    assert_eq!(error.unwrap_err().errno(), Some(Errno::OPNOTSUPP));
}

#[test]
fn an_index_without_a_device_is_told_from_a_failure() {
    let of = |errno| {
        let script = Script::new([error(1, errno), error(2, errno)]);
        script.client().at(7, false)
    };
    assert!(of(Errno::INVAL).unwrap().0.is_none());
    assert_eq!(of(Errno::PERM).unwrap_err().errno(), Some(Errno::PERM));
}

#[test]
fn many_character_devices_come_in_batches() {
    let answers = (0..10).map(|at| match at {
        4 => error(at + 1, Errno::OPNOTSUPP),
        _ => char_device(at + 1, 231, 192 + at, &format!("uverbs{at}")),
    });
    let script = Script::new(answers);
    let found = script
        .client()
        .char_devices(&(0..10).collect::<Vec<_>>())
        .unwrap();
    assert_eq!(script.sent().len(), 2);
    for (at, uverbs) in found.into_iter().enumerate() {
        match uverbs {
            Ok(uverbs) => assert_eq!(uverbs.name, format!("uverbs{at}")),
            Err(error) => assert_eq!((at, error.errno()), (4, Some(Errno::OPNOTSUPP))),
        }
    }
}

#[test]
fn a_process_is_charged_with_its_objects() {
    let mut sequence = 1;
    let mut datagrams = vec![device(true, 1, 0, "rxe0"), done(1)];
    for kind in ResourceKind::ALL {
        sequence += 1;
        match kind {
            ResourceKind::QueuePair => {
                datagrams.push(queue_pairs(sequence, &[(17, 100), (18, 7), (19, 100)]));
            }
            ResourceKind::SharedReceiveQueue => {
                datagrams.push(error(sequence, Errno::INVAL));
                continue;
            }
            _ => {}
        }
        datagrams.push(done(sequence));
    }
    let script = Script::new(datagrams);
    let usage = script.client().usage(100).unwrap();
    assert_eq!((usage.qp, usage.total()), (2, 2));
    assert_eq!(script.unread(), 0);
}

#[test]
fn objects_that_cannot_be_listed_are_not_counted_as_none() {
    let script = Script::new([device(true, 1, 0, "rxe0"), done(1), error(2, Errno::NOBUFS)]);
    let refused = script.client().usage(100).unwrap_err();
    assert_eq!(refused.errno(), Some(Errno::NOBUFS));
}

#[test]
fn f06_what_a_link_lacks_is_reported() {
    for (errno, word) in [
        (Errno::NOENT, "modprobe crc32_generic"),
        (Errno::INVAL, "modprobe rdma_rxe"),
        (Errno::NODEV, "no such network device"),
        (Errno::PERM, "CAP_NET_ADMIN"),
    ] {
        let script = Script::new([error(1, errno)]);
        let error = script.client().add_link("rxe7", "rxe", "eth0").unwrap_err();
        assert_eq!(error.errno(), Some(errno));
        assert!(error.known_hint().unwrap().contains(word), "{error}");
    }
}
