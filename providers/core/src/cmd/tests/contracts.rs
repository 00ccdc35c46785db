//! What every provider offers by the same commands, and what is refused before any.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use super::{Bench, NEW_HANDLE, Script};
use crate::cmd::{counters, cq, flow, pd, qp, srq};
use crate::contract::{
    CqInit, Extra, Link, QpBase, QpInit, SrqInit, advise_memory, completion_channel, event_file,
    flow as rules, moderate_cq, query_port, query_port_speed, query_region, read_completion_event,
    set_nonblocking,
};
use crate::error::{Errno, ErrorKind, Op, PostError};
use crate::file::UverbsFile;
use crate::object::Object;
use crate::types::{
    Address, Destination, DeviceAttr, LocalKey, MrAdvice, MrAdviceFlags, QpCaps, QpCreateFlags,
    QpState, QpType, Sge, SigMode, SrqAttr, SrqType, Timestamps,
};

fn file(script: Script) -> (Arc<Script>, Arc<UverbsFile>) {
    let Bench { script, file } = Bench::new(script);
    (script, Arc::new(file))
}

fn lines(script: &Script) -> Vec<String> {
    std::mem::take(&mut *script.lines.lock().unwrap())
}

#[test]
fn a_shared_receive_queue_of_a_kind_without_a_name_is_refused() {
    let check = |kind| {
        let attr = SrqAttr::default();
        let user_handle = 0;
        SrqInit {
            kind,
            attr,
            user_handle,
        }
        .check()
    };
    for known in [SrqType::Basic, SrqType::Xrc] {
        check(known).unwrap();
    }
    let error = check(SrqType::from_raw(77)).unwrap_err();
    assert_eq!(error.op(), Op::CreateSharedReceiveQueue);
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("kind"), "{error}");
}

#[derive(Debug)]
struct Mine(u8);

#[test]
fn a_queue_pair_of_a_kind_or_with_flags_without_a_name_is_refused() {
    let (_, file) = file(Script::new());
    let cq = Arc::new(Object::borrowed(&file, &cq::KIND, 1));
    let valid = QpInit {
        kind: QpType::Rc,
        send_cq: Link::plain(&cq),
        recv_cq: Link::plain(&cq),
        srq: None,
        caps: QpCaps::default(),
        signal: SigMode::All,
        flags: QpCreateFlags::empty(),
        user_handle: 0,
        extra: None,
    };
    valid.check().unwrap();
    let kind = QpType::from_raw(77);
    let flags = QpCreateFlags::from_bits_retain(1 << 31);
    for (wrong, name) in [
        (QpInit { kind, ..valid }, "kind"),
        (QpInit { flags, ..valid }, "flags"),
    ] {
        let error = wrong.check().unwrap_err();
        let expected = (Op::CreateQueuePair, ErrorKind::InvalidInput);
        assert_eq!((error.op(), error.kind()), expected);
        assert!(error.to_string().contains(name), "{error}");
    }
    // The vendor-specific part.
    valid.no_extra().unwrap();
    assert!(valid.extra::<Mine>().unwrap().is_none());
    let mine: &dyn Extra = &Mine(3);
    let special = QpInit {
        extra: Some(mine),
        ..valid
    };
    assert_eq!(special.extra::<Mine>().unwrap().unwrap().0, 3);
    for refused in [
        special.no_extra().unwrap_err(),
        special.extra::<u8>().unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("type RC"), "{refused}");
    }
}

#[test]
fn the_vendor_specific_part_of_a_completion_queue_is_for_its_vendor() {
    let plain = CqInit {
        memory: None,
        entries: 1,
        user_handle: 0,
        comp_channel: None,
        vector: 0,
        events: None,
        timestamps: Timestamps::None,
        ignores_overrun: false,
        unpolled: None,
        extra: None,
    };
    plain.no_extra().unwrap();
    assert!(plain.extra::<Mine>().unwrap().is_none());
    let mine: &dyn Extra = &Mine(3);
    let special = CqInit {
        extra: Some(mine),
        ..plain
    };
    assert_eq!(special.extra::<Mine>().unwrap().unwrap().0, 3);
    for refused in [
        special.no_extra().unwrap_err(),
        special.extra::<u8>().unwrap_err(),
    ] {
        let expected = (Op::CreateCompletionQueue, ErrorKind::Unsupported);
        assert_eq!((refused.op(), refused.kind()), expected);
    }
    assert!(format!("{mine:?}").ends_with("Mine"), "{mine:?}");
}

