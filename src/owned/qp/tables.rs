//! What is posted on a queue pair.

use std::collections::VecDeque;

use uverbs_core::types::QpCaps;

use crate::AddressHandle;
use crate::owned::slab::{Found, SPECIAL, Slab, Slot, Taken};
use crate::owned::work::{Memory, Released};

/// The requests of both queues.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) sending: Sending,
    pub(super) receiving: Slab,
}

/// A request that was in the table. Its id may be another's by now, its turn may not.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    id: u64,
    turn: u64,
}

/// The members of a batch.
#[derive(Debug)]
pub(super) struct Batched(Vec<Ticket>);

/// The requests of a send queue.
///
/// A send queue ends its requests in the order in which they were posted, so the completion of one
/// ends every unsignaled one with an earlier turn. Only requests that others have to be told from
/// have a turn of their own: signaled ones share that of the next unsignaled one.
#[derive(Debug)]
pub(super) struct Sending {
    slots: Slab,
    /// The turn of the next request: special while there are unsignaled ones to be passed.
    turn: u64,
    /// Unsignaled ones that were not passed by a completion, by turn.
    unsignaled: VecDeque<Ticket>,
    /// Those of the batch that is being put together.
    batch: Vec<Ticket>,
    /// Requests that are over without a completion of their own: whether they were carried out.
    over: VecDeque<(Ticket, bool)>,
}

impl Tables {
    /// Empty tables, for as many requests as the queue pair has room for.
    pub(super) fn of(caps: &QpCaps) -> Self {
        Self {
            sending: Sending {
                slots: Slab::new(caps.max_send_wr),
                ..Sending::default()
            },
            receiving: Slab::new(caps.max_recv_wr),
        }
    }

    pub(super) fn are_empty(&self) -> bool {
        self.sending.len() == 0 && self.receiving.len() == 0
    }

    /// The memory of all requests.
    pub(super) fn into_memory(self) -> Vec<Memory> {
        self.sending
            .slots
            .into_iter()
            .chain(self.receiving)
            .filter(|memory| !matches!(memory, Memory::None))
            .collect()
    }
}

impl Default for Sending {
    fn default() -> Self {
        Self {
            slots: Slab::default(),
            turn: 1,
            unsignaled: VecDeque::new(),
            batch: Vec::new(),
            over: VecDeque::new(),
        }
    }
}

