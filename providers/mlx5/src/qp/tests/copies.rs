//! Copies by the device.

use uverbs_core::types::{LocalKey, SendFlags, Sge};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
};

use super::*;
use crate::prm::{CAP_REPLY_LEN, Mailbox, field};

/// The firmware answers that it copies up to 2 to the power of `log` bytes: once it was told of a
/// queue pair, or always.
fn firmware(bench: &Bench, log: u32, once_told: bool) {
    let mut reply = Mailbox::new(CAP_REPLY_LEN);
    let which = if once_told {
        field(0xf8, 23, 23)
    } else {
        field(0x38, 12, 12)
    };
    reply.set(which, 1);
    reply.set(field(0x1c, 20, 16), log);
    bench
        .kernel
        .answer(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, reply.as_bytes());
}

/// What the firmware was told of queue pairs.
fn told(bench: &Bench) -> Vec<Vec<u8>> {
    let inputs = bench
        .kernel
        .take_inputs(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN);
    inputs.into_iter().filter(|it| it.len() == 0x1d0).collect()
}

fn place(address: u64, length: u32, key: u32) -> Sge {
    Sge {
        address,
        length,
        key: LocalKey::from_raw(key),
    }
}

#[expect(unsafe_code, reason = "posts requests to a ring that no device reads")]
fn copy(qp: &mut QueuePair, from: Sge, to: Sge) -> Result<(), PostError> {
    // SAFETY: no device reads the ring.
    unsafe { qp.put_copy(7, SendFlags::SIGNALED, &from, &to) }
}

#[test]
fn the_firmware_is_told_of_a_queue_pair_that_copies_whenever_it_is_initialised() {
    for once_told in [true, false] {
        let bench = Bench::new();
        firmware(&bench, 16, once_told);
        let extra = QpExtra::default().with_copies();
        let mut qp = bench.create(&extra, &bench.init(QpType::Rc)).unwrap();
        for _ in 0..2 {
            qp.modify(&initialised()).unwrap();
            let mut expected = vec![0; 0x1d0];
            expected[..2].copy_from_slice(&[5, 0x0e]);
            expected[8] = 0x80;
            expected[10..12].copy_from_slice(&[1, 0x23]);
            expected[0x10f] = 8;
            expected[0x110] = 0x20;
            let expected = if once_told {
                vec![expected]
            } else {
                Vec::new()
            };
            assert_eq!(told(&bench), expected);
            qp.modify(&QpAttr::to(QpState::Reset)).unwrap();
        }
        assert!(told(&bench).is_empty());
    }
}

#[test]
fn a_copy_has_two_places_of_the_same_length_within_the_devices_limit() {
    let bench = Bench::new();
    firmware(&bench, 0, false);
    let extra = QpExtra::dc_initiator().with_copies();
    let mut qp = bench.create(&extra, &bench.init(QpType::Driver)).unwrap();
    ready(&mut qp);
    let (from, to) = (place(0x1122, 1 << 31, 5), place(0x3344, 1 << 31, 6));
    copy(&mut qp, from, to).unwrap();
    let ring = qp.send.as_mut().unwrap().bytes();
    let words: Vec<u32> = ring[..64]
        .as_chunks()
        .0
        .iter()
        .map(|word| u32::from_be_bytes(*word))
        .collect();
    assert_eq!((words[0], words[1]), (0x0100_002f, NUMBER << 8 | 4));
    assert_eq!(words[4], 0);
    // 2 GiB are 0 in a field of 31 bits.
    assert_eq!(words[8..12], [0, 5, 0, 0x1122]);
    assert_eq!(words[12..], [0, 6, 0, 0x3344]);

    let none = copy(&mut qp, place(0, 0, 5), place(0, 0, 6));
    assert_eq!(none, Err(PostError::InvalidRequest));
    let uneven = copy(&mut qp, place(0, 8, 5), place(0, 9, 6));
    assert_eq!(uneven, Err(PostError::InvalidRequest));
    let long = copy(&mut qp, place(0, u32::MAX, 5), place(0, u32::MAX, 6));
    let (requested, max) = (u32::MAX.into(), 1 << 31);
    assert_eq!(long, Err(PostError::MessageTooLong { requested, max }));
}

#[test]
fn other_queue_pairs_and_devices_make_no_copies() {
    let bench = Bench::new();
    firmware(&bench, 16, true);
    let extra = QpExtra::default().with_copies();
    for kind in [QpType::Uc, QpType::Ud] {
        let error = bench.create(&extra, &bench.init(kind)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    let plain = bench.create(&QpExtra::default(), &bench.init(QpType::Uc));
    let mut plain = plain.unwrap();
    ready(&mut plain);
    let refused = copy(&mut plain, place(0, 8, 5), place(8, 8, 5));
    assert_eq!(refused, Err(PostError::UnsupportedOperation));
    bench.kernel.answer(
        MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
        Mailbox::new(CAP_REPLY_LEN).as_bytes(),
    );
    let error = bench.create(&extra, &bench.init(QpType::Rc)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
