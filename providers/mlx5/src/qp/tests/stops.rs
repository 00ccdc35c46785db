//! Queue pairs that stop at wrong signatures, and requests that are cancelled.

use uverbs_core::types::SendFlags;
use uverbs_uapi::mlx5_abi::MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT,
    MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
};

use super::*;
use crate::prm::{CAP_REPLY_LEN, Mailbox, field};

fn bench() -> Bench {
    Bench::with(|replies| {
        replies.opened.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS;
    })
}

/// The state and the next block of the send queue, as the device gives them.
fn at(bench: &Bench, state: u32, next: u32) {
    let mut reply = Mailbox::new(0x110);
    reply.set(field(0x18, 31, 28), state);
    reply.set(field(0xcc, 31, 16), next);
    bench
        .kernel
        .answer(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, reply.as_bytes());
}

fn told(bench: &Bench) -> Vec<Vec<u8>> {
    let inputs = bench
        .kernel
        .take_inputs(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN);
    inputs.into_iter().filter(|it| it.len() == 0x1d0).collect()
}

/// Submits requests with these numbers, of one block or, with bytes, of several.
fn post(qp: &mut QueuePair, requests: &[(u64, usize)]) {
    let bytes = [7; 256];
    for &(wr_id, len) in requests {
        let parts = [&bytes[..len]];
        let mut request = SendRequest::new(Operation::Send, Payload::Inline(&parts));
        request.wr_id = wr_id;
        request.flags = SendFlags::SIGNALED;
        // SAFETY: it names no memory.
        #[expect(unsafe_code, reason = "posts a request")]
        unsafe {
            qp.post_send(&[request]).unwrap();
        }
    }
}

/// The opcode of each block that may begin a request, and whether it names its block.
fn opcodes(qp: &mut QueuePair, blocks: usize) -> Vec<u8> {
    let ring = qp.send.as_mut().unwrap().bytes();
    (0..blocks).map(|block| ring[block * 64 + 3]).collect()
}

#[test]
fn the_device_is_told_whenever_it_is_initialised_of_copies_with_one_command() {
    let bench = bench();
    let mut reply = Mailbox::new(CAP_REPLY_LEN);
    reply.set(field(0xf8, 23, 23), 1);
    bench
        .kernel
        .answer(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, reply.as_bytes());
    for copies in [false, true] {
        let mut extra = QpExtra::default().stopping_at_wrong_signatures();
        if copies {
            extra = extra.with_copies();
        }
        let mut qp = bench.create(&extra, &bench.init(QpType::Rc)).unwrap();
        for _ in 0..2 {
            qp.modify(&initialised()).unwrap();
            let mut expected = vec![0; 0x1d0];
            expected[..2].copy_from_slice(&[5, 0x0e]);
            expected[10..12].copy_from_slice(&[1, 0x23]);
            expected[0x12] = 8;
            expected[0x1c] = 4;
            if copies {
                expected[8] = 0x80;
                expected[0x10f] = 8;
                expected[0x110] = 0x20;
            }
            assert_eq!(told(&bench), [expected]);
            qp.modify(&QpAttr::to(QpState::Reset)).unwrap();
        }
    }
}

#[test]
fn other_queue_pairs_and_kernels_do_not_stop() {
    let extra = QpExtra::default().stopping_at_wrong_signatures();
    let bench = bench();
    for kind in [QpType::Uc, QpType::Ud] {
        let error = bench.create(&extra, &bench.init(kind)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    let old = Bench::new();
    let error = old.create(&extra, &old.init(QpType::Rc)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn requests_that_the_device_has_not_begun_are_cancelled_by_their_number() {
    let bench = bench();
    let mut qp = bench.create(&QpExtra::default(), &{
        let mut init = bench.init(QpType::Uc);
        init.caps.max_inline_data = 256;
        init
    });
    let qp = qp.as_mut().unwrap();
    ready(qp);
    // Blocks 0; 1 and 2; 3; 4 and 5; 6.
    post(qp, &[(1, 8), (1, 100), (2, 8), (1, 100), (2, 8)]);
    let before = opcodes(qp, 7);
    assert_eq!(before, [10, 10, 7, 10, 10, 7, 10]);

    at(&bench, 3, 1);
    let error = qp.cancel_sends(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
    for wrong in [2, 8, 9, 0xffff, 0x8000] {
        at(&bench, 5, wrong);
        let error = qp.cancel_sends(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadReply, "{wrong}: {error}");
    }
    assert_eq!(opcodes(qp, 7), before);

    at(&bench, 5, 1);
    assert_eq!(qp.cancel_sends(3).unwrap(), 0);
    assert_eq!(qp.cancel_sends(1).unwrap(), 2);
    assert_eq!(opcodes(qp, 7), [10, 0, 7, 10, 0, 7, 10]);
    // Which are nothing from now on.
    assert_eq!(qp.cancel_sends(1).unwrap(), 0);
    at(&bench, 5, 7);
    assert_eq!(qp.cancel_sends(2).unwrap(), 0);
    at(&bench, 5, 6);
    assert_eq!(qp.cancel_sends(2).unwrap(), 1);
    assert_eq!(opcodes(qp, 7), [10, 0, 7, 10, 0, 7, 0]);
}

#[test]
fn what_was_not_submitted_is_not_cancelled() {
    let bench = bench();
    let mut qp = bench
        .create(&QpExtra::default(), &bench.init(QpType::Uc))
        .unwrap();
    ready(&mut qp);
    at(&bench, 5, 0);
    put(&mut qp).unwrap();
    assert_eq!(qp.cancel_sends(0).unwrap(), 0);
    assert_eq!(opcodes(&mut qp, 1), [10]);
}
