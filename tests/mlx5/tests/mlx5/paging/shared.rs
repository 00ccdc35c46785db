//! Receives of shared queues into absent memory.

use std::thread;
use std::time::{Duration, Instant};

use mlx5_tests::Model;
use uverbs::completion::WcOpcode;
use uverbs::time::{AckTimeout, RnrRetry};
use uverbs::{
    CompletionQueue, Context, ProtectionDomain, QpType, QueuePair, SendRequest, Sge,
    SharedReceiveQueue, WcStatus, WorkCompletion,
};
use verbs_tests::{next, nothing, open, own_address, raw};

use super::{ALL, PAGE, Pages, faults, pattern, sge};

/// A queue pair that sends to itself, into a shared queue; and the objects it uses.
struct Own {
    context: Context,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    srq: SharedReceiveQueue,
    qp: QueuePair,
}

const QKEY: u32 = 0x0100_0001;

impl Own {
    fn new(kind: QpType, max_wr: u32) -> Self {
        let context = open();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(64).unwrap();
        let srq = pd.create_srq(max_wr, 2).unwrap();
        // Unlimited retries: a receive that is on its way back is not there.
        let mut builder = pd
            .queue_pair(kind, &cq, &cq)
            .srq(&srq)
            .max_send_wr(8)
            .max_send_sge(2)
            .timeout(AckTimeout::code(14).unwrap())
            .rnr_retry(RnrRetry::new(7).unwrap());
        if kind == QpType::Ud {
            builder = builder.qkey(QKEY);
        }
        let prepared = builder.build().unwrap();
        let qp = if kind == QpType::Ud {
            prepared.activate().unwrap()
        } else {
            let own = prepared.endpoint();
            prepared.handshake(own).unwrap()
        };
        Self {
            context,
            pd,
            cq,
            srq,
            qp,
        }
    }

    fn send(&mut self, sges: &[Sge]) {
        let mut request = SendRequest::send(sges);
        let address = own_address(&self.context, &self.qp);
        let address = self.pd.create_ah(&address).unwrap();
        if self.qp.kind() == QpType::Ud {
            request = request.to(address.to(self.qp.qp_num(), QKEY));
        }
        raw::send(&mut self.qp, &[request]).unwrap();
    }

    /// The next receive. A datagram that found the queue empty, while its receive was on the way
    /// back, is sent again.
    fn received(&mut self, sges: &[Sge]) -> WorkCompletion {
        loop {
            let since = Instant::now();
            while self.qp.kind() != QpType::Ud || since.elapsed() < Duration::from_millis(500) {
                if let Some(done) = self.cq.poll().unwrap() {
                    return *done;
                }
                assert!(since.elapsed() < Duration::from_secs(20), "no message");
            }
            self.send(sges);
        }
    }
}

/// The device uses such receives up; the driver posts them again, and the user does not notice.
#[test]
fn ib_faulted_receives_of_a_shared_queue_are_reposted() {
    let mut model = Model::open();
    for kind in [QpType::Rc, QpType::Ud] {
        // Also with room for only one request.
        for max_wr in [1, 3] {
            let mut own = Own::new(kind, max_wr);
            let pages = Pages::new(20);
            let region = pages.register(&own.pd, ALL);
            let text = pattern(4, 1000);
            pages.put(19 * PAGE, &text);
            let before = faults(&mut model);
            let place = |wr_id: u64| 5 * PAGE * usize::try_from(wr_id).unwrap();
            for wr_id in 0..max_wr.into() {
                // The second entry begins in a page of its own.
                let page = place(wr_id);
                let scatter = [sge(&region, page, 100), sge(&region, page + 2 * PAGE, 2000)];
                raw::recv_shared(&mut own.srq, wr_id, &scatter).unwrap();
            }
            let sges = [sge(&region, 19 * PAGE, text.len())];
            let mut seen = Vec::new();
            for _ in 0..max_wr {
                own.send(&sges);
                let got = own.received(&sges);
                assert_eq!(got.status, WcStatus::Success, "{kind:?}");
                let header = if kind == QpType::Ud { 40 } else { 0 };
                assert_eq!(got.byte_len, 1000 + header);
                let header = usize::try_from(header).unwrap();
                let page = place(got.wr_id);
                let mut bytes = pages.get(page + header, 100 - header);
                bytes.extend(pages.get(page + 2 * PAGE, 900 + header));
                assert_eq!(bytes, text, "{kind:?}");
                seen.push(got.wr_id);
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..max_wr.into()).collect::<Vec<u64>>(), "{kind:?}");
            assert!(
                faults(&mut model) > before,
                "{kind:?}: nothing was asked for"
            );
            if kind == QpType::Rc {
                nothing(&mut own.cq);
            }
        }
    }
}

#[test]
fn ib_faulted_receives_are_reposted_while_others_are_posted() {
    const MESSAGES: usize = 60;
    let mut own = Own::new(QpType::Rc, 3);
    let pages = Pages::new(MESSAGES + 1);
    let region = pages.register(&own.pd, ALL);
    pages.put(MESSAGES * PAGE, &pattern(1, 700));
    let sges = [sge(&region, MESSAGES * PAGE, 700)];
    let Own { cq, srq, qp, .. } = &mut own;
    let mut seen: Vec<usize> = thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..MESSAGES {
                let scatter = [sge(&region, number * PAGE, 700)];
                let since = Instant::now();
                while raw::recv_shared(srq, number as u64, &scatter).is_err() {
                    assert!(since.elapsed() < Duration::from_secs(20), "no room");
                    thread::yield_now();
                }
            }
        });
        let received = (0..MESSAGES).map(|_| {
            raw::send(qp, &[SendRequest::send(&sges).signaled()]).unwrap();
            let mut done = [next(cq), next(cq)];
            done.sort_by_key(|done| done.opcode == WcOpcode::Recv);
            let [sent, got] = done;
            assert_eq!(sent.status, WcStatus::Success);
            assert_eq!((got.status, got.byte_len), (WcStatus::Success, 700));
            assert_eq!(got.opcode, WcOpcode::Recv);
            usize::try_from(got.wr_id).unwrap()
        });
        received.collect()
    });
    for number in &seen {
        assert_eq!(pages.get(number * PAGE, 700), pattern(1, 700));
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..MESSAGES).collect::<Vec<_>>());
    nothing(&mut own.cq);
}
