//! Small messages that are written into their completions.

use mlx5_tests::raw as mlx5_raw;
use uverbs::completion::WcFlags;
use uverbs::mlx5::{Entries, EntrySize};
use uverbs::time::AckTimeout;
use uverbs::{
    CompletionQueue, Context, ErrorKind, Operation, Payload, ProtectionDomain, QpType, QueuePair,
    SendRequest, WorkCompletion, owned,
};
use verbs_tests::{Registered, next, open, raw, until};

/// A sender, and a receiver whose small messages are written into completions.
struct Ends {
    pd: ProtectionDomain,
    sender: QueuePair,
    receiver: QueuePair,
    sent: CompletionQueue,
    received: CompletionQueue,
    memory: Registered,
}

impl Ends {
    fn new(context: &Context, kind: QpType, size: EntrySize) -> Self {
        let pd = context.alloc_pd().unwrap();
        let [sent, received] = [(), ()].map(|()| {
            let entries = Entries {
                compressed: None,
                size,
            };
            let builder = context.completion_queue(31).entries_of_mlx5(entries);
            builder.build().unwrap()
        });
        let [a, b] = [false, true].map(|scatters| {
            let mut builder = pd
                .queue_pair(kind, &sent, &received)
                .timeout(AckTimeout::code(14).unwrap())
                .max_recv_sge(3);
            if scatters {
                builder = mlx5_raw::scatter_to_completions(builder);
            }
            builder.build().unwrap()
        });
        let (to_a, to_b) = (a.endpoint(), b.endpoint());
        Self {
            sender: a.handshake(to_b).unwrap(),
            receiver: b.handshake(to_a).unwrap(),
            sent,
            received,
            memory: Registered::local(&pd, 512),
            pd,
        }
    }

    /// Sends `length` bytes of the memory and waits for both completions; returns the receiver's.
    fn send(&mut self, length: u32) -> WorkCompletion {
        let sges = [self.memory.sge(0, length)];
        let request = SendRequest::send(&sges).signaled();
        raw::send(&mut self.sender, &[request]).unwrap();
        assert!(next(&mut self.sent).is_success());
        let done = next(&mut self.received);
        assert!(done.is_success(), "{done:?}");
        done
    }
}

/// The region has other addresses than the memory that its requests name, so this shows what the
/// device wrote here, and what was copied there.
#[test]
fn the_device_writes_long_messages_and_the_poller_short_ones() {
    let context = open();
    for (size, most) in [(EntrySize::Short, 32), (EntrySize::Long, 64)] {
        for kind in [QpType::Rc, QpType::Uc] {
            let mut ends = Ends::new(&context, kind, size);
            let there = Registered::local(&ends.pd, 3 * 4096);
            let (here, offset) = Registered::addressed_as(&there, &ends.pd, 256);
            for (number, length) in [1, 8, 31, 32, 33, 63, 64, 65, 200, 5]
                .into_iter()
                .enumerate()
            {
                let wr_id = number as u64 + 1;
                let message: Vec<u8> = (1..=length).collect();
                ends.memory.put(0, &message);
                here.fill(|_| 0xee);
                there.fill(|_| 0xee);
                raw::recv(&mut ends.receiver, wr_id, &[here.sge(0, 256)]).unwrap();
                let done = ends.send(length.into());
                assert_eq!((done.wr_id, done.byte_len), (wr_id, length.into()));
                assert_eq!(done.qp_num, ends.receiver.qp_num());
                let length = usize::from(length);
                let (with, without, at) = if length <= most {
                    (&there, &here, offset)
                } else {
                    (&here, &there, 0)
                };
                assert_eq!(with.get(at, length), message, "{kind} {length}");
                assert!(with.all().iter().filter(|byte| **byte != 0xee).count() <= length);
                assert!(without.all().iter().all(|byte| *byte == 0xee));
            }
        }
    }
}

