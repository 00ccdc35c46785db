//! Requests that ended.
//!
//! A program that asks for the status and takes the buffer should have both in registers. What is
//! dropped at its own address is in memory instead, wherever that may happen: so the memory is
//! dropped as a new value.
//!
//! # Safety
//!
//! The memory of a [`Finished`] is there until it is taken out or dropped, which consumes it.
#![allow(unsafe_code, reason = "drops memory as a new value")]

use std::mem::ManuallyDrop;

use uverbs_core::types::{WcOpcode, WcStatus, WorkCompletion};

use super::slab::Taken;
use super::{Buffer, Memory};

/// A request that ended, successfully or not, and its memory.
///
/// Its parts are functions, so that a program that asks for few of them does not make the compiler
/// put all of them together. What else its completion says is read from that before it is
/// exchanged.
///
/// ```no_run
/// # fn f(qp: &mut uverbs::owned::QueuePair, completion: uverbs::Completion<'_>) {
/// let sender = completion.src_qp;
/// if let Ok(finished) = qp.complete(completion) {
///     println!("{} bytes from {sender}", finished.len());
///     let _buffer = finished.into_buffer();
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Finished {
    memory: ManuallyDrop<Memory>,
    user_data: u64,
    /// Of the completion.
    byte_len: u32,
    status: WcStatus,
    opcode: WcOpcode,
    imm: Option<u32>,
}

impl Finished {
    #[expect(clippy::inline_always, reason = "so that no completion is copied")]
    #[inline(always)]
    pub(super) fn new(taken: Taken, completion: &WorkCompletion) -> Self {
        Self {
            memory: ManuallyDrop::new(taken.memory),
            user_data: taken.user_data,
            byte_len: completion.byte_len,
            status: completion.status,
            opcode: completion.opcode,
            imm: completion.imm,
        }
    }

    /// For a request whose completion was lost with its queue.
    pub(super) fn unpolled(taken: Taken) -> Self {
        let completion = WorkCompletion {
            status: WcStatus::Flushed,
            opcode: WcOpcode::Recv,
            ..WorkCompletion::default()
        };
        Self::new(taken, &completion)
    }

    /// The `user_data` it was posted with.
    #[inline]
    pub fn user_data(&self) -> u64 {
        self.user_data
    }

    /// How it ended.
    #[inline]
    pub fn status(&self) -> WcStatus {
        self.status
    }

    /// What kind of request it was.
    ///
    /// Valid only if it succeeded.
    #[inline]
    pub fn opcode(&self) -> WcOpcode {
        self.opcode
    }

    /// Bytes received or read, never more than were posted; 0 if it failed.
    #[inline]
    pub fn len(&self) -> usize {
        if !self.status.is_success() {
            return 0;
        }
        (self.byte_len as usize).min(self.memory.len())
    }

    /// True if it received or read no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The immediate value that a message or a write brought, in host order.
    #[inline]
    pub fn imm(&self) -> Option<u32> {
        self.imm
    }

    /// Its memory.
    #[inline]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Takes its memory.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub fn into_memory(self) -> Memory {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: it is there, and is not dropped with what it was taken from.
        unsafe { ManuallyDrop::take(&mut this.memory) }
    }

    /// Takes its buffer, if its memory is one.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub fn into_buffer(self) -> Option<Buffer> {
        self.into_memory().into_buffer()
    }

    /// The received bytes, if it was a receive into a buffer.
    #[inline]
    pub fn bytes(&self) -> Option<&[u8]> {
        match &*self.memory {
            Memory::Buffer(buffer, _) => buffer.get(..self.len()),
            _ => None,
        }
    }
}

impl Drop for Finished {
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn drop(&mut self) {
        if !matches!(*self.memory, Memory::None) {
            // SAFETY: it is there, and nothing uses it after this.
            give_up(unsafe { ManuallyDrop::take(&mut self.memory) });
        }
    }
}

/// Drops `_memory`, where it is.
#[inline(never)]
pub(super) fn give_up(_memory: Memory) {}
