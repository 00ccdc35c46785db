//! What the recorder writes about a whole life.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::Write;
use std::sync::{Arc, Mutex};

use fake_tests::{Bench, live, ways};
use uverbs::OpenOptions;
use uverbs::recorder::{Body, Collector, Direction, FdClass, Lines, Record, Sink, Value};
use uverbs_core::CommandPath;
use uverbs_core::error::Errno;
use uverbs_fake::{Effect, Profile, When};
use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_ALLOC_PD;

fn life(path: CommandPath) -> Vec<Record> {
    let records = Arc::new(Collector::new());
    let bench = Bench::new(Profile::v7_2(), path).recorded_by(records.clone());
    live(&bench).unwrap();
    records.take()
}

/// A line without its duration, which differs from run to run.
fn untimed(record: &Record) -> String {
    let line = record.to_string();
    let (head, tail) = line.rsplit_once(" (").unwrap();
    assert!(tail.ends_with(" µs)"), "{line}");
    head.to_owned()
}

#[test]
#[ignore = "prints a life for people to read: --ignored --nocapture"]
fn show() {
    for path in ways() {
        println!("{path:?}");
        for record in life(path) {
            println!("{record}");
        }
    }
}

#[test]
fn every_call_is_a_line_with_names_in_it() {
    for path in ways() {
        for (number, record) in life(path).iter().enumerate() {
            assert_eq!(record.number, number as u64);
            let line = untimed(record);
            assert!(line.ends_with(" = ok"), "{line}");
            let names = match &record.body {
                Body::Method {
                    object,
                    method,
                    attributes,
                    ..
                } => [object, method]
                    .into_iter()
                    .chain(attributes.iter().map(|attribute| &attribute.name))
                    .collect(),
                Body::Command {
                    command,
                    attributes,
                    ..
                } => std::iter::once(command)
                    .chain(attributes.iter().map(|attribute| &attribute.name))
                    .collect(),
                _ => Vec::new(),
            };
            assert!(names.iter().all(|name| name.full().is_some()), "{line}");
        }
    }
}

#[test]
fn lines_read_as_documented() {
    let user_data = |line: String| match line.split_once("read completion cq_handle=0x") {
        Some((before, number)) => {
            let rest = number.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
            format!("{before}read completion cq_handle=…{rest}")
        }
        None => line,
    };
    let life_lines = life(CommandPath::Auto);
    let lines: Vec<String> = life_lines.iter().map(untimed).map(user_data).collect();
    for wanted in [
        "ioctl DEVICE/GET_CONTEXT num_comp_vectors→2 core_support?→3 = ok",
        "invoke ALLOC_PD pd_handle→0 = ok",
        "mmap offset=4096 len=4096 rw = ok",
        "write REQ_NOTIFY_CQ cq_handle=1 solicited_only=0 = ok",
        // The number is unique to the queue in this process, so it is different each time.
        "read completion cq_handle=… = ok",
        "invoke RESIZE_CQ cq_handle=1 cqe=40 cqe→63 uhw_out→[16] = ok",
        "ioctl CQ/DESTROY handle=1 resp→{ comp_events_reported→1 async_events_reported→0 } = ok",
        "ioctl PD/DESTROY handle=0 = ok",
    ] {
        assert!(
            lines.iter().any(|line| line == wanted),
            "{wanted}\n{lines:#?}"
        );
    }
    let written: Vec<String> = life(CommandPath::Write).iter().map(untimed).collect();
    assert!(
        written
            .iter()
            .any(|line| line == "write DEALLOC_PD pd_handle=0 = ok"),
        "{written:#?}"
    );
}

#[test]
fn keys_are_printed_on_demand_only() {
    for path in ways() {
        let records = life(path);
        let (record, key) = records
            .iter()
            .find_map(|record| {
                let (Body::Method { attributes, .. } | Body::Command { attributes, .. }) =
                    &record.body
                else {
                    return None;
                };
                let rkey = attributes.iter().find(|attribute| {
                    attribute.is_key() && attribute.direction == Direction::Out
                })?;
                match rkey.value {
                    Value::Number(key) => Some((record, key)),
                    _ => None,
                }
            })
            .expect("a registration");
        let shown = format!("→{key} ");
        assert!(record.to_string().contains("lkey→… rkey→…"), "{record}");
        assert!(!record.to_string().contains(&shown), "{record}");
        assert!(record.with_keys().to_string().contains(&shown));
        assert!(!record.to_json(false).contains(&format!(":{key}}}")));
        assert!(record.to_json(true).contains(&format!(":{key}}}")));
    }
}

