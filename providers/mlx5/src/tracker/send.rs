//! The requests of a send queue, and the kinds of their completions.

use uverbs_core::types::WcOpcode;
use uverbs_core::{Slots, SlotsView};

use super::side::{Run, Side};
use crate::sync::atomic::{AtomicU64, Ordering};

/// A send queue.
#[derive(Debug)]
pub(crate) struct SendTracker {
    entries: SendEntries,
    /// A request may complete after others that were posted later.
    unordered: bool,
    /// Its count is an [`Ordinal`].
    pub(super) side: Side,
}

/// The requests of a send queue, each at the index of its first block. The posting side has a
/// handle of its own.
pub(crate) type SendEntries = Slots<SendEntry>;

/// A request of a send queue.
#[derive(Debug, Default)]
pub(crate) struct SendEntry {
    wr_id: AtomicU64,
    /// Its [`Ordinal`].
    ordinal: AtomicU64,
}

/// A request's number among all of its send queue, from 1 on, << [`KIND`] | the kind of its
/// completion. With the [mark](RARE) of a rare kind it is negative, so that who looks for usual
/// completions finds none.
///
/// What is completed is counted by the ordinal of the last request: those of later requests are
/// higher, and no others.
#[derive(Clone, Copy, Debug)]
struct Ordinal(u64);

/// The bits of an ordinal that contain the kind.
const KIND: u32 = 4;
const KINDS: u64 = (1 << KIND) - 1;
/// Of a kind that is rare.
const RARE: u64 = 1 << 63;

impl Ordinal {
    #[inline]
    const fn of(number: Number, kind: SentKind) -> Self {
        Self(number.0 + kind.0)
    }

    /// The kind of the completion.
    #[inline]
    const fn kind(self) -> SentKind {
        SentKind(self.0)
    }

    /// Without the mark.
    const fn plain(self) -> Self {
        Self(self.0 & !RARE)
    }

    /// Whether it is of a usual request after those that `count` covers.
    #[inline]
    const fn is_after(self, count: u64) -> bool {
        self.0.cast_signed() > count.cast_signed()
    }
}

/// A count with which all requests up to `number` are completed.
const fn count_of(number: Number) -> u64 {
    number.0 | KINDS
}

/// The number of a request, or how many there were, as it is in an [`Ordinal`]: << [`KIND`].
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Number(u64);

impl Number {
    #[cfg(test)]
    pub(crate) const fn of(number: u64) -> Self {
        Self(number << KIND)
    }

    /// The number of the request this many later.
    #[inline]
    pub(crate) const fn after(self, requests: u64) -> Self {
        Self(self.0.wrapping_add(requests << KIND))
    }

    /// The number of the request this many earlier.
    #[inline]
    pub(crate) const fn before(self, requests: u64) -> Self {
        Self(self.0.wrapping_sub(requests << KIND))
    }

    /// How many requests came after `earlier`.
    #[inline]
    pub(crate) const fn since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0) >> KIND
    }
}

/// The content of a send completion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Sent {
    pub(crate) wr_id: u64,
    pub(crate) kind: SentKind,
}

/// The kind of a send completion, in the three lowest bits. That of a request which was completed
/// has its number above, which is masked off only to get the opcode. Of a [rare](RARE) kind these
/// bits are those of a usual one whose completion has the same fields.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SentKind(u64);

impl SentKind {
    #[inline]
    pub(crate) const fn of(opcode: WcOpcode) -> Self {
        Self(opcode.raw() as u64)
    }

    /// A change of an indirect key.
    pub(crate) const KEY_CHANGE: Self = Self(RARE | WcOpcode::BindMw.raw() as u64);
    /// A request that was composed elsewhere.
    pub(crate) const RAW: Self = Self(RARE);
    /// A copy by the device.
    pub(crate) const COPY: Self = Self(RARE | WcOpcode::LocalInvalidate.raw() as u64);

    /// The opcode of any kind, rare ones too.
    pub(crate) const fn any_opcode(self) -> WcOpcode {
        if self.0 & RARE == 0 {
            return self.opcode();
        }
        self.rare_opcode()
    }

    #[cold]
    const fn rare_opcode(self) -> WcOpcode {
        const COPY: u64 = SentKind::COPY.0;
        match self.0 & (RARE | 7) {
            RARE => WcOpcode::Driver2,
            COPY => WcOpcode::Driver3,
            _ => WcOpcode::Driver1,
        }
    }

    /// The opcodes of send completions that are usual.
    #[inline]
    pub(crate) const fn opcode(self) -> WcOpcode {
        match self.0 & 7 {
            0 => WcOpcode::Send,
            1 => WcOpcode::RdmaWrite,
            2 => WcOpcode::RdmaRead,
            3 => WcOpcode::CompareSwap,
            4 => WcOpcode::FetchAdd,
            5 => WcOpcode::BindMw,
            6 => WcOpcode::LocalInvalidate,
            _ => WcOpcode::Tso,
        }
    }

