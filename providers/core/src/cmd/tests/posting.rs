//! Posting through the kernel.

use uverbs_uapi::ib_user_verbs::{
    ib_uverbs_post_send, ib_uverbs_recv_wr, ib_uverbs_send_wr, ib_uverbs_sge,
};
use zerocopy::FromBytes;

use super::{Bench, Script};
use crate::cmd::{cq, qp, srq};
use crate::error::{Errno, ErrorKind};
use crate::file::CommandPath;
use crate::types::{
    Address, Destination, LocalKey, Operation, Payload, RecvRequest, Remote, RemoteKey, SendFlags,
    SendRequest, Sge,
};

#[test]
fn the_doorbell_is_an_empty_post() {
    for (path, line) in [
        (CommandPath::Auto, "write 28 in24 out4"),
        (CommandPath::Write, "write 28 in24 out4"),
        (CommandPath::Ioctl, "invoke 28 in24 out4"),
        (CommandPath::InvokeWrite, "invoke 28 in24 out4"),
    ] {
        let bench = Bench::on_path(Script::new(), path);
        qp::doorbell(&bench.file, 9).unwrap();
        assert_eq!(bench.line(), line);
        let words = ib_uverbs_post_send::read_from_bytes(&bench.request()).unwrap();
        let expected = ib_uverbs_post_send {
            qp_handle: 9,
            wqe_size: 56,
            ..ib_uverbs_post_send::default()
        };
        assert_eq!(words, expected);
    }
    let bench = Bench::new(Script::new().refusing("write 28", Errno::INVAL));
    assert_eq!(qp::doorbell(&bench.file, 9), Err(Errno::INVAL));
    assert_eq!(bench.lines().len(), 1, "an answer is no refusal of the way");
}

#[test]
fn a_doorbell_whose_write_is_refused_is_rung_by_ioctl_from_then_on() {
    for errno in [Errno::ACCESS, Errno::PERM, Errno::BADF] {
        let bench = Bench::new(Script::new().with_zeros().refusing("write", errno));
        qp::doorbell(&bench.file, 9).unwrap();
        assert_eq!(
            bench.lines(),
            ["write 28 in24 out4", "invoke 28 in24 out4"],
            "at once"
        );
        qp::doorbell(&bench.file, 9).unwrap();
        assert_eq!(bench.line(), "invoke 28 in24 out4");
        cq::request_notify(&bench.file, 1, false).unwrap();
        assert_eq!(bench.line(), "invoke 23 in8", "for all of them");
    }
    let refused = Script::new().refusing("write", Errno::ACCESS);
    let bench = Bench::on_path(refused, CommandPath::Write);
    for _ in 0..2 {
        assert_eq!(qp::doorbell(&bench.file, 9), Err(Errno::ACCESS));
        assert_eq!(bench.line(), "write 28 in24 out4", "forced");
    }
    let neither = Script::new()
        .refusing("write", Errno::ACCESS)
        .refusing("invoke", Errno::NOTTY);
    let bench = Bench::new(neither);
    assert_eq!(qp::doorbell(&bench.file, 9), Err(Errno::ACCESS));
}

#[test]
fn arming_starts_with_a_write_too() {
    let bench = Bench::new(Script::new());
    cq::request_notify(&bench.file, 1, true).unwrap();
    assert_eq!(bench.line(), "write 23 in8");
}

const SGE: Sge = Sge {
    address: 0x1000,
    length: 64,
    key: LocalKey::from_raw(5),
};

#[test]
fn requests_come_first_and_then_all_their_sges() {
    let bench = Bench::new(Script::new());
    let remote = Remote {
        address: 0x2000,
        key: RemoteKey::from_raw(6),
    };
    let sges = [SGE, SGE];
    let requests = [
        SendRequest::write(&sges, remote).wr_id(1).signaled(),
        SendRequest::new(Operation::SendImm(0x0102_0304), Payload::Gather(&sges[..1])).wr_id(2),
        SendRequest::new(
            Operation::FetchAdd { remote, add: 7 },
            Payload::Gather(&sges[..1]),
        )
        .wr_id(3),
    ];
    qp::post_send(&bench.file, 9, &requests).unwrap();
    let request = bench.request();
    assert_eq!(request.len(), 24 + 3 * 56 + 4 * 16);
    let (head, rest) = ib_uverbs_post_send::read_from_prefix(&request).unwrap();
    assert_eq!(
        (head.qp_handle, head.wr_count, head.sge_count, head.wqe_size),
        (9, 3, 4, 56)
    );
    let (write, rest) = ib_uverbs_send_wr::read_from_prefix(rest).unwrap();
    assert_eq!(
        (write.wr_id, write.num_sge, write.opcode, write.send_flags),
        (1, 2, 0, 2)
    );
    assert_eq!(
        (write.wr.rdma().remote_addr, write.wr.rdma().rkey),
        (0x2000, 6)
    );
    let (send, rest) = ib_uverbs_send_wr::read_from_prefix(rest).unwrap();
    assert_eq!((send.wr_id, send.num_sge, send.opcode), (2, 1, 3));
    assert_eq!(send.ex.imm_data().get(), 0x0102_0304);
    let (add, rest) = ib_uverbs_send_wr::read_from_prefix(rest).unwrap();
    assert_eq!(
        (
            add.opcode,
            add.wr.atomic().compare_add,
            add.wr.atomic().rkey
        ),
        (6, 7, 6)
    );
    let (sge, _) = ib_uverbs_sge::read_from_prefix(rest).unwrap();
    assert_eq!((sge.addr, sge.length, sge.lkey), (0x1000, 64, 5));
}

