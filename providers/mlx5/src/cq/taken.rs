//! Completions as they were found: fields are decoded when they are asked for.

use uverbs_core::contract;
use uverbs_core::types::{WcFlags, WcOpcode, WcStatus, WorkCompletion};

use super::poll::Found;
use crate::cqe::{self, Checksums, Entry, Message, SENT, opcode};
use crate::tracker::{Sent, SentKind};

/// A completion, as it was taken from the ring. Its slot was given back: nothing of it is read
/// later.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    wr_id: u64,
    number: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A successful request. With the entry's counts.
    Sent(SentKind, u64),
    /// A message without an immediate value.
    Received(Checksums, Message),
    /// Anything else.
    Whole(WorkCompletion),
}

impl Default for What {
    fn default() -> Self {
        Self::Sent(SentKind::default(), 0)
    }
}

impl From<WorkCompletion> for Taken {
    #[inline]
    fn from(done: WorkCompletion) -> Self {
        Self {
            wr_id: done.wr_id,
            number: done.qp_num,
            what: What::Whole(done),
        }
    }
}

impl Found for Taken {
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn sent(entry: &Entry<'_>, sent: Sent, number: u32) -> Self {
        Self {
            wr_id: sent.wr_id,
            number,
            what: What::Sent(sent.kind, entry.counts()),
        }
    }

    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn put_sent(&mut self, entry: &Entry<'_>, sent: Sent, number: u32) {
        *self = Self::sent(entry, sent, number);
    }

    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn received(entry: &Entry<'_>, wr_id: u64, number: u32, checksums: Checksums) -> Self {
        Self {
            wr_id,
            number,
            what: What::Received(checksums, entry.message()),
        }
    }
}

impl contract::Entry for Taken {
    #[inline]
    fn wr_id(&self) -> u64 {
        self.wr_id
    }

    #[inline]
    fn status(&self) -> WcStatus {
        match &self.what {
            What::Whole(done) => done.status,
            _ => WcStatus::Success,
        }
    }

    #[inline]
    fn opcode(&self) -> WcOpcode {
        match &self.what {
            What::Sent(kind, _) => kind.opcode(),
            What::Received(..) => WcOpcode::Recv,
            What::Whole(done) => done.opcode,
        }
    }

    #[inline]
    fn byte_len(&self) -> u32 {
        match &self.what {
            What::Sent(kind, counts) => cqe::sent_bytes(kind.opcode(), *counts),
            What::Received(_, message) => message.byte_count(),
            What::Whole(done) => done.byte_len,
        }
    }

    #[inline]
    fn imm(&self) -> Option<u32> {
        match &self.what {
            What::Whole(done) => done.imm,
            _ => None,
        }
    }

    #[inline]
    fn qp_num(&self) -> u32 {
        self.number
    }

    #[inline]
    fn flags(&self) -> WcFlags {
        match &self.what {
            What::Sent(..) => WcFlags::empty(),
            What::Received(..) => self.whole().flags,
            What::Whole(done) => done.flags,
        }
    }

    // Not inlined: merged with what the caller does with each kind, its fields would not fit the
    // registers.
    #[inline(never)]
    fn whole(&self) -> WorkCompletion {
        match &self.what {
            What::Sent(kind, _) => WorkCompletion {
                wr_id: self.wr_id,
                qp_num: self.number,
                opcode: kind.opcode(),
                byte_len: if kind.has_length() {
                    self.byte_len()
                } else {
                    0
                },
                ..SENT
            },
            What::Received(checksums, message) => {
                message.received(opcode::RECEIVE, self.wr_id, self.number, *checksums)
            }
            What::Whole(done) => *done,
        }
    }
}
