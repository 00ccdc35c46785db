//! Every operation of a reliable connection, and the completions of both sides.

use uverbs::completion::{WcFlags, WcOpcode};
use uverbs::{Operation, Payload, QpType, SendFlags, SendRequest, WcStatus, WorkCompletion};
use verbs_tests::{Pair, Registered, drain, next, raw};

fn pattern(at: usize) -> u8 {
    (at * 31 + at / 251) as u8
}

fn finish(pair: &mut Pair, request: SendRequest<'_>) -> WorkCompletion {
    raw::send(&mut pair.a.qp, &[request.wr_id(77).signaled()]).unwrap();
    let done = next(&mut pair.a.cq);
    assert_eq!(done.status, WcStatus::Success, "{done:?}");
    assert_eq!(done.wr_id, 77);
    assert_eq!(done.vendor_err, 0);
    assert_eq!(done.qp_num, pair.a.qp.qp_num());
    assert!(!done.is_receive());
    done
}

#[test]
fn send() {
    let mut pair = Pair::new(QpType::Rc);
    let (from, to) = (
        Registered::local(&pair.a.pd, 100),
        Registered::local(&pair.b.pd, 100),
    );
    from.fill(pattern);
    raw::recv(&mut pair.b.qp, 5, &[to.sge(0, 100)]).unwrap();
    let done = finish(&mut pair, SendRequest::send(&[from.sge(0, 70)]));
    assert_eq!(done.opcode, WcOpcode::Send);
    let got = next(&mut pair.b.cq);
    assert_eq!(
        (
            got.wr_id,
            got.status,
            got.opcode,
            got.byte_len,
            got.vendor_err
        ),
        (5, WcStatus::Success, WcOpcode::Recv, 70, 0)
    );
    assert_eq!(got.qp_num, pair.b.qp.qp_num());
    assert_eq!((got.imm, got.invalidated), (None, None));
    assert!(got.is_receive());
    assert_eq!(to.get(0, 70), from.get(0, 70));
    assert_eq!(to.get(70, 30), [0; 30], "nothing behind the message");
}

#[test]
fn send_with_immediate() {
    let mut pair = Pair::new(QpType::Rc);
    let to = Registered::local(&pair.b.pd, 64);
    for imm in [0, 1, 0x1234_5678, u32::MAX] {
        raw::recv(&mut pair.b.qp, 5, &[to.sge(0, 64)]).unwrap();
        let request = SendRequest::new(Operation::SendImm(imm), Payload::Inline(&[b"imm"]));
        finish(&mut pair, request);
        let got = next(&mut pair.b.cq);
        assert_eq!((got.opcode, got.imm), (WcOpcode::Recv, Some(imm)));
        assert!(got.flags.contains(WcFlags::WITH_IMM));
        assert_eq!(to.get(0, 3), b"imm");
    }
}

#[test]
fn write_and_read() {
    let mut pair = Pair::new(QpType::Rc);
    let (here, there) = (
        Registered::local(&pair.a.pd, 512),
        Registered::remote_all(&pair.b.pd, 512),
    );
    here.fill(pattern);
    let sges = [here.sge(3, 200)];
    let done = finish(&mut pair, SendRequest::write(&sges, there.remote(17)));
    assert_eq!(done.opcode, WcOpcode::RdmaWrite);
    assert_eq!(there.get(17, 200), here.get(3, 200));
    assert_eq!((there.get(16, 1), there.get(217, 1)), (vec![0], vec![0]));

    let back = Registered::local(&pair.a.pd, 512);
    let sges = [back.sge(100, 200)];
    let done = finish(&mut pair, SendRequest::read(&sges, there.remote(17)));
    assert_eq!((done.opcode, done.byte_len), (WcOpcode::RdmaRead, 200));
    assert_eq!(back.get(100, 200), here.get(3, 200));
    verbs_tests::nothing(&mut pair.b.cq);
}

#[test]
fn write_with_immediate() {
    let mut pair = Pair::new(QpType::Rc);
    let (here, there) = (
        Registered::local(&pair.a.pd, 64),
        Registered::remote_all(&pair.b.pd, 64),
    );
    here.put(0, b"written");
    raw::recv(&mut pair.b.qp, 9, &[]).unwrap();
    let sges = [here.sge(0, 7)];
    let operation = Operation::WriteImm(there.remote(8), 0xfeed_f00d);
    finish(
        &mut pair,
        SendRequest::new(operation, Payload::Gather(&sges)),
    );
    let got = next(&mut pair.b.cq);
    assert_eq!(
        (got.wr_id, got.opcode, got.byte_len, got.imm),
        (9, WcOpcode::RecvRdmaWithImm, 7, Some(0xfeed_f00d))
    );
    assert_eq!(there.get(8, 7), b"written");
}