impl Sending {
    /// Puts a request into the table, before it is put into the ring. Returns its memory if there
    /// is no room.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        user_data: u64,
        memory: Memory,
        signaled: bool,
    ) -> Result<u64, Memory> {
        let id = self.slots.insert(self.turn, user_data, memory)?;
        if !signaled {
            self.note_unsignaled(id);
        }
        Ok(id)
    }

    /// Keeps `address` as long as the request with this id is there.
    pub(super) fn keep(&mut self, id: u64, address: AddressHandle) {
        self.slots.keep(id, address);
    }

    /// For the request that has just been put in.
    #[inline(never)]
    fn note_unsignaled(&mut self, id: u64) {
        let turn = self.turn & !SPECIAL;
        self.unsignaled.push_back(Ticket { id, turn });
        self.turn = (turn + 1) | SPECIAL;
    }

    /// For the youngest request, which has this id: those after it have another turn.
    fn ticket(&mut self, id: u64) -> Ticket {
        let turn = self.slots.get(id).map_or(0, Slot::turn);
        if turn == self.turn & !SPECIAL {
            self.turn += 1;
        }
        Ticket { id, turn }
    }

    /// After some unsignaled requests were passed, or taken back.
    fn passed(&mut self) {
        if self.unsignaled.is_empty() {
            self.turn &= !SPECIAL;
        }
    }

    /// Takes out a request that was refused, which is the youngest.
    #[cold]
    pub(super) fn refused(&mut self, id: u64) -> Option<(Taken, Option<AddressHandle>)> {
        let address = self.slots.take_address(id);
        let refused = self.slots.take(id)?;
        let youngest = self.unsignaled.back();
        if youngest.is_some_and(|last| last.turn == refused.turn) {
            self.unsignaled.pop_back();
            self.passed();
        }
        Some((refused, address))
    }

    /// The request with this id, whose completion has been polled, if it is an ordinary one.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(super) fn find(&mut self, id: u64) -> Option<Found<'_>> {
        self.slots.find(id)
    }

    /// The same for any. Everything before it is over.
    #[cold]
    #[inline(never)]
    pub(super) fn find_special(&mut self, id: u64) -> Option<Found<'_>> {
        let turn = self.slots.get(id).map(Slot::turn)?;
        // A failed request has a completion of its own though it is unsignaled: its slot is then
        // empty or another's by the time that it gets here.
        while let Some(&first) = self.unsignaled.front()
            && first.turn < turn
        {
            self.unsignaled.pop_front();
            self.end(first, true);
        }
        self.passed();
        self.slots.find_any(id)
    }

    /// The request ends without a completion. If it has no memory, there is nothing to report.
    fn end(&mut self, ticket: Ticket, carried_out: bool) {
        if self.slots.remove_bare(ticket.id, ticket.turn) {
            self.over.push_back((ticket, carried_out));
        }
    }

    /// Takes out the memory of a request that ended without a completion.
    pub(super) fn released(&mut self) -> Option<Released> {
        while let Some((ticket, carried_out)) = self.over.pop_front() {
            if self.at(ticket).is_some()
                && let Some(sent) = self.slots.take(ticket.id)
            {
                return Some(Released {
                    user_data: sent.user_data,
                    memory: sent.memory,
                    carried_out,
                });
            }
        }
        None
    }

    /// Notes that the youngest request is a member of the batch.
    #[inline]
    pub(super) fn joined(&mut self, id: u64) {
        let ticket = self.ticket(id);
        self.batch.push(ticket);
    }

    /// The batch is handed to the device: whatever happens, its members stay in the table until
    /// they are known to be over.
    #[inline]
    pub(super) fn submitting(&mut self) -> Batched {
        Batched(std::mem::take(&mut self.batch))
    }

    /// The device has it; the list is used again.
    #[inline]
    pub(super) fn submitted(&mut self, mut batch: Batched) {
        batch.0.clear();
        self.batch = batch.0;
    }

    /// The device never saw it.
    #[cold]
    pub(super) fn not_submitted(&mut self, batch: Batched) {
        self.batch = batch.0;
        self.given_up();
    }

    /// Whether a batch was given up, or forgotten.
    #[inline]
    pub(super) fn has_batch(&self) -> bool {
        !self.batch.is_empty()
    }

    /// How many requests are in the batch.
    pub(super) fn batched(&self) -> usize {
        self.batch.len()
    }

    /// The batch was taken back out of the ring.
    pub(super) fn given_up(&mut self) {
        let (Some(first), Some(last)) = (self.batch.first(), self.batch.last()) else {
            return;
        };
        let members = first.turn..=last.turn;
        self.unsignaled
            .retain(|ticket| !members.contains(&ticket.turn));
        self.passed();
        for ticket in std::mem::take(&mut self.batch) {
            self.end(ticket, false);
        }
    }

    /// Where the datagram with this id goes.
    pub(super) fn address(&self, id: u64) -> Option<&AddressHandle> {
        self.slots.address(id)
    }

    /// The request that the ticket was given for, if it is still there.
    fn at(&self, ticket: Ticket) -> Option<&Slot> {
        self.slots
            .get(ticket.id)
            .filter(|sent| sent.turn() == ticket.turn)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    const ROOM: u32 = 6;

    /// A request as it should be in the table.
    #[derive(Clone, Copy, Debug)]
    struct Posted {
        id: u64,
        /// Its number; the size of its memory, if it has some.
        number: u64,
        signaled: bool,
        has_memory: bool,
    }

    /// The table, and what it should say.
    struct Both {
        table: Sending,
        /// In the order in which they were posted.
        posted: Vec<Posted>,
        /// From which number on they are members of the batch.
        batch: Option<u64>,
        /// Ended without completions: whether they were carried out.
        over: VecDeque<(Posted, bool)>,
        numbers: u64,
    }

    /// A list of so many parts, which tells it from others.
    fn memory(parts: u64) -> Memory {
        Memory::List((0..parts).map(|_| Memory::None).collect())
    }

    fn parts(memory: &Memory) -> Option<u64> {
        match memory {
            Memory::List(list) => Some(list.len() as u64),
            _ => None,
        }
    }

    impl Posted {
        fn memory(&self) -> Option<u64> {
            self.has_memory.then_some(self.number)
        }
    }

    impl Both {
        fn new() -> Self {
            Self {
                table: Sending {
                    slots: Slab::new(ROOM),
                    ..Sending::default()
                },
                posted: Vec::new(),
                batch: None,
                over: VecDeque::new(),
                numbers: 0,
            }
        }

        fn post(&mut self, signaled: bool, has_memory: bool) -> bool {
            self.numbers += 1;
            let number = self.numbers;
            let its = if has_memory {
                memory(number)
            } else {
                Memory::None
            };
            match self.table.insert(number, its, signaled) {
                Ok(id) => self.posted.push(Posted {
                    id,
                    number,
                    signaled,
                    has_memory,
                }),
                Err(back) => {
                    assert_eq!(self.posted.len() + self.over.len(), ROOM as usize);
                    assert_eq!(parts(&back), has_memory.then_some(number));
                    return false;
                }
            }
            true
        }

        fn refuse(&mut self) {
            let last = self.posted.pop().unwrap();
            let (taken, address) = self.table.refused(last.id).unwrap();
            assert_eq!(taken.user_data, last.number);
            assert_eq!(parts(&taken.memory), last.memory());
            assert!(address.is_none());
        }

        fn push(&mut self, signaled: bool, has_memory: bool) {
            if self.post(signaled, has_memory) {
                let member = self.posted[self.posted.len() - 1];
                self.batch.get_or_insert(member.number);
                self.table.joined(member.id);
            }
        }

        fn submit(&mut self) {
            let batch = self.table.submitting();
            self.table.submitted(batch);
            self.batch = None;
        }

        /// How many requests are not members of the batch.
        fn submitted(&self) -> usize {
            let first = self.batch.unwrap_or(u64::MAX);
            self.posted.partition_point(|one| one.number < first)
        }

        fn give_up(&mut self) {
            self.table.given_up();
            let submitted = self.submitted();
            if self.batch.take().is_some() {
                let members = self.posted.split_off(submitted);
                let kept = members.into_iter().filter(|one| one.has_memory);
                self.over.extend(kept.map(|one| (one, false)));
            }
        }

        /// Request number `place` has a completion: a signaled one, or one that failed.
        fn complete(&mut self, place: usize) {
            let one = self.posted[place];
            let found = match self.table.find(one.id) {
                Some(found) => found,
                None => self.table.find_special(one.id).unwrap(),
            };
            let taken = found.take();
            assert_eq!(taken.user_data, one.number);
            assert_eq!(parts(&taken.memory), one.memory());
            assert!(self.table.find(one.id).is_none());
            self.posted.remove(place);
            let ends = |before: &Posted| !before.signaled && before.number < one.number;
            let ended = self.posted.iter().copied().filter(ends);
            let kept = ended.filter(|before| before.has_memory);
            self.over.extend(kept.map(|before| (before, true)));
            self.posted.retain(|before| !ends(before));
        }

        fn take_back(&mut self) {
            let expected = self.over.pop_front();
            let released = self.table.released();
            assert_eq!(released.is_some(), expected.is_some());
            if let (Some(released), Some((one, carried_out))) = (released, expected) {
                assert_eq!(released.user_data, one.number);
                assert_eq!(parts(&released.memory), one.memory());
                assert_eq!(released.carried_out, carried_out);
            }
        }
    }

    /// A linear congruential generator: the same programs in every run.
    struct Choices(u64);

    impl Choices {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % end
        }
    }

    #[test]
    fn memory_comes_back_once_and_only_when_it_is_over() {
        for program in 0..3000 {
            let (mut both, mut choices) = (Both::new(), Choices(program));
            for _ in 0..40 {
                let (signaled, has_memory) = (choices.below(2) == 0, choices.below(4) != 0);
                let submitted = both.submitted();
                match choices.below(8) {
                    0 | 1 if both.batch.is_none() => {
                        if both.post(signaled, has_memory) && choices.below(4) == 0 {
                            both.refuse();
                        }
                    }
                    0..=2 => both.push(signaled, has_memory),
                    3 => both.submit(),
                    4 if choices.below(2) == 0 => both.give_up(),
                    5 => both.take_back(),
                    _ => {
                        // Completions come in order: the first signaled request, or one before it
                        // that failed.
                        let first = both.posted[..submitted].iter().position(|one| one.signaled);
                        let last = first.map_or(submitted, |first| first + 1);
                        if last > 0 {
                            let place = choices.below(last as u64);
                            both.complete(usize::try_from(place).unwrap());
                        }
                    }
                }
                assert_eq!(both.table.len(), both.posted.len() + both.over.len());
            }
            // What is left comes back, too.
            both.give_up();
            while !both.posted.is_empty() {
                both.complete(both.posted.len() - 1);
                while !both.over.is_empty() {
                    both.take_back();
                }
                both.posted
                    .retain(|one| both.table.slots.get(one.id).is_some());
            }
            while !both.over.is_empty() {
                both.take_back();
            }
            assert_eq!(both.table.len(), 0, "program {program}");
        }
    }
}
