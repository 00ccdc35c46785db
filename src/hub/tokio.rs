//! tokio as the executor of a driver, and of handshakes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use uverbs_core::{Error, ErrorKind, Op, Result};

use super::{Connection, Events, Prepared};
use crate::asynchronous::{AsyncCompletionChannel, AsyncEventChannel};
use crate::cm::{CmError, Request, Resolved};

impl Events for AsyncCompletionChannel {
    async fn event(&self, limit: Option<Duration>) -> Result<bool> {
        let Some(limit) = limit else {
            return Self::event(self).await.map(|_| true);
        };
        // tokio panics in a runtime without timers; this library does not.
        let event = AssertUnwindSafe(|| tokio::time::timeout(limit, Self::event(self)));
        let event = catch_unwind(event).map_err(|_| {
            Error::new(Op::GetCompletionEvent, ErrorKind::InvalidState)
                .hint("the runtime has no timers: enable_time")
        })?;
        match event.await {
            Ok(event) => event.map(|_| true),
            Err(_) => Ok(false),
        }
    }
}

impl Prepared {
    /// As [`connect_to`](Self::connect_to), for tasks of tokio; `channel` is the one that the peer
    /// was [resolved](AsyncEventChannel::resolve) on. Needs a runtime with timers.
    ///
    /// A future that is dropped gives the connection up: the queue pair is destroyed and its
    /// buffers go back to the hub, and the peer is told by another thread.
    ///
    /// # Errors
    /// As [`connect_to`](Self::connect_to).
    pub async fn connect_to_async(
        self,
        peer: Resolved,
        channel: &AsyncEventChannel,
    ) -> Result<Connection, CmError> {
        Ok(self.connect_by(peer, channel).await?.0)
    }

    /// As [`accept`](Self::accept), for tasks of tokio; `channel` is the one on which the request
    /// [came](AsyncEventChannel::request). Otherwise as
    /// [`connect_to_async`](Self::connect_to_async).
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub async fn accept_async(
        self,
        request: Request,
        channel: &AsyncEventChannel,
    ) -> Result<Connection, CmError> {
        self.accept_by(request, channel).await
    }
}