#[test]
fn what_the_kernel_cannot_post_is_refused_before_anything_is() {
    let bench = Bench::new(Script::new());
    let inline = SendRequest::send_inline(&[b"x"]);
    let invalidate = SendRequest::new(
        Operation::LocalInvalidate(RemoteKey::from_raw(1)),
        Payload::NONE,
    );
    for request in [inline, invalidate] {
        let requests = [SendRequest::send(&[]), request];
        assert!(
            qp::post_send(&bench.file, 9, &requests)
                .unwrap_err()
                .is_unsupported()
        );
    }
    assert_eq!(bench.lines(), Vec::<String>::new());
}

#[test]
fn receives_of_both_queues() {
    let bench = Bench::new(Script::new());
    let sges = [SGE];
    let requests = [RecvRequest {
        wr_id: 4,
        scatter: &sges,
    }];
    qp::post_recv(&bench.file, 9, &requests).unwrap();
    assert_eq!(bench.line(), "invoke 29 in56 out4");
    srq::post_recv(&bench.file, 8, &requests).unwrap();
    assert_eq!(bench.line(), "invoke 36 in56 out4");
    let request = bench.request();
    assert_eq!(request[8..12], 8_u32.to_ne_bytes());
    let (receive, _) = ib_uverbs_recv_wr::read_from_prefix(&request[24..]).unwrap();
    assert_eq!((receive.wr_id, receive.num_sge), (4, 1));
}

#[test]
fn every_operation_that_the_kernel_can_post_has_its_number_and_its_fields() {
    let remote = Remote {
        address: 0x2000,
        key: RemoteKey::from_raw(6),
    };
    let key = RemoteKey::from_raw(0x77);
    let (compare, swap, add) = (0x31, 0x32, 0x33);
    for (operation, opcode) in [
        (Operation::Write(remote), 0),
        (Operation::WriteImm(remote, 0x41), 1),
        (Operation::Send, 2),
        (Operation::SendImm(0x42), 3),
        (Operation::Read(remote), 4),
        (
            Operation::CompareSwap {
                remote,
                compare,
                swap,
            },
            5,
        ),
        (Operation::FetchAdd { remote, add }, 6),
        (Operation::SendInvalidate(key), 9),
    ] {
        let bench = Bench::new(Script::new());
        let request = SendRequest::new(operation, Payload::Gather(&[SGE])).wr_id(8);
        qp::post_send(&bench.file, 9, &[request]).unwrap();
        let (wr, _) = ib_uverbs_send_wr::read_from_prefix(&bench.request()[24..]).unwrap();
        assert_eq!((wr.wr_id, wr.num_sge, wr.opcode), (8, 1, opcode));
        match operation {
            Operation::SendImm(value) => assert_eq!(wr.ex.imm_data().get(), value),
            Operation::SendInvalidate(_) => assert_eq!(wr.ex.invalidate_rkey(), 0x77),
            Operation::CompareSwap { .. } => {
                let atomic = wr.wr.atomic();
                let found = (atomic.remote_addr, atomic.compare_add, atomic.swap);
                assert_eq!((found, atomic.rkey), ((0x2000, compare, swap), 6));
            }
            Operation::FetchAdd { .. } => {
                let atomic = wr.wr.atomic();
                let found = (atomic.remote_addr, atomic.compare_add, atomic.swap);
                assert_eq!((found, atomic.rkey), ((0x2000, add, 0), 6));
            }
            Operation::Send => assert_eq!(wr.wr.rdma().remote_addr, 0),
            _ => {
                let rdma = wr.wr.rdma();
                assert_eq!((rdma.remote_addr, rdma.rkey), (0x2000, 6));
            }
        }
    }
}

#[test]
fn a_datagram_names_the_kernel_s_address_handle() {
    let file = std::sync::Arc::new(Bench::new(Script::new()).file);
    let handle = crate::Object::borrowed(&file, &crate::cmd::ah::KIND, 0x61);
    let known = Address::new(&file, Some(handle.into()), 0, [0; 88]);
    let local = Address::new(&file, None, 0, [0; 88]);
    for (address, handle) in [(&known, 0x61), (&local, u32::MAX)] {
        let bench = Bench::new(Script::new());
        let request = SendRequest::send(&[SGE]).to(Destination {
            address,
            qp_num: 0x62,
            qkey: 0x63,
        });
        qp::post_send(&bench.file, 9, &[request]).unwrap();
        let (wr, _) = ib_uverbs_send_wr::read_from_prefix(&bench.request()[24..]).unwrap();
        let to = wr.wr.ud();
        assert_eq!((to.ah, to.remote_qpn, to.remote_qkey), (handle, 0x62, 0x63));
    }
}

#[test]
fn a_flag_without_a_name_is_refused_with_the_number_of_its_request() {
    let bench = Bench::new(Script::new());
    let plain = SendRequest::send(&[]);
    let wrong = plain.with(SendFlags::from_bits_retain(1 << 30));
    let error = qp::post_send(&bench.file, 9, &[plain, wrong]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("request 1"), "{error}");
    assert!(bench.lines().is_empty());
}
