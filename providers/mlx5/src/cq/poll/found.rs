//! What is made of an entry and the request that it completes, and where that goes.
#![expect(clippy::inline_always, reason = "a part of polling")]

use std::marker::PhantomData;

use uverbs_core::types::WorkCompletion;

use crate::cqe::{Checksums, Entry, SENT, opcode, sent_bytes};
use crate::tracker::Sent;

/// What is made of an entry and the request that it completes.
pub(crate) trait Found: From<WorkCompletion> {
    /// A successful request of the queue pair `number`.
    fn sent(entry: &Entry<'_>, sent: Sent, number: u32) -> Self;

    /// The same, to where it is wanted.
    fn put_sent(&mut self, entry: &Entry<'_>, sent: Sent, number: u32);

    /// A message, without an immediate value, that the queue pair `number` received.
    fn received(entry: &Entry<'_>, wr_id: u64, number: u32, checksums: Checksums) -> Self;
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
    fn received(entry: &Entry<'_>, wr_id: u64, number: u32, checksums: Checksums) -> Self {
        entry.received(opcode::RECEIVE, wr_id, number, checksums)
    }
}

/// Where a completion goes.
pub(crate) trait Destination {
    /// What is returned for it.
    type Done;

    /// As [`Found::sent`].
    fn sent(&mut self, entry: &Entry<'_>, sent: Sent, number: u32) -> Self::Done;

    /// As [`Found::received`].
    fn received(
        &mut self,
        entry: &Entry<'_>,
        wr_id: u64,
        number: u32,
        checksums: Checksums,
    ) -> Self::Done;

    /// Another completion.
    fn other(&mut self, done: WorkCompletion) -> Self::Done;
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
    fn received(&mut self, entry: &Entry<'_>, wr_id: u64, number: u32, checksums: Checksums) -> T {
        T::received(entry, wr_id, number, checksums)
    }

    #[inline(always)]
    fn other(&mut self, done: WorkCompletion) -> T {
        done.into()
    }
}

/// It replaces another one.
impl<T: Found> Destination for T {
    type Done = ();

    #[inline(always)]
    fn sent(&mut self, entry: &Entry<'_>, sent: Sent, number: u32) {
        self.put_sent(entry, sent, number);
    }

    #[inline(always)]
    fn received(&mut self, entry: &Entry<'_>, wr_id: u64, number: u32, checksums: Checksums) {
        *self = T::received(entry, wr_id, number, checksums);
    }

    #[inline(always)]
    fn other(&mut self, done: WorkCompletion) {
        *self = done.into();
    }
}