    /// The number of that opcode.
    #[inline]
    pub(crate) const fn raw(self) -> u32 {
        (self.0 & 7) as u32
    }
}

impl SentKind {
    /// Whether its completion says how many bytes came back: those of reads and atomics do. Not by
    /// the opcode, which the compiler would tell apart by a jump for each.
    #[inline]
    pub(crate) const fn has_length(self) -> bool {
        const READS: u64 = 1 << WcOpcode::RdmaRead.raw();
        const ATOMICS: u64 = 1 << WcOpcode::CompareSwap.raw() | 1 << WcOpcode::FetchAdd.raw();
        (READS | ATOMICS) >> (self.0 & 7) & 1 != 0
    }
}

impl PartialEq for SentKind {
    fn eq(&self, other: &Self) -> bool {
        self.any_opcode() == other.any_opcode()
    }
}

impl Eq for SentKind {}

impl SendEntry {
    /// Records the request with this number.
    #[inline]
    pub(crate) fn posted(&self, wr_id: u64, number: Number, kind: SentKind) {
        self.wr_id.store(wr_id, Ordering::Relaxed);
        (self.ordinal).store(Ordinal::of(number, kind).0, Ordering::Relaxed);
    }

    /// Of the request that was recorded here last.
    pub(crate) fn wr_id(&self) -> u64 {
        self.wr_id.load(Ordering::Relaxed)
    }

    /// The request that was recorded here was taken back. `done` were completed at some time:
    /// completing the block again completes nothing.
    pub(crate) fn taken_back(&self, done: Number) {
        (self.ordinal).store(Ordinal::of(done, SentKind::default()).0, Ordering::Relaxed);
    }
}

impl SendTracker {
    /// The tracker of a queue of `blocks` (a power of two, or 0) blocks of 64 bytes.
    pub(crate) fn new(blocks: u32) -> Self {
        Self {
            entries: Slots::new(blocks),
            unordered: false,
            side: Side::new(count_of(Number::default())),
        }
    }

    /// The same with requests that may complete after later ones.
    pub(super) fn unordered(self) -> Self {
        Self {
            unordered: true,
            ..self
        }
    }

    /// Where its requests are recorded.
    pub(crate) fn entries(&self) -> &SendEntries {
        &self.entries
    }

    /// The number of the last request before this incarnation.
    pub(crate) fn base(&self) -> Number {
        Number(self.side.base() & !KINDS)
    }

    /// The number of the last completed request. What was occupied in the ring up to it may be
    /// overwritten. Called by the posting thread.
    #[inline]
    pub(crate) fn done(&self) -> Number {
        Number(self.side.done() & !KINDS)
    }

    /// Records the `after`-th request of this incarnation, as the posting side does.
    #[cfg(test)]
    pub(crate) fn posted(&self, index: u32, wr_id: u64, after: u32, opcode: WcOpcode) {
        let number = self.base().after(after.into());
        self.entries
            .at(index as usize)
            .posted(wr_id, number, SentKind::of(opcode));
    }

    /// Begins the next incarnation, whose completions begin with the entry `since`.
    pub(super) fn restart(&self, since: u64) {
        // No more can have been posted than there is room for.
        let base = self.done().after(self.entries.len() as u64);
        self.side.restart(since, count_of(base));
    }

    /// Continues the completions of `run`.
    #[inline]
    pub(super) fn run_from<'t>(&'t self, run: Run<'t>) -> SendRun<'t> {
        SendRun {
            run,
            entries: self.entries.view(),
            unordered: self.unordered,
        }
    }
}

/// Send requests that complete one after another.
#[derive(Debug)]
pub(crate) struct SendRun<'t> {
    run: Run<'t>,
    entries: SlotsView<'t, SendEntry>,
    unordered: bool,
}