#[test]
fn compare_and_swap() {
    let mut pair = Pair::new(QpType::Rc);
    let (old, word) = (
        Registered::local(&pair.a.pd, 8),
        Registered::remote_all(&pair.b.pd, 16),
    );
    word.put(8, &7_u64.to_ne_bytes());
    let sges = [old.sge(0, 8)];
    for (compare, swap, before, after) in [(7, 9, 7, 9), (7, 11, 9, 9), (9, u64::MAX, 9, u64::MAX)]
    {
        let operation = Operation::CompareSwap {
            remote: word.remote(8),
            compare,
            swap,
        };
        let done = finish(
            &mut pair,
            SendRequest::new(operation, Payload::Gather(&sges)),
        );
        assert_eq!(done.opcode, WcOpcode::CompareSwap);
        assert_eq!((old.word(0), word.word(8)), (before, after));
    }
    assert_eq!(word.word(0), 0);
}

#[test]
fn fetch_and_add() {
    let mut pair = Pair::new(QpType::Rc);
    let (old, word) = (
        Registered::local(&pair.a.pd, 8),
        Registered::remote_all(&pair.b.pd, 8),
    );
    word.put(0, &(u64::MAX - 1).to_ne_bytes());
    let sges = [old.sge(0, 8)];
    for (add, before, after) in [(1, u64::MAX - 1, u64::MAX), (3, u64::MAX, 2), (0, 2, 2)] {
        let operation = Operation::FetchAdd {
            remote: word.remote(0),
            add,
        };
        let done = finish(
            &mut pair,
            SendRequest::new(operation, Payload::Gather(&sges)),
        );
        assert_eq!(done.opcode, WcOpcode::FetchAdd);
        assert_eq!((old.word(0), word.word(0)), (before, after));
    }
}

#[test]
fn sges_are_gathered_and_scattered_in_order() {
    let mut pair = Pair::new(QpType::Rc);
    let (from, to) = (
        Registered::local(&pair.a.pd, 4096),
        Registered::local(&pair.b.pd, 8192),
    );
    from.fill(pattern);
    let lengths = [1_u32, 0, 1000, 999];
    let (mut sges, mut sent) = (Vec::new(), Vec::new());
    for (nth, length) in (0..).zip(lengths) {
        // Backwards through the memory, with gaps.
        let offset = 3000 - 1000 * nth;
        sges.push(from.sge(offset, length));
        sent.extend(from.get(offset as usize, length as usize));
    }
    let scatter = [to.sge(0, 700), to.sge(5000, 1), to.sge(1000, 1299)];
    raw::recv(&mut pair.b.qp, 1, &scatter).unwrap();
    finish(&mut pair, SendRequest::send(&sges));
    assert_eq!(next(&mut pair.b.cq).byte_len, 2000);
    let received = [to.get(0, 700), to.get(5000, 1), to.get(1000, 1299)].concat();
    assert_eq!(received, sent);

    let remote = Registered::remote_all(&pair.b.pd, 2000);
    finish(&mut pair, SendRequest::write(&sges, remote.remote(0)));
    assert_eq!(remote.all(), sent);
    let back = Registered::local(&pair.a.pd, 3000);
    let scatter = [back.sge(2000, 900), back.sge(0, 1100)];
    finish(&mut pair, SendRequest::read(&scatter, remote.remote(0)));
    assert_eq!([back.get(2000, 900), back.get(0, 1100)].concat(), sent);
}

#[test]
fn messages_of_no_bytes() {
    let mut pair = Pair::new(QpType::Rc);
    let there = Registered::remote_all(&pair.b.pd, 8);
    let here = Registered::local(&pair.a.pd, 8);
    raw::recv(&mut pair.b.qp, 1, &[]).unwrap();
    raw::recv(&mut pair.b.qp, 2, &[]).unwrap();
    finish(&mut pair, SendRequest::send(&[]));
    finish(&mut pair, SendRequest::send_inline(&[]));
    let got = drain(&mut pair.b.cq, 2);
    assert!(got.iter().all(|got| got.is_success() && got.byte_len == 0));
    assert_eq!([got[0].wr_id, got[1].wr_id], [1, 2]);
    finish(
        &mut pair,
        SendRequest::write(&[here.sge(0, 0)], there.remote(0)),
    );
    finish(&mut pair, SendRequest::read(&[], there.remote(0)));
    finish(&mut pair, SendRequest::write(&[], there.remote(0)));
    assert_eq!(there.all(), [0; 8]);
}

