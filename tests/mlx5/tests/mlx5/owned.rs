//! Requests of owned queues that other devices do not have.

use uverbs::completion::WcOpcode;
use uverbs::mlx5::AtomicMasks;
use uverbs::owned::{self, Buffer, Finished, Memory, Work};
use uverbs::{
    AccessFlags, CompletionQueue, PostError, ProtectionDomain, QpType, SendFlags, WcStatus,
};
use verbs_tests::{Pair, device_name, nothing, peer_name, until};

use crate::frames::{ETHER_TYPE, FRAME, frame, of_type, port, rule};

/// The next completion, exchanged for what it finished.
fn finished(qp: &mut owned::QueuePair, cq: &mut CompletionQueue) -> Finished {
    until("a completion", || {
        let done = cq.poll().unwrap()?;
        Some(qp.complete(done).expect("a request of this queue"))
    })
}

fn buffer_of(done: Finished) -> Buffer {
    done.into_buffer().expect("a buffer")
}

const SWAP: AtomicMasks = AtomicMasks::CompareSwap {
    compare: 0xff,
    swap: 0xffff_0000,
};
const ADD: AtomicMasks = AtomicMasks::FetchAdd { boundary: 1 << 31 };

#[test]
fn ib_owned_masked_atomics_return_the_old_value_in_their_buffer() {
    let Pair { a, b } = Pair::new(QpType::Rc);
    let (mut qp, mut cq) = (owned::QueuePair::new(a.qp), a.cq);
    let word = b.pd.expose(16, AccessFlags::REMOTE_ATOMIC).unwrap();
    let at = word.remote().at(8).unwrap();
    let [mut buffer] = a.pd.buffers::<1>(8).unwrap();
    let swap = || Work::compare_swap(at, 0x11ff, 0x1234_5678).user_data(1);
    let add = || Work::fetch_add(at, 1 << 32 | 1).user_data(2);
    for (work, masks, before, after, opcode) in [
        (
            swap(),
            SWAP,
            0x5555_0000_aaaa_77ff,
            0x5555_0000_1234_77ff,
            WcOpcode::CompareSwap,
        ),
        (
            add(),
            ADD,
            0x0000_0007_ffff_ffff,
            0x0000_0008_0000_0000,
            WcOpcode::FetchAdd,
        ),
    ] {
        assert!(word.store(8, before));
        let user_data = u64::from(opcode == WcOpcode::FetchAdd) + 1;
        qp.post_masked(work.memory((buffer, 8)), masks).unwrap();
        let done = finished(&mut qp, &mut cq);
        assert_eq!(
            (done.status(), done.opcode(), done.user_data()),
            (WcStatus::Success, opcode, user_data)
        );
        assert_eq!(done.bytes(), Some(&before.to_ne_bytes()[..]));
        assert_eq!((word.load(0), word.load(8)), (Some(0), Some(after)));
        buffer = buffer_of(done);
    }
    // The members of a batch, with one doorbell.
    assert!(word.store(8, 0xffff_ffff));
    let [other] = a.pd.buffers::<1>(8).unwrap();
    let mut batch = qp.batch();
    batch.push_masked(add().memory((buffer, 8)), ADD).unwrap();
    batch.push_masked(add().memory((other, 8)), ADD).unwrap();
    batch.submit().unwrap();
    for old in [0xffff_ffff_u64, 1 << 32] {
        let done = finished(&mut qp, &mut cq);
        assert_eq!(done.bytes(), Some(&old.to_ne_bytes()[..]), "{done:?}");
    }
    assert_eq!(word.load(8), Some(2 << 32 | 1));
}

#[test]
fn masked_atomics_that_make_no_sense_return_their_memory() {
    let Pair { a, b } = Pair::new(QpType::Rc);
    let mut qp = owned::QueuePair::new(a.qp);
    let exposed = b.pd.expose(16, AccessFlags::REMOTE_ATOMIC).unwrap();
    let at = exposed.remote();
    let [mut buffer] = a.pd.buffers::<1>(16).unwrap();
    // Masks of the other operation; not 8 bytes; an address that is not aligned.
    for (work, len, masks) in [
        (Work::fetch_add(at, 1), 8, SWAP),
        (Work::compare_swap(at, 1, 2), 8, ADD),
        (Work::fetch_add(at, 1), 16, ADD),
        (Work::fetch_add(at.at(4).unwrap(), 1), 8, ADD),
    ] {
        let refused = qp
            .post_masked(work.memory((buffer, len)).user_data(5), masks)
            .unwrap_err();
        assert_eq!(refused.error, PostError::InvalidRequest);
        let back = refused.work.expect("it was not posted");
        buffer = back.take_memory().into_buffer().expect("its buffer");
    }
    let bare = qp.post_masked(Work::fetch_add(at, 1), ADD).unwrap_err();
    assert_eq!(bare.error, PostError::InvalidRequest);
    assert_eq!((qp.sends_posted(), buffer.len()), (0, 16));
    // The queue is as before.
    assert!(qp.into_raw().is_ok());
    let Pair { a, .. } = Pair::new(QpType::Uc);
    let mut other = owned::QueuePair::new(a.qp);
    let refused = other.post_masked(Work::fetch_add(at, 1), ADD).unwrap_err();
    assert_eq!(refused.error, PostError::InvalidRequest);
    let [buffer] = a.pd.buffers::<1>(8).unwrap();
    let work = Work::fetch_add(at, 1).memory(buffer);
    let refused = other.post_masked(work, ADD).unwrap_err();
    assert_eq!(refused.error, PostError::UnsupportedOperation);
}

