//! A kernel whose events cannot be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fake_tests::connections::params;
use fake_tests::{Bench, PATIENCE};
use uverbs::cm::{EventKind, PortSpace};
use uverbs_core::types::Ece;
use uverbs_fake::{Effect, When};
use uverbs_uapi::rdma_user_cm::RDMA_USER_CM_CMD_GET_EVENT;

use crate::eventually;
use crate::side::{Side, connected, request};

/// Where an event has its parts, in bytes.
const UID: std::ops::Range<usize> = 0..8;
const ID: std::ops::Range<usize> = 8..12;
const KIND: std::ops::Range<usize> = 12..16;
const REST: std::ops::RangeFrom<usize> = 16..;

type Spoil = fn(&mut [u8]);

fn is_request(event: &[u8]) -> bool {
    event[KIND] == EventKind::ConnectRequest.raw().to_ne_bytes()
}

const SPOILS: [(&str, Spoil); 8] = [
    ("nobody's", |event| event[UID].fill(0xee)),
    ("of no number", |event| event[UID].fill(0)),
    ("unknown", |event| {
        event[KIND].copy_from_slice(&77_u32.to_ne_bytes());
    }),
    ("a request that is none", |event| {
        let request = EventKind::ConnectRequest.raw();
        event[KIND].copy_from_slice(&request.to_ne_bytes());
    }),
    ("a request with an id in use", |event| {
        if is_request(event) {
            event[ID].fill(0);
        }
    }),
    ("another id's", |event| event[ID].fill(0x11)),
    ("full of nonsense", |event| event[REST].fill(0xff)),
    ("not written", |event| event.fill(0xff)),
];

#[test]
fn f17_impossible_events_are_errors_and_block_no_others() {
    let short = Duration::from_millis(20);
    for (what, spoil) in SPOILS {
        let bench = Bench::newest();
        let (client, server) = (Side::new(&bench), Side::new(&bench));
        let listener = server.listen();
        let rewrite = Arc::new(move |_: u16, bytes: &mut [u8]| {
            if bytes.len() > REST.start {
                spoil(bytes);
            }
        });
        let when = When::Cm(RDMA_USER_CM_CMD_GET_EVENT);
        bench.inject(when, Effect::Rewrite(rewrite));
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if let Ok(Some(request)) = listener.accept_timeout(short * 3) {
                    drop(request.timeout(short).accept(server.prepare()));
                }
            });
            let connector = client.connector(listener.local_addr()).timeout(short);
            if let Ok(resolved) = connector.resolve() {
                drop(resolved.connect(client.prepare()));
            }
        });
        assert!(start.elapsed() < PATIENCE, "{what}");
        bench.fake.clear_faults();
        // Whatever the kernel said, the channels go on.
        while let Ok(Some(_)) = listener.accept_timeout(short) {}
        let again = server.listen();
        drop(connected(&client, &server, &again));
        drop((listener, again));
    }
}

#[test]
fn f17_a_request_that_is_read_after_its_listener_has_gone_is_rejected() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let by_hand = client.channel.create_id(PortSpace::Tcp).unwrap();
    by_hand
        .resolve_address(None, listener.local_addr(), PATIENCE)
        .unwrap();
    client.channel.event(Some(PATIENCE)).unwrap();
    by_hand.resolve_route(PATIENCE).unwrap();
    client.channel.event(Some(PATIENCE)).unwrap();
    by_hand
        .connect(&params(3, &[]).unwrap(), Ece::default())
        .unwrap();
    // In the table, and taken by nobody.
    let other = server.listen();
    assert!(
        other
            .accept_timeout(Duration::from_millis(20))
            .unwrap()
            .is_none()
    );
    drop(listener);
    let refused = client.channel.event(Some(PATIENCE)).unwrap().unwrap();
    assert_eq!(refused.event.kind, EventKind::Rejected);
    drop((by_hand, other));
    eventually("ids are left", || bench.fake.connection_ids() == 0);
    let listener = server.listen();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(request(&listener)));
        let resolved = client.resolve(listener.local_addr());
        assert!(resolved.connect(client.prepare()).is_err());
    });
}
