//! `FakeKernel::refuse` is safe: whatever is refused, memory that the device may write stays.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use fake_tests::Bench;
use uverbs::error::{Errno, Op};
use uverbs::{ErrorKind, QpType, owned};

#[test]
fn errnos_that_say_the_device_is_gone_are_no_refusals() {
    let bench = Bench::newest();
    for operation in [Op::QueryPort, Op::DestroyQueuePair, Op::DeregisterMemory] {
        for errno in [Errno::IO, Errno::NOLINK] {
            let error = bench.fake.refuse(operation, errno).unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::InvalidInput,
                "{operation:?} {errno}"
            );
        }
    }
    // Nothing was set.
    let context = bench.context().unwrap();
    context.query_port(1).unwrap();
}

/// With each destroy refused in turn, and all of them at once: the posted receive is still written
/// by the device after the handles are gone, so its memory must not have been freed.
#[test]
fn memory_of_objects_whose_destroy_is_refused_is_leaked() {
    const DESTROYS: [Op; 3] = [
        Op::DestroyQueuePair,
        Op::DeregisterMemory,
        Op::DestroyCompletionQueue,
    ];
    for errno in [Errno::BUSY, Errno::INVAL, Errno::NODEV, Errno::TIMEDOUT] {
        for refused in [&DESTROYS[..], &DESTROYS[..1], &DESTROYS[1..2]] {
            let bench = Bench::newest();
            let context = bench.context().unwrap();
            let pd = context.alloc_pd().unwrap();
            let cq = context.create_cq(4).unwrap();
            let prepared = pd.queue_pair(QpType::Rc, &cq, &cq).build().unwrap();
            let endpoint = prepared.endpoint();
            let mut qp = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
            let [buffer] = pd.buffers(64).unwrap();
            qp.recv(buffer, 1).unwrap();
            for operation in refused {
                bench.fake.refuse(*operation, errno).unwrap();
            }
            drop((qp, cq, pd));
            let written = bench.fake.scribble(0x5a);
            if refused.contains(&Op::DestroyQueuePair) {
                assert_eq!(written, 64, "{errno}");
            }
            assert_ne!(context.leaked(), 0, "{errno} {refused:?}");
        }
    }
}
