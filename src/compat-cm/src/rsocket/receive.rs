//! Receiving: what the peer has written into the ring is copied out.

use std::ffi::c_int;

use super::endpoint::Endpoint;
use super::flow::{Flow, Phase};
use super::stream::{NOT_CONNECTED, RESET, Stream, lock};
use crate::answer::Answer;

impl Stream {
    /// What has arrived, and nothing at the end of the stream. Waits until there is some, or with
    /// `MSG_WAITALL` until there is enough.
    pub(super) fn receive(&self, bytes: &mut [u8], flags: c_int) -> Answer<usize> {
        self.connected_first(flags)?;
        let blocks = self.blocks(flags);
        let endpoint = self.connected()?;
        let mut position = lock(&self.reads);
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut received = 0;
        while let Some(rest) = bytes.get_mut(received..).filter(|rest| !rest.is_empty()) {
            let there = match self.arrived(blocks) {
                Ok(there) => there,
                Err(_) if received > 0 => break,
                Err(code) => return Err(code),
            };
            let length = u32::try_from(rest.len()).map_or(there, |room| room.min(there));
            let (to, _) = rest.split_at_mut(length as usize);
            copy(endpoint, *position, to);
            received += to.len();
            if flags & libc::MSG_PEEK != 0 {
                break;
            }
            self.consumed(endpoint, &mut position, length);
            let is_enough = flags & libc::MSG_WAITALL == 0;
            // What has arrived in the meantime is not looked for without need.
            if length == 0 || (is_enough && self.flow().unread() == 0) {
                break;
            }
        }
        Ok(received)
    }

    /// The same into several parts: into the first one that has room, then what is there for the
    /// others.
    pub(super) fn receive_parts(&self, parts: &mut [&mut [u8]], flags: c_int) -> Answer<usize> {
        let mut received = 0;
        for part in parts.iter_mut().filter(|part| !part.is_empty()) {
            let later = if received > 0 { libc::MSG_DONTWAIT } else { 0 };
            match self.receive(part, flags | later) {
                Ok(count) => {
                    received += count;
                    if count < part.len() || flags & libc::MSG_PEEK != 0 {
                        break;
                    }
                }
                Err(_) if received > 0 => break,
                Err(code) => return Err(code),
            }
        }
        Ok(received)
    }

    /// How much there is to be read: 0 at the end.
    fn arrived(&self, blocks: bool) -> Answer<u32> {
        let look = |_: &Endpoint, flow: &mut Flow| match flow.unread() {
            0 => match flow.phase {
                Phase::New | Phase::Listening | Phase::Opening | Phase::Refused => {
                    Some(Err(NOT_CONNECTED))
                }
                Phase::Broken => Some(Err(RESET)),
                _ if !flow.is_readable => Some(Ok(0)),
                _ => None,
            },
            there => Some(Ok(there)),
        };
        let unread = self.flow().unread();
        if unread > 0 {
            return Ok(unread);
        }
        self.wait(blocks, look)
    }

    fn consumed(&self, endpoint: &Endpoint, position: &mut u32, length: u32) {
        *position = (*position + length) % endpoint.sizes.ring;
        let mut flow = self.flow();
        flow.consume(length);
        self.update(endpoint, &mut flow);
    }
}

/// Copies from the ring, around its end.
fn copy(endpoint: &Endpoint, at: u32, bytes: &mut [u8]) {
    let before = bytes.len().min((endpoint.sizes.ring - at) as usize);
    let (one, other) = bytes.split_at_mut(before);
    endpoint.ring.read(at as usize, one);
    endpoint.ring.read(0, other);
}
