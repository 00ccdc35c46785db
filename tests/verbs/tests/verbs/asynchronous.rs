//! Waiting with tokio: wakeups, cancellation, and no lost events.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use uverbs::asynchronous::{AsyncCompletionChannel, AsyncEvents};
use uverbs::event::AsyncEventType;
use uverbs::time::AckTimeout;
use uverbs::{
    CompletionQueue, ErrorKind, Notify, ProtectionDomain, QpType, QueuePair, SendRequest,
    WorkCompletion,
};
use verbs_tests::{DEADLINE, link, open, raw};

fn run<F: Future>(test: impl FnOnce() -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { timeout(DEADLINE * 2, test()).await.expect("in time") })
}

struct Loop {
    channel: AsyncCompletionChannel,
    cq: CompletionQueue,
    qp: QueuePair,
    _pd: ProtectionDomain,
}

/// A queue pair connected to itself, with events for its receives and sends. Requires a runtime.
fn looped() -> Loop {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let channel = context.create_completion_channel().unwrap();
    let cq = context
        .completion_queue(1024)
        .channel(&channel)
        .build()
        .unwrap();
    // Nothing is signaled, so a ConnectX frees no place in the send queue.
    let builder = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .max_send_wr(2048)
        .max_recv_wr(512)
        .timeout(AckTimeout::code(14).unwrap());
    let prepared = builder.build().unwrap();
    let own = prepared.endpoint();
    Loop {
        channel: AsyncCompletionChannel::new(channel).unwrap(),
        qp: prepared.handshake(own).unwrap(),
        cq,
        _pd: pd,
    }
}

fn message(qp: &mut QueuePair, wr_id: u64) {
    raw::recv(qp, wr_id, &[]).unwrap();
    raw::send(qp, &[SendRequest::send(&[])]).unwrap();
}

#[test]
fn without_a_runtime_is_an_error_and_no_panic() {
    let context = open();
    let channel = context.create_completion_channel().unwrap();
    let error = AsyncCompletionChannel::new(channel).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert_eq!(
        AsyncEvents::new(&context).unwrap_err().kind(),
        ErrorKind::InvalidState
    );
}

#[test]
fn completions_are_awaited() {
    run(|| async {
        let mut looped = looped();
        let mut out = [WorkCompletion::default(); 4];
        for wr_id in 0..200 {
            message(&mut looped.qp, wr_id);
            let count = looped
                .channel
                .completions(&mut looped.cq, &mut out)
                .await
                .unwrap();
            assert_eq!(count, 1);
            assert_eq!((out[0].wr_id, out[0].is_success()), (wr_id, true));
        }
    });
}

#[test]
fn a_task_that_sleeps_is_woken() {
    run(|| async {
        let Loop {
            channel,
            mut cq,
            mut qp,
            ..
        } = looped();
        let sender = async {
            for wr_id in 0..20 {
                sleep(Duration::from_millis(5)).await;
                message(&mut qp, wr_id);
            }
        };
        let receiver = async {
            let mut out = [WorkCompletion::default(); 16];
            let mut expected = 0;
            while expected < 20 {
                let count = channel.completions(&mut cq, &mut out).await.unwrap();
                for done in &out[..count] {
                    assert_eq!(done.wr_id, expected);
                    expected += 1;
                }
            }
        };
        tokio::join!(sender, receiver);
    });
}

#[test]
fn a_wait_that_is_cancelled_loses_nothing() {
    run(|| async {
        let Loop {
            channel,
            mut cq,
            mut qp,
            ..
        } = looped();
        let sender = async {
            for wr_id in 0..300 {
                if wr_id % 3 == 0 {
                    sleep(Duration::from_micros(wr_id * 7 % 900)).await;
                }
                message(&mut qp, wr_id);
                tokio::task::yield_now().await;
            }
        };
        let receiver = async {
            let mut out = [WorkCompletion::default(); 8];
            let (mut expected, mut cancelled) = (0, 0);
            while expected < 300 {
                // Often too short for anything to happen, and often just long enough.
                let patience = Duration::from_micros(expected * 13 % 500);
                tokio::select! {
                    biased;
                    () = sleep(patience) => cancelled += 1,
                    count = channel.completions(&mut cq, &mut out) => {
                        for done in &out[..count.unwrap()] {
                            assert_eq!(done.wr_id, expected);
                            expected += 1;
                        }
                    }
                }
            }
            assert!(cancelled > 0, "nothing was ever cancelled");
        };
        tokio::join!(sender, receiver);
    });
}

#[test]
fn an_event_without_a_waiter_is_there_later() {
    run(|| async {
        let mut looped = looped();
        looped.cq.request_notification(Notify::Any).unwrap();
        let waiting = timeout(Duration::from_millis(20), looped.channel.event()).await;
        assert!(waiting.is_err(), "nothing has happened yet");
        message(&mut looped.qp, 1);
        let event = looped.channel.event().await.unwrap();
        assert_eq!(event.queue(), looped.cq.id());
        let waiting = timeout(Duration::from_millis(20), looped.channel.event()).await;
        assert!(waiting.is_err(), "it was one event");
    });
}

#[test]
fn a_queue_of_another_channel_is_refused() {
    run(|| async {
        let looped = looped();
        let context = open();
        let mut other = context.create_cq(8).unwrap();
        let mut out = [WorkCompletion::default(); 1];
        let error = looped
            .channel
            .completions(&mut other, &mut out)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn roce_asynchronous_events_are_awaited_and_cancelled() {
    run(|| async {
        let context = open();
        let events = AsyncEvents::new(&context).unwrap();
        let waiting = timeout(Duration::from_millis(20), events.event()).await;
        assert!(waiting.is_err(), "nothing has happened yet");
        let path = format!(
            "/sys/class/infiniband/{}/ports/1/gid_attrs/ndevs/0",
            context.name()
        );
        let name = std::fs::read_to_string(path).unwrap();
        let address = Ipv4Addr::new(10, 79, 0, 1);
        link::set_address(name.trim(), address, true);
        let event = events.event().await.unwrap();
        assert_eq!(event.event, AsyncEventType::GidChange);
        link::set_address(name.trim(), address, false);
        let event = events.event().await.unwrap();
        assert_eq!(event.event, AsyncEventType::GidChange);
    });
}
