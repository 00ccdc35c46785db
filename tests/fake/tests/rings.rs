//! What an observer of a device learns about its queues, and the output of `uverbs trace --rings`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use fake_tests::{Bench, Loopback, thinned};
use uverbs::owned::{self, Work};
use uverbs::recorder::Lines;
use uverbs::rings::{Collector, Entry, Observer, QueueKind, Value};
use uverbs::{AccessFlags, Context, OpenOptions, QpType};

/// The output, shared by several writers.
#[derive(Clone, Debug, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Text {
    fn lines(&self) -> Vec<String> {
        let text = self.0.lock().unwrap().clone();
        let text = String::from_utf8(text).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

fn open(options: OpenOptions) -> (Bench, Context) {
    let bench = Bench::newest();
    let fd = bench.fake.open().unwrap();
    let options = options.kernel(Arc::new(bench.fake.clone()));
    let context = options.over(bench.fake.device_info(), fd).unwrap();
    (bench, context)
}

fn watched() -> (Arc<Collector>, Bench, Context) {
    let collector = Arc::new(Collector::new());
    let observer = Arc::clone(&collector) as Arc<dyn Observer>;
    let (bench, context) = open(OpenOptions::new().watch_rings(observer));
    (collector, bench, context)
}

/// A message from a queue pair to itself.
fn say_hello(looped: &mut Loopback) {
    let [mut message, reply] = looped.buffers::<2>(64).unwrap();
    message[..5].copy_from_slice(b"hello");
    looped.qp.recv(reply, 10).unwrap();
    looped.qp.send(message, 5, 11).unwrap();
    assert_eq!(looped.finish(2).unwrap().len(), 2);
}

fn value(entry: &Entry, name: &str) -> Value {
    let mut fields = entry.fields.iter();
    let found = fields.find(|(known, _)| *known == name);
    found
        .unwrap_or_else(|| panic!("no {name}: {entry}"))
        .1
        .clone()
}

#[test]
fn requests_and_completions_are_reported_in_order() {
    let (collector, _bench, context) = watched();
    let mut looped = Loopback::new(&context).unwrap();
    // Around the rings.
    for _ in thinned(0..40, 8) {
        say_hello(&mut looped);
        let entries = collector.take();
        let kinds: Vec<_> = entries.iter().map(|one| (one.queue, one.kind)).collect();
        assert_eq!(
            kinds[..2],
            [(QueueKind::Receive, "RECEIVE"), (QueueKind::Send, "SEND")]
        );
        let mut done = kinds[2..].to_vec();
        done.sort_by_key(|(_, kind)| *kind);
        assert_eq!(
            done,
            [
                (QueueKind::Completion, "RECV"),
                (QueueKind::Completion, "SEND")
            ]
        );
        assert_eq!(value(&entries[1], "length"), Value::Number(5));
        let sent = value(&entries[1], "wr_id");
        let of_send = entries[2..].iter().find(|one| one.kind == "SEND").unwrap();
        assert_eq!(value(of_send, "wr_id"), sent);
        assert_eq!(value(of_send, "status"), Value::Name("SUCCESS"));
        let came = entries[2..].iter().find(|one| one.kind == "RECV").unwrap();
        assert_eq!(value(came, "byte_count"), Value::Number(5));
    }
    assert_eq!(context.unobserved(), 0);
}

#[test]
fn requests_of_a_shared_queue_and_inline_data_are_reported() {
    let (collector, _bench, context) = watched();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(8).unwrap();
    let mut srq = owned::SharedReceiveQueue::new(pd.create_srq(4, 1).unwrap());
    let all = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let target = pd.expose(64, all).unwrap();
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .srq(srq.queue())
        .access(all)
        .max_inline_data(32)
        .build()
        .unwrap();
    let endpoint = prepared.endpoint();
    let mut qp = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
    let [reply, source] = pd.buffers::<2>(64).unwrap();
    srq.recv(reply, 1).unwrap();
    let write = Work::write(target.remote()).memory((source, 16));
    qp.post(write).unwrap();
    qp.send_inline(b"bytes", 3).unwrap();
    let entries = collector.take();
    assert_eq!(entries[0].queue, QueueKind::SharedReceive);
    assert_eq!(value(&entries[0], "length"), Value::Number(64));
    assert_eq!(
        (entries[1].queue, entries[1].kind),
        (QueueKind::Send, "RDMA_WRITE")
    );
    assert_eq!(value(&entries[1], "length"), Value::Number(16));
    assert_eq!(
        value(&entries[2], "inline"),
        Value::Bytes(b"bytes".to_vec())
    );
    let Value::Key(key) = value(&entries[1], "rkey") else {
        panic!("no key: {}", entries[1]);
    };
    assert_eq!(key, u64::from(target.remote().key.raw()));
}

#[test]
fn lines_come_between_those_of_commands_and_without_keys() {
    let text = Text::default();
    let lines = Arc::new(Lines::new(text.clone()));
    let options = OpenOptions::new().record(lines.clone()).watch_rings(lines);
    let (_bench, context) = open(options);
    let mut looped = Loopback::new(&context).unwrap();
    say_hello(&mut looped);
    drop(looped);
    let lines = text.lines();
    let at = |start: &str| {
        lines
            .iter()
            .position(|line| line.starts_with(start))
            .unwrap_or_else(|| panic!("{start}: {lines:#?}"))
    };
    let (created, received, sent) = (at("ioctl QP/CREATE"), at("rq 0x"), at("sq 0x"));
    // The line for the doorbell is printed when it is done.
    let (rung, done) = (at("write POST_SEND"), at("cq 0x"));
    assert!(
        created < received && received < sent && sent < rung && rung < done,
        "{lines:#?}"
    );
    assert!(lines[sent].contains("] SEND wr_id=0x"), "{}", lines[sent]);
    assert!(
        lines[sent].contains(" length=5 lkey=… address=0x"),
        "{}",
        lines[sent]
    );
}

#[test]
fn json_lines_are_json() {
    let text = Text::default();
    let lines = Arc::new(Lines::new(text.clone()).with_json());
    let (_bench, context) = open(OpenOptions::new().watch_rings(lines));
    say_hello(&mut Loopback::new(&context).unwrap());
    let lines = text.lines();
    assert_eq!(lines.len(), 4);
    for line in lines {
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(
            value["kind"].is_string() && value["bytes"].is_null(),
            "{line}"
        );
    }
}

#[test]
fn an_observer_that_panics_misses_only_its_own_reports() {
    #[derive(Debug)]
    struct Panics;
    impl Observer for Panics {
        fn entry(&self, _: &Entry) {
            panic!("on purpose");
        }
    }
    let (_bench, context) = open(OpenOptions::new().watch_rings(Arc::new(Panics)));
    let mut looped = Loopback::new(&context).unwrap();
    for _ in 0..3 {
        say_hello(&mut looped);
    }
    assert_eq!(context.unobserved(), 12);
    drop(looped);
    assert_eq!(context.leaked(), 0);
}
