//! What is said of errnos, and what is refused before any command.

use uverbs_uapi::ib_user_verbs::ib_uverbs_async_event_desc;
use zerocopy::IntoBytes as _;

use super::{Bench, Script};
use crate::Error;
use crate::cmd::{ah, comp_cntr, event, pd, qp, xrcd};
use crate::error::{Errno, ErrorKind, Op};
use crate::sys::Uhw;
use crate::types::{AddressVector, Gid, GlobalRoute, QpAttr, QpAttrMask, QpCaps, QpState};

/// The hint to an errno, if there is one.
fn hint(error: &Error) -> &str {
    error.known_hint().unwrap_or_default()
}

fn unreachable(errno: Errno, av: &AddressVector) -> Error {
    let bench = Bench::new(Script::new().refusing("invoke 5 ", errno));
    ah::create(&bench.file, 1, av, 0, &Uhw::NONE).unwrap_err()
}

#[test]
fn a_peer_that_cannot_be_reached_is_explained() {
    let dgid = Gid::from_bytes([0x33; 16]);
    let global = AddressVector::global(1, GlobalRoute::new(dgid, 4));
    for (errno, explained) in [
        (Errno::TIMEDOUT, true),
        (Errno::HOSTUNREACH, true),
        (Errno::NETUNREACH, true),
        (Errno::INVAL, false),
    ] {
        let error = unreachable(errno, &global);
        assert_eq!(hint(&error).contains("no route"), explained, "{error}");
        let facts = format!("(port 1, dgid {dgid}, sgid_index 4)");
        assert!(error.to_string().contains(&facts), "{error}");
    }
    let local = AddressVector::local(1, 0x77);
    let error = unreachable(Errno::TIMEDOUT, &local);
    assert_eq!(
        hint(&error),
        "",
        "an address within the subnet has no route"
    );
    assert!(error.to_string().contains("(port 1, dlid 119)"), "{error}");
    assert!(hint(&unreachable(Errno::AGAIN, &global)).contains("rdma.max"));
}

#[test]
fn a_file_without_a_domain_is_explained() {
    let null = super::null();
    let file = Some(std::os::fd::AsFd::as_fd(&null));
    for (errno, file, create, words) in [
        (Errno::AGAIN, file, false, "set `create`"),
        (Errno::AGAIN, file, true, "rdma.max"),
        (Errno::AGAIN, None, false, "rdma.max"),
        (Errno::INVAL, file, false, ""),
    ] {
        let request = xrcd::Open {
            file,
            create,
            exclusive: false,
        };
        let bench = Bench::new(Script::new().refusing("invoke 37 ", errno));
        let error = xrcd::open(&bench.file, &request, &Uhw::NONE).unwrap_err();
        let found = hint(&error);
        assert!(found.contains(words), "{error}");
        assert_eq!(found.is_empty(), words.is_empty(), "{error}");
    }
}

#[test]
fn a_refused_change_of_a_queue_pair_says_what_was_changed() {
    let attr = QpAttr {
        state: Some(QpState::ReadyToSend),
        qkey: Some(0x8000_0000),
        ..QpAttr::default()
    };
    for (errno, explained) in [(Errno::PERM, true), (Errno::INVAL, false)] {
        let bench = Bench::new(Script::new().refusing("invoke 26 ", errno));
        let error = qp::modify(&bench.file, 1, &attr, &Uhw::NONE).unwrap_err();
        assert_eq!(hint(&error).contains("CAP_NET_RAW"), explained);
        let text = error.to_string();
        assert!(
            text.contains("to_state ready to send, attributes state, qkey"),
            "{text}"
        );
    }
}