#[test]
fn a_failure_is_named() {
    let records = Arc::new(Collector::new());
    let bench = Bench::newest().recorded_by(records.clone());
    bench.inject(
        When::Command(IB_USER_VERBS_CMD_ALLOC_PD),
        Effect::Fail(Errno::NOMEM),
    );
    live(&bench).unwrap_err();
    let records = records.take();
    let failed = records
        .iter()
        .find(|record| record.errno.is_some())
        .unwrap();
    assert_eq!(untimed(failed), "invoke ALLOC_PD = ENOMEM");
    assert_eq!(failed.fd, FdClass::Device);
}

/// A writer whose contents others can read.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_of_json_are_json() {
    let out = Shared::default();
    let bench = Bench::newest();
    let context = OpenOptions::new()
        .kernel(Arc::new(bench.fake.clone()))
        .record(Arc::new(Lines::new(out.clone()).with_json()))
        .over(bench.fake.device_info(), bench.fake.open().unwrap())
        .unwrap();
    context.query_port(1).unwrap();
    drop(context.create_cq(4).unwrap());
    drop(context);
    let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
    let mut methods = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let json: serde_json::Value = serde_json::from_str(line).expect(line);
        assert_eq!(json["number"], number);
        assert!(json["error"].is_null());
        methods.extend(json["method"].as_str().map(str::to_owned));
    }
    assert!(
        methods.contains(&"UVERBS_METHOD_CQ_CREATE".to_owned()),
        "{text}"
    );
    assert_eq!(text.lines().count() as u64, bench.fake.calls());
}

#[test]
fn an_outline_has_names_and_the_kind_of_answer() {
    let outlines = |path| -> Vec<_> {
        let records = life(path);
        let lines = records.iter().filter_map(Record::outline);
        lines.collect()
    };
    let auto = outlines(CommandPath::Auto);
    for wanted in [
        "ioctl ok UVERBS_OBJECT_PD UVERBS_METHOD_PD_DESTROY UVERBS_ATTR_DESTROY_PD_HANDLE",
        "invoke ok IB_USER_VERBS_CMD_ALLOC_PD",
        "write ok IB_USER_VERBS_CMD_REQ_NOTIFY_CQ",
    ] {
        assert!(
            auto.iter().any(|line| line == wanted),
            "{wanted}\n{auto:#?}"
        );
    }
    // One of its queries was never a legacy command.
    let written = outlines(CommandPath::Write);
    assert!(
        written.iter().all(|line| {
            line.starts_with("write ok IB_USER_VERBS_")
                || line.starts_with("ioctl ok UVERBS_OBJECT_DEVICE UVERBS_METHOD_QUERY_GID_ENTRY ")
        }),
        "{written:#?}"
    );

    let mut refused = life(CommandPath::Write)
        .into_iter()
        .find(|record| {
            record
                .outline()
                .is_some_and(|line| line.contains("ALLOC_PD"))
        })
        .unwrap();
    for (errno, answer) in [(Errno::NOTTY, "unsupported"), (Errno::NOMEM, "error")] {
        refused.errno = Some(errno.raw_os_error());
        let wanted = format!("write {answer} IB_USER_VERBS_CMD_ALLOC_PD");
        assert_eq!(refused.outline(), Some(wanted));
    }
}

#[test]
fn lines_have_the_requested_format() {
    let records = life(CommandPath::Auto);
    let written = |lines: Lines<Vec<u8>>| {
        for record in &records {
            lines.record(record);
        }
        assert!(!format!("{lines:?}").contains("writer"));
        String::from_utf8(lines.into_inner()).unwrap()
    };
    let plain = written(Lines::new(Vec::new()));
    let with_keys = written(Lines::new(Vec::new()).with_keys());
    assert_eq!(plain.lines().count(), records.len());
    assert!(plain.contains("rkey→…") && !with_keys.contains("rkey→…"));
    let json = written(Lines::new(Vec::new()).with_json());
    assert_eq!(json.lines().count(), records.len());
    for line in json.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value.is_object(), "{line}");
    }
}
