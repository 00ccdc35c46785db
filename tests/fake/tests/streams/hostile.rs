//! Peers that break the rules, which are connections of a plain hub, and wakers that do.

use std::io::{self, Read, Write};
use std::iter;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use fake_tests::{Bench, PATIENCE};
use uverbs::cm::{self, AcceptData, CmError, ConnectData, RejectData, RejectReason};
use uverbs::hub::{Connection, Events, Hub};
use uverbs::stream::{Stream, StreamError, StreamListener, Violation};

use crate::{End, accept, connector, eventually};

/// Says that it takes two messages of 64 bytes.
const HELLO: [u8; 16] = *b"uvST\x01\0\0\x02\0\0\0\x40\0\0\0\0";
const LAST: u32 = 1 << 16;

fn hub(end: &End) -> Hub {
    let hub = end.pd.hub().buffer_size(64);
    hub.queue_pairs(|queue| queue.gid_index(1)).build().unwrap()
}

fn ask(
    end: &End,
    hub: &Hub,
    listener: &StreamListener,
    hello: &[u8],
) -> Result<Connection, CmError> {
    let connector = connector(listener.local_addr()).channel(&end.channel);
    let resolved = connector.resolve().unwrap();
    let resolved = resolved.private_data(ConnectData::new(hello).unwrap());
    hub.prepare().unwrap().connect_to(resolved)
}

/// A stream whose peer does what it likes.
fn connected(end: &End, hub: &Hub, listener: &StreamListener) -> (Connection, Stream) {
    thread::scope(|scope| {
        let passive = scope.spawn(|| accept(listener));
        let peer = ask(end, hub, listener, &HELLO).unwrap();
        (peer, passive.join().unwrap())
    })
}

fn say(hub: &Hub, peer: &Connection, bytes: &[u8], imm: Option<u32>) {
    let mut buffer = hub.buffer().unwrap();
    buffer[..bytes.len()].copy_from_slice(bytes);
    let said = match imm {
        Some(imm) => peer.send_imm(buffer, bytes.len(), imm),
        None => peer.send(buffer, bytes.len()),
    };
    drop(said.wait(PATIENCE).unwrap());
}

