//! A wire that loses, duplicates, corrupts, delays and reorders packets: reliable connections are
//! reliable.

use std::fs::File;
use std::thread;
use std::time::Duration;

use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry};
use uverbs::{Operation, Payload, QpType, SendRequest, WcStatus};
use verbs_tests::impair::{Impaired, Impairment};
use verbs_tests::{Pair, Registered, next, open_named, raw};

/// Number of messages sent over each kind of wire, and their length: several packets.
const MESSAGES: u64 = 60;
const LENGTH: u32 = 5000;

/// Runs `part` while both ends of the wire impair what they send.
fn over<T>(how: Impairment, part: impl FnOnce() -> T) -> T {
    let ends: Vec<_> = [("a", "v0"), ("b", "v1")]
        .map(|(host, interface)| {
            let (ready, wait) = std::sync::mpsc::channel();
            let (over, until_over) = std::sync::mpsc::channel::<()>();
            // Threads can be in different network namespaces.
            let thread = thread::spawn(move || {
                let namespace =
                    File::open(format!("/run/netns/{host}")).expect("the host is there");
                setns(namespace, CloneFlags::CLONE_NEWNET).expect("its network can be entered");
                let index = if_nametoindex(interface).expect("the interface is there");
                let impaired = Impaired::new(index, &how);
                ready.send(()).expect("the test waits");
                let _ = until_over.recv();
                drop(impaired);
            });
            wait.recv().expect("the wire is impaired");
            (over, thread)
        })
        .into();
    let value = part();
    for (over, thread) in ends {
        drop(over);
        thread.join().expect("the wire is as before");
    }
    value
}

fn pair() -> Pair {
    let (a, b) = (open_named("rxe_a"), open_named("rxe_b"));
    Pair::between(&a, &b, QpType::Rc, |mut builder| {
        // 33 ms until a packet is retransmitted, 7 times without any progress.
        builder = builder
            .timeout(AckTimeout::code(13).unwrap())
            .retry_count(RetryCount::new(7).unwrap());
        builder = builder.rnr_retry(RnrRetry::new(7).unwrap());
        builder
    })
}

/// Every message arrives once, complete and in order; then every atomic addition is made once.
fn messages_and_counts(pair: &mut Pair) {
    let from = Registered::local(&pair.a.pd, LENGTH as usize);
    let to = Registered::remote_all(&pair.b.pd, LENGTH as usize);
    for number in 0..MESSAGES {
        let byte = |at: usize| (at as u64 * 7 + number) as u8;
        from.fill(byte);
        raw::recv(&mut pair.b.qp, number, &[to.sge(0, LENGTH)]).unwrap();
        let sges = [from.sge(0, LENGTH)];
        let request = SendRequest::send(&sges).wr_id(number).signaled();
        raw::send(&mut pair.a.qp, &[request]).unwrap();
        let sent = next(&mut pair.a.cq);
        assert_eq!((sent.wr_id, sent.status), (number, WcStatus::Success));
        let got = next(&mut pair.b.cq);
        assert_eq!(
            (got.wr_id, got.status, got.byte_len),
            (number, WcStatus::Success, LENGTH)
        );
        let bytes = to.all();
        assert!(
            bytes.iter().enumerate().all(|(at, got)| *got == byte(at)),
            "message {number} is another"
        );
    }
    let remote = to.remote(8 - to.mr().address() % 8);
    let at = (remote.address - to.mr().address()) as usize;
    let start = to.word(at);
    let back = Registered::local(&pair.a.pd, 8);
    for number in 0..MESSAGES {
        let sges = [back.sge(0, 8)];
        let add = Operation::FetchAdd { remote, add: 1 };
        let request = SendRequest::new(add, Payload::Gather(&sges)).signaled();
        raw::send(&mut pair.a.qp, &[request]).unwrap();
        assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
        assert_eq!(back.word(0), start.wrapping_add(number), "added once");
    }
    assert_eq!(to.word(at), start.wrapping_add(MESSAGES));
}

fn holds_over(how: Impairment) {
    let mut pair = pair();
    // Addresses of the other side are resolved while the wire is good.
    messages_and_counts(&mut pair);
    let since = std::time::Instant::now();
    over(how, || messages_and_counts(&mut pair));
    println!("FIGURE: {how:?}: {:?}", since.elapsed());
    messages_and_counts(&mut pair);
}

#[test]
fn f28_a_wire_that_loses_packets() {
    holds_over(Impairment {
        lost: 5,
        ..Impairment::default()
    });
}

#[test]
fn f28_a_wire_that_doubles_packets() {
    holds_over(Impairment {
        duplicated: 30,
        ..Impairment::default()
    });
}

#[test]
fn f28_a_wire_that_spoils_packets() {
    holds_over(Impairment {
        corrupted: 5,
        ..Impairment::default()
    });
}

#[test]
fn f28_a_wire_that_reorders_packets() {
    holds_over(Impairment {
        overtaking: 10,
        delay_us: 3000,
        ..Impairment::default()
    });
}

/// Nothing arrives any more: the sender learns that after its retries, and what was behind is
/// flushed.
#[test]
fn f28_a_wire_that_is_cut() {
    verbs_tests::requests_fail();
    let (a, b) = (open_named("rxe_a"), open_named("rxe_b"));
    let mut pair = Pair::between(&a, &b, QpType::Rc, |builder| {
        builder
            .timeout(AckTimeout::code(10).unwrap())
            .retry_count(RetryCount::new(2).unwrap())
    });
    for number in 0..4 {
        raw::recv(&mut pair.b.qp, number, &[]).unwrap();
    }
    raw::send(&mut pair.a.qp, &[SendRequest::send(&[]).signaled()]).unwrap();
    assert!(next(&mut pair.a.cq).is_success());
    let cut = Impairment {
        lost: 100,
        ..Impairment::default()
    };
    over(cut, || {
        for number in 10..13 {
            let request = SendRequest::send(&[]).wr_id(number).signaled();
            raw::send(&mut pair.a.qp, &[request]).unwrap();
        }
        let ends = verbs_tests::drain(&mut pair.a.cq, 3).into_iter();
        let ends: Vec<_> = ends.map(|end| (end.wr_id, end.status)).collect();
        assert_eq!(
            ends,
            [
                (10, WcStatus::RetryExceeded),
                (11, WcStatus::Flushed),
                (12, WcStatus::Flushed)
            ]
        );
    });
    assert!(next(&mut pair.b.cq).is_success());
    thread::sleep(Duration::from_millis(50));
    // The receiver waits, as it must: it cannot know.
    verbs_tests::nothing(&mut pair.b.cq);
}