#[test]
fn a_queue_of_another_provider_has_nothing_to_share() {
    let (_, file) = file(Script::new());
    let cq = Arc::new(Object::borrowed(&file, &cq::KIND, 6));
    let shared = Mine(4);
    let link = Link::new(&cq, &shared);
    let op = Op::CreateQueuePair;
    assert_eq!(link.shared::<Mine>(op).unwrap().0, 4);
    for foreign in [link.shared::<u8>(op), Link::plain(&cq).shared::<u8>(op)] {
        let error = foreign.unwrap_err();
        assert_eq!((error.op(), error.kind()), (op, ErrorKind::InvalidInput));
        assert!(error.to_string().contains(&format!("{cq:?}")), "{error}");
        assert_eq!(error.known_hint(), Some("it belongs to another device"));
    }
}

#[test]
fn a_new_queue_pair_is_in_reset() {
    let (_, file) = file(Script::new());
    let device = DeviceAttr {
        max_qp_rd_atom: 9,
        ..DeviceAttr::default()
    };
    let caps = QpCaps {
        max_send_wr: 3,
        ..QpCaps::default()
    };
    let object = Object::borrowed(&file, &qp::KIND, 5);
    let base = QpBase::new(object, 0x77, QpType::Ud, caps, &device);
    assert_eq!((base.object.handle(), base.number), (5, 0x77));
    assert_eq!((base.kind, base.caps), (QpType::Ud, caps));
    assert_eq!(base.state, QpState::Reset);
    assert_eq!((base.reset_unconfirmed, base.max_rd_atomic), (false, 9));
}

#[test]
fn as_many_ranges_are_advised_as_an_attribute_has_room_for() {
    let (script, file) = file(Script::new());
    let pd = Object::borrowed(&file, &pd::KIND, 3);
    let entry = Sge {
        address: 1,
        length: 2,
        key: LocalKey::from_raw(3),
    };
    let advise = |count| {
        let entries = vec![entry; count];
        advise_memory(
            &file,
            &pd,
            MrAdvice::Prefetch,
            MrAdviceFlags::empty(),
            &entries,
        )
    };
    advise(1).unwrap();
    let sent = lines(&script).remove(0);
    assert!(sent.contains("obj=3") && sent.contains(":in16"), "{sent}");
    advise(4095).unwrap();
    assert!(lines(&script)[0].contains("in65520"));
    let error = advise(4096).unwrap_err();
    let expected = (Op::AdviseMemory, ErrorKind::LimitExceeded);
    assert_eq!((error.op(), error.kind()), expected);
    assert!(
        error.to_string().contains("ranges 4096, max 4095"),
        "{error}"
    );
    assert!(lines(&script).is_empty());
}

#[test]
fn ports_are_queried_and_queues_moderated_by_their_numbers() {
    let (script, file) = file(Script::new().replying("0/7:1", 77_u64.to_ne_bytes()));
    query_port(&file, 3).unwrap();
    let sent = lines(&script).remove(0);
    assert!(sent.starts_with("ioctl 0/2 0:const=0x3"), "{sent}");
    assert_eq!(query_port_speed(&file, 4).unwrap(), 77);
    assert_eq!(lines(&script), ["ioctl 0/7 0:const=0x4 1:out8"]);

    let cq = Object::borrowed(&file, &cq::KIND, 6);
    moderate_cq(&cq, 7, 8).unwrap();
    assert_eq!(lines(&script), ["invoke x57 in16"]);
    assert_eq!(script.request.lock().unwrap()[..4], 6_u32.to_ne_bytes());
    let refused = Bench::new(Script::new().refusing("invoke x57", Errno::INVAL));
    let cq = Object::borrowed(&Arc::new(refused.file), &cq::KIND, 6);
    assert_eq!(
        moderate_cq(&cq, 7, 8).unwrap_err().errno(),
        Some(Errno::INVAL)
    );
}