impl SendRun<'_> {
    /// The same where no request completes after later ones.
    #[inline]
    pub(super) fn in_order(self) -> Self {
        Self {
            unordered: false,
            ..self
        }
    }

    /// The request that begins at block `counter`, and those before it, are completed. `None` if it
    /// is not under way.
    #[inline]
    pub(crate) fn completed(&mut self, counter: u16) -> Option<Sent> {
        let entry = self.entries.at(usize::from(counter));
        let wr_id = entry.wr_id.load(Ordering::Relaxed);
        let ordinal = Ordinal(entry.ordinal.load(Ordering::Relaxed));
        if ordinal.is_after(self.run.count) {
            self.run.count = ordinal.0;
        } else if !self.unordered || ordinal.0 & RARE != 0 {
            // It was completed before, or is none of these.
            return None;
        }
        Some(Sent {
            wr_id,
            kind: ordinal.kind(),
        })
    }

    /// The same also for a request of a rare kind.
    pub(crate) fn completed_any(&mut self, counter: u16) -> Option<Sent> {
        let entry = self.entries.at(usize::from(counter));
        let ordinal = Ordinal(entry.ordinal.load(Ordering::Relaxed));
        if ordinal.0 & RARE == 0 {
            return self.completed(counter);
        }
        let plain = ordinal.plain();
        if plain.is_after(self.run.count) {
            self.run.count = plain.0;
        } else if !self.unordered {
            return None;
        }
        Some(Sent {
            wr_id: entry.wr_id.load(Ordering::Relaxed),
            kind: ordinal.kind(),
        })
    }

    /// See [`Run::end`].
    #[inline]
    #[must_use]
    pub(crate) fn end(self, first: u64) -> bool {
        self.run.end(first)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{QueuePairTracker, Receives, Request};
    use super::*;

    #[test]
    fn what_is_not_under_way_completes_nothing() {
        let tracker = QueuePairTracker::new(4, Receives::None);
        let sent = |counter| match tracker.sent(0, counter) {
            Request::Of(sent) => Some(sent.wr_id),
            _ => None,
        };
        assert_eq!(sent(0), None, "nothing was posted");
        // As after this many requests.
        let first = Number::of(u64::from(u32::MAX) - 1);
        for index in 0..4 {
            let kind = SentKind::of(WcOpcode::Send);
            let entry = tracker.send.entries().at(index);
            entry.posted(index as u64, first.after(index as u64), kind);
        }
        let mut run = tracker.sends();
        run.run.count = count_of(first.before(1));
        assert!(run.end(0));
        assert_eq!(sent(1), Some(1));
        assert_eq!(sent(1), None, "it is done");
        assert_eq!(sent(0), None, "with what was before it");
        tracker.send.entries().at(3).taken_back(first.before(1));
        assert_eq!(sent(3), None, "it never was");
        assert_eq!(sent(2), Some(2));
        assert_eq!(tracker.send.done(), first.after(2));
    }

    #[test]
    fn ordinals_of_later_requests_are_higher_than_what_is_done() {
        let kinds: Vec<SentKind> = (0..8)
            .map(|raw| SentKind::of(WcOpcode::from_raw(raw)))
            .collect();
        for done in [1, 7, u64::from(u32::MAX), 1 << 40].map(Number::of) {
            for (kind, last) in kinds.iter().zip(kinds.iter().rev()) {
                let last = Ordinal::of(done, *last).0;
                for after in 1..6 {
                    let ordinal = Ordinal::of(done.after(after), *kind);
                    assert!(ordinal.is_after(last) && ordinal.is_after(count_of(done)));
                    assert_eq!(ordinal.kind(), *kind);
                }
                for before in 1..=done.since(Number::default()).min(9) {
                    assert!(!Ordinal::of(done.before(before), *kind).is_after(last));
                }
                assert!(!Ordinal::of(done, *kind).is_after(count_of(done)));
            }
        }
    }

    /// The way of usual completions finds none of them; the other way finds each once.
    #[test]
    fn requests_of_rare_kinds_complete_apart() {
        let kinds = [
            (SentKind::KEY_CHANGE, WcOpcode::Driver1),
            (SentKind::RAW, WcOpcode::Driver2),
            (SentKind::COPY, WcOpcode::Driver3),
        ];
        for unordered in [false, true] {
            let tracker = QueuePairTracker::new(4, Receives::None);
            let tracker = if unordered {
                tracker.unordered()
            } else {
                tracker
            };
            for (at, (kind, opcode)) in kinds.into_iter().enumerate() {
                let number = Number::of(at as u64 + 1);
                tracker.send.entries().at(at).posted(7, number, kind);
                let counter = u16::try_from(at).unwrap_or(0);
                assert_eq!(tracker.sent_in_order(0, counter), None);
                assert_eq!(tracker.sends().completed(counter), None);
                let Request::Of(sent) = tracker.sent(0, counter) else {
                    unreachable!("it is under way");
                };
                assert_eq!((sent.wr_id, sent.kind.any_opcode()), (7, opcode));
                assert!(!sent.kind.has_length());
                assert_eq!(tracker.send.done(), number);
                let again = tracker.sent(0, counter);
                assert_eq!(matches!(again, Request::Of(_)), unordered);
            }
            tracker.send.entries().at(0).taken_back(Number::of(0));
            assert_eq!(tracker.sent_in_order(0, 0), None);
        }
    }
}
