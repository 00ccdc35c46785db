//! Records as lines, as JSON and as outlines.
#![allow(clippy::panic, reason = "a test that panics has failed")]

mod calls;

use std::time::Duration;

use super::*;
use crate::sys::Protection;

const ALLOC_PD: &str = "IB_USER_VERBS_CMD_ALLOC_PD";

fn attribute(name: &'static str, direction: Direction, value: Value) -> Attribute {
    Attribute {
        name: Name::new(Some(name), 9),
        direction,
        len: 4,
        mandatory: true,
        value,
    }
}

fn record(body: Body, errno: Option<Errno>) -> Record {
    Record {
        number: 5,
        fd: FdClass::Device,
        fd_number: 3,
        duration: Duration::from_nanos(7_300),
        body,
        errno: errno.map(Errno::raw_os_error),
    }
}

fn command(attributes: Vec<Attribute>) -> Body {
    Body::Command {
        command: Name::new(Some(ALLOC_PD), 3),
        path: CommandPath::Invoke,
        attributes,
    }
}

fn method(attributes: Vec<Attribute>) -> Body {
    Body::Method {
        object: Name::new(Some("UVERBS_OBJECT_PD"), 1),
        method: Name::new(Some("UVERBS_METHOD_PD_DESTROY"), 0),
        driver_id: 14,
        attributes,
    }
}

/// One attribute with every kind of value, and how it is printed and put into JSON.
fn values() -> Vec<(Attribute, &'static str, &'static str)> {
    use Direction::{In, Out};
    let fields = vec![attribute("inner", In, Value::Number(6))];
    vec![
        (attribute("count", In, Value::Number(7)), "count=7", "7"),
        (
            attribute("large", In, Value::Number(1 << 20)),
            "large=0x100000",
            "1048576",
        ),
        (
            attribute("below", In, Value::Number((1 << 20) - 1)),
            "below=1048575",
            "1048575",
        ),
        (attribute("flags", In, Value::Number(7)), "flags=0x7", "7"),
        (attribute("a_mask", In, Value::Number(8)), "a_mask=0x8", "8"),
        (attribute("lkey", Out, Value::Number(7)), "lkey→…", "null"),
        (attribute("rkey", Out, Value::Number(7)), "rkey→…", "null"),
        (attribute("handle", Out, Value::Handle(4)), "handle→4", "4"),
        (
            attribute("list", In, Value::Handles(vec![1, 2])),
            "list=[1, 2]",
            "[1, 2]",
        ),
        (attribute("file", In, Value::Fd(Some(8))), "file=fd 8", "8"),
        (
            attribute("none", Out, Value::Fd(None)),
            "none→no fd",
            "null",
        ),
        (attribute("one", In, Value::Choice(2)), "one=choice 2", "2"),
        (
            attribute("bytes", In, Value::Bytes(vec![0xa, 0xbc])),
            "bytes=0abc",
            "\"0abc\"",
        ),
        (attribute("long", In, Value::Long), "long=[4]", "null"),
        (attribute("left", Out, Value::Unwritten), "left→-", "null"),
        (
            attribute("UHW_IN", In, Value::Bytes(vec![1; 4])),
            "UHW_IN=[4]",
            "\"01010101\"",
        ),
        (
            attribute("UHW_OUT", Out, Value::Bytes(vec![1; 4])),
            "UHW_OUT→[4]",
            "\"01010101\"",
        ),
        (
            attribute("struct", In, Value::Fields(fields)),
            "struct={ inner=6 }",
            r#"[{"name":"inner","direction":"in","len":4,"mandatory":true,"value":6}]"#,
        ),
    ]
}

