//! Streams by IP address, on the fake kernel with both ends in one process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bytes;
mod ends;
mod hostile;
mod pace;
mod tasks;

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use fake_tests::connections::ADDRESS;
use fake_tests::{Bench, PATIENCE};
use uverbs::ProtectionDomain;
use uverbs::cm::{self, Connector, EventChannel};
use uverbs::stream::{Stream, StreamListener, Streams, StreamsBuilder};

/// Long enough that what must not happen would have happened.
const MOMENT: Duration = Duration::from_millis(50);

/// One end of streams.
struct End {
    streams: Streams,
    pd: ProtectionDomain,
    channel: EventChannel,
}

impl End {
    fn with(bench: &Bench, set: impl Fn(StreamsBuilder) -> StreamsBuilder) -> Self {
        let pd = bench.context().unwrap().alloc_pd().unwrap();
        let channel = bench.channel().unwrap();
        let plain = pd.streams().gid_index(1).channel(&channel);
        // What finds no receive is tried again by the fake kernel only when it is called.
        let plain = plain.keepalive(Some(MOMENT));
        let plain = plain.connections(8).message_size(64).credits(4);
        let streams = set(plain).build().unwrap();
        Self {
            streams,
            pd,
            channel,
        }
    }

    fn new(bench: &Bench) -> Self {
        Self::with(bench, |streams| streams)
    }

    fn listen(&self) -> StreamListener {
        let any = SocketAddr::from((ADDRESS, 0));
        self.streams.listen(any).unwrap()
    }

    fn connect(&self, to: SocketAddr) -> Stream {
        self.streams.connect(connector(to)).unwrap()
    }

    /// Nothing of it is left.
    fn is_clean(&self) {
        eventually("buffers are missing", || {
            let counts = self.streams.hub().counts();
            counts.connections == 0 && counts.free_buffers == counts.buffers
        });
    }
}

fn connector(to: SocketAddr) -> Connector {
    cm::connect(to).timeout(PATIENCE)
}

/// The next stream, which must come. No call on it waits forever.
fn accept(listener: &StreamListener) -> Stream {
    let stream = listener.accept_timeout(PATIENCE).unwrap();
    patient(stream.expect("a stream"))
}

fn patient(stream: Stream) -> Stream {
    stream.set_read_timeout(Some(PATIENCE));
    stream.set_write_timeout(Some(PATIENCE));
    stream
}

/// Both ends of a stream: the active one, and the passive one.
fn connected(client: &End, listener: &StreamListener) -> (Stream, Stream) {
    thread::scope(|scope| {
        let passive = scope.spawn(|| accept(listener));
        let active = patient(client.connect(listener.local_addr()));
        (active, passive.join().unwrap())
    })
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Numbers that look random, and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// Bytes in which a loss or a repetition shows.
fn text(len: usize) -> Vec<u8> {
    let mut numbers = Numbers(7);
    (0..len)
        .map(|_| u8::try_from(numbers.below(256)).unwrap())
        .collect()
}
