//! How replies are decoded, including impossible ones.

use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_gid_entry;
use uverbs_uapi::ib_user_verbs::{
    ib_uverbs_async_event_desc, ib_uverbs_ex_query_device_resp, ib_uverbs_query_qp_resp,
    ib_uverbs_wc,
};
use zerocopy::IntoBytes;

use super::{Bench, NEW_HANDLE, Script};
use crate::cmd::{comp_channel, context, cq, device, event, flow, gid, ind_table, pd, qp};
use crate::error::{Errno, Error, ErrorKind};
use crate::file::CommandPath;
use crate::sys::Uhw;
use crate::types::{
    AsyncEventType, DeviceCaps, GidType, LinkSpeed, Psn, QpAttrMask, QpState, SigMode,
};

#[track_caller]
fn assert_bad<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::BadReply);
}

#[test]
fn a_create_without_a_handle_is_a_bad_reply() {
    let bench = Bench::new(Script::new().without_handles());
    assert_bad(cq::create(&bench.file, &cq::Create::new(1, 0), &Uhw::NONE));
    assert_bad(event::alloc_async(&bench.file));

    let made = cq::create(
        &Bench::new(Script::new()).file,
        &cq::Create::new(1, 0),
        &Uhw::NONE,
    )
    .unwrap();
    assert_eq!(made.handle, NEW_HANDLE);

    let legacy = Bench::on_path(Script::new(), CommandPath::Write);
    assert_bad_or_zero(&legacy);
    let legacy = Bench::on_path(
        Script::new().replying("3", 0x8000_0000_u32.to_ne_bytes()),
        CommandPath::Write,
    );
    assert_bad(pd::alloc(&legacy.file, &Uhw::NONE));
    let legacy = Bench::on_path(
        Script::new().replying("3", 0_u32.to_ne_bytes()),
        CommandPath::Write,
    );
    assert_eq!(
        pd::alloc(&legacy.file, &Uhw::NONE).unwrap(),
        0,
        "0 is a handle"
    );
}

fn assert_bad_or_zero(bench: &Bench) {
    assert_bad(pd::alloc(&bench.file, &Uhw::NONE));
    assert_bad(comp_channel::create(&bench.file));
    assert_bad(context::get(
        &bench.file,
        &context::GetContext::default(),
        &Uhw::NONE,
    ));
}

#[test]
fn f07_a_device_reply_is_read_up_to_its_response_length() {
    let mut reply = ib_uverbs_ex_query_device_resp {
        response_length: 304,
        timestamp_mask: u64::MAX,
        device_cap_flags_ex: DeviceCaps::FLUSH_GLOBAL.bits(),
        max_dm_size: 77,
        ..ib_uverbs_ex_query_device_resp::default()
    };
    reply.base.device_cap_flags = 1;
    let query = |reply: &ib_uverbs_ex_query_device_resp| {
        device::query(
            &Bench::new(Script::new().replying("x1", reply.as_bytes())).file,
            &Uhw::NONE,
        )
    };
    let whole = query(&reply).unwrap();
    assert_eq!(
        (whole.caps, whole.max_dm_size),
        (DeviceCaps::FLUSH_GLOBAL, 77)
    );

    // Up to the timestamp mask.
    reply.response_length = 216;
    let old = query(&reply).unwrap();
    assert_eq!(
        (
            old.caps.bits(),
            old.completion_timestamp_mask,
            old.max_dm_size
        ),
        (1, u64::MAX, 0)
    );

    for impossible in [0, 183, 305, u32::MAX] {
        reply.response_length = impossible;
        assert_bad(query(&reply));
    }
}

