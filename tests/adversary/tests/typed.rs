//! Typed handles on the fake rxe and on the ConnectX in process: they do what the handles of any
//! vendor do, and refuse other vendors' queues.
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test fails by panicking; posts requests that name memory of its own"
)]

use std::mem::ManuallyDrop;

use adversary::device::Device;
use adversary::fake::Fakes;
use adversary::mlx5::Cards;
use uverbs::completion::WcOpcode;
use uverbs::request::RESERVED_WR_IDS;
use uverbs::typed::vendor::{Mlx5, Rxe, Vendor};
use uverbs::typed::{Entry as _, EntryOf, Posting, Template};
use uverbs::{
    AccessFlags, CompletionQueue, ErrorKind, MemoryRegion, PostError, QpType, QueuePair,
    RecvRequest, Remote, SendRequest, Sge, WorkCompletion,
};

const BYTES: usize = 4096;

/// A queue pair that is connected to itself.
struct Loop<D> {
    device: D,
    qp: QueuePair,
    cq: CompletionQueue,
    mr: MemoryRegion,
    memory: *mut u8,
}

impl<D: Device> Loop<D> {
    fn new(device: D) -> Self {
        let context = device.open(0, None).unwrap();
        let pd = context.alloc_pd().unwrap();
        let memory = Box::leak(Box::new([0_u64; BYTES / 8])).as_mut_ptr();
        let memory = memory.cast::<u8>();
        let access =
            AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        // SAFETY: the memory stays, and is accessed only while nothing is posted.
        let mr = unsafe { pd.register(memory, BYTES, access) }.unwrap();
        let cq = context.create_cq(64).unwrap();
        let builder = pd.queue_pair(QpType::Rc, &cq, &cq).access(access);
        let prepared = builder.max_send_wr(8).max_recv_wr(8).max_inline_data(32);
        let prepared = prepared.build().unwrap();
        let own = prepared.endpoint();
        let qp = prepared.handshake(own).unwrap();
        Self {
            device,
            qp,
            cq,
            mr,
            memory,
        }
    }

    fn sge(&self, offset: u64, length: u32) -> Sge {
        self.mr.sge(offset, length).unwrap()
    }

    fn set(&self, at: usize, byte: u8) {
        // SAFETY: inside the memory, which no device accesses now.
        unsafe { self.memory.wrapping_add(at).write(byte) };
    }

    fn get(&self, at: usize) -> u8 {
        // SAFETY: as above.
        unsafe { self.memory.wrapping_add(at).read() }
    }
}

/// How completions are taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// Their fields are asked for.
    Fields,
    /// All fields are written to where another completion was.
    Whole,
}

/// The completions that there are. By fields they are what a program sees by a typed poller, and by
/// the other one.
fn all<V: Vendor>(cq: &mut CompletionQueue, way: Way) -> Vec<WorkCompletion> {
    let mut seen = Vec::new();
    let mut poller = cq.poller::<V>().unwrap();
    if way == Way::Whole {
        let mut done = WorkCompletion {
            imm: Some(1),
            byte_len: 2,
            vendor_err: 3,
            ..WorkCompletion::default()
        };
        while poller.poll_whole(&mut done).unwrap() {
            seen.push(done);
        }
        let before = done;
        assert!(!poller.poll_whole(&mut done).unwrap());
        assert_eq!(done, before);
        return seen;
    }
    while let Some(done) = poller.poll().unwrap() {
        let whole = done.whole();
        assert_eq!(
            (done.wr_id(), done.status(), done.opcode(), done.byte_len()),
            (whole.wr_id, whole.status, whole.opcode, whole.byte_len)
        );
        assert_eq!(
            (done.imm(), done.qp_num(), done.flags()),
            (whole.imm, whole.qp_num, whole.flags)
        );
        seen.push(*done.untyped());
    }
    seen
}

