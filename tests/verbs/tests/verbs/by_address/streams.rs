//! Streams.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use uverbs::cm;
use uverbs::stream::{Stream, StreamListener, Streams};
use verbs_tests::by_address::{PATIENCE, any_port, channel};

/// More than all credits together.
const LEN: usize = 1 << 20;

fn streams() -> Streams {
    let pd = verbs_tests::open().alloc_pd().unwrap();
    pd.streams().channel(&channel()).build().unwrap()
}

fn listen(streams: &Streams) -> StreamListener {
    streams.listen(any_port()).unwrap()
}

fn patient(stream: Stream) -> Stream {
    stream.set_read_timeout(Some(PATIENCE));
    stream.set_write_timeout(Some(PATIENCE));
    stream
}

fn accept(listener: &StreamListener) -> Stream {
    let stream = listener.accept_timeout(PATIENCE).unwrap();
    patient(stream.expect("a stream"))
}

fn connected(client: &Streams, listener: &StreamListener) -> (Stream, Stream) {
    thread::scope(|scope| {
        let passive = scope.spawn(|| accept(listener));
        let connector = cm::connect(listener.local_addr()).timeout(PATIENCE);
        let active = patient(client.connect(connector).unwrap());
        (active, passive.join().unwrap())
    })
}

fn text() -> Vec<u8> {
    (0..LEN).map(|at| (at % 251).to_le_bytes()[0]).collect()
}

#[test]
fn by_address_streams_carry_bytes_both_ways_and_end() {
    let (client, server) = (streams(), streams());
    let listener = listen(&server);
    let (here, there) = connected(&client, &listener);
    let text = text();
    let write = |stream: &Stream| {
        let mut to = stream;
        to.write_all(&text).unwrap();
        stream.shutdown().unwrap();
    };
    let read = |stream: &Stream| {
        let (mut from, mut all) = (stream, Vec::new());
        from.read_to_end(&mut all).unwrap();
        assert!(all == text);
    };
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| write(&here));
        scope.spawn(|| write(&there));
        scope.spawn(|| read(&here));
        read(&there);
    });
    println!("FIGURE: {LEN} bytes each way: {:?}", start.elapsed());
    let refused = (&here).write(b"more").unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn by_address_streams_tell_a_lost_peer_from_an_end() {
    let (client, server) = (streams(), streams());
    let listener = listen(&server);
    let (here, there) = connected(&client, &listener);
    (&there).write_all(b"first").unwrap();
    let mut first = [0; 5];
    (&here).read_exact(&mut first).unwrap();
    let start = Instant::now();
    drop(there);
    let lost = (&here).read(&mut first).unwrap_err();
    assert_eq!(lost.kind(), io::ErrorKind::ConnectionReset, "{lost}");
    println!("FIGURE: a lost peer is told after {:?}", start.elapsed());
    assert!(start.elapsed() < PATIENCE);

    // A peer that never reads: its writer waits, and no bytes are lost.
    let (here, there) = connected(&client, &listener);
    let text = text();
    here.set_write_timeout(Some(Duration::from_millis(500)));
    let mut written = 0;
    let full = loop {
        match (&here).write(&text[written..]) {
            Ok(len) => written += len,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), io::ErrorKind::TimedOut, "{full}");
    assert_eq!(written, 64 * (4 << 10));
    here.set_write_timeout(Some(PATIENCE));
    let mut all = vec![0; written];
    (&there).read_exact(&mut all).unwrap();
    assert!(all == text[..written]);
    thread::scope(|scope| {
        scope.spawn(|| {
            (&here).write_all(&text[written..]).unwrap();
            here.shutdown().unwrap();
        });
        all.clear();
        (&there).read_to_end(&mut all).unwrap();
    });
    assert!(all == text[written..]);
}
