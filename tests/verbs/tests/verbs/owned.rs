//! The safe memory world: buffers are moved in, are returned, and never have two owners.

use uverbs::attr::{QpAttr, SrqModify};
use uverbs::completion::WcOpcode;
use uverbs::owned::{Buffer, Finished, Memory, Work};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AccessFlags, CompletionQueue, Context, ErrorKind, PostError, ProtectionDomain, QpState, QpType,
    SendFlags, WcStatus, owned,
};
use verbs_tests::{DEADLINE, Driver, driver, nothing, open, until};

/// One struct holds everything, in an order that looks wrong for C.
struct Everything {
    context: Context,
    cq: CompletionQueue,
    pd: ProtectionDomain,
    qp: owned::QueuePair,
}

fn everything() -> Everything {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(64).unwrap();
    let builder = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .max_inline_data(64)
        .timeout(AckTimeout::code(14).unwrap())
        .rnr_retry(RnrRetry::new(7).unwrap())
        .retry_count(RetryCount::new(7).unwrap())
        .min_rnr_timer(RnrTimer::code(1).unwrap())
        .access(
            AccessFlags::LOCAL_WRITE
                | AccessFlags::REMOTE_READ
                | AccessFlags::REMOTE_WRITE
                | AccessFlags::REMOTE_ATOMIC,
        );
    let prepared = builder.build().unwrap();
    let own = prepared.endpoint();
    let qp = owned::QueuePair::new(prepared.handshake(own).unwrap());
    Everything {
        context,
        cq,
        pd,
        qp,
    }
}

impl Everything {
    fn finish(&mut self) -> Finished {
        let (cq, qp) = (&mut self.cq, &mut self.qp);
        until("a finished request", || {
            cq.poll()
                .unwrap()
                .map(|done| qp.complete(done).expect("ours"))
        })
    }

    fn message(&mut self, buffer: Buffer, len: usize, into: Buffer) -> (Finished, Finished) {
        self.qp.recv(into, 1).unwrap();
        self.qp.send(buffer, len, 2).unwrap();
        let (one, two) = (self.finish(), self.finish());
        if one.user_data() == 1 {
            (one, two)
        } else {
            (two, one)
        }
    }
}

#[test]
fn buffers_move_in_and_come_back() {
    let mut all = everything();
    let [mut message, mut sink] = all.pd.buffers::<2>(100).unwrap();
    assert_eq!((message.len(), message.is_empty()), (100, false));
    assert_eq!(&sink[..], &[0; 100], "zeroed");
    for round in 0..100_u8 {
        message.fill(round);
        let len = usize::from(round);
        let (received, sent) = all.message(message, len, sink);
        assert!(received.status().is_success() && sent.status().is_success());
        assert_eq!((received.len(), received.opcode()), (len, WcOpcode::Recv));
        assert_eq!(received.bytes(), Some(&vec![round; len][..]));
        message = sent.into_buffer().unwrap();
        sink = received.into_buffer().unwrap();
        sink.fill(0xee);
    }
    assert_eq!((all.qp.sends_posted(), all.qp.receives_posted()), (0, 0));
    nothing(&mut all.cq);
}

