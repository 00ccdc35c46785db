//! Posting receive requests, whose memory the queue owns from then on.
//!
//! # Safety
//!
//! See the queue pair's module: what a request names is in the table before the request is in the
//! ring, and leaves it as described there.
#![allow(unsafe_code, reason = "posts memory that this queue owns")]

use uverbs_core::contract::Qp as _;
use uverbs_core::types::RecvRequest;
use uverbs_core::{PostError, Result};

use super::{Owner, QueuePair};
use crate::owned::Buffer;
use crate::owned::sges::Sges;
use crate::owned::slab::Slab;
use crate::owned::work::{Memory, MemoryRefused, ReceiveRefused};
use crate::transport::{Receives, Transport};

impl<T: Transport> QueuePair<T> {
    /// Posts `buffer` to receive a message into. No system call on rxe.
    ///
    /// # Errors
    /// Why it was refused, and the buffer.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn recv(&mut self, buffer: Buffer, user_data: u64) -> Result<(), ReceiveRefused>
    where
        T: Receives,
    {
        let Owner {
            qp, tables, domain, ..
        } = &mut self.owner;
        let table = &mut tables.receiving;
        post_receive(table, buffer, *domain, user_data, |request| {
            // SAFETY: the memory of the scatter/gather entry is a buffer that the table owns until
            // its completion has been polled, or a destroy or reset has been confirmed.
            unsafe { qp.queue.post_recv(&[*request]) }.map_err(|(_, error)| error)
        })
    }

    /// Posts memory of any kind to receive a message into: a part of a buffer, exposed memory, or a
    /// list that is filled from its start. No system call on rxe.
    ///
    /// # Errors
    /// Why it was refused, and the memory.
    pub fn recv_into(
        &mut self,
        memory: impl Into<Memory>,
        user_data: u64,
    ) -> Result<(), MemoryRefused>
    where
        T: Receives,
    {
        let memory = memory.into();
        let sges = match &memory {
            Memory::List(list) => Sges::of(list, self.owner.qp.pd()),
            one => Sges::of(std::slice::from_ref(one), self.owner.qp.pd()),
        };
        let sges = match sges {
            Ok(sges) => sges,
            Err(error) => return Err(MemoryRefused { error, memory }),
        };
        let receiving = &mut self.owner.tables.receiving;
        let wr_id = receiving
            .insert(RECEIVE, user_data, memory)
            .map_err(|memory| MemoryRefused {
                error: PostError::QueueFull,
                memory,
            })?;
        let scatter = sges.as_slice();
        // SAFETY: the memory is in the table until its completion has been polled, or a destroy or
        // reset has been confirmed; exposed memory lends no references.
        let posted = unsafe { self.owner.qp.post_recv(&[RecvRequest { wr_id, scatter }]) };
        posted.or_else(|failed| match receiving.take(wr_id) {
            Some(receive) => Err(MemoryRefused {
                error: failed.error,
                memory: receive.memory,
            }),
            None => Ok(()),
        })
    }

    /// Posts a receive request without memory, for a message without data (such as a write with
    /// immediate).
    ///
    /// # Errors
    /// Why it was refused.
    pub fn recv_empty(&mut self, user_data: u64) -> Result<(), PostError>
    where
        T: Receives,
    {
        self.recv_into(Memory::None, user_data)
            .map_err(|refused| refused.error)
    }
}

/// The turn of every receive: only their completions say which of them are over.
const RECEIVE: u64 = 1;

/// Puts `buffer` into `table` and posts it; returns it if it is refused.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(in crate::owned) fn post_receive(
    table: &mut Slab,
    buffer: Buffer,
    domain: usize,
    user_data: u64,
    post: impl FnOnce(&RecvRequest<'_>) -> Result<(), PostError>,
) -> Result<(), ReceiveRefused> {
    let len = buffer.len();
    if !buffer.can_move(domain, len) {
        return Err(ReceiveRefused::new(PostError::InvalidRequest, buffer));
    }
    let sge = buffer.sge_of(len);
    let wr_id = match table.insert(RECEIVE, user_data, Memory::Buffer(buffer, len)) {
        Ok(id) => id,
        Err(memory) => return full(memory),
    };
    let scatter = [sge];
    let request = RecvRequest {
        wr_id,
        scatter: &scatter,
    };
    match post(&request) {
        Ok(()) => Ok(()),
        Err(error) => refused(table, wr_id, error),
    }
}

#[cold]
#[inline(never)]
fn full(memory: Memory) -> Result<(), ReceiveRefused> {
    match memory {
        Memory::Buffer(buffer, _) => Err(ReceiveRefused::new(PostError::QueueFull, buffer)),
        // Only buffers are put into the table here.
        _ => Ok(()),
    }
}

#[cold]
#[inline(never)]
fn refused(table: &mut Slab, wr_id: u64, error: PostError) -> Result<(), ReceiveRefused> {
    match table.take(wr_id).map(|taken| taken.memory) {
        Some(Memory::Buffer(buffer, _)) => Err(ReceiveRefused::new(error, buffer)),
        // Only buffers are put into the table here, and nothing takes them out in between.
        _ => Ok(()),
    }
}
