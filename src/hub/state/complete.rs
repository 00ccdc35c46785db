//! Completions of a connection.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::task::Waker;

use uverbs_core::types::{QpAttr, QpState};

use super::{Conn, ConnectionError, PROBE, RECEIVE, State, UNWATCHED};
use crate::Completion;
use crate::owned::Finished;

/// A connection whose completions are taken, one after another, under one lock.
pub(in crate::hub) struct Completing<'c> {
    conn: &'c Conn,
    state: MutexGuard<'c, State>,
    has_any: bool,
}

impl Completing<'_> {
    /// The number of the connection's queue pair.
    pub(in crate::hub) fn number(&self) -> u32 {
        self.conn.number
    }

    /// Ends a request of this connection; returns the completion if it is none of its queue pair's.
    pub(in crate::hub) fn complete<'cq>(
        &mut self,
        completion: Completion<'cq>,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Completion<'cq>> {
        let (conn, state) = (self.conn, &mut *self.state);
        let Some(qp) = &mut state.qp else {
            return Err(completion);
        };
        let finished = qp.queue().complete(completion)?;
        if !self.has_any {
            self.has_any = true;
            state.heard = true;
            conn.news.store(true, Ordering::Release);
        }
        if !finished.status().is_success() {
            let why = match state.left_by {
                Some(_) => ConnectionError::PeerLeft,
                None => ConnectionError::Disconnected(finished.status()),
            };
            state.lost(why, wake);
        }
        match finished.user_data() {
            RECEIVE => state.received(finished, false, &conn.pool),
            PROBE => {
                state.probing = false;
                state.passed(&conn.pool, wake);
            }
            UNWATCHED => {
                conn.pool.put_memory_silently(finished.into_memory());
                state.passed(&conn.pool, wake);
            }
            slot => state.ended(
                slot,
                finished.status(),
                finished.into_memory(),
                &conn.pool,
                wake,
            ),
        }
        if state.left_by.is_some() && !state.is_awaited() {
            state.lost(ConnectionError::PeerLeft, wake);
        }
        Ok(())
    }

    /// Gives the lock back. Who waits for a message is to be woken.
    pub(in crate::hub) fn finish(mut self, wake: &mut Vec<Waker>) {
        if self.has_any && !self.state.inbox.is_empty() {
            self.state.receivers.take_all(wake);
        }
    }
}

impl Conn {
    /// Begins to take its completions.
    pub(in crate::hub) fn completing(&self) -> Completing<'_> {
        Completing {
            conn: self,
            state: self.lock(),
            has_any: false,
        }
    }

    /// Ends a receive that came from the shared receive queue.
    pub(in crate::hub) fn complete_shared(&self, finished: Finished, wake: &mut Vec<Waker>) {
        let mut state = self.lock();
        state.heard = true;
        self.news.store(true, Ordering::Release);
        if state.inbox.len() >= self.backlog && state.over.is_none() {
            state.lost(ConnectionError::Backlog, wake);
            // Whatever else arrives is not kept, even if the kernel refuses this.
            if let Some(qp) = &mut state.qp {
                let _ = qp.queue().modify(&QpAttr::to(QpState::Error));
            }
        }
        state.received(finished, true, &self.pool);
        state.receivers.take_all(wake);
    }
}
