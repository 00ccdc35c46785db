//! Commands in wrong orders: the errno of the kernel, and the id as it was.

use std::time::Duration;

use fake_tests::Bench;
use fake_tests::connections::{at, listen, next, params, resolve};
use uverbs_core::cm::{self, EventKind, PortSpace, PrivateData, RejectReason};
use uverbs_core::error::{Errno, ErrorKind};
use uverbs_core::types::{AckTimeout, AsyncEventType, Ece, QpState, QpType};
use uverbs_fake::Profile;
use uverbs_uapi::ib_user_sa::{IB_PATH_BIDIRECTIONAL, IB_PATH_GMP, IB_PATH_PRIMARY};

use crate::errno;

const SOON: Duration = Duration::from_secs(1);

#[test]
fn an_idle_id_accepts_only_addresses() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    let id = cm::create_id(&file, 1, PortSpace::Tcp, QpType::Rc).unwrap();
    let ours = params(17, &[]).unwrap();
    let none = PrivateData::EMPTY;
    let came = AsyncEventType::CommunicationEstablished;
    for error in [
        errno(cm::resolve_route(&file, id, SOON)),
        errno(cm::connect(&file, id, &ours, Ece::default())),
        errno(cm::accept(&file, id, 1, &ours, Ece::default())),
        errno(cm::establish(&file, id)),
        errno(cm::reject(&file, id, RejectReason::Consumer, &none)),
        errno(cm::disconnect(&file, id)),
        errno(cm::init_qp_attr(&file, id, QpState::Init)),
        errno(cm::notify(&file, id, came)),
        errno(cm::join_multicast(
            &file,
            id,
            1,
            at(0),
            cm::MulticastJoin::Full,
        )),
    ] {
        assert_eq!(error, Errno::INVAL);
    }
    assert_eq!(cm::query_route(&file, id).unwrap().device, None);
    cm::bind(&file, id, at(0)).unwrap();
    assert_eq!(errno(cm::bind(&file, id, at(0))), Errno::INVAL);
    cm::listen(&file, id, 1).unwrap();
    assert_eq!(errno(cm::listen(&file, id, 1)), Errno::INVAL);
    assert_eq!(
        errno(cm::resolve_address(&file, id, None, at(1), SOON)),
        Errno::INVAL
    );
}

#[test]
fn every_command_names_an_id_of_its_file() {
    let bench = Bench::newest();
    let (file, other) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let foreign = resolve(&other, 1, PortSpace::Tcp, 1).unwrap();
    let ours = params(17, &[]).unwrap();
    for (id, wanted) in [(foreign, Errno::INVAL), (77, Errno::NOENT)] {
        for error in [
            errno(cm::bind(&file, id, at(0))),
            errno(cm::listen(&file, id, 1)),
            errno(cm::resolve_address(&file, id, None, at(1), SOON)),
            errno(cm::resolve_route(&file, id, SOON)),
            errno(cm::query_route(&file, id)),
            errno(cm::query_paths(&file, id)),
            errno(cm::connect(&file, id, &ours, Ece::default())),
            errno(cm::accept(&file, id, 1, &ours, Ece::default())),
            errno(cm::disconnect(&file, id)),
            errno(cm::init_qp_attr(&file, id, QpState::Init)),
            errno(cm::set_type_of_service(&file, id, 1)),
            errno(cm::destroy_id(&file, id)),
        ] {
            assert_eq!(error, wanted);
        }
    }
    cm::connect(&other, foreign, &ours, Ece::default()).unwrap();
}

#[test]
fn a_route_needs_time_and_a_connect_may_be_repeated_with_less_data() {
    let bench = Bench::newest();
    let (file, server) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let (_, port) = listen(&server, 1, PortSpace::Tcp, 8).unwrap();
    let id = cm::create_id(&file, 1, PortSpace::Tcp, QpType::Rc).unwrap();
    cm::resolve_address(&file, id, None, at(port), Duration::ZERO).unwrap();
    next(&file, EventKind::AddressResolved).unwrap();
    assert_eq!(
        errno(cm::resolve_route(&file, id, Duration::ZERO)),
        Errno::INVAL
    );
    // Part of a millisecond is a whole one.
    cm::resolve_route(&file, id, Duration::from_nanos(1)).unwrap();
    next(&file, EventKind::RouteResolved).unwrap();
    assert_eq!(cm::query_paths(&file, id).unwrap().len(), 1);
    let long = params(17, &[1; PrivateData::CONNECT + 1]).unwrap();
    let refused = cm::connect(&file, id, &long, Ece::default());
    assert_eq!(errno(refused), Errno::INVAL);
    cm::connect(&file, id, &params(17, &[]).unwrap(), Ece::default()).unwrap();
    let passive = next(&server, EventKind::ConnectRequest).unwrap().id;
    let long = PrivateData::new(
        uverbs_core::Op::CmReject,
        &[1; PrivateData::REJECT + 1],
        PrivateData::MOST,
    );
    let refused = cm::reject(&server, passive, RejectReason::Consumer, &long.unwrap());
    assert_eq!(errno(refused), Errno::INVAL);
    cm::reject(
        &server,
        passive,
        RejectReason::Consumer,
        &PrivateData::EMPTY,
    )
    .unwrap();
    next(&file, EventKind::Rejected).unwrap();
    // An id cannot connect twice.
    let again = cm::connect(&file, id, &params(17, &[]).unwrap(), Ece::default());
    assert_eq!(errno(again), Errno::INVAL);
}