#[test]
fn every_kind_of_work() {
    let mut all = everything();
    let access = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
    let target = all.pd.expose(4096, access).unwrap();
    let [mut buffer] = all.pd.buffers::<1>(64).unwrap();
    buffer[..7].copy_from_slice(b"written");
    all.qp
        .post(
            Work::write(target.remote())
                .memory((buffer, 7))
                .user_data(5),
        )
        .unwrap();
    let done = all.finish();
    assert_eq!((done.user_data(), done.status()), (5, WcStatus::Success));
    let mut seen = [0; 8];
    assert!(target.read(0, &mut seen));
    assert_eq!(&seen, b"written\0");

    let [back] = all.pd.buffers::<1>(64).unwrap();
    all.qp
        .post(
            Work::read(target.remote())
                .memory((back, 8))
                .flags(SendFlags::FENCE),
        )
        .unwrap();
    let done = all.finish();
    assert_eq!(done.opcode(), WcOpcode::RdmaRead);
    assert_eq!(done.bytes(), Some(&b"written\0"[..]));

    all.qp.recv_empty(6).unwrap();
    let buffer = done.into_buffer().unwrap();
    all.qp
        .post(
            Work::write_imm(target.remote(), 99)
                .memory((buffer, 1))
                .user_data(7),
        )
        .unwrap();
    let done = [all.finish(), all.finish()];
    let of = |context| {
        done.iter()
            .find(|done| done.user_data() == context)
            .unwrap()
    };
    assert_eq!(of(6).imm(), Some(99));
    assert_eq!(of(7).opcode(), WcOpcode::RdmaWrite);

    let word = target.store(8, 41);
    assert!(word);
    let [old] = all.pd.buffers::<1>(8).unwrap();
    let mut remote = target.remote().start();
    remote.address += 8;
    let add = uverbs::Operation::FetchAdd { remote, add: 1 };
    all.qp.post(Work::new(add).memory(old)).unwrap();
    let done = all.finish();
    assert_eq!(done.bytes().unwrap(), 41_u64.to_ne_bytes());
    assert_eq!(target.load(8), Some(42));

    let [sink] = all.pd.buffers::<1>(64).unwrap();
    all.qp.recv(sink, 1).unwrap();
    all.qp.send_inline(b"inline", 2).unwrap();
    let done = [all.finish(), all.finish()];
    assert!(done.iter().any(|done| done.bytes() == Some(&b"inline"[..])));
    assert!(
        done.iter()
            .any(|done| matches!(done.memory(), Memory::None))
    );
}

#[test]
fn exposed_memory_lends_no_reference_and_knows_its_bounds() {
    let all = everything();
    let memory = all.pd.expose(64, AccessFlags::REMOTE_READ).unwrap();
    assert_eq!(memory.len(), 64);
    assert!(memory.write(60, &[1, 2, 3, 4]));
    assert!(!memory.write(61, &[1, 2, 3, 4]));
    assert!(!memory.read(usize::MAX, &mut [0; 2]));
    assert_eq!(memory.load(57), None);
    assert_eq!(memory.load(64), None);
    assert!(!memory.store(60, 1));
    let refused = all.pd.expose(64, AccessFlags::ON_DEMAND).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        all.pd.expose(0, AccessFlags::empty()).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        all.pd.buffers::<1>(0).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let huge = all.pd.buffer_list(1, usize::MAX).unwrap_err();
    assert_eq!(huge.kind(), ErrorKind::LimitExceeded);
    assert!(all.pd.buffer_list(usize::MAX, 4096).is_err());
}

#[test]
fn what_is_refused_comes_back_with_its_memory() {
    let mut all = everything();
    let other = all.context.alloc_pd().unwrap();
    let [foreign] = other.buffers::<1>(64).unwrap();
    let refused = all.qp.send(foreign, 8, 3).unwrap_err();
    assert_eq!(refused.error, PostError::InvalidRequest);
    let foreign = refused.work.unwrap().take_memory().into_buffer().unwrap();
    let refused = all.qp.recv(foreign, 3).unwrap_err();
    assert_eq!(refused.error, PostError::InvalidRequest);
    assert_eq!(refused.buffer.len(), 64);
    let [own] = all.pd.buffers::<1>(64).unwrap();
    let refused = all.qp.send(own, 65, 3).unwrap_err();
    assert_eq!(
        refused.error,
        PostError::InvalidRequest,
        "more than the buffer has"
    );
    let own = refused.work.unwrap().take_memory().into_buffer().unwrap();
    assert_eq!(own.len(), 64);
    let invalidate = Work::new(uverbs::Operation::LocalInvalidate(
        uverbs::memory::RemoteKey::from_raw(1),
    ));
    let refused = all.qp.post(invalidate).unwrap_err();
    assert_eq!(refused.error, PostError::UnsupportedOperation);
    assert!(matches!(
        all.qp.send_inline(&[0; 4096], 1),
        Err(PostError::InlineTooLong {
            requested: 4096,
            ..
        })
    ));
    assert_eq!((all.qp.sends_posted(), all.qp.receives_posted()), (0, 0));
}

