#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use uverbs_core::types::{RemoteKey, RemoteMemory};

use super::{Exchange, ExchangeError, HEADER, Offer, Step, header};
use crate::QueuePairEndpoint;

const LONG: Duration = Duration::from_secs(20);

fn endpoint() -> QueuePairEndpoint {
    "17/3/9a3/::ffff:10.1.0.2".parse().unwrap()
}

fn memory() -> RemoteMemory {
    RemoteMemory {
        address: 0x1000,
        length: 64,
        key: RemoteKey::from_raw(7),
    }
}

fn offer() -> Offer {
    Offer::of(endpoint()).memory(memory())
}

/// What this side makes of a peer that sends `bytes` and then ends.
fn hearing(bytes: &[u8]) -> Result<Offer, ExchangeError> {
    let (own, mut peer) = UnixStream::pair().unwrap();
    peer.write_all(bytes).unwrap();
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    Exchange::new(own, LONG).offer(&offer())
}

fn message() -> Vec<u8> {
    let body = offer().to_bytes().unwrap();
    [&header(Step::Offer, body.len()).unwrap()[..], &body].concat()
}

#[test]
fn both_sides_learn_what_the_other_offers_and_that_it_is_ready() {
    let (one, other) = UnixStream::pair().unwrap();
    let largest = Offer {
        endpoints: vec![endpoint(); Offer::MAX],
        memory: vec![memory(); Offer::MAX],
    };
    assert_eq!(largest.to_bytes().unwrap().len(), Offer::MAX_BYTES);
    let peer = std::thread::spawn({
        let largest = largest.clone();
        move || {
            let mut exchange = Exchange::new(other, LONG);
            let heard = exchange.offer(&largest).unwrap();
            exchange.ready().unwrap();
            (heard, exchange.into_inner())
        }
    });
    let mut exchange = Exchange::new(one, LONG);
    assert_eq!(exchange.offer(&offer()).unwrap(), largest);
    exchange.ready().unwrap();
    let (heard, stream) = peer.join().unwrap();
    assert_eq!(heard, offer());
    assert_eq!(stream.read_timeout().unwrap(), None, "lifted");
}

#[test]
fn the_bytes_are_the_documented_ones() {
    let bytes = message();
    assert_eq!(bytes[..HEADER], *b"UVBX\x00\x01\x01\x00\x00\x00\x00\x33");
    assert_eq!(bytes[HEADER..HEADER + 4], [0, 1, 0, 1]);
    assert_eq!(bytes[HEADER + 4..HEADER + 31], endpoint().to_bytes());
    let memory = [
        0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 64,
    ];
    assert_eq!(bytes[HEADER + 31..], memory);
}

#[test]
fn a_hostile_peer_is_refused_by_name() {
    assert_eq!(hearing(&message()).unwrap(), offer());
    let with = |at: usize, value: u8| {
        let mut bytes = message();
        bytes[at] = value;
        hearing(&bytes).unwrap_err().to_string()
    };
    for (at, value, said) in [
        (0, b'H', "exchange: the peer is another kind of program"),
        (
            5,
            9,
            "exchange: the peer speaks version 9, this side version 1",
        ),
        (
            6,
            2,
            "exchange: the peer sent a ready mark instead of an offer",
        ),
        (6, 3, "exchange: the peer's kind of message is impossible"),
        (7, 1, "exchange: the peer's reserved byte is impossible"),
        (8, 0xff, "exchange: the peer's length is impossible"),
        (HEADER, 0xff, "exchange: 65281 endpoints, at most 256"),
        (HEADER + 1, 2, "exchange: the peer's length is impossible"),
        (HEADER + 4, 1, "exchange: the peer's endpoint is impossible"),
    ] {
        assert_eq!(with(at, value), said);
    }
    // Memory beyond the end of the address space.
    let mut bytes = message();
    bytes[HEADER + 31..].fill(0xff);
    let error = hearing(&bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "exchange: the peer's memory is impossible"
    );
    for cut in 0..message().len() {
        let error = hearing(&message()[..cut]).unwrap_err();
        assert!(matches!(error, ExchangeError::Ended), "{cut}: {error}");
    }
}

#[test]
fn a_side_that_offers_too_much_sends_nothing() {
    let (own, mut peer) = UnixStream::pair().unwrap();
    let large = Offer {
        endpoints: vec![endpoint(); Offer::MAX + 1],
        memory: Vec::new(),
    };
    let error = Exchange::new(own, LONG).offer(&large).unwrap_err();
    assert_eq!(format!("{error:?}"), "exchange: 257 endpoints, at most 256");
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

#[test]
fn an_offer_may_have_no_queue_pair() {
    let error = Offer::default().endpoint().unwrap_err();
    assert_eq!(error.to_string(), "exchange: the peer offers no queue pair");
}

/// One byte at a time does not extend the limit.
#[test]
#[cfg_attr(miri, ignore = "sockets with time limits")]
fn a_slow_peer_does_not_extend_the_limit() {
    let (own, mut peer) = UnixStream::pair().unwrap();
    let drip = std::thread::spawn(move || {
        for byte in message() {
            std::thread::sleep(Duration::from_millis(40));
            if peer.write_all(&[byte]).is_err() {
                break;
            }
        }
    });
    let start = Instant::now();
    let error = Exchange::new(own, Duration::from_millis(200)).offer(&offer());
    assert!(matches!(error, Err(ExchangeError::TimedOut { .. })));
    assert!(start.elapsed() < Duration::from_secs(2));
    drip.join().unwrap();
}