#[test]
fn attributes_without_a_field_or_too_large_for_theirs_are_refused() {
    let bench = Bench::new(Script::new());
    let refused = |attr: &QpAttr| {
        let error = qp::modify(&bench.file, 1, attr, &Uhw::NONE).unwrap_err();
        assert_eq!(error.op(), Op::ModifyQueuePair);
        error
    };
    let caps = QpAttr {
        caps: Some(QpCaps::default()),
        ..QpAttr::default()
    };
    let error = refused(&caps);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("argument caps"), "{error}");
    let number = |dest_qpn| QpAttr {
        dest_qpn: Some(dest_qpn),
        ..QpAttr::default()
    };
    assert_eq!(refused(&number(1 << 24)).kind(), ErrorKind::LimitExceeded);
    assert!(bench.lines().is_empty());
    qp::modify(&bench.file, 1, &number((1 << 24) - 1), &Uhw::NONE).unwrap();
    assert_eq!(bench.lines().len(), 1);
    let unnamed = QpAttrMask::from_bits_retain(1 << 30);
    let error = qp::query(&bench.file, 1, unnamed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn driver_data_or_a_rate_needs_the_extended_modify() {
    let plain = QpAttr {
        state: Some(QpState::Init),
        ..QpAttr::default()
    };
    let rate = QpAttr {
        rate_limit_kbps: Some(7),
        ..plain
    };
    let reply = [const { std::cell::Cell::new(0) }; 8];
    for (attr, uhw, line) in [
        (&plain, Uhw::NONE, "invoke 26 in112"),
        (&rate, Uhw::NONE, "invoke x26 in120 out8"),
        (
            &plain,
            Uhw::new(&[1; 8], &[]),
            "invoke x26 in120 out8 uhw 8/0",
        ),
        (
            &plain,
            Uhw::new(&[], &reply),
            "invoke x26 in120 out8 uhw 0/8",
        ),
    ] {
        let bench = Bench::new(Script::new().with_zeros());
        qp::modify(&bench.file, 1, attr, &uhw).unwrap();
        assert_eq!(bench.line(), line);
    }
}

#[test]
fn the_last_event_of_a_removed_device_is_followed_by_its_removal() {
    const QUERY: &str = "ioctl 0/2 ";
    for (fatal, answer, removed, kind) in [
        (true, Errno::AGAIN, true, ErrorKind::DeviceRemoved),
        (true, Errno::AGAIN, false, ErrorKind::WouldBlock),
        (false, Errno::AGAIN, true, ErrorKind::WouldBlock),
        (
            true,
            Errno::BADF,
            true,
            Error::os(Op::OpenDevice, Errno::BADF).kind(),
        ),
    ] {
        let mut read = Script::new().reading(&[Err(answer)]);
        if removed {
            read = read.refusing(QUERY, Errno::IO);
        }
        let bench = Bench::new(read);
        if fatal {
            bench.file.set_fatal();
        }
        let error = event::read_async(&bench.file, bench.fd()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    // A fatal event is one that may be the last.
    let fatal = ib_uverbs_async_event_desc {
        event_type: 8,
        ..ib_uverbs_async_event_desc::default()
    };
    let script = Script::new()
        .replying("read", fatal.as_bytes())
        .refusing(QUERY, Errno::IO);
    let bench = Bench::new(script);
    assert!(!bench.file.has_no_more_events());
    event::read_async(&bench.file, bench.fd()).unwrap();
    assert!(bench.file.has_no_more_events());
}

#[test]
fn completion_counters_are_changed_by_entry_and_operation() {
    for (entry, at) in [
        (comp_cntr::Entry::Completions, 0),
        (comp_cntr::Entry::Errors, 1),
    ] {
        for (change, how) in [
            (comp_cntr::Change::Set, 0),
            (comp_cntr::Change::Increment, 1),
        ] {
            let bench = Bench::new(Script::new());
            comp_cntr::modify(&bench.file, 7, entry, change, 9).unwrap();
            let line = bench.line();
            let constants = format!("const={at:#x} ");
            assert!(line.contains(&constants), "{line}");
            assert!(line.contains(&format!("const={how:#x} ")), "{line}");
        }
    }
}

#[test]
fn a_handle_has_31_bits() {
    for (raw, fits) in [
        (0, true),
        (0x7fff_ffff, true),
        (0x8000_0000_u32, false),
        (u32::MAX, false),
    ] {
        let bench = Bench::on_path(
            Script::new().replying("3", raw.to_ne_bytes()),
            crate::file::CommandPath::Write,
        );
        match pd::alloc(&bench.file, &Uhw::NONE) {
            Ok(handle) => assert!(fits && handle == raw),
            Err(error) => {
                assert!(!fits, "{raw:#x}");
                assert_eq!(error.kind(), ErrorKind::BadReply);
            }
        }
        let slot = crate::cmd::new_object_slot();
        assert!(crate::cmd::new_object_handle(Op::Provider, &slot).is_err());
        slot.set(raw);
        let handle = crate::cmd::new_object_handle(Op::Provider, &slot);
        assert_eq!(handle.ok(), fits.then_some(raw));
    }
}
