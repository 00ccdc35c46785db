//! Posting through the kernel.

use uverbs_uapi::ib_user_verbs::{
    ib_uverbs_post_send, ib_uverbs_recv_wr, ib_uverbs_send_wr, ib_uverbs_sge,
};
use zerocopy::FromBytes;

use super::{Bench, Script};
use crate::cmd::{cq, qp, srq};
use crate::error::Errno;
use crate::file::CommandPath;
use crate::types::{
    LocalKey, Operation, Payload, RecvRequest, Remote, RemoteKey, SendRequest, Sge,
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
