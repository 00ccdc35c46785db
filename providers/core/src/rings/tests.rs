#![allow(clippy::panic, reason = "an observer panics on purpose")]
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::sys::recorder::Lines;

fn fields() -> Fields {
    let mut fields = Fields::of(Some("RDMA_WRITE"));
    fields.number("units", 3_u32);
    fields.flags("flags", 0x88, &[(8, "signaled"), (2, "solicited")]);
    fields.hex("remote_address", 0x7f00_0000_1000_u64);
    fields.key("rkey", 0x1234_u32);
    fields.name("request", None, 0x3f_u32);
    fields.bytes("inline", &[0xab; 33]);
    fields.rest(&[1, 2]);
    fields.rest(&[]);
    fields
}

fn watched(observer: Arc<dyn Observer>) -> (Arc<Watch>, Watched) {
    let watch = Arc::new(Watch::new(observer));
    let queue = watch.queue(QueueKind::Send, 0x118);
    (watch, queue)
}

fn written(lines: Lines<Vec<u8>>) -> String {
    let lines = Arc::new(lines);
    let (watch, queue) = watched(Arc::clone(&lines) as Arc<dyn Observer>);
    queue.report(3, vec![0xff], |_| fields());
    let other = watch.queue(QueueKind::Completion, 7);
    other.report(0, vec![0, 1], |_| Fields::of(None));
    assert_eq!(watch.unobserved(), 0);
    drop((watch, queue, other));
    String::from_utf8(Arc::into_inner(lines).unwrap().into_inner()).unwrap()
}

#[test]
fn a_line_has_names_and_no_keys() {
    let ab = "ab".repeat(32);
    assert_eq!(
        written(Lines::new(Vec::new())),
        format!(
            "sq 0x118[3] RDMA_WRITE units=3 flags=signaled other_flags=0x80 remote_address=0x7f0000001000 rkey=… \
             request=0x3f inline={ab}…[33] rest=[2]\ncq 0x7[0] unknown\n"
        )
    );
}

#[test]
fn keys_are_shown_on_request() {
    let text = written(Lines::new(Vec::new()).with_keys());
    assert!(text.contains(" rkey=0x1234 "), "{text}");
    assert!(text.contains(" rest=0102\n"), "{text}");
}

#[test]
fn json_has_the_same_and_the_bytes_with_the_keys_alone() {
    let text = written(Lines::new(Vec::new()).with_json());
    assert!(
        text.starts_with(
            r#"{"queue":"sq","number":280,"index":3,"kind":"RDMA_WRITE","fields":[{"name":"units","value":3},{"name":"flags","value":["signaled"]},{"name":"other_flags","value":128},{"name":"remote_address","value":139637976731648},{"name":"rkey","value":null},"#
        ),
        "{text}"
    );
    assert!(
        text.contains(r#"{"name":"rest","value":null}],"bytes":null}"#),
        "{text}"
    );
    let text = written(Lines::new(Vec::new()).with_json().with_keys());
    assert!(text.contains(r#"{"name":"rkey","value":4660}"#), "{text}");
    assert!(
        text.contains(r#"{"name":"rest","value":"0102"}],"bytes":"ff"}"#),
        "{text}"
    );
}

#[test]
fn an_observer_that_panics_is_not_called_again() {
    #[derive(Debug, Default)]
    struct Panics(AtomicU32);
    impl Observer for Panics {
        fn entry(&self, _: &Entry) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("on purpose");
        }
    }
    let panics = Arc::new(Panics::default());
    let (watch, queue) = watched(Arc::clone(&panics) as Arc<dyn Observer>);
    for _ in 0..3 {
        queue.report(0, Vec::new(), |_| fields());
    }
    assert_eq!(panics.0.load(Ordering::Relaxed), 1);
    assert_eq!(watch.unobserved(), 3);
}

#[test]
fn a_collector_has_what_was_reported() {
    let collector = Arc::new(Collector::new());
    let (_, queue) = watched(Arc::clone(&collector) as Arc<dyn Observer>);
    queue.report(5, vec![9], |bytes| {
        let mut fields = Fields::of(None);
        fields.rest(bytes);
        fields
    });
    let expected = Entry {
        queue: QueueKind::Send,
        number: 0x118,
        index: 5,
        kind: Entry::UNKNOWN,
        fields: vec![("rest", Value::Raw(vec![9]))],
        bytes: vec![9],
    };
    assert_eq!(collector.take(), [expected]);
    assert_eq!(collector.take(), []);
}

#[test]
fn a_kind_without_a_name_is_unknown() {
    assert!(Fields::of(None).is_unknown());
    assert!(!Fields::of(Some("SEND")).is_unknown());
    let mut fields = Fields::of(None);
    fields.hex_if_any("none", 0_u32);
    fields.hex_if_any("some", 1_u32);
    fields.name("known", Some("text"), 5_u32);
    assert_eq!(
        fields.list,
        [("some", Value::Hex(1)), ("known", Value::Name("text"))]
    );
}

#[test]
fn numbers_are_hexadecimal_from_a_mebibyte_on_and_no_flags_are_none() {
    let entry = |value| Entry {
        queue: QueueKind::SharedReceive,
        number: 0,
        index: 0,
        kind: "x",
        fields: vec![("v", value)],
        bytes: vec![],
    };
    for (value, text) in [
        (Value::Number((1 << 20) - 1), "1048575"),
        (Value::Number(1 << 20), "0x100000"),
        (Value::Hex(5), "0x5"),
        (Value::Flags(vec![]), "none"),
        (Value::Flags(vec!["a", "b"]), "a|b"),
        (Value::Name("n"), "n"),
        (Value::Bytes(vec![0xab; 2]), "abab"),
        (Value::Bytes(vec![]), ""),
    ] {
        assert_eq!(entry(value).to_string(), format!("srq 0x0[0] x v={text}"));
    }
    let longest = entry(Value::Bytes(vec![1; 32])).to_string();
    assert!(longest.ends_with(&"01".repeat(32)), "{longest}");
    assert_eq!(QueueKind::Receive.to_string(), "rq");
}