#[test]
fn broken_rules_end_the_stream_after_what_had_arrived() {
    type Said<'s> = &'s [(&'s [u8], Option<u32>)];
    let cases: [(Said<'_>, &[u8], Violation); 11] = [
        (
            &[(b"good", Some(0)), (b"x", None)],
            b"good",
            Violation::Header,
        ),
        (&[(b"", None)], b"", Violation::Header),
        (&[(b"x", Some(1 << 17))], b"", Violation::Header),
        (&[(b"x", Some(u32::MAX))], b"", Violation::Header),
        (&[(b"", Some(0))], b"", Violation::Empty),
        // Nothing was sent that these could be for.
        (
            &[(b"good", Some(0)), (b"", Some(1))],
            b"good",
            Violation::Grant,
        ),
        (&[(b"x", Some(0xffff))], b"", Violation::Grant),
        (
            &[
                (b"a", Some(0)),
                (b"b", Some(0)),
                (b"c", Some(0)),
                (b"d", Some(0)),
                (b"e", Some(0)),
            ],
            b"abcd",
            Violation::Credit,
        ),
        // What comes after the end is not read: the end was.
        (
            &[(b"a", Some(LAST)), (b"b", Some(0))],
            b"a",
            Violation::AfterEnd,
        ),
        (
            &[(b"", Some(LAST)), (b"", Some(LAST))],
            b"",
            Violation::AfterEnd,
        ),
        (
            &[(b"a", Some(0)), (b"", Some(LAST)), (b"", Some(0))],
            b"a",
            Violation::Empty,
        ),
    ];
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let (hub, listener) = (hub(&client), server.listen());
    for (said, good, violation) in cases {
        let (peer, mut stream) = connected(&client, &hub, &listener);
        for (bytes, imm) in said {
            say(&hub, &peer, bytes, *imm);
        }
        // Completions are taken when somebody waits, so all of it is there at once.
        let mut read = vec![0; good.len()];
        stream.read_exact(&mut read).unwrap();
        assert_eq!(read, good);
        let ended = said
            .iter()
            .any(|(_, imm)| imm.is_some_and(|imm| imm == LAST));
        let end = stream.recv();
        if ended {
            assert!(matches!(end, Ok(None)), "{end:?}");
        } else {
            let error = end.unwrap_err();
            assert!(
                matches!(error, StreamError::Violation(found) if found == violation),
                "{error}, not {violation}"
            );
        }
        let refused = io::Error::from(stream.shutdown().unwrap_err());
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{refused}");
        // The peer is told.
        while let Ok(message) = peer.recv().wait(PATIENCE) {
            drop(message);
        }
        assert!(peer.over().is_some());
    }
    // Others are as well as before.
    let (here, there) = crate::connected(&client, &listener);
    (&here).write_all(b"well").unwrap();
    assert_eq!(&there.recv().unwrap().unwrap()[..], b"well");
    drop((here, there, listener));
    server.is_clean();
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn a_peer_gets_what_it_has_credits_for_and_no_more() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let (hub, listener) = (hub(&client), server.listen());
    let (peer, stream) = connected(&client, &hub, &listener);
    stream.set_write_timeout(Some(crate::MOMENT));
    let full = (&stream).write_all(&[1; 1000]).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::TimedOut);
    for _ in 0..2 {
        let message = peer.recv().wait(PATIENCE).unwrap();
        assert_eq!((message.len(), message.imm()), (64, Some(0)));
    }
    assert!(peer.recv().wait(crate::MOMENT).is_err());
    // One message that says everything at once.
    say(&hub, &peer, b"last", Some(LAST | 2));
    (&stream).write_all(&[2; 128]).unwrap();
    assert_eq!(&stream.recv().unwrap().unwrap()[..], b"last");
    assert!(stream.recv().unwrap().is_none());
}

#[test]
fn clients_with_another_protocol_are_refused() {
    let mut other = HELLO;
    other[4] = 2;
    let mut no_credit = HELLO;
    no_credit[7] = 0;
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let (hub, listener) = (hub(&client), server.listen());
    thread::scope(|scope| {
        let none = scope.spawn(|| listener.accept_timeout(PATIENCE / 5).unwrap());
        for hello in [&other[..], &no_credit, b"GET / HTTP/1.1", b""] {
            let CmError::Rejected(rejection) = ask(&client, &hub, &listener, hello).unwrap_err()
            else {
                panic!("another error")
            };
            assert_eq!(rejection.reason(), Some(RejectReason::Consumer));
            // Which version there is.
            assert_eq!(rejection.private_data()[..5], HELLO[..5]);
        }
        assert!(none.join().unwrap().is_none());
    });
    assert_eq!(listener.refused(), 4);
}

#[test]
fn listeners_with_another_protocol_are_reported() {
    let mut other = HELLO;
    other[4] = 9;
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let hub = hub(&server);
    let listener = cm::listen("10.0.0.1:0".parse().unwrap()).channel(&server.channel);
    let listener = listener.build().unwrap();
    let to = listener.local_addr();
    thread::scope(|scope| {
        scope.spawn(|| {
            let next = || listener.accept_timeout(PATIENCE).unwrap().unwrap();
            for data in [&other[..], b"something"] {
                let request = next().private_data(AcceptData::new(data).unwrap());
                // The client may be gone before it is confirmed.
                drop(hub.prepare().unwrap().accept(request));
            }
            next().reject(RejectData::new(&other).unwrap()).unwrap();
            next().reject(RejectData::EMPTY).unwrap();
        });
        let errors: Vec<_> = (0..4)
            .map(|_| client.streams.connect(connector(to)).unwrap_err())
            .collect();
        assert!(
            matches!(
                errors[..],
                [
                    StreamError::Version(9),
                    StreamError::NotAStream,
                    StreamError::Version(9),
                    StreamError::Connect(CmError::Rejected(_))
                ]
            ),
            "{errors:?}"
        );
    });
    client.is_clean();
}

/// A channel on which nothing happens.
struct Silent;

impl Events for Silent {
    async fn event(&self, _: Option<Duration>) -> uverbs::Result<bool> {
        std::future::pending().await
    }
}

/// A waker that uses a stream.
struct Meddler(Arc<Stream>, mpsc::Sender<()>);

impl Wake for Meddler {
    fn wake(self: Arc<Self>) {
        let _ = (&*self.0).write(&[]);
        let _ = self.1.send(());
    }
}

#[test]
fn a_waker_may_use_the_stream_that_gives_a_buffer_back() {
    // Nothing is sent, or a buffer of others.
    for (is_ours, len) in [(true, 0), (false, 1)] {
        let bench = Bench::newest();
        let (client, server) = (End::new(&bench), End::new(&bench));
        let (here, there) = crate::connected(&client, &server.listen());
        // Receives wait for a buffer.
        let mut kept: Vec<_> = iter::from_fn(|| there.buffer().ok()).collect();
        (&here).write_all(b"x").unwrap();
        let _chunk = there.recv().unwrap();
        let stream = Arc::new(if is_ours { there } else { here });
        let (told, hears) = mpsc::channel();
        let waker = Waker::from(Arc::new(Meddler(Arc::clone(&stream), told)));
        let mut driver = pin!(server.streams.hub().driver().run_async(&Silent));
        let mut cx = Context::from_waker(&waker);
        while driver.as_mut().poll(&mut cx).is_pending() && hears.try_recv().is_ok() {}
        let buffer = kept.pop().unwrap();
        let sends = thread::spawn(move || stream.send(buffer, len));
        hears.recv_timeout(PATIENCE).unwrap();
        assert_eq!(sends.join().unwrap().is_ok(), is_ours);
    }
}
