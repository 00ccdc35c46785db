//! What of a call is recorded, and where it goes.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use uverbs_uapi::rdma_user_cm::{RDMA_USER_CM_CMD_DESTROY_ID, RDMA_USER_CM_CMD_SET_OPTION};

use super::{attribute, command, record};
use crate::error::Errno;
use crate::sys::recorder::*;
use crate::sys::{Attr, Call, CmCommand, Command, Reply, Uhw, WriteCommand};

fn body_of(call: &Call<'_>, answer: &Result<Reply, Errno>) -> String {
    record(capture::body(call, answer), None).to_string()
}

const OK: Result<Reply, Errno> = Ok(Reply::Done);

#[test]
fn a_legacy_command_is_shown_alike_by_both_encodings() {
    let request = [0_u8; 8];
    let native = 7_u32.to_ne_bytes().map(Cell::new);
    let driver = [const { Cell::new(9) }; 4];
    let write = WriteCommand {
        command: 3,
        extended: false,
        request: &request,
        reply: &native,
        uhw: Uhw::new(&[1; 2], &driver),
    };
    let attrs = [
        Attr::constant(2, 3_u64),
        Attr::input(0, &request),
        Attr::output(1, &native),
    ];
    let invoke = Command {
        object: 0,
        method: 0,
        driver_id: 14,
        attrs: &attrs,
        uhw: write.uhw,
    };
    let by_write = body_of(&Call::Write(&write), &OK);
    let by_invoke = body_of(&Call::Ioctl(&invoke), &OK);
    assert!(by_write.starts_with("write ALLOC_PD"), "{by_write}");
    assert_eq!(by_write.replacen("write", "invoke", 1), by_invoke);
    for field in ["pd_handle→7", "uhw_in=[2]", "uhw_out→[4]"] {
        assert!(by_write.contains(field), "{by_write}");
    }
    // Without an answer there are no outputs.
    for call in [Call::Write(&write), Call::Ioctl(&invoke)] {
        let refused = body_of(&call, &Err(Errno::INVAL));
        assert!(!refused.contains('→'), "{refused}");
        assert!(refused.contains("uhw_in=[2]"), "{refused}");
    }
}

#[test]
fn bytes_of_a_command_without_a_struct_are_shown_as_they_are() {
    let reply = [const { Cell::new(0xee) }; 4];
    let unknown = WriteCommand {
        command: 0x7f,
        extended: false,
        request: &[0xab; 4],
        reply: &reply,
        uhw: Uhw::NONE,
    };
    let line = body_of(&Call::Write(&unknown), &OK);
    assert!(line.starts_with("write 0x7f core_in="), "{line}");
    let refused = body_of(&Call::Write(&unknown), &Err(Errno::INVAL));
    assert!(!refused.contains("core_out"), "{refused}");
    let empty = WriteCommand {
        request: &[],
        reply: &[],
        ..unknown
    };
    assert_eq!(body_of(&Call::Write(&empty), &OK), "write 0x7f = ok (7 µs)");
}

#[test]
fn an_option_of_the_connection_manager_is_its_value_and_no_address() {
    let set = CmCommand {
        command: RDMA_USER_CM_CMD_SET_OPTION,
        request: &[0; 24],
        reply: &[],
        value: &[5],
    };
    let line = body_of(&Call::Cm(&set), &OK);
    assert!(line.starts_with("cm SET_OPTION "), "{line}");
    assert_eq!(line.matches("optval=5").count(), 1, "{line}");
    let destroy = CmCommand {
        command: RDMA_USER_CM_CMD_DESTROY_ID,
        request: &[0; 16],
        value: &[],
        ..set
    };
    let line = body_of(&Call::Cm(&destroy), &OK);
    assert!(!line.contains("optval"), "{line}");
}

#[test]
fn attributes_of_a_method_are_those_that_were_sent() {
    let out = [const { Cell::new(0) }; 4];
    let fd = Cell::new(None);
    let written = Attr::output(5, &out);
    if let crate::sys::Value::Out(_, flag) = &written.value {
        flag.set(true);
    }
    let attrs = [
        Attr::new(1, crate::sys::Value::Absent),
        Attr::constant(2, 6_u32),
        Attr::output(4, &out),
        written,
        Attr::new_fd(6, &fd),
        Attr::new(7, crate::sys::Value::Objects(&[1, 2, 3])),
        Attr::new(8, crate::sys::Value::Enum(3, &[0; 5])),
    ];
    let command = Command {
        object: 0xfff,
        method: 1,
        driver_id: 14,
        attrs: &attrs,
        uhw: Uhw::NONE,
    };
    let Body::Method { attributes, .. } = capture::body(&Call::Ioctl(&command), &OK) else {
        panic!("a method")
    };
    let found: Vec<_> = attributes
        .iter()
        .map(|found| (found.name.raw(), found.len, found.value.clone()))
        .collect();
    let expected = [
        (2, 8, Value::Number(6)),
        (4, 4, Value::Unwritten),
        (5, 4, Value::Number(0)),
        (6, 0, Value::Fd(None)),
        (7, 12, Value::Handles(vec![1, 2, 3])),
        (8, 5, Value::Choice(3)),
    ];
    assert_eq!(found, expected);
    let refused = capture::body(&Call::Ioctl(&command), &Err(Errno::INVAL));
    let Body::Method { attributes, .. } = refused else {
        panic!("a method")
    };
    assert_eq!(attributes[2].value, Value::Unwritten);
}

