//! Posts the work requests of a test.
//!
//! # Safety
//!
//! Every request names a part of the rig's [`Memory`], which is registered in the protection domain
//! of its queue pair, outlives the queue pair, and is never borrowed: this process accesses single
//! bytes of it, only through atomics. So whatever the device does to it at any time is sound.
#![allow(unsafe_code, reason = "posts requests over memory of its own")]

use uverbs::{
    AddressHandle, Operation, Payload, PostError, QueuePair, RecvRequest, Remote, SendRequest,
};

use super::exchanged::QKEY;
use super::memory::Memory;
use super::spec::{Spec, Verb};

/// A queue pair of a test and its memory.
pub(super) struct Lane {
    number: u64,
    qp: QueuePair,
    remote: Remote,
    to: Option<(AddressHandle, u32)>,
    /// The offset of its outgoing messages.
    pub(super) outgoing: usize,
    /// The offset of its incoming messages.
    pub(super) incoming: usize,
    posted: u64,
    completed: u64,
    /// How many receive requests are in the queue.
    pub(super) receives: u32,
}

/// What all requests of a test have in common.
pub(super) struct Template {
    verb: Verb,
    inline: u32,
    header: u32,
    post_list: u32,
    /// The data of inline messages.
    zeros: Vec<u8>,
}

/// The low bits of a request's number: how many requests its completion stands for.
const COUNT_BITS: u32 = 32;

impl Template {
    pub(super) fn of(spec: &Spec, header: u32) -> Self {
        Self {
            verb: spec.verb,
            inline: if spec.verb == Verb::Read {
                0
            } else {
                spec.inline
            },
            header,
            post_list: spec.post_list,
            zeros: vec![0; spec.inline as usize],
        }
    }
}

impl Lane {
    pub(super) fn new(
        number: usize,
        qp: QueuePair,
        remote: Remote,
        to: Option<(AddressHandle, u32)>,
        outgoing: usize,
        incoming: usize,
    ) -> Self {
        Self {
            number: number as u64,
            qp,
            remote,
            to,
            outgoing,
            incoming,
            posted: 0,
            completed: 0,
            receives: 0,
        }
    }

    /// How many requests are outstanding.
    #[inline]
    pub(super) fn under_way(&self) -> u64 {
        self.posted - self.completed
    }

    /// Which lane a send completion belongs to, and how many requests it stands for.
    #[inline]
    pub(super) fn of_completion(wr_id: u64) -> (u64, u64) {
        (wr_id >> COUNT_BITS, wr_id & ((1 << COUNT_BITS) - 1))
    }

    /// Records that requests of this lane were completed.
    #[inline]
    pub(super) fn complete(&mut self, count: u64) {
        self.completed = (self.completed + count).min(self.posted);
    }

    /// Posts `count` messages of `size` bytes, `post_list` per doorbell. The last one is signaled,
    /// and its completion stands for all.
    #[inline]
    pub(super) fn send(
        &mut self,
        memory: &Memory,
        template: &Template,
        size: u32,
        count: u32,
        signal: bool,
    ) -> Result<(), PostError> {
        self.push(memory, template, size, (count, signal.then_some(count)))
    }

    /// Posts requests, the last of which is signaled on behalf of that many, if any.
    #[inline]
    fn push(
        &mut self,
        memory: &Memory,
        template: &Template,
        size: u32,
        (count, signal): (u32, Option<u32>),
    ) -> Result<(), PostError> {
        let sge = [memory
            .sge(self.outgoing, size)
            .map_err(|_| PostError::InvalidRequest)?];
        let copied = [template.zeros.get(..size as usize).unwrap_or_default()];
        let payload = if size > 0 && size <= template.inline {
            Payload::Inline(&copied)
        } else {
            Payload::Gather(&sge)
        };
        let operation = match template.verb {
            Verb::Send => Operation::Send,
            Verb::Write => Operation::Write(self.remote),
            Verb::Read => Operation::Read(self.remote),
        };
        let mut request = SendRequest::new(operation, payload);
        if let Some((address, qp_num)) = &self.to {
            request = request.to(address.to(*qp_num, QKEY));
        }
        let last = match signal {
            Some(count) => request
                .wr_id(self.number << COUNT_BITS | u64::from(count))
                .signaled(),
            None => request,
        };
        let mut left = count;
        while left > 0 {
            let now = left.min(template.post_list);
            let mut batch = self.qp.send_batch();
            for at in 1..=now {
                let request = if at == left { &last } else { &request };
                // SAFETY: the scatter/gather entry names the memory of the rig; see the head of
                // this file.
                unsafe { batch.push(request) }?;
            }
            batch.submit()?;
            self.posted += u64::from(now);
            left -= now;
        }
        Ok(())
    }

    /// Posts one signaled message whose completion stands for `count` requests, including those
    /// before it.
    #[inline]
    pub(super) fn send_for(
        &mut self,
        memory: &Memory,
        template: &Template,
        size: u32,
        count: u32,
    ) -> Result<(), PostError> {
        self.push(memory, template, size, (1, Some(count)))
    }

    /// Writes a byte with the value `stamp` after `size - 1` others: the last byte, which the peer
    /// polls.
    pub(super) fn stamp(
        &mut self,
        memory: &Memory,
        template: &Template,
        size: u32,
        stamp: u8,
        signal: Option<u32>,
    ) -> Result<(), PostError> {
        let last = size.saturating_sub(1) as usize;
        let mut bytes = [0_u8; 256];
        let inline = size <= template.inline && (size as usize) <= bytes.len();
        if let (true, Some(byte)) = (inline, bytes.get_mut(last)) {
            *byte = stamp;
        } else {
            memory.store(self.outgoing + last, stamp);
        }
        let copied = [bytes.get(..size as usize).unwrap_or_default()];
        let sge = [memory
            .sge(self.outgoing, size)
            .map_err(|_| PostError::InvalidRequest)?];
        let payload = if inline {
            Payload::Inline(&copied)
        } else {
            Payload::Gather(&sge)
        };
        let mut request = SendRequest::new(Operation::Write(self.remote), payload);
        if let Some(count) = signal {
            request = request
                .wr_id(self.number << COUNT_BITS | u64::from(count))
                .signaled();
        }
        let mut batch = self.qp.send_batch();
        // SAFETY: the scatter/gather entry names the memory of the rig; see the head of this file.
        unsafe { batch.push(&request) }?;
        batch.submit()?;
        self.posted += 1;
        Ok(())
    }

    /// Posts `count` requests for messages of up to `size` bytes.
    #[inline]
    pub(super) fn receive(
        &mut self,
        memory: &Memory,
        template: &Template,
        size: u32,
        count: u32,
    ) -> Result<(), PostError> {
        let scatter = [memory
            .sge(self.incoming, size + template.header)
            .map_err(|_| PostError::InvalidRequest)?];
        let request = RecvRequest {
            wr_id: self.number,
            scatter: &scatter,
        };
        let mut batch = self.qp.recv_batch();
        for _ in 0..count {
            // SAFETY: the scatter/gather entry names the memory of the rig; see the head of this
            // file.
            unsafe { batch.push(&request) }?;
        }
        batch.submit()?;
        self.receives += count;
        Ok(())
    }
}
