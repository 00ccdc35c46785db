//! What is made of an entry and the request that it completes, and where that goes.
#![expect(clippy::inline_always, reason = "a part of polling")]

use std::marker::PhantomData;

use uverbs_core::contract::{self, CompletionSlot, RawCompletion, Success};
use uverbs_core::types::{WcOpcode, WorkCompletion};

use crate::cqe::{Entry, Message, SENT, opcode, sent_bytes};
use crate::tracker::{Identity, Sent};

/// What is made of an entry and the request that it completes.
pub(crate) trait Found: From<WorkCompletion> {
    /// A successful request of the queue pair `number`.
    fn sent(entry: &Entry<'_>, sent: Sent, number: u32) -> Self;

    /// The same, to where it is wanted.
    fn put_sent(&mut self, entry: &Entry<'_>, sent: Sent, number: u32);

    /// A message, without an immediate value, that the queue pair `number` received.
    fn received(entry: &Entry<'_>, wr_id: u64, pair: Identity) -> Self;
}

impl Found for WorkCompletion {
    #[inline(always)]
    fn sent(entry: &Entry<'_>, sent: Sent, number: u32) -> Self {
        let mut done = SENT;
        done.put_sent(entry, sent, number);
        done
    }

    #[inline(always)]
    fn put_sent(&mut self, entry: &Entry<'_>, sent: Sent, number: u32) {
        // As a whole, which takes fewer stores than field by field.
        *self = SENT;
        self.wr_id = sent.wr_id;
        self.opcode = sent.kind.opcode();
        self.qp_num = number;
        // Read in any case: what nobody asks for is left out, except for a branch around a read.
        let counts = entry.counts();
        if sent.kind.has_length() {
            self.byte_len = sent_bytes(self.opcode, counts);
        }
    }

    #[inline(always)]
    fn received(entry: &Entry<'_>, wr_id: u64, pair: Identity) -> Self {
        entry.received(opcode::RECEIVE, wr_id, pair.number(), pair.checksums())
    }
}

/// Where a completion goes.
pub(crate) trait Destination {
    /// What is returned for it.
    type Done;

    /// As [`Found::sent`].
    fn sent(&mut self, entry: &Entry<'_>, sent: Sent, number: u32) -> Self::Done;

    /// As [`Found::received`].
    fn received(&mut self, entry: &Entry<'_>, wr_id: u64, pair: Identity) -> Self::Done;

    /// Another completion.
    fn other(&mut self, done: WorkCompletion) -> Self::Done;
}

/// How places of a kind are filled.
pub(crate) trait Fill<T> {
    /// As [`Found::put_sent`].
    fn sent(slot: &mut T, entry: &Entry<'_>, sent: Sent, number: u32);

    /// As [`Found::received`].
    fn received(slot: &mut T, entry: &Entry<'_>, wr_id: u64, pair: Identity);

    /// Another completion.
    fn other(slot: &mut T, done: WorkCompletion);
}

/// With completions of ours.
pub(crate) struct Own;

impl<T: Found> Fill<T> for Own {
    #[inline(always)]
    fn sent(slot: &mut T, entry: &Entry<'_>, sent: Sent, number: u32) {
        slot.put_sent(entry, sent, number);
    }

    #[inline(always)]
    fn received(slot: &mut T, entry: &Entry<'_>, wr_id: u64, pair: Identity) {
        *slot = T::received(entry, wr_id, pair);
    }

    #[inline(always)]
    fn other(slot: &mut T, done: WorkCompletion) {
        *slot = done.into();
    }
}

/// In the form of whoever has the place.
pub(crate) struct Formed;

impl<S: CompletionSlot> Fill<S> for Formed {
    #[inline(always)]
    fn sent(slot: &mut S, entry: &Entry<'_>, sent: Sent, number: u32) {
        slot.found(&FoundSend {
            entry,
            sent,
            number,
        });
    }

    #[inline(always)]
    fn received(slot: &mut S, entry: &Entry<'_>, wr_id: u64, pair: Identity) {
        slot.found(&FoundMessage { entry, wr_id, pair });
    }

    #[inline(always)]
    fn other(slot: &mut S, done: WorkCompletion) {
        slot.any(&done);
    }
}

struct FoundSend<'e> {
    entry: &'e Entry<'e>,
    sent: Sent,
    number: u32,
}

impl contract::Found for FoundSend<'_> {
    #[inline(always)]
    fn wr_id(&self) -> u64 {
        self.sent.wr_id
    }

    #[inline(always)]
    fn success(&self) -> Success {
        let kind = self.sent.kind;
        let byte_len = if kind.has_length() {
            sent_bytes(kind.opcode(), self.entry.counts())
        } else {
            0
        };
        Success {
            wr_id: self.sent.wr_id,
            opcode: kind.raw(),
            byte_len,
            qp_num: self.number,
            ..Success::default()
        }
    }

    #[inline(always)]
    fn raw(&self) -> RawCompletion {
        RawCompletion::Sent {
            opcode: self.sent.kind.raw(),
            qp_num: self.number,
            word: self.entry.counts(),
        }
    }
}

struct FoundMessage<'e> {
    entry: &'e Entry<'e>,
    wr_id: u64,
    pair: Identity,
}

impl contract::Found for FoundMessage<'_> {
    #[inline(always)]
    fn wr_id(&self) -> u64 {
        self.wr_id
    }

    #[inline(always)]
    fn success(&self) -> Success {
        let message = self.entry.message();
        message.arrived(self.wr_id, self.pair.number(), self.pair.checksums())
    }

    #[inline(always)]
    fn raw(&self) -> RawCompletion {
        RawCompletion::Received {
            queue: self.pair.raw(),
            words: self.entry.message().words(),
        }
    }
}

/// Reads what those above have kept.
pub(crate) fn read(raw: &RawCompletion) -> Success {
    match *raw {
        RawCompletion::Sent {
            opcode,
            qp_num,
            word,
        } => Success {
            opcode,
            byte_len: sent_bytes(WcOpcode::from_raw(opcode), word),
            qp_num,
            ..Success::default()
        },
        RawCompletion::Received { queue, words } => {
            let pair = Identity::of(queue);
            Message::of(words).arrived(0, pair.number(), pair.checksums())
        }
        RawCompletion::Whole(_) => Success::default(),
    }
}

/// It fills a place.
pub(crate) struct At<'s, F, T>(&'s mut T, PhantomData<F>);

impl<'s, F, T> At<'s, F, T> {
    #[inline(always)]
    pub(crate) const fn new(slot: &'s mut T) -> Self {
        Self(slot, PhantomData)
    }
}

impl<F: Fill<T>, T> Destination for At<'_, F, T> {
    type Done = ();

    #[inline(always)]
    fn sent(&mut self, entry: &Entry<'_>, sent: Sent, number: u32) {
        F::sent(self.0, entry, sent, number);
    }

    #[inline(always)]
    fn received(&mut self, entry: &Entry<'_>, wr_id: u64, pair: Identity) {
        F::received(self.0, entry, wr_id, pair);
    }

    #[inline(always)]
    fn other(&mut self, done: WorkCompletion) {
        F::other(self.0, done);
    }
}

/// It is returned.
pub(crate) struct Returned<T>(PhantomData<T>);

impl<T> Returned<T> {
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Found> Destination for Returned<T> {
    type Done = T;

    #[inline(always)]
    fn sent(&mut self, entry: &Entry<'_>, sent: Sent, number: u32) -> T {
        T::sent(entry, sent, number)
    }

    #[inline(always)]
    fn received(&mut self, entry: &Entry<'_>, wr_id: u64, pair: Identity) -> T {
        T::received(entry, wr_id, pair)
    }

    #[inline(always)]
    fn other(&mut self, done: WorkCompletion) -> T {
        done.into()
    }
}
