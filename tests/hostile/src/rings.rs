//! Queues shared with a kernel, whose other side changes while the library works on them.

use std::collections::BTreeSet;

use fake_tests::Bench;
use uverbs::QpType;
use uverbs::attr::SrqModify;
use uverbs::owned::{self, SharedReceiveQueue};
use uverbs_fake::{RingOf, RingView};

use crate::tape::Tape;

/// Posts to a shared receive queue, sends to queue pairs that receive from it, resizes and arms it,
/// and overwrites words of its ring, as the bytes say.
///
/// # Panics
/// If a receive ends twice, or one ends that was never posted.
pub fn rxe_srq(bytes: &[u8]) {
    let tape = Tape::new(bytes);
    let bench = Bench::newest();
    let Ok(context) = bench.context() else { return };
    let Ok(pd) = context.alloc_pd() else { return };
    let Ok(mut cq) = context.create_cq(32) else {
        return;
    };
    let Ok(srq) = pd.create_srq(8, 1) else { return };
    let mut srq = SharedReceiveQueue::new(srq);
    let Ok(prepared) = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .srq(srq.queue())
        .gid_index(1)
        .build()
    else {
        return;
    };
    let endpoint = prepared.endpoint();
    let Ok(qp) = prepared.handshake(endpoint) else {
        return;
    };
    let mut qp = owned::QueuePair::new(qp);
    let mut posted = BTreeSet::new();
    let mut next = 0_u64;
    for _ in 0..256 {
        if tape.is_empty() {
            break;
        }
        match tape.byte() % 8 {
            0 | 1 => {
                let Ok([buffer]) = pd.buffers::<1>(16) else {
                    continue;
                };
                next += 1;
                if srq.recv(buffer, next).is_ok() {
                    posted.insert(next);
                }
            }
            2 => {
                if let Ok([buffer]) = pd.buffers::<1>(16) {
                    let _ = qp.send(buffer, tape.pick(17), 0);
                }
            }
            3 | 4 => {
                let Ok(Some(completion)) = cq.poll() else {
                    continue;
                };
                match srq.complete(completion) {
                    Ok(done) => {
                        assert!(posted.remove(&done.user_data()), "{done:?} ended twice");
                        assert!(done.len() <= 16, "{done:?}");
                    }
                    Err(completion) => drop(qp.complete(completion)),
                }
            }
            5 => {
                let change = SrqModify {
                    max_wr: tape.maybe(|tape| tape.byte().into()),
                    limit: tape.maybe(|tape| tape.byte().into()),
                };
                let _ = srq.modify(&change);
            }
            6 => bench.fake.freeze(tape.flag()),
            _ => overwrite(&bench, &tape),
        }
    }
    let left = srq.receives_posted();
    assert_eq!(left, posted.len(), "nothing was lost");
    drop(qp);
    bench.fake.freeze(false);
    if let Ok(memory) = srq.destroy() {
        assert_eq!(memory.len(), left, "every buffer comes back once");
    }
}

fn overwrite(bench: &Bench, tape: &Tape) {
    let which = match tape.byte() % 4 {
        0 => RingOf::Cq(1),
        _ => RingOf::Srq(1 + u32::from(tape.byte() % 2)),
    };
    let Some(ring) = bench.ring(which) else {
        return;
    };
    match tape.byte() % 5 {
        0 => ring.store(RingView::PRODUCER, tape.word()),
        1 => ring.store(RingView::CONSUMER, tape.word()),
        2 => ring.store(0, tape.word()),
        3 => ring.store(4, tape.word()),
        // Posted requests hold addresses that the device trusts.
        _ if matches!(which, RingOf::Cq(_)) => {
            let at = RingView::DATA + usize::from(tape.half()) % 4096;
            ring.write(at, &tape.take(48));
        }
        _ => {}
    }
}
