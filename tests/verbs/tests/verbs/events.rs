//! Asynchronous events of ports, tables and queue pairs.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use uverbs::attr::QpAttr;
use uverbs::event::{AsyncEvent, AsyncEventType, EventSource};
use uverbs::link::PortState;
use uverbs::memory::RemoteKey;
use uverbs::{
    AccessFlags, Context, ErrorKind, Operation, Payload, QpState, QpType, SendRequest, WcStatus,
};
use verbs_tests::{
    DEADLINE, Driver, Pair, Registered, driver, kernel, link, next, open, queue_event, raw,
    requests_fail,
};

const SHORT: Option<Duration> = Some(Duration::from_millis(100));

/// The network interface of the device.
fn interface(context: &Context) -> String {
    let path = format!(
        "/sys/class/infiniband/{}/ports/1/gid_attrs/ndevs/0",
        context.name()
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.trim().to_owned()
}

/// Waits for an event of this kind; others may come before it.
fn wait_for(context: &Context, kind: AsyncEventType) -> AsyncEvent {
    let since = Instant::now();
    let mut others = Vec::new();
    while let Some(event) = context.async_event(Some(DEADLINE)).unwrap() {
        if event.event == kind {
            return event;
        }
        others.push(event);
        assert!(since.elapsed() < DEADLINE, "no {kind}, but {others:?}");
    }
    panic!("no {kind}, but {others:?}");
}

#[test]
fn no_event_is_no_error() {
    let context = open();
    assert_eq!(queue_event(&context, Some(Duration::ZERO)), None);
    let error = context.try_async_event().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn roce_f03_a_port_goes_down_and_comes_back() {
    let context = open();
    let name = interface(&context);
    let before = context.gid_table().unwrap().len();
    // Other tests need the addresses again.
    let keep = format!("/proc/sys/net/ipv6/conf/{name}/keep_addr_on_down");
    std::fs::write(&keep, "1").unwrap_or_else(|error| panic!("{keep}: {error}"));
    link::set_up(&name, false);
    let down = wait_for(&context, AsyncEventType::PortError);
    assert_eq!(down.source, EventSource::Port(1));
    assert_ne!(context.query_port(1).unwrap().state, PortState::Active);
    link::set_up(&name, true);
    let up = wait_for(&context, AsyncEventType::PortActive);
    assert_eq!(up.source, EventSource::Port(1));
    verbs_tests::until("an active port", || {
        (context.query_port(1).unwrap().state == PortState::Active).then_some(())
    });
    verbs_tests::until("the addresses of before", || {
        (context.gid_table().unwrap().len() >= before).then_some(())
    });
}

#[test]
fn roce_every_open_context_hears_of_a_gid_change() {
    let (one, two) = (open(), open());
    let name = interface(&one);
    let address = Ipv4Addr::new(10, 77, 0, 1);
    let before = one.gid_table().unwrap();
    link::set_address(&name, address, true);
    for context in [&one, &two] {
        let event = wait_for(context, AsyncEventType::GidChange);
        assert_eq!(event.source, EventSource::Port(1));
    }
    let has = |context: &Context| {
        let table = context.gid_table().unwrap();
        table.iter().any(|entry| entry.gid == address.into())
    };
    verbs_tests::until("the new GID", || has(&one).then_some(()));
    link::set_address(&name, address, false);
    wait_for(&two, AsyncEventType::GidChange);
    verbs_tests::until("the GID's end", || (!has(&one)).then_some(()));
    assert_eq!(one.gid_table().unwrap(), before);
}

#[test]
fn an_access_violation_is_reported_to_the_owner_of_the_memory() {
    requests_fail();
    let (one, other) = (open(), open());
    let mut pair = Pair::between(&one, &other, QpType::Rc, |builder| {
        builder
            .user_data(0x7777)
            .access(AccessFlags::REMOTE_WRITE | AccessFlags::LOCAL_WRITE)
    });
    let memory = Registered::remote_all(&pair.b.pd, 64);
    let wrong = memory.remote_by(0, RemoteKey::from_raw(memory.mr().rkey().raw() ^ 0x33));
    let bytes: [&[u8]; 1] = [b"break in"];
    let request = SendRequest::new(Operation::Write(wrong), Payload::Inline(&bytes));
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::RemoteAccess);
    assert_eq!(queue_event(&one, SHORT), None);
    match queue_event(&other, SHORT) {
        Some(event) => {
            assert_eq!(event.event, AsyncEventType::QpAccessError);
            let qp_num = pair.b.qp.qp_num();
            let source = EventSource::QueuePair {
                qp_num,
                user_data: 0x7777,
            };
            assert_eq!(event.source, source);
            assert_eq!(pair.b.qp.destroy().unwrap().asynchronous, 1);
        }
        // rxe reports it only in kernels later than 6.12.
        None => assert!(
            driver() == Driver::Rxe && kernel() <= (6, 12),
            "no event on {:?}",
            kernel()
        ),
    }
}

#[test]
fn the_last_receive_of_a_queue_pair_with_a_shared_queue() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(16).unwrap();
    let srq = pd.create_srq(8, 1).unwrap();
    let builder = pd.queue_pair(QpType::Rc, &cq, &cq);
    let prepared = builder.srq(&srq).user_data(0x88).build().unwrap();
    let own = prepared.endpoint();
    let mut qp = prepared.handshake(own).unwrap();
    qp.modify(&QpAttr::to(QpState::Error)).unwrap();
    match queue_event(&context, SHORT) {
        Some(event) => {
            assert_eq!(event.event, AsyncEventType::LastWqeReached);
            let source = EventSource::QueuePair {
                qp_num: qp.qp_num(),
                user_data: 0x88,
            };
            assert_eq!(event.source, source);
        }
        None => assert!(
            driver() == Driver::Rxe && kernel() < (6, 3),
            "no event on {:?}",
            kernel()
        ),
    }
}

