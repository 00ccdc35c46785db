//! What a file does beyond issuing a command: mappings, events, what it knows of the device.

use std::cell::Cell;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;

use super::{Bench, Script};
use crate::cmd::{comp_channel, mr, pd, qp};
use crate::error::{Errno, Error, ErrorKind, Op};
use crate::file::CommandPath;
use crate::object::Object;
use crate::sys::{Attr, ForkToken, Kernel as _, Protection, Uhw, Value};

/// The query of a port, which confirms a removal.
const QUERY: &str = "ioctl 0/2 ";

#[test]
fn a_file_says_what_it_was_opened_with() {
    for path in [CommandPath::Auto, CommandPath::Ioctl, CommandPath::Write] {
        let bench = Bench::on_path(Script::new(), path);
        assert_eq!(bench.file.path(), path);
        assert_eq!(bench.file.driver_id(), RDMA_DRIVER_RXE);
        assert_eq!(bench.file.fork_token(), ForkToken::current());
        assert_eq!((bench.file.leaked(), bench.file.is_removed()), (0, false));
        assert!(bench.file.check_process(Op::OpenDevice).is_ok());
    }
}

#[test]
fn a_fatal_event_is_the_last_one_if_the_device_was_removed() {
    let removed = || Script::new().refusing(QUERY, Errno::IO);
    for (fatal, script, last) in [
        (false, Script::new(), false),
        (false, removed(), false),
        (true, Script::new(), false),
        (true, removed(), true),
    ] {
        let bench = Bench::new(script);
        if fatal {
            bench.file.set_fatal();
        }
        assert_eq!(bench.file.has_no_more_events(), last);
        let queries = usize::from(fatal);
        assert_eq!(
            bench.lines().len(),
            queries,
            "only a fatal event is a cause to ask"
        );
    }
    // A removal that was seen otherwise is not an event.
    let bench = Bench::new(Script::new());
    bench.file.set_removed();
    assert!(!bench.file.has_no_more_events());
    bench.file.set_fatal();
    assert!(bench.file.has_no_more_events());
    assert!(bench.lines().is_empty());
}

#[test]
fn a_mapping_has_at_least_the_announced_size() {
    let page = rustix::param::page_size();
    let map = |script: Script, len| Bench::new(script).file.map(0, len, Protection::ReadWrite);
    for (mapped, len) in [(page, page), (page, 8), (2 * page, page)] {
        let mapping = map(Script::new().mapping(mapped), len).unwrap();
        assert_eq!(mapping.len(), mapped);
    }
    let short = map(Script::new().mapping(page), page + 1).unwrap_err();
    assert_eq!(
        (short.op(), short.kind()),
        (Op::MapDeviceMemory, ErrorKind::BadReply)
    );
    let none = map(Script::new().mapping(page), 0).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::BadReply);
    let refused = map(Script::new(), page).unwrap_err();
    assert_eq!(refused.errno(), Some(Errno::NOSYS));
}

#[test]
fn two_mappings_are_made_in_the_order_they_were_asked_for() {
    let page = rustix::param::page_size();
    let bench = Bench::new(Script::new().mapping(2 * page));
    let both = |first, second| bench.file.map_both(first, second, Protection::ReadWrite);
    let (first, second) = both((0, page), (4096, 2 * page)).unwrap();
    assert_eq!((first.len(), second.len()), (2 * page, 2 * page));
    assert_ne!(first.address(), second.address());
    for (first, second) in [
        ((0, 0), (0, page)),
        ((0, page), (0, 0)),
        ((0, page), (0, 3 * page)),
    ] {
        let error = both(first, second).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadReply, "{first:?} {second:?}");
    }
}

#[test]
fn an_event_of_another_size_is_a_bad_reply() {
    let op = Op::GetAsyncEvent;
    for (count, kind) in [
        (8, None),
        (7, Some(ErrorKind::BadReply)),
        (0, Some(ErrorKind::BadReply)),
        (9, Some(ErrorKind::BadReply)),
    ] {
        let bench = Bench::new(Script::new().replying("read", [1; 8]).reading(&[Ok(count)]));
        let event = bench.file.read_event::<[u8; 8]>(op, bench.fd());
        match kind {
            None => assert_eq!(event.unwrap(), [1; 8]),
            Some(kind) => {
                let error = event.unwrap_err();
                assert_eq!((error.op(), error.kind()), (op, kind), "{count}");
                let facts = error.to_string();
                assert_eq!(
                    facts.contains(&format!("bytes {count}")),
                    count < 9,
                    "{facts}"
                );
            }
        }
    }
}

