//! A network interface that goes down, and a device that is deleted under an open context.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use uverbs::discover::netlink::Client;
use uverbs::event::{AsyncEventType, EventSource};
use uverbs::link::PortState;
use uverbs::owned::Work;
use uverbs::{Context, ErrorKind};
use verbs_tests::{link, queue_event, until};

use crate::support::kernel_log::{FAILED_REQUEST, excuse};
use crate::support::looped::Looped;

/// The interface of the device under test, and the other end of its wire.
const INTERFACES: [&str; 2] = ["v0", "v1"];

/// How long to wait for events of a context when its device is deleted.
const SOON: Duration = Duration::from_secs(1);

/// Brings the interface up again, however the test ends.
struct Up;

impl Drop for Up {
    fn drop(&mut self) {
        link::set_up(INTERFACES[0], true);
    }
}

/// Traffic is under way when the interface goes down: every request finishes, an event reports it,
/// and once the interface is up again new queue pairs work.
#[test]
fn f03_an_interface_that_goes_down_and_up() {
    excuse(FAILED_REQUEST);
    let context = verbs_tests::open();
    for round in 0..3 {
        let mut looped = Looped::on(&context);
        looped.round_trip(1);
        let up = Up;
        let mut under_way = 0;
        let message = looped.buffers.pop().expect("a buffer");
        looped
            .qp
            .recv(looped.buffers.pop().expect("a buffer"), 1)
            .expect("posted");
        link::set_up(INTERFACES[0], false);
        looped.qp.send(message, 4096, 2).expect("posted");
        under_way += 1;
        for context in 3..6 {
            under_way += usize::from(looped.qp.post(Work::send().user_data(context)).is_ok());
        }
        let mut statuses = Vec::new();
        let since = Instant::now();
        while looped.qp.sends_posted() > 0 {
            let done = looped.finished();
            statuses.push(done.status());
        }
        println!(
            "round {round}: {under_way} sends ended after {:?} as {statuses:?}",
            since.elapsed()
        );
        let event = until("an event about the port", || {
            let event = context
                .async_event(Some(Duration::from_secs(5)))
                .expect("events go on")?;
            (event.event == AsyncEventType::PortError).then_some(event)
        });
        assert_eq!(event.source, EventSource::Port(1));
        assert_ne!(
            context.query_port(1).expect("the port").state,
            PortState::Active
        );
        // What is posted on a dead queue pair is refused or finishes; its memory is returned.
        let left = looped.qp.receives_posted();
        let memory = looped.qp.destroy().expect("destroyed");
        assert!(memory.len() <= left);
        drop(up);
        until("the port is active", || {
            let port = context.query_port(1).expect("the port");
            (port.state == PortState::Active).then_some(())
        });
        until("the port has an address", || {
            let table = context.gid_table().expect("the table");
            table
                .iter()
                .any(|entry| !entry.gid.is_link_local())
                .then_some(())
        });
        Looped::on(&context).round_trip(2);
    }
    assert_eq!(context.leaked(), 0);
}

/// On kernels whose rxe cannot disassociate its users, deleting a device waits until they have
/// closed it. They continue meanwhile without being blocked; the device cannot be opened any more.
#[test]
fn f02_a_device_that_is_deleted_under_an_open_context() {
    let mut client = Client::connect().expect("netlink");
    client
        .add_link("rxe9", "rxe", INTERFACES[1])
        .expect("another device");
    let listed = client.devices().expect("the list");
    let index = listed
        .iter()
        .find(|device| device.name == "rxe9")
        .expect("it is listed")
        .index;
    let context = verbs_tests::open_named("rxe9");
    let pd = context.alloc_pd().expect("a domain");
    let cq = context.create_cq(8).expect("a queue");
    let deleted = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let deleting = scope.spawn(|| {
            let result = Client::connect().and_then(|mut client| client.delete_link(index));
            deleted.store(true, Ordering::Relaxed);
            result
        });
        until("the device can no longer be opened", || {
            let error = Context::open("rxe9").err()?;
            assert!(
                matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::DeviceRemoved | ErrorKind::Other
                ),
                "{error}"
            );
            Some(())
        });
        // A kernel whose rxe disassociates its users notifies them soon; others never do.
        let event = queue_event(&context, Some(SOON));
        println!("FIGURE: the open context was told {event:?}");
        if let Some(event) = event {
            assert_eq!(event.event, AsyncEventType::DeviceFatal);
            // The event comes first, its objects are destroyed after it.
            let error = until("the device is gone", || context.alloc_pd().err());
            assert_eq!(error.kind(), ErrorKind::DeviceRemoved, "{error}");
            let gone = context.async_event(None).expect_err("no event can come");
            assert_eq!(gone.kind(), ErrorKind::DeviceRemoved, "{gone}");
        } else {
            assert!(!deleted.load(Ordering::Relaxed), "nobody was told");
            drop(context.alloc_pd().expect("the context goes on"));
            drop(pd.buffers::<1>(64).expect("memory is registered"));
        }
        let since = Instant::now();
        drop((cq, pd));
        assert_eq!(context.leaked(), 0);
        drop(context);
        assert!(
            since.elapsed() < verbs_tests::DEADLINE,
            "closing took {:?}",
            since.elapsed()
        );
        deleting
            .join()
            .expect("the thread ends")
            .expect("the device is deleted");
        println!(
            "the deletion was done {:?} after the context was closed",
            since.elapsed()
        );
    });
}
