//! What is said on a stream in each direction: bytes in which a loss or a repetition shows. The
//! first bytes of the active side say which stream it is.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use uverbs::cm;
use uverbs::stream::{Stream, StreamError, Streams};

use crate::ADDRESS;

/// How long anything may take that ends.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);
/// Bytes at a time: whole messages, and parts of them.
const PIECE: usize = 6000;
/// The most that is read at a time.
pub(crate) const ROOM: usize = 10_000;

/// One direction of a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Text(u64);

impl Text {
    pub(crate) fn to_passive(stream: u64) -> Self {
        Self(stream << 1)
    }

    pub(crate) fn to_active(stream: u64) -> Self {
        Self(stream << 1 | 1)
    }

    fn byte(self, at: u64) -> u8 {
        let mixed = (at + (self.0 << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed.to_le_bytes()[7]
    }

    /// The bytes from a place on, at most up to the place `end`.
    pub(crate) fn piece(self, at: u64, end: u64) -> Vec<u8> {
        let end = end.min(at + PIECE as u64);
        (at..end).map(|at| self.byte(at)).collect()
    }

    pub(crate) fn check(self, at: u64, bytes: &[u8]) {
        let right = (at..).zip(bytes).all(|(at, byte)| self.byte(at) == *byte);
        assert!(right, "{self:?}: lost or doubled after {at} bytes");
    }
}

/// How fast a side is: one stream of four is read slowly, so that its writer waits; the others
/// leave the processors to the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How many bytes are read at a time.
    pub(crate) room: usize,
    /// How long nothing is read then.
    pub(crate) pause: Option<Duration>,
    /// How long nothing is written after a piece.
    pub(crate) rest: Option<Duration>,
}

impl Pace {
    pub(crate) fn of(stream: u64) -> Self {
        let is_slow = stream % 4 == 3;
        Self {
            room: if is_slow { 2000 } else { ROOM },
            pause: is_slow.then_some(Duration::from_millis(20)),
            rest: (!is_slow).then_some(Duration::from_millis(50)),
        }
    }
}

/// How a process's streams have to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ends {
    /// With all bytes.
    Whole,
    /// With an error that says that the peer is lost.
    Lost,
    /// In either way.
    Either,
}

/// A process of streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Talker {
    /// The number of its first stream.
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// How many bytes in each direction.
    pub(crate) len: u64,
    pub(crate) ends: Ends,
    /// Whether it stops, and does nothing before it is told to go on.
    pub(crate) waits: bool,
    pub(crate) port: u16,
}

impl Talker {
    /// Makes the streams, and talks on all of them at once until they end.
    pub(crate) fn talk(&self) {
        if self.waits {
            raise(Signal::SIGSTOP).unwrap();
        }
        let pd = verbs_tests::open().alloc_pd().unwrap();
        let streams = pd.streams().build().unwrap();
        let talk = |number| {
            let stream = self.connect(&streams);
            stream.set_read_timeout(Some(LIMIT));
            stream.set_write_timeout(Some(LIMIT));
            thread::scope(|scope| {
                let reading = scope.spawn(|| self.read(number, &stream));
                let written = self.write(number, &stream);
                [reading.join().unwrap(), written]
            })
        };
        let ends: Vec<_> = thread::scope(|scope| {
            let talks =
                (self.first..self.first + self.count).map(|it| scope.spawn(move || talk(it)));
            let talks: Vec<_> = talks.collect();
            talks
                .into_iter()
                .flat_map(|one| one.join().unwrap())
                .collect()
        });
        for end in ends {
            match (self.ends, end) {
                (Ends::Whole | Ends::Either, Ok(())) => {}
                (Ends::Lost | Ends::Either, Err(error))
                    if error.kind() == io::ErrorKind::ConnectionReset => {}
                (_, end) => panic!("{self:?}: {end:?}"),
            }
        }
    }

    /// The server may not listen yet.
    fn connect(&self, streams: &Streams) -> Stream {
        let start = Instant::now();
        loop {
            let to = cm::connect(SocketAddr::from((ADDRESS, self.port))).timeout(LIMIT);
            match streams.connect(to) {
                Ok(stream) => return stream,
                Err(StreamError::Connect(_)) if start.elapsed() < LIMIT => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn read(&self, number: u64, mut from: &Stream) -> io::Result<()> {
        let (text, mut at, mut piece) = (Text::to_active(number), 0, [0; ROOM]);
        let pace = Pace::of(number);
        loop {
            let len = from.read(&mut piece[..pace.room])?;
            if len == 0 {
                assert_eq!(at, self.len, "{text:?}: an early end");
                return Ok(());
            }
            text.check(at, &piece[..len]);
            at += len as u64;
            if let Some(pause) = pace.pause {
                thread::sleep(pause);
            }
        }
    }

    fn write(&self, number: u64, mut to: &Stream) -> io::Result<()> {
        to.write_all(&number.to_le_bytes())?;
        let (text, mut at) = (Text::to_passive(number), 0);
        let pace = Pace::of(number);
        while at < self.len {
            let piece = text.piece(at, self.len);
            to.write_all(&piece)?;
            at += piece.len() as u64;
            if let Some(rest) = pace.rest {
                thread::sleep(rest);
            }
        }
        Ok(to.shutdown()?)
    }
}