#[test]
fn event_files_and_channels_are_new_descriptors() {
    let (script, file) = file(Script::new());
    event_file(&file).unwrap();
    let sent = lines(&script).remove(0);
    assert!(sent.ends_with(":newfd"), "{sent}");
    // No descriptor is announced.
    let error = completion_channel(&file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply);
    let bench = Bench::new(Script::new().replying("read", 42_u64.to_ne_bytes()));
    assert_eq!(read_completion_event(&bench.file, bench.fd()).unwrap(), 42);
}

#[test]
fn a_descriptor_that_was_made_nonblocking_does_not_block() {
    let (reader, _writer) = std::io::pipe().unwrap();
    set_nonblocking(Op::GetAsyncEvent, reader.as_fd()).unwrap();
    let read = std::io::Read::read(&mut &reader, &mut [0]);
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn rules_and_counters_are_objects() {
    let (script, file) = file(
        Script::new()
            .with_zeros()
            .replying("x50", [9, 0, 0, 0, 0, 0, 0, 0]),
    );
    let rule = flow::Create {
        qp: 1,
        kind: flow::Kind::Normal,
        priority: 0,
        port: 1,
        flags: flow::Flags::empty(),
        specs: &[],
    };
    let made = rules::create(&file, &rule, &[1; 8]).unwrap();
    assert_eq!(made.kind().op, flow::KIND.op);
    let sent = lines(&script).remove(0);
    assert!(sent.ends_with(" uhw 8/0"), "{sent}");
    let counted = rules::create_counters(&file).unwrap();
    assert_eq!(
        (counted.handle(), counted.kind().op),
        (NEW_HANDLE, counters::KIND.op)
    );
    lines(&script);
    for cached in [false, true] {
        rules::read_counters(&counted, &mut [0; 2], cached).unwrap();
        let sent = lines(&script).remove(0);
        assert!(sent.contains(&format!("obj={NEW_HANDLE}")), "{sent}");
        assert!(sent.contains("out16"), "{sent}");
        assert!(
            sent.ends_with(&format!("const={:#x}", u8::from(cached))),
            "{sent}"
        );
    }
    drop((made, counted));
    assert_eq!(lines(&script).len(), 2, "both are destroyed");
}

#[test]
fn counters_that_cannot_be_read_are_an_error_with_their_number() {
    let (_, file) = file(Script::new().refusing("ioctl", Errno::INVAL));
    let set = Object::borrowed(&file, &counters::KIND, 4);
    let error = rules::read_counters(&set, &mut [0; 3], false).unwrap_err();
    assert_eq!(error.to_string(), "read_counters: EINVAL (counters 3)");
}

#[test]
fn a_region_of_a_context_is_known_by_its_handle() {
    let (script, file) = file(Script::new());
    query_region(&file, 0x51).unwrap();
    let sent = lines(&script).remove(0);
    assert!(sent.contains("obj=81"), "{sent}");
}

#[test]
fn an_address_keeps_its_object_its_number_and_its_vector() {
    let (script, file) = file(Script::new());
    let object = Arc::new(Object::new(&file, &srq::KIND, 8, []));
    let address = Address::new(&file, Some(Arc::clone(&object)), 9, [7; 88]);
    assert_eq!((address.handle(), address.number()), (Some(8), 9));
    assert_eq!(address.vector(), &[7; 88]);
    let busy = address.clone().destroy().unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    drop(object);
    assert!(lines(&script).is_empty());
    address.destroy().unwrap();
    assert_eq!(lines(&script).len(), 1);
    let local = Address::new(&file, None, 0, [0; 88]);
    assert_eq!(local.handle(), None);
    local.clone().destroy().unwrap();
    assert!(lines(&script).is_empty());
    for (qp_num, fits) in [(0, true), (0xff_ffff, true), (0x100_0000, false)] {
        let destination = Destination {
            address: &local,
            qp_num,
            qkey: 0,
        };
        let expected = if fits {
            Ok(qp_num)
        } else {
            Err(PostError::InvalidRequest)
        };
        assert_eq!(destination.checked_qp_num(), expected);
    }
}
