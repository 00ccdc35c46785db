//! Flags, numbers, doorbells, counters and lengths at their limits.

use super::*;

/// Each flag alone, named or not, on the fast path and on the slow path.
#[test]
fn no_flag_without_a_name_gets_into_a_ring() {
    let sge = [Sge {
        address: 0x1000,
        length: 64,
        key: LocalKey::from_raw(7),
    }];
    let bytes = [3; 40];
    let slices: [&[u8]; 1] = [&bytes];
    let remote = Remote {
        address: 0x2000,
        key: RemoteKey::from_raw(9),
    };
    let (_, file) = Scripted::new();
    let address = Address::new(&file, None, 0, [0x5a; 88]);
    let to = Destination {
        address: &address,
        qp_num: 0x1234,
        qkey: 5,
    };
    for (kind, request) in [
        (QpType::Rc, SendRequest::send(&sge)),
        (QpType::Rc, SendRequest::send_inline(&slices)),
        (QpType::Rc, SendRequest::write(&sge, remote)),
        (QpType::Rc, SendRequest::read(&sge, remote)),
        (QpType::Ud, SendRequest::send(&sge).to(to)),
        (QpType::XrcInitiator, SendRequest::send(&sge)),
    ] {
        let put = |flags| {
            let mut queue = queue(kind, 4, 4);
            queue.put(&request.with(flags)).unwrap();
            queue.decode(0)
        };
        let plain = put(SendFlags::empty());
        let bits = (0..32_u32).filter(|at| !cfg!(miri) || at % 10 < 3);
        for at in bits {
            let found = put(SendFlags::from_bits_retain(1 << at));
            let flags = match at {
                0 => 0x80,
                1 => 0x08,
                2 => 0x02,
                _ => 0,
            };
            assert_eq!(found.flags, flags, "{kind}, bit {at}");
            assert_eq!(Decoded { flags: 0, ..found }, plain, "{kind}, bit {at}");
        }
    }
}

/// Next to the number is the bit for a long address, and no other.
#[test]
fn a_destination_has_24_bits() {
    let (_, file) = Scripted::new();
    let address = Address::new(&file, None, 0, [0x5a; 88]);
    for (qp_num, put) in [
        (0, Ok(())),
        (0xff_ffff, Ok(())),
        (1 << 24, Err(PostError::InvalidRequest)),
        (u32::MAX, Err(PostError::InvalidRequest)),
    ] {
        let mut queue = queue(QpType::Ud, 4, 4);
        let to = Destination {
            address: &address,
            qp_num,
            qkey: 5,
        };
        assert_eq!(
            queue.put(&SendRequest::send(&[]).to(to)),
            put,
            "{qp_num:#x}"
        );
    }
}

/// A single request is copied through the doorbell, which has two buffers; several are submitted
/// with the start of the last one.
#[test]
fn doorbells() {
    let mut queue = queue(QpType::Rc, 16, 4);
    let sge = [Sge {
        address: 0x1000,
        length: 64,
        key: LocalKey::from_raw(7),
    }];
    let request = SendRequest::send(&sge);
    queue.put(&request).unwrap();
    queue.ring.submit().unwrap();
    assert_eq!(queue.registers(0x800, 64), queue.bytes()[..64]);
    queue.put(&request).unwrap();
    queue.put(&request).unwrap();
    queue.ring.submit().unwrap();
    assert_eq!(queue.registers(0x900, 8), queue.bytes()[128..136]);
    assert_eq!(queue.registers(0x908, 56), [0; 56]);
    let bytes = [7; 180];
    let sges: [&[u8]; 1] = [&bytes];
    queue.put(&SendRequest::send_inline(&sges)).unwrap();
    queue.ring.submit().unwrap();
    assert_eq!(queue.registers(0x800, 256), queue.bytes()[192..448]);
    // Nothing was put, so no doorbell is written.
    queue.ring.submit().unwrap();
    assert_eq!(queue.registers(0x900, 8), queue.bytes()[128..136]);
}

/// Requests are never copied through a shared doorbell.
#[test]
fn a_shared_doorbell_takes_one_store() {
    let mut queue = queue(QpType::Rc, 16, 0);
    queue.put(&SendRequest::send(&[])).unwrap();
    queue.ring.submit().unwrap();
    assert_eq!(queue.registers(0x800, 8), queue.bytes()[..8]);
    assert_eq!(queue.registers(0x808, 56), [0; 56]);
}