/// One end of the wire, whose queue owns the memory of its frames.
struct End {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    qp: owned::QueuePair,
    mac: [u8; 6],
}

impl End {
    fn of(device: &str, header: u16) -> Self {
        let port = port(device, header);
        Self {
            pd: port.pd,
            cq: port.cq,
            qp: owned::QueuePair::new(port.qp),
            mac: port.mac,
        }
    }

    /// One that gets the frames to it.
    fn receiving(device: &str, ether_type: u16) -> Self {
        let mut end = Self::of(device, 0);
        let wanted = [of_type(end.mac, ether_type)];
        end.qp.create_flow(&rule(&wanted)).unwrap();
        end
    }

    fn buffer(&self, bytes: &[u8]) -> Memory {
        let [mut buffer] = self.pd.buffers::<1>(bytes.len()).unwrap();
        buffer.copy_from_slice(bytes);
        buffer.into()
    }

    fn room(&mut self) {
        let [buffer] = self.pd.buffers::<1>(2048).unwrap();
        self.qp.recv(buffer, 9).unwrap();
    }

    fn sent(&mut self, opcode: WcOpcode) {
        let done = finished(&mut self.qp, &mut self.cq);
        assert!(
            done.status().is_success() && done.opcode() == opcode,
            "{done:?}"
        );
    }

    fn received(&mut self) -> Vec<u8> {
        let done = finished(&mut self.qp, &mut self.cq);
        assert!(done.status().is_success(), "{done:?}");
        done.bytes().expect("a buffer").to_vec()
    }
}

const IPV4: u16 = 0x0800;

/// Headers of TCP over IPv4.
const TCP_IP: [u8; 40] = [
    0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 9, 8, 7, 10, 9, 8, 6, // IPv4
    0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0,
];

/// The second function requires the first bytes of frames in the request; the first does not.
#[test]
fn roce_owned_frames_are_sent_whatever_the_device_wants_of_them() {
    let (one, other) = (device_name(), peer_name());
    for (from, to) in [(&one, &other), (&other, &one)] {
        let (mut from, mut to) = (End::of(from, 0), End::receiving(to, ETHER_TYPE));
        let sent = frame(to.mac, from.mac, ETHER_TYPE, 7);
        for cut in [FRAME, 18, 7, 50] {
            to.room();
            let (head, rest) = sent.split_at(cut);
            let mut memory = vec![from.buffer(head)];
            if !rest.is_empty() {
                memory.push(from.buffer(rest));
            }
            from.qp.post_packet(Work::send().memory(memory)).unwrap();
            from.sent(WcOpcode::Send);
            assert_eq!(to.received(), sent, "cut at {cut}");
        }
        // Peers may access what is behind the bytes that are read, and nothing of these.
        let exposed = from.pd.expose(64, AccessFlags::REMOTE_READ).unwrap();
        assert!(exposed.write(0, &sent[18..]));
        to.room();
        let rest = Memory::Exposed(exposed.clone(), 0..FRAME - 18);
        let memory = vec![from.buffer(&sent[..18]), rest];
        from.qp.post_packet(Work::send().memory(memory)).unwrap();
        from.sent(WcOpcode::Send);
        assert_eq!(to.received(), sent);
        let short = vec![
            from.buffer(&sent[..17]),
            Memory::Exposed(exposed.clone(), 0..FRAME - 17),
        ];
        for memory in [Memory::List(short), Memory::Exposed(exposed, 0..FRAME)] {
            let bytes = memory.len();
            let refused = from
                .qp
                .post_packet(Work::send().memory(memory))
                .unwrap_err();
            assert_eq!(refused.error, PostError::InvalidRequest);
            let work = refused.work.expect("it was not posted");
            assert_eq!(work.take_memory().len(), bytes);
        }
        nothing(&mut to.cq);
        assert_eq!(from.qp.sends_posted(), 0);
    }
}

#[test]
fn roce_owned_frames_are_cut_into_many_behind_their_headers() {
    let mut from = End::of(&device_name(), 64);
    let mut to = End::receiving(&peer_name(), IPV4);
    let mut head = [&to.mac[..], &from.mac, &IPV4.to_be_bytes()].concat();
    head.extend(TCP_IP);
    let payload: Vec<_> = (0..3000_u16)
        .map(|at| at.to_le_bytes()[0] ^ at.to_be_bytes()[0])
        .collect();
    for _ in 0..4 {
        to.room();
    }
    // One frame as it is, and three of 1000 bytes; together with one doorbell.
    let (whole, rest) = (from.buffer(&payload[..100]), from.buffer(&payload));
    let mut batch = from.qp.batch();
    batch
        .push_frame(Work::send().memory(whole), &head, None)
        .unwrap();
    batch
        .push_frame(Work::send().memory(rest), &head, Some(1000))
        .unwrap();
    batch.submit().unwrap();
    from.sent(WcOpcode::Send);
    from.sent(WcOpcode::Tso);
    let expected = std::iter::once(&payload[..100]).chain(payload.chunks(1000));
    for bytes in expected {
        let received = to.received();
        assert_eq!(received[..14], head[..14]);
        assert_eq!(&received[head.len()..], bytes);
    }
    // More headers than there is room for; the memory comes back.
    let memory = from.buffer(&payload);
    let work = Work::send().memory(memory).flags(SendFlags::SOLICITED);
    let refused = from.qp.post_frame(work, &[0; 256], None).unwrap_err();
    assert!(
        matches!(refused.error, PostError::InlineTooLong { .. }),
        "{refused}"
    );
    let work = refused.work.expect("it was not posted");
    assert_eq!(work.take_memory().len(), payload.len());
    nothing(&mut to.cq);
}