fn traffic<V: Vendor>(device: impl Device, way: Way) {
    let mut it = Loop::new(device);
    let (first, second) = (it.sge(0, 64), it.sge(1024, 64));
    let (from, room) = ([first], [second]);
    it.set(0, 7);

    // A message with an immediate value, and an inline one.
    let mut receiver = it.qp.receiver::<V>().unwrap();
    let mut batch = receiver.batch();
    for wr_id in 0..2 {
        let scatter = &room;
        // SAFETY: the memory is registered, and not accessed until the completion; so below.
        unsafe { batch.push(&RecvRequest { wr_id, scatter }) }.unwrap();
    }
    batch.submit().unwrap();
    drop(receiver);
    let mut sender = it.qp.sender::<V>().unwrap();
    let mut batch = sender.batch();
    let request = SendRequest::new(
        uverbs::Operation::SendImm(9),
        uverbs::Payload::Gather(&from),
    );
    // SAFETY: as above.
    unsafe { batch.push(&request.wr_id(10).signaled()) }.unwrap();
    let inline = SendRequest::send_inline(&[&[5; 32]]).signaled();
    batch.push_inline(&inline.wr_id(11)).unwrap();
    let reserved = inline.wr_id(RESERVED_WR_IDS);
    assert_eq!(batch.push_inline(&reserved), Err(PostError::ReservedId));
    let named = SendRequest::send(&from);
    assert_eq!(batch.push_inline(&named), Err(PostError::InvalidRequest));
    batch.submit().unwrap();
    drop(sender);
    it.device.run();
    let mut seen = all::<V>(&mut it.cq, way);
    seen.sort_by_key(|done| done.wr_id);
    let ids: Vec<_> = seen.iter().map(|done| done.wr_id).collect();
    assert_eq!(ids, [0, 1, 10, 11]);
    assert!(seen.iter().all(|done| done.status.is_success()));
    assert_eq!((seen[0].imm, seen[0].byte_len), (Some(9), 64));
    assert_eq!((seen[1].imm, seen[1].byte_len), (None, 32));
    assert_eq!(seen[3].opcode, WcOpcode::Send);
    let number = it.qp.qp_num();
    assert!(
        seen.iter()
            .all(|done| done.qp_num == number && done.vendor_err == 0)
    );
    assert_eq!(it.get(1024), 5);

    // A batch that is forgotten or dropped is not sent, whoever posts next.
    let mut sender = it.qp.sender::<V>().unwrap();
    for keep in [false, true] {
        let mut batch = sender.batch();
        // SAFETY: as above.
        unsafe { batch.push(&named.wr_id(99).signaled()) }.unwrap();
        if keep {
            let _forgotten = ManuallyDrop::new(batch);
        }
    }
    drop(sender);
    let mut batch = it.qp.send_batch();
    // SAFETY: as above.
    unsafe { batch.push(&named.wr_id(98).signaled()) }.unwrap();
    let _forgotten = ManuallyDrop::new(batch);

    // Templates, among them one to what the peer does not have.
    it.set(0, 8);
    let key = it.mr.rkey();
    let posting = Posting {
        wr_id: 20,
        address: first.address,
        length: 64,
        remote: it.sge(2048, 64).address,
    };
    let mut sender = it.qp.sender::<V>().unwrap();
    let write = sender.prepare(&Template::write(it.mr.lkey(), key).signaled());
    let read = sender.prepare(&Template::read(it.mr.lkey(), key).signaled());
    // SAFETY: as above; nothing else writes there meanwhile.
    unsafe { sender.post_prepared(&write, &posting) }.unwrap();
    it.device.run();
    let mut batch = sender.batch();
    let back = Posting {
        wr_id: 21,
        address: second.address,
        ..posting
    };
    // SAFETY: as above.
    unsafe { batch.push_prepared(&read, &back) }.unwrap();
    batch.submit().unwrap();
    it.device.run();
    drop(sender);
    let mut done = [EntryOf::<V>::default(); 4];
    let mut poller = it.cq.poller::<V>().unwrap();
    assert_eq!(poller.poll_into(&mut done).unwrap(), 2);
    assert_eq!(
        (done[0].wr_id(), done[0].opcode()),
        (20, WcOpcode::RdmaWrite)
    );
    assert_eq!(
        (done[1].wr_id(), done[1].opcode()),
        (21, WcOpcode::RdmaRead)
    );
    assert!(done[..2].iter().all(|done| done.status().is_success()));
    assert_eq!(poller.poll_into(&mut done).unwrap(), 0);
    assert_eq!((it.get(2048), it.get(1024)), (8, 8));

    // A failure has its status, and flushes what follows.
    let mut sender = it.qp.sender::<V>().unwrap();
    let wrong = Remote { address: 8, key };
    // SAFETY: as above.
    unsafe { sender.post(&SendRequest::write(&from, wrong).wr_id(30).signaled()) }.unwrap();
    drop(sender);
    it.device.run();
    let failed = all::<V>(&mut it.cq, way);
    assert_eq!(failed.len(), 1);
    assert!(failed[0].wr_id == 30 && !failed[0].status.is_success());
}

fn refusals<V: Vendor>(device: impl Device) {
    let mut it = Loop::new(device);
    let errors = [
        it.qp.sender::<V>().unwrap_err(),
        it.qp.receiver::<V>().unwrap_err(),
        it.cq.poller::<V>().unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("another vendor"), "{error}");
    }
}

#[test]
fn typed_handles_of_rxe() {
    for way in [Way::Fields, Way::Whole] {
        traffic::<Rxe>(Fakes::default(), way);
    }
    refusals::<Mlx5>(Fakes::default());
}

#[test]
fn typed_handles_of_mlx5() {
    for (cqe_version, way) in [
        (0, Way::Fields),
        (1, Way::Fields),
        (0, Way::Whole),
        (1, Way::Whole),
    ] {
        traffic::<Mlx5>(Cards::new(cqe_version), way);
    }
    refusals::<Rxe>(Cards::new(1));
}