#[test]
fn a_struct_in_an_attribute_is_shown_by_its_fields() {
    let name = "UVERBS_ATTR_QUERY_PORT_RESP";
    let bytes = [0; 48];
    let fields = attribute_fields(name, &bytes, Direction::Out).expect("a struct");
    assert!(fields.len() > 10, "{fields:?}");
    assert!(fields.iter().all(|field| field.direction == Direction::Out));
    let number = "UVERBS_ATTR_CREATE_CQ_CQE";
    assert_eq!(attribute_fields(number, &bytes[..4], Direction::In), None);
}

/// Panics at its second record.
#[derive(Debug, Default)]
struct Fragile(AtomicU64);

impl Sink for Fragile {
    fn record(&self, record: &Record) {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert_ne!(record.number, 1, "on purpose");
    }
}

#[test]
fn a_sink_that_panicked_is_not_called_again_and_what_it_misses_is_counted() {
    let sink = Arc::new(Fragile::default());
    let recorder = Recorder::new(crate::sys::Linux, Arc::clone(&sink) as Arc<dyn Sink>);
    let null = std::fs::File::open("/dev/null").expect("a device");
    let fd = std::os::fd::AsFd::as_fd(&null);
    let buffer = [const { Cell::new(0) }; 8];
    for (calls, missed) in [(1, 0), (2, 1), (2, 2), (2, 3)] {
        let call = Call::Read(&buffer);
        recorder.notify_sink(fd, &call, &OK, Duration::ZERO);
        assert_eq!(sink.0.load(Ordering::Relaxed), calls);
        assert_eq!(recorder.unrecorded(), missed);
    }
}

#[test]
fn records_are_collected_and_written() {
    let collector = Collector::new();
    let one = record(
        command(vec![attribute("rkey", Direction::Out, Value::Number(7))]),
        None,
    );
    collector.record(&one);
    assert_eq!(collector.take(), std::slice::from_ref(&one));
    assert!(collector.take().is_empty());
    let written = |lines: Lines<Vec<u8>>| {
        lines.record(&one);
        String::from_utf8(lines.into_inner()).expect("text")
    };
    assert_eq!(written(Lines::new(vec![])), format!("{one}\n"));
    let keys = written(Lines::new(vec![]).with_keys());
    assert_eq!(keys, format!("{}\n", one.with_keys()));
    let json = written(Lines::new(vec![]).with_json());
    assert_eq!(json, format!("{}\n", one.to_json(false)));
    let both = written(Lines::new(vec![]).with_json().with_keys());
    assert_eq!(both, format!("{}\n", one.to_json(true)));
    let text = format!("{:?}", Lines::new(vec![0_u8]).with_keys());
    assert_eq!(text, "Lines { keys: true, json: false, .. }");
}

#[test]
fn the_class_of_a_descriptor_is_told_by_the_call() {
    let buffer = [const { Cell::new(0) }; 17];
    for (len, class) in [
        (16, FdClass::AsyncEvents),
        (8, FdClass::CompletionEvents),
        (17, FdClass::OtherEvents),
        (0, FdClass::OtherEvents),
    ] {
        assert_eq!(capture::class(&Call::Read(&buffer[..len])), class);
    }
    let command = CmCommand {
        command: 1,
        request: &[],
        reply: &[],
        value: &[],
    };
    assert_eq!(
        capture::class(&Call::Cm(&command)),
        FdClass::ConnectionManager
    );
    let read = capture::body(&Call::Read(&buffer[..8]), &Ok(Reply::Read(3)));
    let expected = Body::Read {
        room: 8,
        bytes: vec![0; 3],
    };
    assert_eq!(read, expected);
    let refused = capture::body(&Call::Read(&buffer[..8]), &Err(Errno::AGAIN));
    assert_eq!(
        refused,
        Body::Read {
            room: 8,
            bytes: vec![]
        }
    );
}