#[test]
fn a_read_that_a_signal_interrupts_is_repeated_and_other_errnos_end_it() {
    let op = Op::GetAsyncEvent;
    let room = [const { Cell::new(0) }; 8];
    let read = |results: &[Result<usize, Errno>]| {
        let bench = Bench::new(Script::new().reading(results));
        let count = bench.file.read_bytes(op, bench.fd(), &room);
        (count, bench.file.is_removed())
    };
    let (count, removed) = read(&[Err(Errno::INTR), Err(Errno::INTR), Ok(3)]);
    assert_eq!((count.unwrap(), removed), (3, false));
    let (count, _) = read(&[Ok(8)]);
    assert_eq!(count.unwrap(), 8, "as much as there is room for");
    for (errno, kind, gone) in [
        (Errno::AGAIN, ErrorKind::WouldBlock, false),
        (Errno::IO, ErrorKind::DeviceRemoved, true),
        (Errno::BADF, pd_refused(Errno::BADF), false),
    ] {
        let (count, removed) = read(&[Err(errno)]);
        let error = count.unwrap_err();
        assert_eq!((error.errno(), error.kind()), (Some(errno), kind));
        assert_eq!(removed, gone, "{errno}");
    }
}

/// The kind of an error that means nothing special.
fn pd_refused(errno: Errno) -> ErrorKind {
    let bench = Bench::new(Script::new().refusing("invoke 3 ", errno));
    pd::alloc(&bench.file, &Uhw::NONE).unwrap_err().kind()
}

#[test]
fn a_descriptor_is_readable_once_something_was_written_and_a_hangup_is_a_removal() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let bench = Bench::new(Script::new());
    let wait = || {
        let no_time = Some(std::time::Duration::ZERO);
        bench
            .file
            .wait_readable(Op::GetAsyncEvent, reader.as_fd(), no_time)
    };
    assert!(!wait().unwrap());
    std::io::Write::write_all(&mut writer, b"x").unwrap();
    assert!(wait().unwrap());
    assert!(!bench.file.is_removed());
    std::io::Read::read_exact(&mut &reader, &mut [0]).unwrap();
    drop(writer);
    assert_eq!(wait().unwrap_err().kind(), ErrorKind::DeviceRemoved);
    assert!(bench.file.is_removed());
}

#[test]
fn a_mandatory_output_that_is_not_written_is_named() {
    let unwritten = [const { Cell::new(0) }; 4];
    for (mandatory, written) in [(true, true), (true, false), (false, false)] {
        let out = Attr::output(7, &unwritten);
        if written && let Value::Out(_, flag) = &out.value {
            flag.set(true);
        }
        let out = if mandatory { out } else { out.optional() };
        assert_eq!(out.is_unanswered(), mandatory && !written);
    }
    assert!(!Attr::object(1, 2).is_unanswered());
}

#[test]
fn a_command_that_only_the_method_has_is_asked_of_the_kernel_once() {
    let op = Op::CreateCounters;
    for errno in [Errno::NOTTY, Errno::PROTONOSUPPORT] {
        let bench = Bench::new(Script::new());
        let mut calls = 0;
        for _ in 0..3 {
            let error = bench
                .file
                .ioctl_only::<()>(op, || {
                    calls += 1;
                    Err(Error::os(op, errno))
                })
                .unwrap_err();
            assert!(error.is_unsupported(), "{error}");
        }
        let again = bench.file.ioctl_only(op, || Ok(())).unwrap_err();
        assert_eq!(
            again.known_hint(),
            Some("this kernel does not have the command")
        );

        assert_eq!(calls, 1, "{errno}");
        bench
            .file
            .ioctl_only(Op::AllocProtectionDomain, || Ok(()))
            .unwrap();
    }
    let bench = Bench::new(Script::new());
    for _ in 0..2 {
        let refused = bench
            .file
            .ioctl_only::<()>(op, || Err(Error::os(op, Errno::INVAL)));
        assert_eq!(refused.unwrap_err().errno(), Some(Errno::INVAL));
    }
    assert_eq!(bench.file.ioctl_only(op, || Ok(5)).unwrap(), 5);
}

#[test]
fn a_panic_of_the_kernel_and_a_missing_way_are_explained() {
    let bench = Bench::new(Script::new().refusing("invoke 3 ", Errno::NOTRECOVERABLE));
    let error = pd::alloc(&bench.file, &Uhw::NONE).unwrap_err();
    assert!(error.known_hint().unwrap().contains("panicked"), "{error}");
    let bench = Bench::on_path(
        Script::new().refusing("invoke", Errno::NOTTY),
        CommandPath::Ioctl,
    );
    let error = pd::alloc(&bench.file, &Uhw::NONE).unwrap_err();
    assert!(
        error.to_string().contains("kernel_lacks INVOKE_WRITE"),
        "{error}"
    );
    assert_eq!(qp::doorbell(&bench.file, 9), Err(Errno::PROTONOSUPPORT));
}