#[test]
fn messages_in_completions_fill_their_sges_through_many_wraps_of_the_ring() {
    let context = open();
    let mut ends = Ends::new(&context, QpType::Rc, EntrySize::Short);
    let target = Registered::local(&ends.pd, 512);
    for round in 0..200_u8 {
        let message: Vec<u8> = (round..).take(usize::from(round % 41)).collect();
        let length = u32::from(round % 41);
        ends.memory.put(0, &message);
        target.fill(|_| 0xee);
        let sges = [target.sge(3, 5), target.sge(100, 0), target.sge(201, 40)];
        raw::recv(&mut ends.receiver, round.into(), &sges).unwrap();
        let done = ends.send(length);
        assert_eq!((done.wr_id, done.byte_len), (round.into(), length));
        let (first, second) = message.split_at(message.len().min(5));
        assert_eq!(target.get(3, first.len()), first);
        assert_eq!(target.get(201, second.len()), second);
        let changed = target.all().iter().filter(|byte| **byte != 0xee).count();
        assert!(changed <= message.len(), "{changed} of {length} bytes");
    }
}

#[test]
fn immediate_data_is_reported_with_a_message_in_its_completion() {
    let context = open();
    let mut ends = Ends::new(&context, QpType::Rc, EntrySize::Short);
    let target = Registered::local(&ends.pd, 64);
    ends.memory.put(0, b"immediately");
    raw::recv(&mut ends.receiver, 1, &[target.sge(0, 64)]).unwrap();
    let sges = [ends.memory.sge(0, 11)];
    let operation = Operation::SendImm(0xfeed_beef);
    let request = SendRequest::new(operation, Payload::Gather(&sges)).signaled();
    raw::send(&mut ends.sender, &[request]).unwrap();
    assert!(next(&mut ends.sent).is_success());
    let done = next(&mut ends.received);
    assert_eq!((done.imm, done.byte_len), (Some(0xfeed_beef), 11));
    assert_eq!(done.flags, WcFlags::WITH_IMM);
    assert_eq!((done.src_qp, done.slid, done.sl), (0, 0, 0));
    assert_eq!(target.get(0, 11), b"immediately");
}

#[test]
fn owned_queue_pairs_get_their_messages_and_after_a_reset_their_memory() {
    let context = open();
    let ends = Ends::new(&context, QpType::Rc, EntrySize::Short);
    let Ends {
        pd,
        sender,
        receiver,
        mut sent,
        mut received,
        ..
    } = ends;
    let mut sender = owned::QueuePair::new(sender);
    let mut receiver = owned::QueuePair::new(receiver);
    for round in 0..40_u8 {
        let [mut message, reply] = pd.buffers::<2>(64).unwrap();
        let length = 1 + usize::from(round);
        message[..length].fill(round);
        receiver.recv(reply, round.into()).unwrap();
        sender.send(message, length, round.into()).unwrap();
        until("the sender's completion", || {
            let done = sent.poll().unwrap()?;
            Some(sender.complete(done).unwrap())
        });
        let finished = until("the message", || {
            let done = received.poll().unwrap()?;
            Some(receiver.complete(done).unwrap())
        });
        assert_eq!(finished.bytes().unwrap(), vec![round; length]);
    }
    // One message stays in its completion.
    let [message, reply] = pd.buffers::<2>(64).unwrap();
    receiver.recv(reply, 1).unwrap();
    sender.send(message, 16, 1).unwrap();
    until("the sender's completion", || {
        let done = sent.poll().unwrap()?;
        Some(sender.complete(done).unwrap())
    });
    assert_eq!(receiver.reset().unwrap().len(), 1);
    assert!(received.poll().unwrap().is_none());
}

#[test]
fn queue_pairs_that_cannot_scatter_to_completions_are_refused() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(8).unwrap();
    let srq = pd.create_srq(8, 1).unwrap();
    for kind in [QpType::Ud, QpType::Rc, QpType::Uc] {
        let builder = pd.queue_pair(kind, &cq, &cq);
        let builder = match kind {
            QpType::Rc => builder.srq(&srq),
            QpType::Uc => builder.signal_all(),
            _ => builder,
        };
        let builder = mlx5_raw::scatter_to_completions(builder);
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{kind}: {error}");
    }
}
