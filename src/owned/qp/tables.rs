//! What is posted on a queue pair.

use std::collections::VecDeque;

use uverbs_core::types::QpCaps;

use crate::AddressHandle;
use crate::owned::slab::Slab;
use crate::owned::work::{Memory, Released};

/// The requests of both queues.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) sending: Sending,
    pub(super) receiving: Slab<Receive>,
}

/// A receive request in a queue.
#[derive(Debug)]
pub(in crate::owned) struct Receive {
    pub(in crate::owned) user_data: u64,
    pub(in crate::owned) memory: Memory,
}

/// A send request in a queue: only what is needed when it ends.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) user_data: u64,
    pub(super) memory: Memory,
    /// Kept until then, because the request refers to the kernel's handle by number.
    pub(super) address: Option<AddressHandle>,
    /// Its position among all send requests of the queue pair.
    turn: u64,
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
    slots: Slab<Sent>,
    next_turn: u64,
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
        let sent = self.sending.slots.into_iter().map(|sent| sent.memory);
        let received = self.receiving.into_iter().map(|receive| receive.memory);
        sent.chain(received)
            .filter(|memory| !matches!(memory, Memory::None))
            .collect()
    }
}

impl Sent {
    #[expect(clippy::inline_always, reason = "a part of posting and polling")]
    #[inline(always)]
    pub(super) fn new(user_data: u64, memory: Memory, address: Option<AddressHandle>) -> Self {
        Self {
            user_data,
            memory,
            address,
            turn: 0,
        }
    }
}

/// Out of the way of requests without an address.
#[cold]
#[inline(never)]
fn let_go(address: AddressHandle) {
    drop(address);
}

impl Sending {
    /// Puts a request into the table, before it is put into the ring. Returns it if there is no
    /// room.
    #[expect(clippy::inline_always, reason = "a part of posting and polling")]
    #[inline(always)]
    pub(super) fn insert(&mut self, mut sent: Sent, signaled: bool) -> Result<u64, Sent> {
        let turn = self.next_turn;
        sent.turn = turn;
        let id = self.slots.insert(sent)?;
        self.next_turn = turn.wrapping_add(1);
        if !signaled {
            self.unsignaled.push_back(Ticket { id, turn });
        }
        Ok(id)
    }

    /// Takes out a request that was refused, which is the youngest.
    #[cold]
    pub(super) fn refused(&mut self, id: u64) -> Option<Sent> {
        let sent = self.slots.remove(id)?;
        if self
            .unsignaled
            .back()
            .is_some_and(|last| last.turn == sent.turn)
        {
            self.unsignaled.pop_back();
        }
        Some(sent)
    }

    /// Takes out a request whose completion has been polled: its number and its memory.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(super) fn complete(&mut self, id: u64) -> Option<(u64, Memory)> {
        let Sent {
            user_data,
            memory,
            address,
            turn,
        } = self.slots.remove(id)?;
        if let Some(address) = address {
            let_go(address);
        }
        if !self.unsignaled.is_empty() {
            self.pass(turn);
        }
        Some((user_data, memory))
    }

    /// Everything before this turn is over.
    #[cold]
    #[inline(never)]
    fn pass(&mut self, turn: u64) {
        // A failed request has a completion of its own though it is unsignaled: its slot is then
        // empty or another's, which `take` notices.
        while let Some(&first) = self.unsignaled.front()
            && first.turn <= turn
        {
            self.unsignaled.pop_front();
            self.end(first, true);
        }
    }

    /// The request ends without a completion. If it has no memory, nobody wants to know.
    fn end(&mut self, ticket: Ticket, carried_out: bool) {
        match self.at(ticket) {
            Some(sent) if !matches!(sent.memory, Memory::None) => {
                self.over.push_back((ticket, carried_out));
            }
            Some(_) => drop(self.slots.remove(ticket.id)),
            None => {}
        }
    }

    /// Takes out the memory of a request that ended without a completion.
    pub(super) fn released(&mut self) -> Option<Released> {
        while let Some((ticket, carried_out)) = self.over.pop_front() {
            if self.at(ticket).is_some()
                && let Some(sent) = self.slots.remove(ticket.id)
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
        let turn = self.next_turn.wrapping_sub(1);
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

    #[inline]
    pub(super) fn get(&self, id: u64) -> Option<&Sent> {
        self.slots.get(id)
    }

    /// The request that the ticket was given for, if it is still there.
    fn at(&self, ticket: Ticket) -> Option<&Sent> {
        self.slots
            .get(ticket.id)
            .filter(|sent| sent.turn == ticket.turn)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}