#[test]
fn messages_around_the_packet_size_and_far_beyond() {
    let mut pair = Pair::new(QpType::Rc);
    let mtu = pair.a.qp.query().unwrap().path_mtu.bytes().unwrap();
    let largest = (4 << 20) + 3;
    let from = Registered::local(&pair.a.pd, largest as usize);
    from.fill(pattern);
    for length in [mtu - 1, mtu, mtu + 1, 3 * mtu, 100_001, 1 << 20, largest] {
        let to = Registered::remote_all(&pair.b.pd, length as usize);
        raw::recv(&mut pair.b.qp, 1, &[to.sge(0, length)]).unwrap();
        finish(&mut pair, SendRequest::send(&[from.sge(0, length)]));
        assert_eq!(next(&mut pair.b.cq).byte_len, length);
        assert!(to.all() == from.get(0, length as usize), "send of {length}");

        to.fill(|_| 0);
        finish(
            &mut pair,
            SendRequest::write(&[from.sge(0, length)], to.remote(0)),
        );
        assert!(
            to.all() == from.get(0, length as usize),
            "write of {length}"
        );

        let back = Registered::local(&pair.a.pd, length as usize);
        let sges = [back.sge(0, length)];
        let done = finish(&mut pair, SendRequest::read(&sges, to.remote(0)));
        assert_eq!(done.byte_len, length);
        assert!(back.all() == to.all(), "read of {length}");
    }
}

#[test]
fn a_fenced_send_waits_for_the_read_before_it() {
    let mut pair = Pair::new(QpType::Rc);
    let there = Registered::remote_all(&pair.b.pd, 64 << 10);
    let here = Registered::local(&pair.a.pd, 64 << 10);
    let echo = Registered::local(&pair.b.pd, 64 << 10);
    let len = 64 << 10;
    for round in 1..=30_u8 {
        there.fill(|_| round);
        raw::recv(&mut pair.b.qp, 1, &[echo.sge(0, len)]).unwrap();
        let sges = [here.sge(0, len)];
        let read = SendRequest::read(&sges, there.remote(0));
        // What is sent is the data that the read returned.
        let send = SendRequest::send(&sges).with(SendFlags::FENCE).signaled();
        raw::send(&mut pair.a.qp, &[read, send]).unwrap();
        assert_eq!(next(&mut pair.a.cq).opcode, WcOpcode::Send);
        assert!(next(&mut pair.b.cq).is_success());
        assert!(
            echo.all().iter().all(|byte| *byte == round),
            "round {round} sent what was there before the read"
        );
    }
}

#[test]
fn both_directions_at_once() {
    let mut pair = Pair::new(QpType::Rc);
    let (a, b) = (
        Registered::local(&pair.a.pd, 8192),
        Registered::local(&pair.b.pd, 8192),
    );
    for round in 0..20_u8 {
        a.put(0, &[round; 100]);
        b.put(0, &[round ^ 0xff; 100]);
        raw::recv(&mut pair.a.qp, 1, &[a.sge(4096, 100)]).unwrap();
        raw::recv(&mut pair.b.qp, 1, &[b.sge(4096, 100)]).unwrap();
        let (to_b, to_a) = ([a.sge(0, 100)], [b.sge(0, 100)]);
        raw::send(&mut pair.a.qp, &[SendRequest::send(&to_b).signaled()]).unwrap();
        raw::send(&mut pair.b.qp, &[SendRequest::send(&to_a).signaled()]).unwrap();
        for cq in [&mut pair.a.cq, &mut pair.b.cq] {
            let done = drain(cq, 2);
            assert!(done.iter().all(WorkCompletion::is_success));
            assert_eq!(done.iter().filter(|done| done.is_receive()).count(), 1);
        }
        assert_eq!(a.get(4096, 100), [round ^ 0xff; 100]);
        assert_eq!(b.get(4096, 100), [round; 100]);
    }
}
