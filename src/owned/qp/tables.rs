//! What is posted on a queue pair.

use std::collections::VecDeque;

use uverbs_core::types::QpCaps;

use crate::AddressHandle;
use crate::owned::Buffer;
use crate::owned::slab::{Slab, Slot, Taken};
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
/// ends every unsignaled one with an earlier turn.
#[derive(Debug, Default)]
pub(super) struct Sending {
    slots: Slab,
    /// How many there were.
    turns: u64,
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

impl Sending {
    /// Puts a request into the table, before it is put into the ring. Returns its buffer if there
    /// is no room.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        user_data: u64,
        buffer: Buffer,
        len: usize,
        signaled: bool,
    ) -> Result<u64, Buffer> {
        let id = self.slots.insert(self.turns + 1, user_data, buffer, len)?;
        self.inserted(id, signaled);
        Ok(id)
    }

    /// The same, for one without memory.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn insert_bare(&mut self, user_data: u64, signaled: bool) -> Option<u64> {
        let id = self.slots.insert_bare(self.turns + 1, user_data)?;
        self.inserted(id, signaled);
        Some(id)
    }

    /// The same, for any. Returns what it has if there is no room.
    pub(super) fn insert_any(
        &mut self,
        user_data: u64,
        memory: Memory,
        address: Option<AddressHandle>,
        signaled: bool,
    ) -> Result<u64, (Memory, Option<AddressHandle>)> {
        let turn = self.turns + 1;
        let id = self.slots.insert_any(turn, user_data, memory, address)?;
        self.inserted(id, signaled);
        Ok(id)
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn inserted(&mut self, id: u64, signaled: bool) {
        self.turns += 1;
        if !signaled {
            self.note_unsignaled(id);
        }
    }

    #[inline(never)]
    fn note_unsignaled(&mut self, id: u64) {
        let turn = self.turns;
        self.unsignaled.push_back(Ticket { id, turn });
    }

    /// Takes out a request that was refused, which is the youngest.
    #[cold]
    pub(super) fn refused(&mut self, id: u64) -> Option<Taken<'_>> {
        let refused = self.slots.take(id)?;
        let youngest = self.unsignaled.back();
        if youngest.is_some_and(|last| last.turn == refused.turn) {
            self.unsignaled.pop_back();
        }
        Some(refused)
    }

    /// Takes out a request whose completion has been polled.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(super) fn complete(&mut self, id: u64) -> Option<Taken<'_>> {
        if !self.unsignaled.is_empty() {
            self.pass(id);
        }
        self.slots.take(id)
    }

    /// Everything before the request with this id is over.
    #[cold]
    #[inline(never)]
    fn pass(&mut self, id: u64) {
        let Some(turn) = self.slots.get(id).map(Slot::turn) else {
            return;
        };
        // A failed request has a completion of its own though it is unsignaled: its slot is then
        // empty or another's by the time that it gets here.
        while let Some(&first) = self.unsignaled.front()
            && first.turn < turn
        {
            self.unsignaled.pop_front();
            self.end(first, true);
        }
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
                    memory: sent.into_memory(),
                    carried_out,
                });
            }
        }
        None
    }

    /// Notes that the youngest request is a member of the batch.
    #[inline]
    pub(super) fn joined(&mut self, id: u64) {
        let turn = self.turns;
        self.batch.push(Ticket { id, turn });
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
        let Some(first) = self.batch.first().map(|first| first.turn) else {
            return;
        };
        self.unsignaled.retain(|ticket| ticket.turn < first);
        for ticket in std::mem::take(&mut self.batch) {
            self.end(ticket, false);
        }
    }

    /// Where the datagram with this id goes.
    pub(super) fn address(&self, id: u64) -> Option<&AddressHandle> {
        self.slots.get(id)?.address()
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
