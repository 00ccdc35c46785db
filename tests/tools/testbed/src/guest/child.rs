//! A running command.

use super::link::Link;
use super::{Command, Output};
use crate::Error;
use guest_init::{Bytes, Request, WindowSize};
use std::sync::Arc;
use std::time::Duration;

/// A running command. When dropped, it continues to run; [`kill`](Self::kill) ends it.
#[derive(Debug)]
pub struct Child {
    link: Arc<Link>,
    id: u32,
    command: String,
    time_limit: Option<Duration>,
}

impl Child {
    pub(super) fn start(link: &Arc<Link>, id: u32, command: Command) -> Result<Self, Error> {
        let (words, time_limit) = (command.line(), command.time_limit());
        link.expect(id, command.echoes());
        link.send(&Request::Launch(command.into_launch(id)))?;
        Ok(Self {
            link: Arc::clone(link),
            id,
            command: words,
            time_limit,
        })
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The machine is gone, or does not answer although the command's time limit has passed.
    pub fn wait(self) -> Result<Output, Error> {
        self.wait_shared()
    }

    /// As [`wait`](Self::wait), for a command that another thread still writes to. Its end is
    /// reported once.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_shared(&self) -> Result<Output, Error> {
        self.link
            .wait_for_end(self.id, &self.command, self.time_limit)
    }

    /// Waits until it has written a text to its standard output or error.
    ///
    /// # Errors
    /// [`Error::Silence`] if it ends or `timeout` expires before that; [`Error::Machine`] if the
    /// machine is gone.
    pub fn wait_for_text(&self, text: &str, timeout: Duration) -> Result<(), Error> {
        self.link.wait_for_text(self.id, text, timeout)
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.link.has_ended(self.id)
    }

    /// Writes to its standard input.
    ///
    /// # Errors
    /// The machine is gone.
    pub fn write(&self, data: &[u8]) -> Result<(), Error> {
        self.link.send(&Request::Input {
            id: self.id,
            data: Bytes(data.to_vec()),
        })
    }

    /// Closes its standard input.
    ///
    /// # Errors
    /// The machine is gone.
    pub fn close_input(&self) -> Result<(), Error> {
        self.link.send(&Request::CloseInput { id: self.id })
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// The machine is gone.
    pub fn signal(&self, signal: i32) -> Result<(), Error> {
        self.link.send(&Request::Signal {
            id: self.id,
            signal,
        })
    }

    /// Kills it; [`wait`](Self::wait) returns what it wrote until then.
    ///
    /// # Errors
    /// The machine is gone.
    pub fn kill(&self) -> Result<(), Error> {
        self.signal(9)
    }

    /// Sets the size of its terminal.
    ///
    /// # Errors
    /// The machine is gone.
    pub fn resize(&self, size: WindowSize) -> Result<(), Error> {
        self.link.send(&Request::Resize { id: self.id, size })
    }
}