#[test]
fn a_full_queue_gives_the_buffer_back() {
    let mut all = everything();
    let mut spare = all.pd.buffer_list(200, 8).unwrap();
    let mut posted = 0;
    let back = loop {
        match all.qp.recv(spare.pop().unwrap(), posted) {
            Ok(()) => posted += 1,
            Err(refused) => {
                assert_eq!(refused.error, PostError::QueueFull);
                break refused.buffer;
            }
        }
    };
    assert!(posted >= 16);
    assert_eq!(all.qp.receives_posted() as u64, posted);
    assert_eq!(back.len(), 8);
    all.qp.send_inline(b"x", 1000).unwrap();
    let done = [all.finish(), all.finish()];
    assert!(
        done.iter().any(|done| done.user_data() == 0),
        "the oldest one"
    );
    all.qp.recv(back, 77).unwrap();
}

#[test]
fn f25_reset_and_destroy_return_what_was_discarded() {
    let mut all = everything();
    let mut buffers = all.pd.buffer_list(8, 16).unwrap();
    for context in 0..5 {
        all.qp.recv(buffers.pop().unwrap(), context).unwrap();
    }
    let discarded = all.qp.reset().unwrap();
    assert_eq!(discarded.len(), 5);
    assert_eq!(all.qp.state(), QpState::Reset);
    assert_eq!((all.qp.sends_posted(), all.qp.receives_posted()), (0, 0));
    let refused = all.qp.send(buffers.pop().unwrap(), 1, 0).unwrap_err();
    assert_eq!(refused.error, PostError::WrongState);
    drop(discarded);

    let mut all = everything();
    let [one, two] = all.pd.buffers::<2>(16).unwrap();
    all.qp.recv(one, 1).unwrap();
    all.qp.recv(two, 2).unwrap();
    assert_eq!(all.qp.destroy().unwrap().len(), 2);
    assert_eq!(all.context.leaked(), 0);
}

#[test]
fn flushed_work_returns_its_buffers_with_no_bytes() {
    let mut all = everything();
    let [one] = all.pd.buffers::<1>(16).unwrap();
    all.qp.recv(one, 1).unwrap();
    assert_eq!(
        all.qp
            .modify(&QpAttr::to(QpState::Reset))
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput,
        "reset has a function of its own"
    );
    all.qp.modify(&QpAttr::to(QpState::Error)).unwrap();
    let done = all.finish();
    assert_eq!((done.status(), done.len()), (WcStatus::Flushed, 0));
    assert_eq!(done.into_buffer().unwrap().len(), 16);
}

#[test]
fn a_completion_finishes_work_of_its_own_queue_pair_alone() {
    let mut all = everything();
    let builder = all
        .pd
        .queue_pair(QpType::Rc, &all.cq, &all.cq)
        .timeout(AckTimeout::code(14).unwrap());
    let prepared = builder.build().unwrap();
    let own = prepared.endpoint();
    let mut other = owned::QueuePair::new(prepared.handshake(own).unwrap());
    let [one, two] = all.pd.buffers::<2>(16).unwrap();
    all.qp.recv(one, 1).unwrap();
    other.recv(two, 1).unwrap();
    all.qp.send_inline(b"mine", 2).unwrap();
    let mut finished = 0;
    while finished < 2 {
        let cq = &mut all.cq;
        let ended = until("a completion", || {
            cq.poll().unwrap().map(|done| match other.complete(done) {
                Ok(_) => None,
                Err(done) => all.qp.complete(done).ok(),
            })
        });
        assert!(ended.is_some());
        finished += 1;
    }
    assert_eq!(other.receives_posted(), 1);
}

