//! Many connections, threads and listeners on few channels.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fake_tests::{Bench, PATIENCE};
use uverbs::cm::{self, ConnectData, RejectReason};

use crate::eventually;
use crate::side::Side;

/// How many threads connect, and how often each.
const CLIENTS: u8 = if cfg!(miri) { 2 } else { 8 };
const EACH: u8 = if cfg!(miri) { 1 } else { 8 };
const ALL: usize = CLIENTS as usize * EACH as usize;

#[test]
fn threads_share_a_channel_and_a_listener() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let accepted = AtomicUsize::new(0);
    let names = Mutex::new(HashSet::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while accepted.load(Ordering::Relaxed) < ALL {
                    let short = Duration::from_millis(20);
                    let Some(request) = listener.accept_timeout(short).unwrap() else {
                        continue;
                    };
                    names.lock().unwrap().insert(request.peer_data().to_vec());
                    let connection = request.accept(server.prepare()).unwrap();
                    accepted.fetch_add(1, Ordering::Relaxed);
                    drop(connection);
                }
            });
        }
        for name in 0..CLIENTS {
            let (client, listener) = (&client, &listener);
            scope.spawn(move || {
                for turn in 0..EACH {
                    let data = ConnectData::new(&[name + 1, turn]).unwrap();
                    let resolved = client.resolve(listener.local_addr()).private_data(data);
                    let connection = resolved.connect(client.prepare()).unwrap();
                    let event = connection.event(Some(PATIENCE)).unwrap();
                    assert_eq!(event, Some(cm::ConnectionEvent::Disconnected));
                }
            });
        }
    });
    assert_eq!(names.into_inner().unwrap().len(), ALL);
    assert_eq!(listener.lost(), 0);
    drop(listener);
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn requests_that_nobody_takes_are_bounded_although_others_read_the_channel() {
    let bench = Bench::newest();
    let server = Side::new(&bench);
    let idle = cm::listen("10.0.0.1:0".parse().unwrap()).channel(&server.channel);
    let idle = idle.backlog(2).build().unwrap();
    let busy = server.listen();
    let (bench, to) = (&bench, idle.local_addr());
    let until_all_wait = Duration::from_millis(if cfg!(miri) { 5000 } else { 200 });
    let ready = &AtomicUsize::new(0);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(move || {
                    let client = Side::new(bench);
                    let (resolved, prepared) = (client.resolve(to), client.prepare());
                    ready.fetch_add(1, Ordering::Relaxed);
                    let refused = resolved.connect(prepared).unwrap_err();
                    refused.cause.reason()
                })
            })
            .collect();
        // Waits on the channel, and so reads what is for the other listener.
        while ready.load(Ordering::Relaxed) < waiting.len() {
            let moment = Duration::from_millis(20);
            assert!(busy.accept_timeout(moment).unwrap().is_none());
        }
        assert!(busy.accept_timeout(until_all_wait).unwrap().is_none());
        assert!(bench.fake.connection_ids() <= 2 + 6 + 4);
        drop(idle);
        for refused in waiting {
            assert_eq!(refused.join().unwrap(), Some(RejectReason::Consumer));
        }
    });
}
