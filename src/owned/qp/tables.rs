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

    #[inline(never)]
    fn note_unsignaled(&mut self, id: u64) {
        let ticket = self.ticket(id);
        self.unsignaled.push_back(ticket);
        self.turn |= SPECIAL;
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
        match self.at(ticket) {
            Some(sent) if sent.has_memory() => self.over.push_back((ticket, carried_out)),
            Some(_) => self.slots.remove(ticket.id),
            None => {}
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
