//! Ends: of one direction, of both, of the peer at any moment, of time.

use std::io::{self, Read, Write};
use std::thread;
use std::time::Instant;

use fake_tests::{Bench, PATIENCE};
use uverbs::ErrorKind;
use uverbs::cm::{CmError, RejectReason};
use uverbs::hub::ConnectionError;
use uverbs::stream::{Stream, StreamError};

use crate::{End, MOMENT, accept, connected, connector, eventually, text};

/// Reads until there is no more; why there is not, if it was not the end.
fn rest(stream: &Stream) -> (Vec<u8>, Result<(), StreamError>) {
    let mut all = Vec::new();
    loop {
        match stream.recv() {
            Ok(Some(chunk)) => all.extend_from_slice(&chunk),
            Ok(None) => return (all, Ok(())),
            Err(error) => return (all, Err(error)),
        }
    }
}

#[track_caller]
fn left(result: Result<(), StreamError>) {
    let error = result.unwrap_err();
    // The other one if something was on its way to it.
    let lost = matches!(
        error,
        StreamError::Lost(ConnectionError::PeerLeft | ConnectionError::Disconnected(_))
    );
    assert!(lost, "{error}");
}

#[test]
fn each_direction_ends_by_itself() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    let (mut here, mut there) = connected(&client, &listener);
    here.write_all(b"request").unwrap();
    here.shutdown().unwrap();
    here.shutdown().unwrap();
    let refused = here.write(b"more").unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
    let mut request = Vec::new();
    there.read_to_end(&mut request).unwrap();
    assert_eq!(request, b"request");
    assert_eq!(there.read(&mut [0; 8]).unwrap(), 0);
    // More than the credits: the side that was shut down still grants.
    let text = text(3000);
    thread::scope(|scope| {
        scope.spawn(|| {
            (&there).write_all(&text).unwrap();
            there.shutdown().unwrap();
        });
        let (answer, end) = rest(&here);
        end.unwrap();
        assert!(answer == text);
    });
    // Both ends are told: now it makes no difference who goes first.
    drop(here);
    assert_eq!(there.read(&mut [0; 8]).unwrap(), 0);
    drop((there, listener));
    client.is_clean();
    server.is_clean();
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn a_lost_peer_is_distinguished_from_a_shutdown_at_any_moment() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    let text = text(1000);
    for moment in [0, 1, 63, 64, 65, 200, 256, 1000] {
        for says_so in [false, true] {
            let (here, there) = connected(&client, &listener);
            let sent = &text[..moment];
            thread::scope(|scope| {
                scope.spawn(move || {
                    (&here).write_all(sent).unwrap();
                    if says_so {
                        here.shutdown().unwrap();
                    }
                    drop(here);
                });
                let (read, end) = rest(&there);
                if says_so {
                    assert!(read == sent, "{moment}");
                    end.unwrap();
                } else {
                    assert!(sent.starts_with(&read), "{moment}");
                    left(end);
                }
            });
            let refused = (&there).write_all(&text).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionReset);
        }
    }
}

/// Reads three bytes at a time: some of these reads end where a message does.
fn rest_slowly(mut stream: &Stream) -> (Vec<u8>, io::Result<()>) {
    let (mut all, mut piece) = (Vec::new(), [0; 3]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return (all, Ok(())),
            Ok(len) => all.extend_from_slice(&piece[..len]),
            Err(error) => return (all, Err(error)),
        }
    }
}

