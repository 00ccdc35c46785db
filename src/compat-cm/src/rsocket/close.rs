//! The end of a connection, of one direction or of both.

use std::ffi::c_int;

use super::flow::Phase;
use super::stream::Stream;
use super::wire::{Control, Message};
use crate::answer::Answer;
use crate::connect;
use crate::errno::Code;

impl Stream {
    /// Ends sending, receiving or both, and waits until what was sent has arrived.
    pub(super) fn shutdown(&self, how: c_int) -> Answer<()> {
        let endpoint = self.connected()?;
        let control = {
            let mut flow = self.flow();
            let (reads, writes) = match how {
                libc::SHUT_RD => (false, true),
                libc::SHUT_WR => (true, false),
                libc::SHUT_RDWR => (false, false),
                _ => return Err(Code::INVALID),
            };
            flow.is_readable &= reads;
            flow.is_writable &= writes;
            match (flow.is_readable, flow.is_writable) {
                _ if flow.phase != Phase::Open => None,
                (false, false) => Some(Control::Disconnect),
                (_, false) => Some(Control::Shutdown),
                (_, true) => None,
            }
        };
        self.sleepers.wake();
        if let Some(control) = control {
            // What was sent arrives first, so that a peer may see it before it sees the end: some
            // programs take that for an error.
            let is_sent = self.wait(true, |_, flow| {
                if flow.phase == Phase::Open && !(flow.is_idle() && flow.control()) {
                    return None;
                }
                Some(Ok(flow.phase == Phase::Open))
            })?;
            if is_sent {
                endpoint.post_message(Message::Control(control))?;
            }
            self.wait(true, |_, flow| {
                (flow.phase != Phase::Open || flow.is_idle()).then_some(Ok(()))
            })?;
        }
        if self.flow().phase == Phase::Closed {
            let _ = connect::disconnect(self.link.id()?);
            self.sleepers.wake();
        }
        Ok(())
    }

    /// Ends everything: others that use the socket find it ended.
    pub(super) fn close(&self) {
        let phase = self.flow().phase;
        match phase {
            Phase::Open => {
                let _ = self.shutdown(libc::SHUT_RDWR);
            }
            Phase::Listening => self.stop_listening(),
            _ => {}
        }
        self.sleepers.wake();
    }
}
