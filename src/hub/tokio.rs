//! tokio as the executor of a driver.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use uverbs_core::{Error, ErrorKind, Op, Result};

use super::Events;
use crate::asynchronous::AsyncCompletionChannel;

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
