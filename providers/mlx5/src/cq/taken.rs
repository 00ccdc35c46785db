//! Completions as they were found: fields are decoded when they are asked for.

use uverbs_core::contract;
use uverbs_core::types::{WcFlags, WcOpcode, WcStatus, WorkCompletion};

use super::poll::Found;
use crate::cqe::{self, Checksums, Entry, Message, SENT, opcode};
use crate::tracker::{Identity, Sent, SentKind};

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
    /// Another success.
    Whole(WorkCompletion),
    /// A failure.
    Failed(WorkCompletion),
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
            what: if done.status.is_success() {
                What::Whole(done)
            } else {
                What::Failed(done)
            },
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
    fn received(entry: &Entry<'_>, wr_id: u64, pair: Identity) -> Self {
        Self {
            wr_id,
            number: pair.number(),
            what: What::Received(pair.checksums(), entry.message()),
        }
    }
}

/// By a call, so that what a completion is tells whether it failed: its status would be looked at
/// in any case.
#[cold]
#[inline(never)]
const fn failed(status: WcStatus) -> WcStatus {
    status
}

impl contract::Entry for Taken {
    #[inline]
    fn wr_id(&self) -> u64 {
        self.wr_id
    }

    #[inline]
    fn status(&self) -> WcStatus {
        match &self.what {
            What::Failed(done) => failed(done.status),
            _ => WcStatus::Success,
        }
    }

    #[inline]
    fn opcode(&self) -> WcOpcode {
        match &self.what {
            What::Sent(kind, _) => kind.opcode(),
            What::Received(..) => WcOpcode::Recv,
            What::Whole(done) | What::Failed(done) => done.opcode,
        }
    }

    #[inline]
    fn byte_len(&self) -> u32 {
        match &self.what {
            What::Sent(kind, counts) => cqe::sent_bytes(kind.opcode(), *counts),
            What::Received(_, message) => message.byte_count(),
            What::Whole(done) | What::Failed(done) => done.byte_len,
        }
    }

    #[inline]
    fn imm(&self) -> Option<u32> {
        match &self.what {
            What::Whole(done) | What::Failed(done) => done.imm,
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
            What::Whole(done) | What::Failed(done) => done.flags,
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
            What::Whole(done) | What::Failed(done) => *done,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uverbs_core::contract::Entry as _;

    use super::*;
    use crate::cqe::ring::CqRing;

    /// An entry with these words from byte 16 on; the next two are 0.
    fn with_entry(words: [u64; 4], see: impl FnOnce(&Entry<'_>)) {
        let ring = CqRing::alone(2, 64, 0).unwrap();
        let first = ring.first(0);
        let [path, headers, immediate, counts] = words.map(u64::to_be);
        ring.units.put(first + 1, [path, headers]);
        ring.units.put(first + 2, [immediate, counts]);
        // A valid entry of the first lap.
        ring.units.put(first + 3, [0, 0]);
        let look = ring.look_at(0).unwrap();
        see(&Entry::new(look.block, look.tail));
    }

    fn sent(opcode: WcOpcode) -> Sent {
        Sent {
            wr_id: 7,
            kind: SentKind::of(opcode),
        }
    }

    /// What it answers is what it is as a whole.
    fn assert_agrees(taken: &Taken, whole: WorkCompletion) {
        assert_eq!(taken.whole(), whole);
        assert_eq!(taken.wr_id(), whole.wr_id);
        assert_eq!(taken.status(), whole.status);
        assert_eq!(taken.opcode(), whole.opcode);
        assert_eq!(taken.byte_len(), whole.byte_len);
        assert_eq!(taken.imm(), whole.imm);
        assert_eq!(taken.qp_num(), whole.qp_num);
        assert_eq!(taken.flags(), whole.flags);
    }

    #[test]
    fn a_request_has_a_length_if_it_brings_bytes() {
        for (opcode, length) in [
            (WcOpcode::Send, 0),
            (WcOpcode::RdmaWrite, 0),
            (WcOpcode::RdmaRead, 0x1234),
            (WcOpcode::CompareSwap, 8),
            (WcOpcode::FetchAdd, 8),
            (WcOpcode::BindMw, 0),
            (WcOpcode::LocalInvalidate, 0),
            (WcOpcode::Tso, 0),
        ] {
            with_entry([1, 2, 3, 0x1234], |entry| {
                let whole = WorkCompletion {
                    wr_id: 7,
                    qp_num: 0x55,
                    opcode,
                    byte_len: length,
                    ..SENT
                };
                assert_agrees(&Taken::sent(entry, sent(opcode), 0x55), whole);
                assert_eq!(WorkCompletion::sent(entry, sent(opcode), 0x55), whole);
                let mut kept = Taken::from(WorkCompletion::default());
                kept.put_sent(entry, sent(opcode), 0x55);
                assert_agrees(&kept, whole);
            });
        }
    }

    #[test]
    fn a_message_is_decoded_when_it_is_asked_for() {
        let headers = (1 << 28 | 4 << 24 | 0x777) << 32 | 0x06 << 24 | 2 << 18;
        with_entry([3 << 48 | 0x21, headers, 9, 64], |entry| {
            let taken = Taken::received(entry, 11, Identity::new(0x56, Checksums::CHECKED));
            let whole = WorkCompletion {
                wr_id: 11,
                status: WcStatus::Success,
                opcode: WcOpcode::Recv,
                byte_len: 64,
                qp_num: 0x56,
                src_qp: 0x777,
                flags: WcFlags::GRH | WcFlags::IP_CSUM_OK,
                pkey_index: 9,
                slid: 0x21,
                sl: 4,
                dlid_path_bits: 3,
                ..SENT
            };
            assert_agrees(&taken, whole);
            let meaningless =
                Taken::received(entry, 11, Identity::new(0x56, Checksums::MEANINGLESS));
            assert_eq!(meaningless.flags(), WcFlags::GRH);
        });
    }

    #[test]
    fn any_other_completion_is_kept_whole() {
        let whole = WorkCompletion {
            wr_id: 12,
            status: WcStatus::RemoteAccess,
            opcode: WcOpcode::RdmaRead,
            vendor_err: 5,
            byte_len: 6,
            imm: Some(7),
            qp_num: 8,
            flags: WcFlags::WITH_IMM,
            ..WorkCompletion::default()
        };
        assert_agrees(&Taken::from(whole), whole);
    }

    #[test]
    fn a_place_for_completions_starts_as_a_request_that_brought_nothing() {
        assert_agrees(&Taken::default(), SENT);
    }
}