#[test]
fn states_and_resets() {
    let mut queue = queue(QpType::Rc, 2, 4);
    let request = SendRequest::send(&[]).wr_id(5);
    queue.ring.set_ready(false);
    assert_eq!(queue.put(&request), Err(PostError::WrongState));
    queue.ring.set_ready(true);
    for _ in 0..queue.sizes.max_post {
        queue.put(&request).unwrap();
    }
    assert_eq!(queue.put(&request), Err(PostError::QueueFull));
    queue.ring.submit().unwrap();
    assert_ne!(queue.record.load(1), 0);
    queue.tracker.restart(0, 0);
    queue.ring.reset();
    assert_eq!(queue.record.load(1), 0);
    queue.put(&request).unwrap();
    assert_eq!(queue.decode(0).index, 0);
}

/// Counters that have wrapped around behave like any others.
#[test]
fn counters_wrap() {
    let bytes = [9; 150];
    let slices: [&[u8]; 2] = [&bytes[..33], &bytes[33..]];
    for start in [0xffff, 0x1fff_fffe, 0x3fff_ffff, 0x7fff_fffd, u32::MAX - 1] {
        let mut queue = queue(QpType::Rc, 16, 4);
        queue.ring.end.block = start;
        let mut block = start;
        for _ in 0..4 {
            queue.put(&SendRequest::send_inline(&slices)).unwrap();
            let found = queue.decode(block);
            assert_eq!((found.index, found.units), (u64::from(block & 0xffff), 11));
            assert_eq!(found.inline.unwrap(), bytes);
            block = block.wrapping_add(3);
        }
        queue.ring.submit().unwrap();
        assert_eq!(queue.record.load(1), block & 0xffff);
    }
}

#[test]
fn a_message_of_2_gib_does_not_pass_for_inline_data() {
    let mut queue = queue(QpType::Rc, 2, 4);
    let half = Sge {
        address: 0,
        length: 1 << 30,
        key: LocalKey::from_raw(1),
    };
    let whole = Sge {
        length: 1 << 31,
        ..half
    };
    for sges in [&[whole][..], &[half, half]] {
        let result = queue.put(&SendRequest::send(sges));
        assert!(matches!(result, Err(PostError::MessageTooLong { .. })));
    }
}

#[test]
fn a_queue_that_can_only_send_has_no_other_operation() {
    let remote = Remote {
        address: 8,
        key: RemoteKey::from_raw(2),
    };
    let sge = Sge {
        address: 0,
        length: 8,
        key: LocalKey::from_raw(1),
    };
    let (compare, swap, add) = (1, 2, 3);
    for operation in [
        Operation::SendImm(1),
        Operation::Write(remote),
        Operation::WriteImm(remote, 1),
        Operation::Read(remote),
        Operation::CompareSwap {
            remote,
            compare,
            swap,
        },
        Operation::FetchAdd { remote, add },
    ] {
        for gathered in [&[][..], std::slice::from_ref(&sge)] {
            let request = SendRequest::new(operation, Payload::Gather(gathered));
            let sending_alone = queue(QpType::RawPacket, 8, 0).put(&request);
            let refused = Err(PostError::UnsupportedOperation);
            assert_eq!(sending_alone, refused, "{operation:?}");
        }
    }
}

#[test]
fn requests_name_their_streams() {
    let mut queue = queue(QpType::XrcInitiator, 8, 0);
    queue.ring.limits.operations = Operations::of(QpType::Driver, AtomicCap::Device);
    let bytes: [&[u8]; 1] = [b"told apart"];
    let invalidate = Operation::LocalInvalidate(RemoteKey::from_raw(0x505));
    let nothing = Payload::Gather(&[]);
    for stream in [0, 1, 0x1234, 0xffff] {
        for request in [
            SendRequest::send_inline(&bytes).signaled(),
            SendRequest::new(invalidate, nothing),
        ] {
            let block = queue.ring.end.block;
            queue
                .ring
                .put_in_stream(&request, &[wqe::xrc(0x77)], stream)
                .unwrap();
            let at = block as usize % queue.sizes.blocks as usize * 64;
            let control = &queue.bytes()[at..at + 16];
            assert_eq!(control[9..11], stream.to_be_bytes());
            // Neither the signature nor the flags are affected.
            assert_eq!(control[8], 0);
            let flags = if request.flags.contains(SendFlags::SIGNALED) {
                8
            } else {
                0
            };
            assert_eq!(u32::from(control[11]) & !control::SMALL_FENCE, flags);
        }
        queue.ring.abort();
    }
}

impl SendRing {
    /// The blocks that the device was told of.
    pub(crate) fn handed_over(&self) -> u32 {
        self.record.load(SEND_RECORD)
    }
}
