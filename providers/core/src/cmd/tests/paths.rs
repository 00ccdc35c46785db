//! Which encoding a command takes: the fallback rules, and each forced path.

use super::{Bench, NEW_HANDLE, Script};
use crate::cmd::{context, cq, device, event, gid, mr, mw, pd, qp, srq};
use crate::error::{Errno, ErrorKind, Result};
use crate::file::CommandPath;
use crate::sys::{Attr, Uhw};
use crate::types::AccessFlags;

fn first_words(lines: &[String]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line.split(' ').take(2).last().unwrap())
        .collect()
}

#[test]
fn without_the_ioctl_interface_all_commands_are_written() {
    let script = Script::new()
        .with_zeros()
        .refusing("ioctl", Errno::NOTTY)
        .refusing("invoke", Errno::NOTTY);
    let bench = Bench::new(script);
    let made = cq::create(&bench.file, &cq::Create::new(1, 0), &Uhw::NONE).unwrap();
    assert_eq!(
        first_words(&bench.lines()),
        ["3/0", "18", "18"],
        "method, INVOKE_WRITE, write(2)"
    );
    cq::KIND.destroy(&bench.file, made.handle).unwrap();
    assert_eq!(
        bench.line(),
        "write 20 in16 out8",
        "not tried again, for no command"
    );
    let error = gid::query_entry(&bench.file, 1, 0).unwrap_err();
    assert!(error.is_unsupported());
}

#[test]
fn a_method_that_the_kernel_lacks_is_tried_once() {
    let bench = Bench::new(
        Script::new()
            .with_zeros()
            .refusing("ioctl 4/0", Errno::PROTONOSUPPORT),
    );
    let request = qp::Create::new(
        crate::types::QpType::Rc,
        qp::Parent::Pd(1),
        0,
        crate::types::QpCaps::default(),
    );
    for expected in [["4/0", "24"].as_slice(), &["24"]] {
        qp::create(&bench.file, &request, &Uhw::NONE).unwrap();
        assert_eq!(first_words(&bench.lines()), expected);
    }
    qp::KIND.destroy(&bench.file, 1).unwrap();
    assert_eq!(
        first_words(&bench.lines()),
        ["4/1"],
        "the other methods stay"
    );
}

#[test]
fn other_errnos_of_the_ioctl_are_reported_without_fallback() {
    for errno in [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOMEM, Errno::NOSYS] {
        let bench = Bench::new(Script::new().with_zeros().refusing("ioctl 5/0", errno));
        let request = srq::Create {
            pd: 1,
            kind: srq::Kind::Basic,
            max_wr: 1,
            max_sge: 1,
            limit: 0,
            user_handle: 0,
            event_fd: None,
        };
        let error = srq::create(&bench.file, &request, &Uhw::NONE).unwrap_err();
        assert_eq!(error.errno(), Some(errno));
        assert_eq!(bench.lines().len(), 1);
    }
}

type Command<'a> = &'a dyn Fn(&Bench) -> Result<()>;

