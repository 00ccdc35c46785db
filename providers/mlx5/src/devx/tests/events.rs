//! Events by subscription.

use std::fs::File;
use std::io::{ErrorKind as IoErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::*;

/// An entry about an event of this type, with each of its other bytes set to their offset.
fn entry(kind: u8) -> [u8; 64] {
    let mut bytes = std::array::from_fn(|at| u8::try_from(at).unwrap());
    bytes[1] = kind;
    bytes
}

fn read(kernel: &Scripted, events: &EventChannel, kind: u8) -> Eqe {
    let mut bytes = 6_u64.to_ne_bytes().to_vec();
    bytes.extend(entry(kind));
    kernel.answer_read(Ok(&bytes));
    let event = events.next().unwrap();
    assert_eq!(event.user_data, 6);
    event.entry.unwrap()
}

#[test]
fn a_channel_is_asked_for_with_or_without_data() {
    let (kernel, file) = Scripted::new();
    let devx = Devx::new(&file);
    for (omits, flag) in [(false, 0), (true, 1)] {
        devx.event_channel(omits).unwrap();
        let asked = format!("+5/+0 +0:new fd +1:const={flag:#x}");
        assert_eq!(kernel.take_calls(), [asked]);
    }
}

#[test]
fn the_number_of_an_object_is_where_its_type_has_it() {
    let (kernel, file) = Scripted::new();
    let events = Devx::new(&file).event_channel(false).unwrap();
    for (kind, number) in [
        (0x00, 0x39_3a3b),
        (0x04, 0x21_2223),
        (0x13, 0x39_3a3b),
        (0x18, 0x35_3637),
        (0xff, 0x39_3a3b),
    ] {
        let found = read(&kernel, &events, kind);
        assert_eq!(found.object_number(), number, "{kind:#x}");
        assert_eq!(found.kind(), EventType::from_raw(kind.into()));
        assert_eq!((found.sub_kind(), found.queue_type()), (3, 0x34));
        assert_eq!(found.as_bytes(), &entry(kind));
        assert_eq!(found.data(), &entry(kind)[0x20..0x3c]);
        let text = format!("Eqe({:?}, object {number:#x})", found.kind());
        assert_eq!(format!("{found:?}"), text);
    }
}

#[test]
fn every_type_with_a_name_has_the_devices_number() {
    for (raw, kind) in [
        (0x00, EventType::Completion),
        (0x04, EventType::CompletionQueueError),
        (0x0b, EventType::PageRequest),
        (0x14, EventType::ReceiveLimit),
        (0x1c, EventType::TargetDrained),
        (0x27, EventType::ObjectChange),
    ] {
        assert_eq!((EventType::from_raw(raw), kind.raw()), (kind, raw));
    }
    let named = (0..=0xff_u16).map(EventType::from_raw);
    let named = named.filter(|kind| !matches!(kind, EventType::Unknown(_)));
    assert_eq!(named.count(), 36);
}

#[test]
fn without_data_an_event_is_its_number() {
    let (kernel, file) = Scripted::new();
    let events = Devx::new(&file).event_channel(true).unwrap();
    kernel.answer_read(Ok(&0x77_u64.to_ne_bytes()));
    let event = Event {
        user_data: 0x77,
        entry: None,
    };
    assert_eq!(events.next().unwrap(), event);
    kernel.answer_read(Ok(&[0; 4]));
    let error = events.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
}

#[test]
fn lost_events_are_an_error_that_says_so() {
    let (kernel, file) = Scripted::new();
    for omits in [false, true] {
        let events = Devx::new(&file).event_channel(omits).unwrap();
        kernel.answer_read(Err(Errno::OVERFLOW));
        let error = events.next().unwrap_err();
        assert_eq!(error.errno(), Some(Errno::OVERFLOW));
        assert_eq!(error.op(), Op::DevxEvent);
        assert!(error.known_hint().unwrap().contains("events were lost"));
        let error = events.next().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        assert!(!error.to_string().contains("lost"), "{error}");
    }
}

#[test]
fn a_subscription_names_its_object_types_and_number() {
    let (kernel, file) = Scripted::new();
    let devx = Devx::new(&file);
    let command = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, 16);
    let object = devx.create_harmless(&command, 16, []).unwrap();
    let events = devx.event_channel(false).unwrap();
    let signal = File::open("/dev/null").unwrap();
    let kinds = [EventType::PortChange, EventType::ReceiveLimit];
    let types = native([9_u16, 0x14].as_bytes());
    kernel.take_calls();
    events.subscribe(Some(&object), &kinds, 0x55).unwrap();
    events.subscribe(None, &kinds[..1], 0x56).unwrap();
    let fd = signal.as_fd();
    events.subscribe_eventfd(Some(&object), &kinds, fd).unwrap();
    let number = |bytes: &[u8]| native(bytes);
    assert_eq!(
        kernel.take_calls(),
        [
            format!(
                "+0/+3 +0:fd +1:obj=1 +2:in={types} +4:in={}",
                number(&0x55_u64.to_ne_bytes())
            ),
            format!(
                "+0/+3 +0:fd +2:in={} +4:in={}",
                &types[..4],
                number(&0x56_u64.to_ne_bytes())
            ),
            format!(
                "+0/+3 +0:fd +1:obj=1 +2:in={types} +3:in={}",
                number(&fd.as_raw_fd().to_ne_bytes())
            ),
        ]
    );
    let error = events.subscribe(None, &[], 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(kernel.take_calls(), [""; 0], "no types");
    kernel.refuse("", Errno::INVAL);
    let error = events.subscribe(None, &kinds, 1).unwrap_err();
    let named = "kinds [PortChange, ReceiveLimit]";
    assert!(error.to_string().contains(named), "{error}");
}

#[test]
fn a_channel_of_events_waits_on_its_descriptor() {
    let (kernel, file) = Scripted::new();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut same = ours.try_clone().unwrap();
    let raw = ours.as_raw_fd();
    kernel.hand_out(ours);
    let events = Devx::new(&file).event_channel(false).unwrap();
    assert_eq!(events.as_fd().as_raw_fd(), raw);
    assert!(!events.wait(Some(Duration::ZERO)).unwrap());
    theirs.write_all(&[1]).unwrap();
    assert!(events.wait(Some(Duration::ZERO)).unwrap());
    same.read_exact(&mut [0]).unwrap();
    events.set_nonblocking().unwrap();
    let error = same.read_exact(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), IoErrorKind::WouldBlock);
}
