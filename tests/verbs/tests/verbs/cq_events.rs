//! Completion events: armed, solicited, shared by queues, none missed, none pending at the end.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uverbs::time::AckTimeout;
use uverbs::{
    CompletionChannel, CompletionQueue, Context, ErrorKind, Notify, ProtectionDomain, QpType,
    QueuePair, SendFlags, SendRequest,
};
use verbs_tests::{DEADLINE, next, open, raw};

const SHORT: Option<Duration> = Some(Duration::from_millis(50));
const LONG: Option<Duration> = Some(DEADLINE);

/// A queue pair connected to itself: sends complete in one queue, receives in the other, which has
/// events.
struct Loop {
    channel: CompletionChannel,
    send_cq: CompletionQueue,
    recv_cq: CompletionQueue,
    qp: QueuePair,
    _pd: ProtectionDomain,
    context: Context,
}

fn connect(
    pd: &ProtectionDomain,
    send_cq: &CompletionQueue,
    recv_cq: &CompletionQueue,
) -> QueuePair {
    // Where nothing is signaled, a ConnectX frees no place in the send queue.
    let builder = pd
        .queue_pair(QpType::Rc, send_cq, recv_cq)
        .max_send_wr(2048)
        .timeout(AckTimeout::code(14).unwrap());
    let prepared = builder.build().unwrap();
    let own = prepared.endpoint();
    prepared.handshake(own).unwrap()
}

fn looped() -> Loop {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let channel = context.create_completion_channel().unwrap();
    let send_cq = context.create_cq(64).unwrap();
    let recv_cq = context
        .completion_queue(64)
        .channel(&channel)
        .user_data(0xabcd)
        .build()
        .unwrap();
    Loop {
        qp: connect(&pd, &send_cq, &recv_cq),
        channel,
        send_cq,
        recv_cq,
        _pd: pd,
        context,
    }
}

impl Loop {
    /// Sends a message to itself and waits for its completion.
    fn message(&mut self, flags: SendFlags) {
        raw::recv(&mut self.qp, 1, &[]).unwrap();
        let request = SendRequest::send(&[]).with(flags).signaled();
        raw::send(&mut self.qp, &[request]).unwrap();
        assert!(next(&mut self.send_cq).is_success());
    }
}

#[test]
fn an_event_comes_once_for_each_time_it_was_armed() {
    let mut looped = looped();
    looped.message(SendFlags::empty());
    assert_eq!(looped.channel.event(SHORT).unwrap(), None, "nobody asked");
    next(&mut looped.recv_cq);

    for _ in 0..3 {
        looped.recv_cq.request_notification(Notify::Any).unwrap();
        looped.message(SendFlags::empty());
        looped.message(SendFlags::empty());
        let event = looped.channel.event(LONG).unwrap().unwrap();
        assert_eq!(event.queue(), looped.recv_cq.id());
        assert_eq!(event.user_data(), Some(0xabcd));
        assert_eq!(looped.channel.event(SHORT).unwrap(), None, "one for both");
        next(&mut looped.recv_cq);
        next(&mut looped.recv_cq);
    }
}

#[test]
fn solicited_only() {
    let mut looped = looped();
    looped
        .recv_cq
        .request_notification(Notify::SolicitedOnly)
        .unwrap();
    looped.message(SendFlags::empty());
    assert_eq!(looped.channel.event(SHORT).unwrap(), None, "not solicited");
    looped.message(SendFlags::SOLICITED);
    assert!(looped.channel.event(LONG).unwrap().is_some());
    // Arming for any completion includes solicited ones.
    looped
        .recv_cq
        .request_notification(Notify::SolicitedOnly)
        .unwrap();
    looped.recv_cq.request_notification(Notify::Any).unwrap();
    looped.message(SendFlags::empty());
    assert!(looped.channel.event(LONG).unwrap().is_some());
}

#[test]
fn one_channel_serves_many_queues() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let channel = context.create_completion_channel().unwrap();
    let send_cq = context.create_cq(64).unwrap();
    let mut all: Vec<_> = (0..5)
        .map(|number| {
            let cq = context
                .completion_queue(8)
                .channel(&channel)
                .user_data(number)
                .build()
                .unwrap();
            let qp = connect(&pd, &send_cq, &cq);
            (cq, qp)
        })
        .collect();
    for (cq, _) in &mut all {
        assert!(cq.channel().is_some_and(|of| of.is_same(&channel)));
        cq.request_notification(Notify::Any).unwrap();
    }
    for number in [3_u64, 0, 4] {
        let (cq, qp) = &mut all[number as usize];
        raw::recv(qp, 1, &[]).unwrap();
        raw::send(qp, &[SendRequest::send(&[])]).unwrap();
        let event = channel.event(LONG).unwrap().unwrap();
        assert_eq!((event.user_data(), event.queue()), (Some(number), cq.id()));
    }
    assert_eq!(channel.event(SHORT).unwrap(), None);
}

