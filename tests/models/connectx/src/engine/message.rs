//! Messages between queue pairs and the copying of their payload.

use crate::engine::atomic::Atomic;
use crate::engine::integrity::{SignedAnswer, Wrong};
use crate::layout::qp;
use crate::memory::{BusError, GuestMemory, Span, total};

/// Number of bytes moved at a time.
const CHUNK: u64 = 64 << 10;

/// Bytes to be sent.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// In the sender's memory.
    Memory(Vec<Span>),
    /// Inline in the work request.
    Inline(Vec<u8>),
    /// Inline, and what follows in the sender's memory.
    Both(Vec<u8>, Vec<Span>),
}

impl Payload {
    /// Length in bytes.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Memory(spans) => total(spans),
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Both(bytes, spans) => bytes.len() as u64 + total(spans),
        }
    }

    /// The inline part, and the part in memory.
    fn parts(&self) -> (&[u8], &[Span]) {
        match self {
            Self::Memory(spans) => (&[], spans),
            Self::Inline(bytes) => (bytes, &[]),
            Self::Both(bytes, spans) => (bytes, spans),
        }
    }

    /// Copies the payload from memory `from` to `spans` of memory `to`, up to the shorter of the
    /// two.
    pub(crate) fn copy(
        &self,
        from: &dyn GuestMemory,
        to: &dyn GuestMemory,
        spans: &[Span],
    ) -> Result<(), BusError> {
        let mut sink = Cursor::new(spans);
        let (bytes, source) = self.parts();
        sink.put(to, bytes)?;
        let mut chunk = vec![0; CHUNK.min(total(source)) as usize];
        for span in source {
            let mut done = 0;
            while done < span.length {
                let part = &mut chunk[..(span.length - done).min(CHUNK) as usize];
                from.read(span.address + done, part)?;
                sink.put(to, part)?;
                done += part.len() as u64;
            }
        }
        Ok(())
    }

    /// The whole payload as bytes, for short messages.
    pub(crate) fn bytes(&self, from: &dyn GuestMemory, limit: usize) -> Result<Vec<u8>, BusError> {
        let (bytes, spans) = self.parts();
        let mut out = bytes[..bytes.len().min(limit)].to_vec();
        for span in spans {
            let take = (span.length as usize).min(limit - out.len());
            let at = out.len();
            out.resize(at + take, 0);
            from.read(span.address, &mut out[at..])?;
        }
        Ok(out)
    }
}

/// A place to write to, span by span.
struct Cursor<'a> {
    spans: &'a [Span],
    done: u64,
}

impl<'a> Cursor<'a> {
    fn new(spans: &'a [Span]) -> Self {
        Self { spans, done: 0 }
    }

    fn put(&mut self, memory: &dyn GuestMemory, mut bytes: &[u8]) -> Result<(), BusError> {
        while let (Some(span), false) = (self.spans.first(), bytes.is_empty()) {
            let take = ((span.length - self.done) as usize).min(bytes.len());
            memory.write(span.address + self.done, &bytes[..take])?;
            bytes = &bytes[take..];
            self.done += take as u64;
            if self.done == span.length {
                self.spans = &self.spans[1..];
                self.done = 0;
            }
        }
        Ok(())
    }
}

/// The operation that a message requests of the other side.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Send {
        immediate: Option<u32>,
        invalidate: Option<u32>,
    },
    Write {
        immediate: Option<u32>,
    },
    Read,
    Atomic(Atomic),
}

/// One message in flight.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) action: Action,
    pub(crate) payload: Payload,
    /// Where the answer to a read or atomic goes, in the sender's memory.
    pub(crate) answer: Vec<Span>,
    /// Signatures that were found wrong when the payload was read.
    pub(crate) wrong: Vec<Wrong>,
    /// The answer goes through keys with signatures, from memory that `answer` is in.
    pub(crate) signed_answer: Option<SignedAnswer>,
    pub(crate) remote_address: u64,
    pub(crate) remote_key: u32,
    pub(crate) solicited: bool,
    /// Sequence number of the first packet, and number of packets; for a read, those of its answer.
    pub(crate) psn: u32,
    pub(crate) packets: u32,
    pub(crate) source_qpn: u32,
    pub(crate) source_lid: u16,
    pub(crate) target_qpn: u32,
    /// Shared receive queue that an XRC message names.
    pub(crate) shared_queue: u32,
    /// Q_Key of a datagram, access key of a dynamically connected message.
    pub(crate) key: u64,
    pub(crate) service_level: u32,
    /// Contents of the global route header, if there is one.
    pub(crate) route: Option<Route>,
}

/// Contents of a message's network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) from: [u8; 16],
    pub(crate) to: [u8; 16],
    /// Traffic class, or type of service.
    pub(crate) class: u8,
    /// Carried over UDP, as RoCE v2 is.
    pub(crate) udp: bool,
}

/// The receiver's answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done; how many bytes were moved.
    Done(u64),
    /// No answer came.
    Lost,
    /// The receiver has no buffer; try again after this many nanoseconds.
    NotReady(u64),
    /// The receiver waits for pages of its memory.
    Paused,
    /// Refused.
    Refused(crate::engine::completion::Syndrome),
}

/// Nanoseconds represented by the five-bit RNR NAK timer code.
pub(crate) fn rnr_delay(context: &[u8]) -> u64 {
    rnr_code_delay(qp::MIN_RNR_NAK.get(context))
}

/// As [`rnr_delay`], given the code itself.
pub(crate) fn rnr_code_delay(code: u32) -> u64 {
    /// In units of 10 microseconds.
    const UNITS: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    UNITS[(code & 31) as usize] * 10_000
}

/// Nanoseconds represented by the five-bit acknowledge timeout; 0 means no limit.
pub(crate) fn ack_timeout(code: u32) -> Option<u64> {
    (code != 0).then(|| 4096u64 << (code & 31))
}

/// Packet sequence numbers have 24 bits.
pub(crate) const PSN_MASK: u32 = 0xff_ffff;

/// Number of packets into which a message of `length` bytes is split on a queue pair's path.
pub(crate) fn packets(context: &[u8], length: u64) -> u32 {
    // Without a valid MTU the largest is assumed.
    let code = match qp::MTU.get(context) {
        code @ 1..=5 => code,
        _ => 5,
    };
    u32::try_from(length.div_ceil(128 << code))
        .unwrap_or(PSN_MASK)
        .max(1)
}