#[test]
fn a_slow_reader_gets_what_had_arrived_when_its_peer_left() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    let text = text(200);
    for (writes, says_so) in [(false, true), (false, false), (true, true), (true, false)] {
        let (here, there) = connected(&client, &listener);
        (&here).write_all(&text[..100]).unwrap();
        // It knows of the first messages alone, and will grant others when it has read them.
        assert_eq!((&there).read(&mut [0]).unwrap(), 1);
        (&here).write_all(&text[100..]).unwrap();
        if says_so {
            here.shutdown().unwrap();
        }
        drop(here);
        thread::sleep(MOMENT * if cfg!(miri) { 100 } else { 1 });
        if writes {
            let refused = (&there).write(b"nobody listens").unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionReset);
        }
        let (read, end) = rest_slowly(&there);
        assert!(
            read == text[1..],
            "{writes} {says_so}: {} bytes",
            read.len()
        );
        assert_eq!(end.is_ok(), says_so, "{end:?}");
    }
}

#[test]
fn blocked_readers_and_writers_end_with_the_connection() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    let (here, there) = connected(&client, &listener);
    // The peer reads nothing: one waits for bytes, one for credits.
    let text = text(4 * 64 + 1);
    thread::scope(|scope| {
        let reader = scope.spawn(|| (&here).read(&mut [0; 8]));
        let writer = scope.spawn(|| (&here).write_all(&text));
        thread::sleep(MOMENT);
        drop(there);
        for ended in [reader.join().unwrap().map(drop), writer.join().unwrap()] {
            assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        }
    });
    left(here.shutdown());
}

#[test]
fn time_limits_pass_and_nothing_is_lost() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    let nobody = listener.accept_timeout(MOMENT).unwrap();
    assert!(nobody.is_none());
    let (here, there) = connected(&client, &listener);
    here.set_read_timeout(Some(MOMENT));
    let start = Instant::now();
    let late = (&here).read(&mut [0; 8]).unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    assert!(start.elapsed() >= MOMENT && start.elapsed() < PATIENCE);
    let late = here.recv().unwrap_err();
    assert!(matches!(late, StreamError::TimedOut), "{late}");
    (&there).write_all(b"here").unwrap();
    let mut bytes = [0; 4];
    here.set_read_timeout(Some(PATIENCE));
    (&here).read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"here");
}

#[test]
fn what_cannot_be_connected_says_why() {
    let bench = Bench::newest();
    let (client, server) = (
        End::with(&bench, |streams| streams.connections(1)),
        End::new(&bench),
    );
    let listener = server.listen();
    let to = listener.local_addr();
    let (here, there) = connected(&client, &listener);
    let StreamError::Failed(full) = client.streams.connect(connector(to)).unwrap_err() else {
        panic!("another error")
    };
    assert_eq!(full.kind(), ErrorKind::LimitExceeded);
    drop(here);
    client.is_clean();
    drop(listener);
    eventually("the listener is still there", || {
        let refused = client.streams.connect(connector(to)).unwrap_err();
        let StreamError::Connect(CmError::Rejected(rejection)) = &refused else {
            panic!("{refused}")
        };
        rejection.reason() == Some(RejectReason::InvalidServiceId)
    });
    // A stream needs no listener.
    left(rest(&there).1);
}

#[test]
fn a_forgotten_stream_blocks_no_others() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    let (forgotten, there) = connected(&client, &listener);
    (&forgotten).write_all(b"last").unwrap();
    #[expect(clippy::mem_forget, reason = "programs may")]
    std::mem::forget(forgotten);
    let mut last = [0; 4];
    (&there).read_exact(&mut last).unwrap();
    there.set_read_timeout(Some(MOMENT));
    let late = (&there).read(&mut last).unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    let (here, other) = thread::scope(|scope| {
        let passive = scope.spawn(|| accept(&listener));
        (
            client.connect(listener.local_addr()),
            passive.join().unwrap(),
        )
    });
    (&here).write_all(b"more").unwrap();
    here.shutdown().unwrap();
    assert_eq!(rest(&other).0, b"more");
    // It ends with the others when its hub is closed.
    client.streams.hub().close();
    there.set_read_timeout(Some(PATIENCE));
    left(rest(&there).1);
    let closed = here.recv().unwrap_err();
    assert!(
        matches!(closed, StreamError::Lost(ConnectionError::Closed)),
        "{closed}"
    );
}
