//! Kernels that lie: replies that are not written, and events that cannot be.

use std::sync::Arc;

use fake_tests::Bench;
use fake_tests::connections::{at, connected, listen, next, resolve};
use uverbs_core::cm::{self, EventKind, EventStatus, PortSpace};
use uverbs_core::error::{Errno, ErrorKind};
use uverbs_core::types::{QpState, QpType};
use uverbs_fake::{Effect, Profile, When};
use uverbs_uapi::rdma_user_cm::RDMA_USER_CM_CMD_GET_EVENT;

use crate::errno;

#[test]
fn f07_replies_that_are_not_written_are_bad_replies() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    let id = resolve(&file, 1, PortSpace::Tcp, 1).unwrap();
    bench.inject(When::Always, Effect::Pretend);
    let failures = [
        cm::create_id(&file, 1, PortSpace::Tcp, QpType::Rc).unwrap_err(),
        cm::destroy_id(&file, id).unwrap_err(),
        cm::query_route(&file, id).unwrap_err(),
        cm::query_addresses(&file, id).unwrap_err(),
        cm::query_gids(&file, id).unwrap_err(),
        cm::query_paths(&file, id).unwrap_err(),
        cm::query_services(&file, id).unwrap_err(),
        cm::init_qp_attr(&file, id, QpState::Init).unwrap_err(),
        cm::get_event(&file).unwrap_err(),
        cm::join_multicast(&file, id, 1, at(0), cm::MulticastJoin::Full).unwrap_err(),
        cm::leave_multicast(&file, id).unwrap_err(),
        cm::migrate_id(&file, &file, id).unwrap_err(),
    ];
    for failure in failures {
        assert_eq!(failure.kind(), ErrorKind::BadReply, "{failure}");
    }
}

#[test]
fn f09_an_event_is_decoded_whatever_it_says() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    let garbage = |byte: u8| {
        let rewrite = Arc::new(move |_: u16, bytes: &mut [u8]| {
            // All but uid and id; the length of the private data becomes the greatest.
            bytes.iter_mut().skip(12).for_each(|to| *to = byte);
        });
        bench.inject(
            When::Cm(RDMA_USER_CM_CMD_GET_EVENT),
            Effect::Rewrite(rewrite),
        );
    };
    let id = cm::create_id(&file, 3, PortSpace::Tcp, QpType::Rc).unwrap();
    let soon = std::time::Duration::from_secs(1);
    cm::resolve_address(&file, id, None, at(1), soon).unwrap();
    garbage(0x4d);
    let event = cm::get_event(&file).unwrap();
    assert!(matches!(event.kind, EventKind::Unknown(_)));
    assert_eq!((event.uid, event.id), (3, id));
    assert_eq!(event.outcome(), EventStatus::Other(0x4d4d_4d4d));
    assert_eq!(event.connection().private_data.as_bytes().len(), 0x4d);
    assert_eq!(event.datagram().private_data.as_bytes(), [0x4d; 0x4d]);
    cm::resolve_route(&file, id, soon).unwrap();
    bench.fake.clear_faults();
    garbage(0xff);
    // A kind that is not written cannot be told from this one.
    assert_eq!(
        cm::get_event(&file).unwrap_err().kind(),
        ErrorKind::BadReply
    );
}

#[test]
fn f11_a_signal_does_not_cost_an_event() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    let id = cm::create_id(&file, 3, PortSpace::Tcp, QpType::Rc).unwrap();
    let soon = std::time::Duration::from_secs(1);
    cm::resolve_address(&file, id, None, at(1), soon).unwrap();
    let now = bench.fake.calls();
    bench.inject(When::Call(now), Effect::Fail(Errno::INTR));
    assert_eq!(next(&file, EventKind::AddressResolved).unwrap().id, id);
    assert_eq!(bench.fake.calls(), now + 2);
}

#[test]
fn f10_any_errno_of_any_command_is_reported_with_its_operation() {
    let bench = Bench::newest();
    let (server, client) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let (_, port) = listen(&server, 1, PortSpace::Tcp, 8).unwrap();
    let start = bench.fake.calls();
    connected(&client, &server, port, 17).unwrap();
    let seen = bench.fake.seen();
    let commands = bench.fake.calls() - start;
    drop((server, client));
    for at in 0..commands {
        for failure in [
            Errno::NOMEM,
            Errno::NODEV,
            Errno::NXIO,
            Errno::FAULT,
            Errno::ACCESS,
        ] {
            let (server, client) = (
                bench.connection_manager().unwrap(),
                bench.connection_manager().unwrap(),
            );
            let (_, port) = listen(&server, 1, PortSpace::Tcp, 8).unwrap();
            let struck = bench.fake.calls() + at;
            bench.inject(When::Call(struck), Effect::Fail(failure));
            let error = connected(&client, &server, port, 17).unwrap_err();
            assert_eq!(error.errno(), Some(failure), "{error}");
            let call = seen[usize::try_from(start + at).unwrap()].call;
            assert_eq!(call.operation(), Some(error.op()));
            bench.fake.clear_faults();
        }
    }
    assert_eq!(bench.fake.connection_ids(), 0);
}

#[test]
fn f19_another_user_has_to_open_it_again() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    let id = resolve(&file, 1, PortSpace::Tcp, 1).unwrap();
    bench.fake.become_profile(Profile::v7_2().without_write());
    let error = cm::disconnect(&file, id).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.known_hint().unwrap().contains("open it afterwards"));
    assert_eq!(errno(cm::get_event(&file)), Errno::ACCESS);
}