#[test]
fn a_reply_with_a_descriptor_is_checked_by_the_command_itself() {
    for script in [Script::new(), Script::new().silent()] {
        let bench = Bench::on_path(script, CommandPath::InvokeWrite);
        let error = comp_channel::create(&bench.file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadReply);
        let own = "no completion channel descriptor";
        assert!(error.to_string().contains(own), "{error}");
    }
}

#[test]
fn a_reply_that_is_not_written_is_no_reply() {
    let silent = || Script::new().with_zeros().silent();
    let bench = Bench::new(silent());
    let error = pd::alloc(&bench.file, &Uhw::NONE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply);
    assert!(
        error.to_string().contains("the reply was not written"),
        "{error}"
    );
    // By write(2) it cannot be told.
    let bench = Bench::on_path(silent(), CommandPath::Write);
    assert_eq!(pd::alloc(&bench.file, &Uhw::NONE).unwrap(), 0);
    let bench = Bench::new(silent());
    let error = crate::cmd::device::query_port(&bench.file, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply);
    assert!(error.to_string().contains("attribute 1"), "{error}");
}

#[test]
fn an_object_says_what_it_is() {
    let file = Arc::new(Bench::new(Script::new()).file);
    let object = Object::new(&file, &mr::KIND, 5, []);
    assert_eq!((object.handle(), object.kind().op), (5, mr::KIND.op));
    assert!(Arc::ptr_eq(object.file(), &file));
    assert_eq!(format!("{object:?}"), format!("{}(5)", mr::KIND));
    let other = Object::borrowed(&file, &qp::KIND, 6);
    assert_eq!((other.handle(), other.kind().op), (6, qp::KIND.op));
}

#[test]
fn an_object_of_somebody_else_is_not_destroyed() {
    let Bench { script, file } = Bench::new(Script::new());
    let file = Arc::new(file);
    let mut object = Object::borrowed(&file, &qp::KIND, 6);
    let error = object.try_destroy().unwrap_err();
    assert_eq!(
        (error.op(), error.kind()),
        (qp::KIND.op, ErrorKind::InvalidState)
    );
    assert!(error.known_hint().is_some());
    drop(object);
    assert!(script.lines.lock().unwrap().is_empty());
    assert_eq!(file.leaked(), 0);
}

#[test]
fn an_interrupted_destroy_is_repeated_sixteen_times() {
    let Bench { script, file } = Bench::new(Script::new().refusing("ioctl 7/1", Errno::INTR));
    let file = Arc::new(file);
    let error = Object::new(&file, &mr::KIND, 5, []).destroy().unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INTR));
    assert_eq!(script.lines.lock().unwrap().len(), 17);
    assert_eq!(file.leaked(), 1);
}

#[test]
fn an_object_of_a_removed_device_is_gone() {
    for (port, gone) in [
        (Some(Errno::IO), true),
        (Some(Errno::NOLINK), false),
        (None, false),
    ] {
        let mut script = Script::new().refusing("ioctl 7/1", Errno::IO);
        if let Some(port) = port {
            script = script.refusing(QUERY, port);
        }
        let file = Arc::new(Bench::new(script).file);
        let destroyed = Object::new(&file, &mr::KIND, 5, []).destroy();
        assert_eq!(destroyed.is_ok(), gone, "{port:?}");
        assert_eq!(file.leaked(), u64::from(!gone));
    }
}

#[test]
fn what_an_object_uses_in_a_role_lives_until_it_uses_another() {
    struct Role;
    struct OtherRole;
    let Bench { script, file } = Bench::new(Script::new());
    let file = Arc::new(file);
    let commands = || std::mem::take(&mut *script.lines.lock().unwrap()).len();
    let region = |handle| Arc::new(Object::new(&file, &mr::KIND, handle, []));
    let user = Object::new(&file, &qp::KIND, 5, []);
    user.set_use::<Role>(Some(region(1)));
    user.set_use::<OtherRole>(Some(region(2)));
    assert_eq!(commands(), 0, "both are used");
    user.set_use::<Role>(Some(region(3)));
    assert_eq!(commands(), 1, "the first is not any more");
    user.set_use::<Role>(None);
    assert_eq!(commands(), 1);
    drop(user);
    assert_eq!(commands(), 2, "the user, and then what it used");
}

#[test]
fn a_kernel_that_says_nothing_else_takes_devices_and_has_no_connection_manager() {
    let Bench { script, file } = Bench::new(Script::new());
    script.check_device(file.as_fd(), None, None).unwrap();
    let checks = [
        script.check_connection_manager(file.as_fd(), None),
        Arc::clone(&script).check_connection_manager(file.as_fd(), None),
    ];
    for check in checks {
        let error = check.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error
                .known_hint()
                .unwrap()
                .contains("no connection manager")
        );
    }
}