#[test]
fn a_shared_receive_queue_owns_its_buffers() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(64).unwrap();
    // Where queues can be resized, it is.
    let resizes = driver() == Driver::Rxe;
    let size = if resizes { 8 } else { 20 };
    let mut srq = owned::SharedReceiveQueue::new(pd.create_srq(size, 1).unwrap());
    let connect = |srq: &owned::SharedReceiveQueue| {
        let builder = pd
            .queue_pair(QpType::Rc, &cq, &cq)
            .srq(srq.queue())
            .max_inline_data(32)
            .timeout(AckTimeout::code(14).unwrap());
        let prepared = builder.build().unwrap();
        let own = prepared.endpoint();
        owned::QueuePair::new(prepared.handshake(own).unwrap())
    };
    let mut qps = [connect(&srq), connect(&srq)];
    if resizes {
        srq.modify(&SrqModify::new().max_wr(20)).unwrap();
    }
    for (buffer, context) in pd.buffer_list(20, 32).unwrap().into_iter().zip(0..) {
        srq.recv(buffer, context).unwrap();
    }
    for round in 0..10_usize {
        let text = format!("message {round}");
        qps[round % 2].send_inline(text.as_bytes(), 100).unwrap();
        let mut got = None;
        let mut sent = false;
        while got.is_none() || !sent {
            until("a completion", || {
                let done = cq.poll().unwrap()?;
                match srq.complete(done) {
                    Ok(received) => got = Some(received),
                    Err(done) => sent = qps[round % 2].complete(done).is_ok(),
                }
                Some(())
            });
        }
        let got = got.unwrap();
        assert_eq!(got.user_data(), round as u64);
        assert_eq!(got.bytes(), Some(text.as_bytes()));
    }
    assert_eq!(srq.receives_posted(), 10);
    drop(qps);
    assert_eq!(srq.destroy().unwrap().len(), 10);
    assert_eq!(context.leaked(), 0);
}

#[test]
#[expect(clippy::mem_forget, reason = "what is tested")]
fn forgotten_handles_never_let_memory_of_others_be_written() {
    let mut all = everything();
    // A receive is posted; everything that could look after it is forgotten.
    let builder = all
        .pd
        .queue_pair(QpType::Rc, &all.cq, &all.cq)
        .max_inline_data(64)
        .timeout(AckTimeout::code(14).unwrap());
    let sender = builder.build().unwrap();
    let receiver = builder.build().unwrap();
    let (here, there) = (sender.endpoint(), receiver.endpoint());
    let mut sender = owned::QueuePair::new(sender.handshake(there).unwrap());
    let mut receiver = owned::QueuePair::new(receiver.handshake(here).unwrap());
    let [buffer] = all.pd.buffers::<1>(4096).unwrap();
    receiver.recv(buffer, 1).unwrap();
    std::mem::forget(receiver);
    let target = all.pd.expose(4096, AccessFlags::REMOTE_WRITE).unwrap();
    let remote = target.remote().start();
    std::mem::forget(target);
    // New memory everywhere, which must not change.
    let witnesses: Vec<Buffer> = (0..50)
        .flat_map(|_| all.pd.buffer_list(4, 4096).unwrap())
        .collect();
    let heap: Vec<Vec<u8>> = (0..200).map(|_| vec![0; 4096]).collect();
    sender.send_inline(&[0xff; 64], 1).unwrap();
    let [data] = all.pd.buffers::<1>(4096).unwrap();
    all.qp
        .post(Work::write(remote).memory((data, 4096)).user_data(2))
        .unwrap();
    let mut finished = 0;
    let since = std::time::Instant::now();
    // The send, the receive of the forgotten queue, and the write.
    while finished < 3 {
        assert!(since.elapsed() < DEADLINE);
        let Some(done) = all.cq.poll().unwrap() else {
            continue;
        };
        assert!(done.is_success(), "{done:?}");
        finished += 1;
        let ended = sender.complete(done);
        if let Err(done) = ended.or_else(|done| all.qp.complete(done)) {
            assert!(done.is_receive(), "nobody's: {done:?}");
        }
    }
    assert!(
        witnesses
            .iter()
            .all(|buffer| buffer.iter().all(|byte| *byte == 0))
    );
    assert!(heap.iter().all(|bytes| bytes.iter().all(|byte| *byte == 0)));
    std::mem::forget(sender);
    let Everything {
        context,
        cq,
        pd,
        qp,
    } = all;
    std::mem::forget(qp);
    std::mem::forget(cq);
    drop(pd);
    assert_eq!(context.leaked(), 0, "forgotten is not refused");
}