#[test]
fn rxe_a_drained_send_queue() {
    let mut pair = Pair::with(QpType::Rc, |builder| builder.user_data(0x99));
    let drain = QpAttr::to(QpState::SendQueueDrained).sqd_async_notify(true);
    pair.a.qp.modify(&drain).unwrap();
    let event = wait_for(&pair.a.context, AsyncEventType::SendQueueDrained);
    let source = EventSource::QueuePair {
        qp_num: pair.a.qp.qp_num(),
        user_data: 0x99,
    };
    assert_eq!(event.source, source);
    assert!(!pair.a.qp.query().unwrap().sq_draining);
    assert_eq!(pair.a.qp.destroy().unwrap().asynchronous, 1);
}

#[test]
fn rxe_f29_an_event_of_a_queue_pair_that_is_gone_is_reported_as_gone() {
    let mut pair = Pair::new(QpType::Rc);
    let context = pair.a.context.clone();
    let drain = QpAttr::to(QpState::SendQueueDrained).sqd_async_notify(true);
    pair.a.qp.modify(&drain).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    // The event is there and nobody reads it: the kernel discards it.
    let counts = pair.a.qp.destroy().unwrap();
    assert_eq!(counts.asynchronous, 0);
    match queue_event(&context, SHORT) {
        None => {}
        Some(event) => assert_eq!(event.source, EventSource::Gone),
    }
}

#[test]
fn roce_a_thread_that_waits_is_woken() {
    let context = open();
    let name = interface(&context);
    let waiting = context.clone();
    let waiter = std::thread::spawn(move || waiting.async_event(Some(DEADLINE)).unwrap());
    std::thread::sleep(Duration::from_millis(50));
    let address = Ipv4Addr::new(10, 78, 0, 1);
    link::set_address(&name, address, true);
    let event = waiter.join().unwrap();
    link::set_address(&name, address, false);
    assert_eq!(event.map(|event| event.source), Some(EventSource::Port(1)));
}