#[test]
fn the_forced_paths() {
    let create =
        |bench: &Bench| cq::create(&bench.file, &cq::Create::new(1, 0), &Uhw::NONE).map(|_| ());
    let alloc = |bench: &Bench| pd::alloc(&bench.file, &Uhw::NONE).map(|_| ());
    let file = |bench: &Bench| event::alloc_async(&bench.file).map(|_| ());
    let table = [
        (CommandPath::Auto, ["ioctl 3/0", "invoke 3", "ioctl 16/0"]),
        (CommandPath::Ioctl, ["ioctl 3/0", "invoke 3", "ioctl 16/0"]),
        (
            CommandPath::InvokeWrite,
            ["invoke 18", "invoke 3", "ioctl 16/0"],
        ),
        (CommandPath::Write, ["write 18", "write 3", "ioctl 16/0"]),
    ];
    for (path, starts) in table {
        let bench = Bench::on_path(Script::new().with_zeros(), path);
        let commands: [Command<'_>; 3] = [&create, &alloc, &file];
        for (command, start) in commands.into_iter().zip(starts) {
            command(&bench).unwrap();
            let line = bench.line();
            assert!(line.starts_with(start), "{path:?}: {line}");
        }
    }
}

#[test]
fn the_ioctl_path_never_writes() {
    let script = Script::new()
        .with_zeros()
        .refusing("invoke", Errno::PROTONOSUPPORT);
    let bench = Bench::on_path(script, CommandPath::Ioctl);
    assert!(
        pd::alloc(&bench.file, &Uhw::NONE)
            .unwrap_err()
            .is_unsupported()
    );
    assert!(bench.lines().iter().all(|line| !line.starts_with("write")));
}

#[test]
fn a_driver_attribute_is_not_lost_on_the_way_to_a_legacy_command() {
    let attrs = [Attr::constant(0x1002, 1_u32)];
    let uhw = Uhw {
        attrs: &attrs,
        ..Uhw::NONE
    };
    let bench = Bench::on_path(Script::new().with_zeros(), CommandPath::Write);
    let error = pd::alloc(&bench.file, &uhw).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(bench.lines(), Vec::<String>::new());
    // An object with a create method is created by it, whatever the path prefers.
    for path in [CommandPath::Write, CommandPath::InvokeWrite] {
        let bench = Bench::on_path(Script::new().with_zeros(), path);
        cq::create(&bench.file, &cq::Create::new(1, 0), &uhw).unwrap();
        let line = bench.line();
        assert!(line.starts_with("ioctl"), "{path:?}: {line}");
    }
}

#[test]
fn a_device_query_falls_back_to_the_plain_command() {
    for errno in [Errno::OPNOTSUPP, Errno::NOSYS] {
        let mut reply = [0_u8; 176];
        reply[48..52].copy_from_slice(&21_u32.to_ne_bytes());
        let bench = Bench::new(
            Script::new()
                .with_zeros()
                .refusing("invoke x1", errno)
                .replying("1", reply),
        );
        let attr = device::query(&bench.file, &Uhw::NONE).unwrap();
        assert_eq!(
            bench.lines(),
            ["invoke x1 in8 out304", "invoke 1 in8 out176"]
        );
        assert_eq!(attr.max_qp, 0);
        assert_eq!(attr.hw_ver, 0x15, "at byte 48");
    }
    let bench = Bench::new(
        Script::new()
            .with_zeros()
            .refusing("invoke x1", Errno::INVAL),
    );
    assert_eq!(
        device::query(&bench.file, &Uhw::NONE).unwrap_err().errno(),
        Some(Errno::INVAL)
    );
}

#[test]
fn newer_registrations_fall_back_to_older_ones() {
    let bench = Bench::new(
        Script::new()
            .with_zeros()
            .refusing("ioctl 7/5", Errno::PROTONOSUPPORT),
    );
    let mut request = mr::RegisterEx {
        pd: 1,
        source: mr::Source::Address(0),
        length: 1,
        iova: 0,
        access: AccessFlags::empty(),
        dma_handle: None,
    };
    mr::register_ex(&bench.file, &request, &Uhw::NONE).unwrap();
    assert_eq!(first_words(&bench.lines()), ["7/5", "9"]);
    request.source = mr::Source::Fd {
        fd: bench.fd(),
        offset: 0,
    };
    assert_eq!(
        mr::register_ex(&bench.file, &request, &Uhw::NONE)
            .unwrap()
            .handle,
        NEW_HANDLE
    );
    assert_eq!(first_words(&bench.lines()), ["7/4"]);
    request.dma_handle = Some(1);
    assert!(
        mr::register_ex(&bench.file, &request, &Uhw::NONE)
            .unwrap_err()
            .is_unsupported()
    );
}

#[test]
fn the_legacy_context_brings_its_event_file() {
    let fd = std::os::fd::IntoRawFd::into_raw_fd(super::null());
    let reply = [fd.to_ne_bytes(), 3_i32.to_ne_bytes()].concat();
    let script = Script::new()
        .with_zeros()
        .refusing("ioctl 0/3", Errno::PROTONOSUPPORT)
        .replying("0", reply);
    let bench = Bench::new(script);
    let got = context::get(&bench.file, &context::GetContext::default(), &Uhw::NONE).unwrap();
    assert_eq!(first_words(&bench.lines()), ["0/3", "0"]);
    assert!(got.async_fd.is_some());
    assert_eq!(got.num_comp_vectors, 3);
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::RELAXED_ORDERING;
    assert_eq!(
        got.core_support.final_access(access),
        AccessFlags::LOCAL_WRITE
    );
    assert_eq!(
        context::CoreSupport::OPTIONAL_MR_ACCESS.final_access(access),
        access
    );
}

#[test]
fn a_kernel_that_misreads_a_legacy_context_gets_the_method() {
    let script = Script::new().with_zeros().refusing("invoke 0", Errno::BADF);
    let bench = Bench::on_path(script, CommandPath::InvokeWrite);
    let request = context::GetContext::default();
    assert!(
        context::get(&bench.file, &request, &Uhw::NONE)
            .unwrap()
            .async_fd
            .is_none()
    );
    assert_eq!(first_words(&bench.lines()), ["0", "0/3"]);

    let script = Script::new().with_zeros().refusing("write 0", Errno::BADF);
    let bench = Bench::on_path(script, CommandPath::Write);
    let error = context::get(&bench.file, &request, &Uhw::NONE).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::BADF), "write(2) is not misread");
}

#[test]
fn failures_name_the_request_and_what_helps() {
    let script = Script::new()
        .with_zeros()
        .refusing("invoke 9", Errno::NOMEM)
        .refusing("invoke 14", Errno::AGAIN);
    let bench = Bench::new(script);
    let request = mr::Register {
        pd: 1,
        start: 0,
        length: 1 << 30,
        iova: 0,
        access: AccessFlags::empty(),
    };
    let error = mr::register(&bench.file, &request, &Uhw::NONE)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("reg_mr: ENOMEM (bytes 1073741824); raise the limit of locked memory"),
        "{error}"
    );
    let error = mw::alloc(&bench.file, 1, crate::types::MwType::Type1, &Uhw::NONE)
        .unwrap_err()
        .to_string();
    assert!(error.contains("rdma cgroup"), "{error}");
}
