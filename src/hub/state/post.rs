//! Posting on a connection.

use std::sync::atomic::Ordering;
use std::task::Waker;

use uverbs_core::PostError;
use uverbs_core::types::{Remote, RemoteKey};

use super::{Conn, ConnectionError, PROBE, Posting, Queue, Slot, State, UNWATCHED, put_released};
use crate::owned::{Buffer, Carried, Work};

impl Conn {
    /// Posts `work` if there is room.
    pub(in crate::hub) fn post(&self, work: Work, state: &mut State) -> Posting {
        if let Some(over) = state.over {
            return Posting::Refused(over, Some(work.take_memory()));
        }
        if state.under_way >= self.sends {
            return Posting::Full(Box::new(work));
        }
        let Some(qp) = &mut state.qp else {
            return Posting::Refused(ConnectionError::Closed, Some(work.take_memory()));
        };
        let slot = state.free.pop().unwrap_or_else(|| {
            state.slots.push(Slot::Free);
            state.slots.len() - 1
        });
        match qp.queue().post(work.user_data(slot as u64)) {
            Ok(()) => {
                state.set(slot, Slot::UnderWay(None));
                state.under_way += 1;
                Posting::Posted(slot)
            }
            Err(refused) => {
                if refused.work.is_some() {
                    state.free.push(slot);
                } else {
                    // The device may carry it out all the same.
                    state.set(slot, Slot::Abandoned);
                    state.under_way += 1;
                }
                match (refused.error, refused.work) {
                    // Requests that the device has not finished, although their waits are over.
                    (PostError::QueueFull, Some(work)) => Posting::Full(Box::new(work)),
                    (error, work) => Posting::Refused(
                        ConnectionError::Refused(error),
                        work.map(Work::take_memory),
                    ),
                }
            }
        }
    }

    /// Posts a send whose result nobody waits for: its buffer goes back to the pool when a later
    /// request has ended. It has a completion of its own if it `is_last`, and now and then, so that
    /// the queue does not fill up. Returns its buffer if it is ours.
    pub(in crate::hub) fn post_unwatched(
        &self,
        imm: u32,
        carried: Carried<'_>,
        is_last: bool,
        state: &mut State,
    ) -> Result<(), (ConnectionError, Option<Buffer>)> {
        let qp = match (state.over, &mut state.qp) {
            (None, Some(qp)) if state.under_way < self.sends => qp,
            (over, qp) => {
                let full = ConnectionError::Refused(PostError::QueueFull);
                let closed = qp.is_none().then_some(ConnectionError::Closed);
                return Err((over.or(closed).unwrap_or(full), carried.into_buffer()));
            }
        };
        let is_silent = !is_last && state.silent + 1 < self.sends.div_ceil(2);
        let posted = (qp.queue()).post_message(imm, carried, UNWATCHED, !is_silent);
        let refused = match posted {
            Ok(()) => None,
            // The device may carry it out all the same.
            Err((error @ PostError::Doorbell(_), None)) => Some(error),
            Err((error, buffer)) => return Err((ConnectionError::Refused(error), buffer)),
        };
        state.under_way += 1;
        state.silent = if is_silent { state.silent + 1 } else { 0 };
        refused.map_or(Ok(()), |error| Err((ConnectionError::Refused(error), None)))
    }

    /// The same of several, with one doorbell; there has to be room for them. Takes all buffers:
    /// the pool gets those that are still ours if they are refused.
    pub(in crate::hub) fn post_unwatched_batch(
        &self,
        mut messages: impl Iterator<Item = (Buffer, usize, u32)>,
        state: &mut State,
    ) -> Result<(), ConnectionError> {
        let posted = self.submit_unwatched(&mut messages, state);
        for (buffer, ..) in messages {
            self.pool.put_silently(buffer);
        }
        posted
    }

    fn submit_unwatched(
        &self,
        messages: &mut impl Iterator<Item = (Buffer, usize, u32)>,
        state: &mut State,
    ) -> Result<(), ConnectionError> {
        if let Some(over) = state.over {
            return Err(over);
        }
        let Some(qp) = &mut state.qp else {
            return Err(ConnectionError::Closed);
        };
        let (most, mut silent) = (self.sends.div_ceil(2), state.silent);
        let mut batch = qp.queue().batch();
        let pushed = messages.try_for_each(|(buffer, len, imm)| {
            let is_silent = silent + 1 < most;
            silent = if is_silent { silent + 1 } else { 0 };
            batch.push_message(imm, Carried::Buffer(buffer, len), UNWATCHED, !is_silent)
        });
        let posted = match pushed {
            Ok(()) => batch.submit().map_err(ConnectionError::Refused),
            Err((error, buffer)) => {
                drop(batch);
                if let Some(buffer) = buffer {
                    self.pool.put_silently(buffer);
                }
                Err(ConnectionError::Refused(error))
            }
        };
        // Of a batch that was not submitted.
        put_released(qp.queue(), &self.pool);
        state.silent = silent;
        state.count();
        posted
    }

    /// Asks the peer for a sign of life if there was none since the last time.
    pub(in crate::hub) fn probe(&self, wake: &mut Vec<Waker>) {
        let mut state = self.lock();
        let quiet = !std::mem::take(&mut state.heard);
        if !quiet || state.probing || state.is_awaited() || state.over.is_some() {
            return;
        }
        let qp = match &mut state.qp {
            None | Some(Queue::InHandshake(_)) => return,
            Some(qp) => qp,
        };
        // No byte is moved, so no key is checked; it is acknowledged all the same.
        let nowhere = Remote {
            address: 0,
            key: RemoteKey::from_raw(0),
        };
        match qp.queue().post(Work::write(nowhere).user_data(PROBE)) {
            Ok(()) => {
                state.probing = true;
                state.silent = 0;
            }
            Err(refused) => {
                state.lost(ConnectionError::Refused(refused.error), wake);
                self.news.store(true, Ordering::Release);
            }
        }
    }
}
