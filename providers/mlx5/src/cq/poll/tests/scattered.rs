//! Messages in completions.

use uverbs_core::types::Sge;

use super::*;
use crate::cqe::format;
use crate::tracker::ScatterTracker;

/// A queue pair whose messages are delivered in completions, with four receive requests of 64 bytes
/// in `memory`.
fn receiver(device: &mut Device, memory: &mut [[u8; 64]; 4]) -> (u32, Arc<QueuePairTracker>) {
    let own = Receives::Own(RecvTracker::new(4));
    let pair = QueuePairTracker::new(8, own).scattering(ScatterTracker::new(4, 1));
    let (number, pair) = device.enter(pair);
    let Receives::Own(queue) = &pair.recv else {
        panic!("a queue of its own");
    };
    let scatter = pair.scatter().unwrap();
    for (at, buffer) in (0..).zip(memory) {
        queue.posted(at, u64::from(at) + 50);
        let address = buffer.as_mut_ptr().expose_provenance() as u64;
        let sge = Sge {
            address,
            length: 64,
            ..Sge::default()
        };
        scatter.note(at, &[sge]);
    }
    scatter.posted(4);
    (number, pair)
}

/// The contents of an entry besides its message.
const MIDDLE: [u64; 6] = [0x0900_0000_0000_0777, 0x3512_3456_1e00_0000, 77, 0, 0, 0];

/// Writes an entry with `message`, whose length field is `length`.
fn write(device: &mut Device, kind: u32, number: u32, format: u32, message: &[u8], length: u64) {
    let position = device.produced;
    let middle = [MIDDLE[0], MIDDLE[1], MIDDLE[2], length, 0, 0];
    device.write(kind, number, 0, middle);
    let ring = &device.consumer.ring;
    let first = ring.first(position);
    let at = if format == format::DATA_64 {
        first.wrapping_sub(4)
    } else {
        first
    };
    let mut bytes = message.to_vec();
    bytes.resize(message.len().next_multiple_of(16), 0xcc);
    for (unit, bytes) in (0..).zip(bytes.chunks_exact(8).collect::<Vec<_>>().chunks_exact(2)) {
        let word = |at: usize| u64::from_ne_bytes(bytes[at].try_into().unwrap());
        ring.units.put(at + unit, [word(0), word(1)]);
    }
    let tail = u64::from_be(ring.units.get(first + 3)[1]);
    ring.units
        .set_word(first + 3, 1, (tail | u64::from(format) << 2).to_be());
}

#[test]
fn a_message_in_its_completion_is_copied_to_the_sges_of_its_request() {
    for (size, format, length) in [
        (64, format::DATA_32, 32),
        (128, format::DATA_64, 64),
        (128, format::DATA_32, 5),
    ] {
        let mut device = Device::new(3, size);
        let mut memory = [[0xee; 64]; 4];
        let (number, _) = receiver(&mut device, &mut memory);
        let message: Vec<u8> = (1..=length).collect();
        let kinds = [
            opcode::RECEIVE,
            opcode::RECEIVE_IMM,
            opcode::RECEIVE_INVALIDATE,
        ];
        for kind in kinds {
            write(&mut device, kind, number, format, &message, length.into());
        }
        // A message that was too long for an entry is delivered as usual.
        device.write(opcode::RECEIVE, number, 3, [0, 0, 0, 70, 0, 0]);
        let mut out = [WorkCompletion::default(); 8];
        assert_eq!(device.consumer.fill::<Own, _>(&mut out).unwrap(), 4);
        for (at, done) in out[..3].iter().enumerate() {
            assert_eq!(
                (done.wr_id, done.status),
                (50 + at as u64, WcStatus::Success)
            );
            assert_eq!((done.byte_len, done.qp_num), (length.into(), QPN));
            // The bytes where a short entry has its message have no meaning.
            if format == format::DATA_32 {
                assert_eq!(
                    (done.src_qp, done.slid, done.sl, done.dlid_path_bits),
                    (0, 0, 0, 0)
                );
                assert!(!done.flags.intersects(WcFlags::GRH | WcFlags::IP_CSUM_OK));
            } else {
                assert_eq!((done.src_qp, done.slid), (0x12_3456, 0x777));
            }
        }
        assert_eq!(
            (out[1].imm, out[2].invalidated),
            (Some(77), Some(uverbs_core::types::RemoteKey::from_raw(77)))
        );
        assert_eq!((out[3].wr_id, out[3].byte_len), (53, 70));
        for buffer in &memory[..3] {
            assert_eq!(buffer[..length.into()], message[..]);
            assert!(buffer[length.into()..].iter().all(|byte| *byte == 0xee));
        }
        assert_eq!(memory[3], [0xee; 64]);
    }
}

