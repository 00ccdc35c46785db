//! Telling a peer what it must know: endpoints, memory, and that this side is ready.
//!
//! Before two queue pairs are connected, each side needs the other's
//! [endpoint](crate::QueuePairEndpoint), and for one-sided operations the addresses and keys of its
//! memory. Before a side sends, the other must have connected and posted its receives. An
//! [`Exchange`] does both over any stream: each side calls [`offer`](Exchange::offer), connects,
//! and calls [`ready`](Exchange::ready).
//!
//! ```no_run
//! # fn f(prepared: uverbs::PreparedQueuePair) -> Result<(), Box<dyn std::error::Error>> {
//! use std::net::TcpStream;
//! use std::time::Duration;
//! use uverbs::exchange::{Exchange, Offer};
//!
//! let stream = TcpStream::connect("192.0.2.7:18515")?;
//! let mut exchange = Exchange::new(stream, Duration::from_secs(10));
//! let peer = exchange.offer(&Offer::of(prepared.endpoint()))?;
//! let qp = prepared.handshake(peer.endpoint()?)?;
//! // Post the receives that the peer's first messages need; then let it send.
//! exchange.ready()?;
//! # Ok(())
//! # }
//! ```
//!
//! Both sides do the same, in the same order. Kept open afterwards, the stream shows when the peer
//! goes away, which a queue pair that only receives never does.
//!
//! # On the wire
//!
//! Version 1. Numbers are big-endian. Each side sends one offer and one ready mark; each is a
//! header and a body.
//!
//! | bytes of the header | what |
//! |---|---|
//! | 0–3 | `UVBX` |
//! | 4–5 | the version, 1 |
//! | 6 | what the body is: 1 an offer, 2 a ready mark |
//! | 7 | 0 |
//! | 8–11 | the length of the body |
//!
//! A ready mark has no body. An offer's is the number of endpoints (2 bytes) and of memories (2),
//! each at most [`Offer::MAX`]; the [endpoints](crate::QueuePairEndpoint::to_bytes), 27 bytes each;
//! the [memories](crate::RemoteMemory::to_bytes), 20 bytes each. The first six bytes mean
//! the same in every version.
//!
//! Nothing is encrypted or authenticated: anyone who can change what is sent can redirect a
//! connection. Use it over TLS ([`Untimed`]) where that matters.

mod error;
mod offer;
mod stream;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

pub use error::{ExchangeError, Step};
pub use offer::Offer;
pub use stream::{Timed, Untimed};

const MAGIC: [u8; 4] = *b"UVBX";

/// The version that this library speaks.
pub const VERSION: u16 = 1;

const HEADER: usize = 12;

/// An exchange with one peer. See the [module](self).
#[derive(Debug)]
pub struct Exchange<S> {
    stream: S,
    limit: Duration,
}

impl<S: Timed> Exchange<S> {
    /// An exchange over `stream`, each step of which takes at most `limit`.
    ///
    /// The limit covers a whole step: a peer that sends byte by byte does not extend it. The stream
    /// must be a blocking one.
    pub fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit }
    }

    /// Sends what this side offers and waits for the peer's offer.
    ///
    /// # Errors
    /// | error | cause |
    /// |---|---|
    /// | [`TooMany`](ExchangeError::TooMany) | more endpoints or memories than [`Offer::MAX`], here or at the peer |
    /// | [`TimedOut`](ExchangeError::TimedOut), [`Ended`](ExchangeError::Ended), [`Io`](ExchangeError::Io) | the peer is silent, or gone; another failure of the stream |
    /// | [`NotAnExchange`](ExchangeError::NotAnExchange), [`Version`](ExchangeError::Version) | the peer is another program, or another version |
    /// | [`Unexpected`](ExchangeError::Unexpected), [`Malformed`](ExchangeError::Malformed) | the peer is in another step, or sends nonsense |
    pub fn offer(&mut self, own: &Offer) -> Result<Offer, ExchangeError> {
        let body = own.to_bytes()?;
        let body = self.step(Step::Offer, &body)?;
        Offer::from_bytes(&body)
    }

    /// Tells the peer that this side is ready, and waits until the peer is.
    ///
    /// # Errors
    /// As [`offer`](Self::offer).
    pub fn ready(&mut self) -> Result<(), ExchangeError> {
        self.step(Step::Ready, &[]).map(drop)
    }

    /// The stream, without a time limit: to notice the peer's end, or for messages of the program's
    /// own.
    pub fn into_inner(self) -> S {
        self.stream
    }

    /// Sends `body` and returns the peer's.
    fn step(&mut self, step: Step, body: &[u8]) -> Result<Vec<u8>, ExchangeError> {
        let deadline = stream::Deadline {
            at: Instant::now().checked_add(self.limit),
            limit: self.limit,
        };
        let outcome = self.both_ways(step, body, &deadline);
        let restored = self.stream.set_time_limit(None);
        let body = outcome?;
        restored.map_err(ExchangeError::Io)?;
        Ok(body)
    }

    fn both_ways(
        &mut self,
        step: Step,
        body: &[u8],
        deadline: &stream::Deadline,
    ) -> Result<Vec<u8>, ExchangeError> {
        let mut message = header(step, body.len())?.to_vec();
        message.extend_from_slice(body);
        deadline.write(&mut self.stream, &message)?;
        let mut head = [0; HEADER];
        deadline.read(&mut self.stream, &mut head)?;
        // Bounded before anything is allocated.
        let mut answer = vec![0; length(step, &head)?];
        deadline.read(&mut self.stream, &mut answer)?;
        Ok(answer)
    }
}

fn header(step: Step, body: usize) -> Result<[u8; HEADER], ExchangeError> {
    let length = u32::try_from(body).map_err(|_| ExchangeError::Malformed("length"))?;
    let mut head = [0; HEADER];
    head[..4].copy_from_slice(&MAGIC);
    head[4..6].copy_from_slice(&VERSION.to_be_bytes());
    head[6] = step.number();
    head[8..].copy_from_slice(&length.to_be_bytes());
    Ok(head)
}

/// The length of the body after `head`, which must be one of `step`.
fn length(step: Step, head: &[u8; HEADER]) -> Result<usize, ExchangeError> {
    let [m0, m1, m2, m3, v0, v1, kind, zero, l0, l1, l2, l3] = *head;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(ExchangeError::NotAnExchange);
    }
    let peer = u16::from_be_bytes([v0, v1]);
    if peer != VERSION {
        return Err(ExchangeError::Version { own: VERSION, peer });
    }
    match Step::from_number(kind) {
        Some(got) if got == step => {}
        Some(got) => {
            return Err(ExchangeError::Unexpected {
                expected: step,
                got,
            });
        }
        None => return Err(ExchangeError::Malformed("kind of message")),
    }
    if zero != 0 {
        return Err(ExchangeError::Malformed("reserved byte"));
    }
    let most = match step {
        Step::Offer => Offer::MAX_BYTES,
        Step::Ready => 0,
    };
    usize::try_from(u32::from_be_bytes([l0, l1, l2, l3]))
        .ok()
        .filter(|length| *length <= most)
        .ok_or(ExchangeError::Malformed("length"))
}
