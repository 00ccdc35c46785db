//! Unreliable connections: what they support, and what they do not.

use uverbs::completion::WcOpcode;
use uverbs::{Operation, Payload, PostError, QpType, SendRequest, WcStatus, WorkCompletion};
use verbs_tests::{Pair, Registered, drain, next, nothing, raw, requests_fail};

fn finish(pair: &mut Pair, request: SendRequest<'_>) -> WorkCompletion {
    raw::send(&mut pair.a.qp, &[request.signaled()]).unwrap();
    let done = next(&mut pair.a.cq);
    assert_eq!(done.status, WcStatus::Success);
    done
}

#[test]
fn sends_and_writes_arrive() {
    let mut pair = Pair::new(QpType::Uc);
    let (from, to) = (
        Registered::local(&pair.a.pd, 20_000),
        Registered::remote_all(&pair.b.pd, 20_000),
    );
    from.fill(|at| (at / 7) as u8);
    for length in [0, 1, 1024, 1025, 20_000] {
        raw::recv(&mut pair.b.qp, 4, &[to.sge(0, 20_000)]).unwrap();
        finish(&mut pair, SendRequest::send(&[from.sge(0, length)]));
        let got = next(&mut pair.b.cq);
        assert_eq!((got.wr_id, got.byte_len), (4, length));
        assert!(to.get(0, length as usize) == from.get(0, length as usize));
    }
    raw::recv(&mut pair.b.qp, 5, &[]).unwrap();
    to.fill(|_| 0);
    let sges = [from.sge(0, 5000)];
    let operation = Operation::WriteImm(to.remote(1), 42);
    finish(
        &mut pair,
        SendRequest::new(operation, Payload::Gather(&sges)),
    );
    let got = next(&mut pair.b.cq);
    assert_eq!(
        (got.opcode, got.imm, got.byte_len),
        (WcOpcode::RecvRdmaWithImm, Some(42), 5000)
    );
    assert!(to.get(1, 5000) == from.get(0, 5000));
    raw::recv(&mut pair.b.qp, 6, &[]).unwrap();
    finish(
        &mut pair,
        SendRequest::new(Operation::SendImm(43), Payload::NONE),
    );
    assert_eq!(next(&mut pair.b.cq).imm, Some(43));
}

#[test]
fn what_needs_an_answer_is_refused() {
    let mut pair = Pair::new(QpType::Uc);
    let memory = Registered::remote_all(&pair.a.pd, 64);
    let sges = [memory.sge(0, 8)];
    let remote = memory.remote(0);
    for operation in [
        Operation::Read(remote),
        Operation::FetchAdd { remote, add: 1 },
        Operation::CompareSwap {
            remote,
            compare: 0,
            swap: 1,
        },
        Operation::AtomicWrite {
            remote,
            value: [0; 8],
        },
    ] {
        let request = SendRequest::new(operation, Payload::Gather(&sges));
        let failed = raw::send(&mut pair.a.qp, &[request]).unwrap_err();
        assert_eq!(
            failed.error,
            PostError::UnsupportedOperation,
            "{operation:?}"
        );
    }
}

#[test]
fn a_message_without_a_receive_is_lost_and_the_next_one_is_not() {
    let mut pair = Pair::new(QpType::Uc);
    let to = Registered::local(&pair.b.pd, 64);
    let lost: [&[u8]; 1] = [b"lost"];
    finish(&mut pair, SendRequest::send_inline(&lost));
    nothing(&mut pair.b.cq);
    raw::recv(&mut pair.b.qp, 1, &[to.sge(0, 64)]).unwrap();
    let found: [&[u8]; 1] = [b"found"];
    finish(&mut pair, SendRequest::send_inline(&found));
    assert_eq!(drain(&mut pair.b.cq, 1)[0].byte_len, 5);
    assert_eq!(to.get(0, 5), b"found");
}

#[test]
fn a_write_with_a_bad_key_changes_no_memory() {
    requests_fail();
    let mut pair = Pair::new(QpType::Uc);
    let to = Registered::remote_all(&pair.b.pd, 64);
    let bytes: [&[u8]; 1] = [b"wild"];
    let wrong = to.remote_by(
        0,
        uverbs::memory::RemoteKey::from_raw(to.mr().rkey().raw() ^ 0x55),
    );
    let write = |remote| SendRequest::new(Operation::Write(remote), Payload::Inline(&bytes));
    finish(&mut pair, write(wrong));
    finish(&mut pair, write(to.remote(8)));
    verbs_tests::until("the second write", || {
        (to.get(8, 4) == b"wild").then_some(())
    });
    assert_eq!(to.get(0, 8), [0; 8]);
}