/// Messages longer than the entry, in entries that contain none, and for queues that did not
/// request them or do not exist.
#[test]
fn entries_that_no_device_writes_are_refused() {
    let corrupt = |kind: u32, format: u32, length: u64, size: u32| {
        let mut device = Device::new(3, size);
        let mut memory = [[0xee; 64]; 4];
        let (number, _) = receiver(&mut device, &mut memory);
        write(&mut device, kind, number, format, &[1; 16], length);
        let refused = device.consumer.next();
        assert!(
            matches!(refused, Err(PollError::Corrupt)),
            "{kind} {format} {length}"
        );
        assert_eq!(memory, [[0xee; 64]; 4]);
    };
    for length in [33, 64, 1 << 31, u32::MAX.into()] {
        corrupt(opcode::RECEIVE, format::DATA_32, length, 64);
    }
    corrupt(opcode::RECEIVE, format::DATA_64, 65, 128);
    corrupt(opcode::RECEIVE, format::DATA_64, 16, 64);
    for kind in [
        opcode::REQUEST,
        opcode::REQUEST_ERROR,
        opcode::RECEIVE_ERROR,
        opcode::RECEIVE_WRITE_IMM,
    ] {
        corrupt(kind, format::DATA_32, 16, 64);
    }
    let mut device = Device::new(3, 64);
    let (number, pair) = device.pair(Receives::Own(RecvTracker::new(4)));
    write(
        &mut device,
        opcode::RECEIVE,
        number,
        format::DATA_32,
        &[1; 16],
        16,
    );
    assert!(matches!(device.consumer.next(), Err(PollError::Corrupt)));
    assert_eq!(pair.received_tail(), 0);
}

#[test]
fn nothing_is_copied_for_a_destroyed_queue_pair() {
    let mut device = Device::new(3, 64);
    let mut memory = [[0xee; 64]; 4];
    let (number, _) = receiver(&mut device, &mut memory);
    write(
        &mut device,
        opcode::RECEIVE,
        number,
        format::DATA_32,
        &[1; 16],
        16,
    );
    device.remove(number);
    assert_eq!(device.poll(), None);
    assert_eq!((device.consumer.position(), memory), (1, [[0xee; 64]; 4]));
}

/// Waiting messages move with their completions when the queue gets another ring.
#[test]
fn a_message_that_waits_while_the_queue_is_resized_is_not_lost() {
    for (size, format, length) in [(64, format::DATA_32, 32), (128, format::DATA_64, 64)] {
        let mut device = Device::new(2, size);
        let mut memory = [[0xee; 64]; 4];
        let (number, _) = receiver(&mut device, &mut memory);
        let message: Vec<u8> = (1..=length).collect();
        for _ in 0..3 {
            write(
                &mut device,
                opcode::RECEIVE,
                number,
                format,
                &message,
                length.into(),
            );
        }
        assert_eq!(device.poll().unwrap().wr_id, 50);
        let ring = CqRing::alone(4, size, 1).unwrap();
        for position in 1..3 {
            ring.take(&device.consumer.ring, position);
        }
        device.consumer.move_to(Arc::new(ring));
        for wr_id in [51, 52] {
            assert_eq!(device.poll().unwrap().wr_id, wr_id);
        }
        for buffer in &memory[..3] {
            assert_eq!(buffer[..length.into()], message[..]);
        }
    }
}

/// A completion queue is destroyed while a message and a receive of a shared queue wait in it.
#[test]
fn a_receive_behind_an_unpolled_message_returns_to_its_shared_queue() {
    let mut device = Device::new(3, 64);
    let mut memory = [[0xee; 64]; 4];
    let (number, _) = receiver(&mut device, &mut memory);
    let queue = Arc::new(SrqTracker::new(4));
    let (other, _) = device.pair(Receives::Shared(Arc::clone(&queue)));
    queue.post(0, 7);
    let left = Left::new(&device.shared, &device.trackers, false, ());
    write(
        &mut device,
        opcode::RECEIVE,
        number,
        format::DATA_32,
        &[1; 16],
        16,
    );
    device.write(opcode::RECEIVE, other, 0, NOTHING);
    device.remove(number);
    device.remove(other);
    drop(left);
    let mut reported = Vec::new();
    queue.take_unreported(|wr_id| reported.push(wr_id));
    assert_eq!(reported, [7]);
    assert_eq!(memory, [[0xee; 64]; 4]);
}
