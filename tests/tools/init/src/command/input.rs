//! A command's input.

use crate::terminal;
use guest_init::WindowSize;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// The writing end of a command's standard input. A command that does not read blocks nothing else;
/// dropping this value ends the input.
#[derive(Debug)]
pub(super) struct Input {
    data: Sender<Vec<u8>>,
    terminal: Option<File>,
}

impl Input {
    /// Writes into a pipe.
    pub(super) fn pipe(pipe: File) -> Self {
        Self {
            data: carry(pipe),
            terminal: None,
        }
    }

    /// Writes into a terminal.
    pub(super) fn terminal(terminal: File) -> io::Result<Self> {
        Ok(Self {
            data: carry(terminal.try_clone()?),
            terminal: Some(terminal),
        })
    }

    pub(super) fn write(&self, data: Vec<u8>) {
        // The command may have ended already.
        let _ = self.data.send(data);
    }

    pub(super) fn resize(&self, size: WindowSize) {
        if let Some(terminal) = &self.terminal {
            let _ = terminal::resize(terminal, size);
        }
    }
}

fn carry(mut to: File) -> Sender<Vec<u8>> {
    let (sender, receiver) = channel::<Vec<u8>>();
    thread::spawn(move || {
        while receiver
            .recv()
            .is_ok_and(|data| to.write_all(&data).is_ok())
        {}
    });
    sender
}