#[test]
fn options_are_refused_in_the_wrong_state() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    let id = cm::create_id(&file, 1, PortSpace::Tcp, QpType::Rc).unwrap();
    cm::set_type_of_service(&file, id, 0x28).unwrap();
    cm::set_reuse_address(&file, id, true).unwrap();
    cm::set_address_family_only(&file, id, true).unwrap();
    cm::set_ack_timeout(&file, id, AckTimeout::from_raw(14)).unwrap();
    cm::resolve_address(&file, id, None, at(1), SOON).unwrap();
    next(&file, EventKind::AddressResolved).unwrap();
    assert_eq!(
        errno(cm::set_address_family_only(&file, id, false)),
        Errno::INVAL
    );
    assert_eq!(errno(cm::set_reuse_address(&file, id, false)), Errno::INVAL);
    let path = cm::PathRecord {
        flags: 1,
        record: [0; 64],
    };
    assert_eq!(errno(cm::set_paths(&file, id, &[path])), Errno::INVAL);
    let whole = cm::PathRecord {
        flags: IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL,
        ..path
    };
    cm::set_paths(&file, id, &[whole]).unwrap();
    next(&file, EventKind::RouteResolved).unwrap();
    let datagrams = cm::create_id(&file, 1, PortSpace::Udp, QpType::Ud).unwrap();
    let refused = cm::set_ack_timeout(&file, datagrams, AckTimeout::from_raw(14));
    assert_eq!(errno(refused), Errno::INVAL);
}

#[test]
fn what_the_kernel_would_not_understand_is_refused_before() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    let before = bench.fake.calls();
    let silent = cm::create_id(&file, 0, PortSpace::Tcp, QpType::Rc).unwrap_err();
    assert_eq!(
        (silent.kind(), silent.errno()),
        (ErrorKind::InvalidInput, None)
    );
    let strange = cm::create_id(&file, 1, PortSpace::from_raw(7), QpType::Rc).unwrap_err();
    assert_eq!(strange.kind(), ErrorKind::InvalidInput);
    let ours = params(17, &[]).unwrap();
    let silent = cm::accept(&file, 0, 0, &ours, Ece::default()).unwrap_err();
    assert_eq!(
        (silent.kind(), silent.errno()),
        (ErrorKind::InvalidInput, None)
    );
    let ib = cm::CmAddress::Ib(cm::IbAddress::default());
    assert!(cm::bind_ip(&file, 0, ib).unwrap_err().is_unsupported());
    assert!(cm::write_event(&file, 0, EventKind::Established, 0, 0).is_err());
    assert!(cm::resolve_service(&file, 0, None, None).is_err());
    let long = "x".repeat(64);
    let limit = cm::resolve_service(&file, 0, None, Some(&long)).unwrap_err();
    assert_eq!(limit.kind(), ErrorKind::LimitExceeded);
    assert_eq!(bench.fake.calls(), before);
}

#[test]
fn older_kernels_lack_two_commands() {
    for (profile, has_them) in [(Profile::v6_12(), false), (Profile::v7_2(), true)] {
        let bench = Bench::new(profile, uverbs_core::CommandPath::Auto);
        let file = bench.connection_manager().unwrap();
        let id = resolve(&file, 5, PortSpace::Tcp, 1).unwrap();
        let resolved = cm::resolve_service(&file, id, Some(1), None).unwrap_err();
        assert_eq!(resolved.errno(), Some(Errno::INVAL));
        assert_eq!(resolved.is_unsupported(), !has_them);
        let bound = cm::create_id(&file, 6, PortSpace::Tcp, QpType::Rc).unwrap();
        cm::bind(&file, bound, at(0)).unwrap();
        let service = cm::resolve_service(&file, bound, Some(1), Some("disk")).unwrap_err();
        assert!(service.is_unsupported(), "{service}");
        let services = cm::query_services(&file, id).unwrap_err();
        let written = cm::write_event(&file, id, EventKind::User, -5, 0x0102_0304_0506_0708);
        if has_them {
            // RoCE has no subnet administrator.
            assert_eq!(service.errno(), Some(Errno::OPNOTSUPP));
            assert_eq!(services.errno(), Some(Errno::NODATA));
            written.unwrap();
            let event = next(&file, EventKind::User).unwrap();
            assert_eq!((event.uid, event.status), (5, -5));
            assert_eq!(event.argument(), 0x0102_0304_0506_0708);
            let refused = cm::write_event(&file, 77, EventKind::User, 0, 0);
            assert_eq!(errno(refused), Errno::NOENT);
        } else {
            assert_eq!(service.errno(), Some(Errno::INVAL));
            assert_eq!(services.errno(), Some(Errno::NOSYS));
            assert!(written.unwrap_err().is_unsupported());
        }
    }
}
