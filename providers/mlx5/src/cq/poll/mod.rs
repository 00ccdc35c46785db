//! Polling: from entries of the ring to completions of requests.
//!
//! [`owners`] finds the request that an entry completes. The most frequent cases have fast paths:
//! one completion that is written directly to its destination, and a run of completions of one kind
//! and one queue pair.
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions differ by no more than a slice is long"
)]

mod found;
mod left;
mod owners;

use std::sync::Arc;

use uverbs_core::contract::Usual as Short;
#[cfg(feature = "rings")]
use uverbs_core::rings::Watched;
use uverbs_core::types::WorkCompletion;
use uverbs_core::{PollError, Result};

use crate::cqe::CqShared;
use crate::cqe::ring::{CqRing, Look, Reader};
use crate::cqe::{Entry, format, opcode};
#[cfg(feature = "rings")]
use crate::rings::Completions;
use crate::sync::barrier;
use crate::tracker::table::Trackers;
use crate::tracker::{Identity, QueuePairTracker, RecvRun, SendRun};
pub(crate) use found::{At, Destination, Fill, Formed, Found, Own, Returned, read};
pub(crate) use left::Left;
use owners::Owners;

/// The next entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next<'r> {
    /// A successful request.
    Sent(Look<'r>),
    /// A received message, without an immediate value.
    Received(Look<'r>),
    /// Another entry, if it is written.
    Other,
    /// Not written yet.
    None,
}

/// What came of taking a usual entry.
#[cfg(test)]
#[derive(Debug)]
pub(crate) enum Usual {
    /// It was one.
    Taken(WorkCompletion),
    /// It was another one, which stayed.
    Other,
    /// There was none.
    None,
}

/// The consumer side of a completion queue.
#[derive(Debug)]
pub(crate) struct Consumer {
    ring: Arc<CqRing>,
    /// At the next entry.
    reader: Reader,
    owners: Owners,
    /// The observer of the entries taken.
    #[cfg(feature = "rings")]
    watched: Option<Box<Completions>>,
}

impl Consumer {
    /// Takes completions from `cq`, from which none has been taken. `by_device`: they carry only
    /// the device's numbers.
    pub(crate) fn new(cq: &Arc<CqShared>, trackers: &Arc<Trackers>, by_device: bool) -> Self {
        let ring = Arc::clone(&cq.lock());
        Self {
            reader: ring.reader(0),
            ring,
            owners: Owners::new(cq, trackers, by_device),
            #[cfg(feature = "rings")]
            watched: None,
        }
    }

    /// Reports the entries taken from here on.
    #[cfg(feature = "rings")]
    pub(crate) fn watched(mut self, queue: Option<Watched>) -> Self {
        self.watched = queue.map(|queue| Box::new(Completions::new(queue)));
        self
    }

    /// Reports to the observer the entries that were taken since the last report and not given
    /// back.
    #[cfg(feature = "rings")]
    #[inline]
    pub(crate) fn report(&self) {
        if let Some(queue) = &self.watched {
            queue.report(&self.ring, self.position());
        }
    }

    #[inline]
    pub(crate) fn ring(&self) -> &Arc<CqRing> {
        &self.ring
    }

    /// The number of entries taken.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.reader.position()
    }

    /// The same as the device counts.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.reader.count()
    }

    /// Continues in another ring, at the same position.
    pub(crate) fn move_to(&mut self, ring: Arc<CqRing>) {
        self.reader = ring.reader(self.position());
        self.ring = ring;
    }

    /// Whether the device may have written the next entry.
    #[inline]
    pub(crate) fn may_have_next(&self) -> bool {
        !self.reader.look().is_of_other_pass()
    }

    /// The kind of the next entry.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(crate) fn look(&self) -> Next<'_> {
        let look = self.reader.look();
        if look.is_of_other_pass() {
            Next::None
        } else if look.is_sent() {
            Next::Sent(look)
        } else if look.is_received() {
            Next::Received(look)
        } else if look.is_there() {
            Next::Other
        } else {
            Next::None
        }
    }

    /// The completion by the next entry, a successful request, if it is one of a known queue pair.
    /// The entry counts as taken only [afterwards](Self::took).
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(crate) fn sent<D: Destination>(&self, look: Look<'_>, to: &mut D) -> Option<D::Done> {
        self.owners.sent(self.position(), look, to)
    }

    /// The same for a received message.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(crate) fn received<D: Destination>(&self, look: Look<'_>, to: &mut D) -> Option<D::Done> {
        self.owners.received(self.position(), look, to)
    }

    /// Takes the next entry if it is of a kind that takes few steps and no call of a function;
    /// others stay.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(crate) fn take_short<D: Destination<Done = ()>>(&mut self, to: &mut D) -> Short {
        let taken = match self.look() {
            Next::None => return Short::None,
            Next::Sent(look) => self.sent(look, to),
            Next::Received(look) => self.owners.received_of_own(self.position(), look, to),
            Next::Other => None,
        };
        let Some(()) = taken else {
            return Short::Other;
        };
        self.took();
        Short::Taken
    }

    /// One more entry was taken.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(crate) fn took(&mut self) {
        self.reader.step();
    }

    /// Takes the next entry if it is a usual one, as a completion queue does; others stay.
    #[cfg(test)]
    pub(crate) fn take_usual(&mut self) -> Usual {
        let done = match self.look() {
            Next::Sent(look) => self.sent(look, &mut Returned::new()),
            Next::Received(look) => self.received(look, &mut Returned::new()),
            Next::Other => None,
            Next::None => return Usual::None,
        };
        let Some(done) = done else {
            return Usual::Other;
        };
        self.took();
        Usual::Taken(done)
    }

    /// Fills `out` from the start. Returns the number of completions.
    ///
    /// # Errors
    /// As [`next`](Self::next), for the first entry; the error of a later one is left for the next
    /// call.
    #[inline]
    pub(crate) fn fill<F: Fill<T>, T>(&mut self, out: &mut [T]) -> Result<usize, PollError> {
        // Here, because most calls find nothing else.
        let count = self.take_sent::<F, T>(out);
        if count == out.len() {
            return Ok(count);
        }
        self.fill_behind::<F, T>(out, count)
    }

    /// Fills `out` from `count` on.
    #[inline(never)]
    fn fill_behind<F: Fill<T>, T>(
        &mut self,
        out: &mut [T],
        mut count: usize,
    ) -> Result<usize, PollError> {
        while let Some(rest) = out.get_mut(count..)
            && let Some(first) = rest.first_mut()
        {
            let before = self.position();
            let look = self.reader.look();
            if look.is(opcode::REQUEST) {
                if let Some(()) = self.sent(look, &mut At::<F, T>::new(first)) {
                    self.took();
                }
            } else if look.is(opcode::RECEIVE) {
                self.take_received::<F, T>(rest);
            } else if !look.is_there() {
                break;
            }
            // No more than there are slots.
            let taken = self.position().wrapping_sub(before) as usize;
            count += taken;
            if taken != 0 {
                continue;
            }
            match self.next() {
                Ok(Some(done)) => F::other(&mut rest[0], done),
                Ok(None) => break,
                Err(error) if count == 0 => return Err(error),
                Err(_) => {
                    if self.position() != before {
                        self.untake();
                    }
                    break;
                }
            }
            count += 1;
        }
        Ok(count)
    }

    /// Takes consecutive entries: successful requests of one known queue pair. How many.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn take_sent<F: Fill<T>, T>(&mut self, out: &mut [T]) -> usize {
        self.take_alike(
            out,
            opcode::REQUEST,
            |pair| Some(pair.sends_in_order()),
            |run, entry, pair, slot| {
                let sent = run.completed(entry.tail.counter())?;
                F::sent(slot, entry, sent, pair.number());
                Some(())
            },
            SendRun::end,
        )
    }

    /// Takes consecutive entries: messages received by one known queue pair with a receive queue of
    /// its own, or one at a time those of shared ones.
    fn take_received<F: Fill<T>, T>(&mut self, out: &mut [T]) {
        let taken = self.take_alike(
            out,
            opcode::RECEIVE,
            QueuePairTracker::receives,
            |run, entry, pair, slot| {
                F::received(slot, entry, run.completed(), pair);
                Some(())
            },
            RecvRun::end,
        );
        if taken != 0 {
            return;
        }
        for slot in out {
            let Next::Received(look) = self.look() else {
                return;
            };
            let Some(()) = self.received(look, &mut At::<F, T>::new(slot)) else {
                return;
            };
            self.took();
        }
    }

    /// Takes consecutive entries of one kind and one known queue pair, as long as `take` fills
    /// their slots. Takes nothing if the queue pair was reset or destroyed meanwhile. How many.
    #[expect(
        clippy::inline_always,
        reason = "a completion is built where its user wants it"
    )]
    #[inline(always)]
    fn take_alike<'s, R: 's, T>(
        &'s mut self,
        out: &mut [T],
        kind: u32,
        begin: impl FnOnce(&'s QueuePairTracker) -> Option<R>,
        take: impl Fn(&mut R, &Entry<'_>, Identity, &mut T) -> Option<()>,
        end: impl FnOnce(R, u64) -> bool,
    ) -> usize {
        let start = self.position();
        let first = self.reader.look();
        if !first.is(kind) {
            return 0;
        }
        barrier::from_device();
        let first = Entry::new(first.block, first.tail);
        let Some(pair) = self.owners.known_pair(&first) else {
            return 0;
        };
        let Some(mut run) = begin(pair) else {
            return 0;
        };
        let index = first.raw_index();
        let identity = pair.identity();
        let taken = self.reader.zip_while(out, |look, slot| {
            if !look.is(kind) {
                return false;
            }
            barrier::from_device();
            let entry = Entry::new(look.block, look.tail);
            if entry.raw_index() != index {
                return false;
            }
            take(&mut run, &entry, identity, slot).is_some()
        });
        if end(run, start) {
            return taken;
        }
        self.reader = self.ring.reader(start);
        0
    }

    /// The next completion of a queue that still exists. Returns `None` also after skipping as many
    /// entries as the ring holds: otherwise a device could keep the caller here permanently.
    ///
    /// # Errors
    /// [`PollError::Corrupt`] for an entry that no request can have. The entry counts as taken,
    /// except for a compressed one that does not say how many completions it represents: the
    /// position of the next entry is then unknown.
    #[inline(never)]
    pub(crate) fn next(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        let start = self.position();
        loop {
            let (ring, place) = (&*self.ring, self.ring.place(self.position()));
            let mut look = ring.look(place);
            if !look.is_there() {
                return Ok(None);
            }
            barrier::from_device();
            if look.tail.format() == format::COMPRESSED && ring.results.is_some() {
                #[cfg(feature = "rings")]
                if let Some(queue) = &self.watched {
                    queue.report_title(ring, place);
                }
                if !ring.expand(place.position) {
                    // Reported by a call that skipped nothing.
                    return if place.position == start {
                        Err(PollError::Corrupt)
                    } else {
                        Ok(None)
                    };
                }
                look = ring.look(place);
            }
            self.reader.step();
            match self.owners.completion(ring, place, look) {
                Ok(None) if self.position() - start >= self.ring.entries().into() => {
                    return Ok(None);
                }
                Ok(None) => {}
                done => return done,
            }
        }
    }

    /// Goes back by one entry, the last one that [`next`](Self::next) took.
    pub(crate) fn untake(&mut self) {
        self.reader = self.ring.reader(self.position().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests;