#[test]
fn f27_nothing_is_missed_by_arming_polling_and_waiting() {
    const TOTAL: u64 = 2000;
    let Loop {
        channel,
        send_cq: _send_cq,
        mut recv_cq,
        mut qp,
        ..
    } = looped();
    for wr_id in 0..8 {
        raw::recv(&mut qp, wr_id, &[]).unwrap();
    }
    // Credits keep the sender from overrunning the receives.
    let (credit, credits) = std::sync::mpsc::channel();
    let (post, posts) = std::sync::mpsc::channel();
    for _ in 0..8 {
        credit.send(()).unwrap();
    }
    let sender = std::thread::spawn(move || {
        for number in 0..TOTAL {
            credits.recv().unwrap();
            while posts.try_recv().is_ok() {
                raw::recv(&mut qp, 1, &[]).unwrap();
            }
            raw::send(&mut qp, &[SendRequest::send(&[])]).unwrap();
            // Sometimes late enough for the other side to sleep.
            if number % 7 == 0 {
                std::thread::sleep(Duration::from_micros(number % 300));
            }
        }
        qp
    });
    let (mut received, mut waits) = (0, 0);
    while received < TOTAL {
        recv_cq.request_notification(Notify::Any).unwrap();
        let before = received;
        while let Some(done) = recv_cq.poll().unwrap() {
            assert!(done.is_success(), "{done:?}");
            received += 1;
            let _ = post.send(());
            let _ = credit.send(());
        }
        if received == before {
            waits += 1;
            let event = channel.event(LONG).unwrap();
            assert!(
                event.is_some(),
                "an event was missed after {received} messages"
            );
        }
    }
    sender.join().unwrap().destroy().unwrap();
    assert!(waits > 0, "the loop never had to wait");
}

#[test]
fn f09_unread_events_block_nothing() {
    let Loop {
        channel,
        send_cq,
        mut recv_cq,
        mut qp,
        context,
        ..
    } = looped();
    let mut send_cq = send_cq;
    for _ in 0..3 {
        recv_cq.request_notification(Notify::Any).unwrap();
        raw::recv(&mut qp, 1, &[]).unwrap();
        raw::send(&mut qp, &[SendRequest::send(&[]).signaled()]).unwrap();
        next(&mut send_cq);
        next(&mut recv_cq);
    }
    let since = Instant::now();
    qp.destroy().unwrap();
    let counts = recv_cq.destroy().unwrap();
    assert!(since.elapsed() < DEADLINE);
    // The kernel discards unread events, and counts the others.
    assert_eq!((counts.completions, counts.asynchronous), (0, 0));
    assert_eq!(channel.event(SHORT).unwrap(), None);
    assert_eq!(context.leaked(), 0);
}

#[test]
fn events_that_were_taken_are_counted() {
    let mut looped = looped();
    looped.recv_cq.request_notification(Notify::Any).unwrap();
    looped.message(SendFlags::empty());
    assert!(looped.channel.event(LONG).unwrap().is_some());
    drop(looped.qp);
    assert_eq!(looped.recv_cq.destroy().unwrap().completions, 1);
    assert_eq!(looped.send_cq.destroy().unwrap().completions, 0);
}

#[test]
fn the_descriptor_becomes_readable_with_the_event() {
    let mut looped = looped();
    let readable = |channel: &CompletionChannel, milliseconds: i64| {
        let mut fds = [PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: milliseconds / 1000,
            tv_nsec: milliseconds % 1000 * 1_000_000,
        };
        poll(&mut fds, Some(&timeout)).unwrap() == 1
    };
    looped.recv_cq.request_notification(Notify::Any).unwrap();
    assert!(!readable(&looped.channel, 20));
    let error = looped.channel.try_event().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    looped.message(SendFlags::empty());
    assert!(readable(&looped.channel, 10_000));
    assert_eq!(
        looped.channel.try_event().unwrap().queue(),
        looped.recv_cq.id()
    );
    assert!(!readable(&looped.channel, 0));
}

#[test]
fn a_queue_without_a_channel_has_no_events() {
    let mut cq = open().create_cq(8).unwrap();
    let error = cq.request_notification(Notify::Any).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn a_waiting_thread_is_woken() {
    let mut looped = looped();
    looped.recv_cq.request_notification(Notify::Any).unwrap();
    let channel = looped.channel.clone();
    let waiter = std::thread::spawn(move || channel.event(LONG).unwrap());
    std::thread::sleep(Duration::from_millis(50));
    looped.message(SendFlags::empty());
    let event = waiter.join().unwrap().unwrap();
    assert_eq!(event.queue(), looped.recv_cq.id());
    assert_eq!(looped.context.leaked(), 0);
}