#[test]
fn every_kind_of_value_is_printed() {
    for (attribute, printed, json) in values() {
        let record = record(command(vec![attribute]), None);
        let expected = format!("invoke ALLOC_PD {printed} = ok (7 µs)");
        assert_eq!(record.to_string(), expected);
        let text = record.to_json(false);
        assert!(text.contains(&format!("\"value\":{json}}}]")), "{text}");
    }
    let optional = Attribute {
        mandatory: false,
        ..attribute("count", Direction::In, Value::Number(7))
    };
    let record = record(command(vec![optional]), None);
    assert!(record.to_string().contains(" count?=7 "), "{record}");
    let json = record.to_json(false);
    assert!(
        json.contains(r#""direction":"in","len":4,"mandatory":false"#),
        "{json}"
    );
}

#[test]
fn keys_are_printed_on_request_alone() {
    for name in ["lkey", "rkey", "UVERBS_ATTR_LKEY", "RKEY", "access_key"] {
        let key = attribute(name, Direction::Out, Value::Number(0x1234));
        assert!(key.is_key(), "{name}");
        let record = record(command(vec![key]), None);
        assert!(!record.to_string().contains("4660"), "{record}");
        let shown = record.with_keys().to_string();
        assert!(shown.contains("→4660 "), "{shown}");
        assert!(record.to_json(false).contains("\"value\":null"));
        assert!(record.to_json(true).contains("\"value\":4660"));
    }
    for name in ["keys", "rkey_count", "handle"] {
        let other = attribute(name, Direction::Out, Value::Number(1));
        assert!(!other.is_key(), "{name}");
    }
}

#[test]
fn zeros_are_left_out_where_there_are_many_fields() {
    let zero = |value| attribute("zero", Direction::In, value);
    let one = attribute("one", Direction::In, Value::Number(1));
    let zeros = [
        zero(Value::Number(0)),
        zero(Value::Bytes(vec![0; 3])),
        zero(Value::Number(0)),
    ];
    let text = |fields: Vec<Attribute>| record(command(fields), None).to_string();
    let few = text([&zeros[..], std::slice::from_ref(&one)].concat());
    assert_eq!(few.matches("zero").count(), 3, "{few}");
    let many = text([&zeros[..], &[one.clone(), one.clone()]].concat());
    assert_eq!(many, "invoke ALLOC_PD one=1 one=1 = ok (7 µs)");
    let handle = zero(Value::Handle(0));
    let bytes = zero(Value::Bytes(vec![0, 1]));
    let kept = text(vec![handle, bytes, one.clone(), one.clone(), one.clone()]);
    assert_eq!(kept.matches("zero").count(), 2, "not zeros: {kept}");
    for (count, cut) in [(20, false), (21, true)] {
        let line = text(vec![one.clone(); count]);
        assert_eq!(line.matches("one=1").count(), 20);
        assert_eq!(line.contains(" …"), cut, "{line}");
    }
}

#[test]
fn other_calls_and_their_results_are_printed() {
    let read = |fd, bytes: &[u8]| {
        let body = Body::Read {
            room: 16,
            bytes: bytes.to_vec(),
        };
        Record {
            fd,
            ..record(body, None)
        }
    };
    let event: Vec<u8> = [0x42_u64.to_ne_bytes(), [0; 8]].concat();
    let map = |protection| {
        record(
            Body::Map {
                offset: 4096,
                len: 8192,
                protection,
            },
            Some(Errno::NOMEM),
        )
    };
    for (record, line, json) in [
        (
            read(FdClass::AsyncEvents, &event),
            "read event element=0x42 event_type=0 = ok (7 µs)",
            r#""fd_class":"async_events","fd":3,"nanoseconds":7300,"call":"read","room":16"#,
        ),
        (
            read(FdClass::CompletionEvents, &event[..8]),
            "read completion cq_handle=0x42 = ok (7 µs)",
            r#""fd_class":"completion_events""#,
        ),
        (
            read(FdClass::CompletionEvents, &event),
            "read[16] 16 bytes = ok (7 µs)",
            r#""bytes":"4"#,
        ),
        (
            read(FdClass::OtherEvents, &[1, 2]),
            "read[16] 2 bytes = ok (7 µs)",
            r#""fd_class":"other_events""#,
        ),
        (
            map(Protection::Read),
            "mmap offset=4096 len=8192 r = ENOMEM (7 µs)",
            r#""call":"mmap","offset":4096,"len":8192,"protection":"read","error":"ENOMEM"}"#,
        ),
        (
            map(Protection::Write),
            "mmap offset=4096 len=8192 w = ENOMEM (7 µs)",
            r#""protection":"write""#,
        ),
        (
            map(Protection::ReadWrite),
            "mmap offset=4096 len=8192 rw = ENOMEM (7 µs)",
            r#""protection":"readwrite""#,
        ),
        (
            record(method(vec![]), Some(Errno::BUSY)),
            "ioctl PD/DESTROY = EBUSY (7 µs)",
            r#""object":"UVERBS_OBJECT_PD","method":"UVERBS_METHOD_PD_DESTROY","driver_id":14,"attributes":[]"#,
        ),
    ] {
        assert_eq!(record.to_string(), line);
        let found = record.to_json(false);
        let big_endian = cfg!(target_endian = "big") && json.contains("bytes");
        assert!(big_endian || found.contains(json), "{found}");
        assert!(found.starts_with(r#"{"number":5,"fd_class":""#), "{found}");
    }
}

#[test]
fn an_outline_names_what_a_command_carried() {
    use Direction::{In, Out};
    let attributes = || {
        vec![
            attribute("A", In, Value::Unwritten),
            attribute("B", Out, Value::Unwritten),
            attribute("C", Out, Value::Fd(None)),
            attribute("D", Out, Value::Number(0)),
            attribute("UVERBS_ATTR_UHW_IN", In, Value::Number(0)),
        ]
    };
    let names = "UVERBS_OBJECT_PD UVERBS_METHOD_PD_DESTROY A";
    for (errno, expected) in [
        (None, format!("ioctl ok {names} D")),
        (Some(Errno::BUSY), format!("ioctl error {names} B C D")),
        (
            Some(Errno::NOTTY),
            format!("ioctl unsupported {names} B C D"),
        ),
        (
            Some(Errno::NOSYS),
            format!("ioctl unsupported {names} B C D"),
        ),
    ] {
        let outline = record(method(attributes()), errno).outline();
        assert_eq!(outline, Some(expected));
    }
    for (path, way) in [
        (CommandPath::Invoke, "invoke"),
        (CommandPath::Write, "write"),
        (CommandPath::ConnectionManager, "write"),
    ] {
        let body = |name| Body::Command {
            command: Name::new(name, 3),
            path,
            attributes: vec![],
        };
        let outline = record(body(Some(ALLOC_PD)), None).outline();
        assert_eq!(outline, Some(format!("{way} ok {ALLOC_PD}")));
        assert_eq!(record(body(None), None).outline(), None);
    }
    let read = Body::Read {
        room: 8,
        bytes: vec![],
    };
    assert_eq!(record(read, None).outline(), None);
}

#[test]
fn a_name_is_a_number_too() {
    let known = Name::new(Some(ALLOC_PD), 0x3);
    assert_eq!((known.full(), known.raw()), (Some(ALLOC_PD), 3));
    let unknown = Name::new(None, 0x77);
    assert_eq!((unknown.full(), unknown.raw()), (None, 0x77));
    let extended = command_name(0x8000_0032);
    assert_eq!(extended.full(), Some("IB_USER_VERBS_EX_CMD_CREATE_FLOW"));
    assert_eq!(extended.raw(), 0x8000_0032);
    assert_eq!(extended.to_string(), "EX_CREATE_FLOW");
    let body = Body::Command {
        command: unknown,
        path: CommandPath::Write,
        attributes: vec![],
    };
    let record = record(body, None);
    assert!(
        record
            .to_json(false)
            .contains(r#""call":"write","command":"0x77""#)
    );
    assert_eq!(record.to_string(), "write 0x77 = ok (7 µs)");
}

#[test]
fn characters_that_json_would_escape_are_left_out() {
    let mut object = json::Object::new();
    object.string("a", "b\"c\\d\n é");
    object.number("n", 5);
    object.raw("r", "null");
    assert_eq!(object.finish(), r#"{"a":"bcd é","n":5,"r":null}"#);
    assert_eq!(json::Object::new().finish(), "{}");
    assert_eq!(json::hex(&[0, 0xff, 0x1a]), "00ff1a");
}