#[test]
fn f08_counts_beyond_the_room_are_bad_replies() {
    let entry = ib_uverbs_gid_entry {
        gid: [0, u64::MAX],
        gid_index: 3,
        port_num: 1,
        gid_type: 2,
        netdev_ifindex: 9,
    };
    let table = |count: u64| {
        Script::new()
            .replying("0/5:2", entry.as_bytes())
            .replying("0/5:3", count.to_ne_bytes())
    };
    let entries = gid::query_table(&Bench::new(table(1)).file, 2).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (entries[0].index, entries[0].port, entries[0].gid_type),
        (3, 1, GidType::RoceV2)
    );
    assert_eq!(entries[0].netdev.unwrap().get(), 9);
    assert_eq!(entries[0].gid.to_bytes()[8..], [0xff; 8]);
    for count in [3, u64::MAX] {
        assert_bad(gid::query_table(&Bench::new(table(count)).file, 2));
    }

    let handles = |total: u32| {
        let list = [8_u32.to_ne_bytes(), 9_u32.to_ne_bytes()].concat();
        Bench::new(
            Script::new()
                .replying("0/1:1", total.to_ne_bytes())
                .replying("0/1:2", list),
        )
    };
    assert_eq!(
        device::info_handles(&handles(2).file, 4, 5).unwrap(),
        [8, 9]
    );
    assert_bad(device::info_handles(&handles(6).file, 4, 5));

    let completion = ib_uverbs_wc {
        wr_id: 11,
        ..ib_uverbs_wc::default()
    };
    let polled = |count: u32| {
        let reply = [
            count.to_ne_bytes().as_slice(),
            &[0; 4],
            completion.as_bytes(),
        ]
        .concat();
        Bench::new(Script::new().replying("21", reply))
    };
    assert_eq!(cq::poll(&polled(1).file, 1, 2).unwrap()[0].wr_id, 11);
    assert_eq!(cq::poll(&polled(0).file, 1, 0).unwrap().len(), 0);
    assert_bad(cq::poll(&polled(3).file, 1, 2));
}

#[test]
fn an_empty_gid_slot_is_no_error() {
    let bench = Bench::new(Script::new().refusing("ioctl 0/6", Errno::NODATA));
    assert_eq!(gid::query_entry(&bench.file, 1, 4).unwrap(), None);
    let bench = Bench::new(Script::new().refusing("ioctl 0/6", Errno::INVAL));
    let error = gid::query_entry(&bench.file, 1, 4).unwrap_err();
    assert_eq!(error.to_string(), "query_gid: EINVAL (port 1, gid_index 4)");
}

#[test]
fn the_longer_port_reply_knows_faster_speeds() {
    let mut reply = [0_u8; 48];
    reply[26] = 4;
    reply[35] = 128;
    let bench = Bench::new(Script::new().replying("0/2:1", reply));
    let attr = device::query_port(&bench.file, 1).unwrap();
    assert_eq!(attr.active_speed, LinkSpeed::Ndr);
    reply[44..].copy_from_slice(&256_u32.to_ne_bytes());
    let bench = Bench::new(Script::new().replying("0/2:1", reply));
    assert_eq!(
        device::query_port(&bench.file, 1).unwrap().active_speed,
        LinkSpeed::Xdr
    );
    assert!(device::query_port(&bench.file, 256).is_err());
}

#[test]
fn a_queue_pair_describes_itself() {
    let mut reply = ib_uverbs_query_qp_resp {
        qp_state: 3,
        sq_psn: 77,
        sq_sig_all: 1,
        alt_port_num: 2,
        ..ib_uverbs_query_qp_resp::default()
    };
    reply.dest.is_global = 1;
    reply.dest.sgid_index = 5;
    let bench = Bench::new(Script::new().replying("25", reply.as_bytes()));
    let info = qp::query(&bench.file, 1, QpAttrMask::STATE).unwrap();
    assert_eq!(
        (info.state, info.sq_psn, info.sig_mode),
        (QpState::ReadyToSend, Psn::from_raw(77), SigMode::All)
    );
    assert_eq!(info.av.grh.unwrap().sgid_index, 5);
    assert_eq!((info.alt_path.av.grh, info.alt_path.av.port), (None, 2));
}

#[test]
fn fields_of_events_are_decoded() {
    let raw = ib_uverbs_async_event_desc {
        element: 42,
        event_type: 15,
        reserved: 0,
    };
    let bench = Bench::new(Script::new().replying("read", raw.as_bytes()));
    let event = event::read_async(&bench.file, bench.fd()).unwrap();
    assert_eq!(
        (event.element, event.event),
        (42, AsyncEventType::SrqLimitReached)
    );
    let event = event::read_completion(&bench.file, bench.fd()).unwrap();
    assert_eq!(event.cq_user_handle, 42);
}

#[test]
fn impossible_requests_are_refused_before_the_kernel_sees_them() {
    let bench = Bench::new(Script::new());
    for wqs in [vec![], vec![1, 2, 3], vec![0; 1 << 14]] {
        assert!(ind_table::create(&bench.file, &wqs, &Uhw::NONE).is_err());
    }
    let mut spec = [0_u8; 16];
    for size in [0, 4, 12, 24, 255] {
        spec[4] = size;
        let rule = flow::Create {
            qp: 1,
            kind: flow::Kind::Normal,
            priority: 0,
            port: 1,
            flags: flow::Flags::empty(),
            specs: &spec,
        };
        assert!(
            flow::create(&bench.file, &rule, &Uhw::NONE).is_err(),
            "size {size}"
        );
    }
    assert_eq!(bench.lines(), Vec::<String>::new());
}
